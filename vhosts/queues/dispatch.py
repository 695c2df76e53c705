"""Whose turn it is: the consumers of one queue in a ring, and those that have to hear of its end.

The ring holds the consumers that may be ready. ``turn`` is the next of them. One that is found not ready is
parked: it leaves the ring until somebody calls ``unpark``, and costs nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from vhosts.queues.consumers import Consumer

#: Consumers that hear in one turn of the loop that their queue is gone; some 2.5 µs each.
CANCEL_SLICE = 500


class Dispatch:
    """Consumers that take turns."""

    __slots__ = ("exclusive", "leaving", "turn")

    def __init__(self) -> None:
        #: The next consumer in the ring; None if the ring is empty.
        self.turn: Consumer | None = None
        #: Whether the only consumer is an exclusive one.
        self.exclusive = False
        #: Consumers that were cancelled and have not heard of it.
        self.leaving: dict[Consumer, None] = {}

    def link(self, consumer: Consumer) -> None:
        """Put ``consumer`` into the ring, as the last whose turn comes."""
        first = self.turn
        if first is None:
            self.turn = consumer.following = consumer.previous = consumer
            return
        last: Consumer = first.previous  # type: ignore[assignment]  # the ring has no end
        consumer.following = first
        consumer.previous = last
        last.following = consumer
        first.previous = consumer

    def unlink(self, consumer: Consumer) -> None:
        """Take ``consumer`` out of the ring, if it is in it."""
        following, previous = consumer.following, consumer.previous
        if following is None or previous is None:
            return
        if self.turn is consumer:
            self.turn = following if following is not consumer else None
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

    def remove(self, consumer: Consumer) -> None:
        """``consumer`` leaves the queue."""
        self.unlink(consumer)
        consumer.parked = False

    def cancel(
        self, consumers: dict[Consumer, None], in_slices: Callable[[Callable[[], bool]], None]
    ) -> None:
        """Nobody gets anything from now on; very many consumers hear of it in slices."""
        self.leaving = consumers
        self.turn = None
        if not self.cancel_some():
            in_slices(self.cancel_some)

    def cancel_some(self) -> bool:
        """Tell some of the cancelled consumers; True if all have heard of it."""
        leaving = self.leaving
        left = CANCEL_SLICE
        while leaving and left > 0:
            left -= 1
            consumer = leaving.popitem()[0]
            self.remove(consumer)
            consumer.cancelled()
        return not leaving
