"""Limits of users and virtual hosts: how many connections and channels they may have open.

Source: RabbitMQ, "Virtual Hosts" and "Per-User Limits"; the texts are those of RabbitMQ 3.10.8, measured.
"""

from __future__ import annotations

from typing import Any

from amqp_router.auth.users import Users
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.protocol.errors import NotAllowed


class Admission:
    """Refuses connections and channels above the limits; see ``connection.ports.Admission``."""

    def __init__(self, users: Users, registry: ConnectionRegistry[Any]) -> None:
        self._users = users
        self._registry = registry

    def connection(self, user: Any, vhost: Any) -> None:
        """See ``connection.ports.Admission``."""
        limit = vhost.limits.max_connections
        if 0 <= limit <= self._registry.count_in(vhost):
            raise NotAllowed(
                f"access to vhost '{vhost.name}' refused for user '{user.name}': "
                f"connection limit ({limit}) is reached"
            )
        row = self._users.users.get(user.name)
        if row is not None and 0 <= row.max_connections <= len(self._registry.of_user(user.name)):
            raise NotAllowed(
                f"connection refused for user '{user.name}': "
                f"user connection limit ({row.max_connections}) is reached"
            )

    def channel(self, user: Any) -> None:
        """See ``connection.ports.Admission``."""
        row = self._users.users.get(user.name)
        if row is None or row.max_channels < 0:
            return
        opened = sum(len(transport.machine.channels) for transport in self._registry.of_user(user.name))
        if opened >= row.max_channels:
            raise NotAllowed(
                f"number of channels opened for user '{user.name}' has reached the maximum allowed "
                f"user limit of ({row.max_channels})"
            )
