"""Bytes on their way out of a connection.

Channels write frames into ``buf``; once per tick the transport takes what it can send. A body above
1 MiB stays the tuple of frames it came in and is expanded frame by frame as the socket drains.

A channel whose reply waits for a commit writes into a detached ``Output`` (``tick`` None) that is
joined to the connection's when the reply may leave, so the order on the channel never changes.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from amqp_router.protocol import constants
from amqp_router.protocol._buf import Buf
from amqp_router.protocol.message import Frames, Message, frame_header, make_frame
from amqp_router.protocol.tick import Tick

#: Above this many waiting bytes no queue delivers to the connection until it has drained.
FULL_BYTES = 1 << 20
_FULL_BYTES = 1 << 20  # a C integer where compiled
#: Octets of a message that goes out as an answer, to the power of 2, that cost as much as an enqueue.
ANSWER_SHIFT = 9
#: More octets than any message has.
MESSAGE_BYTES = 1 << 62


class LargeContent:
    """Content frames of a large message, cut to the receiver's channel and frame size on demand."""

    __slots__ = (
        "asked",
        "body_payload_max",
        "channel",
        "current",
        "frames",
        "in_memory",
        "index",
        "position",
    )

    def __init__(self, frames: Frames, channel: int, body_payload_max: int) -> None:
        # A list of its own, so that each frame is freed when it is sent. Freeing a thousand at once takes
        # long.
        self.frames = list(frames) if isinstance(frames, tuple) else frames
        self.channel = channel
        self.body_payload_max = body_payload_max
        self.index = 0
        #: The octets that ``Output`` counts: those in memory, and those that the client asked for.
        self.in_memory = 0
        self.asked = 0
        self.position = 7
        #: The frame being cut, from ``position`` on.
        self.current = b""

    def next_piece(self) -> bytes:
        """The next frame to send, or ``b""`` if all are sent."""
        if self.index >= len(self.frames):
            return b""
        frame = self.current
        if self.position == 7:
            frame = self.frames[self.index]
        if self.index == 0:
            self._advance()
            return _on_channel(frame, self.channel)
        end = len(frame) - 1
        if end - 7 <= self.body_payload_max:
            self._advance()
            return _on_channel(frame, self.channel)
        self.current = frame
        stop = min(self.position + self.body_payload_max, end)
        piece = frame[self.position : stop]
        self.position = stop
        if stop == end:
            self._advance()
        return make_frame(constants.FRAME_BODY, self.channel, piece)

    def _advance(self) -> None:
        if isinstance(self.frames, list):
            self.frames[self.index] = b""
        self.index += 1
        self.position = 7
        self.current = b""


def _on_channel(frame: bytes, channel: int) -> bytes:
    number = channel.to_bytes(2, "big")
    if frame[1:3] == number:
        return frame
    return frame[:1] + number + frame[3:]


