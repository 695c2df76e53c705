"""Batches out of raw frames, and raw frames out of batches."""

from __future__ import annotations

import contextlib
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import encode_properties
from persistence.log.format.messages import BatchView, MessagesBuilder, live_batch, message_offsets
from persistence.log.format.record import (
    EXPIRE_MS_MAX,
    HEADER_SIZE,
    MESSAGES,
    NO_EXPIRY,
    Batch,
    control_batch,
    epoch_start,
    iterate_settles,
    parse_control,
    parse_header,
    purge,
    settles_batch,
)
from persistence.log.format.settles import SettleState, settle_run

SALT = 0x12345678
ROUTES = st.sampled_from((b"\x00\x01q", b"\x01e\x02kk", b"\x00\x00"))
PARTS = st.tuples(
    ROUTES,
    st.builds(
        lambda text, priority, expire_ms: encode_properties(
            {"content_type": text, "priority": priority, "expiration": str(expire_ms)}
        ),
        st.text(max_size=30),
        st.integers(0, 255),
        st.integers(0, 315_360_000_000),
    ),
    st.binary(max_size=300),
    st.integers(0, 3),
    st.integers(0, 65535),
)


def packed(batch: Batch, unsynced_back: int = 0) -> bytes:
    data = b"".join([batch.pack_header(unsynced_back, SALT), *batch.pieces])
    assert len(data) == batch.length
    return data


def build(
    parts: list[tuple[bytes, bytes, bytes, int, int]], frame_max: int = 100
) -> tuple[list[Message], Batch]:
    builder = MessagesBuilder()
    builder.begin(10, 1000)
    messages = []
    offset = 10
    for route, properties, body, gap, returns in parts:
        made = build_message(route, properties, body, frame_max)
        made.flags = 1
        made.delivery_count = returns
        made.offset = offset = offset + gap
        builder.add(made, offset, 1000 + offset)
        messages.append(made)
        offset += 1
    return messages, builder.close(offset + 2, 7)


def same(view: BatchView, messages: list[Message]) -> None:
    for made in messages:
        found = view.message_at(made.offset)
        assert found is not None
        assert found.offset == made.offset
        assert found.route == made.route
        assert found.properties() == made.properties()
        assert found.body() == made.body()
        assert found.body_size == made.body_size
        assert found.delivery_count == made.delivery_count
        assert found.priority == made.priority
        assert found.flags == 5
        assert view.timestamp_us() == 1000 + made.offset
        assert found.size() == build_message(made.route, made.properties(), made.body()).size()


@given(st.lists(PARTS, min_size=1, max_size=20))
def test_messages_come_back(parts: list[tuple[bytes, bytes, bytes, int, int]]) -> None:
    messages, batch = build(parts)
    header = parse_header(packed(batch, 5), 0, SALT)
    assert header is not None
    assert (header.base, header.last, header.records, header.epoch) == (10, batch.last, len(parts), 7)
    assert header.unsynced_back == 5
    view = BatchView()
    view.open_pieces(batch)
    same(view, messages)
    view.open_data(b"xyz" + packed(batch), 3, header)
    same(view, messages)
    same(view, messages)  # again: it goes back to the start
    data = packed(batch)
    assert message_offsets(data[HEADER_SIZE:], 32, 10, len(parts)) == [made.offset for made in messages]


@given(st.lists(PARTS, min_size=1, max_size=12), st.randoms())
def test_live_batch_keeps_what_is_unsettled(
    parts: list[tuple[bytes, bytes, bytes, int, int]], random: object
) -> None:
    messages, batch = build(parts)
    state = SettleState()
    kept = []
    for made in messages:
        if random.random() < 0.5:  # type: ignore[attr-defined]
            state.settle(made.offset)
        else:
            kept.append(made)
    data = packed(batch)
    header = parse_header(data, 0, SALT)
    assert header is not None
    rest = live_batch(header, data[HEADER_SIZE:], state, 4)
    data = packed(rest)
    header = parse_header(data, 0, SALT)
    assert header is not None
    assert (header.base, header.last, header.records) == (4, batch.last, len(kept))
    view = BatchView()
    if kept:
        view.open_data(data, 0, header)
        same(view, kept)


