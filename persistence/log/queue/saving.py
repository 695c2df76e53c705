"""Makes the checkpoints of a log: what they hold, when they may be written, and what goes with them.

A checkpoint is made of everything below the end of a round. That of a mirrored log waits (``held``) until the
high watermark has reached this end.

Compiled, as the log is: see ``saving.pxd``.
"""

from __future__ import annotations

from typing import Protocol

from ..format.checkpoint import LogState, SegmentState, pack_log
from ..sync.checkpoints import Checkpoints
from ..sync.round import Submission
from .batches import Batches
from .copies import Copies
from .held import Held, hold, reached
from .partition import Partition


class SavedLog(Protocol):
    """What a checkpoint is made of."""

    incarnation: str
    number: int
    start: int
    end: int
    high_watermark: int
    redelivered_floor: int
    batches: Batches
    copies: Copies
    checkpoints: Checkpoints

    @property
    def partition(self) -> Partition: ...


class Saving:
    """The checkpoints of one log that are made and not durable yet."""

    __slots__ = ("_end", "held")

    def __init__(self) -> None:
        self.held: list[Held] = []
        #: The offset of the one that the sync has.
        self._end = 0

    def make(self, log: SavedLog) -> None:
        """Make one of everything below the end of the batches, and remove what it makes superfluous."""
        partition, copies, end = log.partition, log.copies, log.batches.closed.end
        if copies.mirrored:
            partition.recount(log.batches.state)  # a follower does not count what its batches settle
        # A follower that has all below the high watermark finds all that it lacks.
        below = log.high_watermark if copies.mirrored else log.end
        removed = [] if copies.awaits_snapshot else partition.remove_gone(below)
        for segment in removed:
            copies.history_start = max(copies.history_start, segment.end)
        if removed or copies.is_cleaned:
            copies.is_cleaned = False
            copies.cleaned_at = end
        number, removed = log.checkpoints.take(removed)
        state, index = pack_state(log, is_held=copies.holds_checkpoints), partition.active.pack_index()
        hold(self.held, Held(number, end, state, removed, index, partition.segments[0].base))

    def submit(self, log: SavedLog, submission: Submission) -> None:
        """Give a round the newest one that may be written, if there is one."""
        limit = log.high_watermark if log.copies.holds_checkpoints else log.end
        held = reached(self.held, limit)
        if held is not None:
            submission.checkpoint_number, self._end = held.number, held.end
            submission.checkpoint, submission.removed = held.state, held.removed
            submission.index = held.index_file
            # Not before: settles above the high watermark may still be undone.
            log.start = max(log.start, held.start)

    def written(self, log: SavedLog, number: int) -> None:
        """The one that the sync had is durable."""
        log.checkpoints.written(number, self._end)

    def is_reached(self, watermark: int) -> bool:
        """Whether one has waited for this high watermark."""
        return bool(self.held) and self.held[0].end <= watermark


def pack_state(log: SavedLog, *, is_cut: bool = False, is_held: bool = False) -> bytes:
    """A log's part of a checkpoint. Everything must be sealed.

    ``is_held``: when this is written, the high watermark will have reached the end. ``is_cut``: what lies
    behind the end is to be cut by the start, if that is not done before.
    """
    batches, active, end = log.batches, log.partition.active, log.batches.closed.end
    batches.state.advance(log.end)
    copies, epochs, partition = log.copies, batches.epochs, log.partition
    return pack_log(
        LogState(
            log.incarnation,
            log.number,
            start=max(log.start, partition.segments[0].base),
            recovery_offset=end,
            recovery_segment=active.base,
            recovery_position=active.size,
            high_watermark=end if is_held else min(log.high_watermark, end),
            # A copy goes on in the epoch of its last batch. A start would take further batches of that epoch
            # for what a truncation has left if a later one, which nobody has begun, stood here.
            epoch=epochs.last() if copies.mirrored and epochs.is_pending else epochs.current,
            epochs=epochs.starts,
            redelivered_floor=log.redelivered_floor,
            last_us=batches.last_us,
            segments=[SegmentState(s.base, s.end, s.size, s.records, s.live) for s in partition.segments],
            settles=batches.state,
            returned=batches.returned,
            generation=batches.generation,
            is_cut=is_cut,
            awaits_snapshot=copies.awaits_snapshot,
            history_start=copies.history_start,
            sources=batches.taken.sources,
            producers=batches.taken.producers,
        )
    )
