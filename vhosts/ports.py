"""The interfaces that a virtual host needs from the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from amqp_router.protocol.kept_table import Arguments
from persistence.definitions.records import Change
from vhosts.queues.handle import QueueHandle

if TYPE_CHECKING:
    from vhosts.vhost import VirtualHost

#: Calls a step once in each later turn of the event loop until it returns True.
InSlices: TypeAlias = Callable[[Callable[[], bool]], None]


class DefinitionsPort(Protocol):
    """The store of durable definitions."""

    def submit(self, changes: Sequence[Change]) -> int:
        """Store ``changes`` in one transaction; returns their revision."""


class QueueFactory(Protocol):
    """Makes the queues of a virtual host, with their logs."""

    def __call__(
        self,
        *,
        vhost: VirtualHost,
        name: str,
        durable: bool,
        exclusive_owner: Any,
        auto_delete: bool,
        arguments: Arguments,
        incarnation: str,
    ) -> QueueHandle:
        """Make a queue, ready for use. ``incarnation`` is the stored one, or empty for a new queue."""
