"""The routing log: its layout, and what is read back of what was noted."""

from __future__ import annotations

import json
from hashlib import sha256
from struct import unpack_from
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from persistence.clock import JUMP_US
from persistence.log.format.identity import salt_at
from persistence.log.format.index import SparseIndex
from persistence.log.format.record import parse_header
from persistence.log.offline.routing import verify_routing
from persistence.log.routing.layout import iterate_events, partition_of, routing_id
from persistence.log.routing.logs import RoutingOptions
from persistence.log.routing.names import WideNames
from persistence.log.routing.recorder import DAY_US
from tests.persistence.log.routing_support import (
    NODE,
    START_US,
    RoutingNode,
    content,
    read_all,
    segment_bases,
)
from tests.persistence.log.sync.test_marks import decode


def test_layout_bit_by_bit() -> None:
    node = RoutingNode()
    for _ in range(3):
        node.note("x", b"key", 5, 1)
    node.tick.now_us += 1000
    node.note("x", b"key", 5, 1)
    node.note("x", b"", 1 << 32, 2, queue="other")
    node.pass_time()
    name = sha256(b"routing\0/").hexdigest()[:32]
    assert node.directory == f"d/routing/{name}/0"
    about = json.loads(content(node.disk, f"d/routing/{name}/log.json"))
    assert about == {"version": 2, "kind": "routing", "vhost": "/", "partitions": 1, "node": NODE}
    salt = crc32(f"{NODE}/{name}/0".encode())
    one, two = b'{"exchange":"x","queues":["q"]}', b'{"exchange":"x","queues":["other"]}'
    names = bytes.fromhex("41524c4e 0100 0000 0000000000000000")
    names += (
        len(one).to_bytes(4, "little") + crc32(bytes(4) + one, salt).to_bytes(4, "little") + bytes(4) + one
    )
    number = bytes([1, 0, 0, 0])
    names += len(two).to_bytes(4, "little") + crc32(number + two, salt).to_bytes(4, "little") + number + two
    assert content(node.disk, f"{node.directory}/00000000000000000000.names") == names
    data = content(node.disk, f"{node.directory}/00000000000000000000.log")
    payload = bytes.fromhex(
        "03000000 03000000 00000000 00000000 05000000 0100 0000"
        "04000000 03000000 e8030000 00000000 05000000 0180 0000"
        "05000000 03000000 e8030000 01000000 ffffffff 0200 0000"
    )
    assert data[72:] == payload + b"key"
    header = bytes.fromhex("41524c42 0200 1800") + (72 + 75).to_bytes(4, "little")
    header += bytes.fromhex("0400 0000") + crc32(payload + b"key").to_bytes(4, "little")
    header += bytes.fromhex("03000000 0000000000000000 00000000 04000000 e8030000 00000000 0000000000000000")
    header += START_US.to_bytes(8, "little")
    crc = crc32(header[36:], crc32(header[:32], salt))
    assert data[:64] == header[:32] + crc.to_bytes(4, "little") + header[36:]
    assert data[64:72] == bytes(4) + crc32(bytes(4), crc).to_bytes(4, "little")


def test_the_mark_is_that_of_the_sync() -> None:
    node = RoutingNode()
    assert decode(content(node.disk, "d/synced")) == {}
    node.note()
    assert decode(content(node.disk, "d/synced")) == {}
    node.pass_time()
    size = len(content(node.disk, f"{node.directory}/00000000000000000000.log"))
    name = bytes.fromhex(routing_id("/"))
    assert decode(content(node.disk, "d/synced")) == {name: (0, 0, 1, 0, size, 0)}
    inode = node.disk.names[f"{node.directory}/00000000000000000000.log"]
    assert len(inode.durable) == size


