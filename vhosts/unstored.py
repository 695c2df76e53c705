"""Removals that memory has made and the definition store has not stored yet.

A crash undoes such a removal: the next start restores the queue, exchange or binding. A persistent message
that was published meanwhile was routed without it and would then be missing in the queue. So the message is
confirmed only when the removal is stored, and refused (basic.nack) if the store fails, whatever other queues
it has reached. This concerns only publishes that the removed object could have routed.

Compiled: see ``unstored.pxd``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vhosts.publishing.ports import Run

if TYPE_CHECKING:
    from vhosts.exchanges.exchange import Exchange


class Unstored:
    """The unstored removals of one virtual host, with the revisions of the definitions that store them."""

    __slots__ = ("_all", "_exchanges", "_is_failing", "_queues", "_stored", "_waiting", "rev")

    def __init__(self) -> None:
        #: The last removal's revision; 0 if all are stored.
        self.rev = 0
        self._stored = 0
        #: The revision of the last removal that is so large that it may concern every publish.
        self._all = 0
        #: Revisions by name: of exchanges that were removed or have lost a binding, and of removed queues.
        self._exchanges: dict[str, int] = {}
        self._queues: dict[str, int] = {}
        self._waiting: dict[int, list[Run]] = {}
        self._is_failing = False

    def note_queue(self, name: str, rev: int) -> None:
        """The durable queue ``name`` was removed; ``rev`` stores it."""
        self.rev = self._queues[name] = rev

    def note_exchange(self, name: str, rev: int) -> None:
        """The durable exchange ``name`` was removed or has lost a stored binding; ``rev`` stores it."""
        self.rev = self._exchanges[name] = rev

    def note_many(self, rev: int) -> None:
        """Very many exchanges have lost bindings; ``rev`` stores it."""
        self.rev = self._all = rev

    def rev_for(self, exchanges: Iterable[Exchange], keys: Iterable[str]) -> int:
        """The revision on which a publish depends that has ``keys`` and passes ``exchanges``; 0: none."""
        rev = self._all
        for exchange in exchanges:
            rev = max(rev, self._exchanges.get(exchange.name, 0))
            if exchange.alternate is not None:
                rev = max(rev, self._exchanges.get(exchange.alternate, 0))
            if exchange.name == "":
                for key in keys:
                    rev = max(rev, self._queues.get(key, 0))
        return rev

    def hold(self, run: Run, rev: int) -> bool:
        """Count ``run`` down once ``rev`` is stored, or fail it; False if it is stored already."""
        if rev <= self._stored:
            return False
        run.remaining += 1
        if self._is_failing:
            run.settled(True)
        else:
            self._waiting.setdefault(rev, []).append(run)
        return True

    def stored(self, rev: int) -> None:
        """Everything up to ``rev`` is stored."""
        self._stored = rev
        if not self.rev:
            return
        if rev >= self.rev:
            self.rev = self._all = 0
            self._exchanges, self._queues = {}, {}
        else:
            self._exchanges = {name: last for name, last in self._exchanges.items() if last > rev}
            self._queues = {name: last for name, last in self._queues.items() if last > rev}
            if self._all <= rev:
                self._all = 0
        self._settle([last for last in self._waiting if last <= rev], failed=False)

    def failed(self) -> None:
        """Nothing is stored for now: tell the waiting publishers that the message is not safe."""
        self._is_failing = True
        self._settle(list(self._waiting), failed=True)

    def recovered(self) -> None:
        """The store works again."""
        self._is_failing = False

    def _settle(self, revs: Iterable[int], *, failed: bool) -> None:
        for rev in revs:
            for run in self._waiting.pop(rev):
                run.settled(failed)
