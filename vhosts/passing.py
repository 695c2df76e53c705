"""Messages that an exchange passes on by itself, not because somebody publishes them.

Nobody waits for them: they have no receipt and are not returned. What is persistent is stored like any other
message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.message import Message
from persistence.memory import MemoryBudget
from vhosts.exchanges.exchange import End, Exchange
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import RouteCache, RoutingTable, publish_args
from vhosts.exchanges.walk import Walk
from vhosts.ports import InSlices
from vhosts.publishing.ports import Listener, Run
from vhosts.publishing.publisher import Publisher
from vhosts.queues.handle import QueueHandle

#: Units passed on in one turn, each an enqueue; about a millisecond.
SLICE = 1024


class DelayQueues(Protocol):
    """See ``vhosts.delays.Delays``."""

    def queue_of(self, exchange: Exchange) -> QueueHandle:
        """Its queue, which is made if there is none."""

    def drop_queue_of(self, exchange: Exchange) -> None:
        """``exchange`` is deleted."""


class Passing(Listener):
    """Passes messages on in one virtual host, to one destination after the other."""

    def __init__(self, table: RoutingTable, account: MemoryBudget, in_slices: InSlices) -> None:
        self.account = account
        self._in_slices = in_slices
        #: Set before any exchange enters that needs it.
        self.delays: DelayQueues | None = None
        self._table = table
        self._cache = RouteCache(table, None, account)
        self._publisher = Publisher(table, self._cache, account, self)
        #: Messages that are left to pass on, by destination.
        self._left: deque[tuple[End, Iterator[Message]]] = deque()
        #: How often ``pass_on`` was called, and how many of these calls have all passed on.
        self.begun = self.ended = 0
        #: The message whose route takes more than one turn to find, and the search.
        self._searching: Message | None = None
        self._walk: Walk | None = None
        self._is_going_on = False

    def delay_queue(self, exchange: Exchange) -> QueueHandle:
        """See ``vhosts.exchanges.exchange.Surroundings``."""
        assert self.delays is not None
        return self.delays.queue_of(exchange)

    def drop_delay_queue(self, exchange: Exchange) -> None:
        """See ``vhosts.exchanges.exchange.Surroundings``."""
        assert self.delays is not None
        self.delays.drop_queue_of(exchange)

    def pass_on(self, destination: End, messages: Sequence[Message]) -> None:
        """See ``vhosts.exchanges.exchange.Surroundings``."""
        self.begun += 1
        self._left.append((destination, iter(messages)))
        if not self._is_going_on and not self._next_slice():
            self.in_slices(self._next_slice)

    def has_ended(self, count: int) -> bool:
        """Whether the first ``count`` calls of ``pass_on`` have all passed on; a step of ``in_slices``."""
        return self.ended >= count

    def _next_slice(self) -> bool:
        """Pass on a slice; True if nothing is left."""
        units = 0
        self.account.work = 0
        while self._left and units < SLICE:
            destination, messages = self._left[0]
            message = self._searching or next(messages, None)
            self._searching = None
            if message is None or destination.deleted:
                self._left.popleft()
                self.ended += 1
                self._walk = None
                continue
            units += self._give(destination, message)
            if self._searching is not None:
                break
        self._publisher.close_run()
        self._publisher.open_runs.clear()
        self._is_going_on = bool(self._left)
        return not self._left

    def _give(self, destination: End, message: Message) -> int:
        """Returns the cost in enqueues."""
        if isinstance(destination, QueueHandle):
            destination.publish(message.copy())
            return 1 + self.account.take_work()
        route = self._route(destination, message)
        if route is None:
            return 1
        self._publisher.publish(route, message.copy(), 0, 0)
        return self._publisher.units

    def _route(self, exchange: Exchange, message: Message) -> Route | None:
        """Where ``exchange`` leads; None if nowhere, or (``_searching``) if that is not known yet."""
        key = message.route[message.route[0] + 2 :].decode("utf-8", "surrogateescape")
        try:
            route = self._cache.resolve(publish_args(exchange.name, key), message.properties(), self._walk)
        except AMQPError:  # the exchange is gone, or cannot read the message
            self._walk = None
            return None
        self._walk = self._cache.take_unfinished()
        if route is None:
            self._searching = message
        return route

    # -- for the publisher ----------------------------------------------------------------------------

    def published(self, number: int, outcome: int, message: Message) -> None:
        """See ``vhosts.publishing.ports.Listener``; nobody waits."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        self._in_slices(step)

    def run_done(self, run: Run) -> None:
        """See ``vhosts.publishing.ports.Listener``; nobody waits."""
