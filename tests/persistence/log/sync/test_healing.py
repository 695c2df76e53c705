"""Errors that pass (no space, no descriptors): the log refuses for a while, and goes on by itself."""

from __future__ import annotations

import errno

import pytest

from amqp_router.protocol.flags import ACK
from persistence.errors import LogFailed, is_passing
from persistence.files import FileCache
from persistence.log.queue.queue_log import QueueLog
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.log.queue.test_page_log import page, page_files, page_log
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill


class Ears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_high_watermark(self, log: QueueLog) -> None:
        self.heard.append("durable")

    def on_log_failed(self, log: QueueLog, error: Exception) -> None:
        self.heard.append("passing" if log.passing else "failed")

    def on_log_resumed(self, log: QueueLog) -> None:
        self.heard.append("resumed")


def opened(options: LogOptions | None = None) -> tuple[Node, SimDisk, QueueLog, Ears]:
    node = Node() if options is None else Node(options=options)
    log = node.catalog.create("a", "/", "q", {})
    log.listener = ears = Ears()
    fill(log, 3)
    node.settle()
    ears.heard.clear()
    assert isinstance(node.disk, SimDisk)
    return node, node.disk, log, ears


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_log_goes_on_with_what_it_could_not_write(operation: str) -> None:
    node, disk, log, ears = opened()
    disk.fail(operation, ".log", error=errno.ENOSPC)
    fill(log, 40, first=3)
    node.settle()
    node.run_timers()  # an attempt that fails
    assert ears.heard == ["passing"]
    with pytest.raises(LogFailed):
        fill(log, 1)
    log.settle(1, 0, ACK)
    wanted = bodies(log)
    assert len(wanted) == 42
    disk.hook = None
    node.run_timers()
    assert ears.heard == ["passing", "resumed", "durable"]
    fill(log, 1, first=43)
    node.settle()
    node.sync._settles_due()
    node.settle()
    assert bodies(log)[:42] == wanted
    wanted = bodies(log)
    node.catalog.stop()
    assert bodies(Node(disk).catalog.open("a")) == wanted


def test_error_of_the_device_stays_until_a_restart() -> None:
    node, disk, log, ears = opened()
    disk.fail("sync", ".log", error=errno.EIO, once=True)
    fill(log, 1)
    node.settle()
    for _ in range(5):
        node.run_timers()
    assert ears.heard == ["failed"]
    assert log.failed is not None


def test_damage_by_a_failed_sync_is_no_passing_error() -> None:
    """Its pages are dropped, and reading gives what was there before."""
    node, disk, log, ears = opened()
    other = node.catalog.create("b", "/", "r", {})
    for each in (log, other):
        fill(each, 1, first=3)
    node.settle()  # by the journal: the segments are not synced
    disk.fail("sync", "/a/0/", error=errno.ENOSPC)
    node.run_timers()
    assert "passing" in ears.heard
    path = log.partition.active.path
    inode = disk.names[path]
    assert inode is not None
    inode.now = bytearray(inode.durable)
    disk.hook = None
    node.run_timers()
    assert ears.heard[-1] == "failed"
    assert isinstance(disk, SimDisk)
    # What was confirmed stands in the journal, and the next start has it.
    assert len(bodies(Node(disk).catalog.open("a"))) == 4


def test_checkpoint_that_cannot_be_written_fences_nothing() -> None:
    node, disk, log, ears = opened()
    disk.fail("create", "checkpoint", error=errno.ENOSPC)
    offsets = fill(log, 150, first=3)
    node.settle()
    for offset in range(1, offsets[-1]):
        log.settle(offset, 0, ACK)
    node.sync._settles_due()
    node.settle()
    assert log.failed is None
    assert ears.heard == ["durable"] * len(ears.heard)
    files = len([name for name in disk.list("d/queues/a/0") if name.endswith(".log")])
    assert files > 2
    disk.hook = None
    node.run_timers()
    assert len([name for name in disk.list("d/queues/a/0") if name.endswith(".log")]) < files
    assert len(bodies(log)) == 1


