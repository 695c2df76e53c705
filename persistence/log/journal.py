"""The commit journal: many dirty logs made durable by one sync (FORMAT.md, "Commit journal")."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from struct import Struct
from zlib import crc32

from ..files import Disk, File, RealFile, join, read_file
from .record import HEADER_SIZE, BatchHeader, parse_header
from .round import Submission
from .writer import PartitionWriter

logger = logging.getLogger(__name__)

_MAGIC = b"ARLJ"
_ENTRY = Struct("<4sIIHHI")
#: From so many logs on, everything is written back at once before they are synced one by one.
_FLUSH_ALL_MIN = 32
_PREFIX, _SUFFIX = "commit-", ".journal"


def journal_files(disk: Disk, directory: str) -> list[str]:
    """Paths of the journal files, in order."""
    numbered = [(number, name) for name in disk.list(directory) if (number := _number(name)) >= 0]
    return [join(directory, name) for _, name in sorted(numbered)]


def _number(name: str) -> int:
    """The number in a journal file's name; -1 for other files."""
    number = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    is_ours = name == f"{_PREFIX}{number}{_SUFFIX}" and number.isascii() and number.isdecimal()
    return int(number) if is_ours else -1


class _JournalFile:
    __slots__ = ("covered", "is_kept", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        #: Writers whose segments must be synced before the file may go. A dict keeps their order.
        self.covered: dict[PartitionWriter, None] = {}
        #: A log could not be synced: what it confirmed stands here alone, for the next start.
        self.is_kept = False


class CommitJournal:
    """Used by the worker thread alone."""

    def __init__(self, disk: Disk, directory: str, bytes_max: int) -> None:
        self._disk = disk
        self._directory = directory
        self._bytes_max = bytes_max
        self._next_number = 0
        self._current: _JournalFile | None = None
        self._file: File | None = None
        self._size = 0
        self._quick_size = 0
        self._old: list[_JournalFile] = []
        self.broken = False

    def go_on_after(self, paths: Sequence[str]) -> None:
        """Leave the files of the last process alone: number on after them."""
        if paths:
            self._next_number = _number(paths[-1].rpartition("/")[2]) + 1

    @property
    def is_pending(self) -> bool:
        """Whether any log waits for its sync."""
        return bool(self._old) or self._current is not None

    def append(self, submissions: Sequence[Submission]) -> None:
        """Make the batches of ``submissions``, written to their segments already, durable here.

        Raises:
            OSError: nothing of it may be taken as durable; the journal is not used again.
        """
        try:
            if self._file is None:
                self._begin()
            assert self._file is not None
            assert self._current is not None
            pieces, size = _entries(submissions)
            self._file.write(pieces, self._size)
            self._file.sync()
        except OSError:
            self.broken = True
            raise
        self._cover(submissions, size)

    def _cover(self, submissions: Sequence[Submission], size: int) -> None:
        assert self._current is not None
        self._size += size
        for submission in submissions:
            self._current.covered[submission.writer] = None
        if self._size >= self._bytes_max:
            self.retire()

    def quick(self, submissions: Sequence[Submission]) -> tuple[int, int, list[bytes]] | None:
        """Descriptor, position and pieces of what ``append`` would write; None if it is for the worker.

        Called on the loop, while the worker is idle, for batches without large messages.
        """
        if self.broken or self._old or not isinstance(self._file, RealFile):
            return None
        pieces, self._quick_size = _entries(submissions)
        return self._file.fileno(), self._size, pieces  # type: ignore[return-value]  # small batches are bytes

    def quick_done(self, submissions: Sequence[Submission]) -> None:
        """What ``quick`` described is written and synced."""
        self._cover(submissions, self._quick_size)

    def _begin(self) -> None:
        path = join(self._directory, f"{_PREFIX}{self._next_number:08d}{_SUFFIX}")
        self._next_number += 1
        self._file = self._disk.open(path, write=True, create=True)
        self._file.truncate(0)
        self._disk.sync_directory(self._directory)
        self._current = _JournalFile(path)
        self._size = 0

    def retire(self) -> None:
        """Begin a new file with the next append; the current one waits for its logs' syncs."""
        if self._current is not None:
            self._old.append(self._current)
            self._current = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def drain(self, syncs_max: int | None) -> Iterator[tuple[PartitionWriter, OSError]]:
        """Sync up to ``syncs_max`` logs of old files (all if None) and remove files that are done.

        Yields the writers that failed; their logs are to be fenced, and the file stays for the next start.
        """
        done = 0
        if syncs_max is None and sum(len(file.covered) for file in self._old) > _FLUSH_ALL_MIN:
            self._disk.flush_all()
        while self._old:
            oldest = self._old[0]
            while oldest.covered:
                # Two files behind means that syncs do not keep up: catch up now.
                if syncs_max is not None and done >= syncs_max and len(self._old) <= 2:
                    return
                writer = next(iter(oldest.covered))
                del oldest.covered[writer]
                if writer.failed is not None:
                    oldest.is_kept = True
                elif writer.dirty:
                    done += 1
                    try:
                        writer.sync()
                    except OSError as error:
                        oldest.is_kept = True
                        yield writer, error
            del self._old[0]
            if not oldest.is_kept:
                try:
                    self._disk.unlink(oldest.path)
                except OSError as error:
                    # It says nothing that its logs do not; the next start reads it and removes it.
                    logger.warning("cannot remove a commit journal: %s", error)

    def forget(self, writer: PartitionWriter) -> None:
        """The writer's log is deleted."""
        for file in [*self._old, *([self._current] if self._current else [])]:
            file.covered.pop(writer, None)


def _entries(submissions: Sequence[Submission]) -> tuple[list[bytes | memoryview], int]:
    """What the journal holds of ``submissions``, in pieces, and its size."""
    pieces: list[bytes | memoryview] = []
    size = 0
    for submission in submissions:
        name = submission.log.incarnation.encode()
        for batch in submission.batches:
            head = _ENTRY.pack(_MAGIC, batch.length, submission.log.number, len(name), 0, 0)[:16]
            crc = crc32(name, crc32(head))
            pieces.append(head + crc.to_bytes(4, "little") + name)
            # What stands in the segment says how much of it was unsynced; here it says "all".
            pieces.append(batch.pack_header(0xFFFFFFFF))
            pieces.extend(batch.pieces)
            size += 20 + len(name) + batch.length
    return pieces, size


def read_journal(disk: Disk, path: str) -> Iterator[tuple[str, int, BatchHeader, bytes]]:
    """(incarnation, partition, header, whole batch) of each entry up to the first bad one."""
    data = read_file(disk, path)
    position = 0
    while position + _ENTRY.size <= len(data):
        magic, length, partition, name_size, _, crc = _ENTRY.unpack_from(data, position)
        name = data[position + _ENTRY.size : position + _ENTRY.size + name_size]
        if magic != _MAGIC or crc32(name, crc32(data[position : position + 16])) != crc:
            return
        start = position + _ENTRY.size + name_size
        header = parse_header(data, start)
        if header is None or header.length != length or start + length > len(data):
            return
        if crc32(memoryview(data)[start + HEADER_SIZE : start + length]) != header.payload_crc:
            return
        yield name.decode(), partition, header, data[start : start + length]
        position = start + length
