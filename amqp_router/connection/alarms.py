"""The node's alarms: which resources are short, and which connections are blocked meanwhile.

A source sets and clears an alarm by the name of the resource ("memory", "disk"). While any alarm is on, a
connection is blocked at its first publish: it is no longer read, and a client with the capability
connection.blocked is told the reason. Connections that do not publish go on, because consumers free the
resource.

Source: RabbitMQ, "Memory and Disk Alarms" and "Blocked Connection Notifications".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: Connections unblocked per turn of the event loop after the last alarm is cleared.
RELEASE_SLICE = 200


class Blockable(Protocol):
    """A connection as the alarms see it."""

    def unblocked(self) -> None:
        """The last alarm is cleared: continue reading."""


class Alarms:
    """The alarms of one node. ``in_slices(step)`` calls ``step()`` once per turn until it returns True."""

    __slots__ = ("_blocked", "_in_slices", "_names", "on", "on_change")

    def __init__(self, in_slices: Callable[[Callable[[], bool]], None]) -> None:
        self._in_slices = in_slices
        self._names: set[str] = set()
        #: Blocked connections, the longest waiting first.
        self._blocked: dict[Blockable, None] = {}
        #: Whether any alarm is on; read at every publish.
        self.on = False
        #: Called with the name of an alarm and whether it is on now.
        self.on_change: Callable[[str, bool], None] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def set(self, name: str) -> None:
        """Set the alarm ``name``, if it is not set."""
        if name in self._names:
            return
        self._names.add(name)
        self.on = True
        if self.on_change is not None:
            self.on_change(name, True)

    def clear(self, name: str) -> None:
        """Clear the alarm ``name``, if it is set."""
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
        """The reason in connection.blocked, in RabbitMQ's words, with the resources in alphabetical order."""
        return "low on " + " & ".join(self.names)

    def block(self, connection: Blockable) -> None:
        """Block ``connection``, which published during an alarm. Its ``unblocked`` is called when no alarm is
        on.
        """
        self._blocked[connection] = None

    def forget(self, connection: Blockable) -> None:
        """``connection`` has ended."""
        self._blocked.pop(connection, None)

    def _release_more(self) -> bool:
        return not self._release()

    def _release(self) -> bool:
        """Unblock some connections; True if more are left."""
        for connection in list(self._blocked)[:RELEASE_SLICE]:
            if self.on:
                return False
            del self._blocked[connection]
            connection.unblocked()
        return not self.on and bool(self._blocked)
