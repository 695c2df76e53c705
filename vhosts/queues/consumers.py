"""What a queue needs of a consumer: how much it may take, and a way to hand it a message.

The channel's consumer is a subclass (``amqp_router.channel.delivery.ChannelConsumer``).
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.message import Message
from amqp_router.protocol.output import Output

#: Credit of a consumer without a prefetch limit.
UNLIMITED = 1 << 40


class Credit:
    """Deliveries still allowed; shared by the consumers of a channel under ``basic.qos`` global."""

    __slots__ = ("available", "limit")

    def __init__(self) -> None:
        #: 0 lifts the limit.
        self.limit = 0
        #: May be negative after the limit was lowered below what is out.
        self.available = UNLIMITED

    def change(self, limit: int, outstanding: int) -> None:
        """Set another limit while ``outstanding`` deliveries count against it."""
        self.limit = limit
        self.available = limit - outstanding if limit else UNLIMITED


class Consumer:
    """One ``basic.consume`` on one queue."""

    __slots__ = (
        "arguments",
        "credit",
        "exclusive",
        "no_ack",
        "output",
        "queue",
        "shared",
        "tag",
        "unacked",
    )

    def __init__(self) -> None:
        self.tag = ""
        self.no_ack = False
        self.exclusive = False
        self.arguments: dict[str, Any] = {}
        self.queue: Any = None
        #: Deliveries this consumer may still get; its own prefetch.
        self.credit = UNLIMITED
        #: The channel's common limit, or None.
        self.shared: Credit | None = None
        #: Where its deliveries are written; no delivery while it is full.
        self.output: Output
        #: Deliveries out and not settled.
        self.unacked = 0

    def ready(self) -> bool:
        """Whether it may get a message now."""
        if self.output.full:
            return False
        if self.no_ack:
            return True
        if self.credit <= 0:
            return False
        return self.shared is None or self.shared.available > 0

    def deliver(self, message: Message) -> None:
        """Take one message; credit is taken here too."""
        raise AssertionError("a consumer must say how it delivers")

    def cancelled(self) -> None:
        """The queue is gone or cannot serve; the consumer is no longer on it."""
        raise AssertionError("a consumer must hear of its end")
