"""Exchanges and bindings."""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus

from admin_ui.documents.arguments import arguments
from admin_ui.documents.stats import Stats, happened
from admin_ui.erlang_hash import Atom, Term, phash2
from amqp_router.metrics import EXCHANGE
from amqp_router.protocol.fields import TYPE_NAMES, Field, decode_table
from vhosts.exchanges.exchange import Binding

#: Arguments with more octets have a key of another hash: RabbitMQ's takes half a microsecond for each.
HASHED_AS_THERE_MAX = 1024


def document(exchange: Any, vhost: str, stats: Stats) -> dict[str, Any]:
    """An exchange as lists show it."""
    found = {
        "arguments": arguments(exchange.arguments),
        "auto_delete": exchange.auto_delete,
        "durable": exchange.durable,
        "internal": exchange.internal,
        "name": exchange.name,
        "type": exchange.type,
        # The definitions do not record who declared it.
        "user_who_performed_action": "",
        "vhost": vhost,
    }
    if exchange.policy is not None and exchange.policy.policy is not None:
        found["policy"] = exchange.policy.policy.name
    counters = exchange.counters
    values = happened({"publish_in": counters.publish_in, "publish_out": counters.publish_out})
    if values:
        history = stats.metrics.history(exchange)
        found["message_stats"] = stats.put({}, values, history, EXCHANGE, "msg_rates")
    return found


def single(exchange: Any, vhost: str, stats: Stats) -> dict[str, Any]:
    """An exchange asked for by name."""
    found = document(exchange, vhost, stats)
    # RabbitMQ fills it only in rates_mode "detailed".
    found["incoming"] = []
    found["outgoing"] = []
    return found


def flow(exchange: Any) -> dict[str, int]:
    """The figures that RabbitMQ's API does not have: see `vhosts.counters.ExchangeCounters`."""
    counters = exchange.counters
    return {
        "unroutable": counters.unroutable,
        "inner_in": counters.inner_in,
        "inner_out": counters.inner_out,
    }


def fed_by(vhost: Any, exchange: Any) -> list[str]:
    """Exchanges that name ``exchange`` as their alternate."""
    return sorted(name for name, each in vhost.exchanges.items() if each.alternate == exchange.name != "")


def binding(binding: Binding, vhost: str) -> dict[str, Any]:
    """A binding between two objects."""
    return {
        "source": binding.source.name,
        "vhost": vhost,
        "destination": binding.destination.name,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": arguments(binding.arguments),
        "properties_key": properties_key(binding.routing_key, binding.encoded if binding.arguments else b""),
    }


def implicit_binding(queue: Any) -> dict[str, Any]:
    """The binding of a queue to the default exchange. It is not stored, but RabbitMQ shows one."""
    return {
        "source": "",
        "vhost": queue.vhost.name,
        "destination": queue.name,
        "destination_type": "queue",
        "routing_key": queue.name,
        "arguments": {},
        "properties_key": properties_key(queue.name, b""),
    }


def properties_key(routing_key: str, arguments: bytes) -> str:
    """The key of a binding among those between two objects, from its encoded arguments: as RabbitMQ's."""
    key = quoted_key(routing_key)
    if arguments:
        is_short = len(arguments) <= HASHED_AS_THERE_MAX
        found = _hash(arguments) if is_short else zlib.crc32(arguments)
        return f"{key}~{base64.urlsafe_b64encode(found.to_bytes(4, 'big')).decode().rstrip('=')}"
    return key or "~"


def quoted_key(routing_key: str) -> str:
    """What a properties key says of the routing key."""
    return quote_plus(routing_key, errors="surrogateescape").replace("~", "%7E")


@lru_cache(maxsize=4096)
def _hash(arguments: bytes) -> int:
    found = decode_table(arguments, 0)[0]
    return phash2([_named(name, found[name]) for name in sorted(found, key=_octets)])


def _named(name: str, field: Field) -> Term:
    return (_octets(name), *_typed(field))


def _typed(field: Field) -> tuple[Term, Term]:
    """A value as RabbitMQ's tables have it: its type and the term."""
    tag, value = field
    term: Term
    if isinstance(value, bool):
        term = Atom("true" if value else "false")
    elif value is None:
        term = Atom("undefined")
    elif isinstance(value, str):
        term = _octets(value)
    elif isinstance(value, dict):
        term = [_named(name, each) for name, each in value.items()]
    elif isinstance(value, list):
        term = [_typed(each) for each in value]
    else:
        term = value
    return Atom(TYPE_NAMES[tag]), term


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
