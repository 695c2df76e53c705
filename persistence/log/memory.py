"""The node's account of memory: everything that clients can make it hold, and the limit for all of it.

``used`` are the contents of messages in queues; beyond ``limit`` those go to disk. ``held`` is what
connections have under way: output that is not taken, contents that have not come whole, definitions and
batches of the routing log that are not written yet. ``kept`` are argument tables and names of what is
declared, names of the routing log's open segments, and remembered routes. Beyond ``whole`` the node is low on
memory.
"""

from __future__ import annotations

#: Share of ``whole`` that contents of messages may take before they go to disk: the rest of a large limit
#: is for what cannot.
CONTENTS_SHARE = 4
#: Share of ``whole`` for contents that have not come whole, all connections together, and one connection.
ARRIVING_SHARE = 2
ARRIVING_SHARE_ONE = 8
#: Share of ``whole`` for what is declared.
KEPT_SHARE = 4


class MemoryBudget:
    """Sums in bytes; everyone adds and subtracts directly, as it takes and drops what is counted.

    ``limit_bytes`` is for the contents of messages alone, ``whole_bytes`` for all; 0 is no limit for all.
    """

    __slots__ = ("arriving", "held", "kept", "limit", "used", "whole")

    def __init__(self, limit_bytes: int = 0, whole_bytes: int = 0) -> None:
        self.whole = whole_bytes
        self.limit = min(limit_bytes, whole_bytes // CONTENTS_SHARE) if whole_bytes else limit_bytes
        self.used = 0
        self.held = 0
        self.kept = 0
        #: Part of ``held``: announced by the headers of contents that have not come whole.
        self.arriving = 0

    def total(self) -> int:
        """All that is counted."""
        return self.used + self.held + self.kept

    def admit(self, size: int, mine: int) -> bool:
        """Take ``size`` bytes of a content to come, for a connection with ``mine`` bytes of others to come.

        False if there is no room: more than its share, or more than all may have together. A connection's
        only content may be as large as all of them.
        """
        whole = self.whole
        if whole and self.arriving + size > whole // ARRIVING_SHARE:
            return False
        if whole and mine and mine + size > whole // ARRIVING_SHARE_ONE:
            return False
        self.arriving += size
        self.held += size
        return True

    def release(self, size: int) -> None:
        """A content that was admitted is whole, or will never be."""
        self.arriving -= size
        self.held -= size

    def has_room_to_keep(self, size: int) -> bool:
        """Whether ``size`` bytes more may be declared; whoever declares adds them to ``kept``."""
        return not self.whole or self.kept + size <= self.whole // KEPT_SHARE
