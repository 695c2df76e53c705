"""The question of a channel to a queue, and its answer.

basic.get, consume and cancel ask, and queue.declare, purge and delete.

A queue of this node answers within the call. Another may answer later: until then the channel's later
frames wait (``connection.parking``), as behind any method that takes longer than its turn, while other
channels of the connection go on. If no answer comes within ``ANSWER_S``, the channel is closed (404).

An answer that nobody waits for any more, because the channel has closed or the time is over, takes nothing:
its message goes back to the queue as it was, and its consumer is removed again.

While basic.cancel waits, the consumer still takes what was on its way, so cancel-ok comes behind its last
delivery. As in RabbitMQ, a consumer of a queue that is not there has ended, and cancel-ok says so.

``questions`` has the other methods that ask. Compiled: see ``asking.pxd``.

Source: AMQP 0-9-1, classes basic and queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from amqp_router.channel.consumer import ChannelConsumer, getter
from amqp_router.channel.consuming import begin
from amqp_router.channel.declaring import queue_name
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.ports import AnsweredChannel, CancelledChannel
from amqp_router.channel.states import ChannelState
from amqp_router.protocol import constants, flags, methods
from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.message import Message
from amqp_router.protocol.methods import Method
from amqp_router.protocol.output import ANSWER_SHIFT
from amqp_router.protocol.shown import shown
from persistence.memory import MemoryBudget
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
#: What may be asked.
GET = 0
PURGE = 1
DELETE = 2
DECLARE = 3
CONSUME = 4
CANCEL = 5
_METHODS: tuple[type[Method], ...] = (
    methods.BasicGet,
    methods.QueuePurge,
    methods.QueueDelete,
    methods.QueueDeclare,
    methods.BasicConsume,
    methods.BasicCancel,
)

# C integers where compiled (see asking.pxd).
_IDLE = IDLE
_CALLING = CALLING
_REFUSED = REFUSED
_WAITING = WAITING
_ANSWER_SHIFT = ANSWER_SHIFT
#: Class and method of basic.get-ok and get-empty, and octets of their arguments but for the route.
_GET_OK = 0x003C_0047
_GET_OK_OCTETS = 17
_GET_EMPTY = 0x003C_0048
_GET_EMPTY_OCTETS = 5


class AskingChannel(AnsweredChannel, Protocol):
    """The part of a channel that asks."""

    #: Its question; None before the first.
    asking: Asking | None


class Asking(Asker):
    """The question of one channel. There is one at a time, because what follows it waits."""

    __slots__ = (
        "account",
        "channel",
        "consumer",
        "delivery",
        "error",
        "getters",
        "held",
        "kind",
        "no_ack",
        "nowait",
        "number",
        "queue",
        "rev",
        "state",
        "timer",
    )

    def __init__(self, channel: AnsweredChannel) -> None:
        #: None once the channel has given everything back.
        self.channel: AnsweredChannel | None = channel
        self.number = channel.number
        self.delivery: Delivery = channel.delivery
        #: Owners of what was taken by basic.get.
        self.getters: dict[QueueHandle, ChannelConsumer] = channel.getters
        self.account: MemoryBudget = channel.publishing.publisher.account
        #: IDLE, CALLING, REFUSED or WAITING.
        self.state = IDLE
        #: What was asked, and of whom: None when it is answered, so that a queue that is deleted is freed.
        self.kind = GET
        self.no_ack = False
        self.nowait = False
        self.queue: QueueHandle | None = None
        #: The consumer that starts or ends.
        self.consumer: ChannelConsumer | None = None
        #: The revision of the definitions that queue.declare-ok waits for.
        self.rev = 0
        #: Why it was refused within the call.
        self.error: AMQPError | None = None
        #: When it stops waiting, and who has that timer.
        self.timer: tuple[QueueTimers, Timer] | None = None
        #: Consumers of this connection that the deletion asked for has cancelled; they hear of it behind the
        #: reply.
        self.held: list[tuple[CancelledChannel, str]] | None = None

    def ask(self, queue: QueueHandle | None, kind: int, nowait: bool, call: Callable[[], None]) -> None:
        """Ask by ``call``."""
        self.queue = queue
        self.kind = kind
        self.nowait = nowait
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

    def count(self, queue: QueueHandle, rev: int) -> None:
        """Answer queue.declare, which waits for revision ``rev``, with the numbers of ``queue``."""
        self.queue = queue
        self.kind = DECLARE
        self.rev = rev
        self.state = CALLING
        queue.count(self)
        if self.state != IDLE:
            self.returned()

    def consume(self, consumer: ChannelConsumer, nowait: bool) -> None:
        """Start ``consumer``."""
        queue = consumer.queue
        self.queue = queue
        self.kind = CONSUME
        self.nowait = nowait
        self.consumer = consumer
        self.state = _CALLING
        queue.consume(consumer, self)
        if self.state != _IDLE:
            self.returned()

    def cancel(self, consumer: ChannelConsumer, nowait: bool) -> None:
        """End ``consumer``, which is none of the channel's consumers any more."""
        channel = self.channel
        assert channel is not None
        self.queue = consumer.queue
        self.kind = CANCEL
        self.nowait = nowait
        self.consumer = consumer
        self.state = _CALLING
        channel.leave(consumer, self)
        if self.state != _IDLE:
            self.returned()

    def hold_cancels(self, queue: QueueHandle) -> None:
        """Let this connection's consumers of ``queue`` hear of its end behind the reply.

        In RabbitMQ the order varies, but is mostly this one. A client that waits for the reply may treat an
        earlier cancel as an error (kombu does).
        """
        assert self.channel is not None
        held_cancels = self.channel.connection.held_cancels
        if queue not in held_cancels:  # else another channel's deletion is on its way
            self.held = held_cancels[queue] = []

    def returned(self) -> None:
        """The call that asked has returned, without an answer or with an error."""
        if self.state == REFUSED:
            self.state = IDLE
            self.queue = self.consumer = None
            error, self.error = self.error, None
            assert error is not None
            raise error
        self.state = WAITING
        channel, queue = self.channel, self.queue
        assert channel is not None
        assert queue is not None
        channel.connection.waits(channel.number)
        timers = queue.timers_of_node()
        if timers is not None:
            self.timer = timers, timers.set(self, timers.now_us() + ANSWER_S * 1_000_000)

    # -- the answer -----------------------------------------------------------------------------------

    def got(self, message: Message | None, left: int) -> bool:
        """See ``Asker``: write basic.get-ok or get-empty."""
        state = self.state
        if state == _IDLE:
            return False
        self.state = _IDLE
        queue = self.queue
        assert queue is not None
        self.queue = None
        if message is not None:
            self._write(queue, message, left)
        else:
            delivery = self.delivery
            delivery.get_empty_total += 1
            out = delivery.out
            buf = out.buf
            buf.u8(constants.FRAME_METHOD)
            buf.u16(self.number)
            buf.u32(_GET_EMPTY_OCTETS)
            buf.u32(_GET_EMPTY)
            buf.u8(0)
            buf.u8(constants.FRAME_END)
            out.touch()
        if state == _WAITING:
            self._answered(None)
        return True

    def _write(self, queue: QueueHandle, message: Message, left: int) -> None:
        """Deliver what was asked for."""
        delivery = self.delivery
        channel = self.channel
        assert channel is not None
        tag = delivery.next_tag
        if self.no_ack:
            delivery.skip_tag()
            delivery.get_no_ack_total += 1
        else:
            delivery.get_total += 1
            owner = self.getters.get(queue)
            if owner is None:
                owner = self.getters[queue] = getter(queue, delivery)
                owner.shared = channel.shared
            delivery.add(message, owner)
            queue.note_holder(owner)
            if queue.ack_timeout_ms > 0:
                channel.watch(owner)
        redelivered = 0
        if message.flags & flags.REDELIVERED:
            redelivered = 1
            delivery.redeliver_total += 1
        out = delivery.out
        buf = out.buf
        buf.u8(constants.FRAME_METHOD)
        buf.u16(self.number)
        buf.u32(_GET_OK_OCTETS + len(message.route))
        buf.u32(_GET_OK)
        buf.u64(tag)
        buf.u8(redelivered)
        buf.put(message.route)
        buf.u32(left)
        buf.u8(constants.FRAME_END)
        content = message
        if queue.counts_returns or message.flags & flags.BLIND:
            content = shown(message, queue.counts_returns)
        out.answer(content, self.number, delivery.body_payload_max)
        out.touch()
        if len(delivery.table.taps) > 0:
            delivery.tell_taps(queue.name, message)
        units = message.size() >> _ANSWER_SHIFT
        if not self.no_ack:
            if message.flags & flags.LOGGED:
                message.content = None
            else:
                queue.put_aside(message)
        units += self.account.take_work()
        if units > 0:
            channel.connection.charge(units)

    def removed(self, count: int, rev: int) -> None:
        """See ``Asker``: write queue.purge-ok or delete-ok."""
        state, channel = self.state, self.channel
        if state == IDLE:
            return
        self.state = IDLE
        assert channel is not None
        answer = methods.QueuePurgeOk(count) if self.kind == PURGE else methods.QueueDeleteOk(count)
        channel.reply(None if self.nowait else answer, rev)
        self._tell_cancelled()
        if state == WAITING:
            self._answered(None)

    def counted(self, ready: int, consumers: int) -> None:
        """See ``Asker``: write queue.declare-ok."""
        state, channel, queue = self.state, self.channel, self.queue
        if state == _IDLE:
            return
        self.state = _IDLE
        assert channel is not None
        assert queue is not None
        self.queue = None
        channel.reply(methods.QueueDeclareOk(queue.name, ready, consumers), self.rev)
        if state == _WAITING:
            self._answered(None)

    def started(self) -> bool:
        """See ``Asker``: the channel has a consumer."""
        state, channel, consumer = self.state, self.channel, self.consumer
        if state == _IDLE:
            return False
        self.state = _IDLE
        self.queue = self.consumer = None
        assert channel is not None
        assert consumer is not None
        begin(channel, consumer, self.nowait)
        if state == _WAITING:
            self._answered(None)
        return True

    def ended(self) -> None:
        """See ``Asker``: write basic.cancel-ok."""
        state, channel, consumer = self.state, self.channel, self.consumer
        if state == _IDLE:
            return
        self.state = _IDLE
        self.queue = self.consumer = None
        assert channel is not None
        assert consumer is not None
        channel.reply(None if self.nowait else methods.BasicCancelOk(consumer.tag), 0)
        if state == _WAITING:
            self._answered(None)

    def refused(self, error: AMQPError) -> None:
        """See ``Asker``: close the channel, or the connection, unless a consumer was to end."""
        if self.state == IDLE:
            return
        if self.kind == CANCEL:
            self.ended()
        else:
            self._refuse(error)

    def _refuse(self, error: AMQPError) -> None:
        state = self.state
        self._tell_cancelled()
        if state == WAITING:
            self.state = IDLE
            self._answered(error)
        else:
            self.state = REFUSED
            self.error = error

    def timer_due(self, now_us: int) -> None:
        """No answer has come in time."""
        self.timer = None
        assert self.queue is not None
        self._refuse(self.queue.no_answer())

    def abandon(self) -> None:
        """The channel closes, and takes no answer any more."""
        if self.state != IDLE:
            self.state = IDLE
            self._stop_timer()
            self._tell_cancelled()
            self.queue = self.consumer = None

    def release(self) -> None:
        """The channel has given everything back."""
        self.channel = None  # breaks a reference cycle

    def _answered(self, error: AMQPError | None) -> None:
        """The answer came after the call: what waits behind it goes on."""
        self._stop_timer()
        channel = self.channel
        assert channel is not None
        self.queue = self.consumer = None
        if error is not None and not error.class_id:
            method = _METHODS[self.kind]
            error.class_id, error.method_id = method.CLASS_ID, method.METHOD_ID
        channel.connection.answered(channel.number, error)

    def _stop_timer(self) -> None:
        timer, self.timer = self.timer, None
        if timer is not None:
            timer[0].cancel(timer[1])

    def _tell_cancelled(self) -> None:
        """Consumers may hear of the queue's end now, or when the reply before leaves."""
        held, self.held = self.held, None
        channel, queue = self.channel, self.queue
        if held is not None and channel is not None and queue is not None:
            rev = channel.pending.last_rev  # the cancels wait for the same revision as the reply
            channel.connection.in_slices(partial(_tell_cancelled, channel, queue, held, rev))


def _tell_cancelled(
    channel: AnsweredChannel, queue: QueueHandle, held: list[tuple[CancelledChannel, str]], rev: int
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


def get_message(channel: AskingChannel, method: methods.BasicGet) -> None:
    """Answer basic.get: fetch one message, outside of every prefetch limit."""
    name = queue_name(channel, method.queue)
    channel.permissions.check("read", "queue", name)
    queue = channel.vhost.find_queue(name, channel.connection)
    asking = channel.asking
    if asking is None:
        asking = channel.asking = Asking(channel)
    asking.queue = queue
    asking.kind = GET
    asking.no_ack = method.no_ack
    asking.state = _CALLING
    queue.get(asking.no_ack, asking)
    if asking.state != _IDLE:
        asking.returned()
