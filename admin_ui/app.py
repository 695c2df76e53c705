"""The admin server: the HTTP API under ``/api`` and the pages, and the port for Prometheus.

Each has a listener of its own (``admin_ui.listener``).
"""

from __future__ import annotations

import logging

from aiohttp import web

from admin_ui import (
    cli,
    consumers,
    delayed,
    differences,
    endpoints,
    environment,
    incidents,
    live,
    moves,
    openapi,
    previews,
    prometheus,
    sessions,
    tokens,
    ui,
)
from admin_ui.api import ENDPOINTS, OBJECTS
from admin_ui.api.whole import add_index
from admin_ui.auth import VERIFIER, Verifier
from admin_ui.connections import Doors
from admin_ui.incidents import RECORDER, Recorder
from admin_ui.listener import Encryption, Listener
from admin_ui.live.attention import ATTENTION, Attention
from admin_ui.local_login import LOCAL_LOGIN, LocalLogin
from admin_ui.middlewares import add_headers, errors
from admin_ui.state import STATE, AdminOptions, State
from amqp_router.broker import Broker
from amqp_router.exit_codes import ListenError
from amqp_router.metrics import Metrics

__all__ = ["Admin", "AdminOptions", "make_app"]

#: The options that say where the admin server listens.
FLAGS = ("--admin-bind", "--admin-port")
METRICS_FLAGS = ("--metrics-bind", "--metrics-port")
#: The endpoints below `/admin/v1` that `/api` does not have.
OURS = [
    endpoint
    for part in (previews, differences, delayed, consumers, moves, tokens, environment, incidents)
    for endpoint in part.ENDPOINTS
]
#: Connections to the port for Prometheus. A scraper holds one.
METRICS_CONNECTIONS_MAX = 32


class Admin:
    """The HTTP servers of one node: the admin server, and the one for Prometheus.

    Either may be missing: the options say which.
    """

    def __init__(
        self, options: AdminOptions, broker: Broker, metrics: Metrics, logger: logging.Logger
    ) -> None:
        """Bind the addresses.

        Raises:
            ListenError: one cannot be used.
        """
        main = scrape = self._local_login = None
        if options.serves:
            main = Listener(options.bind, options.port, FLAGS, options.http_connections_max)
        if options.metrics_port:
            try:
                scrape = Listener(
                    options.metrics_bind, options.metrics_port, METRICS_FLAGS, METRICS_CONNECTIONS_MAX
                )
            except ListenError:
                if main is not None:
                    main.close()
                raise
        state = State(
            options,
            broker,
            metrics,
            logger,
            main.address if main is not None else None,
            scrape.address if scrape is not None else None,
        )
        attention = Attention(state)
        self._recorder = Recorder(state, attention)
        if main is not None:
            encryption = None
            if options.certificates is not None:
                encryption = Encryption(options.certificates, options.handshake_timeout_s, broker)
            self._local_login = LocalLogin(state)
            app = make_app(state, attention)
            app[LOCAL_LOGIN] = self._local_login
            app[RECORDER] = self._recorder
            main.serve(app, Doors(state.proxies, broker.event), encryption)
        if scrape is not None:
            scrape.serve(prometheus.make_app(state, attention), Doors(state.proxies, broker.event))
        self._state = state
        self._runner = main.runner if main is not None else None
        self._listeners = [each for each in (main, scrape) if each is not None]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the admin server, which there must be."""
        assert self._state.address is not None
        return self._state.address

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port of the server for Prometheus."""
        return self._state.metrics_address

    async def start(self) -> None:
        """Accept requests.

        Raises:
            ListenError: a port was taken in the meantime.
        """
        for done, listener in enumerate(self._listeners):
            try:
                await listener.start()
            except ListenError:
                for each in self._listeners[:done]:
                    await each.stop()
                for each in self._listeners[done + 1 :]:
                    each.close()
                raise
        self._recorder.start()
        if self._local_login is not None:
            self._local_login.write("https" if self._state.options.certificates is not None else "http")

    async def stop(self) -> None:
        """Finish the running requests and close the listeners."""
        if self._local_login is not None:
            self._local_login.remove()
        await self._recorder.stop()
        for listener in self._listeners:
            await listener.stop()


def make_app(state: State, attention: Attention) -> web.Application:
    """The application: every route, and the middlewares for all of them."""
    app = web.Application(middlewares=[errors])
    app[STATE] = state
    app[ATTENTION] = attention
    app[VERIFIER] = Verifier(state)
    app.on_response_prepare.append(add_headers)
    endpoints.add_routes(app, ENDPOINTS)
    endpoints.add_routes(app, [*OURS, openapi.endpoint(OURS), *OBJECTS], endpoints.PAGES)
    for routed in (sessions, tokens, moves, live, prometheus, cli, ui):
        routed.add_routes(app)
    add_index(app, ENDPOINTS)
    return app
