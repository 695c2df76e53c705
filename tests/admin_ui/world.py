"""A whole node in the test's event loop: a real broker, its AMQP listener, its admin server; free ports."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import aio_pika
import aiohttp
from yarl import URL

from admin_ui.app import Admin, AdminOptions
from amqp_router.broker import Broker
from amqp_router.config import Settings
from amqp_router.metrics import Metrics
from amqp_router.process import LoopLag
from amqp_router.server import Server, ServerOptions

LOGGER = logging.getLogger("test.admin_ui")
NODE = "router@test"


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        """The body; None if it is empty."""
        packed = self.headers.get("Content-Encoding") == "gzip"
        return json.loads(gzip.decompress(self.body) if packed else self.body) if self.body else None


def basic(user: str, password: str) -> str:
    """The header for HTTP Basic."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class StillLoop:
    """The loop as the metrics see it: no time passes but by ``World.sample``.

    Where a border of five seconds lies within a test, the metrics' own timer would take a sample more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = loop.time()
        self.call_soon = loop.call_soon

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        return SimpleNamespace(cancel=lambda: None)


class World:
    """A node and an HTTP client that talks to it. Every user's password is the name and ``-pw``."""

    def __init__(self, broker: Broker, metrics: Metrics, amqp: tuple[str, int], admin: Admin) -> None:
        self.broker = broker
        self.metrics = metrics
        self.amqp = amqp
        self.admin = admin
        self.http = aiohttp.ClientSession(auto_decompress=False)

    @property
    def base(self) -> str:
        host, port = self.admin.address
        return f"http://{host}:{port}"

    async def call(
        self,
        method: str,
        path: str,
        user: str | None = "guest",
        password: str | None = None,
        body: str | None = None,
        **headers: str,
    ) -> Reply:
        """One request. Paths go out as they are written."""
        if user is not None:
            right = "guest" if user == "guest" else f"{user}-pw"
            headers["Authorization"] = basic(user, password or right)
        url = URL(self.base + path, encoded=True)
        async with self.http.request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as response:
            return Reply(response.status, response.headers, await response.read())

    async def get(self, path: str, user: str = "guest", **headers: str) -> Any:
        """The JSON of a path below ``/api`` that is served."""
        reply = await self.call("GET", "/api" + path, user, **headers)
        assert reply.status == 200, (path, reply)
        return reply.json

    async def connect(self, vhost: str = "/", **options: Any) -> Any:
        """An AMQP connection of user guest."""
        host, port = self.amqp
        return await aio_pika.connect(host=host, port=port, virtualhost=vhost, **options)

    def add_vhost(self, name: str) -> None:
        self.broker.virtual_hosts.put(name, "guest")

    def add_user(self, name: str, *tags: str, vhosts: tuple[str, ...] = ()) -> None:
        users = self.broker.users
        users.put_user(name, f"{name}-pw".encode(), tags)
        for vhost in vhosts:
            users.set_permission(name, vhost, configure=".*", write=".*", read=".*")

    def sample(self) -> None:
        """Let five seconds pass for the metrics."""
        self.metrics._offset_s += 5
        self.metrics._begin()
        while self.metrics._work is not None:
            self.metrics._slice()


@contextlib.asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A node with user guest and virtual host ``/``, stopped at the end."""
    loop = asyncio.get_running_loop()
    settings = Settings(data_dir=tmp_path / "data", node_name=NODE)
    settings.data_dir.mkdir(exist_ok=True)
    broker = Broker(settings, loop, LOGGER)
    server = Server(ServerOptions("127.0.0.1", 0, 1000), broker, LOGGER)
    metrics = Metrics(broker, StillLoop(loop), LoopLag(loop, LOGGER))  # type: ignore[arg-type]
    admin = Admin(AdminOptions("127.0.0.1", 0, server.address, 1000), broker, metrics, LOGGER)
    await server.start()
    metrics.start()
    await admin.start()
    found = World(broker, metrics, server.address, admin)
    try:
        yield found
    finally:
        await found.http.close()
        await admin.stop()
        metrics.stop()
        await server.stop()
