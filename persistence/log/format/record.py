"""Batches as bytes: the header of all batches, and the payloads of SETTLES and CONTROL.

The layouts are in FORMAT.md. ``messages.py`` has the payload of MESSAGES batches. No file is used here.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from amqp_router.protocol.flags import ACK, RETURN
from amqp_router.protocol.message import Message

from .settles import SettleRun, pack_runs, settle_run

if TYPE_CHECKING:
    from .segment import Segment

MAGIC = b"ARLB"
#: Written; read are version 1, too, with one checksum for all of the header, and version 0, without a salt.
VERSION = 2
HEADER_SIZE = 72
#: magic, version, record_size, length, kind, attributes, payload crc, count, 0, crc of the stamp, last offset
#: delta, max time delta, epoch, base offset, base time: the stamp; then unsynced_back, and a crc.
HEADER = Struct("<4sHHIHHIIQIIIIQqI")
_WHOLE_HEADER = Struct(HEADER.format + "I")
MESSAGES, SETTLES, CONTROL = 1, 2, 3
MESSAGE_SIZE, SETTLE_SIZE = 32, 24
#: ``expire_ms`` of a record without a deadline, and the most ms that its 48 bits have room for.
NO_EXPIRY, EXPIRE_MS_MAX = 0xFFFF_FFFF, (1 << 48) - 1
SETTLE = Struct("<QIBBHII")

#: The stamp, which is the same on all nodes, is before and behind its own checksum.
STAMP_CRC_AT, STAMP_SIZE = 32, 64
_STAMP_FIRST = Struct("<4sHHIHHIIQ")
_STAMP_LAST = Struct("<IIIQq")
_U32 = Struct("<I")

EPOCH_START, PURGE, CHECKPOINT, HOLE = 1, 2, 3, 4
_CONTROL = Struct("<HHI")
_EPOCH_START = Struct("<II16s")
_PURGE = Struct("<QII")
_RUN = Struct("<QII")
_TWO_OFFSETS = Struct("<QQ")


class Batch:
    """A closed batch: the numbers of its header, and its payload in pieces, which are not joined here."""

    __slots__ = (
        "attributes",
        "base",
        "base_ts",
        "count",
        "epoch",
        "kind",
        "last",
        "length",
        "max_ts_delta",
        "message",
        "payload_crc",
        "pieces",
        "position",
        "record_size",
        "segment",
    )

    def __init__(self) -> None:
        self.kind = MESSAGES
        self.base = 0
        self.last = 0
        self.count = 0
        self.base_ts = 0
        self.max_ts_delta = 0
        self.epoch = 0
        self.record_size = 0
        self.attributes = 0
        #: Bytes of the payload; MESSAGES: records, routes, properties, then one or more pieces of bodies.
        self.pieces: list[bytes | memoryview] = []
        #: Bytes of the whole batch.
        self.length = 0
        #: -1 until computed.
        self.payload_crc = -1
        #: Its place, also before it is written: a ``Segment`` and the position in it.
        self.segment: Segment | None = None
        self.position = 0
        #: The only message of a batch whose body stays a tuple of frames.
        self.message: Message | None = None

    def pack_header(self, unsynced_back: int, salt: int) -> bytes:
        """The 72 bytes before the pieces, ``salt`` being that of the log (``identity``).

        The last 8 of them are this node's own, the others are the same in each copy of the log. Computes the
        payload's checksum if need be (worker thread).
        """
        if self.payload_crc < 0:
            crc = 0
            for piece in self.pieces:
                crc = crc32(piece, crc)
            self.payload_crc = crc
        first = _STAMP_FIRST.pack(
            MAGIC,
            VERSION,
            self.record_size,
            self.length,
            self.kind,
            self.attributes,
            self.payload_crc,
            self.count,
            0,
        )
        last = _STAMP_LAST.pack(self.last - self.base, self.max_ts_delta, self.epoch, self.base, self.base_ts)
        crc = crc32(first + last, salt)
        own = _U32.pack(unsynced_back)
        return first + _U32.pack(crc) + last + own + _U32.pack(crc32(own, crc))


class BatchHeader(NamedTuple):
    """A header as read; ``parse_header`` makes it."""

    record_size: int
    length: int
    kind: int
    attributes: int
    payload_crc: int
    records: int
    last: int
    max_ts_delta: int
    epoch: int
    base: int
    base_ts: int
    unsynced_back: int


def parse_header(data: bytes, position: int, salt: int) -> BatchHeader | None:
    """The header at ``position``, or None if no good one stands there (magic, version, checksum, length).

    ``salt`` is that of the log, and a header of another log is not good.
    """
    if position + HEADER_SIZE > len(data) or data[position : position + 4] != MAGIC:
        return None
    (
        _,
        version,
        record_size,
        length,
        kind,
        attributes,
        payload_crc,
        count,
        _,
        stamp_crc,
        last_delta,
        max_ts_delta,
        epoch,
        base,
        base_ts,
        unsynced_back,
        own_crc,
    ) = _WHOLE_HEADER.unpack_from(data, position)
    if version > VERSION:
        return None
    at = position + STAMP_SIZE
    if version > 1:
        first, last = data[position : position + STAMP_CRC_AT], data[position + STAMP_CRC_AT + 4 : at]
        if crc32(first + last, salt) != stamp_crc:
            return None
        crc = crc32(data[at : at + 4], stamp_crc)
    else:
        crc = crc32(data[position : at + 4], salt if version else 0)
    if crc != own_crc:
        return None
    if length < HEADER_SIZE + record_size * count:
        return None
    return BatchHeader(
        record_size,
        length,
        kind,
        attributes,
        payload_crc,
        count,
        base + last_delta,
        max_ts_delta,
        epoch,
        base,
        base_ts,
        unsynced_back,
    )


def settles_batch(runs: list[SettleRun], base: int, last: int, now_us: int, epoch: int) -> Batch:
    """A SETTLES batch."""
    batch = _batch(SETTLES, pack_runs(runs), base, last, now_us, epoch)
    batch.record_size = SETTLE_SIZE
    batch.count = len(runs)
    return batch


def control_batch(payload: bytes, base: int, last: int, now_us: int, epoch: int) -> Batch:
    """A CONTROL batch around a payload made by one of the functions below."""
    return _batch(CONTROL, payload, base, last, now_us, epoch)


def _batch(kind: int, payload: bytes, base: int, last: int, now_us: int, epoch: int) -> Batch:
    batch = Batch()
    batch.kind = kind
    batch.count = 1
    batch.base = base
    batch.last = last
    batch.base_ts = now_us
    batch.epoch = epoch
    batch.pieces = [payload]
    batch.length = HEADER_SIZE + len(payload)
    return batch


def epoch_start(epoch: int, previous: int, boot_id: bytes) -> bytes:
    """Payload of an EPOCH-START."""
    return _CONTROL.pack(EPOCH_START, 0, 24) + _EPOCH_START.pack(epoch, previous, boot_id)


def purge(up_to: int, kept: list[tuple[int, int]]) -> bytes:
    """Payload of a PURGE; ``kept``: runs (first, count) of offsets that stay."""
    body = _PURGE.pack(up_to, len(kept), 0) + b"".join([_RUN.pack(first, count, 0) for first, count in kept])
    return _CONTROL.pack(PURGE, 0, len(body)) + body


def checkpoint_note(start: int, settled_below: int) -> bytes:
    """Payload of a CHECKPOINT."""
    return _CONTROL.pack(CHECKPOINT, 0, 16) + _TWO_OFFSETS.pack(start, settled_below)


def hole(first: int, end: int) -> bytes:
    """Payload of a HOLE."""
    return _CONTROL.pack(HOLE, 0, 16) + _TWO_OFFSETS.pack(first, end)


class Control(NamedTuple):
    """A CONTROL record as read; fields of other types are empty."""

    type: int
    epoch: int
    up_to: int
    kept: list[tuple[int, int]]


def parse_control(payload: bytes) -> Control:
    """Raises ``ValueError`` if the payload is too short for its type."""
    if len(payload) < _CONTROL.size:
        raise ValueError("control record is too short")
    kind, _, size = _CONTROL.unpack_from(payload)
    start = _CONTROL.size
    if len(payload) < start + size:
        raise ValueError("control record is too short")
    if kind == EPOCH_START:
        return Control(kind, _EPOCH_START.unpack_from(payload, start)[0], 0, [])
    if kind == PURGE:
        up_to, count, _ = _PURGE.unpack_from(payload, start)
        first = start + _PURGE.size
        kept = [_RUN.unpack_from(payload, first + i * _RUN.size)[:2] for i in range(count)]
        return Control(kind, 0, up_to, kept)
    return Control(kind, 0, 0, [])


def check_settles(payload: bytes, record_size: int, count: int) -> None:
    """Raises ``ValueError`` if these are not ``count`` SETTLES records of known kinds."""
    if record_size < SETTLE_SIZE or len(payload) < record_size * count:
        raise ValueError("a settle record is too short")
    for run in iterate_settles(payload, record_size, count):
        check_kind(run)


def check_kind(run: SettleRun) -> None:
    """Raises ``ValueError`` if the kind is not known."""
    if not ACK <= run.kind <= RETURN:
        raise ValueError(f"settle kind {run.kind} is not known")


def iterate_settles(payload: bytes, record_size: int, count: int) -> Iterator[SettleRun]:
    """The runs of a SETTLES batch."""
    for index in range(count):
        first, number, kind, _, returns, _, _ = SETTLE.unpack_from(payload, index * record_size)
        yield settle_run(first, number, kind, returns)
