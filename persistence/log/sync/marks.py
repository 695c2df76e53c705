"""The file ``synced``: how far each log is durable, for readers in other processes (FORMAT.md, "Synced
marks").

It is mapped into memory, so a mark costs no system call and survives ``kill -9``. It is synced whenever
another record of how far a log is durable is removed: when the file is replaced, before a commit journal is
removed, and at a stop. Therefore the next start relies on its marks (``recovery``).

While logs are recovered, marks are collected in ``synced.tmp``. It is renamed to ``synced`` when all marks
are known. Until then readers use the marks of the last process, which never promise too much.

A log gets its slot with its first mark, so a queue that never had a message has no slot. A mirrored log has
two: its mark ends at the high watermark, and a promise says how far the log is durable.

Compiled, as each round sets marks: see ``marks.pxd``.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from hashlib import sha256
from struct import Struct
from typing import NamedTuple, Protocol
from zlib import crc32

from ...files import Disk, Mapping, join, read_file
from ..format.identity import key_of

logger = logging.getLogger(__name__)

FILE_NAME = "synced"
MAGIC = b"ARLW"
SLOT_SIZE = HEADER_SIZE = 64
#: Flags of a slot: a mark, and what a mirrored log promises to the next start beyond its mark.
IN_USE, PROMISE = 1, 2
_HEADER = Struct("<4sHHII16s28x")
_SLOT = Struct("<16sIIQQQQI")
_FREE = bytes(SLOT_SIZE)
#: The file starts with this size and doubles up to steps of ``_STEP_BYTES_MAX``.
_FIRST_BYTES = 4096
_STEP_BYTES_MAX = 1 << 20


def log_id(name: str) -> bytes:
    """The 16 bytes that identify a log: its incarnation, or the id of a routing log."""
    try:
        octets = bytes.fromhex(name)
    except ValueError:
        octets = b""
    return octets if len(octets) == 16 else sha256(name.encode()).digest()[:16]


class Mark(NamedTuple):
    """A log's slots as read: what is synced, and how far others may read."""

    epoch: int
    #: Everything below is durable.
    end: int
    #: Other processes read the log up to ``position`` of ``segment``: to the offset ``watermark``.
    segment: int
    position: int
    start: int
    #: The high watermark of a mirrored log, if it is below ``end``; otherwise -1.
    shown: int = -1

    @property
    def watermark(self) -> int:
        """The high watermark."""
        return self.end if self.shown < 0 else self.shown

    def with_promise(self, other: Mark) -> Mark:
        """This mark with a mirrored log's promise, which is ``other``. Only one of an epoch counts."""
        if other.epoch < self.epoch or other.end <= self.end:
            return self
        return self._replace(epoch=other.epoch, end=other.end, shown=self.end)


def sync_marks(disk: Disk, data_dir: str, name: str = FILE_NAME) -> None:
    """Make the marks stored so far durable, if there is a file. Any thread may call it.

    Raises:
        OSError: the disk failed.
    """
    try:
        file = disk.open(join(data_dir, name))
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()


def read_marks(disk: Disk, data_dir: str, faults: list[str] | None = None) -> dict[tuple[bytes, int], Mark]:
    """The marks that the last process left, by log id and partition. Damaged ones are left out.

    ``faults`` gets a line for each damaged part.
    """
    faults = faults if faults is not None else []
    path = join(data_dir, FILE_NAME)
    try:
        data = read_file(disk, path)
    except OSError as error:
        faults.append(f"{path}: {error.strerror or error}")
        return {}
    found: dict[tuple[bytes, int], Mark] = {}
    promises: dict[tuple[bytes, int], Mark] = {}
    used = _used(data)
    for at in range(HEADER_SIZE, min(used, len(data) - SLOT_SIZE + 1), SLOT_SIZE):
        body = data[at : at + SLOT_SIZE - 4]
        if crc32(body).to_bytes(4, "little") != data[at + SLOT_SIZE - 4 : at + SLOT_SIZE]:
            if any(data[at : at + SLOT_SIZE]):
                faults.append(f"{path} at byte {at}: checksum of a mark is wrong")
            continue
        name, partition, epoch, end, segment, position, start, flags = _SLOT.unpack(body)
        slots = found if flags & IN_USE else promises
        if flags & (IN_USE | PROMISE):
            slots[name, partition] = Mark(epoch, end, segment, position, start)
    for key, promise in promises.items():
        found[key] = found.get(key, Mark(0, 0, 0, 0, 0)).with_promise(promise)
    return found


def _used(data: bytes) -> int:
    """Where the slots end that a log ever had; most of a new file is behind that."""
    used = len(data)
    size = SLOT_SIZE
    # Twice as many at a time as before while all are free, then half as many.
    while used >= size and data[used - size : used] == bytes(size):
        used -= size
        size *= 2
    while size > SLOT_SIZE:
        size //= 2
        if used >= size and data[used - size : used] == bytes(size):
            used -= size
    return used


class Placed(Protocol):
    """The segments of a log."""

    def synced_place(self) -> tuple[int, int]:
        """Base of the segment in which the synced part ends, and the position there."""