#: Exchange, key, size, flags, queue, µs since the event before, and which of the five are as in that event:
#: events that differ in one thing only must not be taken for equal.
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["x", "", "ü"]),
        st.sampled_from([b"", b"a", b"a.b", b"\xff" * 255]),
        st.sampled_from([0, 1, 16, 0xFFFFFFFE, 0xFFFFFFFF, 1 << 33]),
        st.integers(0, 63),
        st.sampled_from(["q", "r"]),
        st.sampled_from([0, 0, 0, 1, 50, 10**7, 1 << 32, -5, 30 * DAY_US, -7_200_000_000, -30 * DAY_US]),
        st.sampled_from(
            [(), (0, 1, 2, 3, 4), (1, 2, 3, 4), (0, 2, 3, 4), (0, 1, 3, 4), (0, 1, 2, 4), (0, 1, 2, 3)]
        ),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(rounds=st.lists(EVENTS, max_size=6), restart=st.booleans(), partitions=st.sampled_from([1, 3]))
def test_decoding_gives_back_what_was_noted(rounds: list[Any], restart: bool, partitions: int) -> None:
    node = RoutingNode(options=RoutingOptions(partitions=partitions, days=100_000))
    wanted: list[list[Any]] = [[] for _ in range(partitions)]
    last_us = [0] * partitions
    # Whether the clock has begun a segment in this hour.
    has_turned = [False] * partitions
    before: tuple[Any, ...] = ("", b"", 0, 0, "q")
    for events in rounds:
        noted: set[int] = set()
        for *fields, step, kept in events:
            before = tuple(before[index] if index in kept else fields[index] for index in range(5))
            exchange, key, size, flags, queue = before
            node.tick.now_us += step
            for _ in range(1 + flags % 3):
                node.note(exchange, key, size, flags, queue)
                number = partition_of(exchange, partitions)
                noted.add(number)
                last_us[number] = max(last_us[number], node.tick.now_us)
                names = {"exchange": exchange, "queues": [queue]}
                event = (last_us[number], names, key, min(size, 0xFFFFFFFF), flags)
                wanted[number].append(event)
        if restart:
            node.logs.stop()
            # The number of partitions stays once there is an event.
            options = RoutingOptions(partitions=partitions + any(wanted), days=100_000)
            node = RoutingNode(node.disk, options, now_us=node.tick.now_us)
            # What was written last counts, whatever the clock was since.
            last_us = [events[-1][0] if events else 0 for events in wanted]
            ahead = [at for at in range(partitions) if last_us[at] - node.tick.now_us > JUMP_US]
            assert [(at, "ahead of now" in text) for _, at, text in node.logs.reports] == [
                (at, True) for at in ahead
            ]
            has_turned = [False] * partitions
            noted = set(ahead)
        else:
            node.pass_time()
        for number in noted:
            # Those that have events look at the clock.
            if last_us[number] - node.tick.now_us > JUMP_US and not has_turned[number]:
                last_us[number] = node.tick.now_us
                has_turned[number] = True
    node.logs.stop()
    for number, recorder in enumerate(node.log.recorders[:partitions]):
        found = read_all(node.disk, recorder.directory)
        assert [event[1:] for event in found] == wanted[number]
        assert [event.offset for event in found] == list(range(len(found)))
        own = []
        for base in segment_bases(node.disk, recorder.directory):
            data = content(node.disk, f"{recorder.directory}/{base:020d}.log")
            at = last = 0
            while at < len(data):
                header = parse_header(data, at, salt_at(node.disk, recorder.directory))
                assert header is not None
                assert header.base_ts >= last, "times fall within a segment"
                last = header.base_ts + header.max_ts_delta
                for run in iterate_events(header, data[at + 72 : at + header.length]):
                    own += [(run.ts_us, run.key, run.body_size, run.flags)] * run.events
                at += header.length
        assert own == [(event[0], *event[2:]) for event in wanted[number]]


