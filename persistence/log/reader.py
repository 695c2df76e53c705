"""A log directory from outside: read-only, for ``amqp-router log`` and tests. Changes nothing.

Works on a stopped broker's directory and on a running one's, whose newest bytes may look like a
torn tail.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from ..errors import CorruptLog
from ..files import Disk, RealDisk, join, parent, read_file
from .checkpoint import FILE_NAME, LogState, read_checkpoint
from .record import HEADER_SIZE, MESSAGES, BatchHeader, parse_header
from .recovery import later_witness
from .segment import base_of, segment_name

_CHUNK_BYTES = 1 << 20
TORN_TAIL, ROT = "torn tail", "rot"


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """A good batch: where it stands and its header."""

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


def describe(directory: str, disk: Disk | None = None) -> dict[str, Any]:
    """``log.json`` of a partition directory's queue; empty if it is missing or unreadable."""
    try:
        description = json.loads(read_file(disk or RealDisk(), join(parent(directory), "log.json")))
    except (OSError, ValueError):
        return {}
    return description if isinstance(description, dict) else {}


def read_state(directory: str, disk: Disk | None = None) -> LogState | None:
    """The partition's own checkpoint; None without one.

    Raises:
        CorruptLog: it is rotten.
    """
    _, states = read_checkpoint(disk or RealDisk(), join(directory, FILE_NAME))
    return states[0] if states else None


def iterate(directory: str, disk: Disk | None = None) -> Iterator[BatchInfo | Problem]:
    """Every batch of a partition in order, checksums verified; a ``Problem`` comes last if there is one."""
    disk = disk or RealDisk()
    bases = sorted(base for name in disk.list(directory) if (base := base_of(name)) is not None)
    for number, base in enumerate(bases):
        path = join(directory, segment_name(base))
        problem = yield from _iterate_segment(disk, path, base, is_last=number == len(bases) - 1)
        if problem is not None:
            yield problem
            return


def _iterate_segment(
    disk: Disk, path: str, base: int, *, is_last: bool
) -> Generator[BatchInfo, None, Problem | None]:
    """Yields good batches, returns the problem at which it stopped."""
    file = disk.open(path)
    try:
        size = file.size()
        position = 0
        expected = base
        data = b""
        at = 0
        while position < size:
            if at + HEADER_SIZE > len(data):
                data, at = file.read(_CHUNK_BYTES, position), 0
            header = parse_header(data, at)
            text = _fault(header, expected, size - position)
            if header is not None and not text:
                if at + header.length > len(data):
                    data, at = file.read(max(_CHUNK_BYTES, header.length), position), 0
                payload = memoryview(data)[at + HEADER_SIZE : at + header.length]
                if crc32(payload) != header.payload_crc:
                    text = "checksum of the payload is wrong"
            if header is None or text:
                witness = later_witness(file, position, size, expected)
                is_tail = is_last and witness < 0
                if witness >= 0:
                    text += f"; the batch at byte {witness} says that this had been synced"
                elif not is_last:
                    text += "; the segment was closed, so this had been synced"
                kind = TORN_TAIL if is_tail else ROT
                return Problem(kind, path, position, size - position, text)
            yield BatchInfo(path, position, header)
            expected = header.last + 1
            position += header.length
            at += header.length
    finally:
        file.close()
    return None


def _fault(header: BatchHeader | None, expected: int, rest: int) -> str:
    if header is None:
        return "no good batch header"
    if header.base != expected:
        return f"base offset {header.base} where {expected} should follow"
    if header.length > rest:
        return "the batch reaches beyond the end of the file"
    return ""


def verify(directory: str, disk: Disk | None = None) -> Summary:
    """Read all of a partition; ``problem`` says what is wrong with it, if anything."""
    disk = disk or RealDisk()
    summary = Summary(directory)
    paths = set()
    for item in iterate(directory, disk):
        if isinstance(item, Problem):
            summary.problem = item
            break
        header = item.header
        if not summary.batches:
            summary.start = header.base
        paths.add(item.path)
        summary.batches += 1
        summary.bytes += header.length
        summary.end = header.last + 1
        summary.epoch = header.epoch
        if header.kind == MESSAGES:
            summary.messages += header.records
    summary.segments = len(paths)
    if summary.problem is None:
        try:
            read_state(directory, disk)
        except CorruptLog as error:
            summary.problem = Problem(ROT, error.path, error.position, 0, str(error))
    return summary
