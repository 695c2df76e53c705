"""The only place that makes logs durable: one worker thread, and one round at a time.

A round takes the sealed batches of all dirty logs, writes and syncs them in one of two ways (``committer``),
and writes the checkpoints that are due. What arrives meanwhile goes
with the next round, so a slow sync makes larger rounds. At the end of a round ``written`` is called on its
logs, which call ``on_high_watermark`` on their queues.

If a write or sync fails, the log is fenced, because the kernel may have dropped the pages and report success
next time. After a passing error (no space, no descriptors) a later round writes everything again that is not
known to be durable, and the log continues. After any other error it stays fenced until a restart. A
checkpoint that cannot be written for now is written later and does not fence the log.

Compiled, as a lone publisher that waits for each confirm makes a round a message: see ``log_sync.pxd``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial

from ...files import Disk
from ...loop import Loop, Timer
from ...options import LogOptions
from ...plan import Flusher
from ...worker import ThreadWorker, Worker
from .committer import Committer
from .jobs import Jobs
from .marks import Marks
from .ports import Rounds
from .removals import Removals
from .retries import Retries
from .round import Round, Submission, SyncedLog
from .unsynced import Unsynced

logger = logging.getLogger(__name__)


class LogSync(Rounds):
    """Group commit for all logs of a node. Everything but the jobs runs on the event loop.

    ``post`` puts a call onto the loop from the worker thread; ``call_later(seconds, callback)`` returns a
    ``Timer``; ``clock`` is monotone, in seconds; ``wall_us`` is the time of day in µs.

    The ``flusher`` of the disk, if there is one, carries out the plans of small rounds instead of the worker:
    whoever made it watches ``flusher.fileno()`` and calls ``flushed`` when it is readable.
    The worker gets no job meanwhile, since it might close the descriptor.
    """

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        options: LogOptions,
        *,
        post: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], Timer],
        clock: Callable[[], float] = time.monotonic,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        worker: Worker | None = None,
        flusher: Flusher | None = None,
    ) -> None:
        self.loop = Loop(post, call_later, clock, wall_us)
        self.committer = Committer(disk, data_dir, options)
        self.marks = Marks(disk, data_dir)
        self.jobs = Jobs(worker or ThreadWorker(), flusher)
        self._removals = Removals(self.committer, self.jobs, post, options.removals_per_job)
        self._options = options
        self._dirty: list[SyncedLog] = []
        self._settles: list[SyncedLog] = []
        #: Logs fenced by a passing error that are to be tried now.
        self._again: list[SyncedLog] = []
        #: For logs that are fenced by a passing error: their missing batches are tried again after a while.
        self.retries = Retries(self.loop, self._try_again)
        self._checkpoint_retries = Retries(self.loop, self._checkpoint_again)
        self._round: Round | None = None
        self._settle_timer: Timer | None = None
        self._journal_timer: Timer | None = None
        self._stopped = False
        #: Called after every round, on the loop.
        self.on_round: Callable[[], None] | None = None
        #: Number of finished rounds, and the seconds that the last one took.
        self.rounds = 0
        self.last_round_s = 0.0

    def commit(self, log: SyncedLog) -> None:
        """``log`` has messages for the next round. It calls this once until it is sealed."""
        self._dirty.append(log)

    def commit_settles(self, log: SyncedLog) -> None:
        """``log`` has settles for the next round, which begins after ``settle_delay_ms`` at the latest."""
        self._settles.append(log)
        if self._settle_timer is None:
            self._settle_timer = self.loop.call_later(self._options.settle_delay_ms / 1000, self._settles_due)

    def retry_later(self, log: SyncedLog) -> None:
        self.retries.later(log)

    @property
    def is_dirty(self) -> bool:
        """Whether ``start_round`` has something to do."""
        return bool(self._dirty)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and no round is running."""
        return self._round is None and not self._dirty and not self._settles

    def unsynced(self) -> Unsynced:
        """What is not durable yet. It looks at each log that has something to write."""
        work = self._round
        logs = dict.fromkeys([*self._dirty, *self._settles, *self._again, *self.retries.waiting()])
        if work is None:
            return Unsynced(0.0, 0, sum([log.unsynced_bytes for log in logs]))
        logs.update(dict.fromkeys([each.log for each in work.submissions]))
        return Unsynced(
            max(self.loop.clock() - work.started, 0.0),
            sum([batch.length for each in work.submissions for batch in each.batches]),
            sum([log.unsynced_bytes for log in logs]),
        )

    def _try_again(self, log: SyncedLog) -> None:
        if not log.passing:
            self.retries.over(log)
            return
        self._again.append(log)
        if self._round is None:
            self._begin()

    def _checkpoint_again(self, log: SyncedLog) -> None:
        if not log.deleted:
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

    def _begin(self, drain_journal: bool = False) -> None:
        dirty, settles = self._dirty, self._settles
        self._dirty, self._settles = [], []
        if len(dirty) + len(settles) > 2 and not self._stopped:
            half = self._options.logs_per_round_max // 2
            dirty, self._dirty = _split(dirty, half)
            settles, self._settles = _split(settles, half)
        # The timer is kept. It may be early for the next settles, but that is cheaper than a timer for each
        # round.
        now_us = self.loop.wall_us()
        again, self._again = self._again, []
        submissions = [log.take(again=True) for log in again if log.passing]
        new = 0
        for log in dirty + settles:
            if log.deleted or not log.due.is_any:
                continue  # nothing to write, or it was in both lists
            if not log.writer.is_made:
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
        work = Round(submissions, self.loop.clock(), now_us)
        work.drain_journal = drain_journal
        self._round = work
        if not drain_journal and self.jobs.can_flush():
            work.plan = self.committer.plan(submissions)
        if work.plan is not None:
            self.jobs.flush(work.plan)
        else:
            self.jobs.worker.submit(partial(self._run_in_worker, work))

    def flushed(self) -> None:
        """The flusher's descriptor is readable."""
        error = self.jobs.flushed()
        if error >= 0:
            self._end_plan(error, self._finished)

    def _end_plan(self, error: int, finished: Callable[[Round], None]) -> None:
        """The flusher is done with the plan of the current round; ``error`` is an error number or 0."""
        work = self._round
        assert work is not None
        plan = work.plan
        assert plan is not None
        if error == 0:
            plan.carried_out()
            work.journal_pending = self.committer.journal.is_pending
            finished(work)
        else:
            plan.error = OSError(error, os.strerror(error))
            if len(plan.writes) == 1:
                submission = work.submissions[0]
                plan.error.filename = submission.writer.path
                submission.writer.failed = submission.error = plan.error
                finished(work)
            else:
                # The worker finds out which log failed.
                self.jobs.worker.submit(partial(self._run_in_worker, work))
        self.jobs.resume()

    def _run_in_worker(self, work: Round) -> None:
        try:
            self.committer.run(work)
        except Exception as error:
            # A bug of ours, not an error of the disk. Nothing of the round may be confirmed.
            logger.exception("a sync round failed")
            for submission in work.submissions:
                submission.error = submission.error or error
        self.loop.post(partial(self._finished, work))

    def _finished(self, work: Round) -> None:
        """End a round: tell its logs, and begin the next one if something is dirty."""
        if self._round is work:
            self._finish(work)
            if (self._dirty or self._again) and self._round is None:
                self._begin()

    def _finish(self, work: Round) -> None:
        self._round = None
        self.rounds += 1
        now = self.loop.clock()
        self.last_round_s = now - work.started
        for log, error in work.failures:
            log.fail(error)
        for submission in work.submissions:
            log = submission.log
            if submission.error is not None:
                self._submission_failed(submission, submission.error)
                continue
            if submission.again:
                self.retries.over(log)
                if log.passing:
                    log.resume()
            log.written(submission.end, submission.generation)
            if submission.checkpoint is not None and submission.checkpoint_error is None:
                self._checkpoint_retries.over(log)
                log.checkpoint_written(submission.checkpoint_number, submission.end)
            if log.failed is None:
                self.marks.set(log)
            if submission.checkpoint_error is not None:
                if log not in self._checkpoint_retries:
                    logger.warning("a checkpoint is put off: %s", submission.checkpoint_error)
                log.checkpoints.failed(submission.removed, is_due=False)
                self._checkpoint_retries.later(log)
        if self._settles and self._settle_timer is None:
            self._settle_timer = self.loop.call_later(self._options.settle_delay_ms / 1000, self._settles_due)
        if work.journal_pending and self._journal_timer is None and not self._stopped:
            self._journal_later()
        if self.on_round is not None:
            self.on_round()

    def _submission_failed(self, submission: Submission, error: Exception) -> None:
        log = submission.log
        if submission.checkpoint is not None:
            log.checkpoints.failed(submission.removed, is_due=True)
        log.fail(error)
        if submission.again and log.passing:
            self.retries.later(log)

    def _journal_idle(self) -> None:
        self._journal_timer = None
        if self._round is None:
            self._begin(drain_journal=True)
        else:
            self._journal_later()

    def _journal_later(self) -> None:
        delay = self._options.journal_idle_ms / 1000
        self._journal_timer = self.loop.call_later(delay, self._journal_idle)

    def show(self, log: SyncedLog) -> None:
        self.marks.set(log)

    def delete(self, log: SyncedLog) -> None:
        """Remove a log's directory after the current round."""
        self.marks.clear(log)
        self._removals.add(log.writer)

    def release(self, log: SyncedLog) -> None:
        """Sync everything, the logs of the journal too, and let go of the files of ``log``. Blocks.

        It is called before a log is truncated: the journal would restore what is cut.
        """
        self._begin(drain_journal=True)
        self.settle_down()
        self.jobs.worker.submit(log.writer.forget)
        self.jobs.worker.wait_idle()
        self.marks.clear(log)

    def settle_down(self) -> Round | None:
        """Wait for the current round and process its result; returns it. Blocks.

        No other round is begun, because it could confirm what a truncation is about to cut.
        """
        work = self._round
        error = self.jobs.flushed(wait=True)
        if error >= 0:
            self._end_plan(error, self._finish)
        self.jobs.worker.wait_idle()
        if work is not None and self._round is work:
            self._finish(work)
        return work

    def flush(self) -> None:
        """Make everything durable; blocks. Nothing is tried again later."""
        self._stopped = True
        self.settle_down()
        self._checkpoint_retries.stop()
        self._again = self.retries.stop()  # a last attempt
        while self._dirty or self._settles or self._again:
            self._begin()
            self.settle_down()
        self._begin(drain_journal=True)
        self.settle_down()
        self._removals.finish()

    def stop(self, parts: list[bytes], indexes: list[tuple[str, bytes]]) -> None:
        """After ``flush``: write the node's checkpoint of a clean stop, and stop the threads; blocks.

        The next start scans none of the logs whose states (``pack_state``) are ``parts``. ``indexes`` has
        paths and contents of the index files of their active segments.
        """
        worker = self.jobs.worker
        worker.submit(partial(self.committer.write_clean, parts, indexes, self.loop.wall_us()))
        worker.submit(self.committer.close)
        self.jobs.stop()
        self.marks.close()
        for timer in (self._settle_timer, self._journal_timer):
            if timer is not None:
                timer.cancel()


def _split(logs: list[SyncedLog], half: int) -> tuple[list[SyncedLog], list[SyncedLog]]:
    """The logs of this round, which are ``half`` at either end, and those that wait.

    A message to a thousand queues makes a thousand logs dirty. A publisher after it must not wait for all of
    them.
    """
    if len(logs) <= 2 * half:
        return logs, []
    last = len(logs) - half
    return logs[:half] + logs[last:], logs[half:last]
