"""What every handler of the admin server works with."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from aiohttp import web

from amqp_router.broker import Broker
from amqp_router.metrics import Metrics


@dataclass(frozen=True)
class AdminOptions:
    """What the admin server needs to know."""

    #: Address to listen on.
    bind: str
    #: Port to listen on; 0 picks a free one.
    port: int
    #: Where AMQP clients are served: host, port.
    amqp_address: tuple[str, int]
    #: Connections that AMQP clients may open.
    connections_max: int
    #: Connections that HTTP clients may open; more are refused.
    http_connections_max: int = 512


@dataclass
class State:
    """The node, as the handlers see it."""

    options: AdminOptions
    broker: Broker
    metrics: Metrics
    logger: logging.Logger
    #: Host and port of the admin server itself.
    address: tuple[str, int]
    #: Of the monotonic clock.
    started_at: float = field(default_factory=time.monotonic)

    @property
    def node(self) -> str:
        """The node's name."""
        return str(self.broker.settings.node)


STATE: web.AppKey[State] = web.AppKey("state", State)
