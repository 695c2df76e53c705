"""The commit journal: many logs made durable by one sync (FORMAT.md, "Commit journal")."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ...errors import is_passing
from ...files import Disk, File, join, read_file
from ...plan import Plan, Target, Write
from ..format.identity import key_of, salt_of
from ..format.record import HEADER_SIZE, BatchHeader, parse_header
from .marks import sync_marks
from .round import Submission
from .together import SyncTogether
from .writer import PartitionWriter, State

logger = logging.getLogger(__name__)

_MAGIC = b"ARLJ"
_ENTRY = Struct("<4sIIHHI")
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
    __slots__ = ("covered", "is_kept", "path", "was_synced_together")

    def __init__(self, path: str) -> None:
        self.path = path
        #: Writers whose segments must be synced before the file is removed. A dict keeps their order.
        self.covered: dict[PartitionWriter, None] = {}
        #: A log could not be synced. Only this file has its confirmed batches; it is kept for the next start.
        self.is_kept = False
        #: One sync for all of them was tried. What it left is synced log by log.
        self.was_synced_together = False


class CommitJournal(Target):
    """The last ``plan.Target`` of a plan for several logs. Its file is made, and its name synced, beforehand.

    Used by the worker thread, or on the event loop for a plan of the flusher, while the worker is idle.
    """

    def __init__(
        self, disk: Disk, directory: str, bytes_max: int, together: SyncTogether, together_min: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._bytes_max = bytes_max
        self._together = together
        self._together_min = together_min
        self._next_number = 0
        self._current: _JournalFile | None = None
        self._file: File | None = None
        self._size = 0
        #: The writers of the plan under way.
        self._planned: list[PartitionWriter] = []
        self._old: list[_JournalFile] = []
        self.broken = False

    def go_on_after(self, paths: Sequence[str]) -> None:
        """Number new files after those of the last process, which stay as they are."""
        if paths:
            self._next_number = _number(paths[-1].rpartition("/")[2]) + 1

    @property
    def is_pending(self) -> bool:
        """Whether any log waits for its sync."""
        return bool(self._old) or self._current is not None

    @property
    def is_open(self) -> bool:
        """Whether ``plan`` makes no file, and no file waits for syncs that come first."""
        return not self.broken and not self._old and self._file is not None

    def plan(self, submissions: Sequence[Submission]) -> Write:
        """The write that, with its sync, makes durable what the plan has written to the logs before it.

        Raises:
            OSError: there is no file, and none can be made.
        """
        if self._file is None:
            try:
                self._begin()
            except OSError as error:
                self.broken = not is_passing(error)
                self.retire()
                raise
        pieces, size = _entries(submissions)
        self._planned = [submission.writer for submission in submissions]
        return Write(self, self._size, pieces, self._size + size)

    def file(self) -> File:
        """The current file."""
        assert self._file is not None
        return self._file

    def wrote(self, end: int) -> None:
        """The file is written up to ``end``."""
        self._size = end

    def synced(self) -> None:
        """The planned entries are durable."""
        assert self._current is not None
        for writer in self._planned:
            self._current.covered[writer] = None
        self._planned = []
        if self._size >= self._bytes_max:
            self.retire()

    def give_up(self, plan: Plan) -> None:
        """``plan`` has failed, so none of its logs may be taken as durable.

        If the journal itself failed, its file takes no more, because its pages may be lost; and unless the
        error passes, the journal is not used again.
        """
        self._planned = []
        if plan.done >= len(plan.writes) - 1:
            self.broken = plan.error is not None and not is_passing(plan.error)
            self.retire()

    def _begin(self) -> None:
        path = join(self._directory, f"{_PREFIX}{self._next_number:08d}{_SUFFIX}")
        self._next_number += 1
        self._file = self._disk.open(path, write=True, create=True)
        self._file.truncate(0)
        self._disk.sync_directory(self._directory)
        self._current = _JournalFile(path)
        self._size = 0

    def retire(self) -> None:
        """Begin a new file with the next append. The current one stays until its logs are synced."""
        if self._current is not None:
            self._old.append(self._current)
            self._current = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def drain(self, syncs_max: int | None) -> Iterator[tuple[PartitionWriter, OSError]]:
        """Sync up to ``syncs_max`` logs of old files (all if None), and remove the files that are done.

        Many logs are synced at once instead, if the file system is known to allow it: syncs of their own
        would be most of what many busy logs cost.

        Yields the writers that failed. The caller fences their logs, and the file stays for the next start.
        """
        done = 0
        self._sync_together(is_last=syncs_max is None)
        while self._old:
            oldest = self._old[0]
            while oldest.covered:
                # More than two old files mean that the syncs do not keep up: catch up now.
                if syncs_max is not None and done >= syncs_max and len(self._old) <= 2:
                    return
                writer = next(iter(oldest.covered))
                del oldest.covered[writer]
                if writer.failed is not None:
                    oldest.is_kept = True
                elif writer.state is not State.CLEAN:
                    done += 1
                    try:
                        writer.sync()
                    except OSError as error:
                        oldest.is_kept = True
                        yield writer, error
            del self._old[0]
            if not oldest.is_kept:
                try:
                    # So far this file told how far its logs are durable. From now on only the marks tell it.
                    sync_marks(self._disk, self._directory)
                    self._disk.unlink(oldest.path)
                except OSError as error:
                    # Its logs have all of it. The next start reads and removes the file.
                    logger.warning("cannot remove a commit journal: %s", error)

    def _sync_together(self, *, is_last: bool) -> None:
        """Sync the logs of old files by one sync, if they are many."""
        files = [file for file in self._old if not file.was_synced_together]
        if not files or not (self._together.is_available or is_last):
            return
        dirty = {writer: None for file in files for writer in file.covered if writer.state is not State.CLEAN}
        if len(dirty) < self._together_min:
            return
        for file in files:
            file.was_synced_together = True
        if self._current is not None:
            # Already synced then, when its turn comes, unless they go on.
            covered = self._current.covered
            dirty |= {writer: None for writer in covered if writer.state is not State.CLEAN}
        self._together.sync(list(dirty))

    def forget(self, writer: PartitionWriter) -> None:
        """Forget ``writer``, whose log is deleted."""
        for file in [*self._old, *([self._current] if self._current else [])]:
            file.covered.pop(writer, None)


def _entries(submissions: Sequence[Submission]) -> tuple[list[bytes | memoryview], int]:
    """The journal entries of ``submissions``, in pieces, and their size."""
    pieces: list[bytes | memoryview] = []
    size = 0
    for submission in submissions:
        name = submission.log.incarnation.encode()
        for batch in submission.batches:
            head = _ENTRY.pack(_MAGIC, batch.length, submission.log.number, len(name), 0, 0)[:16]
            crc = crc32(name, crc32(head))
            pieces.append(head + crc.to_bytes(4, "little") + name)
            # The header in the segment says how many bytes before it were unsynced. In the journal it says
            # "all".
            pieces.append(batch.pack_header(0xFFFFFFFF, submission.writer.salt))
            pieces.extend(batch.pieces)
            size += 20 + len(name) + batch.length
    return pieces, size


class JournalEntry(NamedTuple):
    """A batch of one log."""

    header: BatchHeader
    #: The whole batch.
    data: bytes
    #: It follows a damaged entry.
    is_doubtful: bool = False


@dataclass(slots=True)
class JournalContent:
    """What a journal file holds."""

    #: (key of the partition, entry), in order.
    entries: list[tuple[str, JournalEntry]] = field(default_factory=list)
    #: (position, bytes) of damage that is followed by a good entry.
    damaged: list[tuple[int, int]] = field(default_factory=list)
    #: The same after the last good entry; no bytes if there are only zeros.
    torn: tuple[int, int] = (0, 0)


def read_journal(disk: Disk, path: str) -> JournalContent:
    """Read every good entry, also those after damaged ones."""
    data = read_file(disk, path)
    content = JournalContent()
    position = 0
    while position < len(data):
        found = _entry_at(data, position)
        if found is not None:
            name, entry, end = found
            content.entries.append((name, entry._replace(is_doubtful=bool(content.damaged))))
            position = end
            continue
        # A damaged payload is skipped as a whole, because a body may contain what looks like an entry.
        after = _end_of_entry(data, position)
        while after >= 0 and _entry_at(data, after) is None:
            after = data.find(_MAGIC, after + 1)
        if after < 0:
            if any(data[position:]):
                content.torn = position, len(data) - position
            break
        content.damaged.append((position, after - position))
        position = after
    return content


def _entry_at(data: bytes, position: int) -> tuple[str, JournalEntry, int] | None:
    """(key of the partition, entry, end) of the good entry at ``position``."""
    start = _batch_start(data, position)
    if start < 0:
        return None
    name = data[position + _ENTRY.size : start].decode("utf-8", "replace")
    length, partition = (int.from_bytes(data[at : at + 4], "little") for at in (position + 4, position + 8))
    header = parse_header(data, start, salt_of(name, partition))
    if header is None or header.length != length or start + length > len(data):
        return None
    if crc32(memoryview(data)[start + HEADER_SIZE : start + length]) != header.payload_crc:
        return None
    return key_of(name, partition), JournalEntry(header, data[start : start + length]), start + length


def _batch_start(data: bytes, position: int) -> int:
    """Position of the batch of the entry at ``position``; -1 if the entry has no good head."""
    if position + _ENTRY.size > len(data):
        return -1
    magic, _, _, name_size, _, crc = _ENTRY.unpack_from(data, position)
    start = int(position + _ENTRY.size + name_size)
    name = data[position + _ENTRY.size : start]
    if magic != _MAGIC or crc32(name, crc32(data[position : position + 16])) != crc:
        return -1
    return start


def _end_of_entry(data: bytes, position: int) -> int:
    """The end of a bad entry with a good head, or else the next place that looks like an entry; -1: none."""
    start = _batch_start(data, position)
    if start < 0:
        return data.find(_MAGIC, position + 1)
    end = start + int.from_bytes(data[position + 4 : position + 8], "little")
    return end if end < len(data) else -1
