"""Whose turn it is: the consumers of one queue in a ring, and those that have to hear of its end.

The ring holds the consumers of the highest priority that may be ready. ``turn`` is the next of them. One that
is found not ready is parked: it leaves the ring until somebody calls ``unpark``, and costs nothing meanwhile.
When the ring is empty, that of the next lower priority takes its place. One client can have very many
consumers, each of another priority, so a heap finds it.

Of the consumers of a queue with a single active consumer only the active one has turns. When it leaves, the
one that came first of the others follows it.

How much of the time somebody takes what is ready is ``capacity``: a moving mean that forgets half in a
second, as RabbitMQ's ``consumer_capacity``. Times are added up, and the mean is made anew only every
``FOLD_US``.

Source: RabbitMQ, "Consumer Priorities", "Single Active Consumer" and "Consumer Capacity".
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from vhosts.queues.handle import Consumer

#: Consumers that hear in one turn of the loop that their queue is gone; some 10 µs each.
CANCEL_SLICE = 200
#: Priorities without a ring that may stay in the heap, beside as many as have one.
STALE_MAX = 64
#: When the mean of ``capacity`` has forgotten half, and how long times are added up for it, in µs.
HALF_US = 1_000_000
FOLD_US = 50_000

# C integers where compiled (see dispatch.pxd).
_STALE_MAX = STALE_MAX
_FOLD_US = FOLD_US


class Dispatch:
    """Consumers that take turns."""

    __slots__ = (
        "_blocked_from_us",
        "_blocked_us",
        "_folded_us",
        "_mean",
        "_order",
        "active",
        "exclusive",
        "is_blocked",
        "is_single",
        "leaving",
        "lower",
        "priority",
        "turn",
    )

    def __init__(self) -> None:
        #: The next consumer in the ring; None if the ring is empty.
        self.turn: Consumer | None = None
        #: The priority of all consumers in the ring.
        self.priority = 0
        #: The rings of lower priorities: whose turn it is in each.
        self.lower: dict[int, Consumer] = {}
        #: A heap of these priorities, negated, so that the highest comes first. Some may have no ring any
        #: more, and some may be there twice.
        self._order: list[int] = []
        #: Whether only one of the consumers gets messages, and which.
        self.is_single = False
        self.active: Consumer | None = None
        #: Whether the only consumer is an exclusive one.
        self.exclusive = False
        #: Consumers that were cancelled and have not heard of it.
        self.leaving: dict[Consumer, None] = {}
        #: Whether a message is ready, or was, that none of them could take; and since when.
        self.is_blocked = False
        self._blocked_from_us = 0
        #: When the mean was made, and how long it was so since then, without the present time.
        self._folded_us = 0
        self._blocked_us = 0
        self._mean = 1.0

    def block(self, now_us: int) -> None:
        """A message is ready, and it is nobody's turn."""
        if not self.is_blocked:
            self.is_blocked = True
            self._blocked_from_us = now_us
            if not 0 <= now_us - self._folded_us <= _FOLD_US:  # the clock may have been set back
                self._fold(now_us)

    def unblock(self, now_us: int) -> None:
        """It is somebody's turn again."""
        self.is_blocked = False
        self._blocked_us += now_us - self._blocked_from_us
        if now_us - self._folded_us > _FOLD_US:
            self._fold(now_us)

    def _fold(self, now_us: int) -> None:
        self._mean = _moved(self._mean, now_us - self._folded_us, self._blocked_us)
        self._folded_us = now_us
        self._blocked_us = 0

    def capacity(self, now_us: int) -> float:
        """The part of the time, of the last seconds most, in which somebody took what was ready."""
        blocked_us = self._blocked_us
        if self.is_blocked:
            blocked_us += now_us - self._blocked_from_us
        return _moved(self._mean, now_us - self._folded_us, blocked_us)

    def add(self, consumer: Consumer) -> None:
        """``consumer`` has come to the queue."""
        self.exclusive = consumer.exclusive
        if self.is_single:
            if self.active is not None:
                return  # it waits until the others are gone
            self.active = consumer
        self.link(consumer)

    def remove(self, consumer: Consumer, others: dict[Consumer, None]) -> None:
        """``consumer`` leaves the queue; of the ``others`` the first one may follow it."""
        self.unlink(consumer)
        consumer.parked = False
        if consumer is self.active:
            self.active = None
            if len(others) > 0:
                self.active = next(iter(others))
                self.link(self.active)

    def link(self, consumer: Consumer) -> None:
        """Let ``consumer`` have turns, as the last of its priority."""
        first = self.turn
        if first is not None and consumer.priority == self.priority:
            _join(consumer, first)
            return
        if first is not None and consumer.priority < self.priority:
            first = self.lower.get(consumer.priority)
            if first is not None:
                _join(consumer, first)
                return
            self._set_aside(consumer.priority, consumer)
        else:
            if first is not None:
                self._set_aside(self.priority, first)
            self.priority = consumer.priority
            self.turn = consumer
        consumer.following = consumer.previous = consumer

    def _set_aside(self, priority: int, first: Consumer) -> None:
        """The ring of ``first`` has a lower priority than others."""
        self.lower[priority] = first
        if len(self._order) > 2 * len(self.lower) + _STALE_MAX:
            self._order = [-each for each in self.lower]
            heapify(self._order)
        else:
            heappush(self._order, -priority)

    def _next_ring(self) -> None:
        """The ring is empty: that of the next lower priority takes its place."""
        self.turn = None
        while len(self.lower) > 0:
            priority = -heappop(self._order)
            first = self.lower.pop(priority, None)
            if first is not None:
                self.priority = priority
                self.turn = first
                return

    def unlink(self, consumer: Consumer) -> None:
        """Let ``consumer`` have no more turns."""
        following, previous = consumer.following, consumer.previous
        if following is None or previous is None:
            return
        if self.turn is consumer:
            if following is not consumer:
                self.turn = following
            else:
                self._next_ring()
        elif self.lower.get(consumer.priority) is consumer:
            if following is consumer:
                del self.lower[consumer.priority]
            else:
                self.lower[consumer.priority] = following
        following.previous = previous
        previous.following = following
        consumer.following = consumer.previous = None

    def park(self, consumer: Consumer) -> None:
        """``consumer`` is not ready: it has no turn until ``unpark``."""
        self.unlink(consumer)
        consumer.parked = True

    def unpark(self, consumer: Consumer) -> None:
        """``consumer`` may be ready again; its turn comes after those of all others."""
        if consumer.parked:
            consumer.parked = False
            self.link(consumer)

    def cancel(
        self, consumers: dict[Consumer, None], in_slices: Callable[[Callable[[], bool]], None]
    ) -> None:
        """Nobody gets anything from now on; very many consumers hear of it in slices."""
        self.leaving = consumers
        self.turn = self.active = None
        self.lower = {}
        self._order = []
        if len(consumers) <= CANCEL_SLICE:
            self.cancel_some()
        else:
            in_slices(self.cancel_some)

    def cancel_some(self) -> bool:
        """Tell some of the cancelled consumers; True if all have heard of it."""
        leaving = self.leaving
        left = CANCEL_SLICE
        while leaving and left > 0:
            left -= 1
            consumer = leaving.popitem()[0]
            self.unlink(consumer)
            consumer.parked = False
            consumer.cancelled()
        return not leaving


def _join(consumer: Consumer, first: Consumer) -> None:
    """Put ``consumer`` into the ring of ``first``, as the last whose turn comes."""
    last: Consumer = first.previous  # type: ignore[assignment]  # the ring has no end
    consumer.following = first
    consumer.previous = last
    last.following = consumer
    first.previous = consumer


def _moved(mean: float, passed_us: int, blocked_us: int) -> float:
    """The moving ``mean`` after so much time; none has passed if the clock was set back."""
    if passed_us <= 0:
        return mean
    weight: float = 0.5 ** (passed_us / HALF_US)
    return (1 - min(max(blocked_us / passed_us, 0), 1)) * (1 - weight) + mean * weight
