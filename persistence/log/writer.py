"""The worker's side of a partition: its directory, the segment being written, what of it is synced."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from ..errors import CorruptLog
from ..files import Disk, File, FileCache, join, parent, read_file, replace_file
from .record import HEADER_SIZE, Batch, parse_header
from .segment import Segment

_U32_MAX = 0xFFFFFFFF
_DESCRIPTION = "log.json"


def read_description(disk: Disk, directory: str) -> dict[str, Any] | None:
    """``log.json`` of a queue's directory; None if it is missing or torn.

    Then it was not synced before a crash, and no batch that needs it was; the definitions know what it said.

    Raises:
        CorruptLog: it is of another format version.
    """
    path = join(directory, _DESCRIPTION)
    try:
        description = json.loads(read_file(disk, path))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    if not isinstance(description, dict):
        return None
    version = description.get("version")
    if version != 0:
        raise CorruptLog(path, 0, f"format version {version}, not 0")
    return description


class PartitionWriter:
    """Writes batches where the loop placed them; used by the worker thread alone.

    ``dirty`` = bytes written to the current segment, or a name put into the directory, that are not synced.
    After a write or sync has failed, ``failed`` keeps the error and everything later raises it; ``rewind``
    begins again after a passing error.
    """

    def __init__(self, disk: Disk, files: FileCache, directory: str, description: dict[str, Any]) -> None:
        self.directory = directory
        self.failed: Exception | None = None
        self.dirty = False
        #: Whether directory and ``log.json`` are in place.
        self.created = False
        #: The log that must hear of an error found outside its own round.
        self.owner: Any = None
        self._disk = disk
        self._files = files
        self._description = description
        self._segment: Segment | None = None
        self._path = ""
        self._position = 0
        self._synced = 0
        self._names_dirty = False
        # Directory and description are not durable yet.
        self._is_new = False

    @property
    def path(self) -> str:
        """The segment being written; empty before the first batch."""
        return self._path

    def resume(self, segment: Segment, size: int, *, synced: bool) -> None:
        """Go on in a recovered segment of ``size`` bytes; unless ``synced`` none of them count as durable."""
        self._segment = segment
        self._path = segment.path
        self._position = size
        self._synced = size if synced else 0
        self.dirty = self._names_dirty = not synced
        if synced:
            self._is_new = False

    def found(self, *, durable: bool) -> None:
        """Directory and ``log.json`` are there; unless ``durable`` the next sync makes them so.

        After a kill that they are seen does not make them durable.
        """
        self.created = True
        self._is_new = not durable

    def create(self) -> None:
        """Put directory and ``log.json`` in place before the first batch; the next sync makes them last."""
        if self.created:
            return
        disk = self._disk
        queue_directory = parent(self.directory)
        disk.make_directory(queue_directory)
        disk.make_directory(self.directory)
        data = json.dumps(self._description, sort_keys=True).encode()
        replace_file(disk, join(queue_directory, _DESCRIPTION), data, durable=False)
        self.created = self._is_new = self.dirty = True

    def write(self, batches: Sequence[Batch]) -> None:
        """Write batches, in order. A segment is synced completely before the next one is begun."""
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
                pieces.append(batch.pack_header(min(batch.position - self._synced, _U32_MAX)))
                pieces.extend(batch.pieces)
                self._position = batch.position + batch.length
            self._flush(pieces, start)
        except OSError as error:
            self.failed = error
            raise

    def rewind(self, first: Batch | None) -> None:
        """Begin again after a passing error; ``first`` is the first batch that is not known to be written.

        What stands before it without being synced is read, checked and written again: a sync that failed
        has marked its pages clean, and the next one would skip them. What stands behind it is cut off.

        Raises:
            CorruptLog: what was written is not there any more.
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
                # The file may not exist; the segment before it was synced before it was begun.
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
        """Write what is not synced over itself, batch by batch."""
        position = self._synced
        while position < self._position:
            header = parse_header(file.read(HEADER_SIZE, position), 0)
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
        """Descriptor, position and pieces, if all that is to do is one small write to the open segment.

        Called on the loop, while the worker is idle. None if it is more than that: the worker does it then.
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
            pieces.append(batch.pack_header(min(batch.position - self._synced, _U32_MAX)))
            pieces += [piece for piece in batch.pieces if isinstance(piece, bytes)]
        self.dirty = True
        self._position = batches[-1].position + batches[-1].length
        return fd, batches[0].position, pieces

    def quick_done(self, error: int) -> OSError | None:
        """What ``quick`` described is written and synced, or failed with that error number."""
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
            # Not written any more; open, it would keep its space after it is removed or rewritten.
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
        """Everything written is durable, by a sync of the whole file system or one's own."""
        self._names_dirty = self._is_new = False
        self._synced = self._position
        self.dirty = False

    def _sync_creation(self) -> None:
        queue_directory = parent(self.directory)
        file = self._disk.open(join(queue_directory, _DESCRIPTION))
        try:
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(queue_directory)
        self._disk.sync_directory(parent(queue_directory))

    def sync_before_close(self, file: File) -> None:
        """The descriptor cache is about to close the segment: sync it while an error can still be seen."""
        if not self.dirty or self.failed is not None:
            return
        file.sync()
        self._synced = self._position
        self.dirty = self._names_dirty or self._is_new

    def leave(self, segment: Segment) -> None:
        """The segment is removed; if it is the current one, all synced, the next write begins another."""
        if segment is self._segment:
            self._segment = None
            self._path = ""
            self._position = self._synced = 0

    def forget(self) -> None:
        """Let go of the descriptor."""
        if self._path:
            self._files.drop(self._path)
