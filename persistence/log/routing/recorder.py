"""The recorder of published events: one open batch of the routing log for each partition.

Every publish passes here, so the work is small: an event like the one before it raises a counter, any other
ends the run and begins a record. Nothing is allocated. Batches are closed into a list that
``logs.RoutingLogs`` hands to its thread. The layouts are in FORMAT.md ("Routing log").

Invariants:
- ``_run`` events of the open record are not in the batch yet; its key is.
- The id in a ``RouteEntry`` is valid for the segment whose number it has. A batch has ids of its own segment.

Compiled: see ``recorder.pxd``.
"""

from __future__ import annotations

from typing import Protocol

from amqp_router.protocol.tick import Tick

from ...memory import MemoryBudget
from ..format.index import SparseIndex
from ..format.record import Batch
from ..format.segment import Segment
from . import events
from .names import SegmentNames, WideNames
from .open_batch import OpenBatch

DAY_US = 86_400_000_000

# C integers where compiled (see recorder.pxd). A segment is closed if a batch more could be too much, or at
# its first event after a day.
_DAY_US = 86_400_000_000
_U32_MAX = 0xFFFFFFFF


class Waiter(Protocol):
    """The counter of a publisher's unsynced bytes (``channel.publishing.Inflow``)."""

    limit: int

    def add(self, size: int) -> None: ...

    def remove(self, size: int) -> None: ...


class BacklogPort:
    """Who writes the closed batches; the calls that it gets."""

    __slots__ = ()

    def hold(self, waiter: Waiter) -> None:
        """Make a publisher wait until the disk has caught up."""

    def on_dirty(self) -> None:
        """The first recorder has an event in an open batch."""

    def on_bytes(self) -> None:
        """So many bytes wait that they should be written before the second ends."""


class Backlog:
    """The closed batches of all recorders of a node that are not on disk yet."""

    __slots__ = (
        "account",
        "bytes",
        "bytes_max",
        "dirty",
        "full",
        "port",
        "write_bytes",
    )

    def __init__(self, account: MemoryBudget | None = None) -> None:
        #: Counts the waiting batches as ``held``, and the names of all open segments as ``kept``.
        self.account = account or MemoryBudget()
        self.bytes = 0
        self.port: BacklogPort | None = None
        #: From this many bytes on, ``on_bytes()`` is called: they are written before the second ends.
        self.write_bytes = 1 << 20
        #: Above this many bytes publishers wait.
        self.bytes_max = 32 << 20
        self.full = False
        #: Recorders with events in an open batch; ``on_dirty()`` is called for the first one.
        self.dirty: list[Recorder] = []

    def add(self, size: int) -> None:
        """Count a waiting batch of ``size`` bytes."""
        self.bytes += size
        self.account.held += size
        if self.bytes > self.bytes_max:
            self.full = True
        if self.bytes >= self.write_bytes and self.port is not None:
            self.port.on_bytes()

    def hold(self, waiter: Waiter) -> None:
        """Make a publisher wait until the disk has caught up."""
        if self.port is not None:
            self.port.hold(waiter)

    def remove(self, size: int) -> None:
        """``size`` bytes are written or dropped."""
        self.bytes -= size
        self.account.held -= size
        if self.bytes <= self.bytes_max // 2:
            self.full = False


class RouteEntry:
    """A route and a routing key for the routing log. The router keeps it with its ``Route``."""

    __slots__ = ("id", "key", "payload", "recorder", "segment", "wide")

    def __init__(self, recorder: Recorder, key: bytes, names: bytes | WideNames) -> None:
        self.recorder = recorder
        #: The routing key as received.
        self.key = key
        #: The payload of the route's entry in the ``.names`` file, or None and the names for it.
        self.payload = names if isinstance(names, bytes) else None
        self.wide = None if isinstance(names, bytes) else names
        #: Id of the entry in the ``.names`` file of the segment with this number.
        self.id = 0
        self.segment = 0


