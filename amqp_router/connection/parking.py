"""Frames that wait because a queue has not answered their channel (``amqp_router.channel.asking``).

The frames of one channel wait in the order in which they came, and are handled in that order when the answer
is there, before any later frame of the channel. Other channels go on. The connection as a whole waits
(``is_full``) if more than ``PARKED_BYTES_MAX`` are held, because a client may send without end to a channel
that waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from amqp_router.protocol.errors import AMQPError

#: Octets of frames that may wait on one connection, and what a frame costs besides its payload.
PARKED_BYTES_MAX = 256 << 10
FRAME_BYTES = 150


class Parking:
    """The channels of one connection that wait, and their frames."""

    __slots__ = ("answered", "channels", "hearer", "size")

    def __init__(self) -> None:
        #: By number of the channel: kinds and payloads of its frames.
        self.channels: dict[int, deque[tuple[int, bytes]]] = {}
        #: Channels that have their answer, in this order, and the error that it is.
        self.answered: dict[int, AMQPError | None] = {}
        #: Set by whoever goes on when a channel has its answer, until the connection stops.
        self.hearer: Callable[[], None] | None = None
        #: Octets held.
        self.size = 0

    def begin(self, number: int) -> None:
        """Channel ``number`` waits for an answer, perhaps again."""
        self.channels.setdefault(number, deque())
        self.answered.pop(number, None)

    def add(self, number: int, kind: int, payload: bytes) -> None:
        """A frame came for a channel that waits."""
        self.channels[number].append((kind, payload))
        self.size += len(payload) + FRAME_BYTES

    def is_full(self) -> bool:
        """Whether no further frame may be handled for now."""
        return self.size > PARKED_BYTES_MAX

    def answer(self, number: int, error: AMQPError | None) -> None:
        """The channel has its answer. Nothing happens if it does not wait."""
        if number in self.channels:
            self.answered[number] = error
            if self.hearer is not None:
                self.hearer()

    def take_error(self, number: int) -> AMQPError | None:
        """The error that the answer is; None if it is none, or was taken."""
        error, self.answered[number] = self.answered[number], None
        return error

    def take(self, number: int) -> tuple[int, bytes] | None:
        """The next frame of a channel that has its answer; None if none is left, and it waits no more."""
        frames = self.channels[number]
        if not frames:
            del self.channels[number]
            del self.answered[number]
            return None
        kind, payload = frames.popleft()
        self.size -= len(payload) + FRAME_BYTES
        return kind, payload

    def clear(self) -> None:
        """The connection ends."""
        self.channels.clear()
        self.answered.clear()
        self.size = 0
