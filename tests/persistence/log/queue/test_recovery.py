"""The end of a log after a crash: what is torn is cut, what was confirmed is not."""

from __future__ import annotations

import copy
import errno
from random import Random

import pytest

from amqp_router.protocol.flags import ACK, RETURN
from persistence.errors import CorruptLog
from persistence.files import read_file
from persistence.log.format.checkpoint import NODE_FILE_NAME
from persistence.log.offline.verify import TORN_TAIL, verify
from persistence.log.sync.marks import sync_marks
from persistence.options import LogOptions
from tests.persistence.log.queue.recovering import DIRECTORY, FIRST, contents, inode, reopened
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill, message, raw_batches


def test_clean_stop_needs_no_scan() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 100)
    for offset in offsets[10:20]:
        log.settle(offset, 0, ACK)
    log.settle(offsets[50], 0, RETURN)
    node.catalog.stop()
    reads: list[str] = []
    node.disk.hook = lambda operation, path: reads.append(path) if operation == "read" else None  # type: ignore[attr-defined]
    again = Node(node.disk)
    log = again.catalog.open("a")
    assert not [path for path in reads if path.endswith(".log")]
    assert again.catalog.was_clean
    assert log.batches.state.live == 90
    found, end = log.read(0, log.end, 1000, 1 << 20)
    assert len(found) == 90
    assert end == log.end
    assert [entry.offset for entry in found if entry.flags & 2] == [offsets[50]]
    assert found[40].delivery_count == 1


def test_recovery_with_torn_record_at_every_byte() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 4)
    node.settle()
    kept = log.partition.active.size
    fill(log, 2, first=4)
    node.settle()
    data = read_file(node.disk, FIRST)
    for size in range(kept, len(data)):
        disk = copy.deepcopy(node.disk)
        assert isinstance(disk, SimDisk)
        del inode(disk, FIRST).now[size:]
        again = reopened(disk)
        log = again.catalog.logs["a"]
        assert [body.split(b":")[0] for body in bodies(log)] == [b"0", b"1", b"2", b"3"]
        assert log.redelivered_floor == log.end
        report = again.catalog.reports.get("a")
        assert (report.cut_bytes if report else 0) == size - kept
        fill(log, 1, first=9)
        again.settle()
        assert bodies(log)[-1].startswith(b"9:")
        assert log.epoch == 2


def with_marks() -> Node:
    """A node whose start is over: its marks stand in ``synced``."""
    node = Node()
    node.catalog.quarantine_unknown([])
    return node


def test_damage_of_a_confirmed_last_batch_at_every_byte_is_rot() -> None:
    """No batch follows that could tell that it was synced; the mark does."""
    node = with_marks()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 2)
    node.settle()
    kept = log.partition.active.size
    fill(log, 1, first=2)
    node.settle()
    for at in range(kept, log.partition.active.size):
        disk = copy.deepcopy(node.disk)
        assert isinstance(disk, SimDisk)
        inode(disk, FIRST).now[at] ^= 0x40
        before = contents(disk)
        with pytest.raises(CorruptLog, match=f"below offset {log.end} had been made durable") as caught:
            Node(disk).catalog.open("a")
        assert (caught.value.path, caught.value.position) == (FIRST, kept)
        assert contents(disk) == before


