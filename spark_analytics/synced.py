"""The file ``synced``, in which the broker notes how far each log is durable.

A log with a mark is read up to it. If the file exists, a log without a mark has nothing durable yet. In a
directory without the file (an old one, or a partial copy) each log is read up to the first bad batch of its
last segment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from . import layout
from .errors import CorruptLog, FormatVersionError

#: While a mark is being written, its checksum is wrong for less than a microsecond.
_TRIES = 20
_PAUSE_SECONDS = 0.001


class Mark(NamedTuple):
    """Everything below offset ``end`` is durable; it ends at ``position`` of segment ``base``."""

    end: int
    base: int
    position: int
    start: int
    epoch: int


Marks = dict[tuple[str, int], Mark]


def read_marks(directory: str, sleep: Callable[[float], None] = time.sleep) -> Marks | None:
    """Marks by (log id, partition); None if there is no such file.

    Raises:
        FormatVersionError: another version wrote it.
        CorruptLog: a checksum stays wrong.
    """
    path = os.path.join(directory, layout.SYNCED)
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        header = _settled(file, path, 0, sleep)
        magic, version, slot_size, slots, _, _, _ = layout.SYNCED_HEADER.unpack(header)
        if magic != layout.SYNCED_MAGIC:
            raise CorruptLog(path, 0, 0, "this is no file of synced marks")
        if version != layout.FORMAT_VERSION or slot_size != layout.SLOT_SIZE:
            raise FormatVersionError(path, version, layout.FORMAT_VERSION)
        size = os.fstat(file).st_size
        data = os.pread(file, size, 0)
        marks: Marks = {}
        first = layout.SYNCED_HEADER_SIZE
        if len(data) < first + slots * slot_size:
            raise CorruptLog(path, len(data), 0, f"the file is cut short: it has {slots} slots")
        for at in range(first, first + (len(data) - first) // slot_size * slot_size, slot_size):
            slot = data[at : at + slot_size]
            if not _is_whole(slot):
                slot = _settled(file, path, at, sleep)
            log, partition, epoch, end, base, position, start, flags, _ = layout.SYNCED_SLOT.unpack(slot)
            if flags & layout.SLOT_IN_USE:
                marks[log.hex(), partition] = Mark(end, base, position, start, epoch)
        return marks
    finally:
        os.close(file)


def _is_whole(slot: bytes) -> bool:
    """Whether the slot has a good checksum, or is free (all zero)."""
    return crc32(slot[:-4]) == int.from_bytes(slot[-4:], "little") or not any(slot)


def _settled(file: int, path: str, at: int, sleep: Callable[[float], None]) -> bytes:
    """The 64 bytes at a position, read again until their checksum is right."""
    for attempt in range(_TRIES):
        slot = os.pread(file, layout.SLOT_SIZE, at)
        if len(slot) == layout.SLOT_SIZE and _is_whole(slot):
            return slot
        if attempt + 1 < _TRIES:
            sleep(_PAUSE_SECONDS)
    number = (at - layout.SYNCED_HEADER_SIZE) // layout.SLOT_SIZE
    what = "the header" if at == 0 else f"slot {number}"
    raise CorruptLog(path, at, 0, f"the checksum of {what} stays wrong")
