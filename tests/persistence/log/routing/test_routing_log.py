"""The routing log: what is written, bit by bit; that it gives back what was noted; failures and recovery."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from random import Random
from struct import unpack_from
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.channel.publishing import Inflow
from persistence.clock import JUMP_US
from persistence.log.format.identity import salt_at
from persistence.log.format.index import SparseIndex
from persistence.log.format.record import parse_header
from persistence.log.offline.routing import verify_routing
from persistence.log.routing.layout import iterate_events, pack_name, partition_of, routing_id
from persistence.log.routing.logs import RoutingOptions
from persistence.log.routing.names import WideNames
from persistence.log.routing.partition import TURN_S
from persistence.log.routing.recorder import DAY_US
from persistence.log.routing.retention import begun
from tests.persistence.log.routing_support import (
    NODE,
    START_US,
    RoutingNode,
    content,
    read_all,
    segment_bases,
)
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.sync.test_marks import decode

ONE = RoutingOptions(partitions=1)


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


# -- a clock that is wrong ----------------------------------------------------------------------------------


def times_of(node: RoutingNode) -> list[int]:
    return [event.ts_us - START_US for event in read_all(node.disk, node.directory)]


@pytest.mark.parametrize("end", ["clean", "killed"])
def test_a_start_with_the_right_clock_goes_on_at_its_time(end: str) -> None:
    node = RoutingNode()
    node.note()
    node.pass_time()
    node.tick.now_us += 3_600_000_000
    node.note()
    node.pass_time()
    if end == "clean":
        node.logs.stop()
    node = RoutingNode(node.disk, now_us=START_US + 5)
    assert [text[:30] for _, _, text in node.logs.reports] == ["it was written with the system"]
    node.note()
    node.pass_time()
    node.tick.now_us += 7
    node.note()
    node.pass_time()
    assert times_of(node) == [0, 3_600_000_000, 5, 12]
    assert segment_bases(node.disk, node.directory) == [0, 2]
    assert verify_routing(node.directory, node.disk).problem is None
    again = RoutingNode(node.disk, now_us=node.tick.now_us)
    assert again.logs.reports == []


def test_a_running_clock_that_is_put_right_begins_a_segment_after_the_events_of_a_second() -> None:
    node = RoutingNode(now_us=START_US + 365 * DAY_US)
    node.note()
    node.pass_time()
    node.tick.now_us = START_US
    for step in range(3):
        node.tick.now_us += step
        node.note()
        node.pass_time()
    assert times_of(node) == [365 * DAY_US, 365 * DAY_US, 1, 3]
    assert segment_bases(node.disk, node.directory) == [0, 2]


def test_a_small_step_back_is_levelled_out() -> None:
    node = RoutingNode(now_us=START_US + JUMP_US)
    node.note()
    node.pass_time()
    node.tick.now_us = START_US
    node.note()
    node.pass_time()
    again = RoutingNode(node.disk, now_us=START_US)
    again.note()
    again.pass_time()
    assert times_of(again) == [JUMP_US] * 3
    assert segment_bases(node.disk, node.directory) == [0]


def test_a_clock_that_goes_to_and_fro_makes_a_segment_in_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [0.0]
    monkeypatch.setattr("persistence.log.routing.logs.time.monotonic", lambda: steady[0])
    node = RoutingNode()
    for number in range(100):
        node.tick.now_us = START_US + (7_200_000_000 if number % 4 < 2 else 0)
        node.note(size=number)
        node.pass_time()
        steady[0] += 72
    found = read_all(node.disk, node.directory)
    assert [event.size for event in found] == list(range(100))
    assert len(segment_bases(node.disk, node.directory)) == 3
    assert found[-1].ts_us == START_US + 7_200_000_000
    steady[0] += TURN_S
    for _ in range(2):
        node.note()
        node.pass_time()
    assert read_all(node.disk, node.directory)[-1].ts_us == START_US


# -- retention --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first_times", "expected"),
    [
        ([], []),
        ([1, 2, 3], [1, 2, 3]),
        ([1, 900, 2, 3], [1, 2, 2, 3]),
        ([900, 901, 2, 800, 3], [2, 2, 2, 3, 3]),
        ([1, 900], [1, 100]),
        ([50, 0, 1, 51], [50, 50, 50, 51]),
        ([50, 0, 900, 1, 51], [50, 50, 50, 50, 51]),
    ],
)
def test_when_segments_were_begun(first_times: list[int], expected: list[int]) -> None:
    assert begun(first_times, 100) == expected


@pytest.mark.parametrize("off_us", [365 * DAY_US, -50 * 365 * DAY_US], ids=["ahead", "behind"])
def test_a_wrong_clock_removes_nothing_that_is_young_and_keeps_nothing_that_is_old(off_us: int) -> None:
    options = RoutingOptions(partitions=1, days=2)
    disk = None
    for day in range(8):
        # One day of them the clock is wrong.
        now_us = START_US + day * DAY_US + (off_us if day == 3 else 0)
        node = RoutingNode(disk, options, now_us=now_us)
        disk = node.disk
        node.note(size=day)
        node.pass_time()
        if day == 3:
            node.tick.now_us = now_us + DAY_US
            node.note(size=day)
            node.pass_time()
            node.pass_time(3600)
            if off_us > 0:
                # As the clock was ahead by a year, it seemed old.
                assert [event.size for event in read_all(disk, node.directory)] == [3, 3]
        node.logs.stop()
    for day in range(8, 12):
        node = RoutingNode(disk, options, now_us=START_US + day * DAY_US)
        node.pass_time(3600)
        kept = [event.size for event in read_all(disk, node.directory)]
        assert kept == sorted(kept)
        assert set(range(day - 2, 8)) <= set(kept)
        assert not {size for size in kept if size < day - 4}
        node.logs.stop()


def test_the_oldest_closed_segments_go_by_size() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=2, bytes_max=16 << 20))
    first, second = sorted(["a", "b", "c", "d"], key=lambda name: partition_of(name, 2))[::3]
    assert partition_of(first, 2) != partition_of(second, 2)
    number = 0
    for step in range(60):
        node.tick.now_us += 1
        for _ in range(20_000):
            node.note(first if step % 2 else second, size=number)
            number += 1
        node.run_posted()
    node.pass_time()
    total = 0
    sizes = {}
    for recorder in node.log.recorders:
        names = [name for name in node.disk.list(recorder.directory) if not name.endswith(".index")]
        total += sum(len(content(node.disk, f"{recorder.directory}/{name}")) for name in names)
        found = read_all(node.disk, recorder.directory)
        sizes[recorder.directory] = found
        bases = segment_bases(node.disk, recorder.directory)
        assert bases[0] > 0
        stems = {name[:20] for name in node.disk.list(recorder.directory)}
        assert stems == {f"{base:020d}" for base in bases}, "names and index go with the batches"
        marks = decode(content(node.disk, "d/synced"))
        starts = [mark[5] for mark in marks.values()]
        assert bases[0] in starts
    assert total <= (16 << 20) + (2 << 20)
    assert total > 10 << 20


def test_segments_go_when_they_are_too_old_and_idle_ones_too() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, days=2))
    node.note()
    node.pass_time()
    node.tick.now_us += DAY_US
    node.pass_time(3600)  # the look of the hour closes the segment, which is idle
    assert segment_bases(node.disk, node.directory) == [0]
    node.tick.now_us += 2 * DAY_US + 1
    node.pass_time(3600)
    assert segment_bases(node.disk, node.directory) == []
    (mark,) = decode(content(node.disk, "d/synced")).values()
    assert mark[2:] == (1, 1, 0, 1), "end, segment, position, start"
    node.note()
    node.pass_time()
    assert [event.offset for event in read_all(node.disk, node.directory)] == [1]
    node.logs.stop()


def test_offsets_go_on_when_all_segments_are_gone() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, days=2))
    for _ in range(5):
        node.note()
    node.pass_time()
    node.tick.now_us += 9 * DAY_US
    node.pass_time(3600)
    node.logs.stop()
    assert segment_bases(node.disk, node.directory) == []
    node = RoutingNode(node.disk)
    node.note()
    node.pass_time()
    assert [event.offset for event in read_all(node.disk, node.directory)] == [5]


def test_logs_of_virtual_hosts_that_are_gone_age_too() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, days=2))
    other = node.logs.open("gone")
    assert other is not None
    entry = other.entry("x", b"k", b"{}")
    entry.recorder.note(entry, 1, 0)
    node.logs.stop()
    node = RoutingNode(node.disk, RoutingOptions(partitions=1, days=2))
    node.tick.now_us = START_US + 4 * DAY_US
    node.pass_time(3600)
    assert segment_bases(node.disk, entry.recorder.directory) == []


# -- the disk fails, or is slow -----------------------------------------------------------------------------


def failing(operation: str, number: int, suffix: str) -> Callable[[str, str], None]:
    """A hook that lets an operation fail for ever from its ``number``-th time on."""
    left = [number]

    def hook(what: str, path: str) -> None:
        if what == operation and path.endswith(suffix):
            if left[0] == 0:
                raise OSError(28, "No space left on device", path)
            left[0] -= 1

    return hook


@pytest.mark.parametrize("suffix", [".log", ".names", "log.json.tmp", "0"])
@pytest.mark.parametrize("operation", ["write", "sync", "create", "sync_directory"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_disk_that_fails_and_recovers(
    operation: str, number: int, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, bytes_max=16 << 20))
    node.disk.hook = failing(operation, number, suffix)
    durable = []
    sent = 0
    for step in range(6):
        for _ in range(50):
            node.note(size=sent, queue=f"q{step}")
            sent += 1
        if step == 3:
            node.tick.now_us += DAY_US
        node.pass_time()
        if decode(content(node.disk, "d/synced")):
            (mark,) = decode(content(node.disk, "d/synced")).values()
            durable = read_all(node.disk, node.directory, (mark[3], mark[4]))
            assert len(durable) == mark[2]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    recorder = node.log.recorders[0]
    assert len(errors) == recorder.stopped
    assert node.logs.backlog.bytes == 0
    # It is tried again, in vain, then with success.
    node.pass_time(60)
    node.disk.hook = None
    node.pass_time(60)
    lost = [record.args[2] for record in caplog.records if "goes on" in record.msg and record.args]
    assert not recorder.stopped
    for _ in range(50):
        node.note(size=sent)
        sent += 1
    node.pass_time()
    found = read_all(node.disk, node.directory)
    assert found[: len(durable)] == durable, "what was synced stays"
    assert len(found) + sum(lost) == sent, "events that are lost are counted"
    assert [event.offset for event in found] == list(range(len(found)))
    assert [event.size for event in found[-50:]] == list(range(sent - 50, sent))
    node.logs.stop()
    again = RoutingNode(node.disk, now_us=node.tick.now_us)
    assert again.logs.reports == []


def test_a_disk_that_fails_at_start(caplog: pytest.LogCaptureFixture) -> None:
    node = RoutingNode()
    for _ in range(10):
        node.note()
    node.logs.stop()
    disk = node.disk
    disk.hook = failing("read", 0, ".names")
    node = RoutingNode(disk)
    assert len(caplog.records) == 1
    node.note()
    node.pass_time()
    disk.hook = None
    node.pass_time(60)
    node.note()
    node.logs.stop()
    found = read_all(disk, node.directory)
    assert [event.offset for event in found] == list(range(11))


def test_publishers_wait_for_a_slow_disk() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, backlog_bytes_max=2 << 20))
    jobs: list[Callable[[], None]] = []
    node.logs._worker.submit = jobs.append  # type: ignore[method-assign]  # a thread that is slow
    inflow = Inflow()
    inflow.limit = 1000
    resumed: list[bool] = []
    inflow.resume = lambda: resumed.append(True)
    number = 0
    while not inflow.over:
        if node.note(size=number):
            node.logs.backlog.hold(inflow)
        number += 1
        assert number < 200_000
    assert node.note(size=number)
    node.logs.backlog.hold(inflow)
    for _ in range(3):
        jobs.pop(0)()
        node.run_posted()
        if not jobs:
            break
    assert resumed == [True]
    assert inflow.unsynced == 0


def test_a_stop_waits_for_the_job_under_way_and_writes_the_rest() -> None:
    node = RoutingNode()
    jobs: list[Callable[[], None]] = []
    worker: Any = node.logs._worker
    worker.submit = jobs.append

    def wait_idle() -> None:
        while jobs:
            jobs.pop(0)()

    worker.wait_idle = wait_idle
    node.note(size=1)
    node.pass_time()
    assert len(jobs) == 1
    node.note(size=2)
    node.logs.stop()
    node.run_posted()
    assert jobs == []
    assert [event.size for event in read_all(node.disk, node.directory)] == [1, 2]
    (mark,) = decode(content(node.disk, "d/synced")).values()
    assert mark[2] == 2


# -- the start ----------------------------------------------------------------------------------------------


def crashed(disk: Any) -> RoutingNode:
    """The next process, of a broker that was killed."""
    return RoutingNode(disk)


def test_a_batch_torn_at_any_byte_is_cut() -> None:
    node = RoutingNode()
    for number in range(3):
        node.note(size=number, queue=f"q{number}")
    node.pass_time()
    before = content(node.disk, f"{node.directory}/00000000000000000000.log")
    synced = content(node.disk, "d/synced")
    for number in range(3):
        node.note(size=10 + number, queue=f"r{number}")
    node.logs.stop()
    path, names = f"{node.directory}/00000000000000000000.log", f"{node.directory}/00000000000000000000.names"
    after, all_names = content(node.disk, path), content(node.disk, names)
    for length in range(len(before), len(after) + 1):
        node.disk.names[path].now[:] = after[:length]
        node.disk.names[names].now[:] = all_names
        node.disk.names["d/synced"].now[:] = synced
        again = crashed(node.disk)
        whole = length == len(after)
        assert bool(again.logs.reports) is (len(before) < length < len(after))
        assert len(content(node.disk, path)) == (length if whole else len(before))
        again.note(size=99, queue="q0")
        again.logs.stop()
        found = read_all(node.disk, node.directory)
        assert [event.size for event in found] == ([0, 1, 2, 10, 11, 12, 99] if whole else [0, 1, 2, 99])


def test_names_torn_at_any_byte_are_cut() -> None:
    node = RoutingNode()
    node.note(queue="first")
    node.pass_time()
    path, names = f"{node.directory}/00000000000000000000.log", f"{node.directory}/00000000000000000000.names"
    log, before = content(node.disk, path), content(node.disk, names)
    synced = content(node.disk, "d/synced")
    node.logs.stop()
    salt = salt_at(node.disk, node.directory)
    torn = before + pack_name(1, b'{"exchange":"x","queues":["second"]}', salt)
    for length in range(len(before), len(torn) + 1):
        node.disk.names[path].now[:] = log
        node.disk.names[names].now[:] = torn[:length]
        node.disk.names["d/synced"].now[:] = synced
        again = crashed(node.disk)
        again.note(queue="second")
        again.note(queue="third")
        again.logs.stop()
        assert content(node.disk, names)[: len(torn)] == torn
        found = read_all(node.disk, node.directory)
        assert [event.names["queues"] for event in found] == [["first"], ["second"], ["third"]]


@pytest.mark.parametrize("has_marks", [True, False])
def test_damage_in_the_middle_sets_the_segment_aside(has_marks: bool) -> None:
    node = RoutingNode()
    for number in range(5):
        node.note(size=number)
        node.pass_time()
    if not has_marks:
        node.disk.unlink("d/synced")
    path = f"{node.directory}/00000000000000000000.log"
    node.disk.names[path].now[80] ^= 1
    again = crashed(node.disk)
    ((vhost, number, text),) = again.logs.reports
    assert (vhost, number) == ("/", 0)
    assert "set aside" in text
    assert path in text
    again.note(size=9)
    again.logs.stop()
    assert [name for name in node.disk.list(node.directory) if "damaged" in name] == [
        "00000000000000000000.log.damaged",
        "00000000000000000000.names.damaged",
    ]
    found = read_all(node.disk, node.directory)
    assert [(event.offset, event.size) for event in found] == [(5, 9)]
    assert RoutingNode(node.disk).logs.reports == []


def test_what_the_mark_covers_and_is_not_there_is_damage() -> None:
    node = RoutingNode()
    node.note()
    node.pass_time()
    path = f"{node.directory}/00000000000000000000.log"
    del node.disk.names[path].now[-1]
    again = crashed(node.disk)
    assert "had been synced" in again.logs.reports[0][2]
    assert again.log.recorders[0].end == 1


@pytest.mark.parametrize("what", ["gone", "short", "foreign", "a name less"])
def test_names_that_are_missing_set_the_segment_aside(what: str) -> None:
    node = RoutingNode()
    node.note(queue="a")
    node.note(queue="b")
    node.logs.stop()
    path = f"{node.directory}/00000000000000000000.names"
    inode = node.disk.names[path]
    if what == "gone":
        del node.disk.names[path]
    elif what == "short":
        del inode.now[10:]
    elif what == "foreign":
        inode.now[8] = 1
    else:
        del inode.now[-1:]
    again = crashed(node.disk)
    assert len(again.logs.reports) == 1
    again.note(size=7)
    again.logs.stop()
    assert [(event.offset, event.size) for event in read_all(node.disk, node.directory)] == [(2, 7)]


def test_an_empty_segment_and_lone_names_are_leftovers() -> None:
    node = RoutingNode()
    node.note()
    node.logs.stop()
    for name in ("00000000000000000001.log", "00000000000000000009.names", "00000000000000000008.index"):
        node.disk.open(f"{node.directory}/{name}", write=True, create=True).close()
    again = crashed(node.disk)
    assert again.logs.reports == []
    again.note(size=3)
    again.logs.stop()
    assert [event.offset for event in read_all(node.disk, node.directory)] == [0, 1]
    assert not any(name.startswith("00000000000000000009") for name in node.disk.list(node.directory))


@pytest.mark.parametrize("seed", range(100))
def test_power_loss_at_any_step(seed: int) -> None:
    """What the mark covered is there after the next start; what is there is what was noted, in order."""
    random = Random(seed)
    disk = SimDisk()
    noted: list[Any] = []
    options = RoutingOptions(partitions=1, bytes_max=1 << 40)
    for _ in range(4):
        synced = 0
        try:
            node = RoutingNode(disk, options)
            assert not [text for _, _, text in node.logs.reports if "aside" in text]
            found = [(event.names["queues"][0], event.size) for event in read_all(disk, node.directory)]
            assert found == noted[: len(found)]
            noted = found
            synced = len(found)
            disk.steps_left = random.randint(0, 60)
            while True:
                for _ in range(random.choice([1, 5, 5, 5, 5000])):
                    event = (f"q{random.randint(0, 30)}", random.randint(0, 3))
                    noted.append(event)
                    node.note(queue=event[0], size=event[1])
                if random.random() < 0.1:
                    node.tick.now_us += DAY_US
                if random.random() < 0.7:
                    node.pass_time()
                marks = decode(content(disk, "d/synced"))
                if marks:
                    synced = next(iter(marks.values()))[2]
        except PowerLoss:
            pass
        disk.steps_left = -1
        directory = f"d/routing/{routing_id('/')}/0"
        disk.power_loss(random)
        again = RoutingNode(disk, options)
        assert not [text for _, _, text in again.logs.reports if "aside" in text]
        assert len(read_all(disk, directory)) >= synced
        again.logs.stop()
