"""The recorder of published events: one open batch of the routing log for each partition.

Every publish passes here, so the work is small: an event like the one before it raises a counter, any other
ends the run and begins a record. Nothing is allocated. Batches are closed into a list that
``routing.RoutingLogs`` hands to its thread. The layouts are in FORMAT.md ("Routing log").

Invariants:
- ``_run`` events of the open record are not in ``_records`` yet; its key is in ``_keys``.
- The id in a ``RouteEntry`` is valid for the segment whose number it has. A batch has ids of its own segment.

Compiled: see ``routing_log.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp_router.protocol._buf import Buf
from amqp_router.protocol.tick import Tick

from ...memory import MemoryBudget
from ..format.index import SparseIndex
from ..format.record import Batch
from ..format.segment import Segment

ROUTING = 4
RECORD_SIZE = 24
PERSISTENT, MANDATORY, UNROUTABLE, RETURNED, CONFIRMED, REFUSED = 1, 2, 4, 8, 16, 32
SAME_KEY = 0x8000
DAY_US = 86_400_000_000

# C integers where compiled (see routing_log.pxd). A batch is closed before it has more records ...
_RECORDS_MAX = 4096
_BATCH_BYTES_MAX = 256 * 1024
# ... or when its new names have more bytes.
_NEW_NAMES_BYTES_MAX = 256 * 1024
# A segment is closed when its names have more bytes, or at its first event after a day.
_NAMES_BYTES_MAX = 16 * 1024 * 1024
_DAY_US = 86_400_000_000
_SAME_KEY = 0x8000
_U32_MAX = 0xFFFFFFFF
_ROUTING = 4
_RECORD_SIZE = 24
_HEADER_SIZE = 72


class Backlog:
    """The closed batches of all recorders of a node that are not on disk yet."""

    __slots__ = (
        "account",
        "bytes",
        "bytes_max",
        "dirty",
        "full",
        "hold",
        "on_bytes",
        "on_dirty",
        "write_bytes",
    )

    def __init__(self, account: MemoryBudget | None = None) -> None:
        #: Counts the waiting batches as ``held``, and the names of all open segments as ``kept``.
        self.account = account or MemoryBudget()
        self.bytes = 0
        #: From this many bytes on, ``on_bytes()`` is called: they are written before the second ends.
        self.write_bytes = 1 << 20
        #: Above this many bytes publishers wait.
        self.bytes_max = 32 << 20
        self.full = False
        #: Called with the counter of a publisher's unsynced bytes, to make the publisher wait.
        self.hold: Callable[[Any], None] = _nothing
        #: Recorders with events in an open batch; ``on_dirty()`` is called for the first one.
        self.dirty: list[Recorder] = []
        self.on_dirty: Callable[[], None] = _nothing
        self.on_bytes: Callable[[], None] = _nothing

    def add(self, size: int) -> None:
        """Count a waiting batch of ``size`` bytes."""
        self.bytes += size
        self.account.held += size
        if self.bytes > self.bytes_max:
            self.full = True
        if self.bytes >= self.write_bytes:
            self.on_bytes()

    def remove(self, size: int) -> None:
        """``size`` bytes are written or dropped."""
        self.bytes -= size
        self.account.held -= size
        if self.bytes <= self.bytes_max // 2:
            self.full = False


def _nothing(*_: object) -> None:
    """Default callback."""


class WideNames:
    """The names of a route with many names. Its entry refers to them, and the file has each name once.

    Otherwise 1,000 queues with long names, reached by ever new combinations of bindings, would cost some
    hundred kilobytes for each short publish.
    """

    __slots__ = ("bindings", "durable", "exchange", "fanout", "id", "queues", "segment")

    def __init__(
        self, exchange: bytes, queues: list[bytes], bindings: list[bytes], *, durable: int, fanout: int
    ) -> None:
        #: JSON texts: a string, strings, and lists of four strings.
        self.exchange = exchange
        self.queues = queues
        self.bindings = bindings
        self.durable = durable
        self.fanout = fanout
        #: Id of the exchange's name, in the segment with this number. All routes with these names have the
        #: same recorder.
        self.id = 0
        self.segment = 0

    def payload(self, queues: list[bytes], bindings: list[bytes]) -> bytes:
        """The payload of the route's entry, with ``queues`` and ``bindings`` in place of the names."""
        return b'{"exchange":%b,"queues":[%b],"bindings":[%b],"durable":%d,"fanout":%d}' % (
            self.exchange,
            b",".join(queues),
            b",".join(bindings),
            self.durable,
            self.fanout,
        )


