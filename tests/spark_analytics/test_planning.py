"""Which bytes a read touches."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spark_analytics import layout
from spark_analytics.arrow import read_split
from spark_analytics.errors import CorruptLog
from spark_analytics.index import load_index
from spark_analytics.options import Selection, parse_options
from spark_analytics.planning import Split, plan
from spark_analytics.schema import arrow_schema
from spark_analytics.snapshot import take_snapshot

from .encoder import Run, name, routing_batch, routing_log, stamp, write_marks

NAMES = [name("flights", "all"), name("", "q")]
T0 = 1_700_000_000_000_000
SECOND = 1_000_000
BATCHES, EVENTS = 400, 50


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 batches of 50 events, a batch a second, in three segments of two logs."""
    data = tmp_path_factory.mktemp("planning")
    stamp(data)
    logs = routing_log(data, "/", NAMES, partitions=2)
    for log in logs:
        for number in range(BATCHES):
            at = T0 + number * SECOND
            runs = [Run(0, b"key%05d" % (n * 7919 % 99991) * 12, at + n) for n in range(EVENTS)]
            log.append(routing_batch(log.end, runs))
            if number in (150, 300):
                log.roll(index=number == 150)  # of the second one the index is missing
    write_marks(data, logs)
    return data


def planned(data: Path, selection: Selection | None = None, **options: Any) -> tuple[list[Split], list[int]]:
    """The splits of a read, and the offsets of partition 0 that they give."""
    asked = parse_options({"path": str(data), "columns": "partition,offset", **options})
    chosen = selection or asked.selection
    splits = plan(take_snapshot(asked), asked, chosen, cores=2)
    rows = [
        row["offset"]
        for split in splits
        for batch in read_split(split, asked, chosen, arrow_schema(asked.columns))
        for row in batch.to_pylist()
        if row["partition"] == 0
    ]
    return splits, rows


def size(splits: list[Split]) -> int:
    return sum(piece.end - piece.start for split in splits for piece in split.pieces)


def whole(data: Path) -> int:
    return sum(path.stat().st_size for path in data.glob("routing/*/*/*.log"))


def test_all_of_it_in_few_splits(data: Path) -> None:
    splits, rows = planned(data)
    assert len(splits) == 1  # less than is worth two tasks
    assert size(splits) == whole(data)
    assert rows == list(range(BATCHES * EVENTS))


def test_split_bytes(data: Path) -> None:
    splits, rows = planned(data, splitBytes=200_000)
    assert rows == list(range(BATCHES * EVENTS))
    assert whole(data) / 200_000 <= len(splits) <= 2 * whole(data) / 200_000
    assert max(size([split]) for split in splits) <= 300_000


def test_offsets_narrow_by_the_index(data: Path) -> None:
    low, high = 5000, 5100
    splits, rows = planned(
        data, startingOffsets={"/": {0: low, 1: low}}, endingOffsets={"/": {0: high, 1: high}}
    )
    assert rows == list(range(low, high))
    assert size(splits) <= 2 * 4 * layout.INDEX_INTERVAL_BYTES
    assert size(splits) < whole(data) / 3


def test_times_narrow_by_the_index(data: Path) -> None:
    for second in (0, 20, 151, 200, 350, 399):
        start = T0 + second * SECOND
        splits, rows = planned(data, Selection(start_us=start, end_us=start + 2 * SECOND))
        assert rows == list(range(second * EVENTS, min(second + 2, BATCHES) * EVENTS))
        assert size(splits) <= 2 * 4 * layout.INDEX_INTERVAL_BYTES


def test_times_at_the_edges_of_segments(data: Path) -> None:
    exactly = Selection(start_us=T0 + 151 * SECOND, end_us=T0 + 151 * SECOND + 1)
    assert planned(data, exactly)[1] == [151 * EVENTS]
    last = Selection(start_us=T0 + 150 * SECOND + 49, end_us=T0 + 151 * SECOND)
    assert planned(data, last)[1] == [151 * EVENTS - 1]
    assert planned(data, Selection(end_us=T0))[0] == []
    assert planned(data, Selection(start_us=T0 + 10_000 * SECOND))[1] == []


