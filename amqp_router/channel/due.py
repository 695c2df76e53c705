"""The methods that wait until queues have delivered what is due.

Queues deliver at the end of a turn. But for every later method, a message published to a queue with a ready
consumer must count as delivered, as in RabbitMQ: ``basic.get`` must not take it from the consumer,
``queue.purge`` must not drop it, ``queue.declare`` must not count it, ``basic.cancel`` and a limit by
``basic.qos`` must not hold it back, and an older message that ``basic.nack`` returns comes after it.

``basic.ack`` does not wait, nor does a reject without requeue. They change only which of two consumers gets
the message, which AMQP leaves open, and waiting would make each acknowledgement slower. ``basic.recover``
lets queues deliver by itself (``consuming.recover``).

Those that look into a queue or return messages (``HOLDS_BACK``) are answered before the channel writes what
is delivered to it so, and cannot mean it (``aside``).

Source: RabbitMQ 3.10.8, observed: publish and method on one channel, in one write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.declaring import queue_named
from amqp_router.channel.ports import ConsumingChannel
from amqp_router.protocol import methods
from vhosts.queues.handle import QueueHandle

#: Deliveries per turn of the loop that a method waits for.
DUE_SLICE = 512
#: Owners of deliveries looked at, to the power of 2, that cost as much as an enqueue; and how many in a turn.
LOOKS_SHIFT = 2
LOOK_SLICE = 2048
_NONE: Sequence[QueueHandle] = ()


class Due:
    """What a method waits for: deliveries of ``queues``, in as many turns as they take.

    No more of a queue than is there now, or publishers elsewhere could keep the method waiting for ever. Who
    looks at what is ready (``whole``) also waits until messages that return in slices are all back.
    ``owners`` are looked at first, some in each turn: their queues are meant if they have new messages.
    """

    def __init__(
        self,
        queues: Sequence[QueueHandle],
        *,
        whole: bool = False,
        owners: Sequence[ChannelConsumer] = (),
    ) -> None:
        #: Units that the last turn has used.
        self.spent = 0
        self._queues = list(queues)
        self._owners = list(owners)
        self._found: dict[QueueHandle, None] = {}
        self._whole = whole
        #: Messages that may still leave the last queue; None before its first turn.
        self._left: int | None = None

    def go_on(self) -> bool:
        """Deliver a slice; True when nothing is left to wait for."""
        self.spent = 0
        if self._owners and not self._look():
            return False
        queues = self._queues
        while queues:
            if self.spent >= DUE_SLICE:
                return False
            queue = queues[-1]
            if self._left is None:
                self._left = queue.message_count() + queue.unacked_count
            budget = DUE_SLICE - self.spent
            count = queue.message_count()
            done = queue.deliver_due(budget)
            self.spent += done + 1
            if self._whole and queue.is_returning():
                return False  # no more come back so than were out when that began
            self._left -= max(count - queue.message_count(), 1)
            if self._left > 0 and done >= budget:
                continue
            queues.pop()
            self._left = None
        return True

    def _look(self) -> bool:
        """Look at some of the owners; True if all have been looked at."""
        owners, found = self._owners, self._found
        count = min(len(owners), LOOK_SLICE)
        for _ in range(count):
            queue = owners.pop().queue
            if queue not in found and queue.has_due():
                found[queue] = None
        self.spent += count >> LOOKS_SHIFT
        if owners:
            return False
        self._queues += found
        return True


def due_before(channel: ConsumingChannel, method: methods.Method) -> Due | None:
    """What must be delivered before ``method``; None if that is nothing."""
    kind = type(method)
    find = _QUEUES.get(kind)
    found = _NONE if find is None else find(channel, method)
    return due_of(found, whole=kind in _LOOKING) if found else None


def due_of(found: Sequence[QueueHandle] | Due, *, whole: bool = False) -> Due:
    """What ``all_to_return`` has found."""
    return found if isinstance(found, Due) else Due(found, whole=whole)


def _looked_into(channel: ConsumingChannel, method: Any) -> Sequence[QueueHandle]:  # any with a ``queue``
    queue = queue_named(channel, method.queue)
    return (queue,) if queue is not None and queue.has_due() else _NONE


def _to_consume(channel: ConsumingChannel, method: methods.BasicConsume) -> Sequence[QueueHandle]:
    queue = queue_named(channel, method.queue)
    return _NONE if queue is None or queue.is_unused() else (queue,)


def _consumed(channel: ConsumingChannel, method: methods.BasicCancel) -> Sequence[QueueHandle]:
    consumer = channel.consumers.get(method.consumer_tag)
    return (consumer.queue,) if consumer is not None and consumer.queue.has_due() else _NONE


def _returned(
    channel: ConsumingChannel, method: methods.BasicNack | methods.BasicReject
) -> Sequence[QueueHandle] | Due:
    if not method.requeue:
        return _NONE
    if isinstance(method, methods.BasicNack) and method.multiple:
        return all_to_return(channel, method)
    owner = channel.delivery.owner_of(method.delivery_tag)
    if owner is None:  # an old delivery
        return all_to_return(channel, method)
    return (owner.queue,) if owner.queue.has_due() else _NONE


def _limited(channel: ConsumingChannel, method: methods.BasicQos) -> Sequence[QueueHandle] | Due:
    return all_of(channel, method) if method.is_global else _NONE


def all_of(channel: ConsumingChannel, method: methods.Method) -> Sequence[QueueHandle] | Due:
    """The queues from which the channel gets messages, as far as there are new ones."""
    if not channel.connection.tick.scheduled:
        return _NONE
    return all_to_return(channel, method)


def all_to_return(channel: ConsumingChannel, method: methods.Method) -> Sequence[QueueHandle] | Due:
    """As ``all_of``, also if nothing is on the agenda: the timer that tells of what is over may be late."""
    owners = [*channel.consumers.values(), *channel.getters.values()]
    channel.connection.charge(len(owners) >> LOOKS_SHIFT)
    if len(owners) > LOOK_SLICE:
        return Due(_NONE, owners=owners)
    queues = {owner.queue: None for owner in owners}
    return [queue for queue in queues if queue.has_due()]


#: Methods that see what is ready.
_LOOKING = frozenset((methods.BasicGet, methods.QueueDeclare, methods.QueuePurge, methods.QueueDelete))
#: Methods before which the channel's own deliveries are held back, and those that these must precede.
HOLDS_BACK = frozenset(
    (
        methods.BasicGet,
        methods.QueueDeclare,
        methods.QueuePurge,
        methods.BasicNack,
        methods.BasicReject,
    )
)
FIRST_GIVES = frozenset(
    (
        methods.BasicConsume,
        methods.BasicCancel,
        methods.QueueDelete,
        methods.ChannelClose,
        methods.TxSelect,
        methods.TxCommit,
        methods.TxRollback,
    )
)
# Each takes its own method.
_QUEUES: dict[type[methods.Method], Callable[[ConsumingChannel, Any], Sequence[QueueHandle] | Due]] = {
    methods.BasicGet: _looked_into,
    methods.BasicConsume: _to_consume,
    methods.BasicCancel: _consumed,
    methods.BasicNack: _returned,
    methods.BasicReject: _returned,
    methods.BasicQos: _limited,
    methods.QueueDeclare: _looked_into,
    methods.QueuePurge: _looked_into,
    methods.QueueDelete: _looked_into,
    methods.ChannelClose: all_to_return,
    methods.TxCommit: all_of,
}
