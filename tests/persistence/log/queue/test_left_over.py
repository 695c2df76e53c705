"""What a start finds beside the logs of its queues: indexes, quarantine, orphans and foreign files."""

from __future__ import annotations

import pytest

from persistence.errors import CorruptLog, LogFailed
from persistence.files import read_file
from persistence.log.format.index import SparseIndex
from persistence.options import LogOptions
from tests.persistence.log.queue.recovering import DIRECTORY, FIRST, inode, reopened
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill, message


def test_index_is_rebuilt_when_its_file_is_gone_or_torn() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 100)
    node.catalog.stop()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    names = [name for name in disk.list(DIRECTORY) if name.endswith(".index")]
    assert len(names) > 2
    disk.unlink(f"{DIRECTORY}/{names[0]}")
    del inode(disk, f"{DIRECTORY}/{names[1]}").now[20:]
    log = Node(disk).catalog.open("a")
    for offset in (offsets[3], offsets[30], offsets[50], offsets[99]):
        assert log.read_one(offset).offset == offset
    index = log.partition.index_of(log.partition.segments[0])
    assert len(index) > 1


def test_unknown_directories_are_quarantined_not_deleted() -> None:
    node = Node()
    fill(node.catalog.create("a", "/", "q", {}), 1)
    fill(node.catalog.create("b", "/", "r", {}), 1)
    node.catalog.stop()
    again = Node(node.disk)
    again.catalog.open("a")
    assert again.catalog.quarantine_unknown(["a"]) == ["b"]
    assert again.catalog.incarnations() == ["a"]
    assert again.disk.list("d/quarantine/b/0")


def test_deleted_log_is_gone() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 3)
    node.settle()
    node.catalog.forget("a")
    assert node.catalog.incarnations() == []
    with pytest.raises(LogFailed):
        log.append(message(b"x"), 0)


def test_orphan_of_a_truncation_can_be_read() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    for number in range(6):
        fill(log, 1, first=number)
        node.settle()
    end = log.end
    node.catalog.truncate(log, 4, keep_as_orphan=True)
    assert log.end == 4
    assert log.batches.generation == 1
    assert [body[:2] for body in bodies(log)] == [b"0:", b"1:", b"2:"]
    orphan = next(name for name in node.disk.list(DIRECTORY) if name.startswith("orphan-"))
    assert b"5:**" in read_file(node.disk, f"{DIRECTORY}/{orphan}")
    fill(log, 1, first=77)
    node.settle()
    assert log.end < end
    assert bodies(log)[-1].startswith(b"77:")
    assert [epoch for epoch, _ in log.batches.epochs.starts] == sorted(
        {epoch for epoch, _ in log.batches.epochs.starts}
    )


def test_a_log_whose_directory_was_moved_into_quarantine_begins_anew() -> None:
    """The way out of damage: neither the node's checkpoint nor a journal speaks of the old log afterwards."""
    for is_clean in (True, False):
        node = Node(options=LogOptions(journal_logs_min=0))
        node.catalog.quarantine_unknown([])
        log = node.catalog.create("a", "/", "q", {})
        for number in range(3):
            fill(log, 3, first=number)
            node.settle()
            if number == 1:
                node.run_timers()  # the journal so far is drained
        if is_clean:
            node.catalog.stop()
        disk = node.disk
        disk.make_directory("d/quarantine")
        disk.rename("d/queues/a", "d/quarantine/a")
        again = Node(disk)
        log = again.catalog.open("a", "/", "q")
        again.catalog.quarantine_unknown(["a"])
        assert (log.batches.state.live, log.end) == (0, 0)
        fill(log, 2)
        again.settle()
        once_more = Node(disk)
        assert len(bodies(once_more.catalog.open("a", "/", "q"))) == 2
        once_more.catalog.quarantine_unknown(["a"])
        assert disk.list("d/quarantine") == ["a-moved"]
        disk.remove_tree("d/queues/a")
        with pytest.raises(CorruptLog, match="directory is missing"):
            Node(disk).catalog.open("a", "/", "q")
        assert not [name for name in disk.list("d") if name.endswith(".journal")]


def test_foreign_and_left_over_files() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 100)
    node.settle()
    for name in (
        "d/commit-x.journal",
        "d/commit-.journal",
        "d/queues/README",
        f"{DIRECTORY}/notes",
        f"{DIRECTORY}/{7:020d}.index",
        DIRECTORY + "/" + "\u0660" * 20 + ".log",
    ):
        file = node.disk.open(name, write=True, create=True)
        file.write([b"?" * 100], 0)
        file.close()
    file = node.disk.open("d/queues/a/log.json", write=True)
    file.write([b"[" * 100_000], 0)
    file.close()
    again = Node(node.disk)
    assert len(bodies(again.catalog.open("a"))) == 100
    assert again.catalog.quarantine_unknown(["a"]) == ["README"]
    assert not node.disk.exists(f"{DIRECTORY}/{7:020d}.index")
    assert node.disk.exists("d/commit-x.journal")
    assert node.disk.exists(f"{DIRECTORY}/notes")


def test_what_is_in_quarantine_stays() -> None:
    disk = SimDisk()
    for number in range(3):
        node = Node(disk)
        log = node.catalog.create("a", "/", "q", {})
        fill(log, 1 + number)
        node.settle()
        assert Node(disk).catalog.quarantine_unknown([]) == ["a"]
    assert disk.list("d/quarantine") == ["a", "a-2", "a-3"]


def test_an_index_of_another_file_is_rebuilt() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    offsets = fill(log, 200)
    node.settle()
    assert len(log.partition.segments) > 2
    index = SparseIndex(500)
    for at in range(0, 3000, 700):
        index.note(at // 100, 0, at)
    path = log.partition.segments[0].index_path
    node.disk.unlink(path)
    file = node.disk.open(path, write=True, create=True)
    file.write([index.pack()], 0)
    file.close()
    log = reopened(node.disk).catalog.logs["a"]  # type: ignore[arg-type]  # a SimDisk
    for offset in reversed(offsets):
        assert log.read_one(offset).offset == offset


def test_a_damaged_log_without_a_queue_stops_no_start() -> None:
    node = Node(options=LogOptions(journal_logs_min=0))
    log = node.catalog.create("a", "/", "q", {})
    for number in range(3):
        fill(log, 1, first=number)
        node.settle()
        node.run_timers()  # the journal is drained
    fill(log, 1, first=3)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, FIRST).now[100:120] = b"?" * 20
    before = bytes(inode(disk, FIRST).now)
    again = Node(disk)
    assert again.catalog.quarantine_unknown([]) == ["a"]
    assert bytes(inode(disk, FIRST.replace("queues", "quarantine")).now) == before
    assert not [name for name in disk.list("d") if name.endswith(".journal")]
