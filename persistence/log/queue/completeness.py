"""Whether a log reaches up to what was durable, by its checkpoint, its mark and the commit journal."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import CorruptLog
from ...files import join
from ..format.checkpoint import LogState
from ..format.segment import segment_name
from ..sync.journal import JournalEntry
from ..sync.marks import Mark
from .partition import Partition
from .report import Report


def required_end(state: LogState | None, mark: Mark | None) -> int:
    """The offset that a log must reach after recovery, because everything below was durable.

    If the checkpoint has a later epoch than the mark, it is that of a truncation, or newer than the mark.
    """
    known = state.recovery_offset if state is not None else 0
    if mark is None or (state is not None and mark.epoch < state.epoch):
        return known
    return max(known, mark.end)


def end_after_replay(end: int, journal: Sequence[JournalEntry], epoch: int) -> tuple[int, int]:
    """(end of the log after the replay, offset at which the journal continues after a gap or -1 without a
    gap).

    Batches of epochs below ``epoch`` were cut by a truncation. Batches after a damaged entry of the journal
    may belong to a round that was never acknowledged, so they prove no gap.
    """
    for entry in journal:
        if entry.header.base < end or entry.header.epoch < epoch:
            continue
        if entry.header.base > end:
            return end, -1 if entry.is_doubtful else entry.header.base
        end = entry.header.last + 1
    return end, -1


def is_marked(folded: LogState, mark: Mark | None) -> bool:
    """Whether, by the mark, all batches found in the segments are durable there.

    A mark is stored after a sync of the segments or of the journal, and a journal is removed after the
    segments are synced. So if no journal has an entry of the log, the mark is about the segments and their
    names.
    """
    return mark is not None and mark.epoch >= folded.epoch and mark.end >= folded.recovery_offset


def check_complete(
    partition: Partition,
    state: LogState | None,
    folded: LogState,
    journal: Sequence[JournalEntry],
    mark: Mark | None,
    report: Report,
) -> None:
    """Check that the segments and the journal together reach up to what was durable.

    Raises:
        CorruptLog: they do not.
    """
    end, goes_on = end_after_replay(folded.recovery_offset, journal, state.epoch if state is not None else 0)
    path, position = report.cut_path, report.cut_position
    if not path and partition.segments:
        path, position = partition.active.path, partition.active.size
    elif not path:
        path = join(partition.directory, segment_name(0))
    if goes_on >= 0:
        raise CorruptLog(path, position, f"the log ends at offset {end}, its journal goes on at {goes_on}")
    required = required_end(state, mark)
    if end < required:
        raise CorruptLog(path, position, missing_text(end, required))


def missing_text(end: int, required: int) -> str:
    """The error text for a log that ends at ``end`` but should reach ``required``."""
    return (
        f"the good part of the log ends here, at offset {end}, "
        f"but everything below offset {required} had been made durable"
    )
