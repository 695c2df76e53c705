"""The table of exchange types."""

from __future__ import annotations

from amqp_router.protocol.errors import CommandInvalid
from vhosts.exchanges.consistent_hash import ConsistentHashExchange
from vhosts.exchanges.delayed import DelayedExchange
from vhosts.exchanges.direct import DirectExchange
from vhosts.exchanges.exchange import Exchange
from vhosts.exchanges.fanout import FanoutExchange
from vhosts.exchanges.headers import HeadersExchange
from vhosts.exchanges.modulus_hash import ModulusHashExchange
from vhosts.exchanges.random import RandomExchange
from vhosts.exchanges.recent_history import RecentHistoryExchange
from vhosts.exchanges.topic import TopicExchange

EXCHANGE_TYPES: dict[str, type[Exchange]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
    "x-consistent-hash": ConsistentHashExchange,
    "x-delayed-message": DelayedExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-random": RandomExchange,
    "x-recent-history": RecentHistoryExchange,
}

DelayedExchange.types = EXCHANGE_TYPES

#: Exchanges that every virtual host has beside the default exchange: name, type, internal.
SYSTEM_EXCHANGES: tuple[tuple[str, str, bool], ...] = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
    ("amq.topic", "topic", False),
)


def register_exchange_type(name: str, cls: type[Exchange]) -> None:
    """Let clients declare exchanges of type ``name``.

    Raises:
        ValueError: there is such a type already.
    """
    if name in EXCHANGE_TYPES:
        raise ValueError(f"exchange type {name!r} is registered already")
    EXCHANGE_TYPES[name] = cls


def exchange_type(name: str) -> type[Exchange]:
    """The class for exchanges of type ``name``.

    Raises:
        CommandInvalid: there is none (503; the connection closes).
    """
    cls = EXCHANGE_TYPES.get(name)
    if cls is None:
        raise CommandInvalid(f"unknown exchange type '{name}'" if name else "invalid exchange type ''")
    return cls
