"""Queues and bindings of a virtual host over fake definitions."""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.fields import Table, decode_table, encode_plain
from tests.vhosts.fakes import FakeQueue
from vhosts.vhost import VirtualHost

ME, OTHER = object(), object()


def typed(**values: Any) -> Table:
    return decode_table(encode_plain(values), 0)[0]


def queue(vhost: VirtualHost, name: str = "q", owner: Any = ME, **options: Any) -> FakeQueue:
    found, _ = vhost.declare_queue(name, owner=owner, **options)
    assert isinstance(found, FakeQueue)
    return found


def bind(vhost: VirtualHost, name: str, exchange: str, key: str = "", **arguments: Any) -> int:
    return vhost.bind_queue(name, exchange, key, typed(**arguments), ME)