def test_removed_and_rewritten_segments_are_not_held_open() -> None:
    options = LogOptions(
        segment_bytes_max=4000, batch_bytes_max=1000, clean_bytes_min=1000, clean_slice_bytes=2000
    )
    node, disk, log, _ = opened(options)
    offsets = fill(log, 200)
    node.settle()
    bodies(log)
    for offset in offsets:
        if offset % 25:
            log.settle(offset, 0, ACK)
    node.sync._settles_due()
    for _ in range(40):
        node.run_timers()
    assert node.catalog.caretaker.cleaning.segments_cleaned > 1
    assert len(node.sync.committer.files) == 1
    node.catalog.forget("a")
    node.settle()
    assert disk.open_files == 0


def test_cleaning_does_not_wait_for_a_checkpoint() -> None:
    options = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, clean_bytes_min=1000)
    node, _, log, _ = opened(options)
    offsets = fill(log, 100)
    node.settle()
    node.run_timers()
    kept = {segment.base + 3 for segment in log.partition.segments}
    for offset in offsets[:-40]:
        if offset not in kept:
            log.settle(offset, 0, ACK)
    assert not log.checkpoints.is_due
    node.sync._settles_due()
    node.settle()
    for _ in range(8):
        node.run_timers()
    assert node.catalog.caretaker.cleaning.segments_cleaned > 0


def test_round_of_deleted_new_logs_does_not_leave_the_rest() -> None:
    node = Node(options=LogOptions(new_logs_per_round=2))
    logs = [node.catalog.create(name, "/", name, {}) for name in "abcdefgh"]
    for log in logs:
        fill(log, 1)
    for name in "abcdef":
        node.catalog.forget(name)
    node.settle()
    assert [log.durable for log in logs[6:]] == [2, 2]


def test_cleaner_and_remover_outlive_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    for name in "abcdefgh":
        fill(node.catalog.create(name, "/", name, {}), 1)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    real = disk.rename
    monkeypatch.setattr(disk, "rename", lambda old, new: real(old, new) if "/e" in old else 1 / 0)
    for name in "abcdefgh":
        node.catalog.forget(name)
        node.settle()
    assert "d/queues/e" not in disk.names


def test_transient_messages_wait_in_memory_for_space() -> None:
    disk = SimDisk()
    options = LogOptions(batch_bytes_max=1000, page_bytes_max=5000)
    log = page_log("q", page_files(disk, MemoryBudget()), options=options)
    taken = []
    disk.fail("write", "paging", error=errno.ENOSPC)
    for offset in range(100):
        try:
            log.append(page(offset, b"%d" % offset * 30))
        except LogFailed as error:
            assert is_passing(error)  # noqa: PT017 - most are refused, not all
        else:
            taken.append(offset)
    assert 0 < len(taken) < 30
    assert [entry.offset for entry in log.read(0, 100, 5, 1 << 20)[0]] == taken[:5]
    disk.hook = None
    for offset in range(100, 200):
        log.append(page(offset, b"%d" % offset * 30))
        taken.append(offset)
    seen = []
    following = 0
    while following < 200:
        found, following = log.read(following, 200, 7, 1 << 20)
        seen += [entry.offset for entry in found]
        log.drop_below(following)
    assert seen == taken


def test_open_files_make_room_when_the_process_has_no_more() -> None:
    disk = SimDisk()
    cache = FileCache(disk, 100, write=True)

    def hook(operation: str, path: str) -> None:
        if operation == "create" and disk.open_files >= 8:
            raise OSError(errno.EMFILE, "simulated", path)

    disk.hook = hook
    for number in range(50):
        cache.get(f"f{number}", create=True)
    cache.close()
    assert disk.open_files == 0


@pytest.mark.parametrize("segments", [1, 2])
def test_attempt_that_fails_leaves_no_segments_of_the_one_before(segments: int) -> None:
    """A start would refuse the log: behind a segment that ends early, another one stood."""
    node, disk, log, ears = opened()
    base = log.partition.active.base
    fill(log, 150, first=3)
    disk.fail("sync_directory", "/a/0", error=errno.ENOSPC, after=2)
    node.settle()
    assert ears.heard == ["passing"]
    later = [segment.base for segment in log.partition.segments if segment.base > base]
    assert len(later) > 2
    # The next attempt ends for good, with fewer segments.
    disk.fail("write", f"{later[segments - 1]:020d}.log", error=errno.EIO, after=1, once=True)
    node.run_timers()
    assert ears.heard == ["passing", "failed"]
    disk.hook = None
    disk.forget_files()
    assert len(bodies(Node(disk).catalog.open("a"))) >= 3
