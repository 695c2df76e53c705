"""The definitions in RabbitMQ's export format, which both brokers can import.

As in RabbitMQ, exclusive queues, the exchanges that every virtual host has, and the default exchange's
bindings are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from admin_ui.documents import node, policies, vhosts
from admin_ui.documents.arguments import arguments
from admin_ui.state import State
from amqp_router.parameters import COMPONENTS, GLOBAL, POLICY, Parameters
from amqp_router.version import VERSION
from vhosts.long_lists import passing
from vhosts.vhost import RESERVED_PREFIX, VirtualHost

#: Sections by name: a list, whose rows may be made while it is sent, or a string.
Sections = dict[str, Iterable[Any] | str]


def document(state: State) -> Sections:
    """The definitions of the whole broker, including users with their password hashes."""
    broker = state.broker
    users, found = broker.users, list(broker.vhosts.values())
    return {
        "rabbit_version": node.RABBITMQ_VERSION,
        "rabbitmq_version": node.RABBITMQ_VERSION,
        "product_name": "amqp-router",
        "product_version": VERSION,
        "users": [vhosts.user(row) for row in users.users.values()],
        "vhosts": [vhosts.defined(vhost.row) for vhost in found],
        "permissions": [vhosts.permission(row) for row in users.permissions.values()],
        "topic_permissions": [vhosts.topic_permission(row) for row in users.topic_permissions.values()],
        "parameters": _parameters(broker.parameters),
        "global_parameters": [
            {"name": name, "value": value} for _, name, value in broker.parameters.of(GLOBAL, GLOBAL)
        ],
        "policies": _policies(broker.parameters),
        "queues": chain.from_iterable(_queues(vhost, {"vhost": vhost.name}) for vhost in found),
        "exchanges": chain.from_iterable(_exchanges(vhost, {"vhost": vhost.name}) for vhost in found),
        "bindings": chain.from_iterable(_bindings(vhost, {"vhost": vhost.name}) for vhost in found),
    }


def of_vhost(vhost: VirtualHost, parameters: Parameters) -> Sections:
    """The definitions of one virtual host. The items do not have its name."""
    return {
        "rabbit_version": node.RABBITMQ_VERSION,
        "parameters": _without_vhost(_parameters(parameters, vhost.name)),
        "policies": _without_vhost(_policies(parameters, vhost.name)),
        "queues": _queues(vhost, {}),
        "exchanges": _exchanges(vhost, {}),
        "bindings": _bindings(vhost, {}),
    }


def _policies(parameters: Parameters, vhost: str | None = None) -> list[dict[str, Any]]:
    return [policies.document(each) for each in parameters.of(POLICY, vhost)]


def _parameters(parameters: Parameters, vhost: str | None = None) -> list[dict[str, Any]]:
    return [
        {"vhost": found[0], "component": component, "name": found[1], "value": found[2]}
        for component in COMPONENTS
        if component != POLICY
        for found in parameters.of(component, vhost)
    ]


def _without_vhost(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in item.items() if name != "vhost"} for item in items]


def _queues(vhost: VirtualHost, where: dict[str, str]) -> Iterator[dict[str, Any]]:
    for queue in passing(vhost.queues.values()):
        if queue.exclusive_owner is None and not queue.internal:
            yield {
                "name": queue.name,
                **where,
                "durable": bool(queue.durable),
                "auto_delete": bool(queue.auto_delete),
                "arguments": arguments(queue.arguments),
            }


def _exchanges(vhost: VirtualHost, where: dict[str, str]) -> Iterator[dict[str, Any]]:
    for exchange in passing(vhost.exchanges.values()):
        if exchange.name and not exchange.name.startswith(RESERVED_PREFIX):
            yield {
                "name": exchange.name,
                **where,
                "type": exchange.type,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": arguments(exchange.arguments),
            }


def _bindings(vhost: VirtualHost, where: dict[str, str]) -> Iterator[dict[str, Any]]:
    for binding in vhost.bindings.each():
        if getattr(binding.destination, "exclusive_owner", None) is None:
            yield {
                "source": binding.source.name,
                **where,
                "destination": binding.destination.name,
                "destination_type": binding.destination_type,
                "routing_key": binding.routing_key,
                "arguments": arguments(binding.arguments),
            }
