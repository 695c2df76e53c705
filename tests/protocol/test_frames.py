"""Looking at a content in place: what is plain is told from what is not, and from what is not all there."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.channel.content import ContentAssembler
from amqp_router.channel.intake import Intake
from amqp_router.protocol.errors import AMQPError, FieldError
from amqp_router.protocol.frames import COMPLETE, IRREGULAR, MORE, ODD_MODE, ContentScan
from amqp_router.protocol.nested import DECODED_DEPTH
from amqp_router.protocol.properties import decode_properties, encode_properties
from persistence.memory import MemoryBudget
from tests.nodes import PERSISTENT, TRANSIENT, content_frames, content_header, raw_frame, split_frames
from tests.protocol.strategies import property_lists


def scanned(data: bytes, *, position: int = 0, limit: int | None = None, channel: int = 1) -> ContentScan:
    """A scan whose answer must be COMPLETE."""
    scan = ContentScan()
    assert scan.scan(data, position, len(data) if limit is None else limit, channel) == COMPLETE
    return scan


def answer(data: bytes, channel: int = 1) -> int:
    return int(ContentScan().scan(data, 0, len(data), channel))


def content(
    body: bytes, properties: bytes = TRANSIENT, channel: int = 1, payload_max: int = 1 << 20
) -> bytes:
    return b"".join(content_frames(channel, properties, body, payload_max))


def test_content_without_body() -> None:
    data = content(b"")
    scan = scanned(data + b"more")
    assert (scan.end, scan.header_size, scan.body_size, scan.frame_payload) == (len(data), len(data), 0, 0)
    assert not scan.persistent


def test_content_with_body_behind_other_bytes() -> None:
    data = b"before" + content(b"body", PERSISTENT, 515) + b"after"
    scan = scanned(data, position=6, channel=515)
    assert scan.end == len(data) - 5
    assert scan.header_size == 8 + 12 + 3
    assert (scan.body_size, scan.frame_payload) == (4, 4)
    assert scan.persistent
    assert scan.flags == 0x1000


def test_bytes_behind_the_limit_are_not_looked_at() -> None:
    data = content(b"body")
    assert ContentScan().scan(data, 0, len(data) - 1, 1) == MORE


def test_every_property_before_the_delivery_mode() -> None:
    for mode in (0, 1, 2, 3, 255):
        properties = encode_properties(
            {"content_type": "t" * 255, "content_encoding": "e", "headers": {}, "delivery_mode": mode}
        )
        scan = scanned(content(b"x", properties))
        assert scan.persistent == (mode == 2)
        assert scan.flags == (0xF000 if mode in (1, 2) else 0xF000 | ODD_MODE)
    assert not scanned(content(b"x", encode_properties({"content_type": "\x02" * 9}))).persistent


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(raw_frame(1, 1, bytes(20)), id="a method comes first"),
        pytest.param(raw_frame(3, 1, bytes(20)), id="a body comes first"),
        pytest.param(raw_frame(8, 0, bytes(0)), id="a heartbeat comes first"),
        pytest.param(content_header(2, 0), id="header on another channel"),
        pytest.param(content_header(1, 4) + raw_frame(3, 2, b"body"), id="body on another channel"),
        pytest.param(content_header(1, 4) + raw_frame(1, 1, b"body"), id="a method instead of the body"),
        pytest.param(content(b"a long body", payload_max=5), id="body of several frames"),
        pytest.param(
            content_header(1, 4) + raw_frame(3, 1, b"") + raw_frame(3, 1, b"body"), id="empty frame"
        ),
        pytest.param(content_header(1, 4) + raw_frame(3, 1, b"longer"), id="more body than announced"),
        pytest.param(raw_frame(2, 1, struct.pack(">HHQ", 61, 0, 0) + bytes(2)), id="another class"),
        pytest.param(raw_frame(2, 1, struct.pack(">HHQ", 60, 0, 0)), id="no property flags"),
        pytest.param(raw_frame(2, 1, struct.pack(">HHQ", 60, 0, 0) + b"\x10\0"), id="delivery mode cut off"),
        pytest.param(raw_frame(2, 1, struct.pack(">HHQ", 60, 0, 0) + b"\x90\0\x09"), id="type runs out"),
        pytest.param(raw_frame(2, 1, struct.pack(">HHQ", 60, 0, 0) + b"\x30\0\0\0"), id="headers run out"),
        pytest.param(
            raw_frame(2, 1, struct.pack(">HHQ", 60, 0, 0) + b"\x30\0\xff\xff\xff\xff\2"), id="headers huge"
        ),
        pytest.param(raw_frame(2, 1, struct.pack(">HHQ", 60, 1, 0) + TRANSIENT), id="a weight"),
        pytest.param(content_header(1, 1 << 32), id="a body of 4 GiB"),
        pytest.param(content_header(1, 1 << 63), id="a body of 8 EiB"),
        pytest.param(content_header(1, (1 << 20) + 1), id="a body above one frame"),
        pytest.param(content_header(1, 0)[:-1] + b"\xcd", id="no end octet of the header"),
        pytest.param(content(b"body")[:-1] + b"\0", id="no end octet of the body"),
        pytest.param(b"\x02\0\x01\xff\xff\xff\xff" + bytes(40), id="a header frame of 4 GiB"),
    ],
)
def test_irregular(data: bytes) -> None:
    assert answer(data) == IRREGULAR


def check_judgement(properties: bytes) -> None:
    """A property list that cannot be decoded is never let through, and one that can always is."""
    try:
        decode_properties(properties)
        found = COMPLETE
    except FieldError:
        found = IRREGULAR
    assert answer(content(b"", properties)) == found


@given(property_lists(), st.data())
def test_malformed_property_lists_do_not_pass(values: dict[str, Any], data: st.DataObject) -> None:
    """What consumers are sent unchanged they can decode: whole lists, and lists with an octet wrong."""
    properties = bytearray(encode_properties(values))
    check_judgement(bytes(properties))
    at = data.draw(st.integers(0, len(properties) - 1))
    properties[at] = data.draw(st.integers(0, 255))
    check_judgement(bytes(properties))
    check_judgement(bytes(properties[: data.draw(st.integers(2, len(properties)))]))
    check_judgement(bytes(properties) + b"\0")


@pytest.mark.parametrize("depth", [1, DECODED_DEPTH - 1, DECODED_DEPTH, DECODED_DEPTH + 1, 2000])
@pytest.mark.parametrize("tag", ["F", "A"])
def test_nested_headers(depth: int, tag: str) -> None:
    inner = b""
    for _ in range(depth):
        named = tag.encode() + len(inner).to_bytes(4, "big") + inner
        inner = b"\x01a" + named if tag == "F" else named
    table = inner if tag == "F" else b"\x01a" + inner
    check_judgement(b"\x20\0" + len(table).to_bytes(4, "big") + table)


def test_frames_above_what_was_agreed() -> None:
    def list_of(size: int) -> bytes:
        return encode_properties({"headers": {"": ("x", bytes(size - 12))}})

    scan = ContentScan()
    scan.payload_max = 4088
    for body, properties, found in (
        (bytes(4088), TRANSIENT, COMPLETE),
        (bytes(4089), TRANSIENT, IRREGULAR),
        (b"", list_of(4088 - 12), COMPLETE),
        (b"", list_of(4088 - 11), IRREGULAR),
    ):
        data = content(body, properties)
        assert scan.scan(data, 0, len(data), 1) == found


@given(
    body=st.binary(max_size=40) | st.integers(0, 5000).map(bytes),
    properties=st.sampled_from([TRANSIENT, PERSISTENT, encode_properties({"headers": {"a": ("V", None)}})]),
    cut=st.floats(0, 1, exclude_max=True),
)
def test_what_more_is_needed(body: bytes, properties: bytes, cut: float) -> None:
    """``need`` never asks for less than is there, nor for a byte behind the content."""
    data = content(body, properties)
    scan = ContentScan()
    have = int(cut * len(data))
    looks = 0
    while have < len(data):
        assert scan.scan(data, 0, have, 1) == MORE
        assert have < scan.need <= len(data)
        have = scan.need
        looks += 1
    assert looks <= 4
    assert scan.scan(data, 0, have, 1) == COMPLETE
    assert scan.end == len(data)


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: content_header(1, 9)[:19] + tail))
def test_any_bytes_give_an_answer(data: bytes) -> None:
    scan = ContentScan()
    found = scan.scan(data, 0, len(data), 1)
    assert found in (COMPLETE, MORE, IRREGULAR)
    if found == COMPLETE:
        assert scan.end <= len(data)
        assert data[scan.end - 1] == 0xCE
    elif found == MORE:
        assert scan.need > len(data)


def assembled(data: bytes) -> Any:
    """What the assembler makes of whole frames: content, scan, count; or the error it raises."""
    assembler = ContentAssembler(Intake(MemoryBudget()))
    assembler.start(b"")
    try:
        for frame in split_frames(data):
            if assembler.receive(frame[0], frame, 1 << 62):
                _, frames, scan, count = assembler.take()
                return frames, scan, count
    except AMQPError as error:
        return error
    return None


@given(
    properties=st.binary(max_size=12) | st.sampled_from([TRANSIENT, PERSISTENT]),
    flags=st.sampled_from([0, 0x1000, 0x9000, 0xD000, 0xF000, 0x3000, 0x8000]),
    body=st.binary(max_size=20),
)
def test_agrees_with_the_assembler(properties: bytes, flags: int, body: bytes) -> None:
    data = content(body, flags.to_bytes(2, "big") + properties)
    scan = ContentScan()
    found = scan.scan(data, 0, len(data), 1)
    slow = assembled(data)
    if found == IRREGULAR:
        assert isinstance(slow, AMQPError)
        return
    frames, slow_scan, count = slow
    assert frames == data[: scan.end] == data
    assert count == (1 if body else 0)
    for name in ("header_size", "body_size", "frame_payload", "flags", "persistent"):
        assert getattr(scan, name) == getattr(slow_scan, name), name
