"""Rewriting segments with few live messages."""

from __future__ import annotations

import errno

import pytest

from amqp_router.protocol.flags import ACK
from persistence.files import Disk
from persistence.log.queue.cleaner import Cleaner
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill, raw_batches, unsettled

OPTIONS = LogOptions(
    segment_bytes_max=4000, batch_bytes_max=1000, clean_bytes_min=1000, clean_slice_bytes=2000
)


def sparse() -> tuple[Node, list[int]]:
    """A log of several segments with every 25th message unsettled, and a cleaning about to begin."""
    node = Node(options=OPTIONS)
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 200)
    node.settle()
    kept = offsets[::25]
    for offset in offsets:
        if offset not in kept:
            log.settle(offset, 0, ACK)
    log.checkpoints.is_due = True
    node.sync._settles_due()
    node.settle()
    return node, kept


def test_offsets_and_bodies_stay() -> None:
    node, kept = sparse()
    log = node.catalog.logs["a"]
    before = sum(segment.size for segment in log.partition.segments[:-1])
    wanted = bodies(log)
    for _ in range(40):
        node.run_timers()
    assert node.catalog.caretaker.cleaning.segments_cleaned > 1
    assert sum(segment.size for segment in log.partition.segments[:-1]) < before / 3
    assert unsettled(log) == kept
    assert bodies(log) == wanted
    raw = b"".join(raw_batches(node.disk, log))
    assert len(raw) == sum(segment.size for segment in log.partition.segments)
    node.catalog.stop()
    log = Node(node.disk, OPTIONS).catalog.open("a")
    assert bodies(log) == wanted


def test_swap_waits_until_the_settles_it_used_are_durable() -> None:
    node, kept = sparse()
    log = node.catalog.logs["a"]
    disk = node.disk
    assert isinstance(disk, SimDisk)
    # One more settle, not yet synced, before the slices pick what stays.
    log.settle(kept[0], 0, ACK)
    swapped: list[int] = []

    def hook(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith(".log"):
            swapped.append(log.checkpoints.durable)

    before = log.checkpoints.durable
    disk.hook = hook
    for _ in range(40):
        node.run_timers()
    assert swapped
    assert min(swapped) > before


def test_what_is_skipped_is_read_in_slices() -> None:
    """64 MiB of settled batches were read in one turn, because only their headers counted: for 17 ms."""
    options = LogOptions(
        segment_bytes_max=300_000,
        batch_bytes_max=3000,
        read_bytes=3000,
        clean_bytes_min=1000,
        clean_slice_bytes=3000,
    )
    node = Node(options=options)
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 200, size=2500)
    node.settle()
    for offset in offsets[1:]:
        log.settle(offset, 0, ACK)
    node.sync._settles_due()
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    reads = 0

    def hook(operation: str, path: str) -> None:
        nonlocal reads
        reads += operation == "read" and path.endswith(".log")

    disk.hook = hook
    found = []
    for _ in range(200):
        reads = 0
        node.run_timers()
        found.append(reads)
    assert node.catalog.caretaker.cleaning.segments_cleaned == 1
    assert sum(found) > 40
    assert max(found) < 10


def test_the_worker_frees_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel frees 64 MiB when a file without a name is closed for the last time: not on the loop."""
    node, _ = sparse()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    plain = Cleaner.finish
    replaced = []

    def is_open(inode: object) -> bool:
        return any(file._inode is inode for file in disk.descriptors.values())

    def finish(self: Cleaner, on: Disk) -> None:
        old = disk.names[self.segment.path]
        plain(self, on)
        assert disk.names[self.segment.path] is not old
        assert is_open(old)
        replaced.append(old)

    monkeypatch.setattr(Cleaner, "finish", finish)
    for _ in range(40):
        node.run_timers()
    assert replaced
    assert not any(is_open(old) for old in replaced)


def test_segment_that_is_not_all_written_waits() -> None:
    """It is closed as soon as the next one begins, long before the sync has what it holds."""
    node = Node(options=OPTIONS)
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 20)
    node.settle()
    offsets += fill(log, 40)
    log.seal()
    first = log.partition.segments[0]
    assert first is not log.partition.active
    assert 0 < first.written < first.size
    for offset in offsets[:-1]:
        if offset != 7:
            log.settle(offset, 0, ACK)
    log.seal()
    assert first.live == 1
    assert log.partition.cleanable() is None
    fill(log, 1)
    node.settle()
    assert log.partition.cleanable() is first


def test_failing_rewrite_leaves_the_old_file() -> None:
    node, _ = sparse()
    log = node.catalog.logs["a"]
    disk = node.disk
    assert isinstance(disk, SimDisk)
    wanted = bodies(log)
    disk.fail("write", ".log.tmp", error=errno.ENOSPC)
    for _ in range(10):
        node.run_timers()
    disk.hook = None
    assert node.catalog.caretaker.cleaning.segments_cleaned == 0
    assert log.failed is None
    assert bodies(log) == wanted
    assert not [name for name in disk.list("d/queues/a/0") if name.endswith(".tmp")]
