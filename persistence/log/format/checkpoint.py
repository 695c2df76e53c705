"""Checkpoints: the folded state of each log at one offset (layout: FORMAT.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk, join, read_file, replace_file
from .bitmaps import CHUNK_OFFSETS, packed
from .identity import key_of
from .producers import Producers, pack_producers, unpack_producers
from .record import SETTLE
from .returns import ReturnRuns
from .settles import SettleState
from .sources import Runs, pack_sources, unpack_old_sources, unpack_sources

_MAGIC = b"ARLC"
#: Written; read is version 0, too, which has no fields by number.
_VERSION = 1
_HEADER = Struct("<4sHHQIIq")
CLEAN = 1
#: File names: a partition's own checkpoint, and the node's, which a clean stop writes.
FILE_NAME = "checkpoint"
NODE_FILE_NAME = "logs.checkpoint"

_U16 = Struct("<H")
_U32 = Struct("<I")
#: Partition, five positions, epoch, number of epochs.
_POSITIONS = Struct("<IQQQQQII")
_EPOCH = Struct("<IQ")
#: Floor, time, number of segments.
_FLOOR = Struct("<QqI")
_SEGMENT = Struct("<QQQII")
_CHUNKS = Struct("<QI")
_CHUNK = Struct("<QI")
#: Number of a field, 0, its bytes.
_FIELD = Struct("<HHI")
_OLD_SOURCES, _GENERATION, _HISTORY, _PRODUCERS, _SOURCES = 1, 2, 3, 4, 5
#: Generation, flags, 0.
_TRUNCATIONS = Struct("<QII")
_IS_CUT, _AWAITS_SNAPSHOT = 1, 2
_U64 = Struct("<Q")


@dataclass(slots=True)
class SegmentState:
    base: int
    end: int
    size: int
    records: int
    live: int


@dataclass(slots=True)
class LogState:
    """One log in a checkpoint."""

    incarnation: str
    partition: int
    start: int = 0
    recovery_offset: int = 0
    recovery_segment: int = 0
    recovery_position: int = 0
    high_watermark: int = 0
    epoch: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    redelivered_floor: int = 0
    last_us: int = 0
    segments: list[SegmentState] = field(default_factory=list)
    settles: SettleState = field(default_factory=SettleState)
    #: The order in which messages returned (``returns``).
    returned: ReturnRuns = field(default_factory=ReturnRuns)
    #: How often it was truncated, and whether what lies behind the recovery point is still to be cut.
    generation: int = 0
    is_cut: bool = False
    #: Its settles are not known: another node's snapshot must take the place of this state.
    awaits_snapshot: bool = False
    #: Every batch from this offset on is in the log, settles too; below it some may be cleaned away.
    history_start: int = 0
    #: Which dead letters it has taken lately (``sources``).
    sources: Runs = field(default_factory=dict)
    #: The last publish of each producer (``producers``).
    producers: Producers = field(default_factory=dict)


def pack_log(state: LogState) -> bytes:
    """One log's part of a checkpoint."""
    name = state.incarnation.encode()
    parts = [
        _U16.pack(len(name)),
        name,
        _POSITIONS.pack(
            state.partition,
            state.start,
            state.recovery_offset,
            state.recovery_segment,
            state.recovery_position,
            state.high_watermark,
            state.epoch,
            len(state.epochs),
        ),
        *[_EPOCH.pack(*entry) for entry in state.epochs],
        _FLOOR.pack(state.redelivered_floor, state.last_us, len(state.segments)),
        *[_SEGMENT.pack(s.base, s.end, s.size, s.records, s.live) for s in state.segments],
    ]
    settles = state.settles
    chunks = settles.chunks
    parts.append(_CHUNKS.pack(settles.settled_below, len(chunks)))
    for number in sorted(chunks):
        chunk = chunks[number]
        count = state.recovery_offset - number * CHUNK_OFFSETS
        bits = packed(chunk.bits, count) if chunk.number >= 0 else b""
        parts.append(_CHUNK.pack(number, len(bits)))
        parts.append(bits)
    count, returns = state.returned.pack(settles)
    parts += [_U32.pack(count), returns]
    flags = (_IS_CUT if state.is_cut else 0) | (_AWAITS_SNAPSHOT if state.awaits_snapshot else 0)
    fields = [
        (_GENERATION, _TRUNCATIONS.pack(state.generation, flags, 0) if state.generation or flags else b""),
        (_HISTORY, _U64.pack(state.history_start) if state.history_start else b""),
        (_PRODUCERS, pack_producers(state.producers, state.last_us)),
        (_SOURCES, pack_sources(state.sources, state.last_us)),
    ]
    used = [(number, value) for number, value in fields if value]
    parts.append(_U32.pack(len(used)))
    for number, value in used:
        parts += [_FIELD.pack(number, 0, len(value)), value]
    return b"".join(parts)


def unpack_log(data: bytes) -> LogState:
    """The state in one log's part of a checkpoint, made by ``pack_log``.

    Raises:
        ValueError: it is none.
    """
    try:
        return _unpack_log(_Reader(data), _VERSION)
    except StructError as error:
        raise ValueError(f"not the state of a log: {error}") from None


def pack_file(parts: list[bytes], *, clean: bool, now_us: int) -> bytes:
    """A checkpoint file around parts made by ``pack_log``."""
    crc = 0
    for part in parts:
        crc = crc32(part, crc)
    size = sum(map(len, parts))
    header = _HEADER.pack(_MAGIC, _VERSION, CLEAN if clean else 0, size, crc, len(parts), now_us)
    return header + b"".join(parts)


