"""Tables of logs that the broker wrote with a clock that was a year ahead, and then with the right one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from persistence.files import RealDisk
from persistence.log.routing.logs import RoutingOptions
from spark_analytics.arrow import read_arrow
from tests.persistence.log.routing_support import NODE, START_US, RoutingNode
from tests.persistence.log.support import SMALL, Node, message

from .encoder import name

YEAR_US = 365 * 86_400_000_000
HOUR_US = 3_600_000_000
#: What each life of the broker finds its clock at, and so what the eight records of each should say.
STARTS = [START_US, START_US + HOUR_US, START_US + YEAR_US, START_US + 2 * HOUR_US, START_US + 3 * HOUR_US]
QUEUE = "0123456789abcdef" * 2


def expected() -> list[int]:
    return [start + number * 60_000_000 for start in STARTS for number in range(8)]


@pytest.fixture(scope="module", params=["clean", "killed"])
def data(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Each life writes eight records, a minute apart; it stops, or is killed."""
    data = tmp_path_factory.mktemp("clock")
    (data / "amqp-router.json").write_text(json.dumps({"layout": 1, "store_id": NODE, "made_by": "test"}))
    disk = RealDisk()
    for life, start in enumerate(STARTS):
        node = Node(disk, SMALL, str(data))
        node.now_us = start
        make = node.catalog.open if life else node.catalog.create
        log = make(QUEUE, "/", "q", {})
        node.catalog.quarantine_unknown([QUEUE])
        for number in range(8):
            node.now_us = start + number * 60_000_000
            log.append(message(b"%d" % (life * 8 + number) + b"*" * 300), node.now_us)
            node.settle()
        if request.param == "clean":
            node.catalog.stop()
    for life, start in enumerate(STARTS):
        routing = RoutingNode(disk, RoutingOptions(partitions=1, days=1000), str(data), start)
        names = json.dumps(name("x", "q")).encode()
        routing.entries["x", b"k", "q"] = routing.log.entry("x", b"k", names)
        for number in range(8):
            routing.tick.now_us = start + number * 60_000_000
            routing.note(size=life * 8 + number)
            routing.pass_time()
        if request.param == "clean":
            routing.logs.stop()
    # The marks are those of the routing log alone; without them all that is there counts.
    (data / "synced").unlink()
    return data


def moments() -> list[int | None]:
    times = sorted(expected())
    return [None, times[0], times[9], times[16] + 1, times[20], times[31] - 1, times[32], times[39]]


def windows() -> list[tuple[int | None, int | None]]:
    starts, ends = moments(), [*moments()[1:], None]
    return [(start, end) for start in starts for end in ends if start is None or end is None or start < end]


def options_of(start: int | None, end: int | None) -> dict[str, str]:
    given = {"startingTimestamp": start, "endingTimestamp": end}
    # The file of marks is missing.
    return {"failOnDataLoss": "false"} | {
        name: datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000).isoformat()
        for name, us in given.items()
        if us is not None
    }


def rows(table: Any) -> list[tuple[int, int]]:
    """Number of each record, and its time in microseconds."""
    sizes, times = table.column(0).to_pylist(), table.column(1).cast("int64").to_pylist()
    return [
        (size if isinstance(size, int) else int(bytes(size).rstrip(b"*")), time)
        for size, time in zip(sizes, times, strict=True)
    ]


@pytest.mark.parametrize("table", ["routing", "messages"])
def test_times_are_right_and_a_read_by_time_gives_exactly_those_rows(data: Path, table: str) -> None:
    columns = "body_size,timestamp" if table == "routing" else "body,timestamp"
    want = list(enumerate(expected()))
    assert rows(read_arrow(data, table=table, columns=columns, **options_of(None, None))) == want
    folder = "routing/*/0" if table == "routing" else f"queues/{QUEUE}/0"
    assert len(list(data.glob(f"{folder}/*.log"))) > 1
    for start, end in windows():
        found = rows(read_arrow(data, table=table, columns=columns, **options_of(start, end)))
        low, high = start or 0, end or 1 << 62
        assert found == [(number, time) for number, time in want if low <= time < high], (start, end)


def test_spark_gives_the_same_rows(data: Path, spark: Any) -> None:
    times = sorted(expected())
    for start, end in ((times[9], times[20]), (times[32], None)):
        frame = spark.read.format("amqp_router").options(
            path=str(data), table="messages", columns="body,timestamp", **options_of(start, end)
        )
        found = sorted(int(bytes(row[0]).rstrip(b"*")) for row in frame.load().collect())
        high = end or 1 << 62
        assert found == [number for number, time in enumerate(expected()) if start <= time < high]
