"""The consumer as a queue sees it: how much it may take, and how to hand it a message.

The channel's consumer is a subclass (``amqp_router.channel.delivery.ChannelConsumer``).
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.message import Message
from amqp_router.protocol.output import Output

#: Credit of a consumer without a prefetch limit.
UNLIMITED = 1 << 40


class Credit:
    """Number of deliveries that a channel may still get; its consumers share it (``basic.qos`` global).

    Unsettled deliveries are counted also while there is no limit, so that a limit can be set without counting
    them.
    """

    __slots__ = ("available", "limit")

    def __init__(self) -> None:
        #: 0 is no limit.
        self.limit = 0
        #: Negative if the limit was lowered below the number of unsettled deliveries.
        self.available = UNLIMITED

    def change(self, limit: int) -> None:
        """Set another limit of unsettled deliveries; 0 lifts it."""
        self.available += (limit or UNLIMITED) - (self.limit or UNLIMITED)
        self.limit = limit

    def stop(self) -> None:
        """Stop all deliveries to the channel for good, whatever is settled later."""
        self.available -= 2 * UNLIMITED


class Consumer:
    """One ``basic.consume`` on one queue."""

    __slots__ = (
        "arguments",
        "credit",
        "exclusive",
        "following",
        "no_ack",
        "output",
        "parked",
        "previous",
        "priority",
        "queue",
        "shared",
        "tag",
        "unacked",
    )

    def __init__(self) -> None:
        self.tag = ""
        self.no_ack = False
        self.exclusive = False
        #: One of a higher priority gets messages first.
        self.priority = 0
        self.arguments: Arguments = {}
        self.queue: Any = None
        #: Deliveries that this consumer may still get by its own prefetch limit.
        self.credit = UNLIMITED
        #: Deliveries that the channel may still get.
        self.shared = Credit()
        #: Output for its deliveries; while it is full, nothing is delivered.
        self.output: Output
        #: Number of unsettled deliveries.
        self.unacked = 0
        #: Its neighbours in the queue's ring of consumers whose turn may come.
        self.following: Consumer | None = None
        self.previous: Consumer | None = None
        #: Whether the queue took it out of the ring because it was not ready when its turn came.
        self.parked = False

    def ready(self) -> bool:
        """Whether the consumer may get a message now."""
        # A consumer without acknowledgements uses up no credit, but waits for the channel's, as in RabbitMQ.
        if self.output.full or self.shared.available <= 0:
            return False
        return self.no_ack or self.credit > 0

    def wake(self) -> None:
        """Tell the queue that the consumer may be ready again. Call this whenever an obstacle has gone."""
        self.queue.wake(self)

    def deliver(self, message: Message) -> None:
        """Take one message and use up credit for it."""
        raise AssertionError("a consumer must say how it delivers")

    def cancelled(self) -> None:
        """The queue is deleted or failed, and has removed the consumer."""
        raise AssertionError("a consumer must hear of its end")
