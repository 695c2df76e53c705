"""The admin server: the HTTP API under ``/api`` and the pages, on a listener of its own.

The address is bound when it is made, so that a port in use is told before any log is recovered; clients are
served from ``start`` on.
"""

from __future__ import annotations

import logging

from aiohttp import web

from admin_ui import endpoints, live, sessions, ui
from admin_ui.api import ENDPOINTS
from admin_ui.api.whole import add_index
from admin_ui.auth import VERIFIER, Verifier
from admin_ui.middlewares import add_headers, errors
from admin_ui.state import STATE, AdminOptions, State
from amqp_router.broker import Broker
from amqp_router.metrics import Metrics
from amqp_router.server import ListenError, bind, bind_problem

__all__ = ["Admin", "AdminOptions", "make_app"]

#: Seconds that requests under way get when the server stops.
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
            ListenError: it cannot be listened on.
        """
        self._options = options
        self._sockets = bind(options.bind, options.port, FLAGS)
        self._runner = web.AppRunner(
            make_app(State(options, broker, metrics, logger, self.address)),
            access_log=None,
            shutdown_timeout=STOP_S,
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it serves."""
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    async def start(self) -> None:
        """Accept requests.

        Raises:
            ListenError: the port was taken in the meantime.
        """
        await self._runner.setup()
        for sock in self._sockets:
            try:
                await web.SockSite(self._runner, sock).start()
            except OSError as error:
                raise ListenError(bind_problem(self._options.bind, self.address[1], error, FLAGS)) from None

    async def stop(self) -> None:
        """Finish the requests under way and give the address back."""
        await self._runner.cleanup()
        self.close()

    def close(self) -> None:
        """Give the address back."""
        for sock in self._sockets:
            sock.close()


def make_app(state: State) -> web.Application:
    """The application: every route, and what holds for all of them."""
    app = web.Application(middlewares=[errors])
    app[STATE] = state
    app[VERIFIER] = Verifier(state)
    app.on_response_prepare.append(add_headers)
    endpoints.add_routes(app, ENDPOINTS)
    for part in (sessions, live, ui):
        part.add_routes(app)
    add_index(app, ENDPOINTS)
    return app
