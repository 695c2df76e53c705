"""The batch of a routing log's partition that takes records now. Compiled: see ``open_batch.pxd``."""

from __future__ import annotations

from amqp_router.protocol._buf import Buf

from ..format.record import Batch
from . import events

# C integers where compiled.
_U32_MAX = 0xFFFFFFFF
_HEADER_SIZE = 72
# A batch is closed before it has more records.
_RECORDS_MAX = 4096


class OpenBatch:
    """A record begins with its key, and ends when its run of equal events is over."""

    __slots__ = ("_key", "_keys", "_records", "base_ts", "count", "events")

    def __init__(self) -> None:
        self._records = Buf()
        self._keys = Buf()
        self._key = b""
        #: Number of records, the last of which may be open, and of events in the others.
        self.count = 0
        self.events = 0
        self.base_ts = 0

    def is_full(self, key_size: int, now_us: int) -> bool:
        """Whether a record with such a key needs another batch."""
        size = _HEADER_SIZE + (self.count + 1) * events.RECORD_SIZE + self._keys.size + key_size
        return self.count >= _RECORDS_MAX or size > events.BATCH_BYTES_MAX or now_us - self.base_ts > _U32_MAX

    def begin_record(self, key: bytes) -> int:
        """Begin a record; returns its flag SAME_KEY, or 0."""
        self.count += 1
        if self.count > 1 and key == self._key:
            return events.SAME_KEY
        self._keys.put(key)
        self._key = key
        return 0

    def end_record(self, events: int, now_us: int, route: int, size: int, flags: int) -> None:
        """End the record with the number of its events, and the time, route, body size and flags of each."""
        records = self._records
        self.events += events
        records.le32(self.events)
        records.le32(self._keys.size)
        records.le32(now_us - self.base_ts)
        records.le32(route)
        records.le32(size if size < _U32_MAX else _U32_MAX)
        records.le32(flags)

    def close(self, base: int, last_us: int) -> Batch:
        """The batch, whose place is not set; ``last_us`` is the time of its last record."""
        batch = Batch()
        batch.kind = events.ROUTING
        batch.record_size = events.RECORD_SIZE
        batch.base = base
        batch.last = base + self.events - 1
        batch.count = self.count
        batch.base_ts = self.base_ts
        batch.max_ts_delta = last_us - self.base_ts
        batch.length = _HEADER_SIZE + self._records.size + self._keys.size
        batch.pieces = [self._records.take(), self._keys.take()]
        self.count = 0
        self.events = 0
        return batch

    def clear(self) -> None:
        """Drop everything."""
        self._records.clear()
        self._keys.clear()
        self.count = 0
        self.events = 0
