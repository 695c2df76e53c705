"""The worker thread's part of the sync: writes and syncs batches, writes checkpoints, removes logs.

A round is written and synced log by log, or through the commit journal when several logs with small batches
are dirty. Only jobs of the worker thread run in here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...errors import is_passing
from ...files import Disk, File, FileCache, join, parent, replace_file
from ...options import LogOptions
from ..format.checkpoint import FILE_NAME, NODE_FILE_NAME, write_checkpoint
from .journal import CommitJournal
from .round import Round, Submission
from .together import SyncTogether
from .writer import Fenced, PartitionWriter

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

    def run(self, work: Round) -> None:
        written = []
        for submission in work.submissions:
            if submission.batches or submission.again:
                try:
                    if submission.again:
                        submission.writer.rewind(submission.batches[0] if submission.batches else None)
                    submission.writer.write(submission.batches)
                    self._writers[submission.writer.path] = submission.writer
                except Exception as error:
                    submission.error = error
                    continue
                written.append(submission)
        if work.without_journal:
            self.journal.retire()
        self._sync(written, may_journal=not work.without_journal)
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

    def _sync(self, written: Sequence[Submission], *, may_journal: bool) -> None:
        options = self._options
        # The journal would lack what these logs wrote before and could not sync.
        may_journal = may_journal and not any(submission.again for submission in written)
        if may_journal and len(written) > options.journal_logs_min and not self.journal.broken:
            size = sum(batch.length for submission in written for batch in submission.batches)
            if size <= options.journal_log_bytes_max * len(written):
                try:
                    self.journal.append(written)
                except OSError:
                    # The segments hold the same batches, and their own syncs may still succeed.
                    self.journal.retire()
                else:
                    return
        for submission in written:
            try:
                submission.writer.sync()
            except OSError as error:
                submission.error = error

    def _checkpoint(self, submission: Submission, now_us: int) -> None:
        """First write a checkpoint, then remove the segments that it makes superfluous."""
        writer = submission.writer
        assert submission.checkpoint is not None
        # After a journalled round the segment is not synced yet, but the checkpoint refers to it.
        writer.create()
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
                if self.disk.exists(directory):
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
            if writer is not None and writer.path == path and writer.dirty:
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
