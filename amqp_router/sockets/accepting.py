"""Takes clients off the kernel's queues of listening sockets, and waits while there is no descriptor for one.

asyncio's own server calls accept as often in a turn as its queue is long, and logs each call that fails.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from persistence.errors import PASSING_ERRNOS

#: Connections accepted in one turn of the loop, up to 0.4 ms each with their first steps; the others wait in
#: the kernel's queue.
ACCEPTS_PER_TURN = 16
#: Nobody is accepted for so long after the system had no descriptor or memory for a connection.
PAUSE_S = 1.0
#: Clients waiting to be accepted; a reconnect of thousands must not be refused by the kernel.
BACKLOG = 1024

#: Makes the protocol of a client at this address.
Make = Callable[[str], Callable[[], asyncio.BaseProtocol]]


class Accepting:
    """The listening sockets of one server. ``count`` says how many connections it has, for the log."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, event: Callable[..., None], count: Callable[[], int]
    ) -> None:
        self._loop = loop
        self._event = event
        self._count = count
        self._sockets: list[tuple[socket.socket, Make]] = []
        self._is_over = False
        #: Nobody was accepted since an attempt failed.
        self._is_short = False
        #: Connections accepted whose protocol is being made.
        self._made: set[asyncio.Task[None]] = set()

    def add(self, sock: socket.socket, make: Make) -> None:
        """Listen and accept.

        Raises:
            OSError: somebody else bound the port as well, and was faster to listen.
        """
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._sockets.append((sock, make))
        self._loop.add_reader(sock, self._accept, sock, make)

    def stop(self) -> None:
        """Accept nobody any more; before the sockets are closed."""
        self._pause()
        self._is_over = True
        for task in list(self._made):
            task.cancel()

    def _pause(self) -> None:
        if not self._is_over:
            for sock, _ in self._sockets:
                self._loop.remove_reader(sock)

    def _resume(self) -> None:
        if not self._is_over:
            for sock, make in self._sockets:
                self._loop.add_reader(sock, self._accept, sock, make)

    def _accept(self, sock: socket.socket, make: Make) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in PASSING_ERRNOS | {errno.ENOBUFS}:
                    raise
                self._failed(sock, error)
                return
            self._is_short = False
            client.setblocking(False)
            task = self._loop.create_task(self._serve(client, make(address[0])))
            self._made.add(task)
            task.add_done_callback(self._made.discard)

    def _failed(self, sock: socket.socket, error: OSError) -> None:
        if not self._is_short:  # one line until somebody is accepted again
            self._event(
                logging.ERROR,
                "no connections accepted for now",
                reason=error.strerror,
                port=sock.getsockname()[1],
                connections=self._count(),
            )
        self._is_short = True
        self._pause()
        self._loop.call_later(PAUSE_S, self._resume)

    async def _serve(self, client: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        try:
            await self._loop.connect_accepted_socket(protocol, client)
        except BaseException:
            client.close()
            raise
