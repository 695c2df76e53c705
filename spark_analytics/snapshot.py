"""The content of a data directory at one moment: its logs, their segments, and how far each is durable.

The snapshot is taken once when a table is loaded. Planning and all reads use it, so every query of a table
gives the same rows while the broker goes on writing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from . import layout
from .checkpoints import Listed, NodeCheckpoint
from .discovery import Described, Node, check_names, check_promised, discover, find_nodes, is_used, wanted
from .errors import CorruptLog, IncompleteDirectory, NoMarks
from .known import check_routed_names
from .options import ReadOptions
from .segments import BadBatch, iterate_batches
from .synced import Mark, Marks, read_marks

#: A log whose files do not fit its mark or checkpoint may be changing, so it is read again for about a
#: second.
_TRIES = 9
_PAUSE_S = 0.025


class Segment(NamedTuple):
    """One file: ``size`` counts its durable bytes, ``end`` follows its last offset (-1 = not known)."""

    base: int
    inode: int
    size: int
    end: int = -1


@dataclass(frozen=True, slots=True)
class Log:
    """One partition of a routing log or of a queue's log; offsets below ``end`` are durable."""

    node: str
    directory: str
    id: str
    vhost: str
    queue: str
    partition: int
    #: Partitions of the whole log.
    partitions: int
    #: What the checksums of its headers start with.
    salt: int
    segments: tuple[Segment, ...] = ()
    #: The lowest offset that may be read, by the mark.
    lowest: int = 0
    end: int = 0
    #: Of a queue's log: below this offset the broker has removed or rewritten segments, by its checkpoint.
    history: int = 0

    @property
    def start(self) -> int:
        """The lowest offset that may still be read."""
        return max(self.segments[0].base, self.lowest) if self.segments else self.end

    def __str__(self) -> str:
        return log_text(self.vhost, self.queue, self.partition)


def log_text(vhost: str, queue: str, partition: int) -> str:
    """The name of a log in error texts."""
    name = f"queue {queue!r}" if queue else "the routing log"
    return f"{name} of virtual host {vhost!r}, partition {partition}"


def take_snapshot(options: ReadOptions) -> list[Log]:
    """Every log of the wanted table in all named directories, as it is now.

    Raises:
        NotADataDirectory, FormatVersionError, CorruptLog: see there.
    """
    nodes = find_nodes(options.directories)
    logs: list[Log] = []
    described: list[Described] = []
    for node in nodes:
        found = discover(node, options.table)
        described += found
        # The marks are read after the logs, so that no mark is older than its log.
        marks = read_marks(node.directory)
        if marks is None and options.fail_on_data_loss and is_used(node):
            raise NoMarks(os.path.join(node.directory, layout.SYNCED))
        check_promised(node, found, marks, options)
        logs += partitions_of(node, found, marks, options)
    check_names(nodes, described, options)
    if options.table == "routing":
        check_routed_names(nodes, described, options)
    return logs


def partitions_of(
    node: Node, found: list[Described], marks: Marks | None, options: ReadOptions
) -> Iterator[Log]:
    """The partitions that the options select, with their segments.

    Raises:
        CorruptLog, IncompleteDirectory: a file that the mark or the checkpoint promises is missing or short.
    """
    checkpoints = NodeCheckpoint(node.directory)
    partitions = options.selection.partitions
    for about in found:
        if not wanted(about, options):
            continue
        for number in range(about.partitions):
            if partitions is None or number in partitions:
                path = os.path.join(about.directory, str(number))
                salt = layout.salt_of(about.node, about.id, number)
                empty = Log(node.id, path, about.id, about.vhost, about.queue, number, about.partitions, salt)
                log = _fill(empty, marks, node.directory, checkpoints, options)
                if log is not None:
                    yield log


def _fill(
    log: Log, marks: Marks | None, data_directory: str, checkpoints: NodeCheckpoint, options: ReadOptions
) -> Log | None:
    """The log with its segments up to its mark; None if it was removed meanwhile.

    Raises:
        CorruptLog, IncompleteDirectory: a file that the mark or the checkpoint promises is missing or short.
    """
    for attempt in range(_TRIES + 1):
        if attempt:
            # The broker may have rolled, emptied or removed a segment meanwhile.
            time.sleep(attempt * _PAUSE_S)
            marks = read_marks(data_directory)
        segments = _segments(log.directory)
        if marks is None:
            return None if segments is None else _walked(log, segments)
        mark = marks.get((layout.mark_id(log.id), log.partition))
        if mark is None or mark.end == 0:
            return log
        try:
            kept = _up_to(log, segments or [], mark)
            listed = checkpoints.newest(log.id, log.partition, log.directory) if log.queue else None
            if options.fail_on_data_loss:
                kept = _with_ends(log, kept, mark, listed)
            history = listed.history if listed is not None else 0
            return replace(log, segments=kept, lowest=mark.start, end=mark.end, history=history)
        except (CorruptLog, IncompleteDirectory):
            if attempt < _TRIES:
                continue
            if options.fail_on_data_loss:
                raise
            return replace(log, segments=tuple(_left(segments or [], mark)), lowest=mark.start, end=mark.end)
    raise AssertionError("the last try returns or raises")


