"""Reads a log directory without changing it, for ``amqp-router log`` and tests.

It works on the directory of a stopped broker, and of a running one, whose newest bytes may look like a torn
tail.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...errors import CorruptLog
from ...files import Disk, RealDisk, join, parent
from ..format.checkpoint import NODE_FILE_NAME, LogState, newest, read_checkpoint, read_own
from ..format.identity import (
    DESCRIPTION,
    WAY_OUT,
    Owners,
    key_of,
    log_id_at,
    number_of,
    read_json,
    salt_at,
)
from ..format.record import MESSAGES, BatchHeader
from ..format.scanner import Scanner
from ..format.sections import unknown_attributes
from ..format.segment import base_of, segment_bases, segment_name
from ..queue.completeness import end_after_replay, missing_text, required_end
from ..queue.recovery import known_segments
from ..sync.journal import JournalEntry, journal_files, read_journal
from ..sync.marks import Mark
from ..sync.writer import read_description

TORN_TAIL, ROT = "torn tail", "rot"


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """A good batch: its place and its header."""

    path: str
    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class Problem:
    """A bad place: ``kind`` is ``TORN_TAIL`` (recovery cuts it) or ``ROT`` (recovery stops there)."""

    kind: str
    path: str
    position: int
    bytes: int
    text: str


@dataclass(slots=True)
class Summary:
    """What a directory holds, as far as it is good."""

    directory: str
    segments: int = 0
    batches: int = 0
    messages: int = 0
    bytes: int = 0
    start: int = 0
    end: int = 0
    epoch: int = 0
    problem: Problem | None = None


def find_logs(path: str, disk: Disk | None = None) -> list[str]:
    """Partition directories at or below a data directory, ``queues``, one queue's or a partition's."""
    disk = disk or RealDisk()
    if any(base_of(name) is not None for name in disk.list(path)):
        return [path]
    if disk.exists(join(path, "queues")):
        path = join(path, "queues")
    if disk.exists(join(path, "log.json")):
        return [join(path, name) for name in disk.list(path) if name.isdecimal()]
    found = []
    for name in disk.list(path):
        queue = join(path, name)
        if disk.exists(join(queue, "log.json")):
            found += [join(queue, number) for number in disk.list(queue) if number.isdecimal()]
    return found


def describe(directory: str, disk: Disk | None = None) -> dict[str, object]:
    """``log.json`` of a partition directory's queue; empty if it is missing or unreadable."""
    return read_json(disk or RealDisk(), parent(directory))


def read_node_states(data_dir: str, disk: Disk | None = None) -> dict[str, LogState]:
    """The states in the node's checkpoint, by key of the partition; empty if there is none.

    Raises:
        CorruptLog: the checkpoint is damaged.
    """
    _, states = read_checkpoint(disk or RealDisk(), join(data_dir, NODE_FILE_NAME))
    return {key_of(state.incarnation, state.partition): state for state in states}


def read_journals(data_dir: str, disk: Disk | None = None) -> dict[str, list[JournalEntry]]:
    """The journal entries that the next start may replay, by key of the partition."""
    disk = disk or RealDisk()
    entries: dict[str, list[JournalEntry]] = {}
    for path in journal_files(disk, data_dir):
        try:
            content = read_journal(disk, path)
        except FileNotFoundError:  # a running broker removes it when its logs are synced
            continue
        for key, entry in content.entries:
            entries.setdefault(key, []).append(entry)
    return entries


def iterate(directory: str, disk: Disk | None = None) -> Iterator[BatchInfo | Problem]:
    """Every batch of a partition in order, checksums verified; a ``Problem`` comes last if there is one."""
    disk = disk or RealDisk()
    bases = segment_bases(disk, directory)
    salt, owners = salt_at(disk, directory), Owners.around(disk, directory)
    for number, base in enumerate(bases):
        path = join(directory, segment_name(base))
        is_last = number == len(bases) - 1
        problem = yield from _iterate_segment(disk, path, base, salt, owners, is_last=is_last)
        if problem is not None:
            yield problem
            return


