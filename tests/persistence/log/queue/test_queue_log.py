"""Appending, reading before and after the write, purging, counting; the details the model does not name."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from amqp_router.protocol.flags import ACK, LOGGED, PERSISTENT, REDELIVERED, RETURN
from persistence.errors import LogFailed
from persistence.files import RealDisk
from persistence.log.queue.queue_log import QueueLog
from persistence.options import LogOptions
from tests.persistence.log.model import writing
from tests.persistence.log.model.world import World
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill, message, unsettled


class Ears:
    def __init__(self) -> None:
        self.marks: list[int] = []
        self.errors: list[Exception] = []

    def on_high_watermark(self, log: QueueLog) -> None:
        self.marks.append(log.high_watermark)

    def on_log_failed(self, log: QueueLog, error: Exception) -> None:
        self.errors.append(error)


def opened() -> tuple[Node, QueueLog, Ears]:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    log.listener = ears = Ears()
    return node, log, ears


def test_offsets_gaps_and_flags() -> None:
    node, log, ears = opened()
    first, second, third = message(b"1"), message(b"2"), message(b"3")
    log.append(first, 10)
    assert (first.offset, first.gap) == (1, 1)  # offset 0 is the EPOCH-START
    assert first.flags == PERSISTENT | LOGGED
    log.reserve(second)
    log.append(third, 5)  # an earlier time
    assert (second.offset, second.gap, third.offset, third.gap) == (2, 0, 3, 0)
    node.settle()
    assert ears.marks == [log.end] == [log.durable]
    log.settle(first.offset, 1, ACK)
    node.sync._settles_due()
    node.settle()
    fourth = message(b"4")
    log.append(fourth, 20)
    assert (fourth.offset, fourth.gap) == (5, 1)  # offset 4 is the SETTLES batch
    assert bodies(log) == [b"3", b"4"]


def test_nothing_touches_the_disk_before_the_first_batch() -> None:
    node, _, _ = opened()
    assert node.disk.list("d/queues") == []


def test_reads_see_open_unwritten_and_written_batches() -> None:
    node, log, _ = opened()
    fill(log, 3)
    node.settle()
    fill(log, 30, first=3)  # several closed batches
    fill(log, 1, first=33)
    assert [body.split(b":")[0] for body in bodies(log)] == [b"%d" % number for number in range(34)]
    node.settle()
    assert len(bodies(log)) == 34


def test_read_limits() -> None:
    _, log, _ = opened()
    offsets = fill(log, 10)
    found, following = log.read(0, log.end, 3, 1 << 20)
    assert len(found) == 3
    assert following == offsets[3]
    found, _ = log.read(following, log.end, 100, 1)
    assert len(found) == 1
    found, following = log.read(offsets[5], offsets[7], 100, 1 << 20)
    assert [entry.offset for entry in found] == offsets[5:7]
    assert following == offsets[7]
    assert log.read(log.end, log.end, 10, 10) == ([], log.end)


def test_returns_are_counted_over_restarts() -> None:
    node, log, _ = opened()
    offsets = fill(log, 3)
    for _ in range(2):
        log.settle(offsets[1], 0, RETURN)
    node.catalog.stop()
    log = Node(node.disk).catalog.open("a")
    found, _ = log.read(0, log.end, 10, 1 << 20)
    assert [entry.delivery_count for entry in found] == [0, 2, 0]
    assert [bool(entry.flags & REDELIVERED) for entry in found] == [False, True, False]


def test_purge_keeps_what_it_is_told_to() -> None:
    node, log, _ = opened()
    offsets = fill(log, 50)
    for offset in (offsets[0], offsets[3]):
        log.settle(offset, 0, ACK)
    log.purge(offsets[10], offsets[40])
    kept = [offsets[1], offsets[2], *offsets[4:10], *offsets[40:]]
    assert unsettled(log) == kept
    node.catalog.stop()
    log = Node(node.disk).catalog.open("a")
    assert unsettled(log) == kept
    assert log.batches.state.live == len(kept)


def test_large_message_stays_in_pieces_and_comes_back() -> None:
    options = LogOptions()
    node = Node(options=options)
    log = node.catalog.create("a", "/", "q", {})
    body = bytes(range(256)) * 12_000
    fill(log, 1)
    log.append(message(body), 1)
    fill(log, 1, first=1)
    assert bodies(log)[1] == body
    node.settle()
    found = bodies(log)
    assert found[1] == body
    assert found[2].startswith(b"1:")
    assert log.read_one(2).body() == body


def test_middle_size_message_is_a_batch_of_its_own() -> None:
    node = Node(options=LogOptions())
    log = node.catalog.create("a", "/", "q", {})
    for size in (100, 400_000, 1_048_576, 100):
        log.append(message(b"x" * size), 1)
    node.settle()
    assert [len(body) for body in bodies(log)] == [100, 400_000, 1_048_576, 100]


def test_failed_sync_fences_the_log_and_no_other() -> None:
    node, log, ears = opened()
    other = node.catalog.create("b", "/", "r", {})
    fill(log, 1)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    disk.fail("sync", "/a/")
    fill(log, 2, first=1)
    node.settle()
    fill(other, 2)
    node.settle()
    disk.hook = None
    assert isinstance(log.failed, LogFailed)
    assert log.failed.errno == errno.EIO
    assert ears.errors == [log.failed]
    assert log.high_watermark == 2
    assert other.high_watermark == other.end
    with pytest.raises(LogFailed):
        fill(log, 1)
    with pytest.raises(LogFailed):
        log.purge(0, log.end)
    log.settle(1, 0, ACK)
    assert len(bodies(log)) == 3  # what can be read is read


def test_settles_alone_wait_for_their_timer() -> None:
    node, log, ears = opened()
    offsets = fill(log, 2)
    node.settle()
    log.settle(offsets[0], 0, ACK)
    node.settle()
    assert len(ears.marks) == 1
    node.run_timers()
    assert len(ears.marks) == 2


def test_closed_segments_without_live_messages_are_removed() -> None:
    node, log, _ = opened()
    offsets = fill(log, 200)
    node.settle()
    before = len(log.partition.segments)
    for offset in offsets[:-1]:
        log.settle(offset, 0, ACK)
    node.sync._settles_due()
    node.settle()
    assert before > 3
    assert len(log.partition.segments) <= 2
    assert len([n for n in node.disk.list("d/queues/a/0") if n.endswith(".log")]) == len(
        log.partition.segments
    )
    assert log.start == log.partition.segments[0].base
    assert len(bodies(log)) == 1


def test_a_deleted_log_is_not_read() -> None:
    node, log, _ = opened()
    fill(log, 3)
    node.settle()
    log.read(0, log.end, 1, 1)  # stands on a batch
    node.catalog.forget("a")
    reads: list[Callable[[], object]] = [
        lambda: log.read(0, log.end, 10, 100),
        lambda: log.read_one(1),
    ]
    for read in reads:
        with pytest.raises(LogFailed):
            read()


def test_a_round_counts_if_the_truncation_that_waited_for_it_is_refused() -> None:
    """Otherwise its batches are written again after an error, into segments that may be gone by then."""
    world = World()
    writing.append(world, 0, 5, 30)
    log = world.shadows[0].log
    assert log is not None
    world.tick()
    log.checkpoints.is_unsure = True
    with pytest.raises(LogFailed, match="a checkpoint could not be written yet"):
        world.catalog.truncate(log, 2)
    assert log.durable == log.high_watermark == log.end
    assert world.shadows[0].confirmed_below == log.end
    # One that is not refused confirms nothing of what it cuts.
    writing.append(world, 0, 5, 30)
    world.tick()
    log.checkpoints.is_unsure = False
    below = log.durable
    world.catalog.truncate(log, log.end - 1)
    assert log.durable == log.end == below
    assert world.shadows[0].confirmed_below == below


def test_a_log_at_rest_keeps_no_memory_for_its_next_batch(tmp_path: Path) -> None:
    """Each kept as much as its last batch had, up to a mebibyte, and nobody counted that."""
    node = Node(RealDisk(), LogOptions(), str(tmp_path))
    logs = [node.catalog.create(f"log-{number}", "/", f"q{number}", {}) for number in range(20)]
    for log in logs:
        fill(log, 1)
    node.settle()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for log in logs:
            fill(log, 4, 100_000, first=1)
        node.settle()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < len(logs) * 20_000