class Output:
    """The output that waits to be written: ``pieces`` in order, then ``buf``."""

    __slots__ = (
        "asked_bytes",
        "buf",
        "dirty",
        "full",
        "large_bytes",
        "owner",
        "piece_bytes",
        "pieces",
        "tick",
    )

    def __init__(self) -> None:
        self.buf = Buf()
        self.pieces: deque[bytes | LargeContent] = deque()
        self.piece_bytes = 0
        #: Octets of large contents: those in memory, and those that the client asked for, in memory or not.
        self.large_bytes = 0
        self.asked_bytes = 0
        self.dirty = False
        self.full = False
        self.tick: Tick | None = None
        #: Object with ``flush()``; the transport.
        self.owner: object | None = None

    def touch(self) -> None:
        """Ask for a flush at the end of this tick."""
        if self.buf.size > _FULL_BYTES:
            self.full = True
        if not self.dirty and self.tick is not None:
            self.dirty = True
            self.tick.outputs.append(self)
            self.tick.wake()

    def content(self, message: Message, channel: int, body_payload_max: int) -> None:
        """Append the content frames of ``message``, renumbered for ``channel``.

        Body frames longer than ``body_payload_max`` (the receiver's frame_max less 8) are cut.
        """
        content: Any = message.content
        buf = self.buf
        if not isinstance(content, bytes):
            if buf.size > 0:
                self.piece_bytes += buf.size
                self.pieces.append(buf.take())
            large = LargeContent(content, channel, body_payload_max)
            if isinstance(content, tuple):
                large.in_memory = message.size()
                self.large_bytes += large.in_memory
            self.pieces.append(large)
            self.full = True
            return
        if message.frame_payload > body_payload_max:
            self._cut(message, channel, body_payload_max)
            return
        start = buf.size
        buf.put(content)
        if message.channel == channel:
            return
        buf.set_u16(start + 1, channel)
        if message.frame_count == 1:
            buf.set_u16(start + message.header_size + 1, channel)
        elif message.frame_count > 1:
            position = message.header_size
            end = len(content)
            while position < end:
                buf.set_u16(start + position + 1, channel)
                position += 8 + int.from_bytes(content[position + 3 : position + 7], "big")

    def answer(self, message: Message, channel: int, body_payload_max: int) -> None:
        """As ``content``, for a message that answers a method of the client (basic.get, basic.return).

        A large answer counts as waiting output, so a client that asks for more before it has read this must
        wait. A large delivery does not count: it fills the output, so there is never more than one.
        """
        self.content(message, channel, body_payload_max)
        if not isinstance(message.content, bytes):
            large = self.pieces[len(self.pieces) - 1]
            assert isinstance(large, LargeContent)
            large.asked = message.size()
            self.asked_bytes += large.asked

    def _cut(self, message: Message, channel: int, body_payload_max: int) -> None:
        buf = self.buf
        body = message.body()
        content: Any = message.content
        start = buf.size
        buf.put_range(content, 0, message.header_size)
        buf.set_u16(start + 1, channel)
        for position in range(0, len(body), body_payload_max):
            end = min(position + body_payload_max, len(body))
            buf.put(frame_header(constants.FRAME_BODY, channel, end - position))
            buf.put_range(body, position, end)
            buf.u8(constants.FRAME_END)

    def join(self, other: Output) -> None:
        """Append everything that a detached output has gathered."""
        if other.pieces:
            if self.buf.size > 0:
                self.piece_bytes += self.buf.size
                self.pieces.append(self.buf.take())
            self.pieces.extend(other.pieces)
            self.piece_bytes += other.piece_bytes
            self.large_bytes += other.large_bytes
            self.asked_bytes += other.asked_bytes
            other.pieces.clear()
            other.piece_bytes = other.large_bytes = other.asked_bytes = 0
        if other.buf.size > 0:
            self.buf.put(other.buf.take())

    def clear(self) -> None:
        """Drop all that is not yet given to the socket; it ends behind a whole frame."""
        self.pieces.clear()
        self.buf.clear()
        self.piece_bytes = self.large_bytes = self.asked_bytes = 0

    def next_piece(self) -> bytes:
        """The next bytes for the socket, or ``b""`` when nothing waits."""
        while self.pieces:
            piece = self.pieces[0]
            if isinstance(piece, LargeContent):
                data = piece.next_piece()
                self._uncount(piece, len(data) if data else MESSAGE_BYTES)
                if data:
                    return data
                self.pieces.popleft()
                continue
            self.pieces.popleft()
            self.piece_bytes -= len(piece)
            return piece
        if self.buf.size > 0:
            return self.buf.take()
        return b""

    def _uncount(self, large: LargeContent, size: int) -> None:
        """Subtract ``size`` octets of ``large``, or all, which were sent."""
        done = min(size, large.in_memory)
        large.in_memory -= done
        self.large_bytes -= done
        done = min(size, large.asked)
        large.asked -= done
        self.asked_bytes -= done

    def waiting_bytes(self) -> int:
        """Bytes not yet given to the socket, without large bodies of deliveries."""
        return self.buf.size + self.piece_bytes + self.asked_bytes

    def held_bytes(self) -> int:
        """Bytes in memory that are not yet given to the socket."""
        return self.buf.size + self.piece_bytes + self.large_bytes
