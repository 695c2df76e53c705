"""Contents that arrive in pieces: the body is what was sent, and what is held is about as much."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from amqp_router.channel import content
from amqp_router.channel.content import ContentAssembler
from amqp_router.channel.intake import Intake
from persistence.memory import MemoryBudget
from tests.nodes import content_header, raw_frame, split_frames

CHANNEL = 515


def begun(size: int) -> ContentAssembler:
    assembler = ContentAssembler(Intake(MemoryBudget()))
    assembler.start(b"")
    assert not assembler.receive(2, content_header(CHANNEL, size), 1 << 40)
    return assembler


def held(assembler: ContentAssembler) -> int:
    frames = sum(sys.getsizeof(frame) for frame in assembler.frames)
    return frames + sys.getsizeof(assembler.frames) + sys.getsizeof(assembler._small)


def test_a_body_sent_an_octet_at_a_time_is_held_as_it_is() -> None:
    size = 200_000
    assembler = begun(size)
    most = 0
    for number in range(size):
        assert assembler.receive(3, raw_frame(3, CHANNEL, b"%c" % (number % 251)), 1 << 40) == (
            number == size - 1
        )
        if number % 1000 == 0:
            most = max(most, held(assembler) - number)
    assert most < 100_000, "beyond what has come"
    _, frames, scan, count = assembler.take()
    assert isinstance(frames, bytes)
    bodies = [frame[7:-1] for frame in split_frames(frames)[1:]]
    assert b"".join(bodies) == bytes(number % 251 for number in range(size))
    assert count == len(bodies) < 30
    assert scan.frame_payload == max(map(len, bodies))


@given(
    st.lists(st.one_of(st.integers(1, 9), st.integers(4000, 4200), st.just(131_064), st.just(0)), max_size=60)
)
def test_any_pieces_make_the_body(sizes: list[int]) -> None:
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    body = b"".join(pieces)
    if not body:
        return
    assembler = begun(len(body))
    done = [assembler.receive(3, raw_frame(3, CHANNEL, piece), 1 << 40) for piece in pieces]
    assert done.count(True) == 1
    assert not any(pieces[done.index(True) + 1 :]), "what follows the last octet is empty"
    _, frames, scan, count = assembler.take()
    whole = frames if isinstance(frames, bytes) else b"".join(frames)
    parts = split_frames(whole)[1:]
    assert b"".join(part[7:-1] for part in parts) == body
    assert {part[1:3] for part in parts} == {CHANNEL.to_bytes(2, "big")}
    assert count == len(parts)
    assert scan.frame_payload == max(len(part) - 8 for part in parts)
    assert scan.body_size == len(body)


def test_the_first_frames_stay_as_they_come() -> None:
    sizes = [3] * content.FRAMES_AS_THEY_COME
    assembler = begun(sum(sizes))
    for size in sizes:
        assembler.receive(3, raw_frame(3, CHANNEL, bytes(size)), 1 << 40)
    assert assembler.take()[3] == content.FRAMES_AS_THEY_COME


def test_a_content_that_is_given_up_leaves_nothing() -> None:
    assembler = begun(1000)
    for _ in range(50):
        assembler.receive(3, raw_frame(3, CHANNEL, b"x"), 1 << 40)
    assembler.reset()
    assembler.start(b"")
    assert not assembler.receive(2, content_header(CHANNEL, 20), 1 << 40)
    assert assembler.receive(3, raw_frame(3, CHANNEL, b"y" * 20), 1 << 40)
    assert b"x" not in bytes(assembler.take()[1])
