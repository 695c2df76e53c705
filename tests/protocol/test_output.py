"""Messages on their way out: renumbered and cut for the receiver, in order, whatever their size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.flags import LOGGED, PERSISTENT, REDELIVERED
from amqp_router.protocol.message import JOINED_BYTES_MAX, Message, build_message
from amqp_router.protocol.output import FULL_BYTES, Output
from amqp_router.protocol.tick import Tick
from tests.nodes import content_frames, split_frames

PROPERTIES = b"\x90\x00\x04text\x02"
BODY = bytes(range(256)) * 40


def message_of(frames: list[bytes], channel: int) -> Message:
    """As ``publishing`` makes it from frames that were received."""
    message = Message()
    size = sum(len(frame) - 8 for frame in frames[1:])
    message.content = tuple(frames) if size > JOINED_BYTES_MAX else b"".join(frames)
    message.header_size = len(frames[0])
    message.body_size = size
    message.frame_count = len(frames) - 1
    message.frame_payload = max([len(frame) - 8 for frame in frames[1:]], default=0)
    message.channel = channel
    return message


def drained(output: Output) -> bytes:
    pieces = []
    while piece := output.next_piece():
        pieces.append(piece)
    assert output.waiting_bytes() == 0
    return b"".join(pieces)


def written(message: Message, channel: int, payload_max: int) -> bytes:
    output = Output()
    output.content(message, channel, payload_max)
    return drained(output)


# -- messages ---------------------------------------------------------------------------------------


def test_built_message_reads_back() -> None:
    message = build_message(b"\x01e\x01k", PROPERTIES, BODY, 4096)
    assert message.frame_count == 3
    assert message.frame_payload == 4096
    assert message.properties() == PROPERTIES
    assert message.body() == BODY
    assert isinstance(message.content, bytes)
    assert message.size() == len(message.content)
    assert message.content == b"".join(content_frames(0, PROPERTIES, BODY, 4096))


def test_built_message_without_body() -> None:
    message = build_message(b"\0\0", PROPERTIES, b"")
    assert (message.frame_count, message.frame_payload, message.body()) == (0, 0, b"")
    assert message.size() == message.header_size == len(message.content or b"")


def test_built_message_above_the_size_that_is_joined() -> None:
    body = bytes(JOINED_BYTES_MAX + 1)
    message = build_message(b"\0\0", PROPERTIES, body)
    assert isinstance(message.content, tuple)
    assert len(message.content) == message.frame_count + 1
    assert message.size() == sum(map(len, message.content))
    assert message.body() == body
    assert message.properties() == PROPERTIES
    assert isinstance(build_message(b"\0\0", PROPERTIES, body[1:]).content, bytes)


def test_copy_has_the_content_and_no_history() -> None:
    message = build_message(b"\0\0", PROPERTIES, BODY, 4096)
    message.flags = PERSISTENT | REDELIVERED | LOGGED
    message.offset, message.gap, message.delivery_count, message.channel = 7, 2, 3, 9
    copy = message.copy()
    assert copy.content is message.content
    assert (copy.flags, copy.offset, copy.gap, copy.delivery_count) == (PERSISTENT, 0, 0, 0)
    for name in ("route", "header_size", "body_size", "frame_payload", "frame_count", "channel"):
        assert getattr(copy, name) == getattr(message, name)


def test_message_whose_content_is_in_the_log() -> None:
    message = build_message(b"\0\0", PROPERTIES, BODY)
    message.content = None
    for read in (message.properties, message.body):
        with pytest.raises(ValueError, match="in the log"):
            read()


# -- content ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 8177, len(BODY), 300 << 10, (2 << 20) + 5])
@pytest.mark.parametrize("payload_max", [4088, 131064])
@pytest.mark.parametrize("channel", [1, 2, 65535])
def test_content_for_another_receiver(size: int, payload_max: int, channel: int) -> None:
    """Received on channel 1 in frames of 8,000 octets; what does not have to be cut stays as it came."""
    body = (BODY * (size // len(BODY) + 1))[:size]
    message = message_of(content_frames(1, PROPERTIES, body, 8000), 1)
    before = message.content
    data = written(message, channel, payload_max)
    frames = split_frames(data)
    assert frames[0] == content_frames(channel, PROPERTIES, body)[0]
    assert b"".join(frame[7:-1] for frame in frames[1:]) == body
    assert {frame[1:3] for frame in frames} == {channel.to_bytes(2, "big")}
    assert all(frame[0] == 3 and 8 < len(frame) <= payload_max + 8 for frame in frames[1:])
    if payload_max >= 8000:
        assert len(frames) == message.frame_count + 1
    assert message.content is before


@given(
    sizes=st.lists(st.integers(1, 300), max_size=6),
    payload_max=st.integers(1, 300),
    large=st.booleans(),
    channel=st.integers(1, 3),
)
def test_frames_of_any_sizes(sizes: list[int], payload_max: int, large: bool, channel: int) -> None:
    body = BODY[: sum(sizes)]
    frames = [content_frames(2, PROPERTIES, body)[0]]
    position = 0
    for size in sizes:
        frames.append(content_frames(2, b"", body[position : position + size])[1])
        position += size
    message = message_of(frames, 2)
    if large:
        message.content = tuple(frames)
    out = split_frames(written(message, channel, payload_max))
    assert out[0] == content_frames(channel, PROPERTIES, body)[0]
    assert b"".join(frame[7:-1] for frame in out[1:]) == body
    assert all(len(frame) - 8 <= payload_max and frame[2] == channel for frame in out[1:])


def test_large_content_keeps_its_place() -> None:
    """What is written after a large body comes after it, though the body is not copied."""
    large = build_message(b"\0\0", PROPERTIES, bytes((1 << 20) + 1))
    small = build_message(b"\0\0", PROPERTIES, b"small")
    output = Output()
    output.buf.put(b"first")
    output.content(large, 1, 131064)
    output.content(small, 1, 131064)
    output.content(large, 1, 131064)
    output.buf.put(b"last")
    assert output.full
    expected = [
        b"first",
        written(large, 1, 131064),
        written(small, 1, 131064),
        written(large, 1, 131064),
        b"last",
    ]
    assert drained(output) == b"".join(expected)


def test_large_content_leaves_in_frames() -> None:
    output = Output()
    output.content(build_message(b"\0\0", PROPERTIES, bytes(1 << 21)), 1, 4088)
    pieces = []
    while piece := output.next_piece():
        assert len(piece) <= 4096
        pieces.append(piece)
    assert len(pieces) > 512


# -- waiting, joining, flushing ---------------------------------------------------------------------


def test_waiting_bytes() -> None:
    output = Output()
    output.buf.put(b"12345")
    output.content(build_message(b"\0\0", PROPERTIES, bytes((1 << 20) + 1)), 1, 131064)
    output.buf.put(b"678")
    assert output.waiting_bytes() == 8
    assert output.next_piece() == b"12345"
    assert output.waiting_bytes() == 3
    drained(output)


def test_large_content_counts_by_what_it_is() -> None:
    """In memory or not, and asked for by the client or delivered to it."""
    message = build_message(b"\0\0", PROPERTIES, bytes(3 << 20))
    output = Output()
    output.content(message, 1, 4088)
    assert (output.waiting_bytes(), output.held_bytes()) == (0, message.size())
    output.answer(message, 1, 4088)
    assert (output.waiting_bytes(), output.held_bytes()) == (message.size(), 2 * message.size())
    assert message.content is not None
    message.content = list(message.content)  # frames that are read when they are asked for
    other = Output()
    other.answer(message, 1, 4088)
    output.join(other)
    assert (output.waiting_bytes(), output.held_bytes()) == (2 * message.size(), 2 * message.size())
    while output.next_piece():
        pass
    assert (output.waiting_bytes(), output.held_bytes()) == (0, 0)
    assert (other.waiting_bytes(), other.held_bytes()) == (0, 0)


def test_join_a_detached_output() -> None:
    large = build_message(b"\0\0", PROPERTIES, bytes((1 << 20) + 1))
    output, detached = Output(), Output()
    output.buf.put(b"one")
    detached.buf.put(b"two")
    detached.content(large, 1, 131064)
    detached.buf.put(b"three")
    output.join(detached)
    output.buf.put(b"four")
    assert output.waiting_bytes() == len(b"onetwothreefour")
    assert detached.waiting_bytes() == 0
    assert drained(output) == b"onetwo" + written(large, 1, 131064) + b"threefour"
    assert drained(detached) == b""


def test_join_of_nothing() -> None:
    output = Output()
    output.buf.put(b"one")
    output.join(Output())
    assert drained(output) == b"one"


class Owner:
    def flush(self) -> None:
        raise AssertionError("the tick flushes, not the output")


def test_touch_asks_for_one_flush_a_tick() -> None:
    calls: list[object] = []
    tick = Tick(calls.append)
    tick.callback = list
    output = Output()
    output.tick = tick
    output.owner = Owner()
    output.buf.put(b"x")
    output.touch()
    output.touch()
    assert tick.outputs == [output]
    assert calls == [list]
    assert not output.full


def test_touch_of_a_detached_output() -> None:
    output = Output()
    output.buf.put(b"x")
    output.touch()
    assert not output.dirty


def test_full_above_a_mebibyte() -> None:
    output = Output()
    output.buf.put(bytes(FULL_BYTES))
    output.touch()
    assert not output.full
    output.buf.put(b"x")
    output.touch()
    assert output.full
