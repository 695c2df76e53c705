"""Messages that one method or a closed channel returns, as they come back: consumer by consumer, as in
RabbitMQ.

Each queue gets back what one of the channel's consumers had of it, in the order of their tags, and delivers
before it gets back that of the next. What basic.get took comes first, one by one. More than ``RETURN_SLICE``
messages return together, because each consumer would need a pass of its own over all of them.

Source: RabbitMQ 3.10.8, observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.delivery import RETURN_SLICE, Delivery
from amqp_router.protocol.message import Message
from vhosts.queues.handle import QueueHandle

#: How messages return, see ``Delivery.requeue_taken``.
ALONE, BY_CONSUMER, TOGETHER, GATHERED = 0, 1, 2, 3
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
    last: ChannelConsumer | None = None
    left = ALL_DELIVER_UNITS
    for owner, message in _take_gathered(delivery):
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


def return_all(delivery: Delivery, limit: int) -> int:
    """Return what a channel has that is gone: each queue gets back all of it before it delivers any.

    Returns how many; if that is ``limit`` or more, this must be called again. A queue gets back what one
    consumer had after the other, as above, if there are no more than ``RETURN_SLICE`` messages in all. What
    basic.get took stands among them as if the delivery tag were the tag of a consumer, 10 before 9.
    """
    last = delivery.next_tag - 1
    if delivery.returning or delivery.outstanding > RETURN_SLICE:
        return delivery.requeue_some(last, limit, True)
    tags = _outstanding(delivery) if delivery.get_total > 0 else []
    done = delivery.requeue_up_to(last, RETURN_SLICE, GATHERED)
    taken = _take_gathered(delivery, tags)
    for owner, message in taken:
        delivery.requeue_taken(message, owner, TOGETHER)
    _end(delivery)
    return done


def _outstanding(delivery: Delivery) -> list[int]:
    """The tags that are out, lowest first."""
    tags = [
        block.tag_at(place)
        for block in delivery.older.blocks
        for place, message in enumerate(block.messages)
        if message is not None
    ]
    mask = len(delivery.messages) - 1
    ring = range(delivery.base, delivery.next_tag)
    return tags + [tag for tag in ring if delivery.messages[tag & mask] is not None]


def _take_gathered(delivery: Delivery, tags: Sequence[int] = ()) -> list[tuple[ChannelConsumer, Message]]:
    """What is gathered, in the order in which it returns; ``tags``: the channel is gone, and had these."""
    gathered = cast(list[tuple[ChannelConsumer, Message]], delivery.aside.gathered)
    if not gathered:
        return gathered
    delivery.aside.gathered = []
    first = gathered[0][0]
    if tags:
        places = [_text_place(owner, tag) for (owner, _), tag in zip(gathered, tags, strict=True)]
        return [gathered[index] for index in sorted(range(len(places)), key=places.__getitem__)]
    if any(owner is not first for owner, _ in gathered):
        gathered.sort(key=lambda taken: _place(taken[0]))  # those of one stay in the order of their tags
    return gathered


def _text_place(owner: ChannelConsumer, tag: int) -> tuple[bytes, bytes]:
    name, is_consumer, text = _place(owner)
    return name, text if is_consumer else b"%d" % tag


def _place(owner: ChannelConsumer) -> tuple[bytes, int, bytes]:
    """Where its messages come among those of others: RabbitMQ sorts numbers before texts."""
    name = owner.queue.name.encode("utf-8", "surrogateescape")
    return name, owner.is_consumer, owner.tag.encode("utf-8", "surrogateescape")


def _deliver(queue: QueueHandle, limit: int) -> int:
    return queue.deliver_due(limit) if limit > 0 and queue.has_due() else 0


def _end(delivery: Delivery) -> None:
    while delivery.returning:
        delivery.returning.popitem()[0].end_return()
