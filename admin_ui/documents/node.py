"""The node and what it is made of."""

from __future__ import annotations

import platform
from typing import Any

from admin_ui.state import State
from amqp_router.auth import MECHANISMS
from vhosts.exchanges.types import EXCHANGE_TYPES

#: The version of RabbitMQ whose HTTP API and AMQP behaviour this broker has. Clients decide by it what to ask
#: (Zabbix and Terraform parse it, rabbitmqadmin prints it), so it cannot be ours; ours is product_version.
RABBITMQ_VERSION = "3.10.8"

DESCRIPTIONS = {
    "direct": "exact routing key",
    "fanout": "copies to all",
    "headers": "matches header table",
    "topic": "matches key words",
}


def exchange_types() -> list[dict[str, Any]]:
    """The exchange types there are."""
    return [
        {"name": name, "description": DESCRIPTIONS.get(name, f"exchange type {name}"), "enabled": True}
        for name in sorted(EXCHANGE_TYPES)
    ]


def mechanisms() -> list[dict[str, Any]]:
    """How clients may authenticate."""
    return [{"name": name, "description": f"mechanism {name}", "enabled": True} for name in MECHANISMS]


def listeners(state: State) -> list[dict[str, Any]]:
    """Where clients are served; ports are numbers here."""
    found = []
    for protocol, (host, port) in (("amqp", state.options.amqp_address), ("http", state.address)):
        found.append(
            {"node": state.node, "protocol": protocol, "ip_address": host, "port": port, "socket_opts": []}
        )
    return found


def contexts(state: State) -> list[dict[str, Any]]:
    """What is served over HTTP; ports are texts here, as in RabbitMQ."""
    host, port = state.address
    return [
        {
            "ssl_opts": [],
            "node": state.node,
            "description": "RabbitMQ Management",
            "path": "/",
            "cowboy_opts": "[]",
            "ip": host,
            "port": str(port),
        }
    ]


def runtime() -> str:
    """What runs the broker, where RabbitMQ names its Erlang."""
    return f"{platform.python_implementation()} {platform.python_version()}"
