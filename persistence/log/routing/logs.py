"""All routing logs of a node: writing what is recorded, and removing what is old.

Recorders close batches on the event loop. A separate thread writes them, so that no confirm waits for
statistics. It writes and syncs once a second, and writes as soon as a mebibyte is waiting. One job runs at a
time. If the disk falls far behind, publishers wait. If the disk fails, the partition stops recording and
tries again later.
"""

from __future__ import annotations

import errno
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from amqp_router.protocol.tick import Tick

from ...clock import JUMP_US
from ...errors import PersistenceError
from ...files import Disk, FileCache, join, read_file
from ...loop import Timer
from ...memory import MemoryBudget
from ...worker import ThreadWorker, Worker
from ..format.identity import DESCRIPTION_VERSION, DESCRIPTION_VERSIONS, WAY_OUT
from ..format.record import Batch
from ..format.segment import segment_bases
from ..sync.marks import Marks, log_id, read_marks
from .layout import DIRECTORY, partition_of, routing_id
from .recorder import DAY_US, Backlog, Recorder, RouteEntry, WideNames, waiting_bytes
from .recovery import Recovered, recover
from .retention import closed_segments, remove_segment
from .writer import RoutingWriter

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


class Waiter(Protocol):
    """The counter of a publisher's unsynced bytes (``channel.publishing.Inflow``)."""

    limit: int

    def add(self, size: int) -> None: ...

    def remove(self, size: int) -> None: ...


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


class _Partition:
    """The data of a recorder that only this module uses."""

    def __init__(self, log_name: str, number: int, vhost: str, writer: RoutingWriter) -> None:
        self.log_name = log_name
        self.number = number
        self.vhost = vhost
        self.writer = writer
        #: Its end, segment and position in the mark of the last process.
        self.mark = (0, 0, 0)
        self.retry: Timer | None = None
        #: Its virtual host is deleted, and its files go.
        self.is_removed = False


class _Job:
    """One job of the thread."""

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync
        self.items: list[tuple[Recorder, list[tuple[Batch, list[bytes]]]]] = []
        self.size = 0
        #: Recorders whose segment is closed without new batches.
        self.idle: list[Recorder] = []
        self.retention: dict[str, int] | None = None
        # The results.
        self.failed: list[tuple[Recorder, Exception]] = []
        self.synced: list[Recorder] = []
        self.removed: dict[str, int] = {}


