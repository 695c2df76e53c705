"""Cached routes that are no longer valid, on their way out of memory.

A route holds its queues, and a channel may remember the route of its last publish for ever. So a route lets
go of its queues when it becomes invalid, not when its publisher comes again. Otherwise 100,000 deleted queues
would stay in memory as long as one publisher is silent. Caches hold very many routes, so this is done in
slices.
"""

from __future__ import annotations

from collections.abc import Callable

from vhosts.exchanges.route import Route

#: Routes emptied in one turn of the event loop, some 0.5 ms; as many queues count as one route.
SLICE = 1000
QUEUES_PER_ROUTE = 64


class StaleRoutes:
    """Empties routes, some at once and the others in later turns."""

    __slots__ = ("_is_going_on", "_left", "in_slices")

    def __init__(self) -> None:
        #: See ``vhosts.ports.InSlices``; None empties everything at once.
        self.in_slices: Callable[[Callable[[], bool]], None] | None = None
        self._left: list[dict[bytes, Route]] = []
        self._is_going_on = False

    def drop(self, routes: dict[bytes, Route]) -> None:
        """Empty ``routes`` and each route in it; nobody else uses the dict any more."""
        if not routes:
            return
        self._left.append(routes)
        if self._is_going_on or self._next_slice():
            return
        if self.in_slices is not None:
            self._is_going_on = True
            self.in_slices(self._next_slice)
            return
        while not self._next_slice():
            pass

    def _next_slice(self) -> bool:
        left = SLICE
        while self._left and left > 0:
            routes = self._left[-1]
            while routes and left > 0:
                route = routes.popitem()[1]
                left -= 1 + len(route.queues) // QUEUES_PER_ROUTE
                route.let_go()
            if not routes:
                self._left.pop()
        if not self._left:
            self._is_going_on = False
        return not self._left
