"""What a publisher needs of the one it publishes for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from amqp_router.protocol.message import Message
from vhosts.queues.handle import Run


class Listener(Protocol):
    """Whoever publishes: a channel, a request, a queue with dead letters."""

    def published(self, number: int, outcome: int, message: Message) -> None:
        """The publish of that number, which was on its way (``Outcome.LATER``), has this outcome."""

    def run_done(self, run: Run) -> None:
        """The publishes ``run.first`` to ``run.last`` are safe, or (``run.failed``) will never be.

        Both are 0 if the publishes have no numbers. ``run.bytes`` counts the octets of their bodies.
        """

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step`` once in each later turn of the event loop until it returns True.

        The listener publishes nothing else meanwhile if its messages must keep their order.
        """


class Flow(Protocol):
    """Pauses whoever publishes."""

    #: Octets above which it pauses.
    limit: int

    def add(self, size: int) -> None:
        """So many more octets wait."""

    def remove(self, size: int) -> None:
        """So many octets wait no more."""