class RoutingLogs:
    """Everything but the jobs runs on the event loop; ``post`` puts a call onto it from the thread."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        options: RoutingOptions,
        *,
        tick: Tick,
        marks: Marks,
        post: Callable[[Callable[[], None]], Any],
        call_later: Callable[[float, Callable[[], None]], Timer],
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        worker: Worker | None = None,
        has_room: Callable[[], bool] = lambda: True,
        account: MemoryBudget | None = None,
        node: str = "",
    ) -> None:
        #: The id of the data directory: every node has routing logs of its own.
        self._node = node
        self._has_room = has_room
        self.logs: dict[str, RoutingLog] = {}
        self.backlog = Backlog(account)
        self.backlog.bytes_max = options.backlog_bytes_max
        self.backlog.hold = self.hold
        self.backlog.on_dirty = self._dirty
        self.backlog.on_bytes = self._write_soon
        #: Bytes cut and segments set aside at start: (virtual host, partition, what).
        self.reports: list[tuple[str, int, str]] = []
        self._disk = disk
        self._data_dir = data_dir
        self._root = join(data_dir, DIRECTORY)
        self._options = options
        self._tick = tick
        self._marks = marks
        self._post = post
        self._call_later = call_later
        self._wall_us = wall_us
        self._worker = worker or ThreadWorker("routing-log")
        self._files = FileCache(disk, 64, write=True)
        self._old_marks = read_marks(disk, data_dir)
        self._job: _Job | None = None
        self._sync_timer: Timer | None = None
        self._sync_due = False
        self._retention_timer: Timer | None = None
        self._retention_due = True
        self._held: dict[Waiter, int] = {}
        #: Directories of deleted virtual hosts that the thread has not removed yet.
        self._removing: set[str] = set()
        #: Recorders with written batches that are not synced.
        self._written: dict[Recorder, None] = {}
        self._stopped = False

    # -- virtual hosts --------------------------------------------------------------------------------

    def open(self, vhost: str) -> RoutingLog | None:
        """The routing log of a virtual host, recovered or new; None if that fails, which is logged.

        If it was opened before, the same object is returned, because a virtual host may be deleted and made
        again.
        """
        if vhost in self.logs:
            return self.logs[vhost]
        name = routing_id(vhost)
        if name in self._removing:
            self._worker.wait_idle()
        directory = join(self._root, name)
        try:
            partitions, node = self._described(directory)
        except PersistenceError as error:
            logger.error("no routing log for virtual host '%s': %s", vhost, error)
            return None
        description = {
            "version": DESCRIPTION_VERSION,
            "kind": "routing",
            "vhost": vhost,
            "partitions": partitions,
            "node": node,
        }
        recorders = []
        for number in range(partitions):
            place = join(directory, str(number))
            recorder = Recorder(place, self._tick, self.backlog, self._options.segment_bytes_max)
            writer = RoutingWriter(self._disk, self._files, place, description)
            recorder.owner = _Partition(name, number, vhost, writer)
            recorders.append(recorder)
            self._recover(recorder)
        log = self.logs[vhost] = RoutingLog(vhost, name, recorders)
        if self._retention_timer is None:
            self._retention_timer = self._call_later(SYNC_S, self._retain)
        return log

    def remove(self, vhost: str) -> None:
        """Remove the routing log of a deleted virtual host; nothing happens if there is none.

        If the process ends before, its segments go when they are too old.
        """
        log = self.logs.pop(vhost, None)
        if log is None:
            return
        for recorder in log.recorders:
            owner: _Partition = recorder.owner
            owner.is_removed = True
            if owner.retry is not None:
                owner.retry.cancel()
            recorder.stop()
            recorder.roll()  # forgets its names
            recorder.stop()
            self._written.pop(recorder, None)
            self._marks.clear(recorder)
        self.backlog.dirty = [each for each in self.backlog.dirty if each not in log.recorders]
        self._removing.add(log.id)
        self._worker.submit(partial(self._remove_files, log.id))

    def _remove_files(self, name: str) -> None:
        """Runs in the thread, after the job that may still write them."""
        directory = join(self._root, name)
        try:
            self._files.drop_below(directory)
            if self._disk.exists(directory):
                self._disk.remove_tree(directory)
        except OSError as error:
            logger.warning("cannot remove the routing log of a deleted virtual host: %s", error)
        self._removing.discard(name)

    def _described(self, directory: str) -> tuple[int, str]:
        """Number of partitions of a routing log, existing or new, and the node in its salt.

        Raises:
            PersistenceError: its description is not of this version, or cannot be read.
        """
        path = join(directory, "log.json")
        try:
            description = json.loads(read_file(self._disk, path))
            version, partitions = description["version"], int(description["partitions"])
        except FileNotFoundError:
            return self._options.partitions, self._node
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise PersistenceError(f"{path} cannot be read: {error}") from error
        if version not in DESCRIPTION_VERSIONS or partitions < 1:
            raise PersistenceError(f"{path}: format version {version}, this release reads 0 and 1{WAY_OUT}")
        return partitions, str(description.get("node", self._node))

    def _recover(self, recorder: Recorder) -> None:
        owner: _Partition = recorder.owner
        mark = self._old_marks.get((log_id(owner.log_name), owner.number))
        if mark is not None:
            owner.mark = (mark.end, mark.segment, mark.position)
        try:
            found = recover(self._disk, recorder.directory, owner.mark, owner.writer.salt)
        except OSError as error:
            self._fail(recorder, error)
            return
        if found.damaged:
            self.reports.append((owner.vhost, owner.number, f"a segment is set aside: {found.damaged}"))
        ahead_us = found.last_us - self._wall_us()
        if ahead_us > JUMP_US:
            text = f"its times are {ahead_us // 1_000_000} s ahead of the system's clock; events keep it"
            self.reports.append((owner.vhost, owner.number, text))
        if found.cut_bytes:
            self.reports.append((owner.vhost, owner.number, f"{found.cut_bytes} torn bytes cut"))
        self._begin(recorder, found)

    def _begin(self, recorder: Recorder, found: Recovered) -> None:
        segment = found.segment
        recorder.owner.writer.take_over(found)
        if segment.written:
            recorder.begin(segment, found.ids, found.names, found.last_us)
        else:
            recorder.begin(segment, {}, 0, found.last_us)
            recorder.roll()
        if segment.end:
            self._mark(recorder)

    def _mark(self, recorder: Recorder) -> None:
        owner: _Partition = recorder.owner
        writer = owner.writer
        base = writer.segment.base if writer.segment is not None else writer.synced_end
        position = writer.synced if writer.segment is not None else 0
        self._marks.put(
            recorder, owner.log_name, owner.number, 0, writer.synced_end, base, position, writer.start
        )

    # -- writing --------------------------------------------------------------------------------------

    def hold(self, waiter: Waiter) -> None:
        """Make a publisher wait until the disk has caught up."""
        if waiter not in self._held:
            size = waiter.limit + 1
            self._held[waiter] = size
            waiter.add(size)

    def _dirty(self) -> None:
        """Schedule a write and sync within a second."""
        if self._sync_timer is None and not self._stopped:
            self._sync_timer = self._call_later(SYNC_S, self._second_is_over)

    def _second_is_over(self) -> None:
        self._sync_timer = None
        self._sync_due = True
        self._next_job()

    def _write_soon(self) -> None:
        if self._job is None:
            self._next_job()

    def _next_job(self) -> None:
        """Give the thread everything that waits, unless it has a job."""
        if self._job is not None:
            return
        backlog = self.backlog
        if not (self._sync_due or self._retention_due or backlog.bytes >= backlog.write_bytes):
            return
        job = self._job = _Job(sync=self._sync_due)
        dirty, backlog.dirty = backlog.dirty, []
        self._sync_due = False
        for recorder in dirty:
            recorder.dirty = False
            if job.sync:
                # An open batch grows until the second is over.
                recorder.close()
            elif recorder.is_open:
                recorder.dirty = True
                backlog.dirty.append(recorder)
            if recorder.closed:
                items, recorder.closed = recorder.closed, []
                job.items.append((recorder, items))
                job.size += sum([waiting_bytes(batch, names) for batch, names in items])
                self._written[recorder] = None
                if items[0][0].segment is not recorder.segment:
                    self._retention_due = True
        if self._retention_due:
            self._retention_due = False
            self._plan_retention(job)
        self._worker.submit(partial(self._run, job))

    def _plan_retention(self, job: _Job) -> None:
        now_us = self._wall_us()
        job.retention = {}
        for log in self.logs.values():
            for recorder in log.recorders:
                segment = recorder.segment
                if (
                    not recorder.stopped
                    and not recorder.dirty
                    and not recorder.closed
                    and segment.size
                    and now_us - segment.first_ts >= DAY_US
                ):
                    recorder.roll()
                    job.idle.append(recorder)
                # The segments below this base are closed, and will be written when this job does the
                # retention.
                job.retention[recorder.directory] = recorder.segment.base

    def _run(self, job: _Job) -> None:
        """Runs in the thread."""
        for recorder, items in job.items:
            self._attempt(job, recorder, partial(recorder.owner.writer.write, items))
        for recorder in job.idle:
            self._attempt(job, recorder, recorder.owner.writer.close_segment)
        if job.sync:
            for recorder in list(self._written):
                if self._attempt(job, recorder, recorder.owner.writer.sync):
                    job.synced.append(recorder)
        if job.retention is not None:
            try:
                self._remove_old(job, job.retention)
            except Exception as error:
                logger.warning("cannot remove old segments of the routing log: %s", error)
        self._post(partial(self._done, job))

    def _attempt(self, job: _Job, recorder: Recorder, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception as error:
            if not any(failed is recorder for failed, _ in job.failed):
                job.failed.append((recorder, error))
            return False
        return True

    def _remove_old(self, job: _Job, active: dict[str, int]) -> None:
        closed, total = closed_segments(self._disk, self._root, active)
        # A segment's last event is at most a day after its first.
        oldest_us = self._wall_us() - int((self._options.days + 1) * DAY_US)
        for segment in closed:
            if total <= self._options.bytes_max and segment.first_ts >= oldest_us:
                continue
            remove_segment(self._disk, segment)
            total -= segment.size
            bases = segment_bases(self._disk, segment.directory)
            job.removed[segment.directory] = bases[0] if bases else -1

    def _done(self, job: _Job) -> None:
        """A job has ended (on the event loop)."""
        if self._job is not job:
            return
        self._job = None
        self.backlog.remove(job.size)
        if job.sync:
            self._written.clear()
        for recorder, error in job.failed:
            self._fail(recorder, error)
        for recorder in job.synced:
            if not recorder.stopped:
                self._mark(recorder)
        if job.removed:
            self._move_starts(job.removed)
        if self._held and not self.backlog.full:
            held, self._held = self._held, {}
            for waiter, size in held.items():
                waiter.remove(size)
        if self._written:
            self._dirty()
        if not self._stopped:
            self._next_job()

    def _move_starts(self, removed: dict[str, int]) -> None:
        """Segments were removed. ``removed`` maps partition directories to the base of the first one left, -1
        if none is.
        """
        for log in self.logs.values():
            for recorder in log.recorders:
                start = removed.get(recorder.directory)
                if start is not None and not recorder.stopped:
                    writer: RoutingWriter = recorder.owner.writer
                    writer.start = writer.synced_end if start < 0 else start
                    self._mark(recorder)

    # -- failures -------------------------------------------------------------------------------------

    def halt(self) -> None:
        """The disk is short of space: stop recording until ``has_room`` returns True."""
        for log in self.logs.values():
            for recorder in log.recorders:
                if not recorder.stopped:
                    self._fail(
                        recorder, OSError(errno.ENOSPC, "the disk is short of room, which messages need")
                    )

    def _fail(self, recorder: Recorder, error: Exception) -> None:
        """Stop recording in a partition, and try again in a while."""
        owner: _Partition = recorder.owner
        if owner.retry is not None or owner.is_removed:
            return
        # What is written but not synced will be cut.
        recorder.lost += recorder.stop() + recorder.end - owner.writer.synced_end
        recorder.end = owner.writer.synced_end
        self._written.pop(recorder, None)
        logger.error(
            "the routing log of virtual host '%s' stops in partition %d, nothing else does; "
            "next try in %d s: %s",
            owner.vhost,
            owner.number,
            RETRY_S,
            error,
        )
        if not self._stopped:
            owner.retry = self._call_later(RETRY_S, partial(self._try_again, recorder))

    def _try_again(self, recorder: Recorder) -> None:
        if not self._has_room():
            recorder.owner.retry = self._call_later(RETRY_S, partial(self._try_again, recorder))
            return
        found: list[Recovered | Exception] = []
        self._worker.submit(partial(self._reopen, recorder, found))

    def _reopen(self, recorder: Recorder, found: list[Recovered | Exception]) -> None:
        """Runs in the thread."""
        try:
            found.append(recorder.owner.writer.reopen(recorder.owner.mark))
        except Exception as error:
            found.append(error)
        self._post(partial(self._reopened, recorder, found))

    def _reopened(self, recorder: Recorder, found: list[Recovered | Exception]) -> None:
        owner: _Partition = recorder.owner
        if self._stopped or owner.is_removed:
            return
        owner.retry = None
        result = found[0]
        if isinstance(result, Exception):
            self._fail(recorder, result)
            return
        logger.warning(
            "the routing log of virtual host '%s' goes on in partition %d; %d events are not in it",
            owner.vhost,
            owner.number,
            recorder.lost,
        )
        recorder.lost = 0
        self._begin(recorder, result)
        self._mark(recorder)

    # -- retention and the end ------------------------------------------------------------------------

    def _retain(self) -> None:
        """Remove segments that are too old; called once an hour."""
        self._retention_timer = self._call_later(RETENTION_S, self._retain)
        self._retention_due = True
        self._next_job()

    def stop(self) -> None:
        """Write and sync everything; blocks."""
        self._stopped = True
        for timer in (self._sync_timer, self._retention_timer):
            if timer is not None:
                timer.cancel()
        for log in self.logs.values():
            for recorder in log.recorders:
                if recorder.owner.retry is not None:
                    recorder.owner.retry.cancel()
        self._finish_job()
        self._retention_due = False
        self._sync_due = True
        self._next_job()
        self._finish_job()
        self._worker.stop()
        self._files.close()

    def _finish_job(self) -> None:
        """Wait for the running job, if there is one, and process its result."""
        job = self._job
        self._worker.wait_idle()
        if job is not None:
            self._done(job)
