"""Torn tails, rot, journals, versions: what a start makes of them."""

from __future__ import annotations

import copy
import errno
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from amqp_router.protocol.flags import ACK, RETURN
from persistence.errors import CorruptLog, LogFailed
from persistence.files import read_file
from persistence.log.format.checkpoint import NODE_FILE_NAME
from persistence.log.format.index import SparseIndex
from persistence.log.format.record import checkpoint_note, control_batch, settles_batch
from persistence.log.format.settles import settle_run
from persistence.log.offline.verify import ROT, TORN_TAIL, read_node_states, verify
from persistence.log.queue.idle import is_idle, roll_idle
from persistence.log.sync.journal import read_journal
from persistence.log.sync.marks import sync_marks
from persistence.options import LogOptions
from tests.persistence.log.simdisk import Inode, SimDisk
from tests.persistence.log.support import ManualClock, Node, bodies, fill, message, raw_batches

DIRECTORY = "d/queues/a/0"
FIRST = f"{DIRECTORY}/{0:020d}.log"


def inode(disk: SimDisk, path: str) -> Inode:
    found = disk.names[path]
    assert found is not None
    return found


def reopened(disk: SimDisk) -> Node:
    node = Node(copy.deepcopy(disk))
    node.catalog.open("a")
    return node


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


def contents(disk: SimDisk) -> dict[str, bytes]:
    """The logs' files."""
    return {
        name: bytes(found.now)
        for name, found in disk.names.items()
        if found is not None and "/queues/" in name
    }


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


def test_a_damaged_journal_is_read_on_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    options = LogOptions(journal_logs_min=1)
    node = Node(options=options)
    node.catalog.quarantine_unknown([])
    logs = {name: node.catalog.create(name, "/", name, {}) for name in "abc"}
    for pair in ("ab", "bc", "ca"):
        for name in pair:
            fill(logs[name], 1)
        node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    [name] = [name for name in disk.list("d") if name.endswith(".journal")]
    path = f"d/{name}"
    size = len(inode(disk, path).now)
    for at in range(0, size, 11):
        caplog.clear()
        damaged = copy.deepcopy(disk)
        inode(damaged, path).now[at] ^= 2
        again = Node(damaged, options)
        for log in "abc":
            assert len(bodies(again.catalog.open(log))) == 2
        again.catalog.quarantine_unknown("abc")
        if f"{path} at byte" in caplog.text and "a damaged entry" in caplog.text:
            assert damaged.exists(f"{path}.damaged")
        else:
            assert "no whole entry" in caplog.text
            assert at > size * 2 // 3
    # The segments have lost what only the journal has, and the journal is damaged in the middle.
    for log in "abc":
        del inode(disk, f"d/queues/{log}/0/{0:020d}.log").now[:]
    first = len(read_journal(disk, path).entries[0][1].data)
    inode(disk, path).now[first + 300] ^= 2
    outcome = {}
    again = Node(disk, options)
    for log in "abc":
        try:
            outcome[log] = len(bodies(again.catalog.open(log)))
        except CorruptLog:
            outcome[log] = -1
    assert sorted(outcome.values()) == [-1, 2, 2]
    again.catalog.quarantine_unknown("abc")
    assert disk.exists(path), "one of its logs could not be opened"


def test_rot_below_a_synced_position_stops_the_log_and_changes_nothing() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    for number in range(5):
        fill(log, 1, first=number)
        node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, FIRST).now[200] ^= 1
    before = bytes(inode(disk, FIRST).now)
    with pytest.raises(CorruptLog) as caught:
        reopened(disk)
    assert caught.value.path == FIRST
    assert caught.value.position <= 200
    again = Node(disk)
    with pytest.raises(CorruptLog):
        again.catalog.open("a")
    assert bytes(inode(disk, FIRST).now) == before
    # The others go on.
    assert again.catalog.open("b", "/", "b").batches.state.live == 0
    problem = verify(DIRECTORY, disk).problem
    assert problem is not None
    assert problem.kind == ROT


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


def test_bad_batch_in_a_closed_segment_is_rot() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 60)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    assert len(log.partition.segments) > 1
    disk.unlink(f"{DIRECTORY}/checkpoint")
    del inode(disk, FIRST).now[-1:]
    with pytest.raises(CorruptLog, match="synced"):
        reopened(disk)


def test_rot_is_seen_when_it_is_read() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 5)
    node.catalog.stop()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, FIRST).now[-3] ^= 1
    log = Node(disk).catalog.open("a")
    with pytest.raises(LogFailed) as caught:
        log.read(0, log.end, 10, 1000)
    assert isinstance(caught.value.__cause__, CorruptLog)
    with pytest.raises(LogFailed):
        log.append(message(b"x"), 0)


