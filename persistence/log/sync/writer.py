"""Writes a partition: its directory, its active segment, and how far that is synced.

Names (directories, ``log.json``, segments) are synced when they are made, before anything is written below
them. So one position says how far a log is durable on its own: ``synced_to``, in the segment being written.
The segments before it are synced completely.

Compiled, as each round asks for writes: see ``writer.pxd``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from enum import Enum
from typing import Protocol
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk, File, FileCache, join, parent, read_file, replace_file
from ...plan import Target, Write
from ..format.identity import DESCRIPTION, DESCRIPTION_VERSIONS, WAY_OUT, salt_of
from ..format.record import HEADER_SIZE, Batch, parse_header
from ..format.segment import Segment

_U32_MAX = 0xFFFFFFFF


def read_description(disk: Disk, directory: str) -> dict[str, object] | None:
    """``log.json`` of a queue's directory; None if it is missing or torn.

    If so, a crash came before its sync, and no batch was synced either. The definitions have the same
    information.

    Raises:
        CorruptLog: it is of another format version.
    """
    path = join(directory, DESCRIPTION)
    try:
        description = json.loads(read_file(disk, path))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    if not isinstance(description, dict):
        return None
    version = description.get("version")
    if version not in DESCRIPTION_VERSIONS:
        raise CorruptLog(path, 0, f"format version {version}, this release reads 0 to 2{WAY_OUT}")
    return description


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


#: ``log.json`` as text.
_ENCODE = json.JSONEncoder(sort_keys=True, default=_base64).encode


class Fenced(Protocol):
    """An object that is fenced after an error: a log, or all of them."""

    def fail(self, error: Exception) -> None: ...


class State(Enum):
    """How durable a log is without the commit journal."""

    #: A name of the log is not made yet, or not known to be durable.
    NEW = "new"
    #: All names are durable, and the segment up to ``PartitionWriter.synced_to``.
    NAMED = "named"
    #: Everything written is durable.
    CLEAN = "clean"


class PartitionWriter(Target):
    """Writes batches where the event loop placed them; a ``plan.Target``, whose file is the active segment.

    Only the worker thread uses it, except for plans that need no name and no file (``open_bytes``). After a
    write or sync has failed, ``failed`` has the error, and every later call raises it. After a passing error
    ``rewind`` begins again.

    Invariants: ``synced_to`` <= ``position``; what a plan writes counts from the call of ``wrote``, and as
    durable from that of ``synced``, so neither runs ahead of the disk.
    """

    def __init__(self, disk: Disk, files: FileCache, directory: str, description: dict[str, object]) -> None:
        self.directory = directory
        self.failed: Exception | None = None
        #: The log to tell about an error found outside its own round.
        self.owner: Fenced | None = None
        self._disk = disk
        self._files = files
        #: Of the checksums of its batches' headers.
        self.salt = salt_of(str(description["incarnation"]), int(directory.rpartition("/")[2]))
        #: Whether it is the queue's first partition. The others share its ``log.json``.
        self._is_first = directory.endswith("/0")
        #: What ``log.json`` is to say; None once it is in place.
        self._description: dict[str, object] | None = description
        #: ``log.json`` and directories, to be synced because of a name in them.
        self._unsynced_names: list[str] = []
        self._segment: Segment | None = None
        self._path = ""
        #: Bytes of the segment that are written, and those of them that are durable.
        self.position = 0
        self.synced_to = 0

    @property
    def state(self) -> State:
        """How much the next sync has to do: new names, written octets, or nothing."""
        if self._description is not None or self._unsynced_names:
            return State.NEW
        return State.NAMED if self.synced_to < self.position else State.CLEAN

    @property
    def is_made(self) -> bool:
        """Whether directory and ``log.json`` are in place."""
        return self._description is None

    @property
    def path(self) -> str:
        """The segment being written; empty before the first batch."""
        return self._path

    # -- begin ----------------------------------------------------------------------------------------

    def found(self, *, durable: bool, is_current: bool) -> None:
        """Directory and ``log.json`` are there; unless ``durable`` the next sync makes them so.

        After a kill that they are seen does not make them durable. Unless its version ``is_current``, it is
        replaced before the first batch is written, so that an older release refuses the log.
        """
        if is_current:
            self._description = None
        self._unsynced_names = [] if durable else self._names()

    def resume(self, segment: Segment, size: int, *, synced: bool) -> None:
        """Continue in a recovered segment of ``size`` bytes. They count as durable only if ``synced``."""
        self._segment = segment
        self._path = segment.path
        self.position = size
        self.synced_to = size if synced else 0
        if synced:
            self._unsynced_names = []
        else:
            self._unsynced_names.append(self.directory)

    def _names(self) -> list[str]:
        """Everything whose sync makes the log's names durable, and ``log.json``."""
        queue_directory = parent(self.directory)
        return [
            join(queue_directory, DESCRIPTION),
            self.directory,
            queue_directory,
            parent(queue_directory),
        ]

    def make(self) -> None:
        """Make directory and ``log.json`` if they are not there. ``sync_names`` makes them durable."""
        if self._description is None:
            return
        disk = self._disk
        queue_directory = parent(self.directory)
        self._unsynced_names = self._names()
        disk.make_directory(queue_directory)
        disk.make_directory(self.directory)
        path = join(queue_directory, DESCRIPTION)
        if self._is_first or not disk.exists(path):
            data = _ENCODE(self._description).encode()
            replace_file(disk, path, data, durable=False)
        self._description = None

    def sync_names(self) -> None:
        """Make durable the names made so far."""
        if self.failed is not None:
            raise self.failed
        try:
            for path in self._unsynced_names:
                if path.endswith(DESCRIPTION):
                    _sync_file(self._disk, path)
                else:
                    self._disk.sync_directory(path)
        except OSError as error:
            self.failed = error
            raise
        self._unsynced_names = []

    # -- writing --------------------------------------------------------------------------------------

    def open_bytes(self, batches: list[Batch]) -> int:
        """Bytes of ``batches``, if ``plan`` neither makes nor opens a file for them, and all pieces are
        ``bytes``; otherwise -1.

        Then it may be called on the event loop, while the worker is idle, and the flusher may carry it out.
        """
        segment = self._segment
        if self._unsynced_names or self._description is not None or self.failed is not None:
            return -1
        if self._path not in self._files:
            return -1
        size = 0
        for batch in batches:
            if batch.segment is not segment or batch.message is not None:
                return -1
            size += batch.length
        return size

    def make_ready(self, batches: Sequence[Batch]) -> None:
        """Make the names that the first of ``batches`` needs; ``sync_names`` is to follow, then ``plan``."""
        if self.failed is not None:
            raise self.failed
        try:
            self.make()
            if batches:
                self._go_to(batches[0])
        except OSError as error:
            self.failed = error
            raise

    def plan(self, batches: list[Batch]) -> Write:
        """The write of ``batches``, in order, to the segment of the last one.

        Those of segments that they fill are written and synced here: a segment is durable before the next one
        is begun.
        """
        if self.failed is not None:
            raise self.failed
        try:
            pieces: list[bytes | memoryview] = []
            start = end = batches[0].position
            for batch in batches:
                if batch.segment is not self._segment:
                    Write(self, start, pieces, end).carry_out()
                    self._go_to(batch)
                    self.sync_names()
                    pieces, start = [], batch.position
                pieces.append(batch.pack_header(min(batch.position - self.synced_to, _U32_MAX), self.salt))
                pieces.extend(batch.pieces)
                end = batch.position + batch.length
        except OSError as error:
            self.failed = error
            raise
        return Write(self, start, pieces, end)

    def write(self, batches: list[Batch]) -> None:
        """Write batches, in order, and their names; the last segment and its name are not synced."""
        self.make_ready(batches)
        if not batches:
            return
        try:
            self.plan(batches).carry_out()
        except OSError as error:
            self.failed = error
            raise

    def _go_to(self, batch: Batch) -> None:
        """Close the current segment for good and create that of ``batch``, unless it is the current one."""
        segment = batch.segment
        assert isinstance(segment, Segment)
        closed = self._segment
        if segment is closed:
            return
        if closed is not None:
            self.sync()
            if closed.index is not None:
                replace_file(self._disk, closed.index_path, closed.index.pack(), durable=False)
            # It is no longer written. Left open, it would keep its disk space after it is removed or
            # rewritten.
            self._files.drop(closed.path)
        self._segment = segment
        self._path = segment.path
        self.position = self.synced_to = 0
        if self.directory not in self._unsynced_names:
            self._unsynced_names.append(self.directory)
        # Nothing of an older file of that name may follow our bytes.
        self._files.get(self._path, create=True).truncate(0)

    def file(self) -> File:
        """The active segment, opened if it is not open."""
        return self._files.get(self._path)

    def wrote(self, end: int) -> None:
        """The segment is written up to ``end``."""
        self.position = end

    def synced(self) -> None:
        """Everything written to the segment is durable."""
        self.synced_to = self.position

    def sync(self) -> None:
        """Make everything written durable, and all names."""
        if self.failed is not None:
            raise self.failed
        try:
            if self.synced_to < self.position:
                self.file().sync()
        except OSError as error:
            self.failed = error
            raise
        self.sync_names()
        self.synced()

    def synced_whole(self) -> None:
        """A sync of the whole file system has made everything written durable, and all names."""
        self._unsynced_names = []
        self.synced()

    def sync_before_close(self, file: File) -> None:
        """Sync the segment before the descriptor cache closes it, while an error can still be seen."""
        if self.failed is None and self.synced_to < self.position:
            file.sync()
            self.synced()

    # -- again, and the end ---------------------------------------------------------------------------

    def rewind(self, batches: Sequence[Batch]) -> None:
        """Begin again after a passing error; ``batches`` are all that are not known to be written.

        Unsynced batches before them are read, checked and written again, because a failed sync has marked
        their pages as clean, and the next sync would skip them. What follows is cut off.

        Raises:
            CorruptLog: a batch that was written is no longer there.
            OSError: the error has not passed.
        """
        self.failed = None
        try:
            self._rewind(batches)
        except (OSError, CorruptLog) as error:
            self.failed = error
            raise

    def _rewind(self, batches: Sequence[Batch]) -> None:
        current = self._segment
        if current is None:
            return
        self._files.drop(self._path)
        first = batches[0] if batches else None
        segment = first.segment if first is not None else None
        if first is not None and isinstance(segment, Segment) and segment.base <= current.base:
            self._remove_after(segment, batches)
            if first.position == 0:
                # The file may not exist. The segment before it is completely synced.
                self._segment = None
                self._path = ""
                self.position = self.synced_to = 0
                return
            # A segment is synced completely before the next one is begun.
            self.synced_to = min(self.synced_to, first.position) if segment is current else first.position
            self._segment = segment
            self._path = segment.path
            self.position = first.position
        file = self._files.get(self._path)
        file.truncate(self.position)
        self._write_again(file)

    def _remove_after(self, segment: Segment, batches: Sequence[Batch]) -> None:
        """Remove the segments that the failed attempt has begun after ``segment``, the last one first.

        What is before them is written again. Found behind a half of that, they would be damage to a start.
        """
        later = {batch.segment for batch in batches if batch.segment is not segment}
        paths = [(s.path, s.index_path) for s in later if isinstance(s, Segment)]
        for path, index_path in sorted(paths, reverse=True):
            self._disk.unlink(index_path)
            self._disk.unlink(path)
        if paths:
            self._disk.sync_directory(self.directory)

    def _write_again(self, file: File) -> None:
        """Write the unsynced part again in place, batch by batch."""
        position = self.synced_to
        while position < self.position:
            header = parse_header(file.read(HEADER_SIZE, position), 0, self.salt)
            if header is None or position + header.length > self.position:
                raise CorruptLog(
                    self._path, position, "a batch is gone that a failed sync was to make durable"
                )
            data = file.read(header.length, position)
            if crc32(memoryview(data)[HEADER_SIZE:]) != header.payload_crc:
                raise CorruptLog(self._path, position, "a failed sync has damaged a batch")
            file.write([data], position)
            position += header.length

    def leave(self, segment: Segment) -> None:
        """A segment is removed. If it is the current one (completely synced), the next write begins
        another.
        """
        if segment is self._segment:
            self._segment = None
            self._path = ""
            self.position = self.synced_to = 0

    def forget(self) -> None:
        """Close the descriptor."""
        if self._path:
            self._files.drop(self._path)


def _sync_file(disk: Disk, path: str) -> None:
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()
