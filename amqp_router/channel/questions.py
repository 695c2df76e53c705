"""basic.consume and cancel, queue.declare, purge and delete: methods that a queue's leader answers.

``asking`` has the question, what becomes of its answer, and basic.get.

Source: AMQP 0-9-1, classes queue (50) and basic (60).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from amqp_router.channel.asking import DELETE, PURGE, Asking, AskingChannel, get_message
from amqp_router.channel.consuming import consume_replies, new_consumer
from amqp_router.channel.declaring import queue_name, queue_named
from amqp_router.protocol import methods
from amqp_router.protocol.errors import InternalError
from amqp_router.protocol.methods import Method
from vhosts import declarations
from vhosts.declarations import stripped
from vhosts.direct_reply import is_reply_name
from vhosts.errors import not_found
from vhosts.publishing.checks import DIRECT_REPLY


def declare_queue(channel: AskingChannel, method: methods.QueueDeclare) -> None:
    """Answer queue.declare, and remember the queue as the channel's last one."""
    name = stripped(method.queue)
    if is_reply_name(name):
        if name not in channel.vhost.replies:
            raise not_found("queue", name, channel.vhost.name)
        if name.encode() == channel.publishing.reply_to:
            raise InternalError("")  # as RabbitMQ, whose channel would wait for its own answer
        channel.last_queue = name
        channel.reply(None if method.nowait else methods.QueueDeclareOk(name, 0, 1), 0)
        return
    if method.passive:
        queue = declarations.find_queue(channel, method.queue)
        rev = queue.definition_rev
    else:
        queue, rev = declarations.declare_queue(
            channel,
            method.queue,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=method.arguments,
        )
    channel.last_queue = queue.name
    if method.nowait:
        channel.reply(None, rev)
        return
    _asking(channel).count(queue, rev)


def purge_queue(channel: AskingChannel, method: methods.QueuePurge) -> None:
    """Answer queue.purge."""
    asking = _asking(channel)
    name = queue_name(channel, method.queue)
    purge = partial(declarations.purge_queue, channel, name, asking)
    asking.ask(queue_named(channel, method.queue), PURGE, method.nowait, purge)


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
    asking.ask(queue, DELETE, method.nowait, delete)


def consume(channel: AskingChannel, method: methods.BasicConsume) -> None:
    """Start a consumer."""
    name = queue_name(channel, method.queue)
    if name == DIRECT_REPLY:
        consume_replies(channel, method)
    else:
        consumer = new_consumer(channel, method, name)
        _asking(channel).consume(consumer, method.nowait)


def cancel(channel: AskingChannel, method: methods.BasicCancel) -> None:
    """Stop a consumer; an unknown tag is no error. Its unacknowledged messages stay with the channel."""
    consumer = channel.consumers.pop(method.consumer_tag, None)
    if consumer is None:
        channel.reply(None if method.nowait else methods.BasicCancelOk(method.consumer_tag), 0)
    else:
        _asking(channel).cancel(consumer, method.nowait)


def _asking(channel: AskingChannel) -> Asking:
    asking = channel.asking
    if asking is None:
        asking = channel.asking = Asking(channel)
    return asking


METHODS: dict[type[Method], Callable[[AskingChannel, Any], None]] = {  # each takes its own method
    methods.BasicGet: get_message,
    methods.BasicConsume: consume,
    methods.BasicCancel: cancel,
    methods.QueueDeclare: declare_queue,
    methods.QueuePurge: purge_queue,
    methods.QueueDelete: delete_queue,
}
