"""Opens a log: from its checkpoint after a clean stop, otherwise by also reading all batches after it.

It decides between a torn tail, which is cut and kept in a file, and rot (damage), for which the log is not
opened (FORMAT.md, "What recovery does"). It first reads and decides everything. A log with rot is left
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import CorruptLog
from ...files import Disk, join
from ..format.checkpoint import FILE_NAME, LogState, write_checkpoint
from ..format.index import SparseIndex
from ..format.record import HEADER_SIZE, MESSAGES, Batch, BatchHeader
from ..format.scanner import Scanner, check_tail, records_of, recover_segment
from ..format.segment import INDEX_SUFFIX, SUFFIX, Segment, base_of, segment_name
from ..sync.journal import JournalEntry
from ..sync.marks import Mark
from .completeness import check_complete, is_marked
from .cutting import cut_tail
from .fold import fold
from .partition import Partition
from .queue_log import QueueLog
from .report import Report
from .saving import pack_state

_CHUNK_BYTES = 1 << 20
_U32_MAX = 0xFFFFFFFF


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
    if state is None:
        folded = LogState(log.incarnation, log.number)
    elif trusted and not journal:
        folded = state
    else:
        # Later batches are folded into this copy. It shares the settles with the checkpoint's state, which is
        # not used again.
        folded = replace(state, epochs=list(state.epochs))
    if not trusted:
        _scan(partition, disk, state, folded, bases, report, limit)
    if limit is None:
        check_complete(partition, state, folded, () if folded.is_cut else journal, mark, report)
        cut_tail(disk, directory, folded, report)
    if not partition.segments:
        partition.roll(folded.recovery_offset)
    active = partition.active
    if active.size:
        active.last_ts = max(active.last_ts, folded.last_us)
    is_synced = True
    if active.base in bases:
        # A checkpoint is written after the sync of what it covers.
        is_synced = state is not None and (state.recovery_segment, state.recovery_position) == (
            active.base,
            active.size,
        )
        if is_journal_whole and not journal:
            is_synced = is_synced or is_marked(folded, mark)
        # Neither of them speaks of a file without batches: the process may have ended before the sync of its
        # name, or, if it is the first one, of the log's directories.
        is_synced = is_synced and active.size > 0
        log.writer.resume(active, active.size, synced=is_synced)
    if not is_synced:
        # After a kill the page cache still shows bytes that were never synced. From here on they count as
        # durable. If a sync had failed before the kill, their pages would be marked as clean, and another
        # sync would skip them. Therefore they are written again.
        _rewrite(disk, active, report.synced_position)
    if not folded.is_cut:
        report.replayed_batches = _replay(log, folded, journal, state.epoch if state is not None else 0)
    if not is_synced:
        log.writer.make()
    for segment in partition.segments:
        segment.written = segment.size
    log.checkpoints.offset = state.recovery_offset if state is not None else 0
    log.begin(folded, unclean=not trusted and limit is None)
    if folded.is_cut and limit is None:
        # It is cut now, and what is written from here on is not to be cut.
        log.writer.sync()
        # A copy has batches of the epoch that it has, not of the one that begins here.
        epoch, log.epoch = log.epoch, folded.epoch
        parts = [pack_state(log)]
        log.epoch = epoch
        write_checkpoint(disk, join(directory, FILE_NAME), parts, clean=False, now_us=folded.last_us)
    return report


def _segment_bases(disk: Disk, directory: str, state: LogState | None) -> list[int]:
    """Base offsets of the segment files. Leftovers of interrupted work are removed."""
    bases: list[int] = []
    cut: list[str] = []
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
            elif state is not None and state.is_cut and _is_behind(base, state):
                cut.append(path)
            else:
                bases.append(base)
    for path in sorted(cut, reverse=True):
        disk.unlink(path)
    if cut:
        disk.sync_directory(directory)
    there = set(bases)
    for name in names:
        if name.endswith(INDEX_SUFFIX) and base_of(name.removesuffix(INDEX_SUFFIX) + SUFFIX) not in there:
            disk.unlink(join(directory, name))
    return bases


def _is_behind(base: int, state: LogState) -> bool:
    """Whether the segment lies completely behind the recovery point."""
    return base > state.recovery_segment or (base == state.recovery_segment and not state.recovery_position)


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
        self._is_cut = folded.is_cut and limit is None
        #: Whether it stopped at a batch of an earlier epoch than the checkpoint's.
        self.is_leftover = False

    def take(self, header: BatchHeader, payload: memoryview) -> bool:
        if header.epoch < self._epoch or self._is_cut:
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
        if folded.is_cut:
            folding.is_leftover = limit is None
        if limit is None and not folding.is_leftover:
            check_tail(scan, segment, partition.foreign, is_last=is_last)
    finally:
        file.close()
    report.cut_path = segment.path
    report.cut_position = scan.position
    report.cut_bytes = scan.size - scan.position
    report.is_leftover = folding.is_leftover
    return limit is None and not folding.is_leftover


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
    """Append the batches of the commit journal above the log's end that no truncation has cut.

    Before a truncation the journal is emptied, so if that was not finished all of them are cut.
    """
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
    batch.length = header.length
    batch.payload_crc = header.payload_crc
    batch.pieces = [data[HEADER_SIZE:]]
    return batch
