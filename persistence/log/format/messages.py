"""MESSAGES batches as bytes: building them from raw frames, and raw frames from them.

The layouts are in FORMAT.md. A message is copied into its batch from the frames it arrived in. When it is
read back, new frames on channel 0 are made. ``amqp_router.protocol.message`` does both. No file is used here.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from amqp_router.protocol import flags
from amqp_router.protocol._buf import Buf
from amqp_router.protocol.message import Extras, Message, read_message

from .record import EXPIRE_MS_MAX, HEADER_SIZE, MESSAGE_SIZE, MESSAGES, NO_EXPIRY, Batch, BatchHeader
from .sections import ENTRY_BYTES, LONG_TIMES, pack_sections, parse_sections

if TYPE_CHECKING:
    from .settles import SettleState

#: The cumulative ends at the start of a MESSAGES record.
_ENDS = Struct("<III")

# C integers where compiled (see messages.pxd).
_NO_EXPIRY = NO_EXPIRY
_EXPIRE_MS_MAX = EXPIRE_MS_MAX


def le32(d: bytes, p: int) -> int:
    """A little-endian u32."""
    return d[p] | d[p + 1] << 8 | d[p + 2] << 16 | d[p + 3] << 24


def _room(size: int) -> int:
    room = 1024 if size > 0 else 0
    while room < size:
        room *= 2
    return room


class MessagesBuilder:
    """The open MESSAGES batch of a log: ``add`` for each message, ``close`` when it is full or the tick
    ends.
    """

    __slots__ = (
        "_bodies",
        "_extras",
        "_extras_size",
        "_is_long",
        "_properties",
        "_records",
        "_routes",
        "base",
        "base_ts",
        "body_pieces",
        "count",
        "last_route",
        "max_ts",
        "message",
        "size",
    )

    def __init__(self) -> None:
        self._records = Buf()
        self._routes = Buf()
        self._properties = Buf()
        self._bodies = Buf()
        #: The records of the batch that have more than the fixed part, and the most bytes that it takes.
        self._extras: list[tuple[int, Extras]] = []
        self._extras_size = 0
        #: Whether a record has a time to live above 32 bits.
        self._is_long = False
        self.count = 0
        #: Bytes so far, without the header.
        self.size = 0
        self.base = 0
        self.base_ts = 0
        self.max_ts = 0
        self.last_route = b""
        self.body_pieces: list[bytes | memoryview] | None = None
        self.message: Message | None = None

    def begin(self, base: int, now_us: int) -> None:
        """Start a batch whose first own offset is ``base``."""
        self.base = base
        self.base_ts = now_us
        self.max_ts = now_us
        self.last_route = b""

    def add(self, message: Message, offset: int, now_us: int) -> None:
        """Add a message whose content is one ``bytes``."""
        route = message.route
        if route != self.last_route:
            self._routes.put(route)
            self.last_route = route
        bodies = self._bodies
        message.put_parts(self._properties, bodies)
        self._record(message, offset, now_us, bodies.size)
        self.size = (
            self._records.size + self._routes.size + self._properties.size + bodies.size + self._extras_size
        )

    def add_large(self, message: Message, offset: int, now_us: int) -> None:
        """Add a message whose content is a tuple of frames, without copying it. The batch holds nothing
        else.
        """
        self.last_route = message.route
        self._routes.put(message.route)
        message.put_properties(self._properties)
        self.body_pieces = list(message.body_pieces())
        # A copy, because the queue removes the content from its own message after delivery.
        self.message = message.copy()
        self.message.offset = offset
        self._record(message, offset, now_us, message.body_size)
        self.size = self._records.size + self._routes.size + self._properties.size + message.body_size

    def _record(self, message: Message, offset: int, now_us: int, body_end: int) -> None:
        records = self._records
        expire_ms = _NO_EXPIRY
        if message.deadline_us != 0:
            expire_ms = 0
            left_us = message.deadline_us - now_us
            if left_us > 0:
                left_us = (left_us + 999) // 1000
                expire_ms = left_us if left_us < _NO_EXPIRY else self._long_time(left_us)
        records.le32(self._routes.size)
        records.le32(self._properties.size)
        records.le32(body_end)
        records.le32(now_us - self.base_ts)
        records.le32(offset - self.base)
        records.le32(expire_ms & _NO_EXPIRY)
        records.le32(message.priority | (message.flags & flags.RECORDED) << 8 | message.delivery_count << 16)
        records.le32(expire_ms >> 32)
        if message.extras is not None:
            self._extras.append((self.count, message.extras))
            self._extras_size += ENTRY_BYTES
        self.max_ts = now_us
        self.count += 1

    def _long_time(self, expire_ms: int) -> int:
        """A time to live of more than 32 bits, or of just as many as stand for none, as its record has it."""
        self._is_long = True
        if expire_ms == _NO_EXPIRY:
            expire_ms += 1
        return min(expire_ms, _EXPIRE_MS_MAX)

    def capacity(self) -> int:
        """Bytes that the parts of the batch take in memory: each doubles when it is full."""
        return (
            _room(self._records.size)
            + _room(self._routes.size)
            + _room(self._properties.size)
            + _room(self._bodies.size)
        )

    def close(self, last: int, epoch: int) -> Batch:
        """The batch with offsets up to ``last``; the builder is empty afterwards."""
        batch = Batch()
        batch.kind = MESSAGES
        batch.record_size = MESSAGE_SIZE
        batch.base = self.base
        batch.last = last
        batch.count = self.count
        batch.base_ts = self.base_ts
        batch.max_ts_delta = self.max_ts - self.base_ts
        batch.epoch = epoch
        batch.length = HEADER_SIZE + self.size
        pieces: list[bytes | memoryview] = [self._records.take(), self._routes.take()]
        pieces.append(self._properties.take())
        if self.body_pieces is None:
            pieces.append(self._bodies.take())
        else:
            pieces.extend(self.body_pieces)
            batch.message = self.message
            self.body_pieces = None
            self.message = None
        batch.pieces = pieces
        if self._extras_size > 0 or self._is_long:
            self._close_extras(batch)
        self.count = 0
        self.size = 0
        return batch

    def rest(self) -> None:
        """The log has nothing to do: keep no memory for the next batch."""
        self._records.rest()
        self._routes.rest()
        self._properties.rest()
        self._bodies.rest()

    def _close_extras(self, batch: Batch) -> None:
        batch.attributes, sections = pack_sections(self._extras)
        if self._is_long:
            batch.attributes |= LONG_TIMES
            self._is_long = False
        batch.pieces.append(sections)
        batch.length = sum([len(piece) for piece in batch.pieces]) + HEADER_SIZE
        self._extras = []
        self._extras_size = 0


def live_batch(header: BatchHeader, payload: bytes, state: SettleState, base: int) -> Batch:
    """A MESSAGES batch without its settled messages. Its range now begins at ``base``."""
    size = header.record_size
    routes = size * header.records
    last_ends = _ENDS.unpack_from(payload, routes - size)
    properties = routes + last_ends[0]
    bodies = properties + last_ends[1]
    known = parse_sections(header.attributes, payload[bodies + last_ends[2] :], header.records)
    extras: list[tuple[int, Extras]] = []
    heaps: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    records: list[bytes] = []
    sizes = [0, 0, 0]
    starts = (0, 0, 0)
    route = last_route = b""
    for at in range(0, routes, size):
        ends = _ENDS.unpack_from(payload, at)
        if ends[0] != starts[0]:
            route = payload[routes + starts[0] : routes + ends[0]]
        offset = header.base + int.from_bytes(payload[at + 16 : at + 20], "little")
        if not state.is_settled(offset):
            parts = (
                b"" if route == last_route else route,
                payload[properties + starts[1] : properties + ends[1]],
                payload[bodies + starts[2] : bodies + ends[2]],
            )
            last_route = route
            if at // size in known:
                extras.append((len(records), known[at // size]))
            for number, part in enumerate(parts):
                heaps[number].append(part)
                sizes[number] += len(part)
            records.append(
                _ENDS.pack(*sizes)
                + payload[at + 12 : at + 16]
                + (offset - base).to_bytes(4, "little")
                + payload[at + 20 : at + size]
            )
        starts = ends
    batch = Batch()
    batch.kind = MESSAGES
    batch.record_size = size
    batch.base = base
    batch.last = header.last
    batch.count = len(records)
    batch.base_ts = header.base_ts
    batch.max_ts_delta = header.max_ts_delta
    batch.epoch = header.epoch
    batch.attributes, sections = pack_sections(extras)
    batch.attributes |= header.attributes & LONG_TIMES
    batch.pieces = [b"".join(records), *[b"".join(heap) for heap in heaps], sections]
    batch.length = HEADER_SIZE + size * len(records) + sum(sizes) + len(sections)
    return batch


def sections_at(payload: memoryview | bytes, records: int, record_size: int) -> int:
    """Where the optional sections of a MESSAGES payload begin; ``ValueError`` if it is shorter."""
    at = records * record_size
    if records:
        at += sum(_ENDS.unpack_from(payload, at - record_size))
    if at > len(payload):
        raise ValueError("the heaps of a batch do not fit its length")
    return at


def message_offsets(payload: bytes, record_size: int, base: int, count: int) -> list[int]:
    """The offsets of the messages in a MESSAGES batch."""
    return [base + le32(payload, index * record_size + 16) for index in range(count)]


class Heap:
    """The routes, properties or bodies of a batch's records, one after the other: ``data`` from ``at`` on.

    Those of the record that is read next begin ``next`` octets after ``at``.
    """

    __slots__ = ("at", "data", "next")

    def __init__(self) -> None:
        self.data = b""
        self.at = 0
        self.next = 0

    def open(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at


class BatchView:
    """A MESSAGES batch being read, forward, one record at a time.

    The four parts may be four buffers (a batch not yet written) or one with four positions (read from disk).
    """

    __slots__ = (
        "_bodies",
        "_extras",
        "_index",
        "_out",
        "_properties",
        "_record_at",
        "_records",
        "_records_at",
        "_route",
        "_routes",
        "base",
        "base_ts",
        "count",
        "last",
        "record_size",
    )

    def __init__(self) -> None:
        self._out = Buf()
        self._records = b""
        self._records_at = 0
        self._routes = Heap()
        self._properties = Heap()
        self._bodies = Heap()
        #: The extras of records that have some, by their numbers; None if none has.
        self._extras: dict[int, Extras] | None = None
        self._record_at = 0
        self._index = 0
        self._route = b""
        self.record_size = MESSAGE_SIZE
        self.base = 1
        self.base_ts = 0
        self.last = 0
        self.count = 0

    def open_pieces(self, batch: Batch) -> None:
        """Read a batch that is still in memory (and not one of a large message)."""
        records, routes, properties, bodies = batch.pieces[:4]
        self._extras = None
        if batch.attributes:
            self._extras = parse_sections(batch.attributes, bytes(batch.pieces[4]), batch.count)
        self._records = records  # type: ignore[assignment]
        self._records_at = 0
        self._routes.open(routes, 0)  # type: ignore[arg-type]
        self._properties.open(properties, 0)  # type: ignore[arg-type]
        self._bodies.open(bodies, 0)  # type: ignore[arg-type]
        self._start(batch.base, batch.last, batch.count, batch.base_ts, batch.record_size)

    def open_data(self, data: bytes, position: int, header: BatchHeader) -> None:
        """Read the whole batch at ``position`` of ``data``; ``ValueError`` if its ends do not fit."""
        records = position + HEADER_SIZE
        routes = records + header.records * header.record_size
        self._records = data
        self._records_at = records
        self._extras = None
        properties = bodies = routes
        if header.records:
            last = routes - header.record_size
            properties = routes + le32(data, last)
            bodies = properties + le32(data, last + 4)
            end = bodies + le32(data, last + 8)
            if end > position + header.length:
                raise ValueError("the heaps of a batch do not fit its length")
            if header.attributes:
                sections = data[end : position + header.length]
                self._extras = parse_sections(header.attributes, sections, header.records)
        self._routes.open(data, routes)
        self._properties.open(data, properties)
        self._bodies.open(data, bodies)
        self._start(header.base, header.last, header.records, header.base_ts, header.record_size)

    def close(self) -> None:
        """Release the buffers; the view then covers no offset."""
        self._records = b""
        self._routes.open(b"", 0)
        self._properties.open(b"", 0)
        self._bodies.open(b"", 0)
        self._out.rest()
        self._extras = None
        self._start(1, 0, 0, 0, MESSAGE_SIZE)

    def _start(self, base: int, last: int, count: int, base_ts: int, record_size: int) -> None:
        self.base = base
        self.last = last
        self.count = count
        self.base_ts = base_ts
        self.record_size = record_size
        self._rewind()

    def _rewind(self) -> None:
        self._index = 0
        self._record_at = self._records_at
        self._route = b""
        self._routes.next = self._properties.next = self._bodies.next = 0

    def message_at(self, offset: int) -> Message | None:
        """The message at ``offset`` in new frames, or None if no record has that offset."""
        delta = offset - self.base
        d = self._records
        routes = self._routes
        properties = self._properties
        bodies = self._bodies
        if self._index > 0 and le32(d, self._record_at - self.record_size + 16) >= delta:
            self._rewind()
        while self._index < self.count:
            at = self._record_at
            found = le32(d, at + 16)
            if found > delta:
                return None
            route_end = le32(d, at)
            properties_end = le32(d, at + 4)
            body_end = le32(d, at + 8)
            message = None
            if route_end != routes.next:
                self._route = routes.data[routes.at + routes.next : routes.at + route_end]
            if found == delta:
                message = read_message(
                    self._out,
                    properties.data,
                    properties.at + properties.next,
                    properties.at + properties_end,
                    bodies.data,
                    bodies.at + bodies.next,
                    bodies.at + body_end,
                )
                message.offset = offset
                message.route = self._route
                # priority at 24; flags at 25: persistent, redelivered; delivery_count at 26
                message.priority = d[at + 24]
                message.flags = d[at + 25] | flags.PERSISTENT | flags.LOGGED
                message.delivery_count = d[at + 26] | d[at + 27] << 8
                expire_ms = le32(d, at + 20)
                high = d[at + 28] | d[at + 29] << 8
                if expire_ms != _NO_EXPIRY or high != 0:
                    expire_ms |= high << 32
                    message.deadline_us = self.base_ts + le32(d, at + 12) + expire_ms * 1000
                if self._extras is not None:
                    message.extras = self._extras.get(self._index)
            self._index += 1
            self._record_at = at + self.record_size
            routes.next = route_end
            properties.next = properties_end
            bodies.next = body_end
            if found == delta:
                return message
        return None

    def timestamp_us(self) -> int:
        """Time of the append of the message returned last."""
        return self.base_ts + le32(self._records, self._record_at - self.record_size + 12)
