"""basic.get, queue.purge and queue.delete: the methods that a queue's leader answers.

A queue of this node answers within the call. Another may answer later: until then the channel's later
frames wait (``connection.parking``), as behind any method that takes longer than its turn, while other
channels of the connection go on. If no answer comes within ``ANSWER_S``, the channel is closed (404).

An answer that nobody waits for any more, because the channel has closed or the time is over, takes nothing:
its message goes back to the queue as it was.

Source: AMQP 0-9-1, classes basic and queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from amqp_router.channel.declaring import queue_name, queue_named
from amqp_router.channel.delivery import ChannelConsumer, Delivery
from amqp_router.channel.ports import CancelledChannel, ConsumingChannel
from amqp_router.channel.states import ChannelState
from amqp_router.protocol import methods
from amqp_router.protocol.constants import FRAME_METHOD
from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.flags import LOGGED, REDELIVERED
from amqp_router.protocol.message import Message, make_frame
from amqp_router.protocol.methods import Method
from amqp_router.protocol.output import ANSWER_SHIFT
from amqp_router.protocol.shown import shown
from vhosts import declarations
from vhosts.queues.destination import Asker
from vhosts.queues.handle import QueueHandle
from vhosts.queues.timers import QueueTimers, Timer

#: Seconds that a channel waits for the answer of a queue.
ANSWER_S = 5

#: States of a question: there is none; the call that asks has not returned, or was refused; the answer comes
#: later.
IDLE = 0
CALLING = 1
REFUSED = 2
WAITING = 3
_GET_EMPTY = methods.BasicGetEmpty()


class Pending(Protocol):
    """The replies of a channel that wait."""

    @property
    def last_rev(self) -> int:
        """The revision that the last one waits for."""


class AskingChannel(ConsumingChannel, Protocol):
    """The part of a channel that asks."""

    state: ChannelState
    #: Its question; None before the first.
    asking: Asking | None

    @property
    def pending(self) -> Pending:
        """Replies that wait for a revision."""


class Asking(Asker):
    """The question of one channel. There is one at a time, because what follows it waits."""

    __slots__ = ("_held", "_timer", "_timers", "channel", "error", "method", "no_ack", "queue", "state")

    def __init__(self, channel: AskingChannel) -> None:
        #: None once the channel has given everything back.
        self.channel: AskingChannel | None = channel
        #: IDLE, CALLING, REFUSED or WAITING.
        self.state = IDLE
        #: What was asked, and of whom: None when it is answered, so that a queue that is deleted is freed.
        self.method: Method = _GET_EMPTY
        self.no_ack = False
        self.queue: QueueHandle | None = None
        #: Why it was refused within the call.
        self.error: AMQPError | None = None
        #: When it stops waiting.
        self._timer: Timer | None = None
        self._timers: QueueTimers | None = None
        #: Consumers of this connection that the deletion asked for has cancelled; they hear of it behind the
        #: reply.
        self._held: list[tuple[CancelledChannel, str]] | None = None

    def ask(self, queue: QueueHandle | None, method: Method, call: Callable[[], None]) -> None:
        """Ask by ``call``."""
        self.queue = queue
        self.method = method
        self.state = CALLING
        try:
            call()
        except AMQPError:
            self.state = IDLE
            self._tell_cancelled()
            self.queue = None
            raise
        if self.state != IDLE:
            self.returned()
        else:
            self.queue = None

    def hold_cancels(self, queue: QueueHandle) -> None:
        """Let this connection's consumers of ``queue`` hear of its end behind the reply.

        In RabbitMQ the order varies, but is mostly this one. A client that waits for the reply may treat an
        earlier cancel as an error (kombu does).
        """
        assert self.channel is not None
        held_cancels = self.channel.connection.held_cancels
        if queue not in held_cancels:  # else another channel's deletion is on its way
            self._held = held_cancels[queue] = []

    def returned(self) -> None:
        """The call that asked has returned, without an answer or with an error."""
        if self.state == REFUSED:
            self.state = IDLE
            self.queue = None
            error, self.error = self.error, None
            assert error is not None
            raise error
        self.state = WAITING
        channel, queue = self.channel, self.queue
        assert channel is not None
        assert queue is not None
        channel.connection.waits(channel.number)
        timers = self._timers = queue.timers_of_node()
        if timers is not None:
            self._timer = timers.set(self, timers.now_us() + ANSWER_S * 1_000_000)

    # -- the answer -----------------------------------------------------------------------------------

    def got(self, message: Message | None, left: int) -> bool:
        """See ``Asker``: write basic.get-ok or get-empty."""
        state = self.state
        if state == IDLE:
            return False
        self.state = IDLE
        channel = self.channel
        queue = self.queue
        assert channel is not None
        assert queue is not None
        self.queue = None
        delivery = channel.delivery
        if message is None:
            delivery.get_empty_total += 1
            channel.reply(_GET_EMPTY, 0)
        else:
            tag = delivery.next_tag
            no_ack = self.no_ack
            if no_ack:
                delivery.skip_tag()
                delivery.get_no_ack_total += 1
            else:
                delivery.get_total += 1
                owner = channel.getters.get(queue)
                if owner is None:
                    owner = channel.getters[queue] = getter(queue, delivery)
                    owner.shared = channel.shared
                delivery.add(message, owner)
                channel.watch(owner)
            redelivered = b"\x00"
            if message.flags & REDELIVERED:
                redelivered = b"\x01"
                delivery.redeliver_total += 1
            payload = b"\x00\x3c\x00\x47%b%b%b%b" % (
                tag.to_bytes(8, "big"), redelivered, message.route, left.to_bytes(4, "big")
            )  # fmt: skip
            out = delivery.out
            out.buf.put(make_frame(FRAME_METHOD, channel.number, payload))
            out.answer(shown(message, queue.counts_returns), channel.number, delivery.body_payload_max)
            out.touch()
            if delivery.table.taps:
                delivery.tell_taps(queue.name, message)
            units = message.size() >> ANSWER_SHIFT
            if not no_ack:
                if message.flags & LOGGED:
                    message.content = None
                else:
                    queue.put_aside(message)
            channel.connection.charge(units + channel.publishing.publisher.account.take_work())
        if state == WAITING:
            self._answered(None)
        return True

    def removed(self, count: int, rev: int) -> None:
        """See ``Asker``: write queue.purge-ok or delete-ok."""
        state, channel, method = self.state, self.channel, self.method
        if state == IDLE:
            return
        self.state = IDLE
        assert channel is not None
        assert isinstance(method, methods.QueuePurge | methods.QueueDelete)
        is_purge = isinstance(method, methods.QueuePurge)
        answer = methods.QueuePurgeOk(count) if is_purge else methods.QueueDeleteOk(count)
        channel.reply(None if method.nowait else answer, rev)
        self._tell_cancelled()
        if state == WAITING:
            self._answered(None)

    def refused(self, error: AMQPError) -> None:
        """See ``Asker``: close the channel, or the connection."""
        state = self.state
        if state == IDLE:
            return
        self._tell_cancelled()
        if state == WAITING:
            self.state = IDLE
            self._answered(error)
        else:
            self.state = REFUSED
            self.error = error

    def timer_due(self, now_us: int) -> None:
        """No answer has come in time."""
        self._timer = None
        assert self.queue is not None
        self.refused(self.queue.no_answer())

    def abandon(self) -> None:
        """The channel closes, and takes no answer any more."""
        if self.state != IDLE:
            self.state = IDLE
            self._stop_timer()
            self._tell_cancelled()
            self.queue = None

    def release(self) -> None:
        """The channel has given everything back."""
        self.channel = None  # breaks a reference cycle

    def _answered(self, error: AMQPError | None) -> None:
        """The answer came after the call: what waits behind it goes on."""
        self._stop_timer()
        channel = self.channel
        assert channel is not None
        self.queue = None
        if error is not None and not error.class_id:
            error.class_id, error.method_id = self.method.CLASS_ID, self.method.METHOD_ID
        channel.connection.answered(channel.number, error)

    def _stop_timer(self) -> None:
        timer, timers = self._timer, self._timers
        self._timer = self._timers = None
        if timer is not None and timers is not None:
            timers.cancel(timer)

    def _tell_cancelled(self) -> None:
        """Consumers may hear of the queue's end now, or when the reply before leaves."""
        held, self._held = self._held, None
        channel, queue = self.channel, self.queue
        if held is not None and channel is not None and queue is not None:
            rev = channel.pending.last_rev  # the cancels wait for the same revision as the reply
            channel.connection.in_slices(partial(_tell_cancelled, channel, queue, held, rev))


