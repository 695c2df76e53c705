"""Messages that one method returns, as they come back: consumer by consumer, as in RabbitMQ.

Each queue gets back what one of the channel's consumers had of it, in the order of their tags, and delivers
before it gets back that of the next. What basic.get took comes first, one by one. More than ``RETURN_SLICE``
messages return together, because each consumer would need a pass of its own over all of them.

Source: RabbitMQ 3.10.8, observed.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.delivery import RETURN_SLICE, Delivery
from amqp_router.protocol.message import Message
from vhosts.queues.handle import QueueHandle

#: How messages return, see ``Delivery.requeue_taken``.
ALONE, BY_CONSUMER, GATHERED = 0, 1, 3
#: Units that a queue may deliver between two consumers' returns, and that all may together. What they return
#: comes to less; a queue may have more only if others have kept it waiting.
DELIVER_UNITS = 1024
ALL_DELIVER_UNITS = 4096


def return_tag(delivery: Delivery, tag: int, multiple: bool) -> int:
    """Return ``tag``, or all up to it (all outstanding ones if it is 0), to the queues; returns how many.

    Very many are returned in slices (``listener.in_slices``), as ``Delivery.ack`` does.

    Raises:
        PreconditionFailed: the tag is not outstanding on this channel (406).
    """
    if not multiple:
        return delivery.requeue(tag, ALONE)
    delivery.check(tag, True)
    last = delivery.next_tag - 1 if tag == 0 else tag
    before = delivery.outstanding
    if before <= RETURN_SLICE or (delivery.older.count == 0 and last < delivery.base + RETURN_SLICE):
        count = delivery.requeue_up_to(last, 2 * RETURN_SLICE, GATHERED)
        return_gathered(delivery)
        return count
    assert delivery.listener is not None
    delivery.listener.in_slices(partial(delivery.requeue_slice, last))
    return before - delivery.outstanding


def return_gathered(delivery: Delivery) -> None:
    """Return what ``delivery`` has gathered."""
    gathered = cast(list[tuple[ChannelConsumer, Message]], delivery.aside.gathered)
    if not gathered:
        return
    delivery.aside.gathered = []
    first = gathered[0][0]
    if any(owner is not first for owner, _ in gathered):
        gathered.sort(key=lambda taken: (*_place(taken[0]), taken[1].offset))
    last: ChannelConsumer | None = None
    left = ALL_DELIVER_UNITS
    for owner, message in gathered:
        if owner is not last or not owner.is_consumer:
            _end(delivery)
            left -= _deliver(owner.queue, min(left, DELIVER_UNITS))
            last = owner
        delivery.requeue_taken(message, owner, BY_CONSUMER)
    _end(delivery)


def return_slice(delivery: Delivery, last: int) -> bool:
    """A step of ``in_slices``: return what is out up to ``last``; True at the end."""
    if delivery.returning or delivery.outstanding > RETURN_SLICE:
        return delivery.requeue_slice(last)
    delivery.requeue_up_to(last, RETURN_SLICE, GATHERED)
    return_gathered(delivery)
    return True


def _place(owner: ChannelConsumer) -> tuple[bytes, int, bytes]:
    """Where its messages come among those of others: RabbitMQ sorts numbers before texts."""
    name = owner.queue.name.encode("utf-8", "surrogateescape")
    return name, owner.is_consumer, owner.tag.encode("utf-8", "surrogateescape")


def _deliver(queue: QueueHandle, limit: int) -> int:
    return queue.deliver_due(limit) if limit > 0 and queue.has_due() else 0


def _end(delivery: Delivery) -> None:
    while delivery.returning:
        delivery.returning.popitem()[0].end_return()
