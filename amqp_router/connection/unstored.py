"""Changes of the definitions that one connection made and that are not stored yet.

They count as its inflow, like published bytes that are not synced: a client that declares faster than the
store writes is not read until the store has caught up, also with nowait, where nothing else would hold it.
Otherwise one client could fill memory with changes that wait, whatever alarm is on.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from amqp_router.channel.publishing import Inflow

#: Memory of a change that waits: octets beside its text, and how many copies of the text there are. Measured
#: in ``persistence.definitions.store``.
CHANGE_BYTES = 400
CHANGE_COPIES = 2


class Unstored:
    """The changes of a connection with ``inflow``; ``commits`` tells when they are stored."""

    __slots__ = ("_commits", "_inflow", "_waiting")

    def __init__(self, inflow: Inflow, commits: Any) -> None:
        self._inflow = inflow
        self._commits = commits
        #: Revisions and bytes, the oldest first.
        self._waiting: deque[tuple[int, int]] = deque()

    def add(self, rev: int, octets: int) -> None:
        """A method of ``octets`` became revision ``rev``, which is not stored."""
        if self._commits.failed is not None:
            return  # whoever relies on it hears so
        size = CHANGE_BYTES + CHANGE_COPIES * octets
        self._inflow.add(size)
        self._waiting.append((rev, size))
        if len(self._waiting) == 1:
            self._commits.wait(rev, self)

    def committed(self, rev: int) -> None:
        """Everything up to ``rev`` is stored."""
        waiting = self._waiting
        stored = 0
        while waiting and waiting[0][0] <= rev:
            stored += waiting.popleft()[1]
        if waiting and self._commits.failed is None:
            self._commits.wait(waiting[0][0], self)
        self._inflow.remove(stored)

    def failed(self) -> None:
        """Nothing is stored for now: the client is read, and hears so when it declares."""
        waiting = self._waiting
        lost = sum([size for _, size in waiting])
        waiting.clear()
        self._inflow.remove(lost)
