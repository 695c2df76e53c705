"""basic.qos and recover, what a consumer is made of, and acknowledgements that did not take the fast way.

``questions`` has basic.consume and cancel, which a queue answers.

Source: AMQP 0-9-1, class basic; RabbitMQ, "Consumer Prefetch".
"""

from __future__ import annotations

from functools import partial

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.delivery import REJECT_UNITS, RETURN_SLICE, RETURN_UNITS
from amqp_router.channel.due import all_to_return, due_of
from amqp_router.channel.ports import ConsumingChannel
from amqp_router.channel.returns import return_slice, return_tag
from amqp_router.protocol import methods
from amqp_router.protocol.constants import FRAME_METHOD
from amqp_router.protocol.errors import NotAllowed, NotImplementedByServer, PreconditionFailed
from amqp_router.protocol.fields import TYPE_NAMES
from amqp_router.protocol.flags import ACK, REJECT, RETURN
from amqp_router.protocol.kept_table import Arguments, keep
from amqp_router.protocol.message import frame_header
from vhosts.queues.destination import UNHEARD
from vhosts.queues.handle import TIMEOUT_MS_MAX, UNLIMITED

#: Deliveries that a new consumer gets before the next turn of the event loop.
FIRST_DELIVERIES = 1024
_PRIORITY_MAX = 0x7FFF_FFFF
_INTEGERS = frozenset("bBsuIilL")
#: Arguments of a consumer with the type that they must have. RabbitMQ answers 541 to a wrong x-credit.
_TYPED = {"x-cancel-on-ha-failover": "t", "x-credit": "F"}


