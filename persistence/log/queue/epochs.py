"""The epochs of a log: every process that writes to it begins one, and every node that comes to lead it.

An epoch begins with a batch that names it. That batch is made when the first other one is due, so that a
process that writes nothing begins none.

Compiled, as the log is: see ``epochs.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..format.checkpoint import LogState
from ..format.record import epoch_start


def epoch_at(starts: Sequence[tuple[int, int]], offset: int) -> int:
    """The epoch in which the record at ``offset`` was written; 0 below the first one."""
    for epoch, first in reversed(starts):  # mostly the last one
        if first <= offset:
            return epoch
    return 0


class LogEpochs:
    """Those of one log."""

    __slots__ = ("_boot_id", "_previous", "continued_at", "current", "is_pending", "starts")

    def __init__(self, boot_id: bytes) -> None:
        #: That of the batches that are made now.
        self.current = 0
        #: (epoch, its first offset), rising.
        self.starts: list[tuple[int, int]] = []
        #: The batch that begins ``current`` is not made yet.
        self.is_pending = True
        #: Where this process has continued the log.
        self.continued_at = 0
        self._previous = 0
        self._boot_id = boot_id

    def last(self) -> int:
        """The epoch of the last batch; 0 in an empty log."""
        return self.starts[len(self.starts) - 1][0] if self.starts else 0

    def at(self, offset: int) -> int:
        """The epoch in which the message at ``offset`` was written."""
        index = len(self.starts) - 1
        if index >= 0 and self.starts[index][1] <= offset:
            return self.starts[index][0]  # the last one, as nearly always
        return epoch_at(self.starts, offset)

    def start(self, base: int) -> bytes:
        """``current`` begins at ``base``: the payload of the batch that says so."""
        self.is_pending = False
        self.starts.append((self.current, base))
        return epoch_start(self.current, self._previous, self._boot_id)

    def begin(self, state: LogState) -> None:
        """Continue what ``state`` has, in a new epoch."""
        self.starts = state.epochs
        self.continued_at = state.recovery_offset
        self.lead(max(state.epoch, self.last()) + 1)

    def lead(self, epoch: int) -> None:
        """The next batch begins ``epoch``, which is above all others."""
        self._previous = self.last()
        self.current = epoch
        self.is_pending = True

    def follow(self) -> None:
        """Begin none: they come with another node's batches."""
        self.current = self.last()
        self.is_pending = False
