"""The admin server: the HTTP API under ``/api`` and the pages, on a listener of its own.

The address is bound when it is made, so that a port in use is told before any log is recovered; clients are
served from ``start`` on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web

from admin_ui import endpoints, live, sessions, ui
from admin_ui.api import ENDPOINTS, OBJECTS
from admin_ui.api.whole import add_index
from admin_ui.auth import VERIFIER, Verifier
from admin_ui.middlewares import HEADERS, add_headers, errors
from admin_ui.state import STATE, AdminOptions, State
from amqp_router import logs
from amqp_router.broker import Broker
from amqp_router.metrics import Metrics
from amqp_router.server import BACKLOG, ListenError, Refusal, bind, bind_problem, peer_text

__all__ = ["Admin", "AdminOptions", "make_app"]

#: Seconds that requests under way get when the server stops.
STOP_S = 1.0
#: Seconds after which a connection is closed on which no request is under way, nor comes to its end.
IDLE_S = 75.0
#: The options that say where the admin server listens.
FLAGS = ("--admin-bind", "--admin-port")


class Connection(web.RequestHandler):
    """One client. What it sends may be no HTTP at all: that never reaches the application."""

    def handle_error(self, *args: Any, **kwargs: Any) -> web.StreamResponse:
        """Answer it with the headers of all replies."""
        response = super().handle_error(*args, **kwargs)
        response.headers.update(HEADERS)
        return response


class Admin:
    """The admin server of one node."""

    def __init__(
        self, options: AdminOptions, broker: Broker, metrics: Metrics, logger: logging.Logger
    ) -> None:
        """Bind the address.

        Raises:
            ListenError: it cannot be listened on.
        """
        self._options = options
        self._logger = logger
        self._listeners: list[asyncio.Server] = []
        self._sockets = bind(options.bind, options.port, FLAGS)
        host, port = self._sockets[0].getsockname()[:2]
        #: Host and port it serves.
        self.address: tuple[str, int] = host, port
        app = make_app(State(options, broker, metrics, logger, self.address))
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
            except OSError as error:  # somebody else bound the port as well, and was faster to listen
                await self.stop()
                raise ListenError(bind_problem(self._options.bind, self.address[1], error, FLAGS)) from None
            self._listeners.append(listener)

    async def stop(self) -> None:
        """Finish the requests under way and give the address back."""
        for listener in self._listeners:
            listener.close()
        await self._runner.cleanup()
        self.close()

    def close(self) -> None:
        """Give the address back."""
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None
        if len(server.connections) >= self._options.http_connections_max:
            return Refusal(self._refused)
        loop = asyncio.get_running_loop()
        return Connection(
            server,
            loop=loop,
            keepalive_timeout=IDLE_S,
            auto_decompress=False,  # nobody needs to compress the little that is sent to us
            access_log=None,  # type: ignore[arg-type]  # there is none
        )

    def _refused(self, peer: object) -> None:
        limit = self._options.http_connections_max
        logs.event(
            self._logger,
            logging.WARNING,
            "admin connection refused",
            peer=peer_text(peer),
            reason=f"{limit} connections are open, which is the most allowed",
        )


def make_app(state: State) -> web.Application:
    """The application: every route, and what holds for all of them."""
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