def qos(channel: ConsumingChannel, method: methods.BasicQos) -> None:
    """Limit unacknowledged deliveries; 0 lifts the limit.

    Applies to consumers started later, or at once to the whole channel if ``is_global``. A later call for
    consumers lifts the channel's limit, as RabbitMQ 3.10 does.
    """
    if method.prefetch_size != 0:
        raise NotImplementedByServer(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.is_global:
        _limit_channel(channel, method.prefetch_count)
    else:
        channel.prefetch = method.prefetch_count
        if channel.shared.limit:
            _limit_channel(channel, 0)
    channel.reply(methods.BasicQosOk(), 0)


def _limit_channel(channel: ConsumingChannel, limit: int) -> None:
    channel.shared.change(limit)
    channel.waking.wake(channel)


def new_consumer(channel: ConsumingChannel, method: methods.BasicConsume, name: str) -> ChannelConsumer:
    """The consumer of queue ``name`` that ``method`` asks for."""
    channel.permissions.check("read", "queue", name)
    tag = method.consumer_tag or channel.vhost.generate_name("amq.ctag-")
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    queue = channel.vhost.find_queue(name, channel.connection)
    if method.arguments:
        kind = "quorum" if queue.counts_returns else "classic"
        _check_arguments(method.arguments, f"queue '{name}' in vhost '{channel.vhost.name}'", kind)
    if queue.counts_returns and channel.shared.limit:
        raise NotImplementedByServer(
            f"queue '{name}' in vhost '{channel.vhost.name}' does not support global qos"
        )
    consumer = ChannelConsumer()
    consumer.tag = tag
    consumer.no_ack = method.no_ack
    # As in RabbitMQ, a quorum queue is shared whoever asks for it alone.
    consumer.exclusive = method.exclusive and not queue.counts_returns
    if "x-priority" in method.arguments:
        consumer.priority = _bounded(method.arguments["x-priority"][1])
    consumer.arguments = keep(method.arguments)
    consumer.queue = queue
    consumer.delivery = channel.delivery
    consumer.prefix = consumer_prefix(channel.number, tag)
    consumer.shared = channel.shared
    consumer.shows_count = queue.counts_returns
    if not method.no_ack:
        consumer.limited = channel.prefetch > 0
        consumer.credit = channel.prefetch or UNLIMITED
        consumer.timeout_ms = _timeout(method.arguments)
    consumer.output = channel.delivery.out
    return consumer


def begin(channel: ConsumingChannel, consumer: ChannelConsumer, nowait: bool) -> None:
    """``consumer`` has started; consume-ok leaves before its first delivery."""
    consumer.output = channel.delivery.out  # perhaps another one since the queue was asked
    channel.consumers[consumer.tag] = consumer
    feed = channel.vhost.topology.feed
    if feed.on:
        feed.consumer(channel.vhost.name, channel.actor(), consumer, is_new=True, prefetch=channel.prefetch)
    if not consumer.no_ack:
        channel.watch(consumer)
    channel.reply(None if nowait else methods.BasicConsumeOk(consumer.tag), 0)
    # As in RabbitMQ, it gets its messages before the next consumer is started.
    consumer.queue.deliver_due(FIRST_DELIVERIES)


def consume_replies(channel: ConsumingChannel, method: methods.BasicConsume) -> None:
    """Start the consumer of direct reply-to, which gets a queue of its own.

    Source: RabbitMQ, "Direct Reply-to". No limit applies to it.
    """
    tag = method.consumer_tag or channel.vhost.generate_name("amq.ctag-")
    other = channel.consumers.get(tag)
    if other is not None and other.queue.name.encode() != channel.publishing.reply_to:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.publishing.reply_to:
        raise PreconditionFailed("reply consumer already set")
    queue = channel.vhost.replies.open(channel.connection)
    consumer = ChannelConsumer()
    consumer.tag = tag
    consumer.no_ack = True
    consumer.queue = queue
    consumer.delivery = channel.delivery
    consumer.output = channel.delivery.out
    consumer.prefix = consumer_prefix(channel.number, tag)
    consumer.counts = False
    queue.consume(consumer, UNHEARD)  # it is on this node, and new
    channel.consumers[tag] = consumer
    channel.publishing.reply_to = queue.name.encode()
    channel.waking.replies_to = consumer
    channel.reply(None if method.nowait else methods.BasicConsumeOk(tag), 0)


def _bounded(priority: int) -> int:
    """A priority that fits into 32 bits; those beyond are the highest and lowest."""
    return max(-_PRIORITY_MAX, min(priority, _PRIORITY_MAX))


def _timeout(arguments: Arguments) -> int:
    """The consumer's own timeout in ms; 0 for none. RabbitMQ does not look at what is no number."""
    given = arguments.get("x-consumer-timeout")
    return max(0, min(given[1], TIMEOUT_MS_MAX)) if given is not None and given[0] in _INTEGERS else 0


def _check_arguments(arguments: Arguments, where: str, kind: str) -> None:
    """Refuse wrong arguments, and those whose feature does not exist yet. Unknown arguments are ignored.

    Raises:
        PreconditionFailed: 406, with RabbitMQ's text where it has one.
    """
    priority = arguments.get("x-priority")
    if priority is not None and priority[0] not in _INTEGERS:
        problem = f'"expected integer, got {TYPE_NAMES[priority[0]]}"'
        raise PreconditionFailed(f"invalid arg 'x-priority' for {where}: {problem}")
    for argument, letter in _TYPED.items():
        given = arguments.get(argument)
        if given is not None and given[0] != letter and (kind == "classic" or argument == "x-credit"):
            problem = f"{{unacceptable_type,{TYPE_NAMES[given[0]]}}}"
            raise PreconditionFailed(f"invalid arg '{argument}' for {where}: {problem}")
    refused = ("x-stream-offset", "x-cancel-on-ha-failover") if kind == "quorum" else ("x-stream-offset",)
    wrong = [each for each in refused if each in arguments]
    if wrong:
        first = next(each for each in arguments if each in wrong)  # in the order that the client sent
        raise PreconditionFailed(f"invalid arg '{first}' for {where} of queue type rabbit_{kind}_queue")


def ack(channel: ConsumingChannel, method: methods.BasicAck) -> None:
    """Settle the deliveries that the client acknowledges."""
    if channel.transaction is not None:
        channel.transaction.settle(method.delivery_tag, method.multiple, ACK)
    else:
        channel.connection.charge(channel.delivery.ack(method.delivery_tag, method.multiple))


def nack(channel: ConsumingChannel, method: methods.BasicNack) -> None:
    """Return deliveries to their queues, or drop them."""
    _reject(channel, method.delivery_tag, method.multiple, method.requeue)


def reject(channel: ConsumingChannel, method: methods.BasicReject) -> None:
    """As ``nack``, for one delivery."""
    _reject(channel, method.delivery_tag, False, method.requeue)


def _reject(channel: ConsumingChannel, tag: int, multiple: bool, requeue: bool) -> None:
    if channel.transaction is not None:
        channel.transaction.settle(tag, multiple, RETURN if requeue else REJECT)
    elif requeue:
        channel.connection.charge(RETURN_UNITS * return_tag(channel.delivery, tag, multiple))
    else:
        channel.connection.charge(REJECT_UNITS * channel.delivery.reject(tag, multiple))


def recover(channel: ConsumingChannel, method: methods.BasicRecover | methods.BasicRecoverAsync) -> None:
    """Requeue everything the channel has unacknowledged."""
    if not method.requeue:
        raise NotImplementedByServer("requeue=false")
    delivery, connection = channel.delivery, channel.connection
    # What is due is delivered first, and is not among what comes back.
    last, before = delivery.next_tag - 1, delivery.outstanding
    due = due_of(all_to_return(channel, method))
    connection.in_slices(due.go_on)
    if isinstance(method, methods.BasicRecover):
        channel.reply_after_slices(methods.BasicRecoverOk())  # before what comes again
    transaction = channel.transaction
    if transaction is None:
        connection.in_slices(partial(return_slice, delivery, last))
    else:
        connection.in_slices(transaction.recover(last))
    connection.charge(due.spent + RETURN_UNITS * min(before, RETURN_SLICE))


def consumer_prefix(number: int, tag: str) -> bytes:
    """The octets of basic.deliver before the delivery tag, for consumer ``tag`` on channel ``number``."""
    name = tag.encode("utf-8", "surrogateescape")
    return b"%b\x00\x3c\x00\x3c%c%b" % (frame_header(FRAME_METHOD, number, 0), len(name), name)
