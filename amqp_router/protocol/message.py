"""One message as one queue holds it.

In memory a message is the raw frames it came in: nothing is decoded but what a queue needs. A message
that goes to several queues is one object per queue (each has its own offset) around the same bytes.
"""

from __future__ import annotations

from typing import Protocol

from amqp_router.protocol.flags import PERSISTENT

_PERSISTENT = PERSISTENT  # a C integer where compiled

#: Bodies above this many bytes stay a tuple of frames and are never joined.
JOINED_BYTES_MAX = 1 << 20


class Frames(Protocol):
    """Complete frames by index, header frame first. Those of a large message may be read from disk when
    used.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> bytes: ...


class Message:
    """A message in a queue. Like other hot objects it is made without arguments and filled by attribute.

    ``content`` is the content header frame followed by the body frames, envelopes included: one
    ``bytes``, or whole frames (``Frames``) when the body is above ``JOINED_BYTES_MAX``, or ``None`` once
    delivered and to be read again from the log. ``route`` is exchange and routing key as
    ``basic.deliver`` carries them. ``gap`` counts the offsets directly before ``offset`` that are no
    message, so that acknowledged neighbours merge into one run.
    """

    __slots__ = (
        "body_size",
        "channel",
        "content",
        "deadline_us",
        "delivery_count",
        "flags",
        "frame_count",
        "frame_payload",
        "gap",
        "header_size",
        "offset",
        "route",
    )

    def __init__(self) -> None:
        self.content: bytes | Frames | None = None
        self.route = b""
        self.offset = 0
        self.gap = 0
        self.header_size = 0
        self.body_size = 0
        self.frame_payload = 0
        self.frame_count = 0
        self.channel = 0
        self.flags = 0
        self.delivery_count = 0
        #: When it expires, in µs of the wall clock; 0 for never.
        self.deadline_us = 0

    def size(self) -> int:
        """Bytes of the content frames, envelopes included."""
        return self.header_size + self.body_size + 8 * self.frame_count

    def copy(self) -> Message:
        """The same content for another queue: its own offset, no history."""
        other = Message()
        other.content = self.content
        other.route = self.route
        other.header_size = self.header_size
        other.body_size = self.body_size
        other.frame_payload = self.frame_payload
        other.frame_count = self.frame_count
        other.channel = self.channel
        other.flags = self.flags & _PERSISTENT
        other.deadline_us = self.deadline_us
        return other

    def properties(self) -> bytes:
        """The basic properties as received: flags word and values."""
        content = self.content
        if content is None:
            raise ValueError("the content of this message is in the log")
        header = content if isinstance(content, bytes) else content[0]
        return header[19 : self.header_size - 1]

    def body(self) -> bytes:
        """The body without frame envelopes, joined; for slow paths only."""
        content = self.content
        if content is None:
            raise ValueError("the content of this message is in the log")
        if not isinstance(content, bytes):
            frames = [content[index] for index in range(1, len(content))]
            return b"".join([frame[7 : len(frame) - 1] for frame in frames])
        parts = []
        position = self.header_size
        while position < len(content):
            end = position + 7 + int.from_bytes(content[position + 3 : position + 7], "big")
            parts.append(content[position + 7 : end])
            position = end + 1
        return b"".join(parts)


def frame_header(kind: int, channel: int, size: int) -> bytes:
    """The seven bytes before a frame's payload."""
    return b"%c%b%b" % (kind, channel.to_bytes(2, "big"), size.to_bytes(4, "big"))


def build_message(
    route: bytes, properties: bytes, body: bytes | memoryview, frame_payload_max: int = 131064
) -> Message:
    """Make a message with frames on channel 0 from its parts.

    ``properties`` is the flags word and the values; ``frame_payload_max`` the largest body frame
    payload in bytes (frame_max less 8).
    """
    message = Message()
    size = len(body)
    header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties
    frames = [frame_header(2, 0, len(header)) + header + b"\xce"]
    message.header_size = len(frames[0])
    for start in range(0, size, frame_payload_max):
        piece = body[start : start + frame_payload_max]
        frames.append(frame_header(3, 0, len(piece)) + piece + b"\xce")
    message.frame_count = len(frames) - 1
    message.frame_payload = min(size, frame_payload_max)
    message.body_size = size
    message.route = route
    message.content = tuple(frames) if size > JOINED_BYTES_MAX else b"".join(frames)
    return message
