"""Large messages are read frame by frame, and never given out whole when damaged."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.output import Output
from persistence.errors import CorruptLog
from persistence.files import RealDisk
from persistence.log.queue.stored import StoredFrames

BODY = bytes(range(256)) * 1000


def stored(
    path: Path, *, size: int = len(BODY), wanted: int | None = None, payload: int = 5000
) -> StoredFrames:
    path.write_bytes(b"before" + BODY)
    header = build_message(b"", b"\x00\x00", BODY).content
    assert isinstance(header, bytes)
    return StoredFrames(
        RealDisk().open(str(path)),
        str(path),
        header=header[:22],
        at=6,
        body_size=size,
        frame_payload=payload,
        crc=crc32(b"ahead"),
        wanted=crc32(b"ahead" + BODY) if wanted is None else wanted,
    )


def test_frames_hold_the_body_and_can_be_read_again(tmp_path: Path) -> None:
    frames = stored(tmp_path / "log")
    for _ in range(2):
        read = [frames[index] for index in range(len(frames))]
        assert b"".join(frame[7:-1] for frame in read[1:]) == BODY
        assert all(frame[:3] == b"\x03\x00\x00" and frame[-1] == 0xCE for frame in read[1:])


def test_survives_the_removal_of_its_segment(tmp_path: Path) -> None:
    frames = stored(tmp_path / "log")
    (tmp_path / "log").unlink()
    assert frames[1][7:-1] == BODY[:5000]


def test_damage_is_told_before_the_last_frame(tmp_path: Path) -> None:
    frames = stored(tmp_path / "log", wanted=1)
    told: list[Exception] = []
    frames.on_error = told.append
    last = len(frames) - 1
    for index in range(last):
        assert frames[index]
    with pytest.raises(CorruptLog, match="checksum"):
        frames[last]
    assert len(told) == 1


def test_body_that_ends_early_is_an_error(tmp_path: Path) -> None:
    frames = stored(tmp_path / "log", size=len(BODY) + 1)
    last = len(frames) - 1
    assert all(frames[index] for index in range(last))
    with pytest.raises(CorruptLog, match="cut short"):
        frames[last]


@pytest.mark.parametrize("payload_max", [4088, 5000, 100_000])
def test_output_cuts_frames_to_the_receivers_size(tmp_path: Path, payload_max: int) -> None:
    message = Message()
    message.content = stored(tmp_path / "log")
    message.body_size = len(BODY)
    message.header_size = 22
    message.frame_payload = 5000
    output = Output()
    output.content(message, 7, payload_max)
    frames = []
    while piece := output.next_piece():
        frames.append(piece)
    assert {frame[1:3] for frame in frames} == {b"\x00\x07"}
    assert max(len(frame) for frame in frames[1:]) <= payload_max + 8
    assert b"".join(frame[7:-1] for frame in frames[1:]) == BODY
