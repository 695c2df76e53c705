"""What the simulator's clients and disk find out, whichever of their ways they take."""

from __future__ import annotations

import pytest

from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, before_body, content_frames, decode, publish_frames, raw_frame
from tests.persistence.log.simdisk import SimDisk

DELIVER = m.frame(1, m.BasicDeliver("c", 7, False, "", "q"))
HEAD, BODY = content_frames(1, PERSISTENT, b"body")
OTHER_HEAD, OTHER_BODY = content_frames(2, PERSISTENT, b"body")


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 60])
def test_contents_are_decoded_however_many_frames_they_have(size: int) -> None:
    body = bytes(range(size))
    method = m.BasicDeliver("c", 7, False, "", "q")
    for payload_max in (1, 10, 100):
        data = b"".join(publish_frames(3, method, PERSISTENT, body, payload_max))
        received, used = decode(data * 2)
        assert used == 2 * len(data)
        assert received == [(3, method, PERSISTENT, body)] * 2


@pytest.mark.parametrize(
    "frames",
    [
        [DELIVER, HEAD[:-1] + b"\0", BODY],
        [DELIVER, HEAD, BODY[:-1] + b"\0"],
        [DELIVER, HEAD, BODY[:-1]],
        [DELIVER, HEAD],
        [DELIVER, HEAD, raw_frame(3, 1, b"longer")],
        [DELIVER, HEAD, raw_frame(3, 1, b"few")],
        [DELIVER, HEAD, HEAD],
        [DELIVER, HEAD, DELIVER],
        [DELIVER, BODY],
        [DELIVER, HEAD, OTHER_BODY],
        [DELIVER, OTHER_HEAD, BODY],
        [DELIVER, HEAD.replace(b"\x00\x3c\x00\x00", b"\x00\x3c\x00\x01"), BODY],
        [DELIVER, HEAD.replace(b"\x00\x3c\x00\x00", b"\x00\x3d\x00\x00"), BODY],
        [DELIVER, *content_frames(1, PERSISTENT, bytes(93))],
        [DELIVER, *content_frames(1, b"\x80\0" + b"\xff" + bytes(255), b"body")],
    ],
)
def test_a_content_that_is_not_right_is_found(frames: list[bytes]) -> None:
    decode(b"".join([DELIVER, HEAD, BODY]), 100)
    with pytest.raises((AssertionError, IndexError, KeyError, ValueError)):
        decode(b"".join(frames), 100)


def test_a_publish_that_is_put_together_is_the_same() -> None:
    method = m.BasicPublish("", "q")
    together = before_body(m.frame(1, method), 1, PERSISTENT, 4) + b"body" + b"\xce"
    assert together == b"".join(publish_frames(1, method, PERSISTENT, b"body"))


@pytest.mark.parametrize("position", [0, 2, 5, 9])
def test_pieces_of_a_write_are_lost_one_by_one(position: int) -> None:
    """Also if no fault can happen at any of them."""
    pieces = [b"ab", b"", b"cde"]
    found = []
    for can_fail in (False, True):
        disk = SimDisk()
        file = disk.open("f", write=True, create=True)
        file.write([b"01234"], 0)
        if can_fail:
            disk.hook = lambda operation, path: None
        file.write(pieces, position)
        found.append((file.read(100, 0), file._inode.pending))
    assert found[0] == found[1]
    assert len(found[0][1]) == 1 + len(pieces)
