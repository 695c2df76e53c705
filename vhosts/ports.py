"""The interfaces that a virtual host and the declarations in it need from the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from amqp_router.protocol.kept_table import Arguments
from persistence.definitions.records import Change
from vhosts.queues.destination import Host
from vhosts.queues.handle import QueueHandle

#: Calls a step once in each later turn of the event loop until it returns True.
InSlices: TypeAlias = Callable[[Callable[[], bool]], None]


class Permissions(Protocol):
    """What a user may do in one virtual host."""

    def check(
        self, action: Literal["configure", "write", "read"], kind: Literal["exchange", "queue"], name: str
    ) -> None:
        """See whether the user may do ``action`` to the exchange or queue ``name``.

        Raises:
            AccessRefused: the user may not (403).
        """

    def check_topic(self, action: Literal["write", "read"], exchange: str, key: str) -> None:
        """See whether the user may publish to a topic exchange with the routing key ``key`` (``write``), or
        bind to it with that (``read``).

        Raises:
            AccessRefused: the user may not (403).
        """


class DefinitionsPort(Protocol):
    """The store of durable definitions."""

    def submit(self, changes: Sequence[Change]) -> int:
        """Store ``changes`` in one transaction; returns their revision."""


class QueueFactory(Protocol):
    """Makes the queues of a virtual host, with their logs."""

    def __call__(
        self,
        *,
        vhost: Host,
        name: str,
        durable: bool,
        exclusive_owner: object,
        auto_delete: bool,
        arguments: Arguments,
        incarnation: str,
    ) -> QueueHandle:
        """Make a queue, ready for use. ``incarnation`` is the stored one, or empty for a new queue."""