def test_damage_of_a_last_batch_that_was_not_confirmed_is_cut_and_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The process was killed between the write and the sync."""
    node = with_marks()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 2)
    node.settle()
    kept = log.partition.active.size
    fill(log, 1, first=2)
    node.sync.start_round()  # which nobody hears the end of
    size = log.partition.active.size
    for at in range(kept, size):
        disk = copy.deepcopy(node.disk)
        assert isinstance(disk, SimDisk)
        inode(disk, FIRST).now[at] ^= 0x40
        tail = bytes(inode(disk, FIRST).now[kept:])
        caplog.clear()
        log = Node(disk).catalog.open("a")
        assert len(bodies(log)) == 2
        [name] = [name for name in disk.list(DIRECTORY) if name.startswith("torn-")]
        assert read_file(disk, f"{DIRECTORY}/{name}") == tail
        [record] = caplog.records
        assert f"{FIRST} at byte {kept}: a torn tail of {size - kept} bytes" in record.getMessage()
        assert name in record.getMessage()


def test_a_torn_tail_is_cut_without_a_copy_when_the_disk_is_full() -> None:
    node = with_marks()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 2)
    node.settle()
    fill(log, 1, first=2)
    node.sync.start_round()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    del inode(disk, FIRST).now[-1:]
    disk.fail("write", ".cut.tmp", error=errno.ENOSPC)
    log = Node(disk).catalog.open("a")
    assert len(bodies(log)) == 2
    assert not [name for name in disk.list(DIRECTORY) if name.startswith("torn-")]


def test_a_damaged_log_stays_damaged_with_the_next_starts() -> None:
    """A start writes new marks; what they said of a log that it cannot open must not be lost."""
    node = with_marks()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 3)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, FIRST).now[-1] ^= 1
    before = contents(disk)
    for is_clean in (False, True, True):
        node = Node(disk)
        with pytest.raises(CorruptLog):
            node.catalog.open("a")
        node.catalog.quarantine_unknown(["a"])
        if is_clean:
            node.catalog.stop()
        assert contents(disk) == before
    inode(disk, FIRST).now[-1] ^= 1
    assert len(bodies(Node(disk).catalog.open("a"))) == 3


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_files_missing_at_the_end_of_a_log(is_clean: bool, has_checkpoint: bool) -> None:
    node = with_marks()
    log = node.catalog.create("a", "/", "q", {})
    for number in range(20):
        fill(log, 5, first=number)
        node.settle()
    if not has_checkpoint:
        node.disk.unlink(f"{DIRECTORY}/checkpoint")
    assert len(log.partition.segments) > 2
    last = log.partition.active.path
    if is_clean:
        node.catalog.stop()
    every = [f"{DIRECTORY}/{name}" for name in node.disk.list(DIRECTORY)]
    node_state = f"d/{NODE_FILE_NAME}"
    for gone in ([last], [last, f"{DIRECTORY}/checkpoint", node_state], [*every, node_state]):
        disk = copy.deepcopy(node.disk)
        assert isinstance(disk, SimDisk)
        for path in gone:
            disk.unlink(path)
        with pytest.raises(CorruptLog):
            reopened(disk)
    for name in ("d/queues/a", DIRECTORY):
        disk = copy.deepcopy(node.disk)
        assert isinstance(disk, SimDisk)
        disk.remove_tree(name)
        with pytest.raises(CorruptLog, match="directory is missing"):
            reopened(disk)


def test_a_round_through_the_journal_witnesses_its_sync() -> None:
    """Its segments are synced later, and their batches do not tell that the ones before were durable."""
    disk = SimDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    node = Node(disk, LogOptions(journal_logs_min=1))
    node.catalog.quarantine_unknown([])
    logs = [node.catalog.create(name, "/", name, {}) for name in "ab"]
    for number in range(4):
        for log in logs:
            fill(log, 3, first=number)
        node.settle()
    node.run_timers()
    assert not [name for name in disk.list("d") if name.endswith(".journal")]
    size = len(inode(disk, FIRST).now)
    for at in range(0, size, 37):
        damaged = copy.deepcopy(disk)
        inode(damaged, FIRST).now[at] ^= 4
        with pytest.raises(CorruptLog):
            reopened(damaged)
    # Nor does it help that the power failed after the journal was removed.
    inode(disk, "d/synced").pending.clear()
    disk.power_loss(Random(1))
    for path in [name for name in disk.names if name.endswith(".journal")]:
        disk.unlink(path)
    inode(disk, FIRST).now[size // 4] ^= 4
    with pytest.raises(CorruptLog):
        reopened(disk)


def test_the_mark_from_before_a_truncation_promises_nothing() -> None:
    """The power fails before the system has written the new mark to the disk."""
    disk = SimDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    node = Node(disk)
    node.catalog.quarantine_unknown([])
    log = node.catalog.create("a", "/", "q", {})
    for number in range(4):
        fill(log, 3, first=number)
        node.settle()
    sync_marks(disk, "d")
    node.catalog.truncate(log, 7)
    end = log.end
    inode(disk, "d/synced").pending.clear()
    disk.power_loss(Random(1))
    again = Node(disk)
    assert again.catalog.open("a").end == end


def test_bad_batch_in_a_round_that_was_not_synced_is_a_tail() -> None:
    """Three batches of one round, the middle one torn: the last one knows that it was not synced."""
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 1)
    node.settle()
    kept = log.partition.active.size
    fill(log, 3, size=600, first=1)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, FIRST).now[kept + 900] ^= 1
    problem = verify(DIRECTORY, disk).problem
    assert problem is not None
    assert problem.kind == TORN_TAIL
    log = reopened(disk).catalog.logs["a"]
    assert len(bodies(log)) == 2


def test_epochs_and_raw_batches() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 3)
    node.settle()
    first_end = log.end
    node.catalog.stop()
    again = Node(node.disk)
    log = again.catalog.open("a")
    fill(log, 3)
    again.settle()
    assert log.batches.epochs.last() == 2
    assert log.batches.epochs.starts == [(1, 0), (2, first_end)]
    assert b"".join(raw_batches(again.disk, log)) == read_file(again.disk, FIRST)
    assert raw_batches(again.disk, log, log.end) == []


def test_a_torn_message_that_is_a_piece_of_a_log_is_a_tail() -> None:
    """A body may hold whole good batches of high offsets: they witness nothing about the log they are in."""
    copied = Node()
    log = copied.catalog.create("b", "/", "q", {})
    for number in range(3):
        fill(log, 1, first=number)
        copied.settle()
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    log.append(message(read_file(copied.disk, FIRST.replace("/a/", "/b/")) + b"*" * 100), 1)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, FIRST).now[-10] ^= 1
    problem = verify(DIRECTORY, disk).problem
    assert problem is not None
    assert problem.kind == TORN_TAIL
    assert bodies(reopened(disk).catalog.logs["a"]) == []
