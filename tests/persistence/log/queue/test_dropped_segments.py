"""Segments of which everything is settled are dropped, also those that a start finds."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from amqp_router.protocol.flags import ACK
from persistence.log.queue.idle import is_idle, roll_idle
from persistence.options import LogOptions
from tests.persistence.log.queue.recovering import DIRECTORY
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import ManualClock, Node, bodies, fill


def test_all_settled_idle_segment_is_dropped() -> None:
    node = Node(options=LogOptions(idle_roll_s=0.0))
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 5)
    node.settle()
    for offset in offsets:
        log.settle(offset, 0, ACK)
    node.sync._settles_due()
    node.settle()
    assert is_idle(log)
    node.run_timers()
    assert not [name for name in node.disk.list(DIRECTORY) if name.endswith(".log")]
    again = Node(node.disk)
    log = again.catalog.open("a")
    assert log.batches.state.live == 0
    assert log.end > offsets[-1]
    fill(log, 1)
    again.settle()
    assert len(bodies(log)) == 1


def test_of_two_checkpoints_with_one_end_that_with_fewer_segments_counts() -> None:
    """The stop finds a segment dead, no checkpoint of the log's own says so yet, and the start removes it."""
    node = Node(options=LogOptions(idle_roll_s=0.0))
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 5)
    node.settle()
    for offset in offsets:
        log.settle(offset, 0, ACK)
    node.sync._settles_due()
    node.settle()
    # The log's own checkpoint is of the end already, and lists the segment ...
    log.checkpoints.is_due = log.due.messages = True
    node.sync.commit(log)
    node.settle()
    assert log.checkpoints.offset == log.end
    # ... and the next one, without it, cannot be written.
    assert isinstance(node.disk, SimDisk)
    node.disk.fail("create", "0/checkpoint", error=errno.ENOSPC)
    node.run_timers()
    node.disk.hook = None
    node.catalog.stop()
    again = Node(node.disk)
    assert again.catalog.open("a").batches.state.live == 0
    again.catalog.quarantine_unknown(["a"])
    assert not [name for name in node.disk.list(DIRECTORY) if name.endswith(".log")]
    # Killed before a checkpoint of its own.
    log = Node(node.disk).catalog.open("a")
    assert log.batches.state.live == 0
    assert log.end > offsets[-1]


@pytest.mark.parametrize("ends_clean", [True, False])
@pytest.mark.parametrize("left", [0, 1])
def test_what_is_dead_when_a_start_finds_it_is_dropped_soon(ends_clean: bool, left: int) -> None:
    """Nothing is written to the queue after the start; without a message, none of its segments stays."""
    options = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, clean_bytes_min=2000)
    node = Node(options=replace(options, idle_roll_large_s=1e9, idle_roll_s=1e9, clean_bytes_min=1 << 30))
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 200)
    node.settle()
    for offset in offsets[: 200 - left]:
        log.settle(offset, 0, ACK)
    # The checkpoint that drops them does not get its turn.
    assert isinstance(node.disk, SimDisk)
    node.disk.fail("create", "checkpoint", error=errno.ENOSPC)
    node.sync._settles_due()
    node.settle()
    node.disk.hook = None
    if ends_clean:
        node.catalog.stop()
    else:
        node.sync.marks.close()
    assert len([name for name in node.disk.list(DIRECTORY) if name.endswith(".log")]) > 3
    clock = ManualClock(0.0)
    again = Node(node.disk, options, clock=clock)
    log = again.catalog.open("a")
    again.catalog.quarantine_unknown(["a"])
    for _ in range(3):
        for timer in clock.advance(4.0):
            timer.go_off()
        again.settle()
    assert log.batches.state.live == left
    assert len([name for name in again.disk.list(DIRECTORY) if name.endswith(".log")]) == left
    assert len(bodies(log)) == left


def test_a_few_idle_logs_are_dropped_at_a_time() -> None:
    """Each costs a checkpoint, and whoever publishes waits for the round."""
    clock = ManualClock(0.0)
    node = Node(options=LogOptions(idle_roll_s=60.0, settle_delay_ms=0), clock=clock)
    for number in range(20):
        log = node.catalog.create(f"a{number}", "/", f"q{number}", {})
        log.settle(fill(log, 1)[0], 0, ACK)
    node.settle()
    node.sync._settles_due()
    node.settle()
    dropped = []
    for seconds in (59.0, 1.0, 0.05, 0.1, 0.1, 0.1):
        for timer in clock.advance(seconds):
            timer.go_off()
        node.settle()
        dropped.append(sum(1 for log in node.catalog.logs.values() if not log.partition.active.size))
    assert dropped == [0, 8, 8, 16, 20, 20]


def test_a_queue_that_is_idle_now_and_then_leaves_no_files_behind() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    for number in range(4):
        for offset in fill(log, 3, first=number):
            log.settle(offset, 0, ACK)
        node.settle()
        node.run_timers()
        roll_idle(log)
        node.settle()
        assert node.disk.list(DIRECTORY) == ["checkpoint"]
    base = log.end
    fill(log, 1)
    node.settle()
    assert node.disk.list(DIRECTORY) == [f"{base:020d}.log", "checkpoint"]