def test_times_of_segments_that_are_not_in_order(tmp_path: Path) -> None:
    """Times fall from one segment to the next, not within one, when a clock that was ahead is put right."""
    random = Random(7)
    stamp(tmp_path)
    logs = routing_log(tmp_path, "/", NAMES, partitions=2)
    times: list[int] = []
    for number in range(12):
        now = T0 + random.choice((number * 100, number * 100, 365 * 86_400, -5000)) * SECOND
        for _ in range(random.choice((1, 3, 90))):
            now += random.choice((0, 1, SECOND, 300 * SECOND))
            runs = [Run(0, b"key%05d" % (n * 7919 % 99991) * 12, now + n) for n in range(EVENTS)]
            for log in logs:
                log.append(routing_batch(log.end, runs))
            times += [now + n for n in range(EVENTS)]
        for log in logs:
            log.roll(index=number % 3 > 0)
    write_marks(tmp_path, logs)
    edges = sorted(random.sample(times, 30) + [min(times), max(times) + 1])
    pruned = 0
    for start, end in [*pairwise(edges), (edges[0], edges[-1]), (None, edges[9]), (edges[21], None)]:
        splits, rows = planned(tmp_path, Selection(start_us=start, end_us=end))
        low, high = start or 0, end or 1 << 62
        assert rows == [offset for offset, at in enumerate(times) if low <= at < high]
        pruned += size(splits) < whole(tmp_path) / 3
    assert pruned > 20


def test_a_damaged_segment_is_left_to_who_reads_it(tmp_path: Path) -> None:
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, "/", NAMES)
    for number in range(3):
        for step in range(3):
            log.append(routing_batch(log.end, [Run(0, b"k", T0 + number * 100 * SECOND + step)]))
        if number < 2:
            log.roll()
    write_marks(tmp_path, [log])
    path = log.directory / f"{0:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[-50] ^= 1  # in the header of its last batch, which would say the last time
    path.write_bytes(damaged)
    with pytest.raises(CorruptLog, match="cannot be read"):
        planned(tmp_path, Selection(start_us=T0 + 50 * SECOND))
    assert planned(tmp_path, Selection(start_us=T0 + 50 * SECOND), failOnDataLoss="false")[1] == list(
        range(3, 9)
    )


def test_partitions_and_exchanges_narrow_to_logs(data: Path) -> None:
    assert size(planned(data, partitions="0")[0]) == whole(data) // 2
    partition = layout.routing_partition("flights", 2)
    splits, _ = planned(data, exchanges="flights")
    assert {log.partition for split in splits for log in split.logs} == {partition}
    assert planned(data, Selection(partitions=frozenset([1])))[1] == []


def test_a_stale_index_is_not_believed(tmp_path: Path) -> None:
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, "/", NAMES)
    for number in range(40):
        log.append(routing_batch(log.end, [Run(0, b"%0255d" % n, T0 + number) for n in range(20)]))
    log.entries = [(rel, ms, position + 1 if position else 0) for rel, ms, position in log.entries]
    log.write_index()
    write_marks(tmp_path, [log])
    (logs,) = take_snapshot(parse_options({"path": str(tmp_path)}))
    index = load_index(logs.directory, logs.segments[0], logs.salt)
    assert len(index.entries) == 4
    assert planned(tmp_path, startingOffsets={"/": {0: 700}}, endingOffsets={"/": {0: 720}})[1] == list(
        range(700, 720)
    )


def test_planning_takes_time_in_proportion_to_the_segments(tmp_path: Path) -> None:
    costs = []
    for count in (250, 1000):
        data = tmp_path / str(count)
        stamp(data)
        (log,) = routing_log(data, "/", NAMES)
        for number in range(count):
            log.append(routing_batch(number, [Run(0, b"k", T0 + number * SECOND)]))
            log.roll()
        write_marks(data, [log])
        asked = parse_options({"path": str(data)})
        logs = take_snapshot(asked)
        spent = []
        for _ in range(5):
            began = time.process_time()
            plan(logs, asked, Selection(start_us=T0 + count // 2 * SECOND), cores=2)
            spent.append(time.process_time() - began)
        costs.append(min(spent))
    assert costs[1] < 10 * costs[0]  # 4 times, not the 16 of a plan that compares all with all
