"""The methods that wait until a queue has delivered what is due.

Queues deliver at the end of a turn. But for every later method, a message published to a queue with a ready
consumer must count as delivered, as in RabbitMQ: ``basic.get`` must not take it from the consumer,
``queue.purge`` must not drop it, ``queue.declare`` must not count it, and ``basic.cancel`` must not hold it
back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqp_router.channel.declaring import queue_named
from amqp_router.protocol import methods
from vhosts.queues.handle import QueueHandle

if TYPE_CHECKING:
    from amqp_router.channel.channel import Channel


def queue_due(channel: Channel, method: methods.Method) -> QueueHandle | None:
    """The queue that ``method`` depends on, if it has consumers; None for other methods."""
    find = _QUEUES.get(type(method))
    queue = find(channel, method) if find is not None else None
    return queue if queue is not None and not queue.is_unused() else None


def _named(channel: Channel, method: Any) -> QueueHandle | None:
    return queue_named(channel, method.queue)


def _consumed(channel: Channel, method: methods.BasicCancel) -> QueueHandle | None:
    consumer = channel.consumers.get(method.consumer_tag)
    return consumer.queue if consumer is not None else None


_QUEUES: dict[type[methods.Method], Callable[[Channel, Any], QueueHandle | None]] = {
    methods.BasicGet: _named,
    methods.BasicConsume: _named,
    methods.BasicCancel: _consumed,
    methods.QueueDeclare: _named,
    methods.QueuePurge: _named,
    methods.QueueDelete: _named,
}
