"""Publisher confirms of one channel.

Sequence numbers are settled in any order. At the end of a tick all numbers below the lowest unsettled one are
acknowledged by one ``basic.ack`` with ``multiple``, and settled numbers above it by single acks, as in
RabbitMQ. So no number waits for an earlier one, and ``multiple`` never covers an unsettled one.

Source: RabbitMQ, "Consumer Acknowledgements and Publisher Confirms".
"""

from __future__ import annotations

from heapq import heappop, heappush

from amqp_router.channel.listener import ChannelListener
from amqp_router.protocol import constants
from amqp_router.protocol._buf import Buf
from amqp_router.protocol.tick import Tick


class Confirms:
    """``settle`` is called when publishes become safe, ``emit`` once per tick."""

    __slots__ = (
        "acked_to",
        "ahead",
        "confirm_total",
        "fresh",
        "low",
        "nacked",
        "number",
        "owed",
        "owner",
        "tick",
        "top",
    )

    def __init__(self) -> None:
        self.number = 0
        self.tick: Tick
        self.owner: ChannelListener
        #: The lowest sequence number not settled.
        self.low = 1
        #: All below are acknowledged to the client with ``multiple``.
        self.acked_to = 1
        #: Settled ranges above ``low``, a heap of (first, last).
        self.ahead: list[tuple[int, int]] = []
        #: Ranges settled this tick above ``low``, to be sent singly.
        self.fresh: list[tuple[int, int]] = []
        self.nacked: list[tuple[int, int]] = []
        #: The highest number acknowledged this tick at ``low``; 0 if none.
        self.top = 0
        self.owed = False
        #: Publishes that are safe.
        self.confirm_total = 0

    def settle(self, first: int, last: int, failed: bool) -> None:
        """The publishes ``first`` to ``last`` are safe, or (``failed``) must be nacked."""
        if failed:
            self.nacked.append((first, last))
        else:
            self.confirm_total += last - first + 1
        if first == self.low:
            self.low = last + 1
            if not failed:
                self.top = last
            ahead = self.ahead
            while ahead and ahead[0][0] == self.low:
                self.low = heappop(ahead)[1] + 1
        else:
            heappush(self.ahead, (first, last))
            if not failed:
                self.fresh.append((first, last))
        if not self.owed:
            self.owed = True
            self.tick.channels.append(self.owner)
            self.tick.wake()

    def emit(self, buf: Buf) -> None:
        """Write the due acks and nacks into ``buf``."""
        self.owed = False
        if self.nacked:
            for first, last in self.nacked:
                for sequence in range(first, last + 1):
                    # The requeue bit is set (its default), as in RabbitMQ's nacks.
                    self._frame(buf, 120, sequence, 2)
            self.nacked = []
        low = self.low
        top = self.top
        for _, last in self.fresh:
            if low > last > top:
                top = last
        if top >= self.acked_to:
            self._frame(buf, 80, top, 1 if top > self.acked_to else 0)
        self.top = 0
        self.acked_to = low
        if self.fresh:
            for first, last in self.fresh:
                for sequence in range(max(first, low), last + 1):
                    self._frame(buf, 80, sequence, 0)
            self.fresh = []

    def _frame(self, buf: Buf, method: int, sequence: int, bits: int) -> None:
        buf.u8(constants.FRAME_METHOD)
        buf.u16(self.number)
        buf.u32(13)
        buf.u16(60)
        buf.u16(method)
        buf.u64(sequence)
        buf.u8(bits)
        buf.u8(constants.FRAME_END)
