"""Removals that memory has made and the definition store has not stored yet.

A crash undoes such a removal: the next start brings the queue, exchange or binding back. A persistent message
that is published meanwhile passes it over and is not in the queue then. So the message is confirmed only when
the removal is stored, and refused (basic.nack) if the store fails, wherever else it goes.
This concerns publishes whose way leads by what was removed; all others wait for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vhosts.queues.handle import Run

if TYPE_CHECKING:
    from vhosts.exchanges.exchange import Exchange


class Unstored:
    """What is gone from one virtual host, by the revision of the definitions that stores it."""

    def __init__(self) -> None:
        #: The last removal's revision; 0 if all are stored.
        self.rev = 0
        self._stored = 0
        #: A removal of so much that it may concern every publish.
        self._all = 0
        #: By name: exchanges that are gone, or have lost a binding; queues that are gone.
        self._exchanges: dict[str, int] = {}
        self._queues: dict[str, int] = {}
        self._waiting: dict[int, list[Run]] = {}
        self._is_failing = False

    def note_queue(self, name: str, rev: int) -> None:
        """The durable queue ``name`` is gone once ``rev`` is stored."""
        self.rev = self._queues[name] = rev

    def note_exchange(self, name: str, rev: int) -> None:
        """The durable exchange ``name`` is gone, or has lost a stored binding, once ``rev`` is stored."""
        self.rev = self._exchanges[name] = rev

    def note_many(self, rev: int) -> None:
        """More exchanges than are worth naming have lost bindings once ``rev`` is stored."""
        self.rev = self._all = rev

    def rev_for(self, exchanges: Iterable[Exchange], keys: Iterable[str]) -> int:
        """The revision that a publish with ``keys`` depends on, whose way leads by ``exchanges``; 0: none."""
        rev = self._all
        for exchange in exchanges:
            rev = max(rev, self._exchanges.get(exchange.name, 0))
            if exchange.alternate is not None:
                rev = max(rev, self._exchanges.get(exchange.alternate, 0))
            if exchange.name == "":
                rev = max([rev, *[self._queues.get(key, 0) for key in keys]])
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
        """The store goes on."""
        self._is_failing = False

    def _settle(self, revs: Iterable[int], *, failed: bool) -> None:
        for rev in revs:
            for run in self._waiting.pop(rev):
                run.settled(failed)
