"""A channel, as its compiled parts know it.

Compiled: see ``listener.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable

from vhosts.exchanges.taps import Actor
from vhosts.queues.handle import Consumer


class ChannelListener:
    """What the parts of a channel call seldom; the channel overrides all of it.

    A class and not a protocol, so that the slots of compiled parts hold nothing else.
    """

    __slots__ = ()

    def actor(self) -> Actor:
        """Who publishes here and is delivered to."""
        raise AssertionError("a channel must say whose it is")

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``ports.Connection``."""
        raise AssertionError("a channel must give time for what takes long")

    def emit_confirms(self) -> None:
        """Write the acks and nacks that are due; called once per tick."""
        raise AssertionError("a channel must write its confirms")

    def credit_returned(self) -> None:
        """The channel has credit again, and had none: let all its queues deliver."""
        raise AssertionError("a channel must use its credit")

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue of ``consumer`` is deleted or failed."""
        raise AssertionError("a channel must hear of its consumers")

    def watch(self, owner: Consumer) -> None:
        """See that what ``owner`` takes is acknowledged in time, if there is a timeout."""
        raise AssertionError("a channel must heed timeouts")
