"""What a queue needs of a consumer: how much it may take, and a way to hand it a message.

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
    """Deliveries that a channel may still get; shared by its consumers (``basic.qos`` global).

    It counts what is out also while there is no limit, so that setting one does not have to count.
    """

    __slots__ = ("available", "limit")

    def __init__(self) -> None:
        #: 0 is no limit.
        self.limit = 0
        #: May be negative after the limit was lowered below what is out.
        self.available = UNLIMITED

    def change(self, limit: int) -> None:
        """Set another limit for what is out; 0 lifts it."""
        self.available += (limit or UNLIMITED) - (self.limit or UNLIMITED)
        self.limit = limit

    def stop(self) -> None:
        """No consumer of the channel gets anything any more, whatever comes back."""
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
        "queue",
        "shared",
        "tag",
        "unacked",
    )

    def __init__(self) -> None:
        self.tag = ""
        self.no_ack = False
        self.exclusive = False
        self.arguments: Arguments = {}
        self.queue: Any = None
        #: Deliveries this consumer may still get; its own prefetch.
        self.credit = UNLIMITED
        #: What the channel may still get.
        self.shared = Credit()
        #: Where its deliveries are written; no delivery while it is full.
        self.output: Output
        #: Deliveries out and not settled.
        self.unacked = 0
        #: Its neighbours in the ring of those whose turn may come, kept by the queue.
        self.following: Consumer | None = None
        self.previous: Consumer | None = None
        #: Whether the queue took it out of the ring, as it was not ready when its turn came.
        self.parked = False

    def ready(self) -> bool:
        """Whether it may get a message now."""
        # A consumer without acknowledgements uses up no credit, but waits for the channel's, as in RabbitMQ.
        if self.output.full or self.shared.available <= 0:
            return False
        return self.no_ack or self.credit > 0

    def wake(self) -> None:
        """It may be ready again: it must be called whenever something has ended that kept it from it."""
        self.queue.wake(self)

    def deliver(self, message: Message) -> None:
        """Take one message; credit is taken here too."""
        raise AssertionError("a consumer must say how it delivers")

    def cancelled(self) -> None:
        """The queue is gone or cannot serve; the consumer is no longer on it."""
        raise AssertionError("a consumer must hear of its end")
