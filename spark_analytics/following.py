"""Follows the logs of data directories for a stream: how far they are durable, and the splits of a batch.

What a stream has read stands in Spark's checkpoint alone. Everything that this object keeps can be made again
from the files, but for the end that ``pin`` takes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace

from . import layout
from .discovery import (
    Described,
    Node,
    check_promised,
    describe,
    find_nodes,
    is_used,
    log_ids,
    log_root,
    wanted,
)
from .errors import DataLoss, NoMarks
from .index import GrownIndexes
from .options import EARLIEST, ReadOptions
from .planning import LogRef, Split, asked_offset, check_offsets, plan_ranges, why
from .snapshot import Log, log_text, partitions_of, take_snapshot
from .stream_offsets import LogKey, Positions, StreamOffsets, check_nodes, holes_of, ranges, shares
from .synced import Marks, read_marks

logger = logging.getLogger(__name__)

_ADVICE = "set option failOnDataLoss=false to go on with what is left"


class Follower:
    """The logs of one table in all named directories."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._indexes = GrownIndexes()
        #: Of each data directory: the content of its file ``synced``, and the ends that it made.
        self._seen: dict[str, tuple[bytes, Positions]] = {}
        self._described: dict[tuple[str, str], Described] = {}
        self._nodes: dict[str, Node] = {}
        #: Of each node: (id in the marks, partition) of every log with a mark.
        self._marked: dict[str, frozenset[tuple[str, int]]] = {}
        self._pinned: Positions | None = None
        self._said: set[tuple[LogKey, int]] = set()

    def initial(self) -> StreamOffsets:
        """Where a new stream begins, by the option ``startingOffsets``.

        Raises:
            AnalyticsError: the option names offsets that are gone or not there yet, or a directory is not
                complete.
        """
        options = self._options
        self.ends()
        logs = take_snapshot(options)
        check_offsets(logs, options)
        offsets: Positions = {}
        holes: Positions = {}
        for log in logs:
            if log.end:
                asked = asked_offset(log, options.starting, EARLIEST, "startingOffsets")
                key = _key(log)
                offsets[key] = min(max(asked, log.start), log.end)
                if log.history > offsets[key]:
                    holes[key] = log.history
        return StreamOffsets(options.table, offsets, holes, is_initial=True)

    def ends(self) -> Positions:
        """How far the wanted logs are durable now. A directory in which nothing happened costs one read of
        its marks.

        Raises:
            NoMarks: a directory has no file ``synced``.
            IncompleteDirectory, CorruptLog, FormatVersionError, NotADataDirectory: see there.
        """
        found: Positions = {}
        nodes = find_nodes(self._options.directories)
        self._nodes = {node.id: node for node in nodes}
        for node in nodes:
            found.update(self._ends_of(node))
        return found

    def _ends_of(self, node: Node) -> Positions:
        content = _content(node)
        seen = self._seen.get(node.directory)
        if seen is not None and seen[0] == content:
            return seen[1]
        logs = self._discover(node)
        # The marks are read after the logs, so that no mark is older than its log.
        marks = _marks(node)
        check_promised(node, logs, marks, self._options)
        ends: Positions = {}
        chosen = self._options.selection.partitions
        for log in logs:
            if wanted(log, self._options):
                for number in range(log.partitions):
                    mark = marks.get((layout.mark_id(log.id), number))
                    if mark is not None and mark.end and (chosen is None or number in chosen):
                        ends[LogKey(f"{node.id}/{log.id}", number)] = mark.end
        known = {layout.mark_id(log.id) for log in logs}
        is_routing = self._options.table == "routing"
        if all(
            key[0] in known
            for key, mark in marks.items()
            if mark.end and (mark.epoch == layout.ROUTING_EPOCH) == is_routing
        ):
            # Otherwise a log has got its description a moment ago, or is missing and may come back.
            self._seen[node.directory] = content, ends
        self._marked[node.id] = frozenset(marks)
        return ends

    def _discover(self, node: Node) -> list[Described]:
        """The node's logs. The description of each is read once."""
        found = []
        for log_id in log_ids(node, self._options.table):
            log = self._described.get((node.id, log_id))
            if log is None:
                log = describe(node, self._options.table, log_id)
                if log is None:
                    continue
                self._described[node.id, log_id] = log
            found.append(log)
        return found

    def pin(self) -> None:
        """Take what is durable now as the end of the stream (``Trigger.AvailableNow``)."""
        self._pinned = self.ends()

    def latest(self, start: StreamOffsets | None, limit: int | None) -> StreamOffsets:
        """The end of a batch from ``start`` on with at most ``limit`` offsets.

        ``start`` None (PySpark before 4.2 does not tell it): everything that is durable.

        Raises:
            CheckpointError: ``start`` names a node that is not read.
            DataLoss: a log ends before its start (``failOnDataLoss``).
        """
        ends = self.ends()
        if start is None:
            return StreamOffsets(self._options.table, ends)
        check_nodes(start.offsets, self._nodes)
        kept = {key: low for key, low in start.offsets.items() if key in ends or self._is_there(key)}
        for key in start.offsets.keys() - kept.keys():
            logger.warning(
                "%s was deleted; the stream had read it up to offset %d", self._text(key), start.offsets[key]
            )
        for key, low in kept.items():
            if key in ends and ends[key] < low:
                self._went_back(key, ends[key], low)
        if self._pinned is not None:
            pinned = self._pinned
            ends = {key: min(end, pinned[key]) for key, end in ends.items() if key in pinned}
        sizes = {key: end - kept.get(key, 0) for key, end in ends.items() if end > kept.get(key, 0)}
        offsets = {**kept, **{key: 0 for key in sizes if key not in kept}}
        for key, size in shares(sizes, limit).items():
            offsets[key] += size
        # A new log of which this batch has nothing is still new in the next one.
        offsets = {key: offset for key, offset in offsets.items() if offset or key in kept}
        return StreamOffsets(
            self._options.table,
            offsets,
            {key: hole for key, hole in start.holes.items() if hole > offsets.get(key, hole)},
            began=(start.offsets, start.holes) if start.is_initial else None,
        )

    def _is_there(self, key: LogKey) -> bool:
        """Whether the log of a key has a folder or a mark."""
        if (layout.mark_id(key.id), key.partition) in self._marked.get(key.node, ()):
            return True
        root = log_root(self._nodes[key.node], self._options.table)
        return os.path.exists(os.path.join(root, key.id, layout.DESCRIPTION))

    def _text(self, key: LogKey) -> str:
        log = self._described.get((key.node, key.id))
        return log_text(log.vhost, log.queue, key.partition) if log else f"log {key.log}/{key.partition}"

    def _went_back(self, key: LogKey, end: int, low: int) -> None:
        text = (
            f"{self._text(key)} ends at offset {end}, but this stream has read it up to {low}: the data "
            "directory is an older copy, the virtual host was deleted and made again, or the machine lost "
            "power (then start the broker once)"
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{text}; set option failOnDataLoss=false to wait until it is there again")
        if (key, end) not in self._said:
            self._said.add((key, end))
            logger.warning("%s; waiting until it is there again", text)

    def plan(self, start: StreamOffsets, end: StreamOffsets, cores: int) -> list[Split]:
        """The splits of the batch between two offsets.

        Raises:
            CheckpointError: the offsets are not of these directories.
            DataLoss: offsets of it are gone (``failOnDataLoss``).
            IncompleteDirectory, CorruptLog, FormatVersionError: see there.
        """
        options = self._options
        asked = ranges(start, end)
        if not asked:
            return []
        self._nodes = {node.id: node for node in find_nodes(options.directories)}
        check_nodes(asked, self._nodes)
        holes = holes_of(start, end)
        planned: list[tuple[Log, int, int]] = []
        for node in self._nodes.values():
            of_node = {key: between for key, between in asked.items() if key.node == node.id}
            if of_node:
                for key, log in self._opened(node, of_node):
                    low, high = of_node[key]
                    high = min(high, log.end)
                    planned.append((log, self._low(log, low, high, holes.get(key, 0)), high))
        splits = plan_ranges(planned, options, options.selection, cores, self._indexes.load)
        # What became of a message is not streamed, so the tasks need not know the whole log.
        return [
            Split(tuple(replace(log, segments=()) for log in split.logs), split.pieces) for split in splits
        ]

    def _opened(self, node: Node, asked: dict[LogKey, tuple[int, int]]) -> Iterator[tuple[LogKey, Log]]:
        """The logs of a node as they are now, without those that were deleted."""
        ids = {key.id for key in asked}
        logs = [log for log in self._discover(node) if log.id in ids]
        marks = _marks(node)
        names = {layout.mark_id(log_id) for log_id in ids}
        check_promised(
            node, logs, {key: mark for key, mark in marks.items() if key[0] in names}, self._options
        )
        opened = {_key(log): log for log in partitions_of(node, logs, marks, self._options)}
        for key, (low, high) in asked.items():
            log = opened.get(key)
            if log is not None and log.end:
                if log.end < high:
                    self._went_back(key, log.end, high)
                yield key, log
                continue
            folder = os.path.join(log_root(node, self._options.table), key.id)
            is_described = any(about.id == key.id for about in logs)
            if is_described and key not in opened:
                continue  # the options leave it out
            has_mark = (layout.mark_id(key.id), key.partition) in marks
            what = "was deleted"
            if has_mark or (is_described and self._options.table == "routing"):
                what = f"is missing ({folder} {'is not complete' if has_mark else 'has no mark'})"
                if self._options.fail_on_data_loss:
                    raise DataLoss(f"{self._text(key)} {what}; {_ADVICE}")
            logger.warning("%s %s; offsets %d to %d were not read", self._text(key), what, low, high - 1)

    def _low(self, log: Log, low: int, high: int, hole: int) -> int:
        """The first offset of a range that is there.

        Raises:
            DataLoss: it is not ``low``, or what follows is not whole (``failOnDataLoss``).
        """
        first, after = low, min(log.start, high)
        how = "are gone"
        if after <= low:
            # Below ``hole`` the stream takes what it finds; above, all was there when the stream began.
            first, after = max(low, hole), min(log.history, high)
            how = "were removed or cleaned, wholly or in part"
        if first >= after:
            return low
        text = f"offsets {first} to {after - 1} of {log} {how} before this stream read them ({why(log)})"
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{text}; {_ADVICE}")
        logger.warning("%s; the stream goes on with what is left", text)
        return max(low, log.start)


def is_deleted(log: LogRef) -> bool:
    """Whether a log was deleted, and is not merely missing: a deleted one has lost its mark first."""
    partition = log.directory
    folder = os.path.dirname(partition)
    marks = read_marks(os.path.dirname(os.path.dirname(folder)))
    if marks is None or (layout.mark_id(log.id), log.partition) in marks:
        return False
    return bool(log.queue) or not os.path.exists(os.path.join(folder, layout.DESCRIPTION))


def _key(log: Log) -> LogKey:
    return LogKey(f"{log.node}/{log.id}", log.partition)


def _marks(node: Node) -> Marks:
    """The marks of a directory; none if no broker has used it yet.

    Raises:
        NoMarks: the file ``synced`` is missing.
        CorruptLog, FormatVersionError: see ``read_marks``.
    """
    marks = read_marks(node.directory)
    if marks is None and is_used(node):
        raise NoMarks(os.path.join(node.directory, layout.SYNCED), is_stream=True)
    return marks or {}


def _content(node: Node) -> bytes:
    """The file ``synced``; empty in a directory that no broker has used yet.

    Raises:
        NoMarks: it is missing.
    """
    try:
        with open(os.path.join(node.directory, layout.SYNCED), "rb") as file:
            return file.read()
    except FileNotFoundError:
        if is_used(node):
            raise NoMarks(os.path.join(node.directory, layout.SYNCED), is_stream=True) from None
        return b""