def _iterate_segment(
    disk: Disk, path: str, base: int, salt: int, owners: Owners, *, is_last: bool
) -> Generator[BatchInfo, None, Problem | None]:
    """Yields good batches, returns the problem at which it stopped."""
    file = disk.open(path)
    try:
        scan = Scanner(file, salt, base=base)
        for header, _ in scan:
            unknown = unknown_attributes(header.attributes, is_messages=header.kind == MESSAGES)
            if unknown:
                text = f"batch attributes {unknown:#x} are not known{WAY_OUT}"
                return Problem(ROT, path, scan.position, scan.size - scan.position, text)
            yield BatchInfo(path, scan.position, header)
        position = scan.position
        if position == scan.size:
            return None
        text = scan.fault
        witness = scan.witness()
        foreign = owners.foreign(scan.bad_header(), salt)
        if foreign:
            text = foreign
        elif witness >= 0:
            text += f"; the batch at byte {witness} says that this had been synced"
        elif not is_last:
            text += "; the segment was closed, so this had been synced"
        kind = TORN_TAIL if is_last and witness < 0 and not foreign else ROT
        return Problem(kind, path, position, scan.size - position, text)
    finally:
        file.close()


def verify(
    directory: str,
    disk: Disk | None = None,
    node_states: Mapping[str, LogState] | None = None,
    *,
    mark: Mark | None = None,
    journal: Sequence[JournalEntry] = (),
) -> Summary:
    """Read all of a partition; ``problem`` of the result says what is wrong, if anything.

    The files are compared with the newest checkpoint, which may be in ``node_states`` (of
    ``read_node_states``). ``mark`` says how far the log was durable and must be read before the call.
    ``journal`` has the log's entries of ``read_journals``.
    """
    disk = disk or RealDisk()
    summary = Summary(directory)
    bases = segment_bases(disk, directory)
    #: The offset at which the batches of each segment end.
    ends: dict[str, int] = {}
    for item in iterate(directory, disk):
        if isinstance(item, Problem):
            summary.problem = item
            break
        header = item.header
        if not summary.batches:
            summary.start = header.base
        ends[item.path] = summary.end = header.last + 1
        summary.batches += 1
        summary.bytes += header.length
        summary.epoch = header.epoch
        if header.kind == MESSAGES:
            summary.messages += header.records
    summary.segments = len(ends)
    if summary.problem is None or summary.problem.kind == TORN_TAIL:
        key = key_of(parent(directory).rpartition("/")[2], number_of(directory))
        node = (node_states or {}).get(key)
        try:
            _compare(disk, directory, node, bases, ends)
            _check_end(disk, directory, summary, _newest_state(disk, directory, node), mark, journal)
        except CorruptLog as error:
            summary.problem = Problem(ROT, error.path, error.position, 0, error.text)
    return summary


def _compare(
    disk: Disk, directory: str, node: LogState | None, bases: Sequence[int], ends: Mapping[str, int]
) -> None:
    """Check, as recovery does, that the files are those of the newest checkpoint and follow one another.

    Raises:
        CorruptLog: they are not, or the checkpoint or ``log.json`` is damaged.
    """
    description = read_description(disk, parent(directory)) or {}
    incarnation = description.get("incarnation", "")
    if incarnation not in ("", log_id_at(disk, directory)):
        path = join(parent(directory), DESCRIPTION)
        raise CorruptLog(path, 0, f"this is the description of another log, {incarnation!r}")
    state = _newest_state(disk, directory, node)
    while True:
        try:
            known_segments(disk, directory, state, segment_bases(disk, directory))
            break
        except CorruptLog:
            # A running broker removes segments, after a checkpoint that no longer names them.
            now = _newest_state(disk, directory, node)
            if now is None or state is None or now.recovery_offset == state.recovery_offset:
                raise
            state = now
    scanned_from = state.recovery_segment if state is not None else 0
    for before, base in pairwise(bases):
        end = ends.get(join(directory, segment_name(before)))
        if base > scanned_from and end not in (None, base):
            raise CorruptLog(
                join(directory, segment_name(base)), 0, f"the segment should begin at offset {end}"
            )


def _check_end(
    disk: Disk,
    directory: str,
    summary: Summary,
    state: LogState | None,
    mark: Mark | None,
    journal: Sequence[JournalEntry],
) -> None:
    """Check, as recovery does, that the log reaches up to what was durable.

    Raises:
        CorruptLog: it does not.
    """
    known = state.recovery_offset if state is not None else 0
    end, _ = end_after_replay(max(summary.end, known), journal, state.epoch if state is not None else 0)
    required = required_end(state, mark)
    if end >= required:
        return
    problem = summary.problem
    if problem is not None:
        raise CorruptLog(problem.path, problem.position, f"{problem.text}; {missing_text(end, required)}")
    bases = segment_bases(disk, directory)
    path = join(directory, segment_name(bases[-1] if bases else 0))
    raise CorruptLog(path, summary.bytes if len(bases) == 1 else 0, missing_text(end, required))


def _newest_state(disk: Disk, directory: str, node: LogState | None) -> LogState | None:
    return newest(node, read_own(disk, directory, log_id_at(disk, directory), number_of(directory)))