def test_equal_routes_are_stored_once() -> None:
    _, batch = build([(b"\x00\x01q", b"\x00\x00", b"a", 0, 0)] * 3)
    assert batch.pieces[1] == b"\x00\x01q"


def test_the_header_is_the_same_on_every_node_but_for_its_last_field() -> None:
    _, batch = build([(b"\x00\x01q", b"\x00\x00", b"a", 0, 0)])
    one, other = packed(batch, 5), packed(batch, 0xFFFFFFFF)
    assert one[:64] + one[72:] == other[:64] + other[72:]
    for data, unsynced_back in ((one, 5), (other, 0xFFFFFFFF)):
        header = parse_header(data, 0, SALT)
        assert header is not None
        assert header.unsynced_back == unsynced_back == int.from_bytes(data[64:68], "little")


@pytest.mark.parametrize("version", [0, 1])
def test_headers_of_earlier_versions_are_read(version: int) -> None:
    """Their checksum covers ``unsynced_back``, which comes before it; that of version 0 has no salt."""
    _, batch = build([(b"\x00\x01q", b"\x00\x00", b"a", 0, 0)])
    data = bytearray(packed(batch))
    data[4] = version
    data[32:36] = bytes(4)
    data[64:68] = (77).to_bytes(4, "little")
    data[68:72] = crc32(data[:68], SALT if version else 0).to_bytes(4, "little")
    header = parse_header(bytes(data), 0, SALT)
    assert header is not None
    assert (header.unsynced_back, header.base) == (77, batch.base)
    for at in range(HEADER_SIZE):
        broken = bytearray(data)
        broken[at] ^= 64
        assert parse_header(bytes(broken), 0, SALT) is None


def test_header_with_any_flipped_byte_is_bad() -> None:
    _, batch = build([(b"\x00\x01q", b"\x00\x00", b"a", 0, 0)])
    data = packed(batch)
    for at in range(HEADER_SIZE):
        broken = bytearray(data)
        broken[at] ^= 1
        assert parse_header(bytes(broken), 0, SALT) is None
    assert parse_header(data[: HEADER_SIZE - 1], 0, SALT) is None


def test_large_body_is_referenced_and_comes_back() -> None:
    body = bytes(range(256)) * 5000
    made = build_message(b"\x00\x01q", b"\x00\x00", body)
    assert isinstance(made.content, tuple)
    builder = MessagesBuilder()
    builder.begin(0, 0)
    builder.add_large(made, 0, 0)
    batch = builder.close(0, 1)
    data = packed(batch)
    header = parse_header(data, 0, SALT)
    assert header is not None
    view = BatchView()
    view.open_data(data, 0, header)
    found = view.message_at(0)
    assert found is not None
    assert isinstance(found.content, tuple)
    assert found.body() == body


def expiry_and_priority(properties: bytes, deadline_us: int = 0) -> tuple[int, int]:
    builder = MessagesBuilder()
    builder.begin(0, 0)
    made = build_message(b"\x00\x00", properties, b"")
    made.deadline_us = deadline_us
    builder.add(made, 0, 5000)
    records = bytes(builder.close(0, 1).pieces[0])
    assert records[30:32] == bytes(2)
    return int.from_bytes(records[20:24] + records[28:30], "little"), records[24]


def test_deadline_and_priority_stand_in_the_record() -> None:
    assert expiry_and_priority(b"\x00\x00") == (NO_EXPIRY, 0)
    # content type, headers (empty table), priority 9, correlation id, expiration "60000"
    properties = b"\xad\x00" + b"\x01t" + b"\x00\x00\x00\x00" + b"\x09" + b"\x01c" + b"\x0560000"
    assert expiry_and_priority(properties) == (NO_EXPIRY, 9), "the deadline is the queue's to fix"
    known = {1: 0, 5000: 0, 5001: 1, 60_005_000: 60_000}
    # Above 32 bits; just as many as stand for none; more than 48 bits.
    known |= {ms * 1000 + 5000: ms for ms in (NO_EXPIRY - 1, NO_EXPIRY + 1, 315_360_000_000)}
    known |= {NO_EXPIRY * 1000 + 5000: NO_EXPIRY + 1, 1 << 60: EXPIRE_MS_MAX}
    for deadline_us, expire_ms in known.items():
        assert expiry_and_priority(properties, deadline_us) == (expire_ms, 9)


