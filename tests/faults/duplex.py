"""A connection that writes and reads at once and never blocks: what a deadlock of the broker's making needs.

`Wire` opens it; from then on `Duplex` owns the socket. It looks into what arrives just far enough to count.
"""

from __future__ import annotations

import select
import struct
import time
from collections import Counter
from collections.abc import Callable

from tests.interop.wire import Wire, encode_frame, encode_method

DELIVER, ACK, NACK, CHANNEL_CLOSE, CONNECTION_CLOSE = (60, 60), (60, 80), (60, 120), (20, 40), (10, 50)
_FRAME = struct.Struct(">BHI")
_IDS = struct.Struct(">HH")
_TAG = struct.Struct(">Q")


class Duplex:
    """``on_deliver(channel, delivery_tag)`` is called for every delivery."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.out = bytearray()
        self.incoming = bytearray(wire.buffer)
        self.delivered = 0
        self.redelivered = 0
        self.body_octets = 0
        #: sequence numbers confirmed; multiple acks settle all below
        self.confirmed_to = 0
        self.confirmed = 0
        self.nacked = 0
        self.others: Counter[tuple[int, int]] = Counter()
        self.closed = ""
        self.on_deliver: Callable[[int, int], None] | None = None
        wire.socket.setblocking(False)

    def queue_ack(self, channel: int, tag: int) -> None:
        """Acknowledge everything up to ``tag``."""
        self.out += encode_frame(1, channel, encode_method("basic.ack", delivery_tag=tag, multiple=True))

    def turn(self, timeout: float) -> None:
        """Write and read what is possible now, or wait up to ``timeout`` seconds for something to be."""
        socket = self.wire.socket
        readable, writable, _ = select.select([socket], [socket] if self.out else [], [], timeout)
        if writable:
            try:
                sent = socket.send(memoryview(self.out)[:262144])
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self.closed = self.closed or str(error)
                return
            del self.out[:sent]
        if readable:
            try:
                data = socket.recv(262144)
            except BlockingIOError:
                return
            except OSError as error:
                self.closed = self.closed or str(error)
                return
            if not data:
                self.closed = self.closed or "closed by the broker"
                return
            self.incoming += data
            self._scan()

    def _scan(self) -> None:
        data = bytes(self.incoming)
        position = 0
        while position + 7 <= len(data):
            kind, channel, size = _FRAME.unpack_from(data, position)
            end = position + 8 + size
            if end > len(data):
                break
            if kind == 1:
                self._method(channel, data, position + 7)
            elif kind == 3:
                self.body_octets += size
            position = end
        del self.incoming[:position]

    def _method(self, channel: int, data: bytes, position: int) -> None:
        ids = _IDS.unpack_from(data, position)
        if ids == DELIVER:
            tag_at = position + 5 + data[position + 4]
            (tag,) = _TAG.unpack_from(data, tag_at)
            self.delivered += 1
            self.redelivered += data[tag_at + 8] & 1
            if self.on_deliver is not None:
                self.on_deliver(channel, tag)
        elif ids in (ACK, NACK):
            (tag,) = _TAG.unpack_from(data, position + 4)
            count = tag - self.confirmed_to if data[position + 12] & 1 else 1
            self.confirmed_to = max(self.confirmed_to, tag)
            if ids == ACK:
                self.confirmed += count
            else:
                self.nacked += count
        elif ids in (CHANNEL_CLOSE, CONNECTION_CLOSE):
            self.closed = data[position + 7 : position + 7 + data[position + 6]].decode(errors="replace")
        else:
            self.others[ids] += 1

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Turn until ``condition`` holds; False if it did not within ``seconds`` or the connection ended."""
        end = time.monotonic() + seconds
        self._scan()  # the wire may have read the last of it already
        while not condition():
            if self.closed or time.monotonic() > end:
                return False
            self.turn(0.05)
        return True
