"""Virtual hosts, users and permissions."""

from __future__ import annotations

from typing import Any

from admin_ui.documents.stats import DELIVERED_FIELDS, Stats, happened
from amqp_router.metrics import OCTETS, PUBLISHED, VHOST, Row
from persistence.definitions import PermissionRow, TopicPermissionRow, UserRow, VhostRow
from vhosts.vhost import VirtualHost

MESSAGES = ("messages", "messages_ready", "messages_unacknowledged")


def document(vhost: VirtualHost, node: str, stats: Stats, row: Row) -> dict[str, Any]:
    """A virtual host. ``row`` has its counters."""

    def values(names: tuple[str, ...]) -> dict[str, int]:
        return {name: sum([row[column] for column in VHOST.fields[name]]) for name in names}

    history = stats.metrics.history(vhost)
    found: dict[str, Any] = {"cluster_state": {node: "running"}, **about(vhost.row)}
    stats.put(found, values(MESSAGES), history, VHOST, "lengths")
    stats.put(found, values(OCTETS), history, VHOST, "data_rates")
    message_stats = values((*PUBLISHED, *DELIVERED_FIELDS))
    if happened(message_stats):
        found["message_stats"] = stats.put({}, message_stats, history, VHOST, "msg_rates")
    return found


def about(row: VhostRow) -> dict[str, Any]:
    """What the operator has said of a virtual host."""
    tags = list(row.tags)
    return {
        "default_queue_type": row.default_queue_type or "undefined",
        "description": row.description,
        "metadata": {"description": row.description, "tags": tags},
        "name": row.name,
        "tags": tags,
        "tracing": row.tracing,
    }


def defined(row: VhostRow) -> dict[str, Any]:
    """A virtual host among the definitions; what is as in a new one is left out."""
    found = about(row)
    del found["metadata"]
    usual = about(VhostRow(row.name))
    return {name: value for name, value in found.items() if name == "name" or value != usual[name]}


def user(row: UserRow) -> dict[str, Any]:
    """A user, with the hash of its password as RabbitMQ's definitions have it."""
    return {
        "name": row.name,
        "password_hash": row.password_hash,
        "hashing_algorithm": row.hashing_algorithm,
        "tags": list(row.tags),
        "limits": limits(row),
    }


def limits(row: UserRow) -> dict[str, int]:
    """The limits of a user that are set."""
    found = {"max-connections": row.max_connections, "max-channels": row.max_channels}
    return {name: limit for name, limit in found.items() if limit >= 0}


def topic_permission(row: TopicPermissionRow) -> dict[str, Any]:
    """The permission of a user for the routing keys of a topic exchange."""
    return {
        "user": row.user,
        "vhost": row.vhost,
        "exchange": row.exchange,
        "write": row.write,
        "read": row.read,
    }


def permission(row: PermissionRow) -> dict[str, Any]:
    """The permission of a user in a virtual host."""
    return {
        "user": row.user,
        "vhost": row.vhost,
        "configure": row.configure,
        "write": row.write,
        "read": row.read,
    }
