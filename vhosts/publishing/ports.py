"""What a publisher must be told, and whom it may be paused by.

A queue and a publisher share these; so they stand below both.

Compiled: see ``ports.pxd``. These are classes and not protocols because compiled code calls them for every
publish, which costs a look-up by name on any other object.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.message import Message


class Listener:
    """Whoever publishes: a channel, a request, a queue with dead letters. A subclass overrides all of it."""

    __slots__ = ()

    def published(self, number: int, outcome: int, message: Message) -> None:
        """The publish of that number, which was on its way (``Outcome.LATER``), has this outcome."""
        raise AssertionError("a publisher must hear what became of its publishes")

    def run_done(self, run: Run) -> None:
        """The publishes ``run.first`` to ``run.last`` are safe, or (``run.failed``) will never be.

        Both are 0 if the publishes have no numbers. ``run.bytes`` counts the octets of their bodies.
        """
        raise AssertionError("a publisher must hear when its publishes are safe")

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step`` once in each later turn of the event loop until it returns True.

        The listener publishes nothing else meanwhile if its messages must keep their order.
        """
        raise AssertionError("a publisher must give time for wide routes")


class Flow:
    """Pauses whoever publishes. A subclass overrides its methods."""

    __slots__ = ("limit",)

    def __init__(self) -> None:
        #: Octets above which it pauses.
        self.limit = 0

    def add(self, size: int) -> None:
        """So many more octets wait."""
        raise AssertionError("a flow must count what waits")

    def remove(self, size: int) -> None:
        """So many octets wait no more."""
        raise AssertionError("a flow must count what waits")


class Run:
    """Consecutive publishes of one channel that wait for the same logs.

    The publishing channel fills ``first`` and ``last`` (publish sequence numbers; 0 without confirms) and
    ``bytes`` (body bytes held unsynced), then hands the run to every durable queue of the route. When
    ``remaining`` reaches 0, or a log fails, ``listener.run_done(run)`` is called once.
    """

    __slots__ = ("bytes", "failed", "first", "last", "listener", "remaining")

    def __init__(self) -> None:
        self.first = 0
        self.last = 0
        self.bytes = 0
        self.remaining = 0
        self.failed = False
        #: None while nobody is to hear of it.
        self.listener: Listener | None = None

    def settled(self, failed: bool) -> None:
        """One of the queues has made the run durable, or never will (``failed``)."""
        if failed:
            self.failed = True
        self.remaining -= 1
        if self.remaining == 0 and self.listener is not None:
            self.listener.run_done(self)
