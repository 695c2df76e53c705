"""Heartbeats: a silent connection gets one, and a silent peer is dead.

Source: AMQP 0-9-1, section 4.2.7; RabbitMQ, "Detecting Dead TCP Connections with Heartbeats and TCP
Keepalives": every half interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from amqp_router.connection.machine import Machine
from amqp_router.connection.reading import Reading
from amqp_router.connection.writing import Writer
from amqp_router.protocol.constants import HEARTBEAT_FRAME

#: A peer is dead after this many heartbeat intervals without an octet.
SILENT_INTERVALS = 2.5
#: Checks of a connection per heartbeat interval. A check sends a heartbeat if nothing was sent since the
#: previous check, so the socket is silent for at most two checks: half an interval, as with RabbitMQ.
LOOKS_PER_INTERVAL = 4


class Heartbeats:
    """The heartbeats of one connection. ``dead(reason)`` is called when its peer is silent for too long."""

    __slots__ = (
        "_dead",
        "_interval_s",
        "_last_received",
        "_loop",
        "_machine",
        "_reading",
        "_timer",
        "_writer",
        "received",
    )

    def __init__(
        self,
        machine: Machine,
        loop: asyncio.AbstractEventLoop,
        reading: Reading,
        writer: Writer,
        dead: Callable[[str], None],
    ) -> None:
        self._machine = machine
        self._loop = loop
        self._reading = reading
        self._writer = writer
        self._dead: Callable[[str], None] | None = dead
        self._interval_s = 0
        self._timer: asyncio.TimerHandle | None = None
        #: Whether anything was received since the last check.
        self.received = False
        self._last_received = loop.time()

    def start(self, interval_s: int) -> None:
        """Begin; 0 seconds is never."""
        self._interval_s = interval_s
        if interval_s > 0:
            self._next_look()

    def stop(self) -> None:
        """The socket is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._dead = None

    def _next_look(self) -> None:
        self._timer = self._loop.call_later(self._interval_s / LOOKS_PER_INTERVAL, self._look)

    def _look(self) -> None:
        """Send a heartbeat if nothing else was sent, and check that the peer has sent something."""
        now = self._loop.time()
        if self.received or not self._reading.is_on:
            self.received = False
            self._last_received = now
        elif now - self._last_received > self._interval_s * SILENT_INTERVALS:
            self._timer = None
            if self._dead is not None:
                self._dead(f"missed heartbeats from client, timeout: {self._interval_s}s")
            return
        writer = self._writer
        if writer.sent:
            writer.sent = False
        elif writer.writable and self._machine.running and not writer.is_inside_of_a_frame():
            writer.write(HEARTBEAT_FRAME)
        self._next_look()
