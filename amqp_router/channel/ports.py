"""The interfaces that a channel needs from its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqp_router.protocol.output import Output
from amqp_router.protocol.tick import Tick
from vhosts.ports import Permissions


class Commits(Protocol):
    """Waits for revisions of the definitions."""

    committed: int

    def wait(self, rev: int, waiter: Any) -> None:
        """Call ``waiter.committed(rev)`` once ``rev`` is stored."""


class Connection(Protocol):
    """The connection of a channel. It is also the owner of exclusive queues."""

    tick: Tick
    output: Output
    commits: Commits
    permissions: Permissions
    vhost: Any
    frame_max: int
    consumer_cancel_notify: bool
    #: Channels and consumer tags that the running queue.delete cancelled; None when none runs.
    held_cancels: list[tuple[Any, str]] | None
    #: Whether the connection has ended, or is about to.
    stopped: bool
    #: Channels whose output waits for a commit.
    detached: set[Any]
    #: Work caused by the current chunk, in enqueues.
    units: int

    def generate_name(self, prefix: str) -> str:
        """A unique name that begins with ``prefix``."""

    def unstored(self, rev: int) -> None:
        """The method that is being carried out rests on revision ``rev``, which is not stored yet."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` now or in later turns, until it returns True; for work too long for one turn.

        Steps run in the order of the calls. No further frame of the connection is handled before they are
        done, so later frames cannot overtake them.
        """

    def charge(self, units: int) -> None:
        """Count ``units`` (enqueues and settles) against the connection's turn."""
