"""A queue whose log has several partitions: made, recovered, read from outside, damaged and removed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from random import Random

import pytest

from amqp_router.log_command import check
from amqp_router.log_inspect import inspect
from amqp_router.log_salvage import salvage
from amqp_router.protocol.flags import ACK
from persistence.errors import CorruptLog
from persistence.files import RealDisk
from persistence.log.queue.queue_log import QueueLog
from persistence.options import LogOptions
from spark_analytics.arrow import read_arrow
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.support import Node, bodies, fill
from tests.spark_analytics.encoder import stamp

ID = "ab" * 16
TWO = {"x-partitions": ("I", 2)}
DIRECT = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, journal_logs_min=1000)
JOURNAL = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, journal_logs_min=1, sync_all_logs_min=1)


@pytest.fixture(params=[DIRECT, JOURNAL], ids=["direct", "journal"])
def options(request: pytest.FixtureRequest) -> LogOptions:
    found: LogOptions = request.param
    return found


def made(disk: SimDisk | RealDisk, options: LogOptions, data_dir: str = "d") -> tuple[Node, list[QueueLog]]:
    if isinstance(disk, SimDisk):
        disk.make_directory("d")
        disk.sync_directory("")
    node = Node(disk, options, data_dir)
    logs = [node.catalog.create(ID, "/", "parts", TWO, partition=number) for number in (0, 1)]
    node.catalog.quarantine_unknown([ID])
    return node, logs


def opened(disk: SimDisk | RealDisk, options: LogOptions, data_dir: str = "d") -> tuple[Node, list[QueueLog]]:
    node = Node(disk, options, data_dir)
    logs = [node.catalog.open(ID, "/", "parts", TWO, partition=number) for number in (0, 1)]
    node.catalog.quarantine_unknown([ID])
    return node, logs


def heads(log: QueueLog) -> list[int]:
    return [int(body.partition(b":")[0]) for body in bodies(log)]


def test_there_are_as_many_as_the_arguments_say() -> None:
    node, _ = made(SimDisk(), DIRECT)
    with pytest.raises(ValueError, match="queue 'parts' has 2 partitions, of which none is number 2"):
        node.catalog.create(ID, "/", "parts", TWO, partition=2)
    with pytest.raises(ValueError, match="queue 'one' has 1 partitions"):
        node.catalog.open("cd" * 16, "/", "one", {}, partition=1)


@pytest.mark.parametrize("seed", range(8))
def test_both_survive_a_crash(options: LogOptions, seed: int) -> None:
    disk = SimDisk()
    node, (first, second) = made(disk, options)
    fill(first, 30)
    offsets = fill(second, 50, first=100)
    node.settle()
    second.settle(offsets[3], 0, ACK)
    node.settle()
    fill(first, 5, first=30)  # perhaps there
    node.sync.start_round()
    disk.power_loss(Random(seed))
    _, (first, second) = opened(disk, options)
    assert heads(first)[:30] == list(range(30))
    assert heads(second) == [number for number in range(100, 150) if number != 103]
    assert (first.number, second.number) == (0, 1)


@pytest.mark.parametrize("seed", range(4))
def test_a_start_cut_short_anywhere(seed: int) -> None:
    for steps in range(80):
        disk = SimDisk()
        node, (first, second) = made(disk, JOURNAL)
        fill(first, 7)
        fill(second, 9, first=100)
        node.settle()
        disk.power_loss(Random(seed))
        disk.steps_left = steps
        with contextlib.suppress(PowerLoss):
            opened(disk, JOURNAL)
        is_done = disk.steps_left > 0
        disk.power_loss(Random(seed + 1))
        _, (first, second) = opened(disk, JOURNAL)
        assert heads(first) == list(range(7))
        assert heads(second) == list(range(100, 109))
        if is_done:
            return
    raise AssertionError("a start takes more steps")


def test_both_go_on_after_a_clean_stop(options: LogOptions) -> None:
    disk = SimDisk()
    node, logs = made(disk, options)
    for number, log in enumerate(logs):
        fill(log, 20, first=100 * number)
    node.settle()
    node.catalog.stop()
    node, logs = opened(disk, options)
    assert node.catalog.was_clean
    assert not node.catalog.reports
    for number, log in enumerate(logs):
        fill(log, 5, first=100 * number + 20)
    node.settle()
    disk.power_loss(Random(1))
    _, logs = opened(disk, options)
    assert [heads(log) for log in logs] == [list(range(25)), list(range(100, 125))]


def test_both_are_removed(options: LogOptions) -> None:
    disk = SimDisk()
    node, logs = made(disk, options)
    for log in logs:
        fill(log, 20)
    node.settle()
    node.catalog.forget(ID)
    node.settle()
    assert disk.list("d/queues") == []
    assert node.catalog.logs == {}
    node.catalog.stop()
    assert Node(disk, options).catalog.incarnations() == []


def test_one_that_is_damaged_stands_alone_and_is_not_removed_with_the_other() -> None:
    disk = SimDisk()
    node, logs = made(disk, DIRECT)
    for log in logs:
        fill(log, 20)
        node.settle()
    name = f"d/queues/{ID}/1/{0:020}.log"
    disk.unlink(name)
    disk.sync_directory(f"d/queues/{ID}/1")
    node = Node(disk, DIRECT)
    first = node.catalog.open(ID, "/", "parts", TWO)
    with pytest.raises(CorruptLog, match="/1/"):
        node.catalog.open(ID, "/", "parts", TWO, partition=1)
    node.catalog.quarantine_unknown([ID])
    assert len(bodies(first)) == 20
    node.catalog.forget(ID)
    node.settle()
    again = Node(disk, DIRECT)
    assert again.catalog.quarantine_unknown([]) == [ID]
    assert disk.exists(f"d/quarantine/{ID}/1")


def test_a_directory_that_is_missing_is_damage() -> None:
    disk = SimDisk()
    node, logs = made(disk, DIRECT)
    for log in logs:
        fill(log, 3)
    node.settle()
    node.catalog.stop()
    disk.remove_tree(f"d/queues/{ID}/1")
    node = Node(disk, DIRECT)
    node.catalog.open(ID, "/", "parts", TWO)
    with pytest.raises(CorruptLog, match="the log's directory is missing"):
        node.catalog.open(ID, "/", "parts", TWO, partition=1)


def test_readers_from_outside(tmp_path: Path, options: LogOptions) -> None:
    """Arrow, and the commands for logs, see both while the broker runs."""
    stamp(tmp_path)
    node, logs = made(RealDisk(), options, str(tmp_path))
    wanted = [
        (number, offset, "q")
        for number, log in enumerate(logs)
        for offset in fill(log, 10 + number, first=100 * number)
    ]
    node.settle()
    table = read_arrow(tmp_path, table="messages")
    columns = [table.column(name).to_pylist() for name in ("partition", "offset", "routing_key")]
    assert sorted(zip(*columns, strict=True)) == wanted
    assert set(table.column("queue").to_pylist()) == {"parts"}
    one = read_arrow(tmp_path, table="messages", partitions="1")
    assert one.num_rows == 11
    queues = [(each.name, each.id, each.waiting) for each in inspect(tmp_path).found if each.kind == "queue"]
    assert queues == [("parts", ID, 10), ("parts", f"{ID}/1", 11)]
    lines, whole = check(tmp_path)
    assert whole, lines
    assert len([line for line in lines if line.startswith("ok")]) == 2
    for number in (0, 1):
        out = tmp_path / f"out{number}"
        _, is_whole = salvage(tmp_path, f"{ID}/{number}", "/", out, lambda text: None)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert (is_whole, len(rows)) == (True, 10 + number)
    node.catalog.stop()
