"""Counts that only grow, for metrics to sample; in the words of RabbitMQ's HTTP API.

Compiled: see ``counters.pxd``. Queues, exchanges and channels count the frequent events in integers of their
own. The classes here keep the sums that must outlive them.
"""

from __future__ import annotations


class ExchangeCounters:
    """What one exchange received, and what became of it.

    ``publish_in``, ``publish_out`` and ``unroutable`` count publishes to this exchange itself, the copies
    that queues got of them (by way of other exchanges too), and those that reached no queue. ``inner_in`` and
    ``inner_out`` count messages that other exchanges passed on to this one, by a binding or as their
    alternate exchange, and the bindings of this exchange that those messages matched.
    """

    __slots__ = ("inner_in", "inner_out", "publish_in", "publish_out", "unroutable")

    def __init__(self) -> None:
        self.publish_in = 0
        self.publish_out = 0
        self.unroutable = 0
        self.inner_in = 0
        self.inner_out = 0


#: Exchange and routing key pairs that ``RecentUnroutable`` remembers of a virtual host.
RECENT_UNROUTABLE_MAX = 128


class RecentUnroutable:
    """The exchange and routing key of the last publishes that reached no queue, each with its number.

    Bounded by `RECENT_UNROUTABLE_MAX` pairs, so that no client can make it grow.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        #: Number of messages by (exchange, routing key), the newest last.
        self._counts: dict[tuple[str, str], int] = {}

    def note(self, exchange: str, routing_key: str) -> None:
        """One more message reached no queue."""
        counts = self._counts
        pair = (exchange, routing_key)
        number = counts.pop(pair, 0)
        if number == 0 and len(counts) >= RECENT_UNROUTABLE_MAX:
            del counts[next(iter(counts))]
        counts[pair] = number + 1

    def of(self, exchange: str) -> list[tuple[str, int]]:
        """Routing key and number of messages of one exchange, the newest first."""
        return [(key, number) for (name, key), number in reversed(self._counts.items()) if name == exchange]


class MessageTotals:
    """What happened to messages on a channel, or on many."""

    __slots__ = (
        "ack",
        "confirm",
        "deliver",
        "deliver_no_ack",
        "drop_unroutable",
        "get",
        "get_empty",
        "get_no_ack",
        "publish",
        "publish_confirm",
        "redeliver",
        "return_unroutable",
    )

    def __init__(self) -> None:
        self.publish = 0
        self.confirm = 0
        #: Publishes on channels in confirm mode.
        self.publish_confirm = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        #: With acknowledgement, ``deliver_no_ack`` without; the same for ``get``.
        self.deliver = 0
        self.deliver_no_ack = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        self.redeliver = 0
        self.ack = 0

    def add(self, other: MessageTotals) -> None:
        """Add the counts of ``other``."""
        self.publish += other.publish
        self.confirm += other.confirm
        self.publish_confirm += other.publish_confirm
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.get_empty += other.get_empty
        self.redeliver += other.redeliver
        self.ack += other.ack


class Counters:
    """Counts of a virtual host since it was opened.

    They reveal a program that opens a channel or declares a queue for each request.
    """

    __slots__ = (
        "channel_closed",
        "channel_created",
        "closed",
        "queue_created",
        "queue_declared",
        "queue_deleted",
    )

    def __init__(self) -> None:
        #: Successful declarations, also of queues that existed already.
        self.queue_declared = 0
        self.queue_created = 0
        self.queue_deleted = 0
        self.channel_created = 0
        self.channel_closed = 0
        #: Counts of the channels that are closed.
        self.closed = MessageTotals()