def _tell_cancelled(
    channel: AskingChannel, queue: QueueHandle, held: list[tuple[CancelledChannel, str]], rev: int
) -> bool:
    """Write cancels of a queue that the connection has deleted; True when its consumers have all heard."""
    connection = channel.connection
    done = queue.has_told_consumers()
    for cancelled, tag in held:
        if not connection.stopped and cancelled.state is ChannelState.OPEN:
            cancelled.reply(methods.BasicCancel(tag, True), rev)
    held.clear()
    if done:
        del connection.held_cancels[queue]
    return done


# -- the methods -------------------------------------------------------------------------------------


def get(channel: AskingChannel, method: methods.BasicGet) -> None:
    """Fetch one message, outside of every prefetch limit."""
    name = queue_name(channel, method.queue)
    channel.permissions.check("read", "queue", name)
    queue = channel.vhost.find_queue(name, channel.connection)
    asking = channel.asking
    if asking is None:
        asking = channel.asking = Asking(channel)
    asking.queue = queue
    asking.method = method
    asking.state = CALLING
    asking.no_ack = method.no_ack
    queue.get(method.no_ack, asking)
    if asking.state != IDLE:
        asking.returned()


def purge_queue(channel: AskingChannel, method: methods.QueuePurge) -> None:
    """Answer queue.purge."""
    asking = _asking(channel)
    name = queue_name(channel, method.queue)
    purge = partial(declarations.purge_queue, channel, name, asking)
    asking.ask(queue_named(channel, method.queue), method, purge)


def delete_queue(channel: AskingChannel, method: methods.QueueDelete) -> None:
    """Answer queue.delete."""
    asking = _asking(channel)
    name = queue_name(channel, method.queue)
    queue = queue_named(channel, method.queue)
    if queue is not None:
        asking.hold_cancels(queue)
    delete = partial(
        declarations.delete_queue, channel, name, asking, if_unused=method.if_unused, if_empty=method.if_empty
    )
    asking.ask(queue, method, delete)


def _asking(channel: AskingChannel) -> Asking:
    asking = channel.asking
    if asking is None:
        asking = channel.asking = Asking(channel)
    return asking


METHODS: dict[type[Method], Callable[[AskingChannel, Any], None]] = {  # each takes its own method
    methods.BasicGet: get,
    methods.QueuePurge: purge_queue,
    methods.QueueDelete: delete_queue,
}


def getter(queue: QueueHandle, delivery: Delivery) -> ChannelConsumer:
    """The owner of messages taken by ``basic.get``. No limit applies to it."""
    owner = ChannelConsumer()
    owner.queue = queue
    owner.delivery = delivery
    owner.counts = False
    owner.is_consumer = 0
    return owner
