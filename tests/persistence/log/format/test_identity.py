"""Whose a batch is: segments in the wrong log, logs of the version that had no salt."""

from __future__ import annotations

import copy
import json
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.flags import ACK
from persistence.errors import CorruptLog, LogFailed
from persistence.files import parent
from persistence.log.format.identity import salt_in, salt_of
from persistence.log.format.record import control_batch, epoch_start, parse_header
from persistence.log.offline.routing import verify_routing
from persistence.log.offline.salvage import Salvage
from persistence.log.offline.verify import ROT, verify
from persistence.log.sync.marks import Mark
from persistence.options import LogOptions
from tests.persistence.log.queue.recovering import inode
from tests.persistence.log.routing_support import RoutingNode, content
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill, raw_batches

A, B = "a" * 32, "b" * 32
ONE, TWO = f"d/queues/{A}/0", f"d/queues/{B}/0"
FIRST = f"{0:020d}.log"
BOTH = "belongs to another log: queue 'two' of virtual host '/' .*, not queue 'one' of virtual host '/'"


def two_queues(options: LogOptions | None = None) -> SimDisk:
    """Logs of the same offsets, marked and not stopped."""
    node = Node(options=options or LogOptions(segment_bytes_max=400, journal_logs_min=100))
    node.catalog.quarantine_unknown([])
    for incarnation, name in ((A, "one"), (B, "two")):
        log = node.catalog.create(incarnation, "/", name, {})
        for number in range(6):
            fill(log, 1, first=number)
            node.settle()
    for directory in (ONE, TWO):
        # Everything is scanned.
        node.disk.unlink(f"{directory}/checkpoint")
    assert isinstance(node.disk, SimDisk)
    return node.disk


def swap(disk: SimDisk, name: str) -> None:
    one, two = inode(disk, f"{ONE}/{name}"), inode(disk, f"{TWO}/{name}")
    one.now, two.now = two.now, one.now


def segments(disk: SimDisk, directory: str) -> list[str]:
    return [name for name in disk.list(directory) if name.endswith(".log")]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**63), st.integers(0, 2**32 - 1))
def test_the_salt_in_a_header(salt: int, base: int, unsynced_back: int) -> None:
    batch = control_batch(epoch_start(1, 0, bytes(16)), base, base, 5, 1)
    header = batch.pack_header(unsynced_back, salt)
    assert salt_in(header) == salt
    assert (parse_header(header, 0, salt) is None) == (parse_header(header, 0, salt ^ 1) is not None)
    assert salt_in(header[:-1]) is None
    assert salt_in(b"x" + header[1:]) is None


def test_the_salt_as_the_format_says() -> None:
    assert salt_of(A, 3) == crc32(f"/{A}/3".encode())
    assert salt_of(A, 3, "node") == crc32(f"node/{A}/3".encode())


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("marked", [True, False])
def test_swapped_segments_are_rot_and_both_logs_are_named(which: int, marked: bool) -> None:
    disk = two_queues()
    name = segments(disk, ONE)[which]
    assert segments(disk, ONE) == segments(disk, TWO)
    swap(disk, name)
    if not marked:
        disk.unlink("d/synced")
    before = {path: bytes(found.now) for path, found in disk.names.items() if found and "/queues/" in path}
    node = Node(disk)
    for incarnation in (A, B):
        with pytest.raises(CorruptLog, match="belongs to another log") as caught:
            node.catalog.open(incarnation)
        assert (caught.value.path, caught.value.position) == (f"d/queues/{incarnation}/0/{name}", 0)
    problem = verify(ONE, disk).problem
    assert problem is not None
    assert (problem.kind, problem.path, problem.position) == (ROT, f"{ONE}/{name}", 0)
    with pytest.raises(CorruptLog, match=BOTH):
        raise CorruptLog(problem.path, problem.position, problem.text)
    now = {path: bytes(found.now) for path, found in disk.names.items() if found and "/queues/" in path}
    assert now == before


def test_swapped_segments_after_a_clean_stop_are_found_when_they_are_read() -> None:
    node = Node(two_queues())
    for incarnation in (A, B):
        node.catalog.open(incarnation)
    node.catalog.stop()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    swap(disk, FIRST)
    again = Node(disk)
    log = again.catalog.open(A)
    with pytest.raises(LogFailed, match=BOTH):
        bodies(log)
    assert log.failed is not None


