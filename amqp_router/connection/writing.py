"""Writes what waits for a client to its socket, as much as the socket takes."""

from __future__ import annotations

import asyncio

from amqp_router.protocol.output import Output

#: Bytes handed to the socket at a time. What the socket does not take is copied by the event loop.
WRITE_BYTES = 256 << 10
#: Bytes written to one connection before the others get their turn; the kernel may take several MiB at once.
TURN_BYTES = 1 << 20
_NOTHING = memoryview(b"")


class Writer:
    """Takes pieces from ``output`` and hands them to ``socket``."""

    __slots__ = ("_rest", "_rest_bytes", "_socket", "output", "send_cnt", "send_oct", "sent", "writable")

    def __init__(self, output: Output, socket: asyncio.Transport) -> None:
        self.output = output
        self._socket = socket
        #: Whether the kernel takes more.
        self.writable = True
        #: The unwritten rest of a large piece.
        self._rest = _NOTHING
        #: Size of the whole piece, which stays in memory until its rest is written.
        self._rest_bytes = 0
        #: Whether anything was written since the last heartbeat was due.
        self.sent = False
        #: Octets written, and the number of writes.
        self.send_oct = 0
        self.send_cnt = 0

    def flush(self) -> bool:
        """Write what waits; True if the socket has taken all of it.

        After ``TURN_BYTES`` the rest follows in the next turn, behind the other connections.
        """
        output = self.output
        left = TURN_BYTES
        while self.writable and left > 0:
            if self._rest:
                piece = self._rest[:WRITE_BYTES]
                self._rest = self._rest[WRITE_BYTES:]
                if not self._rest:
                    self._rest = _NOTHING  # or it would keep the piece
                    self._rest_bytes = 0
                left -= len(piece)
                self.write(piece)
                continue
            data = output.next_piece()
            if not data:
                break
            if len(data) <= WRITE_BYTES:
                left -= len(data)
                self.write(data)
            else:
                self._rest = memoryview(data)
                self._rest_bytes = len(data)
        self.send_oct += TURN_BYTES - left
        if self.writable and left <= 0:
            output.touch()
            return False
        return self.writable

    def write(self, data: bytes | memoryview) -> None:
        """Hand ``data`` to the socket."""
        self.sent = True
        self.send_cnt += 1
        self._socket.write(data)

    def is_inside_of_a_frame(self) -> bool:
        """Whether the next octets belong to what was begun."""
        return len(self._rest) > 0

    def unsent_bytes(self) -> int:
        """Bytes in memory that were taken from ``output`` and not by the kernel."""
        buffered = 0 if self.writable else self._socket.get_write_buffer_size()
        return self._rest_bytes + buffered
