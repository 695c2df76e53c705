"""One connection without its socket: bytes and the time go in, frames come out.

``receive_data`` handles a chunk to its end in one call. ``Input`` finds the frames in it. ``Dispatch`` acts
on those of channels, ``handshake`` on those of the connection itself. The resulting output leaves at the end
of the tick (``amqp_router.protocol.tick``).

A chunk that causes more than ``CHUNK_UNITS`` enqueues and settles stops there: ``work_left`` is set and the
transport calls ``receive_more`` in the next turn of the loop, so that one client cannot hold it. A frame that
causes more work than that does it in slices (``connection.slices``).

Source: AMQP 0-9-1, sections 2.3.5 and 4.2. Errors have RabbitMQ's reply codes and texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp_router.channel.channel import Channel
from amqp_router.channel.states import ChannelState
from amqp_router.channel.waking import WAKE_SLICE
from amqp_router.connection import failing, handshake
from amqp_router.connection.alarms import Alarms
from amqp_router.connection.dispatch import CUT, METHOD_UNITS, PUBLISHED, TAKEN, Dispatch
from amqp_router.connection.ports import Services
from amqp_router.connection.session import Session
from amqp_router.connection.shared import Shared
from amqp_router.connection.slices import Slices
from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import constants, errors, methods
from amqp_router.protocol.errors import ChannelException, ConnectionException, InternalError
from amqp_router.protocol.input import MORE, PUBLISH, TOO_LARGE, Input

#: Enqueues and settles one chunk may cause before the loop gets its turn; about a millisecond.
CHUNK_UNITS = 2048
#: What a frame costs that is not taken in place, in enqueues: a chunk may have 30,000 of nearly nothing.
FRAME_UNITS = 8
#: Errors that a client is told of in any state; they are none of its own.
_ALWAYS_TOLD = (errors.ConnectionForced, errors.LoginRefused, errors.InternalError)
#: Seconds that a client has to close the socket after the answer to its connection.close. If we closed it
#: while the client still reads or writes, the client would see a lost connection.
GOODBYE_S = 5.0

# C integers where compiled (see machine.pxd).
_CHUNK_UNITS = CHUNK_UNITS
_MORE = MORE
_PUBLISH = PUBLISH
_TAKEN = TAKEN
_PUBLISHED = PUBLISHED
_CUT = CUT


class Machine:
    """The protocol side of one connection.

    ``node`` has what connections share; ``peer`` and ``peer_host`` name the client.
    """

    __slots__ = (
        "alarms",
        "blocked",
        "channels",
        "close_delay_s",
        "detached",
        "dispatch",
        "frames",
        "inflow",
        "node",
        "on_opened",
        "open_runs",
        "output",
        "peer",
        "running",
        "session",
        "shared",
        "state",
        "work",
        "work_left",
    )

    def __init__(self, node: Services, peer: str, peer_host: str) -> None:
        options = node.options
        self.node = node
        self.peer = peer
        self.alarms: Alarms = node.alarms
        self.session = Session(peer_host, frame_max=options.frame_max, channel_max=options.channel_max)
        self.frames = Input(min(options.pre_login_bytes_max, self.session.frame_max))
        self.work = Slices(node, peer)
        self.shared = Shared(node, self.session, self.frames, self.work)
        self.output = self.shared.output
        self.inflow = self.shared.inflow
        self.detached = self.shared.detached
        self.open_runs = self.shared.open_runs
        self.channels: dict[int, Channel] = {}
        self.dispatch = Dispatch(
            self.channels,
            self.shared,
            self.frames,
            self.work,
            admission=node.admission,
            message_bytes_max=options.message_bytes_max,
            event=node.event,
        )
        self.shared.parking.hearer = self._answered
        self.state = ConnectionState.HEADER
        #: Whether ``state`` is RUNNING, where the hot loop can see it.
        self.running = False
        #: Whether it published during an alarm. Until no alarm is on, little is read from it.
        self.blocked = False
        #: Whether a chunk was too much work for one turn.
        self.work_left = False
        #: Seconds after which the transport closes the socket, once ``state`` is CLOSED, or writes
        #: connection.close, once it is CLOSING.
        self.close_delay_s = 0.0
        self.on_opened: Callable[[], None] | None = None

    @property
    def user(self) -> Any:
        """The authenticated user; None before."""
        return self.shared.user

    @property
    def vhost(self) -> Any:
        """The virtual host that the client has opened; None before."""
        return self.shared.vhost

    # -- bytes in -----------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Handle a chunk from the socket."""
        self.frames.add(data)
        if not self.work_left:
            self._run()

    def receive_more(self) -> None:
        """Continue with a chunk that was too much work for one turn."""
        self.work_left = False
        self._run()

    def _run(self) -> None:
        work = self.work
        work.units = 0
        if work.waiting:
            if not work.handed:
                work.run()
            self.work_left = True
            return
        work.busy = True
        while self.running or self.state is not ConnectionState.CLOSED:
            if work.waiting:
                self.work_left = True
                break
            try:
                if self.dispatch.held is not None and self.dispatch.resume():
                    self._published()
                if len(self.dispatch.parked) > 0:
                    self.work_left = self._go_on_parked() or self._handle()
                    if not self.work_left and self.dispatch.parking.answered:
                        continue  # within the call that asked on another channel
                else:
                    self.work_left = self._handle()
                break
            except ChannelException as error:
                self._close_channel(error)
            except ConnectionException as error:
                channel = failing.failed_channel(self.dispatch, error)
                self.close(error, self.frames.class_id, self.frames.method_id, channel)
            except Exception as error:  # a bug of ours: this connection ends, the others go on
                self.node.unexpected(f"connection {self.peer}", error)
                self.close(InternalError("an error of the server, see its log"))
        if len(self.dispatch.holding) > 0:
            self.dispatch.let_go()
        runs = self.open_runs
        if runs:
            for publisher in runs:
                publisher.close_run()
            runs.clear()
        work.busy = False
        if self.work_left:
            return
        if self.running or self.state is not ConnectionState.CLOSED:
            self.frames.trim()
        else:
            self.frames.drop()
            work.hand_over()

    def _handle(self) -> bool:
        """Handle frames until the end of the chunk; True if it stopped because of too much work."""
        frames = self.frames
        work = self.work
        dispatch = self.dispatch
        if not self.running and self.state is ConnectionState.HEADER:
            header = frames.header()
            if not header:
                return False
            handshake.receive_header(self, header)
        while self.running or self.state is not ConnectionState.CLOSED:
            if work.units > _CHUNK_UNITS or work.waiting or dispatch.held is not None or dispatch.stuck:
                return True
            found = frames.next()
            if found == _MORE:
                return False
            if found < 0:
                self._refuse_frame(found)
                continue
            if found >= _PUBLISH and self.running:
                taken = dispatch.take(found)
                if taken == _PUBLISHED:
                    if self.alarms.on:
                        self._published()
                    continue
                if taken == _TAKEN:
                    continue
                if taken == _CUT:
                    return False
            work.units += FRAME_UNITS
            self._frame(frames.kind, frames.number, frames.payload())
        return False

    def _go_on_parked(self) -> bool:
        """Handle frames that waited for an answer which is there; True if it stopped because of too much
        work.
        """
        frames, work, dispatch = self.frames, self.work, self.dispatch
        parking = dispatch.parking
        frames.look_again()  # the frames here take the place of one that was cut
        while parking.answered and self.running:
            if work.units > CHUNK_UNITS or work.waiting or dispatch.held is not None:
                return True
            frames.number = number = next(iter(parking.answered))
            error = parking.take_error(number)
            if error is not None:
                raise error
            found = parking.take(number)
            if found is None:
                continue
            work.units += FRAME_UNITS
            frames.kind, payload = found
            frames.size = len(payload)
            is_method = frames.kind == constants.FRAME_METHOD and len(payload) >= 4
            frames.class_id = int.from_bytes(payload[:2], "big") if is_method else 0
            frames.method_id = int.from_bytes(payload[2:4], "big") if is_method else 0
            if dispatch.act(frames.kind, number, payload):
                self._published()
        dispatch.stuck = parking.is_full()
        return False

    def _answered(self) -> None:
        """A channel has the answer for which its frames wait."""
        self.dispatch.stuck = False
        if not self.work.busy:
            self.work_left = True
            if self.inflow.resume is not None:
                self.inflow.resume()

    def _refuse_frame(self, found: int) -> None:
        """A frame without end octet, or a too large one."""
        frame_max = self.session.frame_max
        if found == TOO_LARGE and self.frames.size <= frame_max:
            self.refuse(f"a frame of {self.frames.size} bytes before login", handshake.SILENT_DELAY_S)
            return
        raise failing.wrong_frame(self.frames, found, frame_max)

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        """Handle any frame that ``Dispatch.take`` did not take."""
        if self.session.is_0_8 and kind == constants.FRAME_METHOD:
            payload = handshake.as_0_9_1(self.frames, payload)
        if kind == constants.FRAME_HEARTBEAT:
            if payload:
                raise errors.malformed_frame(kind, payload)
            if number != 0:
                raise errors.unexpected_frame(kind, payload)
        elif kind not in (constants.FRAME_METHOD, constants.FRAME_HEADER, constants.FRAME_BODY):
            raise errors.malformed_frame(kind, payload)
        elif self.state is ConnectionState.CLOSING:
            frames = self.frames
            is_method = kind == constants.FRAME_METHOD and number == 0
            if is_method and frames.class_id == 10 and frames.method_id in (50, 51):
                handshake.receive_frame(self, kind, number, payload)
        elif number == 0 or not self.running:
            if len(self.dispatch.parked) > 0 and self.frames.class_id == 10 and self.frames.method_id == 50:
                # connection.close waits for all that was sent before it.
                self.frames.unread()
                self.dispatch.stuck = True
                return
            self.work.units += METHOD_UNITS
            handshake.receive_frame(self, kind, number, payload)
        elif self.dispatch.frame(kind, number, payload):
            self._published()

    # -- alarms -------------------------------------------------------------------------------------

    def _published(self) -> None:
        """A connection that publishes during an alarm is blocked, and told why if it has that capability."""
        if not self.alarms.on or self.blocked:
            return
        self.blocked = True
        self.alarms.block(self)
        self.work.units = CHUNK_UNITS + 1  # the rest of the chunk waits
        if "connection.blocked" in self.session.capabilities:
            self.shared.send(0, methods.ConnectionBlocked(self.alarms.reason))

    def unblocked(self) -> None:
        """The last alarm is cleared."""
        self.blocked = False
        if "connection.blocked" in self.session.capabilities:
            self.shared.send(0, methods.ConnectionUnblocked())
        if self.inflow.resume is not None:
            self.inflow.resume()

    # -- the end ------------------------------------------------------------------------------------

    def _close_channel(self, error: ChannelException) -> None:
        """Send channel.close for ``error``, which the current frame caused."""
        frames = self.frames
        channel = self.channels.get(frames.number)
        if channel is None or channel.state is not ChannelState.OPEN:
            outside = InternalError(f"{error.reply_text} outside of a channel")
            self.close(outside, frames.class_id, frames.method_id)
            return
        self.dispatch.close_channel(channel, error)

    def close(
        self, error: ConnectionException, class_id: int = 0, method_id: int = 0, failed: Channel | None = None
    ) -> None:
        """Send connection.close for ``error``; from now on everything except close-ok is dropped.

        ``class_id`` and ``method_id`` are those of the method that caused it; 0 is none. The channel that
        ``failed`` ends before the others.
        """
        if self.state in (ConnectionState.CLOSING, ConnectionState.CLOSED):
            return
        if self.state in handshake.SILENT and not isinstance(error, _ALWAYS_TOLD):
            self.refuse(error.reply_text, handshake.SILENT_DELAY_S)
            return
        class_id = error.class_id or class_id
        method_id = error.method_id or method_id
        if isinstance(error, errors.LoginRefused) or not error.text:
            class_id = method_id = 0
        failing.tell(self.node.event, self.peer, error)
        close = methods.ConnectionClose(error.reply_code, error.reply_text, class_id, method_id)
        told = close if self.state is not ConnectionState.HEADER else None
        self.state = ConnectionState.CLOSING

        def end() -> bool:
            if self.state is ConnectionState.CLOSING:  # else the socket is gone
                self.stop()
                if told is not None:
                    self.shared.send(0, told)
            return True

        if failed is None:
            end()
        else:
            self.running = False
            failing.leave_first(self.dispatch, failed, end)

    def client_closed(self) -> None:
        """The client sent connection.close; close-ok follows when everything it held is given back."""
        self.stop()
        self.work.add(self._say_goodbye)

    def _say_goodbye(self) -> bool:
        if self.state is not ConnectionState.CLOSED:  # else the socket is gone
            self.shared.send(0, methods.ConnectionCloseOk())
            self.state = ConnectionState.CLOSED
            self.close_delay_s = GOODBYE_S
        return True

    def refuse(self, reason: str, delay_s: float) -> None:
        """End a handshake without an answer, ``delay_s`` seconds from now."""
        self.node.event(logging.WARNING, "connection refused", peer=self.peer, reason=reason)
        self.state = ConnectionState.CLOSED
        self.close_delay_s = delay_s

    def opened(self) -> None:
        """connection.open succeeded."""
        self.running = True
        if self.on_opened is not None:
            self.on_opened()

    def stop(self) -> None:
        """Stop reading and delivering, and give back what the connection holds."""
        shared = self.shared
        if shared.stopped:
            return
        shared.stopped = True
        self.running = False
        self.blocked = False
        self.alarms.forget(self)
        shared.parking.hearer = None  # breaks a reference cycle
        self.dispatch.stop()
        self.detached.clear()
        if shared.vhost is not None:
            self.work.add(shared.remove_exclusive_queues)

    def socket_gone(self) -> None:
        """The socket is closed: give back what the connection holds."""
        self.state = ConnectionState.CLOSED
        self.work_left = False
        self.frames.drop()
        self.stop()
        self.work.hand_over()

    # -- output -------------------------------------------------------------------------------------

    def waiting_bytes(self) -> int:
        """Bytes of output that the client has not read."""
        waiting = self.output.waiting_bytes()
        if self.detached:
            for output in self.shared.detached_outputs():
                waiting += output.waiting_bytes()
        return waiting

    def held_bytes(self) -> int:
        """Bytes held for this connection, apart from messages in queues: its input and output."""
        held = self.output.held_bytes() + self.frames.held_bytes() + self.dispatch.held_size
        if len(self.dispatch.parked) > 0:
            held += self.dispatch.parking.size
        if self.detached:
            for output in self.shared.detached_outputs():
                held += output.held_bytes()
        return held

    def drained(self) -> None:
        """The socket has taken the waiting output: queues may deliver again."""
        numbers = list(reversed(self.channels))
        if not self._wake_some(numbers):
            self.work.add(partial(self._wake_some, numbers))

    def _wake_some(self, numbers: list[int]) -> bool:
        """Wake the consumers of some of these channels; True if none is left."""
        left = WAKE_SLICE
        while numbers and left > 0:
            channel = self.channels.get(numbers.pop())
            if channel is not None:
                left -= channel.waking.wake(channel) + 1
        return not numbers

    def acknowledges(self) -> bool:
        """Whether the client may still send acknowledgements."""
        for channel in self.channels.values():
            if len(channel.consumers) > 0 or channel.delivery.outstanding > 0:
                return True
        return False
