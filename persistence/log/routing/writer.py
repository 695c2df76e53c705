"""Writes a partition of the routing log in its thread.

Events that cannot be written are dropped until the next attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ...files import Disk, FileCache, join, parent, replace_file
from ..format.identity import read_json, salt_of
from ..format.record import Batch
from ..format.segment import Segment
from .layout import NAMES_HEADER, names_header, names_path, pack_name
from .recovery import Recovered, recover

_U32_MAX = 0xFFFFFFFF


class RoutingWriter:
    """Writes one partition in the thread. Nobody else uses its files while the broker runs.

    After an error ``failed`` is set, and every call raises it until ``reopen``.
    """

    def __init__(
        self, disk: Disk, files: FileCache, directory: str, node: str, description: Mapping[str, object]
    ) -> None:
        self.directory = directory
        self.failed: OSError | None = None
        #: The open segment, its written and its synced position, and the offsets there.
        self.segment: Segment | None = None
        self.position = self.synced = 0
        self.end = self.synced_end = 0
        #: The lowest offset that exists.
        self.start = 0
        #: Of its batches and names.
        log, number = directory.split("/")[-2:]
        self.salt = salt_of(log, int(number), node)
        self._disk = disk
        self._files = files
        self._description = description
        self._opened = False
        self._created = False
        self._names = 0
        self._names_position = 0
        self._names_salt = self.salt

    @property
    def is_dirty(self) -> bool:
        """Whether something is written but not synced."""
        return self.synced < self.position

    def take_over(self, found: Recovered) -> None:
        """Continue from the state that recovery found."""
        segment = found.segment
        self.failed = None
        self._opened = True
        self.segment = segment if segment.written else None
        self.position = self.synced = segment.written
        self.end = self.synced_end = segment.end
        self.start = found.start
        self._names = found.names
        self._names_position = NAMES_HEADER.size + found.names_bytes
        self._names_salt = found.names_salt

    def write(self, items: Sequence[tuple[Batch, list[bytes]]]) -> None:
        """Write batches, together for each segment: first its new names with a sync, then the batches.

        Raises:
            OSError: the disk failed; the writer cannot be used until ``reopen``.
        """
        if self.failed is not None:
            raise self.failed
        try:
            self._create()
            at = 0
            while at < len(items):
                segment = items[at][0].segment
                count = at
                while count < len(items) and items[count][0].segment is segment:
                    count += 1
                assert segment is not None
                self._write(segment, items[at:count])
                at = count
        except OSError as error:
            self.failed = error
            raise

    def _write(self, segment: Segment, items: Sequence[tuple[Batch, list[bytes]]]) -> None:
        if segment is not self.segment:
            self.close_segment()
            self._begin_segment(segment)
        names = b"".join(
            [
                pack_name(number, payload, self._names_salt)
                for number, payload in enumerate([p for _, new in items for p in new], self._names)
            ]
        )
        if names:
            file = self._files.get(names_path(segment))
            file.write([names], self._names_position)
            file.sync()
            self._names_position += len(names)
            self._names += sum(len(new) for _, new in items)
        pieces: list[bytes | memoryview] = []
        for batch, _ in items:
            pieces.append(batch.pack_header(min(batch.position - self.synced, _U32_MAX), self.salt))
            pieces += batch.pieces
        self._files.get(segment.path).write(pieces, self.position)
        last = items[-1][0]
        self.position = last.position + last.length
        self.end = last.last + 1

    def _begin_segment(self, segment: Segment) -> None:
        self.segment = segment
        self.position = self.synced = 0
        self.end = self.synced_end = segment.base
        self._names = 0
        self._names_position = NAMES_HEADER.size
        self._names_salt = self.salt
        names = self._files.get(names_path(segment), create=True)
        names.truncate(0)
        names.write([names_header(segment.base)], 0)
        names.sync()
        # An older file of that name must not remain after our bytes.
        self._files.get(segment.path, create=True).truncate(0)
        self._disk.sync_directory(segment.directory)

    def _create(self) -> None:
        """Make the directories and ``log.json``, durably."""
        if self._created:
            return
        disk = self._disk
        own = parent(self.directory)
        above = parent(own)
        for directory in (above, own, self.directory):
            disk.make_directory(directory)
        if read_json(disk, own) != self._description:
            replace_file(disk, join(own, "log.json"), json.dumps(self._description, sort_keys=True).encode())
        for directory in (parent(above), above, own):
            disk.sync_directory(directory)
        self._created = True

    def sync(self) -> None:
        """Make everything written durable.

        Raises:
            OSError: as ``write``.
        """
        if self.failed is not None:
            raise self.failed
        if self.segment is not None and self.is_dirty:
            try:
                self._files.get(self.segment.path).sync()
            except OSError as error:
                self.failed = error
                raise
        self.synced = self.position
        self.synced_end = self.end

    def close_segment(self) -> None:
        """Sync the open segment for good, and write its index."""
        segment = self.segment
        if segment is None:
            return
        self.sync()
        if segment.index is not None:
            replace_file(self._disk, segment.index_path, segment.index.pack(), durable=False)
        self._files.drop(segment.path)
        self._files.drop(names_path(segment))
        self.segment = None

    def reopen(self, mark: tuple[int, int, int]) -> Recovered:
        """After an error: cut the segment to its synced part, and recover it as ``recover`` does.

        ``mark`` is used if nothing has been opened yet.

        Raises:
            OSError: the disk still fails.
        """
        segment = self.segment
        if segment is not None:
            self._files.drop(segment.path)
            self._files.drop(names_path(segment))
            if self._disk.exists(segment.path):
                file = self._disk.open(segment.path, write=True)
                try:
                    file.truncate(self.synced)
                    file.sync()
                finally:
                    file.close()
        if self._opened:
            base = segment.base if segment is not None else self.synced_end
            mark = (self.synced_end, base, self.synced if segment is not None else 0)
        found = recover(self._disk, self.directory, mark, self.salt)
        self._created = False
        return found
