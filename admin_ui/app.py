"""The admin server: the HTTP API under ``/api`` and the pages, on a listener of its own.

Its constructor binds the address, so that a port in use is reported before any log is recovered. Clients are
served from ``start`` on.
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from admin_ui import endpoints, live, sessions, ui
from admin_ui.api import ENDPOINTS, OBJECTS
from admin_ui.api.whole import add_index
from admin_ui.auth import VERIFIER, Verifier
from admin_ui.connections import Connection, Doors
from admin_ui.middlewares import add_headers, errors
from admin_ui.state import STATE, AdminOptions, State
from amqp_router.broker import Broker
from amqp_router.metrics import Metrics
from amqp_router.server import BACKLOG, ListenError, Refusal, bind, bind_problem

__all__ = ["Admin", "AdminOptions", "make_app"]

#: Seconds that running requests have when the server stops.
STOP_S = 1.0
#: The options that say where the admin server listens.
FLAGS = ("--admin-bind", "--admin-port")


class Admin:
    """The admin server of one node."""

    def __init__(
        self, options: AdminOptions, broker: Broker, metrics: Metrics, logger: logging.Logger
    ) -> None:
        """Bind the address.

        Raises:
            ListenError: the address cannot be used.
        """
        self._options = options
        self._logger = logger
        self._listeners: list[asyncio.Server] = []
        self._sockets = bind(options.bind, options.port, FLAGS)
        host, port = self._sockets[0].getsockname()[:2]
        #: Host and port it serves.
        self.address: tuple[str, int] = host, port
        state = State(options, broker, metrics, logger, self.address)
        app = make_app(state)
        self._doors = Doors(state.proxies, broker.event)
        self._runner = web.AppRunner(app, shutdown_timeout=STOP_S)

    async def start(self) -> None:
        """Accept requests.

        Raises:
            ListenError: the port was taken in the meantime.
        """
        loop = asyncio.get_running_loop()
        await self._runner.setup()
        for sock in self._sockets:
            try:
                listener = await loop.create_server(self._accept, sock=sock, backlog=BACKLOG)
            except OSError as error:  # another process has bound the port too, and listened first
                await self.stop()
                raise ListenError(bind_problem(self._options.bind, self.address[1], error, FLAGS)) from None
            self._listeners.append(listener)

    async def stop(self) -> None:
        """Finish the running requests and close the listener."""
        for listener in self._listeners:
            listener.close()
        await self._runner.cleanup()
        self.close()

    def close(self) -> None:
        """Close the listener."""
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None
        if len(server.connections) >= self._options.http_connections_max and not self._doors.make_room():
            return Refusal(self._refused)
        return Connection(server, self._doors, asyncio.get_running_loop())

    def _refused(self, peer: object) -> None:
        limit = self._options.http_connections_max
        reason = f"{limit} connections are open, which is the most allowed"
        host = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        self._doors.tell("admin connection refused", host, reason)


def make_app(state: State) -> web.Application:
    """The application: every route, and the middlewares for all of them."""
    app = web.Application(middlewares=[errors])
    app[STATE] = state
    app[VERIFIER] = Verifier(state)
    app.on_response_prepare.append(add_headers)
    endpoints.add_routes(app, ENDPOINTS)
    endpoints.add_routes(app, OBJECTS, endpoints.PAGES)
    for part in (sessions, live, ui):
        part.add_routes(app)
    add_index(app, ENDPOINTS)
    return app
