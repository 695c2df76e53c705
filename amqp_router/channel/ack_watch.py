"""Closes a channel whose client keeps a delivery for too long without an acknowledgement.

No delivery has a time or a timer of its own. A channel with a timeout looks at its delivery tags from time to
time, an eighth of its shortest timeout apart, and marks the next tag: what is outstanding below an old mark
is at least as old as that. So a channel closes up to a quarter, or twice ``PERIOD_US_MIN``, later than its
timeout says and never earlier. All channels wait behind the one timer of the node's queues.

Each delivery has the timeout of who took it: that of the consumer (argument ``x-consumer-timeout``) or of its
queue (the same argument, or the policy key ``consumer-timeout``), the shorter one if there are both.

Source: RabbitMQ, "Consumers", delivery acknowledgement timeout; the text as measured with 3.10.8.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.states import ChannelState
from amqp_router.protocol.errors import ChannelException, DeliveryTimeout
from vhosts.queues.handle import Consumer
from vhosts.queues.timers import QueueTimers, Timer

PERIOD_US_MIN = 100_000
#: Longest time between two looks, so that a timeout that becomes shorter is heeded soon.
PERIOD_US_MAX = 60_000_000
#: Marks that a channel keeps. Of older ones every second is given up.
MARKS_MAX = 64
#: Tags looked at in one turn of the event loop.
SCAN_SLICE = 4096


class Transacted(Protocol):
    """A transaction, as far as it acknowledges deliveries."""

    def is_settled(self, tag: int) -> bool:
        """Whether ``tag`` is acknowledged in the transaction."""


class WatchedConnection(Protocol):
    """The connection of a channel that is watched."""

    stopped: bool

    def close_channel(self, channel: WatchedChannel, error: ChannelException) -> None:
        """Close ``channel``, which no frame has caused."""


class WatchedChannel(Protocol):
    """A channel with timeouts."""

    number: int
    state: ChannelState
    consumers: dict[str, ChannelConsumer]

    @property
    def delivery(self) -> Delivery:
        """What is outstanding."""

    @property
    def transaction(self) -> Transacted | None:
        """What waits for tx.commit; what it acknowledges counts as acknowledged. None without one."""


class AckWatch:
    """Watches one channel from ``begin`` on until it has neither consumers nor anything outstanding."""

    __slots__ = (
        "_channel",
        "_connection",
        "_is_scanning",
        "_marks",
        "_period_us",
        "_shortest_us",
        "_timer",
        "_timers",
    )

    def __init__(self, channel: WatchedChannel, connection: WatchedConnection, timers: QueueTimers) -> None:
        self._channel = channel
        self._connection = connection
        self._timers = timers
        self._timer: Timer | None = None
        self._shortest_us = 0
        self._period_us = 0
        #: Whether a look goes on in later turns.
        self._is_scanning = False
        #: Times in µs, and the tag that was next then; the oldest first.
        self._marks: list[tuple[int, int]] = []

    def begin(self, timeout_ms: int) -> None:
        """Deliveries with this timeout may come, or are outstanding."""
        timeout_us = timeout_ms * 1000
        if self._shortest_us and timeout_us >= self._shortest_us:
            return  # the next look comes soon enough
        self._shortest_us = timeout_us
        self._period_us = min(max(timeout_us // 8, PERIOD_US_MIN), PERIOD_US_MAX)
        if not self._is_scanning:
            self.stop()
            self._sleep()

    def stop(self) -> None:
        """The channel closes."""
        if self._timer is not None:
            self._timers.cancel(self._timer)

    def timer_due(self, now_us: int) -> None:
        """Look at what is outstanding, and at the rest of it in later turns if that is much."""
        channel = self._channel
        delivery = channel.delivery
        if channel.state is not ChannelState.OPEN or self._connection.stopped:
            return
        if delivery.outstanding == 0:
            self._marks.clear()
            if not channel.consumers:
                self._shortest_us = 0
                return
        marks = self._marks
        marks.append((now_us, delivery.next_tag))
        if len(marks) > MARKS_MAX:
            self._marks = marks = marks[: -MARKS_MAX // 2 : 2] + marks[-MARKS_MAX // 2 :]
        end = tag_of_age(marks, now_us, self._shortest_us)
        if _lowest_tag(delivery) < end:
            self._is_scanning = True
            self._timers.in_slices(partial(self._scan, now_us, [0], end))
        else:
            self._sleep()

    def _sleep(self) -> None:
        self._timer = self._timers.set(self, self._timers.now_us() + self._period_us)

    def _scan(self, now_us: int, position: list[int], end: int) -> bool:
        """Look at a slice of the tags below ``end``; True when the channel closes or all are looked at."""
        channel = self._channel
        if channel.state is not ChannelState.OPEN or self._connection.stopped:
            return True
        owners, reached = owners_between(channel.delivery, position[0], end)
        transaction = channel.transaction
        #: By owner: the tag below which its deliveries are too old.
        limits: dict[ChannelConsumer, int] = {}
        for tag, owner in owners:
            limit = limits.get(owner)
            if limit is None:
                limit = 0
                timeout_ms = timeout_of(owner)
                if timeout_ms:
                    limit = tag_of_age(self._marks, now_us, timeout_ms * 1000)
                limits[owner] = limit
            if tag < limit and (transaction is None or not transaction.is_settled(tag)):
                self._connection.close_channel(channel, timed_out(channel.number, timeout_of(owner)))
                return True
        position[0] = reached
        if reached < end:
            return False
        self._is_scanning = False
        self._sleep()
        return True


def timeout_of(owner: Consumer) -> int:
    """The timeout of deliveries that ``owner`` took, in ms; 0 for none."""
    of_queue = owner.queue.ack_timeout_ms
    if owner.timeout_ms and of_queue:
        return min(owner.timeout_ms, of_queue)
    return owner.timeout_ms or of_queue


def timed_out(number: int, timeout_ms: int) -> DeliveryTimeout:
    """The error that closes channel ``number``."""
    return DeliveryTimeout(
        f"delivery acknowledgement on channel {number} timed out. Timeout value used: {timeout_ms} ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )


def tag_of_age(marks: list[tuple[int, int]], now_us: int, age_us: int) -> int:
    """What is outstanding below this tag was delivered at least ``age_us`` ago."""
    tag = 0
    for marked_us, next_tag in marks:
        if now_us - marked_us < age_us:
            break
        tag = next_tag
    return tag


def _lowest_tag(delivery: Delivery) -> int:
    """No outstanding tag is lower."""
    if delivery.older.count:
        block = delivery.older.blocks[0]
        return block.tag_at(block.find_lowest())
    return delivery.base


def owners_between(delivery: Delivery, start: int, end: int) -> tuple[list[tuple[int, ChannelConsumer]], int]:
    """Tags and owners of what is outstanding from ``start`` on, below ``end`` or a tag that is returned."""
    for block in delivery.older.blocks:
        if start <= block.tag_at(len(block.messages) - 1):
            found = [(block.tag_at(place), owner) for place, owner in enumerate(block.owners)]
            last = block.tag_at(len(block.messages) - 1) + 1
            taken = [(tag, owner) for tag, owner in found if isinstance(owner, ChannelConsumer)]
            return [(tag, owner) for tag, owner in taken if start <= tag < end], min(last, end)
    start = max(start, delivery.base)
    stop = min(start + SCAN_SLICE, end)
    mask = len(delivery.owners) - 1
    ring = [(tag, delivery.owners[tag & mask]) for tag in range(start, stop)]
    return [(tag, owner) for tag, owner in ring if owner is not None], max(stop, min(start, end))
