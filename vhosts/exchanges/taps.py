"""Whoever hears of every publish and delivery of a virtual host, see ``RoutingTable.taps``."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from amqp_router.protocol.message import Message
from vhosts.exchanges.route import Route


class Actor(NamedTuple):
    """Who published or was delivered to."""

    #: The connection's name as the HTTP API has it.
    connection: str
    channel: int
    user: str


class Tap(Protocol):
    """It must not change the messages."""

    def on_publish(self, route: Route, message: Message, actor: Actor) -> None:
        """``message`` is about to go to ``route``."""

    def on_delivery(self, queue: str, message: Message, actor: Actor) -> None:
        """``queue`` delivers ``message``, which has its content."""
