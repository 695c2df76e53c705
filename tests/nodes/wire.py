"""What goes over the wire between a client and a broker, as bytes: frames and contents, written and read."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import PROTOCOL_HEADER

FRAME_HEAD = struct.Struct(">BHI").unpack_from
FRAME_HEAD_OF = struct.Struct(">BHI").pack
CONTENT_HEAD = struct.Struct(">HHQ").unpack_from
HEADER_FRAME_HEAD = struct.Struct(">BHIHHQ").unpack_from
#: Of a content header and a body frame: two frames' heads and ends, class, weight and body size.
WHOLE_SIZE = 8 + 8 + 12

#: Properties of a plain message: flags word and values.
TRANSIENT = b"\x00\x00"
PERSISTENT = b"\x10\x00\x02"


class Received(NamedTuple):
    """A method from the broker and, if it has content, that too."""

    channel: int
    method: m.Method
    properties: bytes = b""
    body: bytes = b""


def raw_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return FRAME_HEAD_OF(kind, channel, len(payload)) + payload + b"\xce"


@lru_cache(maxsize=256)
def content_header(channel: int, body_size: int, properties: bytes = TRANSIENT) -> bytes:
    return raw_frame(2, channel, struct.pack(">HHQ", 60, 0, body_size) + properties)


def content_frames(channel: int, properties: bytes, body: bytes, payload_max: int = 131064) -> list[bytes]:
    """Content header and body frames of at most ``payload_max`` octets of payload."""
    frames = [content_header(channel, len(body), properties)]
    frames += [
        raw_frame(3, channel, body[start : start + payload_max]) for start in range(0, len(body), payload_max)
    ]
    return frames


@lru_cache(maxsize=256)
def before_body(method: bytes, channel: int, properties: bytes, body_size: int) -> bytes:
    """What comes before a body that one frame holds: the frame ``method``, the content header, and the head
    of the body frame. Its end octet comes after the body.
    """
    return method + content_header(channel, body_size, properties) + FRAME_HEAD_OF(3, channel, body_size)


def publish_frames(
    channel: int, method: m.BasicPublish, properties: bytes, body: bytes, payload_max: int = 131064
) -> list[bytes]:
    return [m.frame(channel, method), *content_frames(channel, properties, body, payload_max)]


def start_ok(capabilities: bool) -> m.ConnectionStartOk:
    """The answer of a client that can do everything a broker may ask, or nothing of it."""
    names = (
        ("consumer_cancel_notify", "authentication_failure_close", "connection.blocked")
        if capabilities
        else ()
    )
    properties = {"capabilities": ("F", dict.fromkeys(names, ("t", True)))}
    return m.ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US")


@lru_cache(maxsize=64)
def opening(frame_max: int, capabilities: bool, channels: tuple[int, ...]) -> bytes:
    """What a client sends to open a connection and its channels, if it waits for no answer."""
    tune = m.ConnectionTuneOk(2047, frame_max, 0)
    frames = [m.frame(0, method) for method in (start_ok(capabilities), tune, m.ConnectionOpen("/"))]
    frames += [m.frame(number, m.ChannelOpen()) for number in channels]
    return PROTOCOL_HEADER + b"".join(frames)


def split_frames(data: bytes) -> list[bytes]:
    """Whole frames, end octets included."""
    frames = []
    position = 0
    while position < len(data):
        end = position + 8 + int.from_bytes(data[position + 3 : position + 7], "big")
        assert data[end - 1] == 0xCE, f"frame without end octet at {position}"
        frames.append(data[position:end])
        position = end
    assert position == len(data), "the last frame is cut"
    return frames


def decode(data: bytes, frame_max: int = 1 << 31) -> tuple[list[Received], int]:
    """Methods with their contents, and how many octets of ``data`` they took.

    Asserts what holds for every broker: contents of a channel are not torn apart by its other frames, and no
    frame is larger than was agreed.
    """
    received: list[Received] = []
    partial: dict[int, tuple[m.Method, bytes, int, list[bytes]]] = {}
    at = 0
    size_of_all = len(data)
    while at < size_of_all:
        kind, channel, size = FRAME_HEAD(data, at)
        end = at + size + 8
        assert data[end - 1] == 0xCE, f"frame without end octet at {at}"
        assert size + 8 <= frame_max, f"a frame of {size + 8} octets"
        payload = data[at + 7 : end - 1]
        at = end
        if kind == 8:
            continue
        if kind == 1:
            assert channel not in partial, "a method inside of a content"
            method = decode_method(payload)
            if not method.HAS_CONTENT:
                received.append(Received(channel, method))
            elif at + WHOLE_SIZE < size_of_all and (
                whole := whole_content(data, at, channel, method, frame_max)
            ):
                received.append(whole)
                at += WHOLE_SIZE + len(whole.properties) + len(whole.body)
            else:
                partial[channel] = (method, b"", -1, [])
            continue
        method, properties, missing, parts = partial[channel]
        if kind == 2:
            assert missing < 0, "a second content header"
            class_id, weight, missing = CONTENT_HEAD(payload)
            assert (class_id, weight) == (60, 0)
            properties = payload[12:]
        else:
            assert kind == 3
            parts.append(payload)
            missing -= size
            assert missing >= 0, "a body longer than announced, or before its header"
        if missing:
            partial[channel] = (method, properties, missing, parts)
        else:
            del partial[channel]
            received.append(Received(channel, method, properties, b"".join(parts)))
    assert at == len(data), "the last frame is cut"
    assert not partial, "a content that does not end"
    return received, len(data)


@lru_cache(maxsize=4096)
def decode_method(payload: bytes) -> m.Method:
    """As the product's. Many answers of a broker are the same; nobody changes a method that was received."""
    return m.decode_method(payload)


def whole_content(data: bytes, at: int, channel: int, method: m.Method, frame_max: int) -> Received | None:
    """What ``decode`` makes of a content header and one body frame at ``at``; None if other frames are there,
    or are not right. ``WHOLE_SIZE`` octets of them are neither properties nor body.
    """
    kind, number, size, class_id, weight, body_size = HEADER_FRAME_HEAD(data, at)
    body_at = at + size + 8
    if (kind, number, class_id, weight) != (2, channel, 60, 0) or body_at + 8 > len(data):
        return None
    if FRAME_HEAD(data, body_at) != (3, channel, body_size) or not 0 < body_size <= frame_max - 8:
        return None
    end = body_at + body_size + 7
    if size + 8 > frame_max or end >= len(data) or not data[end] == data[body_at - 1] == 0xCE:
        return None
    return Received(channel, method, data[at + 19 : body_at - 1], data[body_at + 7 : end])