def test_a_batch_of_another_log_witnesses_nothing() -> None:
    """A torn tail, and behind it what once was another log's: no word on this log's syncs."""
    disk = two_queues(LogOptions())
    disk.unlink("d/synced")
    data, other = inode(disk, f"{ONE}/{FIRST}").now, inode(disk, f"{TWO}/{FIRST}").now
    size = len(data)
    data += b"?" * 100 + other[len(other) // 2 :]
    log = Node(disk).catalog.open(A)
    assert log.partition.active.size == size
    assert len(bodies(log)) == 6


def test_a_copied_log_is_still_its_own() -> None:
    """The salt is that of the incarnation, wherever the directory stands."""
    disk = two_queues()
    for path in [path for path in disk.names if path.startswith(f"d/queues/{A}/")]:
        found = disk.names[path]
        if found is None:
            continue
        copied = path.replace(f"d/queues/{A}", "e/somewhere")
        disk.make_directory(parent(copied))
        file = disk.open(copied, write=True, create=True)
        file.write([bytes(found.now)], 0)
        file.close()
    assert verify("e/somewhere/0", disk).problem is None
    assert len(list(Salvage(disk, "e/somewhere/0").messages())) == 6


def test_salvage_takes_nothing_of_another_log() -> None:
    disk = two_queues()
    name = segments(disk, ONE)[1]
    swap(disk, name)
    log = Salvage(disk, ONE, mark=Mark(1, 7, 0, 0, 0))
    assert 0 < len(list(log.messages())) < 6
    assert any("belongs to another log" in gap.where for gap in log.missing)


def test_a_checkpoint_of_another_log_is_rot() -> None:
    node = Node(two_queues())
    for incarnation in (A, B):
        log = node.catalog.open(incarnation)
        log.settle(log.read(0, log.end, 1, 1)[0][0].offset, 0, ACK)
        log.request_checkpoint()
        node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    swap(disk, "checkpoint")
    with pytest.raises(CorruptLog, match=f"{ONE}/checkpoint .*the checkpoint of another log, '{B}'"):
        Node(copy.deepcopy(disk)).catalog.open(A)
    problem = verify(ONE, disk).problem
    assert problem is not None
    assert "the checkpoint of another log" in problem.text


def test_a_log_json_of_another_log_is_made_again() -> None:
    disk = two_queues()
    path = f"d/queues/{A}/log.json"
    inode(disk, path).now = bytearray(inode(disk, f"d/queues/{B}/log.json").now)
    problem = verify(ONE, disk).problem
    assert problem is not None
    assert (problem.path, problem.text) == (path, f"this is the description of another log, '{B}'")
    node = Node(disk)
    log = node.catalog.open(A, "/", "one", {})
    assert len(bodies(log)) == 6
    node.catalog.quarantine_unknown([A, B])
    assert json.loads(bytes(inode(disk, path).now))["name"] == "one"
    assert verify(ONE, disk).problem is None


def as_version(version: int, data: bytes, salt: int = 0) -> bytes:
    """A segment as it was before; version 0 had no salt."""
    out, at = b"", 0
    while at < len(data):
        head = (
            data[at : at + 4]
            + bytes([version, 0])
            + data[at + 6 : at + 32]
            + bytes(4)
            + data[at + 36 : at + 68]
        )
        length = int.from_bytes(data[at + 8 : at + 12], "little")
        out += head + crc32(head, salt).to_bytes(4, "little") + data[at + 72 : at + length]
        at += length
    return out


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_of_an_earlier_version_is_read_and_goes_on_as_version_2(clean: bool, version: int) -> None:
    old = Node(two_queues(LogOptions()))
    old.catalog.open(A)
    if clean:
        old.catalog.stop()
    disk = old.disk
    assert isinstance(disk, SimDisk)
    segment, about = inode(disk, f"{ONE}/{FIRST}"), inode(disk, f"d/queues/{A}/log.json")
    segment.now = bytearray(as_version(version, segment.now, salt_of(A, 0) if version else 0))
    about.now = bytearray(bytes(about.now).replace(b'"version": 2', b'"version": %d' % version))
    assert verify(ONE, disk).problem is None
    node = Node(disk)
    log = node.catalog.open(A)
    node.catalog.quarantine_unknown([A, B])
    assert len(bodies(log)) == 6
    size = log.partition.active.size
    fill(log, 1, first=6)
    node.settle()
    data = bytes(inode(disk, f"{ONE}/{FIRST}").now)
    assert data[4] == version
    assert data[size + 4] == 2
    assert json.loads(bytes(inode(disk, f"d/queues/{A}/log.json").now))["version"] == 2
    assert verify(ONE, disk).problem is None
    again = Node(copy.deepcopy(disk)).catalog.open(A)
    assert [body.split(b":")[0] for body in bodies(again)] == [b"%d" % number for number in range(7)]


def test_raw_batches_of_a_leader_are_good_in_a_followers_log() -> None:
    leader = Node(options=LogOptions())
    log = leader.catalog.create(A, "/", "one", {})
    fill(log, 3)
    follower = Node(options=LogOptions()).catalog.create(A, "/", "one", {})
    for data in raw_batches(leader.disk, log):
        assert parse_header(data, 0, follower.partition.salt) is not None


def routing_logs() -> RoutingNode:
    node = RoutingNode()
    other = node.logs.open("other")
    assert other is not None
    for log, exchange in ((node.log, "x"), (other, "y")):
        entry = log.entry(exchange, b"k", json.dumps({"exchange": exchange, "queues": []}).encode())
        entry.recorder.note(entry, 5, 0)
    node.pass_time()
    node.logs.stop()
    return node


@pytest.mark.parametrize("suffix", ["log", "names"])
def test_swapped_files_of_routing_logs_are_set_aside(suffix: str) -> None:
    node = routing_logs()
    ids = [log.id for log in node.logs.logs.values()]
    one, two = (inode(node.disk, f"d/routing/{name}/0/{0:020d}.{suffix}") for name in ids)
    one.now, two.now = two.now, one.now
    problem = verify_routing(f"d/routing/{ids[0]}/0", node.disk).problem
    assert problem is not None
    assert problem.kind == ROT
    again = RoutingNode(node.disk)
    ((_, _, report),) = again.logs.reports
    assert "set aside" in report
    if suffix == "log":
        text = "the routing log of virtual host 'other'"
        assert text in problem.text
        assert text in report


def test_a_routing_log_of_another_node_is_not_this_ones() -> None:
    node = routing_logs()
    path = f"d/routing/{node.log.id}/log.json"
    about = inode(node.disk, path)
    about.now = bytearray(bytes(about.now).replace(b"a-node", b"b-node"))
    problem = verify_routing(node.directory, node.disk).problem
    assert problem is not None


def test_a_routing_log_ahead_of_the_clock_is_told_of() -> None:
    node = RoutingNode()
    node.tick.now_us += 3_600_000_000
    node.note()
    node.pass_time()
    node.logs.stop()
    again = RoutingNode(node.disk)
    ((vhost, number, text),) = again.logs.reports
    assert (vhost, number) == ("/", 0)
    assert text == (
        "it was written with the system's clock 3600 s ahead of now; "
        "a new segment from offset 1 on has the clock's time again"
    )


def test_a_routing_log_of_version_0_goes_on_as_version_2() -> None:
    node = routing_logs()
    about = inode(node.disk, f"d/routing/{node.log.id}/log.json")
    about.now = bytearray(b'{"kind": "routing", "partitions": 1, "version": 0, "vhost": "/"}')
    segment = inode(node.disk, f"{node.directory}/{FIRST}")
    segment.now = bytearray(as_version(0, segment.now))
    names = inode(node.disk, f"{node.directory}/{0:020d}.names").now
    names[4] = 0
    names[20:24] = crc32(names[24:]).to_bytes(4, "little")
    assert verify_routing(node.directory, node.disk).problem is None
    again = RoutingNode(node.disk)
    assert not again.logs.reports
    again.note("z")
    again.pass_time()
    again.logs.stop()
    assert json.loads(content(node.disk, f"d/routing/{node.log.id}/log.json"))["node"] == "a-node"
    summary = verify_routing(node.directory, node.disk)
    assert summary.problem is None
    assert (summary.events, summary.routes) == (2, 2)
    again = RoutingNode(node.disk)
    assert not again.logs.reports
    again.log.recorders[0].roll()
    again.note("z")
    again.pass_time()
    again.logs.stop()
    last = f"{2:020d}.names"
    assert content(node.disk, f"{node.directory}/{last}")[4] == 1
