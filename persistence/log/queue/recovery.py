"""Opens a log: from its checkpoint after a clean stop, otherwise by also reading all batches after it.

It decides between a torn tail, which is cut and kept in a file, and rot (damage), for which the log is not
opened (FORMAT.md, "What recovery does"). It first reads and decides everything. A log with rot is left
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from errno import EDQUOT, ENOSPC

from ...errors import CorruptLog
from ...files import Disk, join, read_file, replace_file
from ..format.checkpoint import LogState
from ..format.index import SparseIndex
from ..format.record import HEADER_SIZE, MESSAGES, Batch, BatchHeader
from ..format.scanner import Scanner, check_tail, records_of, recover_segment
from ..format.segment import INDEX_SUFFIX, SUFFIX, Segment, base_of, segment_name
from ..sync.journal import JournalEntry
from ..sync.marks import Mark
from .fold import fold
from .partition import Partition
from .queue_log import QueueLog

_CHUNK_BYTES = 1 << 20
_U32_MAX = 0xFFFFFFFF
#: Suffix of files that are not segments; readers ignore them.
ASIDE_SUFFIX = ".cut"


@dataclass(slots=True)
class Report:
    """What recovery of one log did."""

    scanned_bytes: int = 0
    cut_path: str = ""
    cut_position: int = 0
    cut_bytes: int = 0
    replayed_batches: int = 0
    #: Segments that are completely after the cut.
    cut_segments: list[str] = field(default_factory=list)
    #: What is cut was left by an unfinished truncation.
    is_leftover: bool = False
    #: The file with the cut bytes; empty if there is none.
    kept_path: str = ""
    #: Position in the last segment up to which, by its own batches, it was synced.
    synced_position: int = 0
    #: The time of the log's last batch.
    last_us: int = 0


def recover(
    log: QueueLog,
    disk: Disk,
    state: LogState | None,
    *,
    clean: bool,
    journal: Sequence[JournalEntry] = (),
    mark: Mark | None = None,
    is_journal_whole: bool = False,
    limit: int | None = None,
) -> Report:
    """Bring ``log`` to the state its files hold, from checkpoint ``state``; ``clean`` = that state is final.

    ``mark`` says how far the log was durable; damage below it is rot. ``is_journal_whole``: ``journal`` has
    everything of this log that was durable only in a journal. The caller then calls ``log.writer.sync``,
    which makes durable what is written here and what is not known to be durable. With ``limit``, the first
    batch that reaches that offset and all later ones are left out; the report says where they begin, and the
    caller cuts them.

    Raises:
        CorruptLog: rot; nothing was changed.
        OSError: the disk failed.
    """
    report = Report()
    partition = log.partition
    directory = partition.directory
    bases = _segment_bases(disk, directory, state)
    for segment in known_segments(disk, directory, state, bases):
        if not segment.size:
            segment.index = SparseIndex(partition.options.index_interval_bytes)
        partition.add(segment)
    trusted = clean and limit is None and _is_as_left(partition, disk, state, bases)
    # Later batches are folded into this copy. It shares the settles with the checkpoint's state, which is not
    # used again.
    folded = replace(state, epochs=list(state.epochs)) if state else LogState(log.incarnation, log.number)
    if not trusted:
        _scan(partition, disk, state, folded, bases, report, limit)
    if limit is None:
        _check_complete(partition, state, folded, journal, mark, report)
        _cut_tail(disk, directory, folded, report)
    if not partition.segments:
        partition.roll(folded.recovery_offset)
    active = partition.active
    if bases and bases[-1] == active.base:
        # A checkpoint is written after the sync of what it covers.
        is_synced = state is not None and (state.recovery_segment, state.recovery_position) == (
            active.base,
            active.size,
        )
        if is_journal_whole and not journal:
            is_synced = is_synced or _is_marked(folded, mark)
        log.writer.resume(active, active.size, synced=is_synced)
    if log.writer.dirty:
        # After a kill the page cache still shows bytes that were never synced. From here on they count as
        # durable. If a sync had failed before the kill, their pages would be marked as clean, and another
        # sync would skip them. Therefore they are written again.
        _rewrite(disk, active, report.synced_position)
    report.replayed_batches = _replay(log, folded, journal, state.epoch if state is not None else 0)
    if log.writer.dirty:
        log.writer.create()
    for segment in partition.segments:
        segment.written = segment.size
    log.checkpoint_offset = state.recovery_offset if state is not None else 0
    report.last_us = folded.last_us
    log.begin(folded, unclean=not trusted and limit is None)
    return report


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


def _is_marked(folded: LogState, mark: Mark | None) -> bool:
    """Whether, by the mark, all batches found in the segments are durable there.

    A mark is stored after a sync of the segments or of the journal, and a journal is removed after the
    segments are synced. So if no journal has an entry of the log, the mark is about the segments and their
    names.
    """
    return mark is not None and mark.epoch >= folded.epoch and mark.end >= folded.recovery_offset


def _check_complete(
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


def _cut_tail(disk: Disk, directory: str, folded: LogState, report: Report) -> None:
    """Cut what recovery found after the last good batch. Keep it in a file, unless a truncation had cut
    it.
    """
    if not report.cut_path:
        return
    if not report.is_leftover:
        tail = read_file(disk, report.cut_path)[report.cut_position :]
        if any(tail):
            path = join(directory, f"torn-{folded.recovery_offset:020d}-{folded.epoch}{ASIDE_SUFFIX}")
            report.kept_path = _keep_aside(disk, path, tail)
        _cut(disk, report.cut_path, report.cut_position)
    else:
        cut_all(disk, directory, report)


def _keep_aside(disk: Disk, path: str, tail: bytes) -> str:
    """Keep the bytes of a torn tail in a file; returns its path, or "" if the disk is full.

    The bytes were never confirmed, so a full disk must not stop the queue because of them.
    """
    path = free_path(disk, path)
    try:
        replace_file(disk, path, tail)
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        disk.unlink(path + ".tmp")
        return ""
    return path


def free_path(disk: Disk, path: str) -> str:
    """``path``, or ``path`` with a number if that file exists already."""
    number = 1
    free = path
    while disk.exists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def cut_all(disk: Disk, directory: str, report: Report) -> None:
    """Remove what a truncation cuts, from the end backwards."""
    for path in reversed(report.cut_segments):
        disk.unlink(path.removesuffix(SUFFIX) + INDEX_SUFFIX)
        disk.unlink(path)
    if report.cut_segments:
        # The removal must be durable before the cut. Otherwise a segment might remain that does not follow on
        # the one before it, which is rot.
        disk.sync_directory(directory)
    disk.unlink(report.cut_path.removesuffix(SUFFIX) + INDEX_SUFFIX)
    _cut(disk, report.cut_path, report.cut_position)
    disk.sync_directory(directory)


def _segment_bases(disk: Disk, directory: str, state: LogState | None) -> list[int]:
    """Base offsets of the segment files. Leftovers of interrupted work are removed."""
    bases = []
    known = {segment.base for segment in state.segments} if state is not None else set()
    names = disk.list(directory)
    for name in names:
        base = base_of(name)
        path = join(directory, name)
        if name.endswith(".tmp"):
            disk.unlink(path)
        elif base is not None:
            if state is not None and base < state.recovery_segment and base not in known:
                # The checkpoint had decided its removal, which did not reach the disk.
                disk.unlink(path)
            else:
                bases.append(base)
    there = set(bases)
    for name in names:
        if name.endswith(INDEX_SUFFIX) and base_of(name.removesuffix(INDEX_SUFFIX) + SUFFIX) not in there:
            disk.unlink(join(directory, name))
    return bases


def _size_of(disk: Disk, path: str) -> int:
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def known_segments(disk: Disk, directory: str, state: LogState | None, bases: Sequence[int]) -> list[Segment]:
    """The segments that a checkpoint names, up to its recovery point. ``bases`` are those with a file.

    Raises:
        CorruptLog: one is missing, or the last ends before the recovery point.
    """
    if state is None:
        if bases and bases[0] != 0:
            path = join(directory, segment_name(bases[0]))
            raise CorruptLog(path, 0, "the segments before this one are gone and there is no checkpoint")
        return []
    present = set(bases)
    segments = []
    for known in state.segments:
        segment = Segment(directory, known.base)
        segment.end = known.end
        segment.records = known.records
        segment.live = known.live
        is_active = known.base == state.recovery_segment
        if known.base in present:
            size = _size_of(disk, segment.path)
            if is_active:
                if size < state.recovery_position:
                    raise CorruptLog(segment.path, size, "the segment ends before its recovery point")
                size = state.recovery_position
            segment.size = segment.written = size
        elif not is_active or state.recovery_position:
            raise CorruptLog(segment.path, 0, "the segment is missing")
        segments.append(segment)
    return segments


def _is_as_left(partition: Partition, disk: Disk, state: LogState | None, bases: list[int]) -> bool:
    """Whether the files are as the clean stop left them."""
    if state is None:
        return not bases
    if bases and bases[-1] == state.recovery_segment:
        return _size_of(disk, partition.active.path) == state.recovery_position
    return not bases or bases[-1] < state.recovery_segment


def _scan(
    partition: Partition,
    disk: Disk,
    state: LogState | None,
    folded: LogState,
    bases: list[int],
    report: Report,
    limit: int | None,
) -> None:
    """Fold every batch from the recovery point on; cut what is torn."""
    first = state.recovery_segment if state is not None else 0
    epoch = state.epoch if state is not None else 0
    todo = [base for base in bases if base >= first]
    for number, base in enumerate(todo):
        is_last = number == len(todo) - 1
        if partition.segments and partition.active.base == base:
            segment = partition.active
        else:
            path = join(partition.directory, segment_name(base))
            if base != folded.recovery_offset:
                raise CorruptLog(path, 0, f"the segment should begin at offset {folded.recovery_offset}")
            segment = Segment(partition.directory, base)
            segment.index = SparseIndex(partition.options.index_interval_bytes)
            partition.add(segment)
        if not _scan_segment(disk, partition, segment, folded, report, limit, epoch, is_last=is_last):
            report.cut_segments = [
                join(partition.directory, segment_name(later)) for later in todo[number + 1 :]
            ]
            return


class _Folding:
    """Folds the batches of one segment. It stops at ``limit``, and at what a truncation has left."""

    def __init__(self, folded: LogState, segment: Segment, limit: int | None, epoch: int) -> None:
        self._folded = folded
        self._segment = segment
        self._limit = limit
        self._epoch = epoch
        #: Whether it stopped at a batch of an earlier epoch than the checkpoint's.
        self.is_leftover = False

    def take(self, header: BatchHeader, payload: memoryview) -> bool:
        if header.epoch < self._epoch:
            self.is_leftover = True
            return False
        if self._limit is not None and header.last >= self._limit:
            return False
        fold(self._folded, header, records_of(header, payload))
        if header.kind == MESSAGES:
            self._segment.records += header.records
        return True


def _scan_segment(
    disk: Disk,
    partition: Partition,
    segment: Segment,
    folded: LogState,
    report: Report,
    limit: int | None,
    epoch: int,
    *,
    is_last: bool,
) -> bool:
    """Fold one segment from ``segment.size`` on; False if ``limit`` was reached in it.

    Batches of an epoch below ``epoch``, the checkpoint's, were left by an interrupted truncation.
    """
    folding = _Folding(folded, segment, limit, epoch)
    first = segment.size
    file = disk.open(segment.path)
    try:
        scan = Scanner(file, partition.salt, base=folded.recovery_offset, position=first)
        report.synced_position, _ = recover_segment(scan, segment, folding.take)
        report.scanned_bytes += scan.position - first
        if scan.position == scan.size:
            return True
        if limit is None and not folding.is_leftover:
            check_tail(scan, segment, partition.foreign, is_last=is_last)
    finally:
        file.close()
    report.cut_path = segment.path
    report.cut_position = scan.position
    report.cut_bytes = scan.size - scan.position
    report.is_leftover = folding.is_leftover
    return limit is None and not folding.is_leftover


def _cut(disk: Disk, path: str, position: int) -> None:
    file = disk.open(path, write=True)
    try:
        file.truncate(position)
        file.sync()
    finally:
        file.close()


def _rewrite(disk: Disk, segment: Segment, position: int) -> None:
    file = disk.open(segment.path, write=True)
    try:
        while position < segment.written:
            data = file.read(min(_CHUNK_BYTES, segment.written - position), position)
            file.write([data], position)
            position += len(data)
    finally:
        file.close()


def _replay(log: QueueLog, folded: LogState, journal: Sequence[JournalEntry], epoch: int) -> int:
    """Append the batches of the commit journal above the log's end that no truncation has cut."""
    batches = []
    for header, data, _ in journal:
        end = folded.recovery_offset
        if header.base < end or header.epoch < epoch:
            continue
        if header.base > end:
            break
        batch = raw_batch(header, data)
        fold(folded, header, records_of(header, data[HEADER_SIZE:]))
        log.partition.place(batch)
        batches.append(batch)
    if batches:
        log.writer.write(batches)
    return len(batches)


def raw_batch(header: BatchHeader, data: bytes) -> Batch:
    """A batch to write again unchanged, except for the header fields set at writing."""
    batch = Batch()
    batch.kind = header.kind
    batch.base = header.base
    batch.last = header.last
    batch.count = header.records
    batch.base_ts = header.base_ts
    batch.max_ts_delta = header.max_ts_delta
    batch.epoch = header.epoch
    batch.record_size = header.record_size
    batch.attributes = header.attributes
    batch.session = header.session
    batch.sequence = header.sequence
    batch.length = header.length
    batch.payload_crc = header.payload_crc
    batch.pieces = [data[HEADER_SIZE:]]
    return batch
