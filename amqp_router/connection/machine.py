"""One connection without its socket: bytes and the time go in, frames come out.

``receive_data`` scans a chunk to its end in one call. A publish whose content is complete in the chunk goes
directly to its channel's ``publishing``, an ack to its ``delivery``. Everything else is decoded. The
resulting output leaves at the end of the tick (``amqp_router.protocol.tick``).

A chunk that causes more than ``CHUNK_UNITS`` enqueues and settles stops there: ``work_left`` is set and the
transport calls ``receive_more`` in the next turn of the loop, so that one client cannot hold it.

A single frame may cause more work than that: one nack can return a million messages, and a closed channel can
have thousands of consumers. All such work is done in slices, by one mechanism: ``in_slices`` takes the step,
and no further frame is handled before ``steps`` is empty. So no frame can overtake what the client sent
before it. If the socket closes first, the node's ticker does the rest. A method that depends on a queue's
content waits in the same way until the queue has delivered what was published before (``channel.due``).

Source: AMQP 0-9-1, sections 2.3.5 and 4.2. Errors have RabbitMQ's reply codes and texts.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp_router.channel.channel import RELEASE_SLICE, Channel, release_some
from amqp_router.channel.content import Intake
from amqp_router.channel.delivery import RETURN_UNITS, Delivery
from amqp_router.channel.due import Due, due_before
from amqp_router.channel.publishing import Inflow, Publishing
from amqp_router.channel.states import ChannelState
from amqp_router.connection import handshake
from amqp_router.connection.alarms import Alarms
from amqp_router.connection.ports import Services
from amqp_router.connection.states import ConnectionState
from amqp_router.connection.unstored import Unstored
from amqp_router.protocol import errors, methods
from amqp_router.protocol.errors import (
    ChannelError,
    ChannelException,
    CommandInvalid,
    ConnectionException,
    InternalError,
    NotAllowed,
)
from amqp_router.protocol.frames import ContentScan
from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.methods import Method, check_texts, decode_method
from amqp_router.protocol.output import Output

#: Enqueues and settles one chunk may cause before the loop gets its turn; about a millisecond.
CHUNK_UNITS = 2048
#: Seconds that a client has to close the socket after the answer to its connection.close. If we closed it
#: while the client still reads or writes, the client would see a lost connection.
GOODBYE_S = 5.0
#: Cost of a decoded method, in enqueues: a declare takes tens of microseconds.
METHOD_UNITS = 64
#: 2 to this power octets of a method cost as much as one enqueue, because each octet may be a value to
#: decode.
ARGUMENT_SHIFT = 4
#: Exclusive queues removed per turn of the loop when their connection ends.
EXCLUSIVE_SLICE = 50

# C integers where compiled (see machine.pxd).
_CHUNK_UNITS = 2048
_HELD_CONTENT = 1 << 18  # an incomplete content up to this size waits unparsed for the rest


class Machine:
    """The protocol side of one connection; also the owner of its exclusive queues.

    ``node`` has what connections share; ``peer`` and ``peer_host`` name the client.
    """

    __slots__ = (
        "again",
        "alarms",
        "assembling",
        "blocked",
        "cache",
        "capabilities",
        "channel_max",
        "channels",
        "class_id",
        "client_properties",
        "close_delay_s",
        "commits",
        "consumer_cancel_notify",
        "data",
        "delivered",
        "detached",
        "frame_max",
        "handed",
        "heartbeat_s",
        "held_cancels",
        "hot_delivery",
        "hot_number",
        "hot_publishing",
        "inflow",
        "intake",
        "late",
        "mechanism",
        "message_bytes_max",
        "method_id",
        "need",
        "node",
        "number",
        "octets",
        "on_opened",
        "open_runs",
        "output",
        "parts",
        "parts_size",
        "peer",
        "peer_host",
        "permissions",
        "position",
        "running",
        "scan",
        "scanning",
        "state",
        "steps",
        "stopped",
        "tick",
        "units",
        "unstored_changes",
        "user",
        "vhost",
        "waiting",
        "work_left",
    )

    def __init__(self, node: Services, peer: str, peer_host: str) -> None:
        options = node.options
        self.node = node
        self.peer = peer
        self.peer_host = peer_host
        self.tick = node.tick
        self.alarms: Alarms = node.alarms
        self.commits = node.commits
        self.output = Output()
        self.output.tick = node.tick
        self.state = ConnectionState.HEADER
        #: Whether ``state`` is RUNNING, where the hot loop can see it.
        self.running = False
        self.stopped = False
        #: Whether it published during an alarm. Until no alarm is on, little is read from it.
        self.blocked = False
        #: Seconds after which the transport closes the socket, once ``state`` is CLOSED, or writes
        #: connection.close, once it is CLOSING.
        self.close_delay_s = 0.0
        self.user: Any = None
        self.client_properties: Arguments = {}
        #: How the client authenticated.
        self.mechanism = ""
        self.capabilities: set[str] = set()
        self.consumer_cancel_notify = False
        self.held_cancels: list[tuple[Channel, str]] | None = None
        self.vhost: Any = None
        self.permissions: Any = None
        self.cache: Any = None
        self.frame_max = options.frame_max or 1 << 31
        self.channel_max = options.channel_max or 65535
        self.heartbeat_s = 0
        self.message_bytes_max = options.message_bytes_max
        self.channels: dict[int, Channel] = {}
        self.inflow = Inflow()
        self.inflow.limit = options.unsynced_bytes_max
        #: Definitions that the client changed and that are not stored; None if it never changed any.
        self.unstored_changes: Unstored | None = None
        self.intake = Intake(node.budget)
        #: Channels whose output waits for a commit.
        self.detached: set[Channel] = set()
        self.open_runs: list[Publishing] = []
        self.on_opened: Callable[[], None] | None = None
        self.scan = ContentScan()
        self.data = b""
        self.position = 0
        self.parts: list[bytes] = []
        self.parts_size = 0
        self.need = 8
        self.late: list[bytes] = []
        self.work_left = False
        #: Whether the current frame must be handled again: it completes a content with a long route, or is a
        #: method that waits for a queue with very much to deliver.
        self.again = False
        #: Whether that queue has delivered everything.
        self.delivered = False
        #: Work in slices that the next frame waits for, in order; ``waiting`` is True if there is any.
        self.steps: deque[Callable[[], bool]] = deque()
        self.waiting = False
        #: Whether the node's ticker runs ``steps``, as no chunk is being handled.
        self.handed = False
        self.scanning = False
        self.units = 0
        #: Channels with a content under way.
        self.assembling = 0
        self.hot_number = -1
        self.hot_publishing: Publishing
        self.hot_delivery: Delivery
        #: Size of the method being carried out.
        self.octets = 0
        # Channel and method of the current frame, for the close frame of an error.
        self.number = 0
        self.class_id = 0
        self.method_id = 0

    # -- bytes in -----------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Handle a chunk from the socket."""
        if self.work_left:
            self.late.append(data)
            return
        position = 0
        if self.parts_size > 0:
            missing = self.need - self.parts_size
            if len(data) < missing:
                self.parts.append(data)
                self.parts_size += len(data)
                return
            # Only the frame that was split is copied, not the rest of the chunk.
            self.parts.append(data[:missing])
            self.data = b"".join(self.parts)
            self.parts = []
            self.parts_size = 0
            self.position = 0
            self._run()
            if self.work_left:
                self.late.append(data[missing:])
                return
            position = missing
            if self.parts_size > 0:
                data = b"".join([*self.parts, data[missing:]])
                self.parts = []
                self.parts_size = 0
                position = 0
        self.data = data
        self.position = position
        self._run()

    def receive_more(self) -> None:
        """Continue with a chunk that was too much work for one turn."""
        self.work_left = False
        self._run()
        if self.late and not self.work_left:
            late = b"".join(self.late)
            self.late = []
            self.receive_data(late)

    def _run(self) -> None:
        self.units = 0
        if self.waiting:
            if not self.handed:
                self._run_step()
            self.work_left = True
            return
        self.scanning = True
        while self.state is not ConnectionState.CLOSED:
            if self.waiting:
                self.work_left = True
                break
            try:
                self.work_left = self._scan()
                break
            except ChannelException as error:
                self._close_channel(error)
            except ConnectionException as error:
                self.close(error)
            except Exception as error:  # a bug of ours: this connection ends, the others go on
                self.node.unexpected(f"connection {self.peer}", error)
                self.close(InternalError("an error of the server, see its log"))
        runs = self.open_runs
        if runs:
            for publishing in runs:
                publishing.close_run()
            runs.clear()
        self.scanning = False
        if self.work_left:
            return
        data = self.data
        self.data = b""
        if self.state is ConnectionState.CLOSED:
            self._hand_over()
            return
        if self.position < len(data):
            rest = data[self.position :]
            self.parts = [rest]
            self.parts_size = len(rest)

    def _scan(self) -> bool:
        """Handle frames until the end of the chunk; True if it stopped because of too much work."""
        data = self.data
        d = data
        end_of_data = len(data)
        position = self.position
        scan = self.scan
        if self.state is ConnectionState.HEADER:
            if end_of_data - position < 8:
                self.need = 8
                return False
            self.position = position = position + 8
            handshake.receive_header(self, data[position - 8 : position])
        while self.state is not ConnectionState.CLOSED:
            position = self.position
            if self.units > _CHUNK_UNITS or self.waiting:
                return True
            if end_of_data - position < 7:
                self.need = 7
                return False
            kind = d[position]
            number = (d[position + 1] << 8) | d[position + 2]
            size = (
                (d[position + 3] << 24) | (d[position + 4] << 16) | (d[position + 5] << 8) | d[position + 6]
            ) & 0xFFFFFFFF  # masked, because compiled the shift is a signed 32-bit one
            start = position + 7
            self.class_id = 0
            self.method_id = 0
            self.number = number
            if size > self.frame_max:  # 8 octets more than agreed: some clients do not count the envelope
                self.position = end_of_data
                raise errors.malformed_frame(kind, b"", errors.frame_too_large(size, self.frame_max - 8))
            end = start + size
            if end >= end_of_data:
                if not self.running and self._too_long(size):
                    return False
                self.need = size + 8
                return False
            if d[end] != 0xCE:
                self.position = end_of_data
                raise errors.malformed_frame(kind, data[start:end], errors.invalid_frame_end(d[end]))
            if kind == 1 and self.running and size > 4 and d[start] == 0 and d[start + 1] == 60:  # noqa: SIM102
                if number == self.hot_number or self._heat(number):
                    method = (d[start + 2] << 8) | d[start + 3]
                    if method == 40 and self.assembling == 0:
                        found = scan.scan(data, end + 1, end_of_data, number)
                        self.class_id = 60
                        self.method_id = 40
                        if found == 1:
                            if scan.body_size > self.message_bytes_max:
                                found = -1
                            else:
                                self.position = scan.end
                                count = self.hot_publishing.publish(
                                    data[start + 4 : end],
                                    data[end + 1 : scan.end],
                                    scan,
                                    1 if scan.body_size > 0 else 0,
                                )
                                if count == 0:
                                    self.position = position  # the same frames again, in the next turn
                                    return True
                                self.units += count
                                if self.alarms.on and not self.blocked:
                                    self._block()
                                continue
                        if found == 0 and scan.need <= _HELD_CONTENT:
                            self.need = end + 1 - position + scan.need
                            return False
                        self.position = end + 1
                        self._start_content(number, data[start + 4 : end])
                        continue
                    if method == 80 and size == 13:
                        self.position = end + 1
                        self.class_id = 60
                        self.method_id = 80
                        tag = (
                            (d[start + 4] << 24) | (d[start + 5] << 16) | (d[start + 6] << 8) | d[start + 7]
                        ) & 0xFFFFFFFF
                        low = (
                            (d[start + 8] << 24) | (d[start + 9] << 16) | (d[start + 10] << 8) | d[start + 11]
                        ) & 0xFFFFFFFF
                        self.units += self.hot_delivery.ack(tag * 4294967296 + low, d[start + 12] & 1 == 1)
                        continue
            self.position = end + 1
            self._frame(kind, number, data[start:end])
            if self.again:
                self.again = False
                self.position = position
                return True
        return False

    def _heat(self, number: int) -> bool:
        """Cache the open channel ``number`` for the hot loop; False if there is none."""
        channel = self.channels.get(number)
        if channel is None or channel.state is not ChannelState.OPEN or channel.content.args is not None:
            return False
        self.hot_number = number
        self.hot_publishing = channel.publishing
        self.hot_delivery = channel.delivery
        return True

    def _too_long(self, size: int) -> bool:
        """Whether a frame is too large for a client that has not logged in; then the connection is
        refused.
        """
        if self.user is not None or size <= self.node.options.pre_login_bytes_max:
            return False
        self.refuse(f"a frame of {size} bytes before login", 0.0)
        return True

    def _start_content(self, number: int, args: bytes) -> None:
        channel = self.channels[number]
        channel.content.start(args)
        self.assembling += 1
        self.hot_number = -1

    # -- frames -------------------------------------------------------------------------------------

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        """Handle any frame that did not take the fast way."""
        if kind == 8:
            if payload:
                raise errors.malformed_frame(kind, payload)
            if number != 0:
                raise errors.unexpected_frame(kind, payload)
            return
        if kind not in (1, 2, 3):
            raise errors.malformed_frame(kind, payload)
        if kind == 1 and len(payload) >= 4:
            self.class_id = int.from_bytes(payload[:2], "big")
            self.method_id = int.from_bytes(payload[2:4], "big")
        if self.state is ConnectionState.CLOSING:
            if kind == 1 and number == 0 and self.class_id == 10 and self.method_id in (50, 51):
                handshake.receive_frame(self, kind, number, payload)
            return
        if not self.running:
            if self._too_long(len(payload)):
                return
            handshake.receive_frame(self, kind, number, payload)
            return
        if number == 0:
            self._connection_frame(kind, payload)
        else:
            self._channel_frame(kind, number, payload)

    def _connection_frame(self, kind: int, payload: bytes) -> None:
        if kind != 1:
            raise errors.unexpected_frame(kind, payload)
        method = decode_method(payload)
        if isinstance(method, (methods.ConnectionClose, methods.ConnectionUpdateSecret)):
            handshake.receive_frame(self, kind, 0, payload)
            return
        raise ChannelError("unexpected method in connection state running")

    def _channel_frame(self, kind: int, number: int, payload: bytes) -> None:
        channel = self.channels.get(number)
        if channel is not None and channel.state is ChannelState.CLOSING:
            self._closing_channel(kind, number, channel)
            return
        if channel is None:
            if kind != 1:
                raise errors.UnexpectedFrame(errors.EXPECTED_METHOD)
            method = decode_method(payload)
            if isinstance(method, methods.ChannelOpen):
                self._open_channel(number)
                return
            if method.CLASS_ID == 10:
                raise CommandInvalid(errors.UNIMPLEMENTED_METHOD)
            raise ChannelError("expected 'channel.open'")
        if kind != 1:
            self._content(channel, kind, payload)
            return
        if channel.content.args is not None:
            # A method inside of a content. The assembler raises the error that fits.
            self._content(channel, kind, payload)
            return
        if self.class_id == 60 and self.method_id == 40:
            self._start_content(number, payload[4:])
            return
        method = decode_method(payload)
        if method.CLASS_ID == 10:
            raise CommandInvalid(errors.UNIMPLEMENTED_METHOD)
        if isinstance(method, methods.ChannelOpen):
            raise ChannelError("second 'channel.open' seen")
        self.units += METHOD_UNITS + (len(payload) >> ARGUMENT_SHIFT)
        is_close = isinstance(method, methods.ChannelClose)
        if not is_close:
            check_texts(method)
            self.octets = len(payload)
        if self.delivered:
            self.delivered = False
        else:
            due = due_before(channel, method)
            if due is not None and not self._deliver(due):
                return
        if is_close:
            self._leave_channel(channel)
            self.in_slices(partial(self._forget_channel, number, channel))
        else:
            channel.receive(method)

    def _deliver(self, due: Due) -> bool:
        """Let queues deliver what is due; False when that takes more turns: then the frame comes again."""
        if self._deliver_some(due):
            self.delivered = False
            return True
        self.in_slices(partial(self._deliver_some, due))
        self.again = True
        return False

    def _deliver_some(self, due: Due) -> bool:
        self.delivered = due.go_on()
        self.units += due.spent
        return self.delivered

    def _closing_channel(self, kind: int, number: int, channel: Channel) -> None:
        """Drop everything until close-ok. A channel.close that crossed ours is answered."""
        if kind != 1 or self.class_id != 20:
            return
        if self.method_id == 41:
            del self.channels[number]
        elif self.method_id == 40:
            channel.reply(methods.ChannelCloseOk(), 0)
        elif self.method_id == 10:
            raise ChannelError("second 'channel.open' seen")

    def _content(self, channel: Channel, kind: int, payload: bytes) -> None:
        content = channel.content
        self.class_id = self.method_id = 0
        frame = b"%c%b%b%b\xce" % (
            kind,
            channel.number.to_bytes(2, "big"),
            len(payload).to_bytes(4, "big"),
            payload,
        )
        if not content.receive(kind, frame, self.message_bytes_max):
            return
        self.assembling -= 1
        whole = content.take()
        args, frames, scan, count = whole
        self.class_id = 60
        self.method_id = 40
        units = channel.publishing.publish(args, frames, scan, count)
        if units == 0:
            content.hold(whole)
            self.assembling += 1
            self.again = True
            return
        self.units += 1 + units
        if self.alarms.on and not self.blocked:
            self._block()

    # -- alarms -------------------------------------------------------------------------------------

    def _block(self) -> None:
        """Block the connection, which publishes during an alarm, and tell a client with that capability
        why.
        """
        self.blocked = True
        self.alarms.block(self)
        self.units = CHUNK_UNITS + 1  # the rest of the chunk waits
        if "connection.blocked" in self.capabilities:
            self.send(0, methods.ConnectionBlocked(self.alarms.reason))

    def unblocked(self) -> None:
        """The last alarm is cleared."""
        self.blocked = False
        if "connection.blocked" in self.capabilities:
            self.send(0, methods.ConnectionUnblocked())
        if self.inflow.resume is not None:
            self.inflow.resume()

    # -- channels -----------------------------------------------------------------------------------

    def _open_channel(self, number: int) -> None:
        if len(self.channels) >= self.channel_max:
            self.class_id = self.method_id = 0
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max "
                f"({self.channel_max})"
            )
        self.channels[number] = Channel(
            number,
            self,
            cache=self.cache,
            user=self.user.name,
            inflow=self.inflow,
            intake=self.intake,
            open_runs=self.open_runs,
        )
        self.send(number, methods.ChannelOpenOk())

    def _forget_channel(self, number: int, channel: Channel) -> bool:
        """Remove a channel that the client closed."""
        if not self.stopped:
            del self.channels[number]
            channel.reply(methods.ChannelCloseOk(), 0)
        return True

    def _leave_channel(self, channel: Channel) -> None:
        self.hot_number = -1
        if channel.content.args is not None:
            self.assembling -= 1
        channel.stop()
        self.in_slices(partial(self._release, channel))

    def _close_channel(self, error: ChannelException) -> None:
        """Send channel.close for ``error`` and drop what follows until its close-ok."""
        channel = self.channels.get(self.number)
        if channel is None or channel.state is not ChannelState.OPEN:
            self.close(InternalError(f"{error.reply_text} outside of a channel"))
            return
        class_id = error.class_id or self.class_id
        method_id = error.method_id or self.method_id
        self.node.event(
            logging.WARNING,
            "channel closed",
            peer=self.peer,
            channel=self.number,
            code=error.reply_code,
            reason=error.reply_text,
        )
        self._leave_channel(channel)
        channel.state = ChannelState.CLOSING
        channel.reply_after_slices(
            methods.ChannelClose(error.reply_code, error.reply_text, class_id, method_id)
        )

    # -- the end ------------------------------------------------------------------------------------

    def close(self, error: ConnectionException) -> None:
        """Send connection.close for ``error``. From now on everything except close-ok is dropped."""
        if self.state in (ConnectionState.CLOSING, ConnectionState.CLOSED):
            return
        class_id = error.class_id or self.class_id
        method_id = error.method_id or self.method_id
        if isinstance(error, errors.LoginRefused):
            class_id = method_id = 0
        # For a forced close and a refused login the caller logs a line of its own.
        is_told = isinstance(error, (errors.ConnectionForced, errors.LoginRefused))
        self.node.event(
            logging.DEBUG if is_told else logging.WARNING,
            "connection error",
            peer=self.peer,
            code=error.reply_code,
            reason=error.reply_text,
        )
        state = self.state
        self.running = False
        self.state = ConnectionState.CLOSING
        self.stop()
        if state is not ConnectionState.HEADER:
            self.send(0, methods.ConnectionClose(error.reply_code, error.reply_text, class_id, method_id))

    def client_closed(self, method: methods.ConnectionClose) -> None:
        """The client sent connection.close; close-ok follows when everything it held is given back."""
        self.stop()
        self.in_slices(self._say_goodbye)

    def _say_goodbye(self) -> bool:
        if self.state is not ConnectionState.CLOSED:  # else the socket is gone
            self.send(0, methods.ConnectionCloseOk())
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
        if self.stopped:
            return
        self.stopped = True
        self.running = False
        self.blocked = False
        self.alarms.forget(self)
        self.hot_number = -1
        channels = [channel for channel in self.channels.values() if channel.state is ChannelState.OPEN]
        for channel in channels:
            channel.stop()
        self.channels.clear()
        self.detached.clear()
        self.assembling = 0
        if channels:
            self.in_slices(partial(release_some, channels))
        if self.vhost is not None:
            self.in_slices(self._remove_exclusive_queues)

    def socket_gone(self) -> None:
        """The socket is closed: give back what the connection holds."""
        self.state = ConnectionState.CLOSED
        self.work_left = False
        self.stop()
        self._hand_over()

    def _remove_exclusive_queues(self) -> bool:
        return not self.vhost.remove_exclusive_queues(self, EXCLUSIVE_SLICE)

    def _release(self, channel: Channel) -> bool:
        spent = channel.release(RELEASE_SLICE)
        self.charge(RETURN_UNITS * spent)
        return spent < RELEASE_SLICE

    # -- work in slices -----------------------------------------------------------------------------

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``channel.ports.Connection``."""
        self.steps.append(step)
        self.waiting = True
        if len(self.steps) == 1:
            self._run_step()
        if not self.scanning:
            self._hand_over()

    def charge(self, units: int) -> None:
        """See ``channel.ports.Connection``."""
        self.units += units

    def _run_step(self) -> bool:
        """Do a slice of the first step; True if no step is left."""
        steps = self.steps
        while steps:
            step = steps[0]
            try:
                done = step()
            except Exception as error:  # a bug of ours; the step would fail again and block those behind it
                self.node.unexpected(f"connection {self.peer}", error)
                done = True
            if not done:
                return False
            steps.popleft()
        self.waiting = False
        return True

    def _hand_over(self) -> None:
        """Let the ticker run the remaining steps, because no chunk is being handled that would."""
        if self.waiting and not self.handed:
            self.handed = True
            self.node.in_slices(self._run_handed)

    def _run_handed(self) -> bool:
        self.handed = not self._run_step()
        return not self.handed

    # -- the channels' interface -------------------------------------------------------------------

    def send(self, number: int, method: Method) -> None:
        """Write ``method`` now."""
        self.output.buf.put(methods.frame(number, method))
        self.output.touch()

    def generate_name(self, prefix: str) -> str:
        return self.node.generate_name(prefix)

    def unstored(self, rev: int) -> None:
        """See ``channel.ports.Connection``."""
        if self.unstored_changes is None:
            self.unstored_changes = Unstored(self.inflow, self.commits)
        self.unstored_changes.add(rev, self.octets)

    def waiting_bytes(self) -> int:
        """Bytes of output that the client has not read."""
        waiting = self.output.waiting_bytes()
        for output in _detached(self):
            waiting += output.waiting_bytes()
        return waiting

    def held_bytes(self) -> int:
        """Bytes held for this connection, apart from messages in queues: its input and output."""
        held = self.output.held_bytes() + self.parts_size
        if self.work_left:
            held += len(self.data) - self.position
        if self.late:
            held += sum(map(len, self.late))
        for output in _detached(self):
            held += output.held_bytes()
        return held

    def drained(self) -> None:
        """The socket has taken the waiting output: queues may deliver again."""
        for channel in self.channels.values():
            for consumer in channel.consumers.values():
                consumer.wake()

    def acknowledges(self) -> bool:
        """Whether the client may still send acknowledgements."""
        return any(map(_acknowledges, self.channels.values()))


def _detached(machine: Machine) -> list[Output]:
    if not machine.detached:
        return []
    return [output for channel in machine.detached for _, _, output in channel.pending]


def _acknowledges(channel: Channel) -> bool:
    return len(channel.consumers) > 0 or channel.delivery.outstanding > 0
