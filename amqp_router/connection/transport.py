"""The socket of a connection.

Its parts are ``reading`` (when it is read), ``writing`` and ``heartbeats``. They and ``hangups`` are the only
modules of the package that use asyncio.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from amqp_router.connection import told
from amqp_router.connection.heartbeats import Heartbeats
from amqp_router.connection.machine import Machine
from amqp_router.connection.ports import Origin, Services, TlsView
from amqp_router.connection.reading import Reading
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.states import ConnectionState
from amqp_router.connection.turn import gate
from amqp_router.connection.writing import Writer
from amqp_router.cycles import break_cycle
from amqp_router.protocol.errors import InternalError
from persistence.errors import PersistenceError

#: Seconds that a client has to answer connection.close.
CLOSE_TIMEOUT_S = 5.0


class _Gone:
    """The owner of an output whose socket is closed. What the connection held may still be listed."""

    def __init__(self, peer_address: tuple[str, int], host_address: tuple[str, int]) -> None:
        self.peer_address = peer_address
        self.host_address = host_address

    def flush(self) -> None:
        """Write nothing."""

    def failed(self, error: Exception) -> None:
        """Not called, as ``flush`` does not fail."""


class Transport(asyncio.Protocol):
    """One client connection."""

    #: The protocol side, the socket and its parts; they exist once the connection is made.
    machine: Machine
    _socket: asyncio.Transport
    #: Also counts the writes.
    writer: Writer
    _reading: Reading
    _heartbeats: Heartbeats

    def __init__(
        self,
        node: Services,
        registry: ConnectionRegistry[Transport],
        loop: asyncio.AbstractEventLoop,
        origin: Origin | None = None,
    ) -> None:
        self._node = node
        self._registry = registry
        self._loop = loop
        self._origin = origin
        #: Bytes of this connection that are counted in the node's account.
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False
        #: Why the broker cut the connection, for the log; empty if the broker did not.
        self._cut_reason = ""
        #: Log level of the line about the connection's end; None: it depends on how the connection ended.
        self._end_level: int | None = None
        self._bytes_before_login = 0
        #: Octets received, and the number of reads of the socket.
        self.recv_oct = self.recv_cnt = 0
        #: Milliseconds since 1970 when the virtual host was opened; 0 before.
        self.connected_at_ms = 0
        #: The same moment on the event loop's clock.
        self._opened_at = 0.0
        #: Addresses of the client's end of the socket, and of ours.
        self.peer_address: tuple[str, int] = ("?", 0)
        self.host_address: tuple[str, int] = ("?", 0)
        #: What TLS has agreed on; None without TLS.
        self.tls: TlsView | None = None

    @property
    def send_oct(self) -> int:
        """Octets sent."""
        return self.writer.send_oct

    # -- asyncio's calls ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit of the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        # Writing pauses as soon as the kernel takes no more. The rest waits in our output, not in asyncio's.
        transport.set_write_buffer_limits(high=0)
        if self._origin is not None:
            self.peer_address, self.host_address = self._origin.peer, self._origin.host
        else:
            peer = transport.get_extra_info("peername") or ("?", 0)
            self.peer_address = str(peer[0]), peer[1]
            own = transport.get_extra_info("sockname") or ("?", 0)
            self.host_address = str(own[0]), own[1]
        host, port = self.peer_address
        machine = Machine(self._node, _shown(host, port), host)
        machine.shared.name = f"{machine.peer} -> {_shown(*self.host_address)}"
        machine.session.is_relayed = self._origin is not None
        machine.session.peer_address, machine.session.host_address = self.peer_address, self.host_address
        self.machine = machine
        gate(self._node.turns, transport.get_extra_info("carrier") or transport)
        self.writer = Writer(machine.output, transport)
        self._reading = Reading(self._node, machine, self._loop, transport, self._receive_more)
        self._heartbeats = Heartbeats(machine, self._loop, self._reading, self.writer, self._cut)
        machine.output.owner = self
        machine.inflow.resume = self._reading.update
        machine.on_opened = self._opened
        self._registry.add(self)
        self.tls = transport.get_extra_info("tls")
        if self.tls is not None:
            machine.session.is_encrypted = True
            machine.session.takes_external = self.tls.takes_external
            machine.session.certificate_user = self.tls.user
        # The handshake of TLS is a part of the time.
        since = transport.get_extra_info("accepted_at") or self._loop.time()
        self._set_timer(since + self._node.options.handshake_timeout_s - self._loop.time(), self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Hand a chunk to the machine."""
        self._node.enter(self._receive, data)

    def _receive(self, data: bytes) -> None:
        machine = self.machine
        self._heartbeats.received = True
        self.recv_oct += len(data)
        self.recv_cnt += 1
        self._node.tick.now_us = self._node.wall_us()
        if not machine.running and machine.user is None:
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
            or not self._reading.is_on
        ):
            self._reading.update()
        self._charge()
        if not machine.running:
            self._check_end()

    def _receive_more(self) -> None:
        machine = self.machine
        self._node.tick.now_us = self._node.wall_us()
        machine.receive_more()
        self._reading.update()
        self._charge()
        if not machine.running:
            self._check_end()

    def pause_writing(self) -> None:
        """The socket's buffer is full."""
        self.writer.writable = False

    def resume_writing(self) -> None:
        """The socket takes more."""
        self.writer.writable = True
        self._flush_or_end()

    def eof_received(self) -> bool:
        """The client has stopped sending: close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed: nothing is delivered, and what the connection held goes back to the queues.

        Many may be lost at once, with a thousand channels each, so those that are too much for this turn wait
        for a later one.
        """
        machine = self.machine
        if self._timer is not None:
            self._timer.cancel()
        self._heartbeats.stop()
        self._reading.stop()
        self.writer.writable = False
        machine.output.full = True
        clean = machine.state is ConnectionState.CLOSED
        self._node.turns.in_time(partial(self._give_back, exc, clean))

    def _give_back(self, exc: Exception | None, clean: bool) -> None:
        """Give back what a lost connection held."""
        machine = self.machine
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._registry.remove(self)
        opened = machine.vhost is not None
        machine.socket_gone()
        released, self._held = self._held, 0
        self._node.account(-released)
        if opened:
            told.ended(
                self._node,
                machine,
                level=self._end_level,
                clean=clean,
                seconds=self._loop.time() - self._opened_at,
                reason=self._cut_reason or str(exc or ""),
            )
        # Break the cycles, so that all memory of the connection is freed now (``amqp_router.cycles``).
        machine.output.owner = _Gone(self.peer_address, self.host_address)
        machine.inflow.resume = None
        machine.on_opened = None
        break_cycle(self._socket)

    # -- writing ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write as much of the waiting output as the socket takes."""
        machine = self.machine
        if self.writer.flush() and machine.output.full:
            machine.output.full = False
            machine.drained()
        if not self._reading.is_on or self._reading.is_output_unread():
            self._reading.update()
        self._charge()
        if not machine.running:
            self._check_end()

    def _charge(self) -> None:
        """Update the node's account with the bytes held for this connection."""
        held = self.machine.held_bytes() + self.writer.unsent_bytes()
        if held != self._held:
            change, self._held = held - self._held, held
            self._node.account(change)

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
            self.writer.writable = False
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
        if not self._socket.is_closing():
            self._socket.close()
            self._set_timer(CLOSE_TIMEOUT_S, self._socket.abort)

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
        self._socket.abort()

    def _cut(self, reason: str) -> None:
        self._cut_reason = reason
        self._socket.abort()

    # -- clocks -------------------------------------------------------------------------------------

    def _too_slow(self) -> None:
        self._timer = None
        self.machine.refuse("handshake timed out", 0.0)
        self._socket.abort()

    def _opened(self) -> None:
        machine = self.machine
        self.connected_at_ms = time.time_ns() // 1_000_000
        self._opened_at = self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._registry.opened(self)
        told.opened(self._node, machine)
        self._heartbeats.start(machine.session.heartbeat_s)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
