"""Shares the event loop between long work of the HTTP API and everybody else.

A request begins when it is its turn, one in each iteration of the loop: a list of many thousand objects takes
milliseconds before its first row, and many requests may come at once. It works for ``TURN_S`` and then stands
in another line, and so do the reading of the pages' data and its
sending to each viewer. In each iteration of the loop the first in line goes on, and no other. So a hundred
long lists together take no more of an iteration than one list does, and clients of AMQP wait no longer for
theirs. What a client sends during one turn is read after the next, so it may wait for two.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TypeAlias
from weakref import WeakKeyDictionary

from vhosts.long_lists import look_at_new_objects

#: Seconds of work before others have their turn.
TURN_S = 0.001


class Line:
    """The work of one event loop that waits for its turn."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_called = False

    def turn(self) -> asyncio.Future[None]:
        """Stand in line; done when it is the caller's turn."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._call()
        return mine

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_called = False
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # it is if its request was given up
                first.set_result(None)
                break
        if self._waiting:
            self._call()


Lines: TypeAlias = WeakKeyDictionary[asyncio.AbstractEventLoop, Line]
_entrances: Lines = WeakKeyDictionary()
_lines: Lines = WeakKeyDictionary()


def entrance() -> Line:
    """The line of requests that have come and are not begun, apart from those that are long at work."""
    return _of_this_loop(_entrances)


def line() -> Line:
    """The line of the running loop for work that goes on."""
    return _of_this_loop(_lines)


def _of_this_loop(lines: Lines) -> Line:
    loop = asyncio.get_running_loop()
    found = lines.get(loop)
    if found is None:
        found = lines[loop] = Line()
    return found


class Turns:
    """The turns of one request: call ``await turns.next()`` after each piece of long work.

    The first turn, too, begins in line: many requests may come in one iteration of the loop.
    """

    def __init__(self) -> None:
        self._end = 0.0

    def is_over(self) -> bool:
        """Whether this turn has lasted long enough."""
        return time.perf_counter() > self._end

    async def next(self) -> None:
        """Stand in line if this turn has lasted long enough.

        What the turn made is looked at by the garbage collector before others make more: a file of 50,000
        objects that is read and imported would otherwise have it look at thousands at once.
        """
        if self.is_over():
            look_at_new_objects()
            await line().turn()
            self._end = time.perf_counter() + TURN_S
