"""One message as one queue holds it.

In memory a message is the raw frames it came in: nothing is decoded but what a queue needs, once, by whoever
makes the message. Only this module and ``output`` look into the frames; all others ask the message. A message
that goes to several queues is one object per queue (each has its own offset) around the same bytes.
"""

from __future__ import annotations

from typing import Protocol

try:
    import cython
except ImportError:  # it is there where modules are compiled
    from amqp_router.protocol import no_cython as cython

from amqp_router.protocol import constants, flags
from amqp_router.protocol._buf import Buf
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.frames import COMPLETE, NO_EXPIRY, ContentScan

#: Bodies above this many bytes stay a tuple of frames and are never joined.
JOINED_BYTES_MAX = 1 << 20
#: Largest payload of body frames that are made here: frame_max 131,072 less the envelope.
FRAME_PAYLOAD_MAX = 131064

# C integers where compiled (see message.pxd).
_NO_EXPIRY = NO_EXPIRY
_JOINED_BYTES_MAX = JOINED_BYTES_MAX
_FRAME_PAYLOAD_MAX = FRAME_PAYLOAD_MAX
_FIXED = 12  # octets of a content header's payload before its property flags
_PROPERTIES_AT = 19  # in the content header frame
_ENVELOPE = 8


class Frames(Protocol):
    """Complete frames by index, header frame first. Those of a large message may be read from disk when
    used.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> bytes: ...


class Extras:
    """What few messages have, and a log keeps beside their records. ``b""`` and 0 stand for "none".

    A dead letter has the message that it was: ``source`` (the 16 bytes of its log's id), and partition, epoch
    and offset there. The epoch is 0 in letters of releases that did not note it. ``due_us`` is the time, in
    µs of the wall clock, before which a message is not delivered. A producer is a channel of a session;
    ``sequence`` counts its publishes.
    """

    __slots__ = (
        "channel",
        "due_us",
        "sequence",
        "session",
        "source",
        "source_epoch",
        "source_offset",
        "source_partition",
    )

    def __init__(self) -> None:
        self.source = b""
        self.source_partition = 0
        self.source_epoch = 0
        self.source_offset = 0
        self.due_us = 0
        self.session = 0
        self.channel = 0
        self.sequence = 0


@cython.no_gc
@cython.freelist(1024)
@cython.cclass
class Message:
    """A message in a queue. Like other hot objects it is made without arguments and filled by attribute.

    ``content`` is the content header frame followed by the body frames, envelopes included: one
    ``bytes``, or whole frames (``Frames``) when the body is above ``JOINED_BYTES_MAX``, or ``None`` once
    delivered and to be read again from the log. ``route`` is exchange and routing key as
    ``basic.deliver`` carries them. ``gap`` counts the offsets directly before ``offset`` that are no
    message, so that acknowledged neighbours merge into one run. ``priority`` and ``expire_ms`` are the
    publisher's properties, 0 and NO_EXPIRY if they are absent; a message read from a log has its deadline
    instead of ``expire_ms``. ``extras`` is None for most messages.

    The garbage collector does not know messages, of which there may be millions. So a queue lets go of its
    messages when it ends: the content of a large one refers to the queue, to tell it of read errors.
    """

    __slots__ = (
        "body_size",
        "channel",
        "content",
        "deadline_us",
        "delivery_count",
        "expire_ms",
        "extras",
        "flags",
        "frame_count",
        "frame_payload",
        "gap",
        "header_size",
        "offset",
        "priority",
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
        self.priority = 0
        self.expire_ms = _NO_EXPIRY
        self.extras: Extras | None = None

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
        other.flags = self.flags & (flags.PERSISTENT | flags.BLIND)
        other.deadline_us = self.deadline_us
        other.priority = self.priority
        other.expire_ms = self.expire_ms
        other.extras = self.extras
        return other

    def take_content(self, other: Message) -> None:
        """Take the content of ``other``: the same message read again, or made anew."""
        self.content = other.content
        self.channel = other.channel
        self.header_size = other.header_size
        self.frame_count = other.frame_count
        self.frame_payload = other.frame_payload

    def properties(self) -> bytes:
        """The basic properties as received: flags word and values."""
        content = self.content
        if content is None:
            raise ValueError("the content of this message is in the log")
        header = content if isinstance(content, bytes) else content[0]
        return header[_PROPERTIES_AT : self.header_size - 1]

    def put_properties(self, out: Buf) -> int:
        """Append the basic properties to ``out``, of a message whose content is a tuple of frames."""
        frames: tuple[bytes, ...] = self.content  # type: ignore[assignment]
        out.put_range(frames[0], _PROPERTIES_AT, self.header_size - 1)
        return 0

    def put_parts(self, properties: Buf, bodies: Buf) -> int:
        """Append basic properties and body to the buffers, of a message whose content is one ``bytes``."""
        content: bytes = self.content  # type: ignore[assignment]
        properties.put_range(content, _PROPERTIES_AT, self.header_size - 1)
        d = content
        position = self.header_size
        end = len(content)
        while position < end:
            size = _be32(d, position + 3)
            bodies.put_range(content, position + 7, position + 7 + size)
            position += size + _ENVELOPE
        return 0

    def body_pieces(self) -> list[memoryview]:
        """The body without frame envelopes, not joined; of a message whose content is a tuple of frames."""
        frames: tuple[bytes, ...] = self.content  # type: ignore[assignment]
        return [memoryview(frame)[7 : len(frame) - 1] for frame in frames[1:]]

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


def _be32(d: bytes, p: int) -> int:
    """A big-endian u32."""
    return d[p] << 24 | d[p + 1] << 16 | d[p + 2] << 8 | d[p + 3]


def body_start(message: Message, size: int) -> bytes:
    """The first ``size`` octets of the body. Of a large message only the frames with them are read."""
    content = message.content
    if content is None or isinstance(content, bytes):
        return message.body()[:size]
    parts = []
    index = 1
    left = size
    while left > 0 and index < len(content):
        frame = content[index]
        part = frame[7 : min(7 + left, len(frame) - 1)]
        parts.append(part)
        left -= len(part)
        index += 1
    return b"".join(parts)


def frame_header(kind: int, channel: int, size: int) -> bytes:
    """The seven bytes before a frame's payload."""
    return b"%c%b%b" % (kind, channel.to_bytes(2, "big"), size.to_bytes(4, "big"))


def make_frame(kind: int, channel: int, payload: bytes | memoryview) -> bytes:
    """A whole frame."""
    return b"".join((frame_header(kind, channel, len(payload)), payload, constants.FRAME_END_OCTET))


def content_header(properties: bytes, body_size: int) -> bytes:
    """A content header frame on channel 0."""
    payload = b"\x00\x3c\x00\x00%b%b" % (body_size.to_bytes(8, "big"), properties)
    return make_frame(constants.FRAME_HEADER, 0, payload)


def with_properties(header: bytes, properties: bytes) -> bytes:
    """The content header frame ``header`` with other properties."""
    size = _FIXED + len(properties)
    return b"%b%b%b%b%b" % (
        header[:3], size.to_bytes(4, "big"), header[7:_PROPERTIES_AT], properties, constants.FRAME_END_OCTET
    )  # fmt: skip


def build_message(
    route: bytes, properties: bytes, body: bytes | memoryview, frame_payload_max: int = FRAME_PAYLOAD_MAX
) -> Message:
    """Make a message with frames on channel 0 from its parts, for a publisher that has no frames.

    ``properties`` is the flags word and the values; ``frame_payload_max`` the largest body frame
    payload in bytes (frame_max less 8).

    Raises:
        FieldError: the octets are no property list.
    """
    message = Message()
    size = len(body)
    frames = [content_header(properties, size)]
    scan = ContentScan()
    if scan.header(frames[0], 0) != COMPLETE:
        raise FieldError("malformed properties")
    if scan.persistent:
        message.flags = flags.PERSISTENT
    message.priority = scan.priority
    message.expire_ms = scan.expire_ms
    message.header_size = len(frames[0])
    for start in range(0, size, frame_payload_max):
        piece = body[start : start + frame_payload_max]
        frames.append(make_frame(constants.FRAME_BODY, 0, piece))
    message.frame_count = len(frames) - 1
    message.frame_payload = min(size, frame_payload_max)
    message.body_size = size
    message.route = route
    message.content = tuple(frames) if size > JOINED_BYTES_MAX else b"".join(frames)
    return message


def read_message(
    out: Buf, properties: bytes, properties_at: int, properties_end: int, bodies: bytes, start: int, end: int
) -> Message:
    """Make a message with frames on channel 0 from ``properties[properties_at:properties_end]`` and
    ``bodies[start:end]``, which are copied once, by way of ``out``.

    The other fields are the caller's, also what the properties say.
    """
    message = Message()
    properties_size = properties_end - properties_at
    size = end - start
    out.u8(constants.FRAME_HEADER)
    out.u16(0)
    out.u32(_FIXED + properties_size)
    out.u32(0x003C0000)
    out.u64(size)
    out.put_range(properties, properties_at, properties_end)
    out.u8(constants.FRAME_END)
    message.header_size = 20 + properties_size
    message.body_size = size
    if size <= _FRAME_PAYLOAD_MAX:
        message.frame_payload = size
        if size > 0:
            _put_frame(out, bodies, start, end)
            message.frame_count = 1
        message.content = out.take()
        return message
    message.frame_payload = _FRAME_PAYLOAD_MAX
    frames = [out.take()]
    while start < end:
        part = min(end - start, _FRAME_PAYLOAD_MAX)
        _put_frame(out, bodies, start, start + part)
        frames.append(out.take())
        start += part
    message.frame_count = len(frames) - 1
    message.content = tuple(frames) if size > _JOINED_BYTES_MAX else b"".join(frames)
    return message


def _put_frame(out: Buf, bodies: bytes, start: int, end: int) -> int:
    """Append a body frame with the payload ``bodies[start:end]``."""
    out.u8(constants.FRAME_BODY)
    out.u16(0)
    out.u32(end - start)
    out.put_range(bodies, start, end)
    out.u8(constants.FRAME_END)
    return 0
