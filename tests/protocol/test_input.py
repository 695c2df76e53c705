"""Frames come out of chunks as they were sent, however the chunks were cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol import methods as m
from amqp_router.protocol.frames import COMPLETE, IRREGULAR
from amqp_router.protocol.input import ACK, BAD_END, FRAME, HELD_CONTENT, MORE, PUBLISH, TOO_LARGE, Input
from tests.nodes import PERSISTENT, content_header, publish_frames, raw_frame, split_frames

FRAME_MAX = 131072


def new_input() -> Input:
    return Input(FRAME_MAX)


def in_pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[start:end] for start, end in pairwise(places)]


def taken(frames: Input, *, contents: bool) -> list[bytes]:
    """All that can be taken now, each frame, or publish with its content, as its octets."""
    found = []
    while (kind := frames.next()) != MORE:
        assert kind in (FRAME, PUBLISH, ACK)
        octets = frames.data[frames.start - 7 : frames.end + 1]
        if kind == PUBLISH and contents:
            content = frames.content()
            if content == MORE:
                break
            if content == COMPLETE:
                octets += frames.data[frames.end + 1 : frames.scan.end]
                frames.position = frames.scan.end
        found.append(octets)
    return found


def received(chunks: Sequence[bytes], *, contents: bool, turns: int = 1) -> list[bytes]:
    """What comes out of ``chunks``, if it is looked for behind each group of ``turns`` of them."""
    frames = new_input()
    found = []
    for index, chunk in enumerate(chunks):
        frames.add(chunk)
        if index % turns == turns - 1 or index == len(chunks) - 1:
            found += taken(frames, contents=contents)
            frames.trim()
    assert frames.held_bytes() == 0
    return found


def requests() -> st.SearchStrategy[bytes]:
    publish = st.builds(
        lambda channel, size, payload_max: b"".join(
            publish_frames(channel, m.BasicPublish("", "q"), PERSISTENT, b"\xce" * size, payload_max)
        ),
        st.integers(1, 2),
        st.sampled_from([0, 1, 300, 5000]),
        st.sampled_from([2000, 9000]),
    )
    other = st.sampled_from(
        [
            m.frame(1, m.BasicAck(7)),
            m.frame(2, m.BasicGet("q")),
            raw_frame(8, 0, b""),
            m.frame(0, m.BasicQosOk()),
        ]
    )
    return st.one_of(publish, other)


@settings(deadline=None)
@given(
    st.lists(requests(), max_size=8),
    st.lists(st.integers(0, 12_000), max_size=12),
    st.integers(1, 4),
    st.booleans(),
)
def test_any_cut_gives_the_same_frames(
    sent: list[bytes], cuts: list[int], turns: int, contents: bool
) -> None:
    data = b"".join(sent)
    expected = received([data], contents=contents)
    assert b"".join(expected) == data
    if not contents:
        assert expected == split_frames(data)
    assert received(in_pieces(data, cuts), contents=contents, turns=turns) == expected


def test_octet_by_octet() -> None:
    data = b"".join(publish_frames(1, m.BasicPublish("", "q"), PERSISTENT, b"body")) + m.frame(
        1, m.BasicAck(1)
    )
    chunks = [bytes([octet]) for octet in data]
    assert received(chunks, contents=True) == received([data], contents=True)
    assert len(received([data], contents=True)) == 2
    assert received(chunks, contents=False, turns=len(data)) == split_frames(data)


def test_what_is_found() -> None:
    frames = new_input()
    publish = m.BasicPublish("", "q")
    frames.add(m.frame(3, publish) + m.frame(3, m.BasicAck(5)) + m.frame(0, m.ConnectionClose()))
    assert (frames.next(), frames.number, frames.class_id, frames.method_id) == (PUBLISH, 3, 60, 40)
    assert (frames.next(), frames.number, frames.class_id, frames.method_id) == (ACK, 3, 60, 80)
    assert (frames.next(), frames.number, frames.class_id, frames.method_id) == (FRAME, 0, 10, 50)
    assert m.decode_method(frames.payload()) == m.ConnectionClose()
    assert frames.next() == MORE


def test_frames_that_name_no_method() -> None:
    frames = new_input()
    frames.add(m.frame(1, m.BasicGet()) + raw_frame(2, 1, bytes(14)) + raw_frame(1, 1, b"\0\x3c\0"))
    frames.next()
    for _ in range(2):
        assert frames.next() == FRAME
        assert (frames.class_id, frames.method_id) == (0, 0)


def test_frame_above_the_limit_is_refused_before_it_is_there() -> None:
    frames = Input(100)
    frames.add(raw_frame(1, 5, bytes(100)) + raw_frame(1, 6, bytes(101))[:7])
    assert frames.next() == FRAME
    assert (frames.next(), frames.number, frames.size) == (TOO_LARGE, 6, 101)
    frames.drop()
    assert frames.next() == MORE
    assert frames.held_bytes() == 0


@pytest.mark.parametrize("cut", [0, 5, 9])
def test_frame_without_end_octet(cut: int) -> None:
    frames = new_input()
    data = raw_frame(1, 1, b"abcd")[:-1] + b"\0"
    for piece in in_pieces(data, [cut]):
        frames.add(piece)
    assert frames.next() == BAD_END
    assert (frames.payload(), frames.data[frames.end]) == (b"abcd", 0)


def test_content_that_is_too_large_to_wait_for() -> None:
    frames = Input(1 << 20)
    frames.scan.payload_max = 1 << 20
    first, *rest = publish_frames(1, m.BasicPublish("", "q"), PERSISTENT, bytes(HELD_CONTENT), 1 << 20)
    frames.add(first + rest[0] + rest[1][:100])
    assert frames.next() == PUBLISH
    assert frames.content() == IRREGULAR
    assert (frames.next(), frames.payload()) == (FRAME, rest[0][7:-1])


def test_frame_of_another_channel_inside_of_a_content() -> None:
    frames = new_input()
    publish = m.frame(1, m.BasicPublish("", "q"))
    frames.add(publish + content_header(1, 3)[:9])
    assert (frames.next(), frames.content(), frames.next()) == (PUBLISH, MORE, MORE)
    frames.trim()
    frames.add(content_header(1, 3)[9:] + m.frame(2, m.BasicGet()))
    assert (frames.next(), frames.content()) == (PUBLISH, IRREGULAR)
    assert frames.payload() == publish[7:-1]
    assert (frames.next(), frames.kind, frames.number) == (FRAME, 2, 1)
    assert (frames.next(), frames.kind, frames.number) == (FRAME, 1, 2)
    assert frames.next() == MORE


def test_rest_of_a_chunk_needs_no_more_room_than_its_octets() -> None:
    frames = new_input()
    rest = m.frame(1, m.BasicAck(2))[:10]
    frames.add(m.frame(1, m.BasicAck(1)) * 1000 + rest)
    while frames.next() != MORE:
        pass
    frames.trim()
    assert (frames.data, frames.held_bytes()) == (rest, 10)


def test_header_of_the_protocol_comes_in_pieces() -> None:
    frames = new_input()
    frames.add(b"AMQP\0")
    assert frames.header() == b""
    frames.trim()
    frames.add(b"\0\x09\x01" + m.frame(0, m.ConnectionClose()))
    assert frames.header() == b"AMQP\0\0\x09\x01"
    assert frames.next() == FRAME
