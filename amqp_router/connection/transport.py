"""The socket of a connection. This is the only module of the package that uses asyncio.

Reading pauses for four reasons:

- the client has too many unsynced bytes, or changes of definitions that are not stored, until they are;
- it published during an alarm, until no alarm is on;
- a chunk was too much work for one turn, until the next turn;
- the client does not read its output, until it does.

For the first two, clients that also consume are still read slowly, so that their acknowledgements arrive. So
are clients that have ended during an alarm, so that their end is noticed, behind what they sent before it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from amqp_router.connection.machine import Machine
from amqp_router.connection.ports import Services
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.states import ConnectionState
from amqp_router.protocol.constants import HEARTBEAT_FRAME
from amqp_router.protocol.errors import InternalError
from persistence.errors import PersistenceError

#: Bytes handed to the socket at a time. What the socket does not take is copied by the event loop.
WRITE_BYTES = 256 << 10
#: Bytes written to one connection before the others get their turn; the kernel may take several MiB at once.
TURN_BYTES = 1 << 20
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
#: Seconds that a client has to answer connection.close.
CLOSE_TIMEOUT_S = 5.0
#: A peer is dead after this many heartbeat intervals without an octet.
SILENT_INTERVALS = 2.5
#: Checks of a connection per heartbeat interval. A check sends a heartbeat if nothing was sent since the
#: previous check, so the socket is silent for at most two checks: half an interval, as with RabbitMQ.
LOOKS_PER_INTERVAL = 4
#: Longest part of a client's connection name in the log, in characters.
NAME_MAX = 200


class _Gone:
    """The owner of an output whose socket is closed."""

    def flush(self) -> None:
        """Write nothing."""

    def failed(self, error: Exception) -> None:
        """Not called, as ``flush`` does not fail."""


_GONE = _Gone()
_NOTHING = memoryview(b"")


class Transport(asyncio.Protocol):
    """One client connection."""

    def __init__(
        self, node: Services, registry: ConnectionRegistry[Transport], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._node = node
        self._registry = registry
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._machine: Machine | None = None
        self._writable = True
        #: The unwritten rest of a large piece.
        self._rest = _NOTHING
        #: Size of the whole piece, which stays in memory until its rest is written.
        self._rest_bytes = 0
        self._reading = True
        #: Whether the continuation of a chunk is scheduled.
        self._continuing = False
        #: The socket's descriptor while the client's end is watched for, or -1.
        self._watched = -1
        #: Whether the client has ended while it was blocked.
        self._ended = False
        #: Bytes of this connection that are counted in the node's account.
        self._held = 0
        self._received = False
        self._last_received = 0.0
        self._sent = False
        self._timer: asyncio.TimerHandle | None = None
        self._heartbeat: asyncio.TimerHandle | None = None
        self._trickle: asyncio.TimerHandle | None = None
        self._ending = False
        #: Why the broker cut the connection, for the log; empty if the broker did not.
        self._cut_reason = ""
        #: Log level of the line about the connection's end; None: it depends on how the connection ended.
        self._end_level: int | None = None
        self._bytes_before_login = 0
        #: Octets received and sent, and the number of reads and writes of the socket.
        self.recv_oct = self.recv_cnt = 0
        self.send_oct = self.send_cnt = 0
        #: Milliseconds since 1970 when the virtual host was opened; 0 before.
        self.connected_at_ms = 0
        #: The same moment on the event loop's clock.
        self._opened_at = 0.0
        #: Addresses of the client's end of the socket, and of ours.
        self.peer_address: tuple[str, int] = ("?", 0)
        self.host_address: tuple[str, int] = ("?", 0)

    @property
    def machine(self) -> Machine:
        """The protocol side; it exists once the connection is made."""
        assert self._machine is not None
        return self._machine

    # -- asyncio's calls ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit of the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Writing pauses as soon as the kernel takes no more. The rest waits in our output, not in asyncio's.
        transport.set_write_buffer_limits(high=0)
        peer = transport.get_extra_info("peername") or ("?", 0)
        host, port = self.peer_address = str(peer[0]), peer[1]
        own = transport.get_extra_info("sockname") or ("?", 0)
        self.host_address = str(own[0]), own[1]
        machine = Machine(self._node, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", host)
        machine.output.owner = self
        machine.inflow.resume = self._update_reading
        machine.on_opened = self._opened
        self._machine = machine
        self._registry.add(self)
        self._last_received = self._loop.time()
        self._timer = self._loop.call_later(self._node.options.handshake_timeout_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Hand a chunk to the machine."""
        self._node.enter(self._receive, data)

    def _receive(self, data: bytes) -> None:
        machine = self.machine
        self._received = True
        self.recv_oct += len(data)
        self.recv_cnt += 1
        self._node.tick.now_us = self._node.wall_us()
        if machine.user is None:
            self._bytes_before_login += len(data)
            if self._bytes_before_login > 4 * self._node.options.pre_login_bytes_max:
                machine.refuse(f"{self._bytes_before_login} bytes before login", 0.0)
        machine.receive_data(data)
        # Output of a channel that waits for a commit is not flushed, so its size is checked here.
        if (
            machine.work_left
            or machine.inflow.over
            or machine.blocked
            or machine.detached
            or not self._reading
        ):
            self._update_reading()
        self._charge()
        if not machine.running:
            self._check_end()

    def _continue(self) -> None:
        self._continuing = False
        if self.machine.work_left:
            self._node.enter(self._receive_more)

    def _receive_more(self) -> None:
        machine = self.machine
        self._node.tick.now_us = self._node.wall_us()
        machine.receive_more()
        self._update_reading()
        self._charge()
        if not machine.running:
            self._check_end()

    def pause_writing(self) -> None:
        """The socket's buffer is full."""
        self._writable = False

    def resume_writing(self) -> None:
        """The socket takes more."""
        self._writable = True
        self._flush_or_end()

    def eof_received(self) -> bool:
        """The client has stopped sending: close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed: give back to the queues what the connection held."""
        machine = self.machine
        for timer in (self._timer, self._heartbeat, self._trickle):
            if timer is not None:
                timer.cancel()
        self._timer = self._heartbeat = self._trickle = None
        self._unwatch()
        self._registry.remove(self)
        opened, clean = machine.vhost is not None, machine.state is ConnectionState.CLOSED
        machine.socket_gone()
        self._node.budget.held -= self._held
        self._held = 0
        self._node.look_at_memory()
        if opened:
            self._tell_end(clean=clean, error=exc)
        self._untie()

    def _tell_end(self, *, clean: bool, error: Exception | None) -> None:
        machine = self.machine
        reason = self._cut_reason or str(error or "the client closed the socket without connection.close")
        level = self._end_level
        if level is None:
            level = logging.INFO if clean else logging.WARNING
        self._node.event(
            level,
            "connection closed" if clean else "connection lost",
            peer=machine.peer,
            user=machine.user.name,
            vhost=machine.vhost.name,
            name=self._client_name(),
            seconds=round(self._loop.time() - self._opened_at, 3),
            reason="closed" if clean else reason,
        )

    def _client_name(self) -> str | None:
        """The name that the client gave its connection, for the log; None if it gave none."""
        kind, name = self.machine.session.client_properties.get("connection_name", ("", b""))
        return name.decode(errors="replace")[:NAME_MAX] if kind == "S" else None

    def _untie(self) -> None:
        """Break the reference cycles, so that all memory of the connection is freed now.

        Full garbage collections wait until the broker is idle (``process.Collector``), and a broker whose
        clients come and go all day may never be idle.
        """
        machine = self.machine
        machine.output.owner = _GONE
        machine.inflow.resume = None
        machine.on_opened = None
        if hasattr(self._transport, "_read_ready_cb"):  # a cycle of asyncio's own
            setattr(self._transport, "_read_ready_cb", None)  # noqa: B010  no public name

    # -- writing ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write as much of the waiting output as the socket takes."""
        machine = self.machine
        transport = self._transport
        output = machine.output
        assert transport is not None
        left = TURN_BYTES
        while self._writable and left > 0:
            if self._rest:
                piece = self._rest[:WRITE_BYTES]
                self._rest = self._rest[WRITE_BYTES:]
                if not self._rest:
                    self._rest = _NOTHING  # or it would keep the piece
                    self._rest_bytes = 0
                left -= len(piece)
                self._sent = True
                self.send_cnt += 1
                transport.write(piece)
                continue
            data = output.next_piece()
            if not data:
                break
            self._sent = True
            if len(data) <= WRITE_BYTES:
                left -= len(data)
                self.send_cnt += 1
                transport.write(data)
            else:
                self._rest = memoryview(data)
                self._rest_bytes = len(data)
        self.send_oct += TURN_BYTES - left
        if self._writable and left <= 0:
            output.touch()  # the rest in the next turn, after the others
        elif self._writable and output.full:
            output.full = False
            machine.drained()
        if not self._reading or self._must_read_first():
            self._update_reading()
        self._charge()
        if not machine.running:
            self._check_end()

    # -- reading ------------------------------------------------------------------------------------

    def _update_reading(self) -> None:
        machine = self.machine
        transport = self._transport
        assert transport is not None
        if transport.is_closing():
            return
        waits = machine.blocked or self._must_read_first()
        # Work in slices always goes on, because it gives back what the client holds.
        if machine.work_left and (machine.work.waiting or not waits) and not self._continuing:
            self._continuing = True
            self._loop.call_soon(self._continue)
        wanted = not (machine.work_left or machine.inflow.over or waits)
        if wanted != self._reading:
            self._reading = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()
        if wanted:
            self._unwatch()
        elif self._trickle is None:
            if self._trickles():
                self._trickle = self._loop.call_later(TRICKLE_S, self._read_a_little)
            elif machine.blocked:
                self._watch()

    def _must_read_first(self) -> bool:
        """Whether the client has so much unread output that it is not read."""
        waiting = self.machine.waiting_bytes()
        if waiting <= SCARCE_OUTPUT_BYTES:
            return False
        budget = self._node.budget
        is_scarce = budget.whole > 0 and budget.held > budget.whole // SCARCE_SHARE
        return is_scarce or waiting > self._node.options.output_bytes_max

    def _watch(self) -> None:
        """Hear of the client's end although nothing is read."""
        assert self._transport is not None
        sock = self._transport.get_extra_info("socket")
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
        self._node.enter(self._update_reading)

    def _trickles(self) -> bool:
        """Whether a paused connection is read slowly, because its acknowledgements may free what is short."""
        machine = self.machine
        # A client that does not read would otherwise cause ever more output.
        most = TRICKLE_OUTPUTS * self._node.options.output_bytes_max
        if machine.inflow.unsynced > TRICKLE_INFLOWS * machine.inflow.limit:
            return False  # until the sync or the definition store has caught up
        if machine.waiting_bytes() > most:
            return False
        return (self._ended and machine.blocked) or machine.acknowledges()

    def _charge(self) -> None:
        """Update the node's account with the bytes held for this connection."""
        transport = self._transport
        assert transport is not None
        held = self.machine.held_bytes() + self._rest_bytes
        if not self._writable:
            held += transport.get_write_buffer_size()
        if held != self._held:
            self._node.budget.held += held - self._held
            self._held = held
            self._node.look_at_memory()

    def _read_a_little(self) -> None:
        """Read one chunk; ``data_received`` pauses again if necessary."""
        self._trickle = None
        machine, transport = self.machine, self._transport
        assert transport is not None
        if self._reading or self._continuing or transport.is_closing():
            return
        if machine.work_left:
            self._continuing = True
            self._continue()
        else:
            self._reading = True
            transport.resume_reading()

    # -- the end ------------------------------------------------------------------------------------

    def close(self, close: Callable[[Machine], None], level: int | None = None) -> None:
        """Let ``close`` send connection.close on the machine, then end.

        A caller that closes many connections and logs one line about it gives the ``level`` for the lines
        about each.
        """
        self._end_level = level
        close(self.machine)
        if self.machine.state is ConnectionState.CLOSED:
            self._end()  # connection.close was answered, and we only wait for the client to close the socket
        else:
            self._flush_or_end()

    def _flush_or_end(self) -> None:
        try:
            self.flush()
        except Exception as error:  # ours, or a message that cannot be read
            self.failed(error)

    def _check_end(self) -> None:
        machine = self.machine
        state = machine.state
        if state is ConnectionState.CLOSED and not self._ending:
            self._ending = True
            if machine.close_delay_s > 0:
                self._set_timer(machine.close_delay_s, self._end)
            else:
                self._loop.call_soon(self._end)
        elif state is ConnectionState.CLOSING and machine.close_delay_s > 0:
            self._writable = False
            self._set_timer(machine.close_delay_s, self._write_again)
            machine.close_delay_s = 0.0
        elif state is ConnectionState.CLOSING and self._timer is None:
            self._set_timer(CLOSE_TIMEOUT_S, self._end)

    def _write_again(self) -> None:
        self._timer = None
        self.resume_writing()

    def _set_timer(self, seconds: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, call)

    def _end(self) -> None:
        """Close the socket once the output is sent. A peer that does not read is cut off."""
        self._flush_or_end()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._set_timer(CLOSE_TIMEOUT_S, self._transport.abort)

    def failed(self, error: Exception) -> None:
        """Writing raised an error: end this connection."""
        if isinstance(error, (PersistenceError, OSError)):
            self._unreadable(f"a message cannot be read: {error}")
            return
        self._node.unexpected(f"connection {self.machine.peer}", error)
        self.abort()

    def _unreadable(self, reason: str) -> None:
        """A large message cannot be read to its end, and a part of it is out: say so on channel 0.

        Nothing but the rest of it may follow on its own channel. The queue has heard of it already.
        """
        machine = self.machine
        machine.output.clear()
        self._cut_reason = reason
        if not machine.running:  # connection.close is among what was dropped
            self.abort()
            return
        machine.close(InternalError(reason))
        machine.output.touch()

    def abort(self) -> None:
        """Close the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- clocks -------------------------------------------------------------------------------------

    def _too_slow(self) -> None:
        self._timer = None
        if self._transport is not None:
            self.machine.refuse("handshake timed out", 0.0)
            self._transport.abort()

    def _opened(self) -> None:
        machine = self.machine
        self.connected_at_ms = time.time_ns() // 1_000_000
        self._opened_at = self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._node.event(
            logging.INFO,
            "connection opened",
            peer=machine.peer,
            user=machine.user.name,
            vhost=machine.vhost.name,
            name=self._client_name(),
        )
        if machine.session.heartbeat_s > 0:
            self._next_look()

    def _next_look(self) -> None:
        self._heartbeat = self._loop.call_later(
            self.machine.session.heartbeat_s / LOOKS_PER_INTERVAL, self._beat
        )

    def _beat(self) -> None:
        """Send a heartbeat if nothing else was sent, and check that the peer has sent something.

        Source: RabbitMQ, "Detecting Dead TCP Connections with Heartbeats and TCP Keepalives": every half
        interval.
        """
        machine, transport = self.machine, self._transport
        assert transport is not None
        now = self._loop.time()
        if self._received or not self._reading:
            self._received = False
            self._last_received = now
        elif now - self._last_received > machine.session.heartbeat_s * SILENT_INTERVALS:
            self._cut_reason = f"missed heartbeats from client, timeout: {machine.session.heartbeat_s}s"
            transport.abort()
            return
        if self._sent:
            self._sent = False
        elif self._writable and machine.running and not self._rest:  # never inside of a frame
            transport.write(HEARTBEAT_FRAME)
            self._sent = True
        self._next_look()