def test_missing_segment_is_rot() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 100)
    node.settle()
    disk = node.disk
    disk.unlink(log.partition.segments[1].path)
    with pytest.raises(CorruptLog, match="missing"):
        Node(disk).catalog.open("a")


def test_rotten_checkpoint_stops_the_log() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 100)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, f"{DIRECTORY}/checkpoint").now[40] ^= 1
    with pytest.raises(CorruptLog, match="checksum of a checkpoint"):
        Node(disk).catalog.open("a")


def test_another_format_version_is_refused() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 1)
    node.catalog.stop()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    description = inode(disk, "d/queues/a/log.json")
    description.now[:] = bytes(description.now).replace(b'"version": 2', b'"version": 7')
    with pytest.raises(
        CorruptLog, match="format version 7, this release reads 0 to 2; start the amqp-router release"
    ):
        Node(disk).catalog.open("a")


def test_journal_brings_back_what_the_segments_lost() -> None:
    options = LogOptions(segment_bytes_max=4000, journal_logs_min=1)
    node = Node(options=options)
    logs = [node.catalog.create(name, "/", name, {}) for name in "abc"]
    for log in logs:
        fill(log, 5)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    assert [name for name in disk.list("d") if name.endswith(".journal")]
    assert all(log.high_watermark == log.end for log in logs)
    for name in "abc":
        del inode(disk, f"d/queues/{name}/0/{0:020d}.log").now[100:]
    again = Node(disk, options)
    for name in "abc":
        log = again.catalog.open(name)
        assert len(bodies(log)) == 5
        assert again.catalog.reports[name].replayed_batches >= 1
    again.catalog.quarantine_unknown("abc")
    assert not [name for name in disk.list("d") if name.endswith(".journal")]


def test_a_journal_that_cannot_be_removed_fences_no_log() -> None:
    node = Node(options=LogOptions(journal_logs_min=1))
    logs = [node.catalog.create(name, "/", name, {}) for name in ("a", "b")]
    for log in logs:
        fill(log, 2)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    disk.fail("unlink", ".journal")
    fill(logs[0], 1, first=2)
    node.sync._begin(drain_journal=True)
    node.settle()
    assert not logs[0].failed
    assert logs[0].high_watermark == logs[0].end
    disk.hook = None
    again = Node(disk)
    for name, count in (("a", 3), ("b", 2)):
        assert len(bodies(again.catalog.open(name))) == count
    again.catalog.quarantine_unknown(["a", "b"])
    assert not [name for name in disk.list("d") if name.endswith(".journal")]


def test_idle_journal_is_removed_once_its_logs_are_synced() -> None:
    node = Node(options=LogOptions(journal_logs_min=1))
    for name in "abc":
        fill(node.catalog.create(name, "/", name, {}), 2)
    node.settle()
    assert [name for name in node.disk.list("d") if name.endswith(".journal")]
    node.run_timers()
    assert not [name for name in node.disk.list("d") if name.endswith(".journal")]


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


def killed_node(logs: int, *, drained: bool) -> SimDisk:
    """What a killed process with so many logs leaves: all confirmed, by segments or by a journal alone."""
    disk = SimDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    node = Node(disk, LogOptions(sync_all_logs_min=4, new_logs_per_round=100))
    node.catalog.quarantine_unknown([])
    for number in range(logs):
        fill(node.catalog.create(f"a{number}", "/", f"q{number}", {}), 3)
    node.settle()
    if drained:
        node.sync._begin(drain_journal=True)
        node.settle()
    return copy.deepcopy(disk)


def start_after_kill(disk: SimDisk, logs: int) -> tuple[Node, Counter[str]]:
    """The start, and its operations on queues' files."""
    done: Counter[str] = Counter()

    def count(operation: str, path: str) -> None:
        if "/queues" in path or operation == "sync_file_system":
            done[operation] += 1

    disk.hook = count
    node = Node(disk, LogOptions(sync_all_logs_min=4))
    names = [f"a{number}" for number in range(logs)]
    for name in names:
        node.catalog.open(name)
    node.catalog.quarantine_unknown(names)
    disk.hook = None
    return node, done


def test_a_start_after_a_kill_at_rest_syncs_nothing_that_the_marks_know() -> None:
    _, done = start_after_kill(killed_node(8, drained=True), 8)
    del done["read"]
    assert not +done


