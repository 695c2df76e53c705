"""When a client's socket is read. Reading pauses for five reasons:

- the client has too many unsynced bytes, or changes of definitions that are not stored, until they are;
- it published during an alarm, until no alarm is on;
- a chunk was too much work for one turn, until the next turn;
- a queue has not answered a channel that has sent more meanwhile, until it does;
- the client does not read its output, until it does.

For the first two, clients that also consume are still read slowly, so that their acknowledgements arrive. So
are clients that have ended during an alarm, so that their end is noticed, behind what they sent before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from amqp_router.connection.machine import Machine
from amqp_router.connection.ports import Services

#: Seconds between chunks read from a paused connection that also consumes.
TRICKLE_S = 0.05
#: A client with more unread output than this many times ``output_bytes_max`` is not read at all.
TRICKLE_OUTPUTS = 2
#: A client that has more unread output than this many bytes is not read, when unread output and the like take
#: more than this share of the node's memory.
SCARCE_OUTPUT_BYTES = 64 << 10
SCARCE_SHARE = 4
#: A client with more than this many times ``unsynced_bytes_max`` that is not synced or stored is not read at
#: all until the disk has caught up.
TRICKLE_INFLOWS = 4


class Reading:
    """Pauses and resumes the reading of ``socket``. ``go_on()`` continues with a chunk that was too much."""

    __slots__ = (
        "_continuing",
        "_ended",
        "_go_on",
        "_loop",
        "_machine",
        "_node",
        "_socket",
        "_trickle",
        "_watched",
        "is_on",
    )

    def __init__(
        self,
        node: Services,
        machine: Machine,
        loop: asyncio.AbstractEventLoop,
        socket: asyncio.Transport,
        go_on: Callable[[], None],
    ) -> None:
        self._node = node
        self._machine = machine
        self._loop = loop
        self._socket = socket
        self._go_on: Callable[[], None] | None = go_on
        #: Whether the socket is read.
        self.is_on = True
        #: Whether the continuation of a chunk is scheduled.
        self._continuing = False
        #: The socket's descriptor while the client's end is watched for, or -1.
        self._watched = -1
        #: Whether the client has ended while it was blocked.
        self._ended = False
        self._trickle: asyncio.TimerHandle | None = None

    def update(self) -> None:
        """A reason to read or not to read has come or gone."""
        machine = self._machine
        if self._socket.is_closing():
            return
        waits = machine.blocked or self.is_output_unread() or machine.dispatch.stuck
        # Work in slices always goes on, because it gives back what the client holds.
        if machine.work_left and (machine.work.waiting or not waits) and not self._continuing:
            self._continuing = True
            self._node.turns.line_up(self._continue)
        wanted = not (machine.work_left or machine.inflow.over or waits)
        if wanted != self.is_on:
            self.is_on = wanted
            if wanted:
                self._socket.resume_reading()
            else:
                self._socket.pause_reading()
        if wanted:
            self._unwatch()
        elif self._trickle is None:
            if self._trickles():
                self._trickle = self._loop.call_later(TRICKLE_S, self._read_a_little)
            elif machine.blocked:
                self._watch()

    def is_output_unread(self) -> bool:
        """Whether the client has so much unread output that it is not read."""
        waiting = self._machine.waiting_bytes()
        if waiting <= SCARCE_OUTPUT_BYTES:
            return False
        budget = self._node.budget
        is_scarce = budget.whole > 0 and budget.held > budget.whole // SCARCE_SHARE
        return is_scarce or waiting > self._node.options.output_bytes_max

    def stop(self) -> None:
        """The socket is gone."""
        if self._trickle is not None:
            self._trickle.cancel()
            self._trickle = None
        self._unwatch()
        self._go_on = None

    def _continue(self) -> None:
        self._continuing = False
        if self._machine.work_left and self._go_on is not None:
            self._go_on()

    def _watch(self) -> None:
        """Hear of the client's end although nothing is read."""
        sock = self._socket.get_extra_info("socket")
        if self._watched < 0 and sock is not None:
            self._watched = sock.fileno()
            self._node.hangups.watch(self._watched, self._client_ended)

    def _unwatch(self) -> None:
        if self._watched >= 0:
            self._node.hangups.forget(self._watched)
            self._watched = -1

    def _client_ended(self) -> None:
        self._watched = -1
        self._ended = True
        self._node.enter(self.update)

    def _trickles(self) -> bool:
        """Whether a paused connection is read slowly, because its acknowledgements may free what is short."""
        machine = self._machine
        # A client that does not read would otherwise cause ever more output.
        most = TRICKLE_OUTPUTS * self._node.options.output_bytes_max
        if machine.inflow.unsynced > TRICKLE_INFLOWS * machine.inflow.limit:
            return False  # until the sync or the definition store has caught up
        if machine.waiting_bytes() > most:
            return False
        return (self._ended and machine.blocked) or machine.acknowledges()

    def _read_a_little(self) -> None:
        """Read one chunk; ``update`` pauses again if necessary."""
        self._trickle = None
        if self.is_on or self._continuing or self._socket.is_closing():
            return
        if self._machine.work_left:
            self._continuing = True
            self._node.enter(self._continue)
        else:
            self.is_on = True
            self._socket.resume_reading()