def _left(segments: list[Segment], mark: Mark) -> Iterator[Segment]:
    """The segments below the mark."""
    for segment in segments:
        if segment.base < mark.base:
            yield segment
        elif segment.base == mark.base:
            yield segment._replace(size=min(segment.size, mark.position))


def _with_ends(
    log: Log, segments: tuple[Segment, ...], mark: Mark, listed: Listed | None
) -> tuple[Segment, ...]:
    """The segments with the offsets at which they must end.

    Raises:
        IncompleteDirectory: a segment is missing that must be there.
    """
    bases = {segment.base for segment in segments}
    for base, end in listed.ends.items() if listed is not None else ():
        if base not in bases and mark.start < end <= mark.end:
            raise _missing(log, base, mark)
    if not segments:
        if mark.start < mark.end and mark.position:
            raise _missing(log, mark.base, mark)
        return segments
    if listed is None and segments[0].base > mark.start:
        raise _missing(log, mark.start, mark)
    ends = []
    for segment, following in pairwise([*segments, Segment(mark.end, 0, 0)]):
        if listed is None or segment.base >= listed.active:
            ends.append(following.base)
        else:
            # A segment that is not listed is about to be removed.
            ends.append(listed.ends.get(segment.base, -1))
        if not segment.size and ends[-1] > segment.base:
            raise _missing(log, segment.base, mark, "is empty")
    return tuple(segment._replace(end=end) for segment, end in zip(segments, ends, strict=True))


def _missing(log: Log, base: int, mark: Mark, how: str = "is missing") -> IncompleteDirectory:
    path = os.path.join(log.directory, layout.file_name(base, layout.LOG_SUFFIX))
    return IncompleteDirectory(path, mark.end, f"this segment of {log} {how}")


def _segments(directory: str) -> list[Segment] | None:
    """The segments in a directory with their file sizes, in order; None if the directory is gone."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                base = layout.base_of(entry.name)
                if base is not None:
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue
                    found.append(Segment(base, status.st_ino, status.st_size))
    except FileNotFoundError:
        return None
    return sorted(found)


def _up_to(log: Log, segments: list[Segment], mark: Mark) -> tuple[Segment, ...]:
    """The segments that hold offsets below the mark.

    Raises:
        CorruptLog: the marked segment is missing or shorter.
    """
    kept = [
        segment
        for segment, following in pairwise([*segments, Segment(mark.end, 0, 0)])
        if segment.base < mark.base and following.base > mark.start
    ]
    if not mark.position:
        return tuple(kept)
    for segment in segments:
        if segment.base == mark.base and segment.size >= mark.position:
            return (*kept, Segment(mark.base, segment.inode, mark.position))
    path = os.path.join(log.directory, layout.file_name(mark.base, layout.LOG_SUFFIX))
    raise CorruptLog(
        path, mark.position, mark.end, "the log is durable up to here, but the file is not there or shorter"
    )


def _walked(log: Log, segments: list[Segment]) -> Log:
    """The log up to the first bad batch of its last segment, if there are no marks."""
    if not segments:
        return log
    last = segments[-1]
    path = os.path.join(log.directory, layout.file_name(last.base, layout.LOG_SUFFIX))
    end, position = last.base, 0
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for batch in iterate_batches(file, path, 0, last.size, last.base, log.salt, payloads=True):
            end, position = batch.last + 1, batch.position + batch.length
    except BadBatch:
        pass  # the tail, which recovery will cut
    finally:
        os.close(file)
    kept = segments[:-1] + ([Segment(last.base, last.inode, position)] if position else [])
    return replace(log, segments=tuple(kept), end=end)


def end_offsets_of(logs: list[Log]) -> dict[str, dict[str, int]]:
    """The ends as the option ``endingOffsets`` takes them (as JSON)."""
    ends: dict[str, dict[str, int]] = {}
    for log in logs:
        ends.setdefault(f"{log.node}/{log.id}", {})[str(log.partition)] = log.end
    return ends