def not_clean(data: bytes) -> bytes:
    """The content of a checkpoint file without the mark of a clean stop; its logs are as they were."""
    _, version, flags, size, crc, count, _ = _HEADER.unpack_from(data)
    return _HEADER.pack(_MAGIC, version, flags & ~CLEAN, size, crc, count, 0) + data[_HEADER.size :]


def unpack_file(path: str, data: bytes) -> tuple[bool, list[LogState]]:
    """(clean, logs) of a checkpoint file's content.

    Raises:
        CorruptLog: it is not a checkpoint of this version, or its checksum is wrong.
    """
    if len(data) < _HEADER.size:
        raise CorruptLog(path, 0, "checkpoint is too short")
    magic, version, flags, size, crc, count, _ = _HEADER.unpack_from(data)
    if magic != _MAGIC or version > _VERSION:
        raise CorruptLog(path, 0, f"not a checkpoint of format version {_VERSION} or below")
    body = data[_HEADER.size :]
    if len(body) != size or crc32(body) != crc:
        raise CorruptLog(path, _HEADER.size, "checksum of a checkpoint is wrong")
    reader = _Reader(body)
    try:
        return bool(flags & CLEAN), [_unpack_log(reader, version) for _ in range(count)]
    except (StructError, ValueError) as error:
        raise CorruptLog(
            path, _HEADER.size, f"a checkpoint does not hold what its header says: {error}"
        ) from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: Struct) -> tuple[int, ...]:
        values: tuple[int, ...] = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return values

    def bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]


def _unpack_log(reader: _Reader, version: int) -> LogState:
    name = reader.bytes(reader.take(_U16)[0]).decode()
    partition, start, offset, segment, position, watermark, epoch, count = reader.take(_POSITIONS)
    state = LogState(name, partition, start, offset, segment, position, watermark, epoch)
    for _ in range(count):
        number, first = reader.take(_EPOCH)
        state.epochs.append((number, first))
    state.redelivered_floor, state.last_us, count = reader.take(_FLOOR)
    for _ in range(count):
        state.segments.append(SegmentState(*reader.take(_SEGMENT)))
    settles = state.settles
    settles.settled_below, count = reader.take(_CHUNKS)
    for _ in range(count):
        number, size = reader.take(_CHUNK)
        settles.load_chunk(number, reader.bytes(size))
    settles.cut(state.recovery_offset)
    for _ in range(reader.take(_U32)[0]):
        first, number, _, _, returned, _, _ = reader.take(SETTLE)
        for offset in range(first, first + number):
            settles.set_returned(offset, returned)
        state.returned.note(first, number, returned, settles)
    settles.live = settles.unsettled_in(settles.settled_below, state.recovery_offset)
    if version == 0:
        state.history_start = state.recovery_offset  # it did not say what was cleaned away
        return state
    for _ in range(reader.take(_U32)[0]):
        number, _, size = reader.take(_FIELD)
        _unpack_field(state, number, reader.bytes(size))
    return state


def _unpack_field(state: LogState, number: int, value: bytes) -> None:
    if number == _OLD_SOURCES:
        state.sources = unpack_old_sources(value)
    elif number == _SOURCES:
        state.sources = unpack_sources(value)
    elif number == _GENERATION:
        state.generation, flags, _ = _TRUNCATIONS.unpack(value)
        state.is_cut = bool(flags & _IS_CUT)
        state.awaits_snapshot = bool(flags & _AWAITS_SNAPSHOT)
    elif number == _HISTORY:
        (state.history_start,) = _U64.unpack(value)
    elif number == _PRODUCERS:
        state.producers = unpack_producers(value)
    else:
        raise ValueError(f"field {number} is not known")


def read_checkpoint(disk: Disk, path: str) -> tuple[bool, list[LogState]]:
    """A checkpoint file's content; (False, []) if there is none."""
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return False, []
    return unpack_file(path, data)


def read_own(disk: Disk, directory: str, incarnation: str, partition: int) -> LogState | None:
    """The state in a partition's own checkpoint; None if there is none.

    Raises:
        CorruptLog: it is rotten, or another log's.
    """
    path = join(directory, FILE_NAME)
    _, states = read_checkpoint(disk, path)
    if not states:
        return None
    found = states[0]
    if (found.incarnation, found.partition) != (incarnation, partition):
        other = key_of(found.incarnation, found.partition)
        raise CorruptLog(path, 0, f"this is the checkpoint of another log, {other!r}")
    return states[0]


def newest(node: LogState | None, own: LogState | None) -> LogState | None:
    """The newer of a log's states in the node's checkpoint and in its own."""
    if node is None or own is None:
        return node or own
    return node if _age(node) > _age(own) else own


def _age(state: LogState) -> tuple[int, ...]:
    """A sort key that rises from each state of a log to the next.

    A truncation sets the end back, but raises the generation. Two states may have the same end but different
    segments: an idle log begins a new segment, and segments without live messages are removed. The older
    state would name files that are gone.
    """
    return (
        state.generation,
        state.epoch,
        state.recovery_offset,
        state.recovery_segment,
        state.start,
        -len(state.segments),
    )


def write_checkpoint(disk: Disk, path: str, parts: list[bytes], *, clean: bool, now_us: int) -> None:
    """Put a checkpoint in place durably."""
    replace_file(disk, path, pack_file(parts, clean=clean, now_us=now_us))
