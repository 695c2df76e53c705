"""A consumer on a channel: what its queue gives it becomes basic.deliver.

Source: AMQP 0-9-1, basic.consume and basic.deliver.
"""

from __future__ import annotations

from amqp_router.channel.tags import Tags
from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from amqp_router.protocol.shown import shown
from vhosts.queues.handle import Consumer, QueueHandle


class ChannelConsumer(Consumer):
    """A consumer on a channel; writes its deliveries into the channel's output."""

    __slots__ = ("counts", "delivery", "is_consumer", "limited", "prefix", "shows_count")

    def __init__(self) -> None:
        super().__init__()
        self.delivery: Tags
        #: Frame header and class, method and consumer tag of its basic.deliver.
        self.prefix = b""
        #: Whether ``credit`` is a prefetch limit.
        self.limited = False
        #: Whether its deliveries count against the channel's limit; those of basic.get do not.
        self.counts = True
        #: 0 for what stands for one basic.get.
        self.is_consumer = 1
        #: Whether its deliveries say how often they came back: those of a quorum queue do.
        self.shows_count = False

    def timeout_set(self) -> None:
        if self.delivery.listener is not None:  # else the channel is gone
            self.delivery.listener.watch(self)

    def deliver(self, message: Message) -> None:
        delivery = self.delivery
        if not self.no_ack:
            if self.limited:
                self.credit -= 1
            self.shared.available -= 1
        if not delivery.aside.holds or not delivery.aside.hold(self, message):
            self.give(message, message)

    def give(self, message: Message, shows: Message) -> None:
        """Deliver ``message``, for which credit has been used up, with the content of ``shows``."""
        delivery = self.delivery
        tag = delivery.next_tag
        if self.no_ack:
            delivery.skip_tag()
            delivery.deliver_no_ack_total += 1
        else:
            delivery.add(message, self)
            delivery.deliver_total += 1
        redelivered = 0
        if message.flags & flags.REDELIVERED:
            redelivered = 1
            delivery.redeliver_total += 1
        out = delivery.out
        out.buf.put_deliver(self.prefix, tag, redelivered, shows.route)
        if self.shows_count or shows.flags & flags.BLIND:
            shows = shown(shows, self.shows_count and message.delivery_count > 0)
        out.content(shows, delivery.number, delivery.body_payload_max)
        if not out.dirty or out.buf.size > 1048576:
            out.touch()
        if len(delivery.table.taps) > 0:
            delivery.tell_taps(self.queue.name, shows)

    def cancelled(self) -> None:
        if self.delivery.listener is not None:  # else the channel is gone, too
            self.delivery.listener.consumer_cancelled(self)


def getter(queue: QueueHandle, delivery: Tags) -> ChannelConsumer:
    """The owner of messages taken by ``basic.get``. No limit applies to it."""
    owner = ChannelConsumer()
    owner.queue = queue
    owner.delivery = delivery
    owner.counts = False
    owner.is_consumer = 0
    return owner
