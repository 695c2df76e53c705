"""What a log knows of its copies on other nodes: whether it has any, and what they and others may take of it.

A log with copies is *mirrored*. What is durable on this node alone may still be cut there: when another node
becomes the leader, logs agree on what most of them have. So a message counts in two steps: it is durable
here, and later it lies below the high watermark, which is set by whoever knows how far the copies reach.
Confirms, deliveries, checkpoints and readers in other processes wait for the second step. The log of one node
alone has only the first one.

Compiled, as the log is: see ``copies.pxd``.
"""

from __future__ import annotations

from ...errors import CorruptLog
from ..format.record import Batch
from .log_reader import LogReader
from .partition import Partition

#: Above every offset.
EVERYTHING = (1 << 64) - 1
#: Ends of batches that are kept in memory while they lie above the high watermark.
_ENDS_MAX = 4096


class Copies:
    """Those of one log. The log of one node alone leaves all of it as it is."""

    __slots__ = (
        "awaits_snapshot",
        "cleaned_at",
        "follows",
        "history_start",
        "is_cleaned",
        "mirrored",
        "shown",
        "stored_watermark",
        "visible_end",
    )

    def __init__(self) -> None:
        #: Other nodes have copies.
        self.mirrored = False
        #: Messages from this offset on are not delivered yet: the high watermark of a mirrored log.
        self.visible_end = EVERYTHING
        #: Its batches come from another node, with their times.
        self.follows = False
        #: What the last process knew of the high watermark.
        self.stored_watermark = 0
        #: Every batch from here on is there; below it settles may be cleaned away.
        self.history_start = 0
        #: Messages are left out of a segment since a checkpoint was made last.
        self.is_cleaned = False
        #: A state from before this offset has messages that were removed since.
        self.cleaned_at = 0
        #: The log's settles are not known until it gets another node's snapshot.
        self.awaits_snapshot = False
        self.shown = Shown()

    @property
    def holds_checkpoints(self) -> bool:
        """Whether checkpoints wait for the high watermark."""
        return self.mirrored and not self.awaits_snapshot


class Shown:
    """The ends of the batches above the high watermark: how far readers in other processes may read then."""

    __slots__ = ("_ends", "_is_cut_short")

    def __init__(self) -> None:
        #: (offset, base of the segment, position in it), rising.
        self._ends: list[tuple[int, int, int]] = []
        #: There are more than these; the others are found in the segments.
        self._is_cut_short = False

    def note(self, batch: Batch) -> None:
        """A batch is written, after all others."""
        segment = batch.segment
        assert segment is not None
        if self._is_cut_short or len(self._ends) == _ENDS_MAX:
            self._is_cut_short = True
        else:
            self._ends.append((batch.last + 1, segment.base, batch.position + batch.length))

    def clear(self) -> None:
        """The log is cut."""
        self._ends = []
        self._is_cut_short = False

    def place(self, partition: Partition, reader: LogReader, watermark: int) -> tuple[int, int, int]:
        """(offset, base of a segment, position in it): the end of the last batch below ``watermark``.

        A position that is not in memory is read from the segment, which happens once after a start.
        """
        ends = self._ends
        below = 0
        while below < len(ends) and ends[below][0] <= watermark:
            below += 1
        if below == len(ends) and self._is_cut_short:
            self.clear()
            ends, below = self._ends, 0
        del ends[: max(below - 1, 0)]
        segments = partition.segments
        at = len(segments) - 1
        while at > 0 and segments[at].base >= watermark:
            at -= 1
        segment = segments[at]
        if segment.base >= watermark:
            return watermark, segment.base, 0
        if segment.end < watermark and at + 1 < len(segments):
            # The segments between the two left the list. Their files may still be there, with settles that no
            # durable checkpoint has: the checkpoint that removes them waits for the high watermark.
            return watermark, segments[at + 1].base, 0
        if segment.end <= watermark and segment.written == segment.size:
            return watermark, segment.base, segment.written
        if below and ends[0][1] == segment.base:
            return ends[0]
        try:
            return reader.end_below(watermark)
        except (OSError, CorruptLog):
            return segment.base, segment.base, 0  # whoever reads the messages hears of it
