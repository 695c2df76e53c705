"""All routing logs of a node: writing what is recorded, and removing what is old.

Recorders close batches on the event loop. A separate thread writes them, so that no confirm waits for
statistics. It writes and syncs once a second, and writes as soon as a mebibyte is waiting. One job runs at a
time. If the disk falls far behind, publishers wait. If the disk fails, the partition stops recording and
tries again later.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from amqp_router.protocol.tick import Tick

from ...errors import PersistenceError
from ...files import Disk
from ...loop import Loop, Timer
from ...memory import MemoryBudget
from ...worker import ThreadWorker, Worker
from ..sync.marks import Marks
from .job import Job
from .layout import partition_of, routing_id
from .names import WideNames
from .opening import Opener
from .partition import RoutingPartition
from .recorder import DAY_US, Backlog, BacklogPort, Recorder, RouteEntry, Waiter, waiting_bytes
from .recovery import Recovered, recover
from .retention import Retention

logger = logging.getLogger(__name__)

SYNC_S = 1.0
#: Seconds until a partition whose disk failed is tried again.
RETRY_S = 60.0
#: Seconds between two searches for segments that are too old.
RETENTION_S = 3600.0
SEGMENT_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """Options of the routing log, handed down by the composition root."""

    #: Partitions of a virtual host that has no routing log yet.
    partitions: int = 4
    #: Bytes of all routing logs together; beyond it the oldest segments are removed.
    bytes_max: int = 1 << 30
    #: Segments with older events are removed too.
    days: float = 7.0
    #: Bytes that may wait to be written; beyond it publishers wait.
    backlog_bytes_max: int = 32 << 20

    @property
    def segment_bytes_max(self) -> int:
        """Size of a segment: a small part of ``bytes_max``."""
        return min(SEGMENT_BYTES_MAX, max(1 << 20, self.bytes_max // 16))


class RoutingLog:
    """The routing log of one virtual host."""

    def __init__(self, vhost: str, name: str, recorders: list[Recorder]) -> None:
        self.vhost = vhost
        #: The name of the log's directory.
        self.id = name
        self.recorders = recorders

    def entry(self, exchange: str, key: bytes, names: bytes | WideNames) -> RouteEntry:
        """The entry of a ``Route``, which is passed to ``Recorder.note``.

        ``names`` is the payload of its entry in the ``.names`` file, or the parts of it.
        """
        return RouteEntry(self.recorders[partition_of(exchange, len(self.recorders))], key, names)


class RoutingLogs(BacklogPort):
    """Everything but the jobs runs on the event loop; ``post`` puts a call onto it from the thread."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        options: RoutingOptions,
        *,
        tick: Tick,
        marks: Marks,
        post: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], Timer],
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        worker: Worker | None = None,
        has_room: Callable[[], bool] = lambda: True,
        account: MemoryBudget | None = None,
        node: str = "",
    ) -> None:
        self._has_room = has_room
        self.logs: dict[str, RoutingLog] = {}
        self.backlog = Backlog(account)
        self.backlog.bytes_max = options.backlog_bytes_max
        self.backlog.port = self
        #: Bytes cut and segments set aside at start: (virtual host, partition, what).
        self.reports: list[tuple[str, int, str]] = []
        self._disk = disk
        self._options = options
        self._opener = Opener(disk, data_dir, tick, self.backlog, node)
        self._retention = Retention(disk, self._opener.root, options.bytes_max, options.days, wall_us)
        self._marks = marks
        self._loop = Loop(post, call_later, time.monotonic, wall_us)
        self._worker = worker or ThreadWorker("routing-log")
        self._partitions: dict[Recorder, RoutingPartition] = {}
        self._job: Job | None = None
        self._sync_timer: Timer | None = None
        self._sync_due = False
        self._retention_timer: Timer | None = None
        self._retention_due = True
        self._held: dict[Waiter, int] = {}
        #: Partitions with written batches that are not synced.
        self._written: dict[RoutingPartition, None] = {}
        self._stopped = False

    # -- virtual hosts --------------------------------------------------------------------------------

    def open(self, vhost: str) -> RoutingLog | None:
        """The routing log of a virtual host, recovered or new; None if that fails, which is logged.

        If it was opened before, the same object is returned, because a virtual host may be deleted and made
        again.
        """
        if vhost in self.logs:
            return self.logs[vhost]
        options = self._options
        if self._opener.is_removing(vhost):
            self._worker.wait_idle()
        try:
            partitions = self._opener.partitions(vhost, options.partitions, options.segment_bytes_max)
        except PersistenceError as error:
            logger.error("no routing log for virtual host '%s': %s", vhost, error)
            return None
        for owner in partitions:
            self._partitions[owner.recorder] = owner
            self._recover(owner)
        log = RoutingLog(vhost, routing_id(vhost), [owner.recorder for owner in partitions])
        self.logs[vhost] = log
        if self._retention_timer is None:
            self._retention_timer = self._loop.call_later(SYNC_S, self._retain)
        return log

    def remove(self, vhost: str) -> None:
        """Remove the routing log of a deleted virtual host; nothing happens if there is none.

        If the process ends before, its segments go when they are too old.
        """
        log = self.logs.pop(vhost, None)
        if log is None:
            return
        for recorder in log.recorders:
            owner = self._partitions.pop(recorder)
            owner.remove(self._marks)
            self._written.pop(owner, None)
        self.backlog.dirty = [each for each in self.backlog.dirty if each not in log.recorders]
        self._worker.submit(self._opener.removal(log.id))

    def _recover(self, owner: RoutingPartition) -> None:
        try:
            found = recover(self._disk, owner.recorder.directory, owner.mark, owner.writer.salt)
        except OSError as error:
            self._fail(owner, error)
            return
        if found.damaged:
            self.reports.append((owner.vhost, owner.number, f"a segment is set aside: {found.damaged}"))
        if found.cut_bytes:
            self.reports.append((owner.vhost, owner.number, f"{found.cut_bytes} torn bytes cut"))
        owner.begin(found, self._marks)
        ahead_us = self._keep_up(owner)
        if ahead_us:
            text = (
                f"it was written with the system's clock {ahead_us // 1_000_000} s ahead of now; "
                f"a new segment from offset {owner.recorder.end} on has the clock's time again"
            )
            self.reports.append((owner.vhost, owner.number, text))

    def _keep_up(self, owner: RoutingPartition) -> int:
        return owner.keep_up(self._loop.wall_us(), self._loop.clock())

    # -- writing --------------------------------------------------------------------------------------

    def hold(self, waiter: Waiter) -> None:
        """Make a publisher wait until the disk has caught up."""
        if waiter not in self._held:
            size = waiter.limit + 1
            self._held[waiter] = size
            waiter.add(size)

    def on_dirty(self) -> None:
        """Schedule a write and sync within a second."""
        if self._sync_timer is None and not self._stopped:
            self._sync_timer = self._loop.call_later(SYNC_S, self._second_is_over)

    def _second_is_over(self) -> None:
        self._sync_timer = None
        self._sync_due = True
        self._next_job()

    def on_bytes(self) -> None:
        """Write what waits, unless the thread has a job."""
        if self._job is None:
            self._next_job()

    def _next_job(self) -> None:
        """Give the thread everything that waits, unless it has a job."""
        if self._job is not None:
            return
        backlog = self.backlog
        if not (self._sync_due or self._retention_due or backlog.bytes >= backlog.write_bytes):
            return
        job = self._job = Job(sync=self._sync_due)
        dirty, backlog.dirty = backlog.dirty, []
        self._sync_due = False
        for recorder in dirty:
            recorder.dirty = False
            if job.sync:
                # An open batch grows until the second is over.
                recorder.close()
                self._keep_up(self._partitions[recorder])
            elif recorder.is_open:
                recorder.dirty = True
                backlog.dirty.append(recorder)
            if recorder.closed:
                owner = self._partitions[recorder]
                items, recorder.closed = recorder.closed, []
                job.items.append((owner, items))
                job.size += sum([waiting_bytes(batch, names) for batch, names in items])
                self._written[owner] = None
                if items[0][0].segment is not recorder.segment:
                    self._retention_due = True
        if self._retention_due:
            self._retention_due = False
            self._plan_retention(job)
        job.written = list(self._written)
        self._worker.submit(partial(self._run, job))

    def _plan_retention(self, job: Job) -> None:
        now_us = self._loop.wall_us()
        job.retention = {}
        for recorder, owner in self._partitions.items():
            segment = recorder.segment
            if (
                not recorder.stopped
                and not recorder.dirty
                and not recorder.closed
                and segment.size
                and now_us - segment.first_ts >= DAY_US
            ):
                recorder.roll()
                job.idle.append(owner)
            # The segments below this base are closed, and will be written when this job does the retention.
            job.retention[recorder.directory] = recorder.segment.base

    def _run(self, job: Job) -> None:
        """Runs in the thread."""
        job.run(self._retention)
        self._loop.post(partial(self._done, job))

    def _done(self, job: Job) -> None:
        """A job has ended (on the event loop)."""
        if self._job is not job:
            return
        self._job = None
        self.backlog.remove(job.size)
        if job.sync:
            self._written.clear()
        for owner, error in job.failed:
            self._fail(owner, error)
        for owner in job.synced:
            if not owner.recorder.stopped:
                owner.set_mark(self._marks)
        if job.removed:
            self._move_starts(job.removed)
        if self._held and not self.backlog.full:
            held, self._held = self._held, {}
            for waiter, size in held.items():
                waiter.remove(size)
        if self._written:
            self.on_dirty()
        if not self._stopped:
            self._next_job()

    def _move_starts(self, removed: dict[str, int]) -> None:
        """Segments were removed. ``removed`` maps partition directories to the base of the first one left, -1
        if none is.
        """
        for recorder, owner in self._partitions.items():
            start = removed.get(recorder.directory)
            if start is not None and not recorder.stopped:
                owner.writer.start = owner.writer.synced_end if start < 0 else start
                owner.set_mark(self._marks)

    # -- failures -------------------------------------------------------------------------------------

    def halt(self) -> None:
        """The disk is short of space: stop recording until ``has_room`` returns True."""
        for recorder, owner in self._partitions.items():
            if not recorder.stopped:
                self._fail(owner, OSError(errno.ENOSPC, "the disk is short of room, which messages need"))

    def _fail(self, owner: RoutingPartition, error: Exception) -> None:
        """Stop recording in a partition, and try again in a while."""
        if owner.retry is not None or owner.is_removed:
            return
        owner.stop()
        self._written.pop(owner, None)
        logger.error(
            "the routing log of virtual host '%s' stops in partition %d, nothing else does; "
            "next try in %d s: %s",
            owner.vhost,
            owner.number,
            RETRY_S,
            error,
        )
        if not self._stopped:
            owner.retry = self._loop.call_later(RETRY_S, partial(self._try_again, owner))

    def _try_again(self, owner: RoutingPartition) -> None:
        if not self._has_room():
            owner.retry = self._loop.call_later(RETRY_S, partial(self._try_again, owner))
            return
        found: list[Recovered | Exception] = []
        self._worker.submit(partial(self._reopen, owner, found))

    def _reopen(self, owner: RoutingPartition, found: list[Recovered | Exception]) -> None:
        """Runs in the thread."""
        try:
            found.append(owner.writer.reopen(owner.mark))
        except Exception as error:
            found.append(error)
        self._loop.post(partial(self._reopened, owner, found))

    def _reopened(self, owner: RoutingPartition, found: list[Recovered | Exception]) -> None:
        if self._stopped or owner.is_removed:
            return
        owner.retry = None
        result = found[0]
        if isinstance(result, Exception):
            self._fail(owner, result)
            return
        logger.warning(
            "the routing log of virtual host '%s' goes on in partition %d; %d events are not in it",
            owner.vhost,
            owner.number,
            owner.recorder.lost,
        )
        owner.recorder.lost = 0
        owner.begin(result, self._marks)
        self._keep_up(owner)
        owner.set_mark(self._marks)

    # -- retention and the end ------------------------------------------------------------------------

    def _retain(self) -> None:
        """Remove segments that are too old; called once an hour."""
        self._retention_timer = self._loop.call_later(RETENTION_S, self._retain)
        self._retention_due = True
        self._next_job()

    def stop(self) -> None:
        """Write and sync everything; blocks."""
        self._stopped = True
        for timer in (self._sync_timer, self._retention_timer):
            if timer is not None:
                timer.cancel()
        for owner in self._partitions.values():
            if owner.retry is not None:
                owner.retry.cancel()
        self._finish_job()
        self._retention_due = False
        self._sync_due = True
        self._next_job()
        self._finish_job()
        self._worker.stop()
        self._opener.close()

    def _finish_job(self) -> None:
        """Wait for the running job, if there is one, and process its result."""
        job = self._job
        self._worker.wait_idle()
        if job is not None:
            self._done(job)
