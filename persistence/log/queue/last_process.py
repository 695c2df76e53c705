"""What the last process left beside the logs: the node's checkpoint, the commit journal, and the marks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ...errors import CorruptLog
from ...files import Disk, join, read_file, replace_file
from ..format.checkpoint import (
    NODE_FILE_NAME,
    LogState,
    newest,
    not_clean,
    pack_log,
    read_own,
    unpack_file,
    write_checkpoint,
)
from ..format.identity import key_of
from ..sync.journal import JournalEntry, journal_files, read_journal
from ..sync.marks import Mark, log_id, read_marks
from .cutting import free_path

logger = logging.getLogger(__name__)


class LastProcess:
    """Read once at a start, and asked for each log that is opened."""

    def __init__(self, disk: Disk, data_dir: str, queues_dir: str) -> None:
        #: Whether the last stop was clean.
        self.was_clean = False
        self._disk = disk
        self._data_dir = data_dir
        self._queues_dir = queues_dir
        #: By key of the partition (``key_of``), as all that follows.
        self._states: dict[str, LogState] = {}
        #: Logs with a state in the node's checkpoint, but without a directory.
        self._gone: set[str] = set()
        self._journal: dict[str, list[JournalEntry]] = {}
        self._journal_paths: list[str] = []
        #: The journals with a damaged entry; they are kept.
        self._journal_damaged: set[str] = set()
        #: How far each log was durable, by id and partition.
        self._promised: dict[tuple[bytes, int], Mark] = {}

    def read(self) -> list[str]:
        """Read everything; returns the paths of the journal files.

        Raises:
            OSError: the disk failed.
        """
        self._read_checkpoint()
        self._journal_paths = journal_files(self._disk, self._data_dir)
        for path in self._journal_paths:
            self._read_journal(path)
        self._read_marks()
        return self._journal_paths

    def _read_checkpoint(self) -> None:
        disk = self._disk
        path = join(self._data_dir, NODE_FILE_NAME)
        data = b""
        states: list[LogState] = []
        try:
            data = read_file(disk, path)
            self.was_clean, states = unpack_file(path, data)
        except FileNotFoundError:
            pass
        except CorruptLog as error:
            # It only saves the scan of the logs. Removed segments are recorded in each log's own checkpoint
            # too.
            logger.error("%s; all logs are scanned, and their messages redelivered", error)
        # A log without a directory was deleted, is damaged or begins empty. This state must not become its
        # recovery point.
        self._gone = {
            key_of(state.incarnation, state.partition)
            for state in states
            if state.recovery_offset and not disk.exists(self._directory(state.incarnation, state.partition))
        }
        known = {key_of(state.incarnation, state.partition): state for state in states}
        self._states = {key: state for key, state in known.items() if key not in self._gone}
        if self.was_clean or self._gone:
            # From now on these states are ordinary recovery points and no longer those of a clean stop.
            kept = [state for state in states if not self.is_set_aside(state.incarnation)]
            if len(kept) == len(states):
                replace_file(disk, path, not_clean(data))
            else:
                write_checkpoint(disk, path, [pack_log(state) for state in kept], clean=False, now_us=0)

    def _read_journal(self, path: str) -> None:
        content = read_journal(self._disk, path)
        for key, entry in content.entries:
            self._journal.setdefault(key, []).append(entry)
        for position, size in content.damaged:
            self._journal_damaged.add(path)
            logger.error(
                "%s at byte %d: a damaged entry of %d bytes; the entries behind it are replayed, and the "
                "file is kept as %s.damaged",
                path,
                position,
                size,
                path,
            )
        position, size = content.torn
        if size:
            logger.warning(
                "%s at byte %d: the last %d bytes are no whole entry: they were never acknowledged, unless a "
                "log is reported as damaged",
                path,
                position,
                size,
            )

    def _read_marks(self) -> None:
        faults: list[str] = []
        self._promised = read_marks(self._disk, self._data_dir, faults)
        if faults and self._disk.list(self._queues_dir):
            for fault in faults[:3]:
                logger.warning("%s; damage at the end of a log can be taken for a torn tail", fault)

    def is_set_aside(self, incarnation: str) -> bool:
        """Whether the operator has moved a log's directory into quarantine."""
        return self._disk.exists(join(self._data_dir, "quarantine", incarnation)) and not self._disk.exists(
            join(self._queues_dir, incarnation)
        )

    def is_known(self, incarnation: str, partition: int) -> bool:
        """Whether a log had something durable, by the checkpoint (its directory is gone) or the marks."""
        mark = self.mark(incarnation, partition)
        return key_of(incarnation, partition) in self._gone or (mark is not None and mark.end > 0)

    def mark(self, incarnation: str, partition: int) -> Mark | None:
        """How far a log was durable."""
        return self._promised.get((log_id(incarnation), partition))

    def _directory(self, incarnation: str, partition: int) -> str:
        return join(self._queues_dir, incarnation, str(partition))

    def newest_state(self, incarnation: str, partition: int) -> tuple[LogState | None, bool]:
        """The newest checkpoint of a log, and whether it was written by a clean stop.

        Raises:
            CorruptLog: the log's own checkpoint is damaged.
        """
        node = self._states.get(key_of(incarnation, partition))
        if node is not None and self.was_clean:
            return node, True
        directory = self._directory(incarnation, partition)
        return newest(node, read_own(self._disk, directory, incarnation, partition)), False

    def forget(self, key: str) -> None:
        """A log is deleted, so that its state is of no use."""
        self._states.pop(key, None)

    # -- the journal ----------------------------------------------------------------------------------

    @property
    def is_journal_whole(self) -> bool:
        """Whether no entry of the journal is damaged."""
        return not self._journal_damaged

    def entries(self, key: str) -> Sequence[JournalEntry]:
        """A log's batches in the journal."""
        return self._journal.get(key, ())

    def in_journal(self, incarnation: str) -> list[int]:
        """The partitions of a queue's log that still need the journal."""
        keys = [key.partition("/") for key in self._journal]
        return sorted(int(number or 0) for name, _, number in keys if name == incarnation)

    def replayed(self, key: str) -> None:
        """A log no longer needs the journal."""
        self._journal.pop(key, None)

    def needs_journal(self, key: str) -> None:
        """Keep the journal: batches of this log were replayed from it, and are durable nowhere else."""
        self._journal.setdefault(key, [])

    def remove_journal(self, wanted: Iterable[str]) -> None:
        """Remove the journal, unless one of the ``wanted`` logs still needs it. A damaged one is renamed."""
        if self._journal_paths and not set(wanted) & {key.partition("/")[0] for key in self._journal}:
            for path in self._journal_paths:
                if path in self._journal_damaged:
                    self._disk.rename(path, free_path(self._disk, path + ".damaged"))
                else:
                    self._disk.unlink(path)
            self._disk.sync_directory(self._data_dir)
            self._journal_paths = []

    def done(self) -> None:
        """All logs are open: the marks are not needed any more."""
        self._promised = {}
