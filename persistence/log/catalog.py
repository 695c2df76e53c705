"""All logs of a data directory: which exist, opening and creating them, start and stop.

Order at start: ``Catalog.start`` (checkpoint of the last stop, journal), then ``open`` for every queue of the
definitions, then ``quarantine_unknown``. At stop: ``stop``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import CorruptLog
from ..files import Disk, FileCache, join
from ..options import LogOptions
from .checkpoint import (
    FILE_NAME,
    NODE_FILE_NAME,
    LogState,
    newest,
    pack_log,
    read_checkpoint,
    write_checkpoint,
)
from .committer import DELETED_SUFFIX
from .journal import journal_files, read_journal
from .memory import MemoryBudget
from .page_log import PageLog
from .partition import Partition
from .queue_log import QueueLog
from .recovery import JournalEntry, Report, recover
from .sync import LogSync
from .worker import ThreadWorker, Worker
from .writer import PartitionWriter, read_description

logger = logging.getLogger(__name__)


class Catalog:
    """The logs under ``data_dir``; made before the definitions are read."""

    def __init__(
        self,
        data_dir: str,
        sync: LogSync,
        options: LogOptions,
        budget: MemoryBudget,
        *,
        disk: Disk,
        boot_id: bytes = bytes(16),
        janitor: Worker | None = None,
    ) -> None:
        self.budget = budget
        self.sync = sync
        self.options = options
        self.logs: dict[str, QueueLog] = {}
        #: What recovery did, by incarnation; only logs where it did something.
        self.reports: dict[str, Report] = {}
        #: Whether the last stop was clean.
        self.was_clean = False
        self._disk = disk
        self._data_dir = data_dir
        self._queues_dir = join(data_dir, "queues")
        self._paging_dir = join(data_dir, "paging")
        self._boot_id = boot_id
        #: Removes files of page logs; their removal takes long and nobody waits for it.
        self._janitor = janitor or ThreadWorker("page-files")
        self._readers = FileCache(disk, options.descriptors_max, write=False)
        self._states: dict[str, LogState] = {}
        #: Logs that have a state in the node's checkpoint, and no directory.
        self._gone: set[str] = set()
        self._journal: dict[str, list[JournalEntry]] = {}
        self._journal_paths: list[str] = []

    def start(self) -> None:
        """Take over what the last process left: its checkpoint and its journal.

        Raises:
            OSError: the disk failed.
        """
        disk = self._disk
        disk.make_directory(self._data_dir)
        disk.make_directory(self._queues_dir)
        disk.remove_tree(self._paging_dir)
        disk.sync_directory(self._data_dir)
        for name in disk.list(self._queues_dir):
            if name.endswith(DELETED_SUFFIX):
                disk.remove_tree(join(self._queues_dir, name))
        path = join(self._data_dir, NODE_FILE_NAME)
        try:
            self.was_clean, states = read_checkpoint(disk, path)
        except CorruptLog as error:
            # It saves scanning and no more: what was removed stands in the log's own checkpoint.
            logger.error("%s; all logs are scanned, and their messages redelivered", error)
            states = []
        # Without its directory a log was deleted, or begins anew: this must not become its recovery point.
        self._gone = {
            state.incarnation
            for state in states
            if state.recovery_offset and not disk.exists(join(self._queues_dir, state.incarnation, "0"))
        }
        self._states = {state.incarnation: state for state in states if state.incarnation not in self._gone}
        if self.was_clean or self._gone:
            # From here on these states are a recovery point like any other, no longer the final word.
            parts = [pack_log(state) for state in self._states.values()]
            write_checkpoint(disk, path, parts, clean=False, now_us=0)
        self._journal_paths = journal_files(disk, self._data_dir)
        for path in self._journal_paths:
            for incarnation, _, header, data in read_journal(disk, path):
                self._journal.setdefault(incarnation, []).append((header, data))
        self.sync.committer.journal.go_on_after(self._journal_paths)
        self.sync.marks.begin(self._boot_id)

    def create(self, incarnation: str, vhost: str, name: str, arguments: Any = None) -> QueueLog:
        """A log for a queue just declared. Nothing is written before its first batch."""
        log = self._make(incarnation, _describe(incarnation, vhost, name, arguments))
        log.partition.roll(0)
        log.begin(LogState(incarnation, 0), unclean=False)
        self.logs[incarnation] = log
        return log

    def open(self, incarnation: str, vhost: str = "", name: str = "", arguments: Any = None) -> QueueLog:
        """The log of a queue that was there before; one that never had a batch is made as by ``create``.

        Raises:
            CorruptLog: rot; the files are untouched and the other logs go on.
            OSError: the disk failed.
        """
        log = self.logs.get(incarnation)
        if log is None:
            path = join(self._queues_dir, incarnation, "0")
            if not self._disk.exists(path):
                first = next((header.base for header, _ in self._journal.get(incarnation, ())), None)
                if first or incarnation in self._gone:
                    logger.error("%s is gone: the queue %s begins empty", path, name)
                    self._journal.pop(incarnation, None)
                    first = None
                if first is None:
                    return self.create(incarnation, vhost, name, arguments)
            log = self._recover(incarnation, _describe(incarnation, vhost, name, arguments))
            self.sync.marks.set(log)
        self.logs[incarnation] = log
        return log

    def _make(self, incarnation: str, description: dict[str, Any]) -> QueueLog:
        directory = join(self._queues_dir, incarnation, "0")
        partition = Partition(directory, self.options, self._readers)
        writer = PartitionWriter(self._disk, self.sync.committer.files, directory, description)
        log = QueueLog(incarnation, 0, partition, writer, self.sync, self.options, self._boot_id)
        writer.owner = log
        return log

    def _recover(self, incarnation: str, description: dict[str, Any]) -> QueueLog:
        found = read_description(self._disk, join(self._queues_dir, incarnation))
        log = self._make(incarnation, found or description)
        state, clean = self._newest_state(incarnation, log.partition.directory)
        # After an unclean stop the names need not be durable yet; ``create`` makes them so.
        log.writer.created = found is not None and clean and state is not None and state.recovery_offset > 0
        report = recover(log, self._disk, state, clean=clean, journal=self._journal.get(incarnation, ()))
        self._journal.pop(incarnation, None)
        if report.cut_bytes or report.replayed_batches:
            self.reports[incarnation] = report
        return log

    def _newest_state(self, incarnation: str, directory: str) -> tuple[LogState | None, bool]:
        """The newest checkpoint of a log, and whether it is that of a clean stop."""
        node = self._states.get(incarnation)
        if node is not None and self.was_clean:
            return node, True
        _, own = read_checkpoint(self._disk, join(directory, FILE_NAME))
        return newest(node, own[0] if own else None), False

    def incarnations(self) -> list[str]:
        """Incarnations that have a directory."""
        return [name for name in self._disk.list(self._queues_dir) if not name.endswith(DELETED_SUFFIX)]

    def quarantine_unknown(self, known: Iterable[str]) -> list[str]:
        """Move directories of no known queue out of the way; returns what was moved. Nothing is deleted.

        All known queues have been opened. That replayed what the journal holds; it is removed now,
        unless one of its logs could not be opened. Outside readers see from here on how far each log goes.
        """
        wanted = set(known)
        moved = [name for name in self.incarnations() if name not in wanted]
        if moved:
            quarantine = join(self._data_dir, "quarantine")
            self._disk.make_directory(quarantine)
            for name in moved:
                if name in self._journal:
                    # Nameless, but a log: the next start would take offence at less if this one is cut short.
                    try:
                        self._recover(name, _describe(name, "", "", None))
                    except (CorruptLog, OSError) as error:
                        logger.error("a log without a queue is set aside as it is: %s", error)
                self._disk.rename(join(self._queues_dir, name), self._free_path(join(quarantine, name)))
            for directory in (self._data_dir, quarantine, self._queues_dir):
                self._disk.sync_directory(directory)
        if self._journal_paths and not wanted & set(self._journal):
            for path in self._journal_paths:
                self._disk.unlink(path)
            self._disk.sync_directory(self._data_dir)
            self._journal_paths = []
        self.sync.marks.publish()
        return moved

    def _free_path(self, path: str) -> str:
        """``path``, or with a number behind it: what was set aside before stays."""
        number = 1
        free = path
        while self._disk.exists(free):
            number += 1
            free = f"{path}-{number}"
        return free

    def forget(self, incarnation: str) -> None:
        """A queue is deleted: remove its log."""
        log = self.logs.pop(incarnation, None)
        self._states.pop(incarnation, None)
        if log is not None:
            log.delete()

    def new_page_log(self, name: str) -> PageLog:
        """A log for transient messages under memory pressure; gone with the process."""
        return PageLog(self._disk, self._paging_dir, name, self.options, self._janitor)

    def stop(self) -> None:
        """Make everything durable and leave the mark of a clean stop; blocks."""
        self.sync.flush_and_stop(list(self.logs.values()))
        self._readers.close()
        self._janitor.stop()


def _describe(incarnation: str, vhost: str, name: str, arguments: Any) -> dict[str, Any]:
    return {
        "version": 0,
        "incarnation": incarnation,
        "vhost": vhost,
        "name": name,
        "arguments": _plain(arguments),
        "partitions": 1,
    }


def _plain(value: Any) -> Any:
    """Arguments as JSON can hold them; for people and tools, the definitions are the authority."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
