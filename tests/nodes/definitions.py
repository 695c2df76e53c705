"""The definition store of a simulated node: rows in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from persistence.definitions.records import (
    Change,
    Delete,
    DeleteBindings,
    DeleteVhost,
    Put,
    Row,
    Snapshot,
    VhostRow,
)
from persistence.errors import PersistenceError
from tests.persistence.definitions.support import applied


class SimDefinitions:
    """Rows that are stored when the test says so. Outlives the node, as a database does."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, Any], Row] = {}
        self.pending: deque[list[Change]] = deque()
        self.committed = 0
        #: Why nothing is stored for now, or None.
        self.failed: PersistenceError | None = None
        self.on_submitted: Callable[[Sequence[Change]], None] = lambda changes: None

    def submit(self, changes: Any) -> int:
        if self.failed is not None:
            raise self.failed
        self.pending.append(list(changes))
        self.on_submitted(changes)
        return self.committed + len(self.pending)

    def commit(self, count: int = 1 << 30) -> int:
        """Store the next ``count`` submissions; returns the revision now stored."""
        for _ in range(min(count, len(self.pending))):
            for change in self.pending.popleft():
                if isinstance(change, Put):
                    self.rows[change.kind, change.key] = change.row
                elif isinstance(change, (DeleteBindings, DeleteVhost)):
                    applied(self.rows, change)
                else:
                    assert isinstance(change, Delete)
                    del self.rows[change.kind, change.key]
            self.committed += 1
        return self.committed

    def lose(self) -> None:
        """What is not stored is gone."""
        self.pending.clear()
        self.failed = None

    def snapshot(self) -> Snapshot:
        """All rows; there is a virtual host, and nobody but ``SimUser``."""
        return Snapshot(
            self.committed,
            vhosts=self.of_kind("vhost") or [VhostRow("/")],
            exchanges=self.of_kind("exchange"),
            queues=self.of_kind("queue"),
            bindings=self.of_kind("binding"),
            parameters=self.of_kind("parameter"),
        )

    def of_kind(self, kind: str) -> list[Any]:
        return [row for (row_kind, _), row in self.rows.items() if row_kind == kind]
