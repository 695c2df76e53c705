"""The closed batches of a log that are not written yet, each with its place in a segment.

Invariant: ``tail`` has, in order, those that are not known to be written; the outbox has those of them that
the sync has not taken yet.

Compiled, as the log is: see ``closed.pxd``.
"""

from __future__ import annotations

from ..format.record import Batch
from ..sync.checkpoints import Checkpoints
from .log_reader import Tail
from .partition import Partition


class Closed:
    """Those of one log."""

    __slots__ = ("_checkpoints", "_outbox", "end", "partition", "tail")

    def __init__(self, partition: Partition, checkpoints: Checkpoints) -> None:
        self.partition = partition
        self.tail = Tail()
        #: One above the last offset of the batch closed last: the base of the next one.
        self.end = 0
        self._checkpoints = checkpoints
        self._outbox: list[Batch] = []

    def place(self, batch: Batch) -> None:
        """Append a batch, which begins at ``end``."""
        if self.partition.place(batch):
            # With a checkpoint, recovery can begin after the closed segment.
            self._checkpoints.is_due = True
        self.end = batch.last + 1
        self.tail.add(batch)
        self._outbox.append(batch)

    def take(self) -> list[Batch]:
        """Those that the sync has not taken yet."""
        batches, self._outbox = self._outbox, []
        return batches

    @property
    def is_due(self) -> bool:
        """Whether ``take`` would return a batch."""
        return bool(self._outbox)

    def drop(self) -> None:
        """Forget all of them: the log is truncated."""
        self.tail.clear()
        self._outbox = []