def test_a_deadline_that_is_far_away_comes_back() -> None:
    """From a batch in memory, from the disk, and after cleaning. A batch without one is as it always was."""
    builder = MessagesBuilder()
    builder.begin(7, 1_000_000)
    lefts = [0, 60 * 86_400_000, NO_EXPIRY, 315_360_000_000, 5]
    for number, ms in enumerate(lefts):
        made = build_message(b"\x00\x00", b"\x00\x00", b"x")
        made.deadline_us = ms and 1_000_000 + ms * 1000
        builder.add(made, 7 + number, 1_000_000)
    batch = builder.close(11, 1)
    assert batch.attributes == 0x400
    wanted = [ms and 1_000_000 + (ms + int(ms == NO_EXPIRY)) * 1000 for ms in lefts]
    view = BatchView()
    view.open_pieces(batch)
    assert [deadline(view, 7 + number) for number in range(5)] == wanted
    octets = packed(batch)
    header = parse_header(octets, 0, SALT)
    assert header is not None
    view.open_data(octets, 0, header)
    assert [deadline(view, 7 + number) for number in range(5)] == wanted
    state = SettleState()
    state.settle(8)
    cleaned = live_batch(header, octets[HEADER_SIZE:], state, 7)
    assert cleaned.attributes == 0x400
    view.open_pieces(cleaned)
    assert [deadline(view, 7 + number) for number in (0, 2, 3, 4)] == [wanted[0], *wanted[2:]]
    assert len(packed(cleaned)) == cleaned.length
    builder.begin(12, 1_000_000)
    builder.add(build_message(b"\x00\x00", b"\x00\x00", b"x"), 12, 1_000_000)
    batch = builder.close(12, 1)
    assert (batch.attributes, len(batch.pieces)) == (0, 4)


def deadline(view: BatchView, offset: int) -> int:
    found = view.message_at(offset)
    assert found is not None
    assert found.body() == b"x"
    return found.deadline_us


def test_deadline_comes_back() -> None:
    builder = MessagesBuilder()
    builder.begin(7, 1_000_000)
    for offset, deadline_us in ((7, 0), (8, 1_500_000), (9, 1_002_000)):
        made = build_message(b"\x00\x00", b"\x00\x00", b"")
        made.deadline_us = deadline_us
        builder.add(made, offset, 1_000_000 + offset)
    view = BatchView()
    view.open_pieces(builder.close(9, 1))
    found = [view.message_at(offset) for offset in (7, 8, 9)]
    assert [each.deadline_us for each in found if each is not None] == [0, 1_500_008, 1_002_009]


@given(st.binary(max_size=30))
def test_any_properties_are_survived(tail: bytes) -> None:
    """Malformed ones are refused, not read beyond their end."""
    with contextlib.suppress(FieldError):
        expiry_and_priority(b"\xff\xf8" + tail)


def test_settles_and_control_come_back() -> None:
    runs = [(5, 3, 1, 0), (9, 1, 6, 2)]
    batch = settles_batch([settle_run(*run) for run in runs], 20, 21, 1000, 3)
    data = packed(batch)
    found = iterate_settles(data[HEADER_SIZE:], 24, 2)
    assert [(run.first, run.count, run.kind, run.returns) for run in found] == runs
    header = parse_header(packed(control_batch(epoch_start(4, 3, bytes(16)), 1, 1, 0, 4)), 0, SALT)
    assert header is not None
    assert header.kind != MESSAGES
    assert parse_control(epoch_start(4, 3, bytes(16))).epoch == 4
    control = parse_control(purge(100, [(3, 2), (9, 1)]))
    assert (control.up_to, control.kept) == (100, [(3, 2), (9, 1)])