@pytest.mark.parametrize("seed", range(3))
def test_a_start_after_a_kill_syncs_many_logs_at_once(seed: int) -> None:
    """And what it says is there survives the power failure after it."""
    node, done = start_after_kill(killed_node(8, drained=False), 8)
    assert done["sync_file_system"] == 1
    assert not done["sync"] + done["sync_directory"] + done["create"] + done["rename"]
    assert isinstance(node.disk, SimDisk)
    node.disk.power_loss(Random(seed))
    again, _ = start_after_kill(node.disk, 8)
    assert [len(bodies(log)) for log in again.catalog.logs.values()] == [3] * 8


def test_when_the_file_system_reports_an_error_each_log_finds_out_for_itself() -> None:
    disk = killed_node(8, drained=False)

    def hook(operation: str, path: str) -> None:
        if operation == "sync_file_system" or (operation == "sync" and "/a3/" in path):
            raise OSError(errno.EIO, "simulated", path)

    disk.hook = hook
    node = Node(disk, LogOptions(sync_all_logs_min=4))
    names = [f"a{number}" for number in range(8)]
    for name in names:
        node.catalog.open(name)
    node.catalog.quarantine_unknown(names)
    disk.hook = None
    assert [name for name, log in node.catalog.logs.items() if log.failed] == ["a3"]
    # The journal, which alone has what that log has lost, stays; and so does the promise.
    assert [name for name in disk.list("d") if name.endswith(".journal")]
    disk.power_loss(Random(1))
    again, _ = start_after_kill(disk, 8)
    assert [len(bodies(log)) for log in again.catalog.logs.values()] == [3] * 8


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


@pytest.mark.parametrize("what", ["attributes", "kind", "settle", "control"])
def test_what_another_release_wrote_is_refused(what: str) -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    fill(log, 1)
    node.settle()
    size = log.partition.active.size
    batch = control_batch(checkpoint_note(0, 0), log.end, log.end, 1, 1)
    if what == "settle":
        batch = settles_batch([settle_run(1, 1, 9, 0)], log.end, log.end, 1, 1)
    elif what == "attributes":
        batch.attributes = 8
    elif what == "kind":
        batch.kind = 7
    else:
        batch.pieces = [b"\x09" + bytes(batch.pieces[0][1:])]
    disk = node.disk
    assert isinstance(disk, SimDisk)
    inode(disk, FIRST).now += batch.pack_header(0, log.partition.salt) + b"".join(batch.pieces)
    before = contents(disk)
    with pytest.raises(CorruptLog, match="not known") as caught:
        Node(disk).catalog.open("a")
    assert (caught.value.path, caught.value.position) == (FIRST, size)
    assert contents(disk) == before


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


def test_a_rotten_checkpoint_of_the_node_costs_a_scan() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    for offset in fill(log, 200)[:150]:
        log.settle(offset, 0, ACK)
    node.catalog.stop()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    for damage in (lambda now: now.__setitem__(40, now[40] ^ 1), lambda now: now.__delitem__(slice(9, None))):
        damage(inode(disk, f"d/{NODE_FILE_NAME}").now)
        again = reopened(disk)
        log = again.catalog.logs["a"]
        assert not again.catalog.was_clean
        assert len(bodies(log)) == log.batches.state.live == 50
        assert log.redelivered_floor == log.end
        again.catalog.stop()
        assert Node(again.disk).catalog.was_clean


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


def test_verify_compares_the_files_with_the_checkpoints() -> None:
    """Every byte that is there may be as written while whole segments are not there."""
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    for number in range(20):
        fill(log, 10, first=number)
        node.settle()
    segments = log.partition.segments
    assert len(segments) > 3
    active = segments[-1].path
    node.catalog.stop()
    states = read_node_states("d", node.disk)

    def problem_of(change: str, path: str) -> str:
        disk = copy.deepcopy(node.disk)
        assert isinstance(disk, SimDisk)
        if change == "unlink":
            disk.unlink(path)
        elif change == "cut":
            del inode(disk, path).now[-5:]
        else:
            file = disk.open(path, write=True, create=True)
            file.truncate(0)
            file.write([change.encode()], 0)
            file.close()
        problem = verify(DIRECTORY, disk, states).problem
        with pytest.raises(CorruptLog) as caught:
            reopened(disk)
        assert problem is not None
        assert problem.kind == ROT
        assert problem.path == caught.value.path
        assert problem.text == caught.value.text
        assert problem.path not in problem.text
        return problem.text

    assert verify(DIRECTORY, node.disk, states).problem is None
    for segment in segments:
        assert problem_of("unlink", segment.path) == "the segment is missing"
    assert problem_of("cut", active) == "the segment ends before its recovery point"
    assert problem_of("", f"{DIRECTORY}/{9999:020d}.log") == f"the segment should begin at offset {log.end}"
    assert problem_of('{"version": 7}', "d/queues/a/log.json") == (
        "format version 7, this release reads 0 to 2; start the amqp-router release that wrote it"
    )


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
