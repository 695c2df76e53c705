"""The only place that makes logs durable: one worker thread, and one round at a time.

A round takes the sealed batches of all dirty logs, writes them, syncs them (log by log, or through the commit
journal if many small logs are dirty), and writes the checkpoints that are due. What arrives meanwhile goes
with the next round, so a slow sync makes larger rounds. At the end of a round ``written`` is called on its
logs, which call ``on_high_watermark`` on their queues.

If a write or sync fails, the log is fenced, because the kernel may have dropped the pages and report success
next time. After a passing error (no space, no descriptors) a later round writes everything again that is not
known to be durable, and the log continues. After any other error it stays fenced until a restart. A
checkpoint that cannot be written for now is written later and does not fence the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from ...errors import PASSING_ERRNOS, is_passing
from ...files import Disk
from ...options import LogOptions
from ...worker import ThreadWorker, Worker
from ..queue.cleaner import Cleaner
from ..queue.idle import IdleLogs
from ..queue.queue_log import QueueLog
from ..queue.recovery import truncate
from .committer import Committer
from .marks import Marks
from .round import Round, Submission

logger = logging.getLogger(__name__)

#: Seconds between two slices of a cleaning.
_CLEAN_PAUSE_S = 0.005
#: Seconds between two searches for segments to clean.
_CLEAN_CHECK_S = 1.0
#: Seconds before the first attempt after a passing error, and the longest wait before a further one.
_RETRY_FIRST_S = 0.25
_RETRY_LAST_S = 5.0


class Timer(Protocol):
    def cancel(self) -> None: ...


class Flusher(Protocol):
    """See ``_flush.Flusher``."""

    def submit(self, writes: Sequence[tuple[int, int, list[bytes]]]) -> None: ...

    def finish(self) -> int: ...

    def wait(self) -> int: ...

    def stop(self) -> None: ...


class LogSync:
    """Group commit for all logs of a node. Everything but the jobs runs on the event loop.

    ``post`` puts a call onto the loop from the worker thread; ``call_later(seconds, callback)`` returns a
    ``Timer``; ``clock`` is monotone, in seconds; ``wall_us`` is the time of day in µs.

    A round of a few batches of one log in an open segment goes to the ``flusher``, if there is one, instead
    of the worker: whoever made it watches ``flusher.fileno()`` and calls ``flushed`` when it is readable.
    The worker gets no job meanwhile, since it might close the descriptor.
    """

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        options: LogOptions,
        *,
        post: Callable[[Callable[[], None]], Any],
        call_later: Callable[[float, Callable[[], None]], Timer],
        clock: Callable[[], float] = time.monotonic,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        worker: Worker | None = None,
        flusher: Flusher | None = None,
    ) -> None:
        self._flusher = flusher
        #: Whether the flusher does the current round, and the jobs that the worker must not do before its
        #: end.
        self._quick = False
        self._deferred: list[Callable[[], None]] = []
        #: Deleted logs whose files still exist, and whether the worker is removing some of them.
        self._removals: list[QueueLog] = []
        self._removing = False
        #: Logs fenced by a passing error, with the seconds before their next attempt; those to try now; and
        #: logs whose checkpoint could not be written.
        self._delays: dict[QueueLog, float] = {}
        self._again: list[QueueLog] = []
        self._checkpoint_delays: dict[QueueLog, float] = {}
        self.committer = Committer(disk, data_dir, options)
        self.marks = Marks(disk, data_dir)
        self._data_dir = data_dir
        self._options = options
        self._post = post
        self._call_later = call_later
        self._clock = clock
        self.wall_us = wall_us
        self._worker = worker or ThreadWorker()
        self._dirty: list[QueueLog] = []
        self._settles: list[QueueLog] = []
        self._round: Round | None = None
        self._settle_timer: Timer | None = None
        self._journal_timer: Timer | None = None
        self._idle = IdleLogs(options, call_later, clock, self.start_round)
        self._stopped = False
        self._cleaner: Cleaner | None = None
        self._clean_timer: Timer | None = None
        #: Logs with rounds since the last search for segments to clean.
        self._settled: dict[QueueLog, None] = {}
        self._check_timer: Timer | None = None
        self.segments_cleaned = 0
        #: Called after every round, on the loop.
        self.on_round: Callable[[], None] | None = None
        #: Number of finished rounds, and the seconds that the last one took.
        self.rounds = 0
        self.last_round_s = 0.0

    def recovered(self, log: QueueLog) -> None:
        """``log`` was recovered at start: look for segments to drop or clean."""
        self.marks.set(log)
        self._idle.note(log)
        if log.partition.cleanable() is not None:
            self._settled[log] = None
            self._check_soon()

    def commit(self, log: QueueLog) -> None:
        """``log`` has messages for the next round. It calls this once until it is sealed."""
        self._dirty.append(log)

    def commit_settles(self, log: QueueLog) -> None:
        """``log`` has settles for the next round, which begins after ``settle_delay_ms`` at the latest."""
        self._settles.append(log)
        if self._settle_timer is None:
            self._settle_timer = self._call_later(self._options.settle_delay_ms / 1000, self._settles_due)

    @property
    def is_dirty(self) -> bool:
        """Whether ``start_round`` has something to do."""
        return bool(self._dirty)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and no round is running."""
        return self._round is None and not self._dirty and not self._settles

    def retry(self, log: QueueLog) -> None:
        """``log`` is fenced by a passing error: try its missing batches again after a while."""
        delay = self._delays.get(log, _RETRY_FIRST_S)
        self._delays[log] = min(delay * 2, _RETRY_LAST_S)
        if not self._stopped:
            self._call_later(delay, partial(self._retry_due, log))

    def _retry_due(self, log: QueueLog) -> None:
        if self._stopped or not log.passing:
            self._delays.pop(log, None)
            return
        self._again.append(log)
        if self._round is None:
            self._begin()

    def _checkpoint_later(self, log: QueueLog) -> None:
        delay = self._checkpoint_delays.get(log, _RETRY_FIRST_S)
        self._checkpoint_delays[log] = min(delay * 2, _RETRY_LAST_S)
        if not self._stopped:
            self._call_later(delay, partial(self._checkpoint_again, log))

    def _checkpoint_again(self, log: QueueLog) -> None:
        if not log.deleted and not self._stopped:
            log.request_checkpoint()
            self.start_round()

    def start_round(self) -> None:
        """Seal and submit all dirty logs, unless a round is running (its end starts the next)."""
        if self._round is None and self._dirty:
            self._begin()

    def _settles_due(self) -> None:
        self._settle_timer = None
        if self._round is None and (self._dirty or self._settles):
            self._begin()

    def _begin(self, *, drain_journal: bool = False) -> None:
        dirty, self._dirty = self._turn(self._dirty)
        settles, self._settles = self._turn(self._settles)
        # The timer is kept. It may be early for the next settles, but that is cheaper than a timer for each
        # round.
        now_us = self.wall_us()
        again, self._again = self._again, []
        submissions = [log.take_again() for log in again if log.passing]
        new = 0
        for log in dirty + settles:
            if log.deleted or not (log.dirty or log.settles_dirty):
                continue  # nothing to write, or it was in both lists
            if not log.writer.created:
                new += 1
                if new > self._options.new_logs_per_round and not self._stopped:
                    # Making directories and files takes milliseconds, for which other confirms must not wait.
                    self._dirty.append(log)
                    continue
            log.seal(now_us)
            submission = log.take()
            if submission.batches or submission.checkpoint is not None:
                submissions.append(submission)
        if not submissions and not drain_journal:
            if self._dirty or self._settles:
                # The logs of this round had nothing to write. The others must not wait for a tick.
                self._begin()
            return
        work = Round(submissions, self._clock(), now_us)
        work.drain_journal = drain_journal
        self._round = work
        if not self._begin_quickly(work):
            self._worker.submit(partial(self._run_in_worker, work))

    def _turn(self, logs: list[QueueLog]) -> tuple[list[QueueLog], list[QueueLog]]:
        """Split into the logs of this round and those that wait: the first and the last ones are taken.

        A message to a thousand queues makes a thousand logs dirty. A publisher after it must not wait for all
        of them.
        """
        half = self._options.logs_per_round_max // 2
        if len(logs) <= 2 * half or self._stopped:
            return logs, []
        return logs[:half] + logs[-half:], logs[half:-half]

    def _begin_quickly(self, work: Round) -> bool:
        flusher = self._flusher
        submissions = work.submissions
        if flusher is None or work.drain_journal or not self._worker.is_idle:
            return False
        if not 0 < len(submissions) <= self._options.quick_logs_max:
            return False
        left = self._options.quick_bytes_max
        writes = []
        for submission in submissions:
            if submission.checkpoint is not None or not submission.batches or submission.again:
                return False
            job = submission.writer.quick(submission.batches, left)
            if job is None:
                return False
            left -= sum(batch.length for batch in submission.batches)
            writes.append(job)
        if len(submissions) > 1:
            job = self.committer.journal.quick(submissions)
            if job is None:
                return False
            writes.append(job)
        self._quick = True
        flusher.submit(writes)
        return True

    def flushed(self) -> None:
        """The flusher's descriptor is readable."""
        if self._quick and self._flusher is not None:
            error = self._flusher.finish()
            if error >= 0:
                self._end_quickly(error, self._finished)

    def _end_quickly(self, error: int, finished: Callable[[Round], None]) -> None:
        work = self._round
        assert work is not None
        self._quick = False
        submissions = work.submissions
        if len(submissions) == 1:
            submissions[0].error = submissions[0].writer.quick_done(error)
            finished(work)
        elif error == 0:
            self.committer.journal.quick_done(submissions)
            work.journal_pending = True
            finished(work)
        else:
            # The worker finds out which log failed. It does not use the journal, whose pages may be lost.
            work.without_journal = True
            self.committer.journal.broken = error not in PASSING_ERRNOS
            self._worker.submit(partial(self._run_in_worker, work))
        deferred, self._deferred = self._deferred, []
        for job in deferred:
            self._later(job)

    def _later(self, job: Callable[[], None]) -> None:
        """A job for the worker beside the rounds."""
        if self._quick:
            self._deferred.append(job)
        else:
            self._worker.submit(job)

    def _run_in_worker(self, work: Round) -> None:
        try:
            self.committer.run(work)
        except Exception as error:
            # A bug of ours, not an error of the disk. Nothing of the round may be confirmed.
            logger.exception("a sync round failed")
            for submission in work.submissions:
                submission.error = submission.error or error
        self._post(partial(self._finished, work))

    def _finished(self, work: Round) -> None:
        """End a round: tell its logs, and begin the next one if something is dirty."""
        if self._round is work:
            self._finish(work)
            if (self._dirty or self._again) and self._round is None:
                self._begin()

    def _finish(self, work: Round) -> None:
        self._round = None
        self.rounds += 1
        now = self._clock()
        self.last_round_s = now - work.started
        for log, error in work.failures:
            log.fail(error)
        for submission in work.submissions:
            log = submission.log
            if submission.error is not None:
                self._submission_failed(submission, submission.error)
                continue
            if submission.again:
                self._delays.pop(log, None)
                if log.passing:
                    log.resume()
            log.written(submission.end, submission.generation)
            if log.failed is None:
                self.marks.set(log)
            self._settled[log] = None
            if submission.checkpoint_error is not None:
                if log not in self._checkpoint_delays:
                    logger.warning("a checkpoint is put off: %s", submission.checkpoint_error)
                log.checkpoint_failed(submission.removed)
                self._checkpoint_later(log)
            elif submission.checkpoint is not None:
                self._checkpoint_delays.pop(log, None)
                log.checkpoint_unsure = False
                log.checkpoints_durable = submission.checkpoint_number
                log.checkpoint_offset = submission.end
                self._clean_next(log)
            if log.is_idle():
                self._idle.note(log)
        self._swap_cleaned()
        if self._settled:
            self._check_soon()
        if self._settles and self._settle_timer is None:
            self._settle_timer = self._call_later(self._options.settle_delay_ms / 1000, self._settles_due)
        if work.journal_pending and self._journal_timer is None and not self._stopped:
            self._journal_timer = self._call_later(self._options.journal_idle_ms / 1000, self._journal_idle)
        if self.on_round is not None:
            self.on_round()

    def _submission_failed(self, submission: Submission, error: Exception) -> None:
        log = submission.log
        if submission.checkpoint is not None:
            log.checkpoint_failed(submission.removed)
            log.checkpoint_due = True
        log.fail(error)
        if submission.again and log.passing:
            self.retry(log)

    def _journal_idle(self) -> None:
        self._journal_timer = None
        if self._round is None:
            self._begin(drain_journal=True)
        else:
            self._journal_timer = self._call_later(self._options.journal_idle_ms / 1000, self._journal_idle)

    def _check_cleaning(self) -> None:
        """Search the logs of the last rounds for a segment to clean, without waiting for a checkpoint."""
        self._check_timer = None
        while self._settled and self._cleaner is None and not self._stopped:
            log = next(iter(self._settled))
            del self._settled[log]
            if not log.deleted:
                self._clean_next(log)
        if self._settled:
            self._check_soon()

    def _check_soon(self) -> None:
        if self._check_timer is None and not self._stopped:
            self._check_timer = self._call_later(_CLEAN_CHECK_S, self._check_cleaning)

    def _clean_next(self, log: QueueLog) -> None:
        """Begin to rewrite a segment of ``log`` if one is worth it. A node rewrites one segment at a time."""
        if self._cleaner is None and not self._stopped:
            segment = log.partition.cleanable()
            if segment is not None:
                self._cleaner = Cleaner(log, segment)
                self._clean_timer = self._call_later(_CLEAN_PAUSE_S, self._clean)

    def _clean(self) -> None:
        """One slice of the current cleaning."""
        cleaner = self._cleaner
        if cleaner is None or self._stopped:
            return
        if cleaner.is_void:
            self._cleaner = None
            return
        try:
            if not cleaner.step(self._options.clean_slice_bytes):
                self._clean_timer = self._call_later(_CLEAN_PAUSE_S, self._clean)
                return
        except Exception as error:
            self._cleaner = None
            if is_passing(error):
                logger.warning("cannot rewrite a segment now: %s", error)
            else:
                cleaner.log.fail(error)
            return
        self._later(partial(self._write_cleaned, cleaner))
        self.start_round()

    def _write_cleaned(self, cleaner: Cleaner) -> None:
        cleaner.write(self.committer.disk)
        self._post(partial(self._cleaned, cleaner))

    def _cleaned(self, cleaner: Cleaner) -> None:
        cleaner.is_written = True
        self._swap_cleaned()

    def _swap_cleaned(self) -> None:
        """Replace the segment by the cleaned one as soon as that is safe."""
        cleaner = self._cleaner
        if cleaner is None or not cleaner.is_written:
            return
        disk = self.committer.disk
        if cleaner.error is None and not cleaner.is_void:
            if not cleaner.is_ready:
                return
            try:
                cleaner.finish(disk)
            except Exception as error:
                cleaner.error = error
            else:
                self.segments_cleaned += 1
                if cleaner.log.failed is None:
                    self.marks.set(cleaner.log)
        self._cleaner = None
        if cleaner.error is not None:
            # The old file is unchanged.
            logger.warning("cannot rewrite a segment: %s", cleaner.error)
        self._later(partial(cleaner.discard, disk))
        self._later(partial(self.committer.sync_names, cleaner.segment.directory))
        if cleaner.error is None and not cleaner.is_void:
            self._clean_next(cleaner.log)

    def delete(self, log: QueueLog) -> None:
        """Remove a log's directory after the current round."""
        self._idle.forget(log)
        self.marks.clear(log)
        self._removals.append(log)
        if not self._removing:
            self._remove_next()

    def _remove_next(self) -> None:
        """Remove a few deleted logs at a time, because the next round and its confirms wait for it."""
        count = self._options.removals_per_job
        logs, self._removals = self._removals[:count], self._removals[count:]
        self._removing = bool(logs)
        if logs:
            self._later(partial(self._remove_in_worker, logs))

    def _remove_in_worker(self, logs: list[QueueLog]) -> None:
        self.committer.remove(logs)
        self._post(self._remove_next)

    def truncate(self, log: QueueLog, end: int, keep_as_orphan: bool) -> None:
        """Cut a log whose buffers are already dropped. Blocks.

        Raises:
            CorruptLog, OSError: as in recovery; also if nothing of the log is on disk yet.
        """
        # Otherwise the journal would restore what is cut here.
        self._begin(drain_journal=True)
        self.settle_down()
        self._worker.submit(log.writer.forget)
        self._worker.wait_idle()
        self.marks.clear(log)
        truncate(log, self.committer.disk, self._data_dir, end, keep_as_orphan=keep_as_orphan)
        self.marks.set(log)

    def settle_down(self) -> None:
        """Wait for the current round and process its result. Blocks.

        No other round is begun, because it could confirm what a truncation is about to cut.
        """
        if self._quick and self._flusher is not None:
            self._end_quickly(self._flusher.wait(), self._finish)
        work = self._round
        self._worker.wait_idle()
        if work is not None and self._round is work:
            self._finish(work)

    def flush_and_stop(self, logs: Sequence[QueueLog] = (), *, clean: bool = True) -> None:
        """Make everything durable and stop the worker; blocks.

        With ``clean`` the node's checkpoint for ``logs`` (all that are open and healthy) is written, and the
        next start scans nothing.
        """
        self._stopped = True
        self.settle_down()
        self._again = list(self._delays)  # a last attempt
        while self._dirty or self._settles or self._again:
            self._begin()
            self.settle_down()
        self._begin(drain_journal=True)
        self.settle_down()
        if self._removals:
            removals, self._removals = self._removals, []
            self._worker.submit(partial(self.committer.remove, removals))
        if clean:
            healthy = [log for log in logs if log.failed is None]
            parts = [log.pack_state() for log in healthy]
            written = [log.partition.active for log in healthy if log.writer.created]
            indexes = [index for segment in written if (index := segment.pack_index())]
            now_us = self.wall_us()
            self._worker.submit(partial(self.committer.write_clean, parts, indexes, now_us))
        self._worker.submit(self.committer.close)
        self._worker.wait_idle()
        self._worker.stop()
        self.marks.close()
        if self._flusher is not None:
            self._flusher.stop()
            self._flusher = None
        self._idle.stop()
        timers = (self._settle_timer, self._journal_timer, self._clean_timer, self._check_timer)
        for timer in timers:
            if timer is not None:
                timer.cancel()
