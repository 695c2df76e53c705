"""What a virtual host needs of the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from amqp_router.protocol.kept_table import Arguments
from persistence.definitions.records import Change
from vhosts.queues.handle import QueueHandle

if TYPE_CHECKING:
    from vhosts.vhost import VirtualHost

#: Calls a step once in each turn of the event loop, later than now, until it returns True.
InSlices: TypeAlias = Callable[[Callable[[], bool]], None]


class DefinitionsPort(Protocol):
    """Where the definitions of what is durable are kept."""

    def submit(self, changes: Sequence[Change]) -> int:
        """Take ``changes`` to be stored together; returns the revision they get."""


class QueueFactory(Protocol):
    """Makes the queues of a virtual host, logs and all."""

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
        """A queue ready for use. ``incarnation`` is that of a queue stored before, empty for a new one."""
