"""Connections of HTTP clients. Those without a login, or that do not read, cannot keep others out.

A connection is *dead weight* until a request on it has shown who calls, and while its client has not read for
ten seconds. An address may have some of them; for one more, its oldest is closed. The same makes room when
all connections are taken. A connection that has a login and reads is never closed for others. A client that
reads nothing of its answer for half a minute is closed in any case.

A trusted proxy has connections of many clients, so they are not counted by address.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import sys
import termios
from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from admin_ui.middlewares import HEADERS
from amqp_router import logs
from amqp_router.auth.throttle import network
from amqp_router.cycles import break_cycle
from amqp_router.sockets import Proxies

#: Connections of one address that are not logged in or do not read. A browser opens six for a page.
WEIGHT_MAX = 64
#: Seconds without progress after which a client counts as not reading, and the number of such periods after
#: which it is closed.
LOOK_S = 10.0
LOOKS_MAX = 3
#: Seconds after which a connection is closed without a request, or with an incomplete one.
IDLE_S = 75.0
#: Longest part of a parser's error text in the log, in characters.
REASON_MAX = 200

Event = Callable[..., None]


class Connection(web.RequestHandler):
    """One client. Input that is not HTTP never reaches the application."""

    def __init__(self, manager: web.Server, doors: Doors, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=IDLE_S,
            auto_decompress=False,  # requests are small, so clients need no compression
            access_log=None,  # type: ignore[arg-type]  # there is none
        )
        self._doors = doors
        #: The client's address or network, by which connections are counted.
        self.address = ""
        self._has_login = False
        self._look: asyncio.TimerHandle | None = None
        self._looks = 0
        self._unread = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.address = network(str(peer[0]))
        self._doors.came(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed."""
        self._doors.light(self)
        self._stop_looking()
        transport = self.transport
        super().connection_lost(exc)
        if transport is not None:
            break_cycle(transport)

    def logged_in(self) -> None:
        """A request on this connection has logged in."""
        self._has_login = True
        self._doors.light(self)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered: watch whether it reads at all."""
        super().pause_writing()
        self._looks = 0
        self._look_later()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._has_login:
            self._doors.light(self)
        self._stop_looking()
        super().resume_writing()

    def _look_later(self) -> None:
        assert self.transport is not None
        self._unread = _unread(self.transport)
        self._look = self._loop.call_later(LOOK_S, self._looked)

    def _looked(self) -> None:
        transport = self.transport
        if transport is None:
            return
        if _unread(transport) < self._unread:
            self._looks = 0
        else:
            self._looks += 1
            self._doors.heavy(self)
        if self._looks >= LOOKS_MAX:
            self.cut(f"nothing of the answer was read for {LOOK_S * LOOKS_MAX:g} s")
        else:
            self._look_later()

    def _stop_looking(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def cut(self, reason: str) -> None:
        """Close the connection at once."""
        self._doors.tell("admin connection closed", self.address, reason)
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer input that is not HTTP, with the headers of all replies."""
        if isinstance(exc, UnicodeEncodeError):  # from a header (Expect) that aiohttp would send back
            status, message = 400, "a header is not UTF-8"
        response = super().handle_error(request, status, exc, message)
        response.headers.update(HEADERS)
        return response

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """Log our bugs with their traceback, and errors of clients rarely and in one line."""
        error = kwargs.get("exc_info")
        if isinstance(error, (HttpProcessingError, UnicodeEncodeError)):
            reason = getattr(error, "message", "a header is not UTF-8")
            self._doors.tell("admin request refused", self.address, str(reason)[:REASON_MAX])
        elif not isinstance(
            error, ConnectionError
        ):  # a client that leaves in the middle of its answer is not logged
            super().log_exception(*args, **kwargs)


class Doors:
    """Decides which connections are closed to make room for others."""

    def __init__(self, proxies: Proxies, event: Event) -> None:
        self._proxies = proxies
        #: Writes a line to the log.
        self.event = event
        self._seldom = logs.Seldom()
        #: Connections that are not logged in or do not read, by address, the oldest first.
        self._heavy: dict[str, dict[Connection, None]] = {}

    def came(self, connection: Connection) -> None:
        """A connection was accepted, without a login so far."""
        if not self._proxies.trust(connection.address):
            self.heavy(connection)

    def heavy(self, connection: Connection) -> None:
        """Count a connection that is not logged in or does not read."""
        mine = self._heavy.setdefault(connection.address, {})
        mine[connection] = None
        if len(mine) > WEIGHT_MAX and not self._proxies.trust(connection.address):
            self._close_first(mine, f"its address has {WEIGHT_MAX} that are not logged in or do not read")

    def light(self, connection: Connection) -> None:
        """Stop counting a connection, which has a login and reads, or is closed."""
        mine = self._heavy.get(connection.address)
        if mine is not None:
            mine.pop(connection, None)
            if not mine:
                del self._heavy[connection.address]

    def make_room(self) -> bool:
        """Close a connection that is not logged in or does not read, of the address with most of them.

        Returns whether there was one.
        """
        most = max(self._heavy.values(), key=len, default=None)
        if most is None:
            return False
        self._close_first(most, "all connections are taken, and it is not logged in or does not read")
        return True

    def tell(self, event: str, address: str, reason: str) -> None:
        """Write a line to the log, once a minute for each event and address, so that clients cannot fill the
        log.
        """
        if self._seldom.due(f"{event} {address}"):
            self.event(logging.WARNING, event, peer=address, reason=reason)

    def _close_first(self, connections: Iterable[Connection], reason: str) -> None:
        first = next(iter(connections))
        self.light(first)
        first.cut(reason)


def _unread(transport: asyncio.Transport) -> int:
    """Octets that the client has not read, in our buffer and in the kernel's.

    The kernel's are asked for, because it reports room in its buffer only in large steps.

    Source: tcp(7), SIOCOUTQ.
    """
    sock = transport.get_extra_info("socket")
    kernels = int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return transport.get_write_buffer_size() + kernels
