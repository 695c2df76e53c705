"""One channel's delivery side with its queues and its wire, for the tests of tags and deliveries."""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.consuming import consumer_prefix
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.listener import ChannelListener
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.output import Output
from tests.nodes import Received, decode
from tests.vhosts.queues.local import message, new_tick, transient_queue
from vhosts.queues.handle import UNLIMITED, Credit
from vhosts.queues.queue import Queue


class Listener(ChannelListener):
    """The channel, as far as the ring knows it."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.consumers: list[ChannelConsumer] = []

    def consumer_cancelled(self, consumer: ChannelConsumer) -> None:
        self.cancelled.append(consumer.tag)

    def credit_returned(self) -> None:
        for consumer in self.consumers:
            consumer.wake()

    def in_slices(self, step: Callable[[], bool]) -> None:
        while not step():
            pass


class Channel:
    """One channel's delivery side, its queues and its wire."""

    def __init__(self) -> None:
        self.tick = new_tick()
        self.listener = Listener()
        self.delivery = Delivery()
        self.delivery.number = 3
        self.delivery.body_payload_max = 4088
        self.delivery.out = Output()
        self.delivery.listener = self.listener
        self.wire = b""

    def queue(self, name: str = "q", count: int = 0) -> Queue:
        queue = transient_queue(name, tick=self.tick)
        for number in range(count):
            queue.publish(message(f"{name}{number}"))
        return queue

    def consume(
        self,
        queue: Queue,
        tag: str = "t",
        *,
        prefetch: int = 0,
        no_ack: bool = False,
        shared: Credit | None = None,
    ) -> ChannelConsumer:
        consumer = ChannelConsumer()
        consumer.tag = tag
        consumer.queue = queue
        consumer.no_ack = no_ack
        consumer.delivery = self.delivery
        consumer.output = self.delivery.out
        consumer.prefix = consumer_prefix(3, tag)
        consumer.limited = prefetch > 0
        consumer.credit = prefetch or UNLIMITED
        if shared is not None:
            consumer.shared = shared
        queue.add_consumer(consumer)
        self.listener.consumers.append(consumer)
        return consumer

    def received(self) -> list[Received]:
        while piece := self.delivery.out.next_piece():
            self.wire += piece
        found, _ = decode(self.wire, 4096)
        self.wire = b""
        return found

    def texts(self) -> list[tuple[int, str, bool]]:
        """Tag, body and redelivered flag of each delivery since the last look."""
        found = []
        for channel, method, _, body in self.received():
            assert channel == 3
            assert isinstance(method, m.BasicDeliver)
            found.append((method.delivery_tag, body.decode(), method.redelivered))
        return found


def is_outstanding(delivery: Delivery, tag: int) -> bool:
    try:
        delivery.check(tag, False)
    except PreconditionFailed:
        return False
    return True
