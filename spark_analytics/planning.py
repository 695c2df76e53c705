"""Plans a read: divides the segments of a snapshot into splits, one for each task.

Logs, segments and parts of segments that cannot hold a wanted row are left out, by virtual host, queue,
partition, exchange, offset and time. The rest is packed into few large splits, because every task costs Spark
20 to 90 ms, whatever it reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from . import layout
from .errors import DataLoss, OptionError
from .index import SegmentIndex, ends_before, first_time, load_index
from .options import EARLIEST, LATEST, Offsets, ReadOptions, Selection
from .segments import Piece
from .snapshot import Log, Segment, log_text

#: A split is not made smaller than this, because a task costs more.
SPLIT_BYTES_LEAST = 8 << 20
#: Opening a file counts as much as reading this many bytes.
FILE_COST_BYTES = 64 << 10

#: Loads the index of a segment: of (directory, segment, salt of the log).
LoadIndex = Callable[[str, Segment, int], SegmentIndex]


@dataclass(frozen=True, slots=True)
class LogRef:
    """The part of a log's data that a task needs."""

    node: str
    directory: str
    vhost: str
    queue: str
    id: str
    partition: int
    salt: int
    #: Of a queue's log all segments and its end: what became of a message stands behind it.
    segments: tuple[Segment, ...] = ()
    end: int = 0

    def __str__(self) -> str:
        return log_text(self.vhost, self.queue, self.partition)


@dataclass(frozen=True, slots=True)
class Split:
    """The work of one task: pieces in the order of log and offset. ``Piece.log`` is an index of ``logs``."""

    logs: tuple[LogRef, ...]
    pieces: tuple[Piece, ...]


def plan(logs: list[Log], options: ReadOptions, selection: Selection, cores: int = 0) -> list[Split]:
    """The splits of a read; none if no row is wanted.

    ``selection`` is that of the options, possibly narrowed. ``cores`` 0 = those of this machine.

    Raises:
        DataLoss: offsets named by the options, or in the snapshot, are gone (``failOnDataLoss``).
        OptionError: the options name offsets that do not exist yet.
        CorruptLog: a segment does not begin with a batch.
    """
    check_offsets(logs, options)
    if options.fail_on_data_loss:
        _check_segments(logs, options)
    else:
        logs = list(_left(logs))
    return plan_ranges(((log, *_range(log, options)) for log in logs), options, selection, cores)