def test_batches_are_capped_in_records_and_bytes() -> None:
    node = RoutingNode()
    for number in range(10_000):
        node.note(key=b"k", size=number)
    for number in range(5_000):
        node.note(key=b"%0250d" % number, size=1)
    node.pass_time()
    found = read_all(node.disk, node.directory)
    assert [event.size for event in found] == [*range(10_000), *[1] * 5_000]
    assert [event.key for event in found[10_000:]] == [b"%0250d" % number for number in range(5_000)]


def test_an_endless_run_of_equal_events_is_one_record() -> None:
    node = RoutingNode()
    entry = node.log.entry("x", b"k", b"{}")
    for _ in range(100_000):
        entry.recorder.note(entry, 16, 0)
    node.pass_time()
    assert len(content(node.disk, f"{node.directory}/00000000000000000000.log")) == 72 + 24 + 1
    assert len(read_all(node.disk, node.directory)) == 100_000


def test_a_mebibyte_is_written_at_once_and_synced_with_the_second() -> None:
    node = RoutingNode()
    path = f"{node.directory}/00000000000000000000.log"
    number = 0
    while not node.disk.exists(path) or not content(node.disk, path):
        node.note(size=number)
        number += 1
    assert len(content(node.disk, path)) >= 1 << 20
    node.run_posted()
    assert decode(content(node.disk, "d/synced")) == {}
    node.note(size=number)
    node.pass_time()
    found = read_all(node.disk, node.directory)
    assert [event.size for event in found] == list(range(number + 1))
    (mark,) = decode(content(node.disk, "d/synced")).values()
    assert mark[2:5] == (number + 1, 0, len(content(node.disk, path)))


def wide(first: int, count: int = 20, length: int = 200) -> WideNames:
    names = range(first, first + count)
    queues = [json.dumps(f"{number}" + "q" * length).encode() for number in names]
    bindings = [json.dumps(["x", "#", f"{number}" + "q" * length, "queue"]).encode() for number in names]
    return WideNames(b'"x"', queues, bindings, durable=count, fanout=count)


def names_size(node: RoutingNode) -> int:
    return len(content(node.disk, f"{node.directory}/00000000000000000000.names"))


def test_long_names_stand_once_in_a_segment() -> None:
    node = RoutingNode()
    for number in range(100):
        entry = node.log.entry("x", b"k%d" % number, wide(number % 50))
        entry.recorder.note(entry, number, 0)
    node.pass_time()
    assert names_size(node) < 70 * 2 * 260 + 50 * 400
    found = read_all(node.disk, node.directory)
    assert len(found) == 100
    for number, event in enumerate(found):
        expected = [f"{number % 50 + each}" + "q" * 200 for each in range(20)]
        assert event.names["queues"] == expected
        assert event.names["bindings"] == [["x", "#", name, "queue"] for name in expected]
        assert (event.names["exchange"], event.names["fanout"], event.names["durable"]) == ("x", 20, 20)
    summary = verify_routing(node.directory, node.disk)
    assert (summary.problem, summary.routes) == (None, 50)


def test_long_names_are_known_again_after_a_restart_and_written_again_in_the_next_segment() -> None:
    node = RoutingNode()
    entry = node.log.entry("x", b"k", wide(0))
    entry.recorder.note(entry, 1, 0)
    node.logs.stop()
    size = names_size(node)
    again = RoutingNode(node.disk)
    names = wide(0)
    entry = again.log.entry("x", b"k", names)
    entry.recorder.note(entry, 2, 0)
    again.pass_time()
    assert names_size(again) == size
    entry.recorder.roll()
    entry.recorder.note(entry, 3, 0)
    other = again.log.entry("x", b"other", names)
    other.recorder.note(other, 4, 0)
    again.pass_time()
    found = read_all(again.disk, again.directory)
    assert [event.size for event in found] == [1, 2, 3, 4]
    assert all(event.names == found[0].names for event in found)
    assert len(found[0].names["queues"]) == 20


