"""Exchanges and bindings."""

from __future__ import annotations

import base64
import zlib
from typing import Any
from urllib.parse import quote_plus

from admin_ui.documents.stats import Stats, happened
from admin_ui.documents.tables import table
from amqp_router.metrics import EXCHANGE
from vhosts.exchanges.exchange import Binding


def document(exchange: Any, vhost: str, stats: Stats) -> dict[str, Any]:
    """An exchange as lists show it."""
    found = {
        "arguments": table(exchange.arguments),
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
        "arguments": table(binding.arguments),
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
    """The key of a binding among those between two objects. Clients send it back unchanged.

    RabbitMQ hashes the Erlang term of the arguments, which does not exist here. Any stable hash is
    sufficient.
    """
    key = quote_plus(routing_key, errors="surrogateescape").replace("~", "%7E")
    if arguments:
        digest = base64.urlsafe_b64encode(zlib.crc32(arguments).to_bytes(4, "big"))
        return f"{key}~{digest.decode().rstrip('=')}"
    return key or "~"