def plan_ranges(
    ranges: Iterable[tuple[Log, int, int]],
    options: ReadOptions,
    selection: Selection,
    cores: int = 0,
    load: LoadIndex = load_index,
) -> list[Split]:
    """The splits of the offsets ``[low, high)`` of each log; none if no row is wanted.

    Raises:
        CorruptLog: a segment does not begin with a batch.
    """
    is_routing = options.table == "routing"
    found = [
        (log, _pieces(log, low, high, selection, load, is_routing=is_routing))
        for log, low, high in ranges
        if low < high and _may_hold(log, options, selection)
    ]
    total = sum(piece.end - piece.start + FILE_COST_BYTES for _, pieces in found for piece in pieces)
    cores = cores or os.cpu_count() or 1
    least = min(SPLIT_BYTES_LEAST, options.split_bytes)
    target = min(max(-(-total // cores), least), options.split_bytes)
    return list(_packed(found, target, load))


def _may_hold(log: Log, options: ReadOptions, selection: Selection) -> bool:
    if selection.vhosts is not None and log.vhost not in selection.vhosts:
        return False
    if selection.partitions is not None and log.partition not in selection.partitions:
        return False
    if options.table == "messages":
        return selection.queues is None or log.queue in selection.queues
    if selection.exchanges is None or any("\ufffd" in name for name in selection.exchanges):
        return True
    held = {layout.routing_partition(name, log.partitions) for name in selection.exchanges}
    return log.partition in held


def _range(log: Log, options: ReadOptions) -> tuple[int, int]:
    """First offset and end of the part of a log that the options select."""
    low = asked_offset(log, options.starting, EARLIEST, "startingOffsets")
    high = asked_offset(log, options.ending, None, "endingOffsets")
    return max(low, log.start), min(high, log.end)


def asked_offset(log: Log, offsets: int | Offsets, missing: int | None, option: str) -> int:
    """One end of the range. ``missing`` is used for a log that the JSON does not name (None = it is not
    read).
    """
    if isinstance(offsets, Mapping):
        named = [offsets[name] for name in _names_of(log) if name in offsets]
        asked = named[0].get(log.partition, missing) if named else missing
        if asked is None:
            return log.start
        if asked > log.end:
            raise OptionError(f"option {option!r}: {log} ends at offset {log.end}, {asked} is not there yet")
        offsets = asked
    if offsets == EARLIEST:
        return log.start
    return log.end if offsets == LATEST else offsets


def _names_of(log: Log) -> tuple[str, ...]:
    """The names of a log in the options: with its node, or without it if one directory is read."""
    return (f"{log.node}/{log.id}", log.id, *(() if log.queue else (log.vhost,)))


def check_offsets(logs: list[Log], options: ReadOptions) -> None:
    """Check that the logs have the offsets that the options name.

    Raises:
        OptionError: a partition or an offset does not exist yet.
        DataLoss: a log or offsets are gone (``failOnDataLoss``).
    """
    for option, offsets in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        if not isinstance(offsets, Mapping):
            continue
        known = {name: log for log in logs for name in _names_of(log)}
        nodes = {log.node for log in logs}
        for name, asked in offsets.items():
            if name in known:
                if len(nodes) > 1 and name != _names_of(known[name])[0]:
                    raise OptionError(
                        f"option {option!r}: several nodes are read, and each may have a log {name!r}; "
                        f"write {_names_of(known[name])[0]!r}, as spark_analytics.end_offsets does"
                    )
                wrong = [number for number in asked if number >= known[name].partitions]
                if wrong:
                    raise OptionError(f"option {option!r}: log {name!r} has no partition {wrong[0]}")
            elif options.fail_on_data_loss and not _narrowed(options):
                raise DataLoss(
                    f"option {option!r}: log {name!r} does not exist (any more); "
                    "set option failOnDataLoss=false to read what is left"
                )
    for log in logs:
        low, high = _range(log, options)
        if options.fail_on_data_loss and isinstance(options.starting, Mapping):
            first = asked_offset(log, options.starting, EARLIEST, "startingOffsets")
            if first < min(log.start, high):
                raise DataLoss(
                    f"option 'startingOffsets': offsets {first} to {min(low, high) - 1} of {log} are gone "
                    f"({why(log)}); set option failOnDataLoss=false to read what is left"
                )


def _check_segments(logs: list[Log], options: ReadOptions) -> None:
    """Check that every wanted segment is the same as when the snapshot was taken."""
    for log in logs:
        low, high = _range(log, options)
        for number, segment in enumerate(log.segments):
            end = log.segments[number + 1].base if number + 1 < len(log.segments) else log.end
            if segment.base < high and end > low and _inode(log, segment) != segment.inode:
                raise DataLoss(loss_text(log, max(segment.base, low), min(end, high)))


def _narrowed(options: ReadOptions) -> bool:
    """Whether the options leave out logs whatever their offsets are."""
    selection = options.selection
    return any(names is not None for names in (selection.vhosts, selection.queues, selection.partitions))


def loss_text(log: Log | LogRef, low: int, high: int) -> str:
    """The error text for offsets that are gone: which, why, and what to do."""
    return (
        f"offsets {low} to {high - 1} of {log} are gone or were cleaned since the table was loaded "
        f"({why(log)}); load the table again, or set option failOnDataLoss=false to read what is left"
    )


def why(log: Log | LogRef) -> str:
    """Why offsets of such a log are removed."""
    if log.queue:
        return "their messages were settled, or the queue was purged or deleted"
    return "the routing log keeps only as much as its options say"


def gap_text(log: LogRef, low: int, high: int) -> str:
    """As ``loss_text``, for offsets missing in the middle of a log."""
    what = f"offsets {low} to {high - 1} of {log}"
    return (
        f"{what} are missing: the broker set a damaged segment aside, or lost it; "
        "set option failOnDataLoss=false to read what is left"
    )


def _inode(log: Log, segment: Segment) -> int:
    try:
        return os.stat(segment_path(log.directory, segment.base)).st_ino
    except FileNotFoundError:
        return -1


def _left(logs: list[Log]) -> Iterator[Log]:
    """The logs with the segments that still exist; rewritten ones have their new size."""
    for log in logs:
        segments = []
        for segment in log.segments:
            try:
                status = os.stat(segment_path(log.directory, segment.base))
            except FileNotFoundError:
                continue
            is_same = status.st_ino == segment.inode
            segments.append(segment if is_same else Segment(segment.base, status.st_ino, status.st_size))
        yield replace(log, segments=tuple(segments))


def segment_path(directory: str, base: int) -> str:
    """The file of a segment."""
    return os.path.join(directory, layout.file_name(base, layout.LOG_SUFFIX))


def _pieces(
    log: Log, low: int, high: int, selection: Selection, load: LoadIndex, *, is_routing: bool
) -> list[Piece]:
    """One piece per segment that may hold wanted rows."""
    pieces = []
    start_us, end_us = selection.start_us, selection.end_us
    by_time = start_us is not None or end_us is not None
    segments = log.segments
    for number in range(len(segments) - 1, -1, -1):
        segment = segments[number]
        is_last = number == len(segments) - 1
        end = log.end if is_last else segments[number + 1].base
        if segment.base >= high or end <= low or not segment.size:
            continue
        if by_time:
            first = first_time(segment_path(log.directory, segment.base), log.salt)
            if end_us is not None and first >= end_us:
                continue
            # A segment may have earlier times than the one before it, so each is looked at alone.
            may_end_before = start_us is not None and first < start_us
            if may_end_before and ends_before(log.directory, segment, log.salt, start_us or 0):
                continue
        expected = end if is_last or is_routing else segment.end
        piece = Piece(
            log=0,
            base=segment.base,
            start=0,
            end=segment.size,
            first=segment.base,
            next=expected,
            low=max(low, segment.base),
            high=min(high, end),
            inode=segment.inode,
            is_last=is_last,
        )
        if _is_narrow(piece, end, by_time):
            piece = _narrow(load(log.directory, segment, log.salt), piece, selection)
        pieces.append(piece)
    pieces.reverse()
    return [piece for piece in pieces if piece.start < piece.end]


def _is_narrow(piece: Piece, end: int, by_time: bool) -> bool:
    """Whether reading the index is worthwhile."""
    is_part = piece.low > piece.base or piece.high < end
    return (is_part or by_time) and piece.end > 2 * layout.INDEX_INTERVAL_BYTES


def _narrow(index: SegmentIndex, piece: Piece, selection: Selection) -> Piece:
    """The piece between the index entries around its offsets and the wanted times."""
    first = index.at_offset(piece.low)
    if selection.start_us is not None:
        first = max(first, index.at_time(selection.start_us))
    after = index.after_offset(piece.high)
    if selection.end_us is not None:
        by_time = index.after_time(selection.end_us)
        after = min(after, by_time) if after and by_time else after or by_time
    piece = piece._replace(start=first.position, first=first.offset, low=max(piece.low, first.offset))
    if after is not None:
        piece = piece._replace(end=after.position, next=after.offset, high=min(piece.high, after.offset))
    return piece


def _packed(found: list[tuple[Log, list[Piece]]], target: int, load: LoadIndex) -> Iterator[Split]:
    """Splits of about ``target`` bytes."""
    logs: list[LogRef] = []
    pieces: list[Piece] = []
    size = 0
    for log, whole in found:
        reference = LogRef(log.node, log.directory, log.vhost, log.queue, log.id, log.partition, log.salt)
        if log.queue:
            reference = replace(reference, segments=log.segments, end=log.end)
        for big in whole:
            for piece in _cut(log, big, target - size, target, load):
                if pieces and size + piece.end - piece.start > target + target // 8:
                    yield Split(tuple(logs), tuple(pieces))
                    logs, pieces, size = [], [], 0
                if not logs or logs[-1] != reference:
                    logs.append(reference)
                pieces.append(piece._replace(log=len(logs) - 1))
                size += piece.end - piece.start + FILE_COST_BYTES
    if pieces:
        yield Split(tuple(logs), tuple(pieces))


def _cut(log: Log, piece: Piece, room: int, target: int, load: LoadIndex) -> Iterator[Piece]:
    """The piece in parts: the first fills the ``room`` of the split before, others have ``target`` bytes."""
    if piece.end - piece.start <= max(room, target // 4):
        yield piece
        return
    segment = next(segment for segment in log.segments if segment.base == piece.base)
    index = load(log.directory, segment, log.salt)
    limit = piece.start + (room if room > target // 8 else target)
    for entry in index.entries:
        if piece.start < entry.position < piece.end and entry.position >= limit:
            if piece.end - entry.position < target // 8:
                break
            yield piece._replace(end=entry.position, next=entry.offset, high=min(piece.high, entry.offset))
            piece = piece._replace(start=entry.position, first=entry.offset, low=max(piece.low, entry.offset))
            limit = entry.position + target
    yield piece