def test_names_count_in_the_backlog_and_their_publisher_waits() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, backlog_bytes_max=1 << 20))
    # Nothing is written meanwhile.
    node.logs.on_bytes = lambda: None  # type: ignore[method-assign]
    waits: list[bool] = []
    for number in range(1000):
        entry = node.log.entry("x", b"k", wide(1000 * number))
        waits.append(entry.recorder.note(entry, 1, 0))
    recorder = node.log.recorders[0]
    assert not waits[0]
    assert waits[-1]
    held = sum(batch.length + sum(map(len, names)) for batch, names in recorder.closed)
    assert held <= node.logs.backlog.bytes <= 2 * held
    assert sum(waits) > 800
    node.pass_time()
    assert node.logs.backlog.bytes == 0
    assert not node.logs.backlog.full


def test_nothing_happens_while_nothing_is_published() -> None:
    node = RoutingNode()
    node.note()
    node.pass_time()
    node.pass_time()
    assert [timer for timer in node.timers if timer.seconds <= 1.0] == []


def test_a_segment_is_closed_at_its_size_with_names_and_index_of_its_own() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, bytes_max=16 << 20))
    assert node.logs._options.segment_bytes_max == 1 << 20
    for number in range(120_000):
        node.note(size=number, queue=f"q{number % 3}")
    node.pass_time()
    bases = segment_bases(node.disk, node.directory)
    assert len(bases) > 2
    assert [event.size for event in read_all(node.disk, node.directory)] == list(range(120_000))
    for base in bases[:-1]:
        data = content(node.disk, f"{node.directory}/{base:020d}.log")
        assert len(data) <= 1 << 20
        index = SparseIndex(1)
        packed = content(node.disk, f"{node.directory}/{base:020d}.index")
        assert index.unpack(packed, len(data))
        salt = salt_at(node.disk, node.directory)
        header = parse_header(data, index.position_of(20_000), salt)
        assert header is not None
        assert header.base <= base + 20_000
        assert unpack_from("<I", packed, 8)[0] == len(index) > 2
    (mark,) = decode(content(node.disk, "d/synced")).values()
    assert mark[3] == bases[-1]


def test_a_segment_is_closed_after_a_day() -> None:
    node = RoutingNode()
    node.note()
    node.pass_time()
    node.tick.now_us += DAY_US
    node.note()
    node.note()
    node.pass_time()
    assert segment_bases(node.disk, node.directory) == [0, 1]
    assert len(read_all(node.disk, node.directory)) == 3


def test_a_segment_is_closed_when_its_names_are_many() -> None:
    node = RoutingNode()
    for number in range(40):
        node.note(queue=f"{number}" * 500_000)
    node.pass_time()
    assert len(segment_bases(node.disk, node.directory)) == 3
    found = read_all(node.disk, node.directory)
    assert [event.names["queues"] for event in found] == [[f"{number}" * 500_000] for number in range(40)]


def test_partitions_stay_what_log_json_says() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=2))
    node.note()
    node.logs.stop()
    node = RoutingNode(node.disk, RoutingOptions(partitions=9))
    assert len(node.log.recorders) == 2


def test_opened_again_it_is_the_same() -> None:
    node = RoutingNode()
    assert node.logs.open("/") is node.log


def test_another_version_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    node = RoutingNode()
    node.note()
    node.logs.stop()
    path = f"d/routing/{routing_id('/')}/log.json"
    inode = node.disk.names[path]
    inode.now = bytearray(b'{"version": 3, "kind": "routing", "vhost": "/", "partitions": 1}')
    del node.logs.logs["/"]
    assert node.logs.open("/") is None
    assert "format version 3" in caplog.text


def test_names_of_lone_surrogates() -> None:
    name = b"\xff".decode("utf-8", "surrogateescape")
    assert routing_id(name) == sha256(b"routing\0\xff").hexdigest()[:32]
    assert partition_of(name, 7) == crc32(b"\xff") % 7
    node = RoutingNode()
    node.note(name, b"\xff", queue=name)
    node.pass_time()
    (event,) = read_all(node.disk, node.directory)
    assert event.names == {"exchange": name, "queues": [name]}
