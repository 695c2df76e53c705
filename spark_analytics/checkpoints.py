"""The segments of a queue's log at its last checkpoint, the only record of where a closed segment ends.

A segment (whose messages are all settled) is removed only after a checkpoint without it is durable. So every
segment that the newest checkpoint lists must exist, and no segment after them has been removed.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from zlib import crc32

from . import layout

#: The number of the field with the settle history.
_HISTORY = 3


class Listed(NamedTuple):
    """The segments of one partition at one time: base offset to end offset; ``active`` grew afterwards.

    Every batch from offset ``history`` on is in the log; below it some were removed or rewritten.
    """

    ends: dict[int, int]
    active: int
    history: int


class NodeCheckpoint:
    """The file ``logs.checkpoint`` of a clean stop, read when it is first needed."""

    def __init__(self, data_directory: str) -> None:
        self._path = os.path.join(data_directory, layout.NODE_CHECKPOINT)
        self._logs: dict[tuple[str, int], tuple[int, int, Listed]] | None = None

    def newest(self, log_id: str, partition: int, directory: str) -> Listed | None:
        """The list in the newer one of this file and the partition's own checkpoint; None if neither has the
        log.
        """
        if self._logs is None:
            self._logs = _read(self._path)
        key = log_id, partition
        own = _read(os.path.join(directory, layout.CHECKPOINT)).get(key)
        found = [state for state in (self._logs.get(key), own) if state is not None]
        return max(found)[2] if found else None


def _read(path: str) -> dict[tuple[str, int], tuple[int, int, Listed]]:
    """(recovery offset, time written, segments) by log and partition; empty if the file is damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if len(data) < layout.CHECKPOINT_HEADER.size:
        return {}
    magic, version, _, size, crc, count, written = layout.CHECKPOINT_HEADER.unpack_from(data)
    body = memoryview(data)[layout.CHECKPOINT_HEADER.size :]
    is_good = magic == layout.CHECKPOINT_MAGIC and version <= layout.CHECKPOINT_VERSION
    if not is_good or len(body) != size or crc32(body) != crc:
        return {}
    reader = _Reader(body)
    logs = {}
    for _ in range(count):
        key, recovery, listed = reader.log(version)
        logs[key] = recovery, written, listed
    return logs


class _Reader:
    """Reads the part of each log (FORMAT.md, "Checkpoint")."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def _u32(self) -> int:
        self._at += 4
        return int.from_bytes(self._data[self._at - 4 : self._at], "little")

    def _skip(self, count: int, size: int) -> None:
        self._at += count * size

    def log(self, version: int) -> tuple[tuple[str, int], int, Listed]:
        """(log id, partition), recovery offset, segments."""
        length = int.from_bytes(self._data[self._at : self._at + 2], "little")
        name = bytes(self._data[self._at + 2 : self._at + 2 + length]).decode()
        self._at += 2 + length
        partition = self._u32()
        recovery = int.from_bytes(self._data[self._at + 8 : self._at + 16], "little")
        self._skip(5, 8)
        self._u32()  # the epoch
        self._skip(self._u32(), 12)
        self._skip(2, 8)
        ends: dict[int, int] = {}
        active = 0
        for _ in range(self._u32()):
            active, end, _, _, _ = layout.CHECKPOINT_SEGMENT.unpack_from(self._data, self._at)
            ends[active] = end
            self._at += layout.CHECKPOINT_SEGMENT.size
        self._skip(1, 8)
        for _ in range(self._u32()):
            self._skip(1, 8)
            self._skip(self._u32(), 1)
        self._skip(self._u32(), 24)
        # A checkpoint of version 0 does not tell what was removed.
        history = 0 if version else recovery
        for _ in range(self._u32() if version else 0):
            number = self._u32() & 0xFFFF
            size = self._u32()
            if number == _HISTORY:
                history = int.from_bytes(self._data[self._at : self._at + 8], "little")
            self._skip(size, 1)
        return (name, partition), recovery, Listed(ends, active, history)
