"""Damage that no crash explains: the log stops, is left as it is, and ``verify`` finds it."""

from __future__ import annotations

import copy

import pytest

from amqp_router.protocol.flags import ACK
from persistence.errors import CorruptLog, LogFailed
from persistence.log.format.checkpoint import NODE_FILE_NAME
from persistence.log.format.record import checkpoint_note, control_batch, settles_batch
from persistence.log.format.settles import settle_run
from persistence.log.offline.verify import ROT, read_node_states, verify
from tests.persistence.log.queue.recovering import DIRECTORY, FIRST, contents, inode, reopened
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill, message


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
