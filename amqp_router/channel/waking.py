"""Wakes the consumers of one channel when it may get messages again, very many of them in slices.

A queue takes a consumer that is not ready out of its ring, and puts it back when it is woken. A client can
have hundreds of thousands of consumers on one channel that share a limit of one message. So the walk stops
where the limit is used up again, and the next one goes on from there. Of more than ``WAKE_SLICE`` consumers,
one of a low priority may therefore get a message although one of a higher priority of the channel sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.delivery import Delivery
from vhosts.queues.handle import Consumer, Credit

#: Consumers woken in one turn of the event loop, some 1 µs each.
WAKE_SLICE = 1000
#: Consumers woken that cost as much as an enqueue.
WAKES_PER_UNIT = 4


class WakingConnection(Protocol):
    """The connection as this module needs it; see ``ports.Connection``."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` until it returns True, before the connection's next frame."""

    def charge(self, units: int) -> None:
        """The chunk has caused so much work."""


class WakingChannel(Protocol):
    """The channel whose consumers are woken."""

    consumers: dict[str, ChannelConsumer]
    shared: Credit
    delivery: Delivery

    @property
    def connection(self) -> WakingConnection:
        """What the channels of the connection share."""


class Waking:
    """How far the consumers of a channel, which each method is given, have been woken."""

    __slots__ = ("_again", "_asleep", "_first", "_runs", "replies_to")

    def __init__(self) -> None:
        #: The consumer of direct reply-to, which no limit of the channel applies to.
        self.replies_to: Consumer | None = None
        #: Index of the consumer that was woken first the last time.
        self._first = 0
        #: Those that the present walk has not reached. A copy of the consumers would take 20 ms to make.
        self._asleep: Iterator[ChannelConsumer] | None = None
        #: Whether there was another reason to wake all after the present walk had begun.
        self._again = False
        #: Whether slices are under way.
        self._runs = False

    def wake(self, channel: WakingChannel) -> int:
        """Let all queues of ``channel`` deliver; returns how many consumers were woken in this call.

        Each call begins with another queue, because the first one may use up all the credit.
        """
        if len(channel.consumers) > WAKE_SLICE:
            self._begin(channel)
            return WAKE_SLICE
        consumers = list(channel.consumers.values())
        self._first = first = (self._first + 1) % max(1, len(consumers))
        for consumer in consumers[first:] + consumers[:first]:
            consumer.wake()
        channel.connection.charge(len(consumers) // WAKES_PER_UNIT)
        return len(consumers)

    def _begin(self, channel: WakingChannel) -> None:
        if self.replies_to is not None:
            self.replies_to.wake()
        self._again = True
        if not self._runs:
            self._runs = True
            channel.connection.in_slices(partial(self._wake_some, channel))

    def _wake_some(self, channel: WakingChannel) -> bool:
        """A slice; True when all have been woken, or none of them could get anything."""
        left = WAKE_SLICE
        while channel.shared.available > 0 and not channel.delivery.out.full:
            if self._asleep is None:
                if not self._again:
                    break
                self._again = False
                self._asleep = iter(channel.consumers.values())
            try:
                for consumer in self._asleep:
                    consumer.wake()
                    left -= 1
                    if left == 0:
                        return False
            except RuntimeError:  # consumers came or went since the last slice
                self._again = True
            self._asleep = None
        self._runs = False
        return True

    def stop(self) -> None:
        """The channel ends: nobody is woken any more."""
        self._asleep = None
        self._again = False
        self.replies_to = None
