"""Cached routes that are no longer valid, and long lists of queues, on their way out of memory.

A route holds its queues, and a channel may remember the route of its last publish for ever. So a route lets
go of its queues when it becomes invalid, not when its publisher comes again. Otherwise 100,000 deleted queues
would stay in memory as long as one publisher is silent. Caches hold very many routes, so this is done in
slices.

Letting go of a list of 100,000 queues at once takes 10 ms, because each of them is somewhere else in memory.
So the last one to hold such a list is here, and empties it in slices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeAlias

from vhosts.exchanges.route import Route
from vhosts.queues.handle import QueueHandle
from vhosts.spread_map import SpreadMap

#: Routes emptied in one turn of the event loop, some 0.5 ms; as many queues count as one route.
SLICE = 1000
QUEUES_PER_ROUTE = 64
#: Longer lists of queues, and maps, are emptied in slices of this length.
WIDE = 2048
#: Queues that a search has found, or that a route leads to.
Found: TypeAlias = "list[QueueHandle] | SpreadMap[QueueHandle, None]"


class StaleRoutes:
    """Empties routes, some at once and the others in later turns."""

    __slots__ = ("_is_going_on", "_left", "_wide", "in_slices")

    def __init__(self) -> None:
        #: See ``vhosts.ports.InSlices``; None empties everything at once.
        self.in_slices: Callable[[Callable[[], bool]], None] | None = None
        self._left: list[dict[bytes, Route]] = []
        #: Lists, and maps by queue, that are emptied when nobody else holds them.
        self._wide: list[Found] = []
        self._is_going_on = False

    def drop(self, routes: dict[bytes, Route]) -> None:
        """Empty ``routes`` and each route in it; nobody else uses the dict any more."""
        if not routes:
            return
        self._left.append(routes)
        if not self._is_going_on and not self._next_slice():
            self.look_later()

    def release(self, *queues: Found) -> None:
        """Whoever calls will not need them any more, others may. Short ones are not kept."""
        for each in queues:
            if len(each) > WIDE and not any(each is known for known in self._wide):
                self._wide.append(each)

    def look_later(self) -> None:
        """Go on in the next turn: somebody who held released queues is about to let go of them."""
        if self._is_going_on or not (self._left or self._wide):
            return
        if self.in_slices is not None:
            self._is_going_on = True
            self.in_slices(self._next_slice)
            return
        while not self._next_slice():
            pass

    def _next_slice(self) -> bool:
        if self._left:
            self._empty_routes()
        is_done = not self._left and not self._empty_next()
        if is_done:
            self._is_going_on = False
        return is_done

    def _empty_routes(self) -> None:
        left = SLICE
        while self._left and left > 0:
            routes = self._left[-1]
            while routes and left > 0:
                route = routes.popitem()[1]
                queues, durable_queues = route.queues, route.durable_queues
                left -= 1
                if len(queues) > WIDE:
                    self.release(queues, durable_queues)
                else:
                    left -= len(queues) // QUEUES_PER_ROUTE
                route.let_go()
            if not routes:
                self._left.pop()

    def _empty_next(self) -> bool:
        """Empty a part of what nobody else holds; False if there is nothing of the kind."""
        for index in range(len(self._wide)):
            if _holders(self._wide, index) > _ALONE:
                continue
            wide = self._wide[index]
            if isinstance(wide, list):
                del wide[-WIDE:]
            else:
                for _ in range(min(WIDE, len(wide))):
                    wide.popitem()
            if not wide:
                del self._wide[index]
            return True
        return False


def _holders(wide: list[Found], index: int) -> int:
    return sys.getrefcount(wide[index])


#: What ``_holders`` says of an object that only the list holds; it depends on the version of Python.
_ALONE = _holders([[]], 0)
