"""The one user of a simulated node, ``guest``, who may do everything that a test does not refuse."""

from __future__ import annotations

from amqp_router.protocol.errors import AccessRefused
from vhosts.vhost import VirtualHost


class Everything:
    """Permissions that refuse only what ``refused`` names."""

    def __init__(self) -> None:
        self.refused: set[tuple[str, str, str]] = set()

    def check(self, action: str, kind: str, name: str) -> None:
        if (action, kind, name) in self.refused:
            raise AccessRefused(f"access to {kind} '{name}' in vhost '/' refused for user 'guest'")

    def check_topic(self, action: str, exchange: str, key: str) -> None:
        pass


class SimUser:
    def __init__(self, name: str, permissions: Everything) -> None:
        self.name = name
        self._permissions = permissions

    def enter(self, vhost: str) -> Everything:
        return self._permissions


class NoLimits:
    """Lets everybody in."""

    def connection(self, user: SimUser, vhost: VirtualHost) -> None:
        pass

    def channel(self, user: SimUser) -> None:
        pass
