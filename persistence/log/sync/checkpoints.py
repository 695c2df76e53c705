"""When the next checkpoint of a log is due, and how far the durable ones reach."""

from __future__ import annotations

from ..format.segment import Segment


class Checkpoints:
    """The checkpoints of one log."""

    __slots__ = ("_last", "_unremoved", "durable", "is_due", "is_unsure", "offset")

    def __init__(self) -> None:
        #: The next round writes one.
        self.is_due = False
        #: The offset of the last durable one.
        self.offset = 0
        #: The number of the last one of this process that is durable.
        self.durable = 0
        #: A later one failed: either of the two may be on disk.
        self.is_unsure = False
        self._last = 0
        #: Segments that were removed from the list for a checkpoint that could then not be written.
        self._unremoved: list[Segment] = []

    @property
    def next(self) -> int:
        """The number of the next one, for comparison with ``durable``."""
        return self._last + 1

    def take(self, removed: list[Segment]) -> tuple[int, list[Segment]]:
        """A round writes one: its number, and the segments to remove after it, ``removed`` among them."""
        self.is_due = False
        self._last += 1
        removed, self._unremoved = self._unremoved + removed, []
        return self._last, removed

    def written(self, number: int, offset: int) -> None:
        """Number ``number``, which is that of everything below ``offset``, is durable."""
        self.is_unsure = False
        self.durable = number
        self.offset = offset

    def failed(self, removed: list[Segment], *, is_due: bool) -> None:
        """One was not written: the segments ``removed`` must wait for a later one, the next if ``is_due``."""
        self.is_due = self.is_due or is_due
        self._unremoved += removed
        self.is_unsure = True