class RouteEntry:
    """A route and a routing key for the routing log. The router keeps it with its ``Route``."""

    __slots__ = ("id", "key", "names", "recorder", "segment")

    def __init__(self, recorder: Recorder, key: bytes, names: bytes | WideNames) -> None:
        self.recorder = recorder
        #: The routing key as received.
        self.key = key
        #: The payload of the route's entry in the ``.names`` file, or the names for it.
        self.names = names
        #: Id of the entry in the ``.names`` file of the segment with this number.
        self.id = 0
        self.segment = 0


class Recorder:
    """The open batch of one partition."""

    __slots__ = (
        "_base_ts",
        "_count",
        "_entry",
        "_events",
        "_flags",
        "_ids",
        "_key",
        "_keys",
        "_last_us",
        "_names",
        "_names_bytes",
        "_new_names_bytes",
        "_next_id",
        "_now_us",
        "_records",
        "_run",
        "_same",
        "_segment_bytes_max",
        "_serial",
        "_size",
        "_tick",
        "_tick_us",
        "backlog",
        "closed",
        "directory",
        "dirty",
        "end",
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
        # The segment's number in this process, from 1; ids of its names by payload; and the size of all
        # names.
        self._serial = 0
        self._ids: dict[bytes, int] = {}
        self._next_id = 0
        self._names: list[bytes] = []
        self._names_bytes = 0
        # Size of the new names in the open batch.
        self._new_names_bytes = 0
        # The open batch.
        self._records = Buf()
        self._keys = Buf()
        self._count = 0
        self._events = 0
        self._base_ts = 0
        self._key = b""
        # The open run: its event, the time of its tick, and the time that is written for it.
        self._entry: RouteEntry | None = None
        self._size = 0
        self._flags = 0
        self._same = 0
        self._run = 0
        self._tick_us = 0
        self._now_us = 0
        self._last_us = 0

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
        if self._run:
            self._end_run()
        if self.stopped:
            self.lost += 1
            return
        now_us = self._tick.now_us
        self._tick_us = now_us
        if now_us < self._last_us:
            now_us = self._last_us
        self._last_us = now_us
        key = entry.key
        if self._count and self._is_full(len(key), now_us):
            self.close()
        if self._count == 0:
            if self._is_segment_due(now_us):
                self.roll()
            self._base_ts = now_us
        if entry.segment != self._serial:
            self._enter(entry)
        if self._count and key == self._key:
            self._same = _SAME_KEY
        else:
            self._same = 0
            self._keys.put(key)
            self._key = key
        self._count += 1
        self._entry = entry
        self._size = size
        self._flags = flags
        self._now_us = now_us
        self._run = 1
        if not self.dirty:
            self.dirty = True
            backlog = self.backlog
            backlog.dirty.append(self)
            if len(backlog.dirty) == 1:
                backlog.on_dirty()

    def _end_run(self) -> None:
        entry = self._entry
        records = self._records
        self._entry = None
        self._events += self._run
        self._run = 0
        records.le32(self._events)
        records.le32(self._keys.size)
        records.le32(self._now_us - self._base_ts)
        records.le32(entry.id)  # type: ignore[union-attr]  # an open run has an entry
        records.le32(self._size if self._size < _U32_MAX else _U32_MAX)
        records.le32(self._flags | self._same)

    def _is_full(self, key_size: int, now_us: int) -> bool:
        size = _HEADER_SIZE + (self._count + 1) * _RECORD_SIZE + self._keys.size + key_size
        return (
            self._count >= _RECORDS_MAX
            or size > _BATCH_BYTES_MAX
            or now_us - self._base_ts > _U32_MAX
            or self._names_bytes > _NAMES_BYTES_MAX
            or self._new_names_bytes > _NEW_NAMES_BYTES_MAX
        )

    def _is_segment_due(self, now_us: int) -> bool:
        segment = self.segment
        size: int = segment.size
        return size > 0 and (
            size + _BATCH_BYTES_MAX > self._segment_bytes_max
            or self._names_bytes > _NAMES_BYTES_MAX
            or now_us - segment.first_ts >= _DAY_US
        )

    def _enter(self, entry: RouteEntry) -> None:
        """Set the id of ``entry`` in this segment."""
        names = entry.names
        if isinstance(names, bytes):
            entry.id = self._number(names)
        else:
            if names.segment != self._serial:
                queues = [b"%d" % self._number(text) for text in names.queues]
                bindings = [b"%d" % self._number(text) for text in names.bindings]
                names.id = self._number(names.payload(queues, bindings))
                names.segment = self._serial
            entry.id = names.id
        entry.segment = self._serial

    def _number(self, payload: bytes) -> int:
        """The id of the entry with ``payload`` in the ``.names`` file, which is added if it is new."""
        number = self._ids.get(payload)
        if number is None:
            number = self._next_id
            self._next_id += 1
            self._ids[payload] = number
            self._names.append(payload)
            self._names_bytes += len(payload) + 12
            self.backlog.account.kept += len(payload) + 12
            self._new_names_bytes += len(payload) + 12
        return number

    @property
    def is_open(self) -> bool:
        """Whether there is an open batch."""
        return self._count > 0

    # -- batches and segments -------------------------------------------------------------------------

    def close(self) -> None:
        """Close the open batch, if there is one."""
        if self._run:
            self._end_run()
        if self._count == 0:
            return
        segment = self.segment
        batch = Batch()
        batch.kind = _ROUTING
        batch.record_size = _RECORD_SIZE
        batch.base = self.end
        self.end += self._events
        batch.last = self.end - 1
        batch.count = self._count
        batch.base_ts = self._base_ts
        batch.max_ts_delta = self._now_us - self._base_ts
        batch.length = _HEADER_SIZE + self._records.size + self._keys.size
        batch.pieces = [self._records.take(), self._keys.take()]
        batch.segment = segment
        batch.position = segment.size
        if segment.first_ts < 0:
            segment.first_ts = batch.base_ts
        if segment.index is not None:
            since_ms = (batch.base_ts - segment.first_ts) // 1000
            segment.index.note(min(batch.base - segment.base, _U32_MAX), since_ms, segment.size)
        segment.size += batch.length
        segment.end = self.end
        self._count = 0
        self._events = 0
        names, self._names = self._names, []
        self._new_names_bytes = 0
        self.closed.append((batch, names))
        self.backlog.add(waiting_bytes(batch, names))

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
        self._serial += 1
        self._ids = ids
        self._next_id = names
        self._names = []
        self._new_names_bytes = 0
        self.backlog.account.kept -= self._names_bytes
        self._names_bytes = sum([len(payload) + 12 for payload in ids])
        self.backlog.account.kept += self._names_bytes
        if last_us > self._last_us:
            self._last_us = last_us

    def stop(self) -> int:
        """Stop recording until ``begin``, and drop what waits; returns the number of events in the open
        batch.
        """
        if self._run:
            self._end_run()
        for batch, names in self.closed:
            self.backlog.remove(waiting_bytes(batch, names))
        self.closed = []
        lost = self._events
        self._records.clear()
        self._keys.clear()
        self._count = 0
        self._events = 0
        self.stopped = True
        return lost


def waiting_bytes(batch: Batch, names: list[bytes]) -> int:
    """Bytes of a closed batch and its new names, as counted in the backlog."""
    return batch.length + sum([len(payload) + 12 for payload in names])
