"""What happens on a node, told to whoever listens: things that come and go, connections, users, alarms.

One ``Feed`` serves the whole node. Those to whom something happens call it only while it is ``on``, so that
nothing is told, and nothing made to be told, while nobody listens. A listener keeps what it is told and acts
on it later, never within the call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from vhosts.exchanges.exchange import Binding, Exchange
from vhosts.exchanges.taps import Actor
from vhosts.queues.handle import Consumer, QueueHandle

#: Who acts when the broker does something by itself, in RabbitMQ's word.
INTERNAL = "rmq-internal"


class Feed:
    """Hears nothing; a subclass takes what is told. Virtual hosts are given by name.

    ``is_new`` says that something came, or else that it went.
    """

    def __init__(self) -> None:
        #: Somebody listens.
        self.on = False
        #: Name of the user for whom something happens just now.
        self.actor = INTERNAL
        #: More was told than is passed on: whoever causes more must wait for ``has_caught_up``.
        self.is_behind = False

    def queue(self, vhost: str, queue: QueueHandle, *, is_new: bool) -> None:
        """A queue was declared or deleted."""

    def exchange(self, vhost: str, exchange: Exchange, *, is_new: bool) -> None:
        """An exchange was declared or deleted."""

    def binding(self, vhost: str, binding: Binding, *, is_new: bool, goes_with_queue: bool = False) -> None:
        """A binding was made or removed; or it went together with its deleted queue."""

    def policy(self, vhost: str, queue: QueueHandle) -> None:
        """Another policy applies to a queue, or none."""

    def channel(self, vhost: str, channel: Actor, *, is_new: bool) -> None:
        """A channel was opened or closed."""

    def consumer(
        self, vhost: str, channel: Actor, consumer: Consumer, *, is_new: bool, prefetch: int = 0
    ) -> None:
        """A consumer began or ended. The client had set the limit ``prefetch``."""

    def has_caught_up(self) -> bool:
        """A step of ``in_slices`` for whoever waits."""
        return not self.is_behind

    def acting(self, user: str, wait: Callable[[Callable[[], bool]], None]) -> AbstractContextManager[None]:
        """What happens within the context happens for ``user``, who waits by ``wait`` if it was too much."""
        return _Acting(self, user, wait)


class _Acting(AbstractContextManager[None]):
    def __init__(self, feed: Feed, user: str, wait: Callable[[Callable[[], bool]], None]) -> None:
        self._feed = feed
        self._user = user
        self._wait = wait

    def __enter__(self) -> None:
        self._feed.actor = self._user

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._feed.actor = INTERNAL
        if self._feed.is_behind:
            self._wait(self._feed.has_caught_up)


#: For whatever is not told.
SILENT = Feed()
