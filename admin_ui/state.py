"""The state that all handlers of the admin server share."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field

from aiohttp import web

from amqp_router.broker import Broker
from amqp_router.metrics import Metrics
from amqp_router.sockets import Certificates, Proxies

#: Lists that are filtered and sorted at a time.
SORTS_MAX = 8
#: Large bodies of requests read at once.
LARGE_BODIES_MAX = 16


@dataclass(frozen=True)
class AdminOptions:
    """Options of the admin server, and of the one for Prometheus."""

    #: Address to listen on.
    bind: str
    #: Port to listen on; 0 picks a free one.
    port: int
    #: Address of the AMQP listener: host, port.
    amqp_address: tuple[str, int] | None
    #: Largest number of AMQP connections.
    connections_max: int
    #: Largest number of HTTP connections; further ones are refused.
    http_connections_max: int = 512
    #: Addresses and networks of proxies whose X-Forwarded-For is used.
    trusted_proxies: tuple[str, ...] = ()
    #: Whether there is an admin server.
    serves: bool = True
    #: Address of the server for Prometheus, which asks for no login, and its port; 0 for none.
    metrics_bind: str = "127.0.0.1"
    metrics_port: int = 0
    #: Address and certificates of the AMQP listener with TLS.
    amqps_address: tuple[str, int] | None = None
    amqps_certificates: Certificates | None = None
    #: With certificates, the admin server speaks HTTPS.
    certificates: Certificates | None = None
    #: Seconds that a TLS handshake may take.
    handshake_timeout_s: float = 10.0


@dataclass
class State:
    """The node as the handlers see it."""

    options: AdminOptions
    broker: Broker
    metrics: Metrics
    logger: logging.Logger
    #: Host and port of the admin server itself; None without one.
    address: tuple[str, int] | None
    #: Host and port of the server for Prometheus; None without one.
    metrics_address: tuple[str, int] | None = None
    #: Start time on the monotonic clock.
    started_at: float = field(default_factory=time.monotonic)
    #: Limits the lists that are filtered and sorted at a time, because each needs a key for every object.
    sorting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SORTS_MAX))
    #: At most so many large bodies are read at once: each is held whole until its request is done.
    large_bodies: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_BODIES_MAX))
    proxies: Proxies = field(init=False)

    def __post_init__(self) -> None:
        self.proxies = Proxies(self.options.trusted_proxies)

    @property
    def node(self) -> str:
        """The node's name."""
        return str(self.broker.settings.node)

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self.broker.parameters.cluster_name(self.node)


STATE: web.AppKey[State] = web.AppKey("state", State)
