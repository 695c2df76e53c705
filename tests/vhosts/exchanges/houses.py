"""A virtual host with a router to ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp_router.protocol import errors
from amqp_router.protocol.fields import Table, decode_table, encode_plain
from tests.vhosts.fakes import FakeQueue, new_vhost, publish_args
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import Permits, RouteCache, may_select

NO_PROPERTIES = b"\0\0"
OWNER = object()


def carrying(**headers: Any) -> bytes:
    return b"\x20\0" + encode_plain(headers)


def typed(**values: Any) -> Table:
    return decode_table(encode_plain(values), 0)[0]


class Asked(Permits):
    """Asks a function."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self.ask = ask

    def publish(self, exchange: str) -> None:
        self.ask(exchange)


class House:
    """A virtual host with short words for what the tests do to it."""

    def __init__(self) -> None:
        self.vhost = new_vhost()
        self.refused: set[str] = set()
        self.asked: list[str] = []
        self.cache = RouteCache(self.vhost.table, Asked(self.permits))

    def permits(self, exchange: str) -> None:
        self.asked.append(exchange)
        if exchange in self.refused:
            raise errors.AccessRefused(f"access to exchange '{exchange}' refused")

    def exchange(self, name: str, type_name: str = "direct", alternate: str | None = None) -> None:
        arguments = {} if alternate is None else typed(**{"alternate-exchange": alternate})
        self.vhost.declare_exchange(name, type_name, arguments=arguments)

    def queue(self, name: str, **flags: bool) -> FakeQueue:
        queue, _ = self.vhost.declare_queue(name, owner=OWNER, **flags)
        assert isinstance(queue, FakeQueue)
        return queue

    def bind(self, queue: str, exchange: str, key: str = "", **arguments: Any) -> None:
        if queue not in self.vhost.queues:
            self.queue(queue)
        self.vhost.bind_queue(queue, exchange, key, typed(**arguments), OWNER)

    def route(self, exchange: str, key: str = "", properties: bytes = NO_PROPERTIES, **flags: bool) -> Route:
        args = publish_args(exchange, key, **flags)
        route = None if may_select(properties) else self.cache.find(args)
        return self.cache.resolve(args, properties) if route is None else route

    def queues(self, *args: Any, **kwargs: Any) -> list[str]:
        return [queue.name for queue in self.route(*args, **kwargs).queues]
