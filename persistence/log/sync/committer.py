"""Makes rounds durable: plans them, writes and syncs batches, writes checkpoints, removes logs.

There are two ways:

- directly: each log has a plan of its own, which writes its batches and syncs its segment;
- through the commit journal, if several logs with small batches are dirty: one plan writes the batches to the
  segments of all logs and to the journal, and syncs the journal alone. If it fails, the round goes directly.

Whichever way, the worker thread carries out the plans, or the disk's flusher does if the round is small and
all of its files are open (``plan``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...errors import is_passing
from ...files import Disk, File, FileCache, join, parent, replace_file
from ...options import LogOptions
from ...plan import Plan
from ..format.checkpoint import FILE_NAME, NODE_FILE_NAME, write_checkpoint
from .journal import CommitJournal
from .round import Round, Submission
from .together import SyncTogether
from .writer import Fenced, PartitionWriter, State

logger = logging.getLogger(__name__)

#: Suffix of the directory name of a deleted log until it is removed.
DELETED_SUFFIX = ".deleted"
#: From so many files on that are to be synced and closed, one sync does it for all.
_TOGETHER_MIN = 8


class Committer:
    """The worker's side: files, journal, checkpoints. Only its jobs run in the worker thread."""

    def __init__(self, disk: Disk, data_dir: str, options: LogOptions) -> None:
        self.disk = disk
        self._data_dir = data_dir
        self._options = options
        #: Partitions that are deleted, by queue's directory, until all of them are.
        self._deleted: dict[str, set[str]] = {}
        self.files = FileCache(
            disk,
            options.descriptors_max,
            write=True,
            before_close=self._before_close,
            before_closing=self._before_closing,
        )
        self.together = SyncTogether(disk)
        self.journal = CommitJournal(
            disk, data_dir, options.journal_bytes_max, self.together, options.sync_all_logs_min
        )
        self._writers: dict[str, PartitionWriter] = {}
        self._failures: list[tuple[Fenced, Exception]] = []

    def plan(self, submissions: Sequence[Submission]) -> Plan | None:
        """The plan of a small round that makes and opens no file; None if the worker has to ``run`` it.

        Called on the event loop, while the worker is idle.
        """
        options = self._options
        if not 0 < len(submissions) <= options.quick_logs_max:
            return None
        size = 0
        for submission in submissions:
            if submission.checkpoint is not None or not submission.batches or submission.again:
                return None
            more = submission.writer.open_bytes(submission.batches)
            size += more
            if more < 0 or size > options.quick_bytes_max:
                return None
        by_journal = self._may_journal(len(submissions), size)
        if not (self.journal.is_open if by_journal else len(submissions) == 1):
            return None
        writes = [submission.writer.plan(submission.batches) for submission in submissions]
        if by_journal:
            writes.append(self.journal.plan(submissions))
        return Plan(writes)

    def run(self, work: Round) -> None:
        """Do a round in the worker: names, writes and syncs, then checkpoints and the journal's syncs."""
        if work.plan is not None:
            self.journal.give_up(work.plan)
        ready = self._ready(work.submissions)
        size = sum([batch.length for submission in ready for batch in submission.batches])
        # The journal would lack what a log that begins again wrote before and could not sync.
        again = any(submission.again for submission in ready)
        if again or not self._may_journal(len(ready), size) or not self._by_journal(ready):
            self._directly(ready)
        for submission in work.submissions:
            if submission.checkpoint is not None and submission.error is None:
                try:
                    self._checkpoint(submission, work.now_us)
                except OSError as error:
                    if is_passing(error) and submission.writer.failed is None:
                        submission.checkpoint_error = error
                    else:
                        submission.error = error
        if work.drain_journal:
            self.journal.retire()
        limit = None if work.drain_journal else self._options.journal_syncs_per_round
        for writer, failure in self.journal.drain(limit):
            self._failed(writer, failure)
        work.journal_pending = self.journal.is_pending
        work.failures = self._failures
        self._failures = []

    def empty_journal(self) -> None:
        """Sync all logs that have batches in the journal, and remove it, durably.

        Raises:
            OSError: the disk failed.
        """
        self.journal.retire()
        for writer, error in self.journal.drain(None):
            self._failed(writer, error)
        self.disk.sync_directory(self._data_dir)

    def _ready(self, submissions: Sequence[Submission]) -> list[Submission]:
        """Make and sync the names that are missing; returns those submissions that have something to write,
        with their ``write``.
        """
        made = []
        for submission in submissions:
            writer, batches = submission.writer, submission.batches
            if batches or submission.again:
                try:
                    if submission.again:
                        writer.rewind(batches)
                    writer.make_ready(batches)
                    self._writers[writer.path] = writer
                except Exception as error:
                    submission.error = error
                    continue
                made.append(submission)
        self._sync_names([submission.writer for submission in made])
        ready = []
        for submission in made:
            try:
                submission.writer.sync_names()
                if submission.batches:
                    submission.write = submission.writer.plan(submission.batches)
                    self._writers[submission.writer.path] = submission.writer
            except Exception as error:
                submission.error = error
                continue
            ready.append(submission)
        return ready

    def _sync_names(self, writers: Sequence[PartitionWriter]) -> None:
        """Make the new names of many logs durable at once; few are synced log by log."""
        new = [writer for writer in writers if writer.state is State.NEW]
        if len(new) >= self._options.sync_names_min and self.together.is_available:
            self.together.sync(new)

    def _may_journal(self, logs: int, size: int) -> bool:
        """Which of the two ways a round of so many bytes takes: through the journal, or directly."""
        options = self._options
        if logs <= options.journal_logs_min or self.journal.broken:
            return False
        return size <= options.journal_log_bytes_max * logs

    def _by_journal(self, ready: Sequence[Submission]) -> bool:
        """Write all logs and the journal, and sync the journal alone; False if that has failed.

        Then the segments may hold the same batches, and their own syncs may still succeed.
        """
        writes = [submission.write for submission in ready if submission.write is not None]
        try:
            plan = Plan([*writes, self.journal.plan(ready)])
        except OSError:
            return False
        try:
            plan.carry_out()
        except OSError:
            self.journal.give_up(plan)
            return False
        return True

    def _directly(self, ready: Sequence[Submission]) -> None:
        """Write and sync log by log."""
        for submission in ready:
            try:
                if submission.write is not None:
                    Plan([submission.write]).carry_out()
                else:
                    submission.writer.sync()
            except OSError as error:
                submission.writer.failed = submission.error = error

    def _checkpoint(self, submission: Submission, now_us: int) -> None:
        """First write a checkpoint, then remove the segments that it makes superfluous."""
        writer = submission.writer
        assert submission.checkpoint is not None
        # After a journalled round the segment is not synced yet, but the checkpoint refers to it.
        writer.make()
        writer.sync()
        if submission.index is not None:
            path, data = submission.index
            replace_file(self.disk, path, data, durable=False)
        write_checkpoint(
            self.disk,
            join(writer.directory, FILE_NAME),
            [submission.checkpoint],
            clean=False,
            now_us=now_us,
        )
        for segment in submission.removed:
            writer.leave(segment)
            self.files.drop(segment.path)
            self._writers.pop(segment.path, None)
            self.disk.unlink(segment.path)
            self.disk.unlink(segment.index_path)

    def write_clean(self, parts: list[bytes], indexes: list[tuple[str, bytes]], now_us: int) -> None:
        """Everything is synced: write the node's checkpoint of a clean stop."""
        try:
            for path, data in indexes:
                replace_file(self.disk, path, data, durable=False)
            path = join(self._data_dir, NODE_FILE_NAME)
            write_checkpoint(self.disk, path, parts, clean=True, now_us=now_us)
        except OSError as error:
            logger.error("no clean stop, the next start will scan the logs: %s", error)

    def close(self) -> None:
        self.files.close()
        self.together.close()

    def remove(self, writers: Sequence[PartitionWriter]) -> None:
        """Remove deleted logs. They are renamed first, so that a half removed one is never taken for a
        log.
        """
        renamed = []
        try:
            for writer in writers:
                writer.forget()
                writer.owner = None  # breaks the reference cycle
                self.journal.forget(writer)
                self._writers.pop(writer.path, None)
                directory = parent(writer.directory)
                if self._is_last(directory, writer.directory):
                    self.disk.rename(directory, directory + DELETED_SUFFIX)
                    renamed.append(directory)
            if renamed:
                self.disk.sync_directory(parent(renamed[0]))
            for directory in renamed:
                self.disk.remove_tree(directory + DELETED_SUFFIX)
        except OSError as error:
            # The definitions no longer name them: the next start removes them or moves them into quarantine.
            logger.warning("cannot remove the logs of deleted queues: %s", error)
        except Exception:
            # A bug of ours. Later logs are still removed.
            logger.exception("cannot remove the logs of deleted queues")

    def _is_last(self, directory: str, partition: str) -> bool:
        """Whether all partitions of a queue's ``directory`` are deleted now that ``partition`` is.

        One that could not be opened was not, so it keeps the directory for the quarantine.
        """
        deleted = self._deleted.setdefault(directory, set())
        deleted.add(partition)
        numbers = [name for name in self.disk.list(directory) if name.isdecimal()]
        if any(join(directory, number) not in deleted for number in numbers):
            return False
        del self._deleted[directory]
        return self.disk.exists(directory)

    def sync_names(self, directory: str) -> None:
        """Make a rename durable; an error is only logged."""
        try:
            self.disk.sync_directory(directory)
        except OSError as error:
            logger.warning("cannot sync %s: %s", directory, error)

    def _before_closing(self, paths: list[str]) -> None:
        dirty = []
        for path in paths:
            writer = self._writers.get(path)
            if writer is not None and writer.path == path and writer.synced_to < writer.position:
                dirty.append(writer)
        if len(dirty) >= _TOGETHER_MIN:
            self.together.sync(dirty)

    def _before_close(self, path: str, file: File) -> None:
        writer = self._writers.pop(path, None)
        if writer is None or writer.path != path:
            return
        try:
            writer.sync_before_close(file)
        except OSError as error:
            writer.failed = error
            self._failed(writer, error)

    def _failed(self, writer: PartitionWriter, error: Exception) -> None:
        if writer.owner is not None:
            self._failures.append((writer.owner, error))