class Recorder:
    """The open batch of one partition."""

    __slots__ = (
        "_batch",
        "_entry",
        "_flags",
        "_names",
        "_now_us",
        "_run",
        "_same",
        "_segment_bytes_max",
        "_size",
        "_tick",
        "_tick_us",
        "backlog",
        "closed",
        "directory",
        "dirty",
        "end",
        "last_us",
        "lost",
        "segment",
        "stopped",
    )

    def __init__(self, directory: str, tick: Tick, backlog: Backlog, segment_bytes_max: int) -> None:
        self.directory = directory
        self.backlog = backlog
        #: Closed batches, each with the payloads of its new names.
        self.closed: list[tuple[Batch, list[bytes]]] = []
        #: Whether it is in the backlog's list.
        self.dirty = False
        #: The offset of the next batch.
        self.end = 0
        #: Whether recording has stopped because the disk failed, and how many events were lost.
        self.stopped = True
        self.lost = 0
        self.segment = Segment(directory, 0)
        self._tick = tick
        self._segment_bytes_max = segment_bytes_max
        self._names = SegmentNames(backlog.account)
        self._batch = OpenBatch()
        # The open run: its event, the time of its tick, and the time that is written for it.
        self._entry: RouteEntry | None = None
        self._size = 0
        self._flags = 0
        self._same = 0
        self._run = 0
        self._tick_us = 0
        self._now_us = 0
        #: The time of the last event. None gets an earlier one, unless ``turn_back`` says so.
        self.last_us = 0

    # -- events ---------------------------------------------------------------------------------------

    def note(self, entry: RouteEntry, size: int, flags: int) -> bool:
        """Record one publish of ``size`` body bytes; True if the publisher should wait for the disk."""
        if (
            entry is self._entry
            and size == self._size
            and flags == self._flags
            and self._tick.now_us == self._tick_us
        ):
            self._run += 1
            return False
        self._begin_run(entry, size, flags)
        return self.backlog.full

    def _begin_run(self, entry: RouteEntry, size: int, flags: int) -> None:
        batch = self._batch
        names = self._names
        if self._run:
            self._end_run()
        if self.stopped:
            self.lost += 1
            return
        now_us = self._tick.now_us
        self._tick_us = now_us
        if now_us < self.last_us:
            now_us = self.last_us
        self.last_us = now_us
        if batch.count and (batch.is_full(len(entry.key), now_us) or names.is_batch_full()):
            self.close()
        if batch.count == 0:
            if self._is_segment_due(now_us):
                self.roll()
            batch.base_ts = now_us
        if entry.segment != names.serial:
            entry.id = names.number_of(entry.payload, entry.wide)
            entry.segment = names.serial
        self._same = batch.begin_record(entry.key)
        self._entry = entry
        self._size = size
        self._flags = flags
        self._now_us = now_us
        self._run = 1
        if not self.dirty:
            self.dirty = True
            backlog = self.backlog
            backlog.dirty.append(self)
            if len(backlog.dirty) == 1 and backlog.port is not None:
                backlog.port.on_dirty()

    def _end_run(self) -> None:
        entry = self._entry
        assert entry is not None  # of an open run
        self._entry = None
        self._batch.end_record(self._run, self._now_us, entry.id, self._size, self._flags | self._same)
        self._run = 0

    def _is_segment_due(self, now_us: int) -> bool:
        segment = self.segment
        size: int = segment.size
        return size > 0 and (
            now_us < segment.last_ts
            or size + events.BATCH_BYTES_MAX > self._segment_bytes_max
            or self._names.is_full()
            or now_us - segment.first_ts >= _DAY_US
        )

    @property
    def is_open(self) -> bool:
        """Whether there is an open batch."""
        return self._batch.count > 0

    # -- batches and segments -------------------------------------------------------------------------

    def close(self) -> None:
        """Close the open batch, if there is one."""
        if self._run:
            self._end_run()
        if self._batch.count == 0:
            return
        segment = self.segment
        batch = self._batch.close(self.end, self._now_us)
        self.end = batch.last + 1
        batch.segment = segment
        batch.position = segment.size
        if segment.size == 0:
            segment.first_ts = batch.base_ts
        segment.last_ts = self._now_us
        if segment.index is not None:
            since_ms = (batch.base_ts - segment.first_ts) // 1000
            segment.index.note(min(batch.base - segment.base, _U32_MAX), since_ms, segment.size)
        segment.size += batch.length
        segment.end = self.end
        names = self._names.take_new()
        self.closed.append((batch, names))
        self.backlog.add(waiting_bytes(batch, names))

    def turn_back(self, now_us: int) -> None:
        """Go on at ``now_us``, which lies before the last time: the next event begins a new segment, since
        times do not fall within one.
        """
        self.close()
        self.last_us = now_us

    def roll(self) -> None:
        """Begin a new segment at ``end``. No batch may be open."""
        segment = Segment(self.directory, self.end)
        segment.index = SparseIndex(64 * 1024)
        self.begin(segment, {}, 0, 0)

    def begin(self, segment: Segment, ids: dict[bytes, int], names: int, last_us: int) -> None:
        """Continue in ``segment``, which has ``names`` names with these ids, and its last event at
        ``last_us``.
        """
        self.segment = segment
        self.end = segment.end
        self.stopped = False
        self._names.begin(ids, names)
        if last_us > self.last_us:
            self.last_us = last_us

    def stop(self) -> int:
        """Stop recording until ``begin``, and drop what waits; returns the number of events in the open
        batch.
        """
        if self._run:
            self._end_run()
        for batch, names in self.closed:
            self.backlog.remove(waiting_bytes(batch, names))
        self.closed = []
        lost: int = self._batch.events
        self._batch.clear()
        self.stopped = True
        return lost


def waiting_bytes(batch: Batch, names: list[bytes]) -> int:
    """Bytes of a closed batch and its new names, as counted in the backlog."""
    return batch.length + sum([len(payload) + 12 for payload in names])
