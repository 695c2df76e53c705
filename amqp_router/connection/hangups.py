"""Clients that end while they are not read.

The event loop hears of the end of a connection when it reads, and a blocked one is not read. One ``epoll``
object watches all of these for nothing but their end (``EPOLLRDHUP``: the peer will send no more), whatever
is still unread. Watching costs two system calls a connection and nothing while it lasts.

The end of a client comes behind what it sent. If that does not fit into our socket's buffer, which nobody
empties, it comes when the connection is read again, or when the client's system gives up (minutes).

Where the system has no ``epoll``, such an end shows when the connection is read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable

#: Ends told of in one call.
EVENTS_MAX = 256


class Hangups:
    """Watches sockets by their file descriptors."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._poll: select.epoll | None = None
        self._watched: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, ended: Callable[[], None]) -> None:
        """Call ``ended()`` once if the peer of this socket ends before ``forget``."""
        if not hasattr(select, "epoll"):
            return
        if self._poll is None:
            self._poll = select.epoll()
            self._loop.add_reader(self._poll.fileno(), self._look)
        self._poll.register(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
        self._watched[descriptor] = ended

    def forget(self, descriptor: int) -> None:
        """Do not watch it any more; no error if it is not watched."""
        if self._watched.pop(descriptor, None) is None or self._poll is None:
            return
        with contextlib.suppress(OSError):  # it is closed
            self._poll.unregister(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._poll is not None:
            self._loop.remove_reader(self._poll.fileno())
            self._poll.close()
            self._poll = None
        self._watched.clear()

    def _look(self) -> None:
        assert self._poll is not None
        for descriptor, _ in self._poll.poll(0, EVENTS_MAX):
            ended = self._watched.get(descriptor)
            self.forget(descriptor)
            if ended is not None:
                ended()
