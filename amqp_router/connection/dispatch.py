"""What the frames of channels do: the object that acts on what ``Input`` finds.

A publish whose content is complete goes directly to its channel's ``publishing``, an ack to its ``delivery``
(``take``). Everything else is decoded (``frame``). A frame that cannot be finished in this turn is kept in
``held`` and goes on with ``resume``: a message with a long route, or a method that waits until a queue has
delivered what was published before (``channel.due``). No further frame is handled meanwhile. While a
channel waits for the answer of a queue, its frames wait, too (``connection.parking``); those of other
channels do not.

Source: AMQP 0-9-1, sections 4.2.5 and 4.2.6. Errors have RabbitMQ's reply codes and texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from amqp_router.channel.aside import Aside
from amqp_router.channel.channel import RELEASE_SLICE, Channel, end_some, release_some
from amqp_router.channel.content import Whole
from amqp_router.channel.declaring import means_last_queue
from amqp_router.channel.delivery import RETURN_UNITS, Delivery
from amqp_router.channel.due import FIRST_GIVES, HOLDS_BACK, Due, due_before
from amqp_router.channel.publishing import Publishing
from amqp_router.channel.states import ChannelState
from amqp_router.channel.transactions import free_some
from amqp_router.connection.ports import Admission
from amqp_router.connection.shared import Shared
from amqp_router.connection.slices import Slices
from amqp_router.protocol import constants, errors, methods
from amqp_router.protocol.errors import (
    ChannelError,
    ChannelException,
    CommandInvalid,
    DeliveryTimeout,
    NotAllowed,
)
from amqp_router.protocol.input import ACK, Input
from amqp_router.protocol.message import make_frame
from amqp_router.protocol.methods import Method, check_texts, decode_method
from vhosts.errors import no_previous_queue

#: What ``Dispatch.take`` answers: not taken, for ``frame``; taken; taken, and it was a publish; the rest of
#: its content must come first.
NOT_TAKEN = 0
TAKEN = 1
PUBLISHED = 2
CUT = 3
#: Cost of a decoded method, in enqueues: a declare takes tens of microseconds.
METHOD_UNITS = 64
#: What a queue with a log costs beside that: one takes some 100 microseconds.
LOG_UNITS = 192
#: The classes whose methods declare: exchange and queue. One costs at least so many enqueues for each
#: microsecond of CPU that it takes: a machine may be slow, and the thread that stores definitions takes turns
#: with the event loop meanwhile, which doubles the time that others wait.
DECLARING = (40, 50)
DECLARING_UNITS = 2
#: 2 to this power octets of a method cost as much as one enqueue, because each octet may be a value to
#: decode.
ARGUMENT_SHIFT = 4

# C integers where compiled (see dispatch.pxd).
_NOT_TAKEN = NOT_TAKEN
_TAKEN = TAKEN
_PUBLISHED = PUBLISHED
_CUT = CUT
_ACK = ACK
_COMPLETE = 1  # what Input.content answers
_MORE = 0


class Dispatch:
    """Acts on the frames of the channels of one connection; ``channels`` has them by number."""

    __slots__ = (
        "admission",
        "assembling",
        "channels",
        "delivered",
        "event",
        "frames",
        "held",
        "held_size",
        "holding",
        "hot_delivery",
        "hot_number",
        "hot_publishing",
        "hot_transaction",
        "message_bytes_max",
        "parked",
        "parking",
        "shared",
        "stuck",
        "work",
    )

    def __init__(
        self,
        channels: dict[int, Channel],
        shared: Shared,
        frames: Input,
        work: Slices,
        *,
        admission: Admission,
        message_bytes_max: int,
        event: Callable[..., None],
    ) -> None:
        self.channels = channels
        self.shared = shared
        self.frames = frames
        self.work = work
        #: The limits of users and virtual hosts.
        self.admission = admission
        self.message_bytes_max = message_bytes_max
        #: Writes a line to the broker's log.
        self.event = event
        shared.channel_closer = self.close_channel
        #: Channels with a content under way.
        self.assembling = 0
        #: The open channel that the last publish or acknowledgement was for, or -1.
        self.hot_number = -1
        self.hot_publishing: Publishing
        self.hot_delivery: Delivery
        #: Whether that channel's acknowledgements wait for a tx.commit.
        self.hot_transaction = False
        #: Finishes the frame that waits for a later turn, or lets it wait again; True if it has published a
        #: message. None if no frame waits.
        self.held: Callable[[], bool] | None = None
        #: Octets of that frame's content.
        self.held_size = 0
        #: Frames of channels that wait for the answer of a queue; ``parked`` has them by channel.
        self.parking = shared.parking
        self.parked = self.parking.channels
        #: Whether no frame may be taken before a channel has its answer.
        self.stuck = False
        #: What the channels have set aside that hold deliveries back until the chunk ends.
        self.holding: list[Aside] = []
        #: Whether the queues that a held method waits for have delivered everything.
        self.delivered = False

    # -- frames that are taken as they are ----------------------------------------------------------

    def take(self, found: int) -> int:
        """Take the publish or acknowledgement that ``frames`` has found; see the constants for the result."""
        frames = self.frames
        if frames.number != self.hot_number and not self._heat(frames.number):
            return _NOT_TAKEN
        start = frames.start
        if found == _ACK:
            if self.hot_transaction:
                return _NOT_TAKEN
            d = frames.data
            tag = (
                (d[start + 4] << 24) | (d[start + 5] << 16) | (d[start + 6] << 8) | d[start + 7]
            ) & 0xFFFFFFFF
            low = (
                (d[start + 8] << 24) | (d[start + 9] << 16) | (d[start + 10] << 8) | d[start + 11]
            ) & 0xFFFFFFFF
            self.work.units += self.hot_delivery.ack((tag << 32) | low, d[start + 12] & 1 == 1)
            return _TAKEN
        if self.assembling > 0:
            return _NOT_TAKEN
        found = frames.content()
        if found == _MORE:
            return _CUT
        data = frames.data
        start = frames.start
        end = frames.end
        scan = frames.scan
        if found != _COMPLETE or scan.body_size > self.message_bytes_max:
            self._start_content(self.channels[frames.number], data[start + 4 : end])
            return _TAKEN
        frames.position = scan.end
        args = data[start + 4 : end]
        content = data[end + 1 : scan.end]
        body_frames = 1 if scan.body_size > 0 else 0
        count = self.hot_publishing.publish(args, content, scan, body_frames)
        if count > 0:
            self.work.units += count
            return _PUBLISHED
        self._hold(len(content), partial(self._publish, frames.number, (args, content, scan, body_frames)))
        return _TAKEN

    def _heat(self, number: int) -> bool:
        """Remember channel ``number`` for ``take``; False if it is not open or in a content."""
        channel = self.channels.get(number)
        if channel is None or channel.state is not ChannelState.OPEN or channel.content.args is not None:
            return False
        if len(self.parked) > 0 and number in self.parked:
            return False
        self.hot_number = number
        self.hot_publishing = channel.publishing
        self.hot_delivery = channel.delivery
        self.hot_transaction = channel.transaction is not None
        return True

    # -- frames that wait for a later turn ----------------------------------------------------------

    def _hold(self, size: int, held: Callable[[], bool]) -> None:
        self.held = held
        self.held_size = size

    def resume(self) -> bool:
        """Go on with the frame that waits; True if a message was published."""
        held = self.held
        if held is None:
            return False
        self.held = None
        self.held_size = 0
        return held()

    def _publish(self, number: int, whole: Whole) -> bool:
        channel = self.channels[number]
        if channel.state is not ChannelState.OPEN:  # it was closed while the message waited
            return False
        args, frames, scan, count = whole
        units = channel.publishing.publish(args, frames, scan, count)
        self.work.units += units
        if units == 0:
            self._hold(scan.header_size + scan.body_size, partial(self._publish, number, whole))
        return units > 0

    # -- frames that are decoded --------------------------------------------------------------------

    def frame(self, kind: int, number: int, payload: bytes) -> bool:
        """As ``act``, unless the channel waits for an answer: then the frame waits, too."""
        if len(self.parked) > 0 and number in self.parked:
            self.parking.add(number, kind, payload)
            self.stuck = self.parking.is_full()
            return False
        return self.act(kind, number, payload)

    def act(self, kind: int, number: int, payload: bytes) -> bool:
        """Handle a method, content header or content body of channel ``number``; True if a message was
        published.

        Raises:
            ChannelException, ConnectionException: as the specification or the method's function says.
        """
        channel = self.channels.get(number)
        frames = self.frames
        if channel is None:
            if kind != constants.FRAME_METHOD:
                raise errors.UnexpectedFrame(errors.EXPECTED_METHOD)
            self._first_method(number, decode_method(payload))
        elif channel.state is ChannelState.CLOSING:
            if kind == constants.FRAME_METHOD and frames.class_id == 20:
                self._closing_channel(number, channel, frames.method_id)
        elif kind != constants.FRAME_METHOD or channel.content.args is not None:
            # A method inside of a content, too: the assembler raises the error that fits.
            return self._content(channel, kind, payload)
        elif frames.class_id == 60 and frames.method_id == 40:
            self._start_content(channel, payload[4:])
        else:
            work, is_timed = self.work, frames.class_id in DECLARING
            before, began = work.units, work.node.cpu_us() if is_timed else 0
            method = decode_method(payload)
            if method.CLASS_ID == 10:
                raise CommandInvalid(errors.UNIMPLEMENTED_METHOD)
            if isinstance(method, methods.ChannelOpen):
                raise ChannelError("second 'channel.open' seen")
            work.units += METHOD_UNITS + (len(payload) >> ARGUMENT_SHIFT)
            if isinstance(method, methods.QueueDeclare) and method.durable:
                work.units += LOG_UNITS
            if not isinstance(method, methods.ChannelClose):
                check_texts(method)
            self._method(number, method)
            if is_timed:
                work.units = max(work.units, before + DECLARING_UNITS * (work.node.cpu_us() - began))
        return False

    def _first_method(self, number: int, method: Method) -> None:
        """A method on a channel number that is not open."""
        if isinstance(method, methods.ChannelOpen):
            self._open_channel(number)
            self.shared.send(number, methods.ChannelOpenOk())
        elif method.CLASS_ID == 10:
            raise CommandInvalid(errors.UNIMPLEMENTED_METHOD)
        elif means_last_queue(method):
            # RabbitMQ looks for that queue first, and closes the channel that was never opened.
            self._open_channel(number)
            raise no_previous_queue()
        else:
            raise ChannelError("expected 'channel.open'")

    def _method(self, number: int, method: Method) -> bool:
        channel = self.channels[number]
        if channel.state is not ChannelState.OPEN:  # it was closed while the method waited
            if method.CLASS_ID == 20:
                self._closing_channel(number, channel, method.METHOD_ID)
            return False
        aside = channel.delivery.aside
        if aside.holds and type(method) in FIRST_GIVES:
            aside.let_go()
        if not self.delivered:
            due = due_before(channel, method)
            if due is not None:
                if not aside.holds and type(method) in HOLDS_BACK and channel.consumers:
                    aside.holds = True
                    self.holding.append(aside)
                if not self._deliver(due):
                    self.work.add(partial(self._deliver, due))
                    self._hold(0, partial(self._method, number, method))
                    return False
        self.delivered = False
        if isinstance(method, methods.ChannelClose):
            self.leave_channel(channel)
            self.work.add(partial(self._forget_channel, number, channel))
        else:
            if isinstance(method, methods.TxSelect):
                self.hot_number = -1
            account = self.shared.intake.account
            account.work = 0  # what was done before is not the client's
            channel.receive(method)
            self.work.units += account.take_work()
            if len(self.parked) > 0:
                self.hot_number = -1
        return False

    def _deliver(self, due: Due) -> bool:
        """Let queues deliver some of what is due; True when nothing is left to wait for."""
        self.delivered = due.go_on()
        self.work.units += due.spent
        return self.delivered

    def let_go(self) -> None:
        """The chunk ends: deliver what channels have held back."""
        for aside in self.holding:
            aside.let_go()
        self.holding.clear()

    def _closing_channel(self, number: int, channel: Channel, method_id: int) -> None:
        """A method of class channel while close-ok is awaited. A channel.close that crossed ours is
        answered.
        """
        if method_id == methods.ChannelCloseOk.METHOD_ID:
            del self.channels[number]
        elif method_id == methods.ChannelClose.METHOD_ID:
            channel.reply(methods.ChannelCloseOk(), 0)
        elif method_id == methods.ChannelOpen.METHOD_ID:
            raise ChannelError("second 'channel.open' seen")

    def _start_content(self, channel: Channel, args: bytes) -> None:
        channel.content.start(args)
        self.assembling += 1
        self.hot_number = -1

    def _content(self, channel: Channel, kind: int, payload: bytes) -> bool:
        frames = self.frames
        frames.class_id = frames.method_id = 0
        frame = make_frame(kind, channel.number, payload)
        if not channel.content.receive(kind, frame, self.message_bytes_max):
            return False
        self.assembling -= 1
        whole = channel.content.take()
        frames.class_id = 60
        frames.method_id = 40
        self.work.units += 1
        return self._publish(channel.number, whole)

    # -- channels -----------------------------------------------------------------------------------

    def _open_channel(self, number: int) -> None:
        channel_max = self.shared.session.channel_max
        if len(self.channels) >= channel_max:
            self.frames.class_id = self.frames.method_id = 0
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max "
                f"({channel_max})"
            )
        try:
            self.admission.channel(self.shared.user)
        except NotAllowed:
            self.frames.class_id = self.frames.method_id = 0
            raise
        self.channels[number] = Channel(number, self.shared)
        self.work.units += METHOD_UNITS

    def _forget_channel(self, number: int, channel: Channel) -> bool:
        """Remove a channel that the client closed."""
        if not self.shared.stopped:
            del self.channels[number]
            channel.reply(methods.ChannelCloseOk(), 0)
        return True

    def close_channel(self, channel: Channel, error: ChannelException) -> None:
        """Send channel.close for ``error``, and drop what follows until its close-ok.

        If the error names no method, it is the current frame's.
        """
        self.event(
            logging.WARNING,
            "channel closed",
            peer=self.work.peer,
            channel=channel.number,
            code=error.reply_code,
            reason=error.reply_text,
        )
        class_id = method_id = 0
        if not isinstance(error, DeliveryTimeout):
            class_id = error.class_id or self.frames.class_id
            method_id = error.method_id or self.frames.method_id
        self.leave_channel(channel)
        channel.state = ChannelState.CLOSING
        channel.reply_after_slices(
            methods.ChannelClose(error.reply_code, error.reply_text, class_id, method_id)
        )

    def leave_channel(self, channel: Channel) -> None:
        """Give back what ``channel`` holds."""
        self.hot_number = -1
        if channel.content.args is not None:
            self.assembling -= 1
        transaction = channel.stop()
        if transaction is not None:
            self.work.add(partial(free_some, [transaction]))
        if len(self.parked) > 0:  # what the client sent may be the end of the channel
            self.shared.answered(channel.number, None)
        self.work.add(partial(self._release, channel))

    def _release(self, channel: Channel) -> bool:
        spent = channel.release(RELEASE_SLICE)
        self.work.units += RETURN_UNITS * spent
        return spent < RELEASE_SLICE

    def stop(self) -> None:
        """The connection ends: give back what all channels hold."""
        self.hot_number = -1
        self.shared.channel_closer = None  # breaks a reference cycle
        self.held = None
        self.held_size = 0
        self.delivered = False
        self.parking.clear()
        self.stuck = False
        channels = [channel for channel in self.channels.values() if channel.state is ChannelState.OPEN]
        over = [transaction for channel in channels if (transaction := channel.halt()) is not None]
        self.assembling = 0
        self.channels.clear()
        self.channels.update([(channel.number, channel) for channel in channels])
        # To end each of 2,047 channels is a small step, and so is what it holds; together half a second.
        if channels:
            self.work.add(partial(end_some, channels[::-1], self.channels))
            self.work.add(partial(release_some, channels))
        if over:
            self.work.add(partial(free_some, over))
