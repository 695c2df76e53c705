"""All logs of a data directory: finding, opening and creating them, and their start and stop.

The order of a start is ``Catalog.start`` (reads the checkpoint of the last stop, and the journal), ``open``
for every queue of the definitions, and ``quarantine_unknown``. A stop is ``stop``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from amqp_router.protocol.kept_table import Arguments

from ...errors import CorruptLog
from ...files import Disk, FileCache, join
from ...memory import MemoryBudget
from ...options import LogOptions
from ...worker import ThreadWorker, Worker
from ..format.checkpoint import LogState, pack_log
from ..format.identity import DESCRIPTION, DESCRIPTION_VERSION, Owners, key_of, salt_of
from ..sync.committer import DELETED_SUFFIX
from ..sync.log_sync import LogSync
from ..sync.writer import PartitionWriter, State, read_description
from .ahead import Ahead
from .caretaker import LogCaretaker
from .cutting import free_path
from .description import Description, describe, partitions_of
from .last_process import LastProcess
from .page_files import PageFiles
from .page_log import PageLog, PageRoom
from .partition import Partition
from .queue_log import QueueLog
from .recovery import recover
from .report import Report
from .saving import pack_state
from .spill import Spill
from .truncation import newest_checkpoint, truncate

logger = logging.getLogger(__name__)
#: Least and most memory for the batches of all page logs together.
PAGE_ROOM_MIN, PAGE_ROOM_MAX = 4 << 20, 64 << 20


class Catalog:
    """The logs in ``data_dir``. The catalog is made before the definitions are read."""

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
        self.caretaker = LogCaretaker(disk, sync, options)
        self.options = options
        #: By key of the partition (``key_of``): the incarnation alone is that of the first.
        self.logs: dict[str, QueueLog] = {}
        #: How many partitions a queue has, of those with several.
        self._counts: dict[str, int] = {}
        #: What recovery did, by the same key; only for logs that it changed.
        self.reports: dict[str, Report] = {}
        self._disk = disk
        self._data_dir = data_dir
        self._queues_dir = join(data_dir, "queues")
        self._boot_id = boot_id
        self._owners = Owners(disk, data_dir)
        self._readers = FileCache(disk, options.descriptors_max, write=False)
        self._page_files = PageFiles(
            disk,
            self._paging_dir,
            janitor or ThreadWorker("page-files"),
            sync.loop.post,
            budget,
            descriptors_max=options.descriptors_max // 2,
        )
        #: A share of the memory limit, but no more than is useful against small writes.
        self._page_room = PageRoom(budget, min(max(budget.whole // 8, PAGE_ROOM_MIN), PAGE_ROOM_MAX))
        self._last = LastProcess(disk, data_dir, self._queues_dir)
        #: Recovered logs that are not known to be durable yet.
        self._unsynced: list[QueueLog] = []
        #: Logs that begin empty because the operator has moved their directories into quarantine.
        self._restarted: list[str] = []
        #: Logs whose last time lies more than a jump of the clock ahead.
        self._ahead = Ahead()

    def start(self) -> None:
        """Read what the last process left: its checkpoint and its journal.

        Raises:
            OSError: the disk failed.
        """
        disk = self._disk
        disk.make_directory(self._data_dir)
        disk.make_directory(self._queues_dir)
        disk.remove_tree(self._paging_dir)
        disk.sync_directory(self._data_dir)
        # Opened before anything is written, because ``syncfs`` reports only the errors since then.
        self.sync.committer.together.open(self._queues_dir)
        for name in disk.list(self._queues_dir):
            if name.endswith(DELETED_SUFFIX):
                disk.remove_tree(join(self._queues_dir, name))
        journals = self._last.read()
        self.sync.committer.journal.go_on_after(journals)
        self.sync.marks.begin(self._boot_id)

    @property
    def _paging_dir(self) -> str:
        return join(self._data_dir, "paging")

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was clean."""
        return self._last.was_clean

    def create(
        self,
        incarnation: str,
        vhost: str,
        name: str,
        arguments: Arguments | None = None,
        *,
        auto_delete: bool = False,
        mirrored: bool = False,
        partition: int = 0,
    ) -> QueueLog:
        """Make a log for a new queue, or for one ``partition`` of it. Nothing is written before its first
        batch.

        ``mirrored``: other nodes have copies of it (``copies``). The arguments say how many partitions the
        queue has (``description.partitions_of``).
        """
        self._count(incarnation, partition, arguments, name)
        description = describe(incarnation, vhost, name, arguments, auto_delete)
        log = self._create(incarnation, partition, description, mirrored)
        self.logs[key_of(incarnation, partition)] = log
        return log

    def _create(self, incarnation: str, number: int, description: Description, mirrored: bool) -> QueueLog:
        log = self._make(incarnation, number, description, mirrored)
        log.partition.roll(0)
        log.begin(LogState(incarnation, number), unclean=False)
        return log

    def open(
        self,
        incarnation: str,
        vhost: str = "",
        name: str = "",
        arguments: Arguments | None = None,
        *,
        auto_delete: bool = False,
        mirrored: bool = False,
        partition: int = 0,
    ) -> QueueLog:
        """Open the log of a stored queue, or one ``partition`` of it. One that never had a batch is made as
        by ``create``.

        Raises:
            CorruptLog: the log is damaged; its files are not changed, and the other logs are not affected.
            OSError: the disk failed.
        """
        key = key_of(incarnation, partition)
        log = self.logs.get(key)
        if log is None:
            if name:
                self._count(incarnation, partition, arguments, name)
            try:
                description = describe(incarnation, vhost, name, arguments, auto_delete)
                log = self._open(incarnation, partition, description, mirrored)
            except (CorruptLog, OSError):
                mark = self._last.mark(incarnation, partition)
                if mark is not None:
                    # The mark is kept, or the next start would take the damage for a torn tail.
                    self.sync.marks.keep(incarnation, partition, mark)
                raise
        self.logs[key] = log
        return log

    def _open(self, incarnation: str, number: int, description: Description, mirrored: bool) -> QueueLog:
        path, key = join(self._queues_dir, incarnation, str(number)), key_of(incarnation, number)
        if not self._disk.exists(path):
            first = next((entry.header.base for entry in self._last.entries(key)), None)
            if self._last.is_set_aside(incarnation):
                logger.warning("%s was moved into quarantine: its queue begins empty", path)
                self._last.replayed(key)
                if incarnation not in self._restarted:
                    self._restarted.append(incarnation)
            elif first or (first is None and self._last.is_known(incarnation, number)):
                raise CorruptLog(path, 0, "the log's directory is missing")
            if first is None or incarnation in self._restarted:
                return self._create(incarnation, number, description, mirrored)
        log = self._recover(incarnation, number, description, mirrored)
        if log.writer.state is not State.CLEAN:
            self._unsynced.append(log)
        else:
            self._opened(log)
        return log

    def _count(self, incarnation: str, partition: int, arguments: Arguments | None, name: str) -> None:
        """Note how many partitions queue ``name`` has by its arguments.

        Raises:
            ValueError: the ``partition`` is none of them.
        """
        count = partitions_of(arguments)
        if not 0 <= partition < count:
            raise ValueError(f"queue {name!r} has {count} partitions, of which none is number {partition}")
        if count > 1:
            self._counts[incarnation] = count

    def _opened(self, log: QueueLog) -> None:
        """A recovered log is durable."""
        self.sync.marks.set(log)
        self.caretaker.on_open(log)

    def _sync_recovered(self) -> None:
        """Make durable what recovery has written, and what it does not know to be durable.

        After a power failure before the end, the next start reaches the same state: the marks and the journal
        of the last process are still there, and nothing that was cut had been confirmed.
        """
        logs, self._unsynced = self._unsynced, []
        if len(logs) >= self.options.sync_all_logs_min:
            self.sync.committer.together.sync([log.writer for log in logs])
        for log in logs:
            try:
                log.writer.sync()  # nothing to do after one sync of all
            except OSError as error:
                # The replayed batches are durable only in the journal, which must be kept.
                self._last.needs_journal(key_of(log.incarnation, log.number))
                mark = self._last.mark(log.incarnation, log.number)
                if mark is not None:
                    self.sync.marks.keep(log.incarnation, log.number, mark)
                log.fail(error)
            else:
                self._opened(log)

    def _make(self, incarnation: str, number: int, description: Description, mirrored: bool) -> QueueLog:
        directory = join(self._queues_dir, incarnation, str(number))
        salt = salt_of(incarnation, number)
        partition = Partition(directory, self.options, self._readers, salt, self._owners)
        writer = PartitionWriter(self._disk, self.sync.committer.files, directory, description)
        log = QueueLog(
            incarnation, number, partition, writer, self.sync, self.caretaker, self.options, self._boot_id
        )
        writer.owner = log
        log.copies.mirrored = mirrored
        return log

    def _recover(
        self, incarnation: str, number: int, description: Description, mirrored: bool = False
    ) -> QueueLog:
        key = key_of(incarnation, number)
        found = read_description(self._disk, join(self._queues_dir, incarnation))
        if found is not None and found.get("incarnation") != incarnation:
            logger.warning(
                "%s is the description of another log, %r; it is made again",
                join(self._queues_dir, incarnation, DESCRIPTION),
                found.get("incarnation"),
            )
            found = None
        if found is not None:
            description = found | {"version": DESCRIPTION_VERSION}
        log = self._make(incarnation, number, description, mirrored)
        state, clean = self._last.newest_state(incarnation, number)
        if found is not None:
            # A checkpoint is written after the sync of the names.
            durable = state is not None and state.recovery_offset > 0
            log.writer.found(durable=durable, is_current=found["version"] == DESCRIPTION_VERSION)
        mark = self._last.mark(incarnation, number)
        if mark is not None and (state is None or mark.epoch >= state.epoch):
            log.copies.stored_watermark = mark.watermark
        report = recover(
            log,
            self._disk,
            state,
            clean=clean,
            journal=self._last.entries(key),
            mark=mark,
            is_journal_whole=self._last.is_journal_whole,
        )
        self._last.replayed(key)
        if found is None and log.end:
            # Readers from outside need it, though no batch may come.
            log.writer.make()
        self._ahead.go_on(log, self.sync.loop.wall_us())
        if report.cut_bytes:
            _tell_cut(report)
        if report.cut_bytes or report.replayed_batches:
            self.reports[key] = report
        return log

    def incarnations(self) -> list[str]:
        """The incarnations that have a directory."""
        return [name for name in self._disk.list(self._queues_dir) if not name.endswith(DELETED_SUFFIX)]

    def quarantine_unknown(self, known: Iterable[str]) -> list[str]:
        """Move the directories of unknown queues into quarantine; returns what was moved. Nothing is deleted.

        It is called after all known queues were opened, which replayed the journal. The journal is removed
        now, unless one of its logs could not be opened. From here on outside readers see the new marks.
        """
        self._sync_recovered()
        self._ahead.tell()
        self.sync.marks.publish()
        wanted = set(known)
        moved = [name for name in self.incarnations() if name not in wanted]
        if moved:
            quarantine = join(self._data_dir, "quarantine")
            self._disk.make_directory(quarantine)
            for name in moved:
                for number in self._last.in_journal(name):
                    # It gets a description without names and so is a complete log. If this start is
                    # interrupted, the next one must be able to read it.
                    try:
                        self._recover(name, number, describe(name, "", "", None)).writer.sync()
                    except (CorruptLog, OSError) as error:
                        logger.error("a log without a queue is set aside as it is: %s", error)
                path = free_path(self._disk, join(quarantine, name))
                self._disk.rename(join(self._queues_dir, name), path)
            for directory in (self._data_dir, quarantine, self._queues_dir):
                self._disk.sync_directory(directory)
        self._last.remove_journal(wanted)
        for name in self._restarted:
            # From now on a missing directory of this log is damage again.
            path = join(self._data_dir, "quarantine", name)
            self._disk.rename(path, free_path(self._disk, f"{path}-moved"))
            self._disk.sync_directory(join(self._data_dir, "quarantine"))
        self._last.done()
        return moved

    def forget(self, incarnation: str) -> None:
        """Remove the log of a deleted queue."""
        for number in range(self._counts.pop(incarnation, 1)):
            key = key_of(incarnation, number)
            log = self.logs.pop(key, None)
            self._last.forget(key)
            if log is not None:
                log.delete()
            else:
                # It could not be opened: the queue's directory stays, and the next start moves it into
                # quarantine.
                self.sync.marks.clear(key)

    def truncate(self, log: QueueLog, end: int, *, keep_as_orphan: bool = False) -> None:
        """Cut ``log`` at ``end`` (``truncation.truncate``)."""
        truncate(log, self.sync, self._disk, self._data_dir, end, keep_as_orphan=keep_as_orphan)

    def new_spill(self) -> Spill:
        """Files for the contents of unacknowledged transient messages; they last as long as the process."""
        return Spill(self._paging_dir, self._page_files, file_bytes_max=self.options.page_bytes_max)

    def new_page_log(self, name: str) -> PageLog:
        """A log for transient messages when memory is short; it lasts as long as the process."""
        return PageLog(self._paging_dir, name, self.options, self._page_files, self._page_room)

    def stop(self) -> None:
        """Make everything durable and write the checkpoint of a clean stop. Blocks."""
        self.caretaker.stop()
        self.sync.flush()
        healthy = [log for log in self.logs.values() if log.failed is None]
        written = [log.partition.active for log in healthy if log.writer.is_made]
        indexes = [index for segment in written if (index := segment.pack_index())]
        self.sync.stop([part for log in healthy if (part := self._last_state(log))], indexes)
        self._readers.close()
        self._page_files.close()

    def _last_state(self, log: QueueLog) -> bytes:
        """A log's part of the checkpoint of a clean stop; empty if the log never had one.

        What lies above the high watermark may still be cut, so the next start must fold it again.
        """
        if not log.copies.mirrored or log.high_watermark >= log.end:
            return pack_state(log)
        state = newest_checkpoint(log, self._disk, self._data_dir)
        return b"" if state is None else pack_log(state)


def _tell_cut(report: Report) -> None:
    if report.is_leftover:
        logger.info("%s: what an unfinished truncation left is cut", report.cut_path)
        return
    logger.warning(
        "%s at byte %d: a torn tail of %d bytes, never confirmed, is cut; %s",
        report.cut_path,
        report.cut_position,
        report.cut_bytes,
        f"it is kept in {report.kept_path}" if report.kept_path else "nothing of it can be kept",
    )
