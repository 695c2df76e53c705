"""The node's alarms: what it is low on, and which connections wait until it is not.

A source sets and clears an alarm by the name of the resource ("memory", "disk"). While any is on, a
connection is blocked at its first publish: it is not read any more, and a client with the capability
connection.blocked is told the reason. Connections that publish nothing go on, so that what frees the
resource is never held up.

Source: RabbitMQ, "Memory and Disk Alarms" and "Blocked Connection Notifications"; semantics 2.11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: Connections let go per turn of the loop when the last alarm is cleared.
RELEASE_SLICE = 200


class Blockable(Protocol):
    """A connection as the alarms see it."""

    def unblocked(self) -> None:
        """The last alarm is cleared: go on reading."""


class Alarms:
    """The alarms of one node. ``in_slices(step)`` calls ``step()`` once per turn until it returns True."""

    __slots__ = ("_blocked", "_in_slices", "_names", "on", "on_change")

    def __init__(self, in_slices: Callable[[Callable[[], bool]], None]) -> None:
        self._in_slices = in_slices
        self._names: set[str] = set()
        #: Blocked connections, the one that waits longest first.
        self._blocked: dict[Blockable, None] = {}
        #: Whether any alarm is on; read at every publish.
        self.on = False
        #: Told the name of an alarm and whether it is on now.
        self.on_change: Callable[[str, bool], None] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def set(self, name: str) -> None:
        """The node is low on ``name``; again is no error."""
        if name in self._names:
            return
        self._names.add(name)
        self.on = True
        if self.on_change is not None:
            self.on_change(name, True)

    def clear(self, name: str) -> None:
        """The node has enough of ``name`` again; no error if it always had."""
        if name not in self._names:
            return
        self._names.remove(name)
        self.on = bool(self._names)
        if self.on_change is not None:
            self.on_change(name, False)
        if not self.on and self._blocked and self._release():
            self._in_slices(self._release_more)

    @property
    def names(self) -> list[str]:
        """The resources that the node is low on."""
        return sorted(self._names)

    @property
    def reason(self) -> str:
        """What connection.blocked says, in RabbitMQ's words; its order of the resources is alphabetical."""
        return "low on " + " & ".join(self.names)

    def block(self, connection: Blockable) -> None:
        """``connection`` published while an alarm is on: its ``unblocked`` is called when none is."""
        self._blocked[connection] = None

    def forget(self, connection: Blockable) -> None:
        """``connection`` ends."""
        self._blocked.pop(connection, None)

    def _release_more(self) -> bool:
        return not self._release()

    def _release(self) -> bool:
        """Let some go; True if there are more to let go."""
        for connection in list(self._blocked)[:RELEASE_SLICE]:
            if self.on:
                return False
            del self._blocked[connection]
            connection.unblocked()
        return not self.on and bool(self._blocked)
