"""Writes a partition in the worker thread: its directory, its active segment, and how far that is synced."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from typing import Protocol
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk, File, FileCache, join, parent, read_file, replace_file
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
        raise CorruptLog(path, 0, f"format version {version}, this release reads 0 and 1{WAY_OUT}")
    return description


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


class Fenced(Protocol):
    """What is told of an error."""

    def fail(self, error: Exception) -> None: ...


class PartitionWriter:
    """Writes batches where the event loop placed them. Only the worker thread uses it.

    ``dirty``: bytes in the current segment, or a name in the directory, are not synced. After a write or sync
    has failed, ``failed`` has the error, and every later call raises it. After a passing error ``rewind``
    begins again.
    """

    def __init__(self, disk: Disk, files: FileCache, directory: str, description: dict[str, object]) -> None:
        self.directory = directory
        self.failed: Exception | None = None
        self.dirty = False
        #: Whether directory and ``log.json`` are in place.
        self.created = False
        #: The log to tell about an error found outside its own round.
        self.owner: Fenced | None = None
        self._disk = disk
        self._files = files
        self._description = description
        #: Of the checksums of its batches' headers.
        self.salt = salt_of(str(description["incarnation"]), int(directory.rpartition("/")[2]))
        self._segment: Segment | None = None
        self._path = ""
        self._position = 0
        self._synced = 0
        self._names_dirty = False
        # Whether directory and description are not durable yet.
        self._is_new = False

    @property
    def path(self) -> str:
        """The segment being written; empty before the first batch."""
        return self._path

    def resume(self, segment: Segment, size: int, *, synced: bool) -> None:
        """Continue in a recovered segment of ``size`` bytes. They count as durable only if ``synced``."""
        self._segment = segment
        self._path = segment.path
        self._position = size
        self._synced = size if synced else 0
        self.dirty = self._names_dirty = not synced
        if synced:
            self._is_new = False

    def found(self, *, durable: bool, is_current: bool) -> None:
        """Directory and ``log.json`` are there; unless ``durable`` the next sync makes them so.

        After a kill that they are seen does not make them durable. Unless its version ``is_current``, it is
        replaced before the first batch is written, so that an older release refuses the log.
        """
        self.created = is_current
        self._is_new = not durable

    def create(self) -> None:
        """Make directory and ``log.json`` before the first batch. The next sync makes them durable."""
        if self.created:
            return
        disk = self._disk
        queue_directory = parent(self.directory)
        disk.make_directory(queue_directory)
        disk.make_directory(self.directory)
        data = json.dumps(self._description, sort_keys=True, default=_base64).encode()
        replace_file(disk, join(queue_directory, DESCRIPTION), data, durable=False)
        self.created = self._is_new = self.dirty = True

    def write(self, batches: Sequence[Batch]) -> None:
        """Write batches, in order. A segment is completely synced before the next one is begun."""
        if self.failed is not None:
            raise self.failed
        try:
            self.create()
            pieces: list[bytes | memoryview] = []
            start = -1
            for batch in batches:
                segment = batch.segment
                assert isinstance(segment, Segment)
                if segment is not self._segment:
                    self._flush(pieces, start)
                    pieces, start = [], -1
                    self._switch(segment)
                if start < 0:
                    start = batch.position
                pieces.append(batch.pack_header(min(batch.position - self._synced, _U32_MAX), self.salt))
                pieces.extend(batch.pieces)
                self._position = batch.position + batch.length
            self._flush(pieces, start)
        except OSError as error:
            self.failed = error
            raise

    def rewind(self, first: Batch | None) -> None:
        """Begin again after a passing error; ``first`` is the first batch that is not known to be written.

        Unsynced batches before it are read, checked and written again, because a failed sync has marked their
        pages as clean, and the next sync would skip them. What follows is cut off.

        Raises:
            CorruptLog: a batch that was written is no longer there.
            OSError: the error has not passed.
        """
        self.failed = None
        try:
            self._rewind(first)
        except (OSError, CorruptLog) as error:
            self.failed = error
            raise

    def _rewind(self, first: Batch | None) -> None:
        current = self._segment
        if current is None:
            return
        self._files.drop(self._path)
        self.dirty = self._names_dirty = True
        segment = first.segment if first is not None else None
        if first is not None and isinstance(segment, Segment) and segment.base <= current.base:
            if first.position == 0:
                # The file may not exist. The segment before it is completely synced.
                self._segment = None
                self._path = ""
                self._position = self._synced = 0
                return
            # A segment is synced completely before the next one is begun.
            self._synced = min(self._synced, first.position) if segment is current else first.position
            self._segment = segment
            self._path = segment.path
            self._position = first.position
        file = self._files.get(self._path)
        file.truncate(self._position)
        self._write_again(file)

    def _write_again(self, file: File) -> None:
        """Write the unsynced part again in place, batch by batch."""
        position = self._synced
        while position < self._position:
            header = parse_header(file.read(HEADER_SIZE, position), 0, self.salt)
            if header is None or position + header.length > self._position:
                raise CorruptLog(
                    self._path, position, "a batch is gone that a failed sync was to make durable"
                )
            data = file.read(header.length, position)
            if crc32(memoryview(data)[HEADER_SIZE:]) != header.payload_crc:
                raise CorruptLog(self._path, position, "a failed sync has damaged a batch")
            file.write([data], position)
            position += header.length

    def quick(self, batches: Sequence[Batch], bytes_max: int) -> tuple[int, int, list[bytes]] | None:
        """Descriptor, position and pieces, if one small write to the open segment is enough; otherwise None.

        Called on the event loop while the worker is idle. If it returns None, the worker must write.
        """
        if not self.created or self.failed is not None or self._names_dirty:
            return None
        fd = self._files.descriptor(self._path)
        if fd < 0:
            return None
        pieces: list[bytes] = []
        for batch in batches:
            bytes_max -= batch.length
            if batch.segment is not self._segment or bytes_max < 0 or batch.message is not None:
                return None
            pieces.append(batch.pack_header(min(batch.position - self._synced, _U32_MAX), self.salt))
            pieces += [piece for piece in batch.pieces if isinstance(piece, bytes)]
        self.dirty = True
        self._position = batches[-1].position + batches[-1].length
        return fd, batches[0].position, pieces

    def quick_done(self, error: int) -> OSError | None:
        """The write that ``quick`` described is synced, or has failed with that error number."""
        if error:
            self.failed = OSError(error, os.strerror(error), self._path)
            return self.failed
        self._synced = self._position
        self.dirty = False
        return None

    def _flush(self, pieces: list[bytes | memoryview], position: int) -> None:
        if pieces:
            self.dirty = True
            self._files.get(self._path).write(pieces, position)

    def _switch(self, segment: Segment) -> None:
        """Close the current segment for good and create the next one."""
        closed = self._segment
        if closed is not None:
            self.sync()
            if closed.index is not None:
                replace_file(self._disk, closed.index_path, closed.index.pack(), durable=False)
            # It is no longer written. Left open, it would keep its disk space after it is removed or
            # rewritten.
            self._files.drop(closed.path)
        self._segment = segment
        self._path = segment.path
        self._position = self._synced = 0
        file = self._files.get(self._path, create=True)
        # Nothing of an older file of that name may follow our bytes.
        file.truncate(0)
        self.dirty = self._names_dirty = True

    def sync(self) -> None:
        """Make everything written durable, the segment's name included."""
        if self.failed is not None:
            raise self.failed
        if not self.dirty:
            return
        try:
            if self._path:
                self._files.get(self._path).sync()
            if self._names_dirty:
                self._disk.sync_directory(self.directory)
            if self._is_new:
                self._sync_creation()
        except OSError as error:
            self.failed = error
            raise
        self.synced()

    def synced(self) -> None:
        """Note that everything written is durable, by a sync of its own or of the whole file system."""
        self._names_dirty = self._is_new = False
        self._synced = self._position
        self.dirty = False

    def _sync_creation(self) -> None:
        queue_directory = parent(self.directory)
        file = self._disk.open(join(queue_directory, DESCRIPTION))
        try:
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(queue_directory)
        self._disk.sync_directory(parent(queue_directory))

    def sync_before_close(self, file: File) -> None:
        """Sync the segment before the descriptor cache closes it, while an error can still be seen."""
        if not self.dirty or self.failed is not None:
            return
        file.sync()
        self._synced = self._position
        self.dirty = self._names_dirty or self._is_new

    def leave(self, segment: Segment) -> None:
        """A segment is removed. If it is the current one (completely synced), the next write begins
        another.
        """
        if segment is self._segment:
            self._segment = None
            self._path = ""
            self._position = self._synced = 0

    def forget(self) -> None:
        """Close the descriptor."""
        if self._path:
            self._files.drop(self._path)