class MarkedLog(Hashable, Protocol):
    """A log, with the fields that a mark has of it."""

    incarnation: str
    number: int
    epoch: int
    durable: int
    start: int

    @property
    def partition(self) -> Placed: ...

    def shown_place(self) -> tuple[int, int, int]:
        """(offset, base of a segment, position in it): how far readers in other processes may read."""


class Marks:
    """The marks of one process; used on the event loop only."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._path = join(data_dir, FILE_NAME)
        self._data_dir = data_dir
        #: The file's current name.
        self._now_path = ""
        self._map: Mapping | None = None
        self._size = 0
        self._boot_id = bytes(16)
        #: Number of slots ever used, and those that are free again.
        self._count = 0
        self._free: list[int] = []
        self._slots: dict[Hashable, int] = {}
        self._heads: dict[Hashable, bytes] = {}
        self._is_full = False

    def begin(self, boot_id: bytes) -> None:
        """Start an empty file beside the one of the last process.

        Raises:
            OSError: the disk failed or is full.
        """
        self._boot_id = boot_id
        self._size = _FIRST_BYTES
        self._now_path = self._path + ".tmp"
        self._disk.unlink(self._now_path)
        self._map = self._disk.map(self._now_path, self._size)
        self._put_header()

    def publish(self) -> None:
        """Show the marks to readers, after all logs have theirs.

        Raises:
            OSError: the disk failed.
        """
        if self._map is not None:
            # Unsynced, the new file could be all zeros after a crash, and the marks of the last process would
            # be lost.
            sync_marks(self._disk, self._data_dir, FILE_NAME + ".tmp")
            self._disk.rename(self._now_path, self._path)
            self._now_path = self._path
            self._disk.sync_directory(self._data_dir)

    def set(self, log: MarkedLog) -> None:
        """Set the mark of ``log`` to what may be read of it, and its promise to ``log.durable``."""
        about = log.incarnation, log.number, log.epoch
        end, base, position = log.shown_place()
        promise = log, PROMISE
        if end < log.durable or promise in self._slots:
            self.put(promise, *about, log.durable, 0, 0, log.start, PROMISE)
        self.put(log, *about, end, base, position, log.start)

    def put(
        self,
        key: Hashable,
        name: str,
        partition: int,
        epoch: int,
        end: int,
        base: int,
        position: int,
        start: int,
        flags: int = IN_USE,
    ) -> None:
        """Set the mark of the log with id ``key``: synced below ``end``, up to ``position`` of segment
        ``base``.
        """
        slot = self._slots.get(key)
        if slot is None:
            slot = self._take_slot(key, name)
            if slot < 0:
                return
        body = _SLOT.pack(self._heads[key], partition, epoch, end, base, position, start, flags)
        self._store(body + crc32(body).to_bytes(4, "little"), slot)

    def clear(self, key: Hashable) -> None:
        """Remove the mark of a deleted log, if it has one."""
        for each in (key, (key, PROMISE)):
            slot = self._slots.pop(each, None)
            if slot is not None:
                del self._heads[each]
                self._store(_FREE, slot)
                self._free.append(slot)

    def close(self) -> None:
        """Close the file."""
        if self._map is not None:
            self._map.close()
            self._map = None
            try:
                sync_marks(self._disk, self._data_dir)
            except OSError as error:
                logger.warning("cannot sync %s: %s", self._path, error)

    def keep(self, name: str, partition: int, mark: Mark) -> None:
        """Keep the last process's mark of a log that cannot be opened, and its promise."""
        key = key_of(name, partition)
        epoch, end, segment, position, start, shown = mark
        if shown >= 0:
            self.put((key, PROMISE), name, partition, epoch, end, 0, 0, start, PROMISE)
        self.put(key, name, partition, epoch, mark.watermark, segment, position, start)

    def _store(self, data: bytes, slot: int) -> None:
        if self._map is not None:
            self._map.store(data, HEADER_SIZE + slot * SLOT_SIZE)

    def _take_slot(self, key: Hashable, name: str) -> int:
        """A slot for a log that has none; -1 if there is no file, or no space for it."""
        if self._map is None:
            return -1
        if self._free:
            slot = self._free.pop()
        else:
            if HEADER_SIZE + (self._count + 1) * SLOT_SIZE > self._size and not self._grow():
                return -1
            slot = self._count
            self._count += 1
            self._put_header()
        self._slots[key] = slot
        self._heads[key] = log_id(name)
        return slot

    def _grow(self) -> bool:
        assert self._map is not None
        size = self._size + min(self._size, _STEP_BYTES_MAX)
        try:
            larger = self._disk.map(self._now_path, size)
        except OSError as error:
            if not self._is_full:
                # The next sync of the log tries again.
                logger.error("outside readers will miss new logs: %s cannot grow: %s", self._path, error)
            self._is_full = True
            return False
        self._map.close()
        self._map = larger
        self._size = size
        self._is_full = False
        return True

    def _put_header(self) -> None:
        assert self._map is not None
        header = _HEADER.pack(MAGIC, 0, SLOT_SIZE, self._count, 0, self._boot_id)
        self._map.store(header + crc32(header).to_bytes(4, "little"), 0)
