"""The node's account of memory: everything that clients can make it hold, and the limit for all of it.

- ``used``: contents of messages in queues. Beyond ``limit`` they go to disk.
- ``held``: output that clients have not read, incomplete contents, and definitions and batches of the routing
  log that are not written yet.
- ``kept``: arguments and names of declared objects, names of the routing log's open segments, and cached
  routes.

``whole`` is the limit of all of them.

``work`` is no memory: it is the cost of writing contents to disk and reading them back, in enqueues of about
half a microsecond. Whoever causes it takes it (``take_work``) and is charged with it.
"""

from __future__ import annotations

#: Contents of messages may take one part in this many of ``whole`` before they go to disk. The rest is for
#: what cannot go to disk.
CONTENTS_SHARE = 4
#: Divisors of ``whole`` that give the room for incomplete contents: of all connections, and of one
#: connection.
ARRIVING_SHARE = 2
ARRIVING_SHARE_ONE = 8
#: Divisor of ``whole`` that gives the room for declared objects.
KEPT_SHARE = 4


class MemoryBudget:
    """Sums in bytes. Whoever holds memory adds to and subtracts from them directly.

    ``limit_bytes`` limits the contents of messages only, ``whole_bytes`` all sums; 0 means no limit for all.
    """

    __slots__ = ("arriving", "held", "kept", "limit", "used", "whole", "work")

    def __init__(self, limit_bytes: int = 0, whole_bytes: int = 0) -> None:
        self.whole = whole_bytes
        self.limit = min(limit_bytes, whole_bytes // CONTENTS_SHARE) if whole_bytes else limit_bytes
        self.used = 0
        self.held = 0
        self.kept = 0
        #: Part of ``held``: announced sizes of incomplete contents.
        self.arriving = 0
        self.work = 0

    def take_work(self) -> int:
        """What was done since the last call, in enqueues."""
        work = self.work
        self.work = 0
        return work

    def total(self) -> int:
        """The sum of all."""
        return self.used + self.held + self.kept

    def admit(self, size: int, mine: int) -> bool:
        """Reserve ``size`` bytes for a content of a connection with ``mine`` bytes of other incomplete
        contents.

        False if there is no room: the connection's share or the share of all would be exceeded. The only
        incomplete content of a connection may use the share of all.
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
        """Give back ``size`` bytes of an admitted content that is complete, or never will be."""
        self.arriving -= size
        self.held -= size

    def has_room_to_keep(self, size: int) -> bool:
        """Whether ``size`` more bytes may be declared. The caller adds them to ``kept``."""
        return not self.whole or self.kept + size <= self.whole // KEPT_SHARE
