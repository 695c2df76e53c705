"""The segments of one partition on the event loop: finds where the next batch goes and where an offset is.

Segments are read here too, in large reads aligned to batches. The sync worker writes them (``writer``).

Compiled: see ``partition.pxd``.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from zlib import crc32

from amqp_router.protocol import flags
from amqp_router.protocol.message import FRAME_PAYLOAD_MAX, JOINED_BYTES_MAX, Message, content_header

from ...errors import CorruptLog
from ...files import File, FileCache
from ...options import LogOptions
from ..format.identity import Owners
from ..format.index import SparseIndex
from ..format.messages import BatchView
from ..format.record import HEADER_SIZE, MESSAGE_SIZE, MESSAGES, NO_EXPIRY, Batch, BatchHeader, parse_header
from ..format.sections import parse_sections
from ..format.segment import Segment
from ..format.settles import SettleRun, SettleState
from .gone import SETTLED, Settled
from .stored import StoredFrames

_U32_MAX = 0xFFFFFFFF
_ENDS = Struct("<III")
#: Larger batches are read frame by frame and never held in one buffer.
_LARGE_BYTES = 2 * JOINED_BYTES_MAX


class Partition:
    """An ordered list of segments, of which the last takes new batches."""

    def __init__(
        self,
        directory: str,
        options: LogOptions,
        readers: FileCache,
        salt: int = 0,
        owners: Owners | None = None,
        gone: Settled = SETTLED,
    ) -> None:
        self.directory = directory
        #: Of the checksums of its batches' headers (``identity``), and what knows whose another one is.
        self.salt = salt
        self.owners = owners
        #: Which messages need not be kept.
        self.gone = gone
        self.options = options
        self._segment_bytes_max = options.segment_bytes_max
        self._readers = readers
        self.segments: list[Segment] = []
        self._bases: list[int] = []

    @property
    def active(self) -> Segment:
        return self.segments[len(self.segments) - 1]

    def _closed(self) -> list[Segment]:
        """All segments but the active one."""
        return self.segments[: len(self.segments) - 1] if self.segments else []

    def add(self, segment: Segment) -> None:
        """Append a segment, whose base must be above all others."""
        self.segments.append(segment)
        self._bases.append(segment.base)

    def roll(self, base: int) -> Segment:
        """Begin a segment at offset ``base``. Its first write makes the file."""
        segment = Segment(self.directory, base)
        segment.index = SparseIndex(self.options.index_interval_bytes)
        self.add(segment)
        return segment

    def remove(self, segment: Segment) -> None:
        """Remove a segment from the list; its file will be deleted."""
        at = self.segments.index(segment)
        del self.segments[at]
        del self._bases[at]
        self._readers.drop(segment.path)

    def close_files(self) -> None:
        """Close the files of a deleted log, because open files would keep their disk space."""
        for segment in self.segments:
            self._readers.drop(segment.path)

    def reset(self) -> None:
        """Clear the list, before the segments are loaded again."""
        for segment in self.segments:
            self._readers.drop(segment.path)
        self.segments = []
        self._bases = []

    def place(self, batch: Batch) -> bool:
        """Give a batch its segment and position; True if that began a new segment: the active one is full, or
        its times are later than the batch's.
        """
        segment = self.segments[len(self.segments) - 1]  # compiled: no index counts from the end
        rolled = False
        if segment.size and (
            segment.size + batch.length > self._segment_bytes_max
            or batch.base_ts < segment.last_ts
            or batch.last - segment.base >= _U32_MAX
        ):
            segment = self.roll(batch.base)
            rolled = True
        batch.segment = segment
        batch.position = segment.size
        if segment.size == 0:
            segment.first_ts = batch.base_ts
        segment.last_ts = batch.base_ts + batch.max_ts_delta
        if segment.index is not None:
            segment.index.note(
                batch.base - segment.base, (batch.base_ts - segment.first_ts) // 1000, segment.size
            )
        segment.size += batch.length
        segment.end = batch.last + 1
        if batch.kind == MESSAGES:
            segment.records += batch.count
            segment.live += batch.count
        return rolled

    def count_settled(self, runs: list[SettleRun], state: SettleState) -> bool:
        """Subtract what ``runs`` settled from the segments' counts; True if a closed segment of them is gone.

        Every offset of the runs must be in a segment.
        """
        is_empty = False
        for run in runs:
            if not run.settled:
                continue
            segment = self.segment_of(run.first)
            if segment is None or run.first + run.count > segment.end:
                # For a run across two segments, the number of messages in each is not known.
                return self.recount(state)
            segment.live -= run.settled
            if segment is not self.active and self.gone.is_gone(segment):
                is_empty = True
        return is_empty

    def recount(self, state: SettleState) -> bool:
        """Count every segment's live messages again; True if a closed one is gone."""
        for segment in self.segments:
            segment.live = self.gone.count_kept(state, segment.base, segment.end)
        return bool([segment for segment in self._closed() if self.gone.is_gone(segment)])

    def remove_gone(self, below: int) -> list[Segment]:
        """Remove closed segments that need not be kept and end at ``below`` or before from the list; their
        files will be deleted.
        """
        removed = [s for s in self._closed() if self.gone.is_gone(s) and s.end <= below]
        for segment in removed:
            self.remove(segment)
        return removed

    def dead_bytes(self) -> int:
        """Bytes of the closed segments that need not be kept."""
        return sum([s.size for s in self._closed() if self.gone.is_gone(s)])

    def cleanable(self) -> Segment | None:
        """A closed and completely written segment that is worth rewriting."""
        options = self.options
        for segment in self._closed():
            if (
                segment.written == segment.size
                and self.gone.is_sparse(segment, options.clean_live_ratio)
                and segment.size >= options.clean_bytes_min
            ):
                return segment
        return None

    def synced_place(self) -> tuple[int, int]:
        """Base of the segment in which the synced part ends, and the position there. Valid after a round."""
        for segment in reversed(self.segments):
            if segment.written:
                return segment.base, segment.written
        return self.active.base, 0

    def segment_of(self, offset: int) -> Segment | None:
        """The segment whose range holds ``offset``."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0 or offset >= self.segments[at].end:
            return None
        return self.segments[at]

    def segment_from(self, offset: int) -> Segment | None:
        """The first segment that ends above ``offset``."""
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while at < len(self.segments):
            if self.segments[at].end > offset:
                return self.segments[at]
            at += 1
        return None

    def read(self, segment: Segment, position: int, count: int) -> bytes:
        """Read bytes of the written part of a segment."""
        count = min(count, segment.written - position)
        if count <= 0:
            return b""
        file = self._readers.get(segment.path)
        data = file.read(count, position)
        ahead = position + count
        if ahead < segment.written:
            file.will_need(ahead, self.options.read_bytes)
        return data

    def foreign(self, header: bytes) -> str:
        """What to say of a bad header that is another log's; empty if that is not known."""
        return self.owners.foreign(header, self.salt) if self.owners is not None else ""

    def open_own(self, segment: Segment) -> File:
        """A further descriptor of the segment, which the caller closes."""
        return self._readers.open_own(segment.path)

    def forget(self, segment: Segment) -> None:
        """Drop what is cached of a segment whose file was replaced."""
        self._readers.drop(segment.path)
        segment.index = None

    def index_of(self, segment: Segment) -> SparseIndex:
        """The segment's index: from memory, from its file, or rebuilt from the batch headers.

        Raises:
            CorruptLog: the headers do not follow one another.
        """
        index = segment.index
        if index is not None:
            return index
        index = SparseIndex(self.options.index_interval_bytes)
        try:
            file = self._readers.get(segment.index_path)
            usable = index.unpack(file.read(file.size(), 0), segment.written) and self._fits(segment, index)
            self._readers.drop(segment.index_path)
        except FileNotFoundError:
            usable = False
        if not usable:
            index = SparseIndex(self.options.index_interval_bytes)
            self._walk(segment, index)
        segment.index = index
        return index

    def _fits(self, segment: Segment, index: SparseIndex) -> bool:
        """Whether the index belongs to this file. After a crash it may be that of a file replaced by
        cleaning.
        """
        first = parse_header(self.read(segment, 0, HEADER_SIZE), 0, self.salt)
        if first is None:
            return False
        segment.first_ts = first.base_ts  # from which the times of further entries count
        if not len(index):
            return True
        rel_offset, position = index.last()
        header = parse_header(self.read(segment, position, HEADER_SIZE), 0, self.salt)
        return header is not None and header.base - segment.base == rel_offset

    def _walk(self, segment: Segment, index: SparseIndex) -> None:
        position, offset = 0, segment.base
        while position < segment.written:
            data = self.read(segment, position, HEADER_SIZE)
            header = parse_header(data, 0, self.salt)
            if header is None:
                raise CorruptLog(segment.path, position, self.foreign(data) or "no batch header")
            if header.base < offset:  # an index of another segment, perhaps of another log
                raise CorruptLog(
                    segment.path, position, f"a batch of offset {header.base} where {offset} may begin"
                )
            offset = header.last + 1
            if position == 0:
                segment.first_ts = header.base_ts
            index.note(header.base - segment.base, (header.base_ts - segment.first_ts) // 1000, position)
            position += header.length


class Cursor:
    """A position in a partition, from which batches are read one after the other.

    It holds one chunk of a segment. ``view`` is the current MESSAGES batch; ``large`` is the message of a
    batch that is too big for a chunk.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.view = BatchView()
        self.large: Message | None = None
        self._segment: Segment | None = None
        self._data = b""
        self._data_at = 0
        # Position after the last batch read, and the base offset expected there.
        self._next_at = 0
        self._next_base = 0

    def forget(self) -> None:
        """Drop the chunk, because segments were cut or replaced."""
        self._segment = None
        self._data = b""
        self.view.close()
        self.large = None

    def header_for(self, offset: int) -> tuple[Segment, int, BatchHeader]:
        """(segment, position, header) of the batch that holds ``offset``, or of the next one if ``offset`` is
        in a gap.

        Raises:
            CorruptLog: there is no good header where one must be.
            OSError: the read failed.
        """
        partition = self._partition
        segment = partition.segment_from(offset)
        if segment is None or segment.written == 0:
            raise CorruptLog(partition.directory, 0, f"offset {offset} is in no segment")
        position = partition.index_of(segment).position_of(max(offset - segment.base, 0))
        if segment is self._segment and self._next_base <= offset and self._next_at > position:
            position = self._next_at
        elif segment is not self._segment:
            self._segment = segment
            self._data = b""
        while True:
            data = self._load(segment, position, HEADER_SIZE)
            at = position - self._data_at
            header = parse_header(data, at, partition.salt)
            if header is None or header.base < segment.base or position + header.length > segment.written:
                text = partition.foreign(data[at : at + HEADER_SIZE])
                text = text or f"no good batch header before offset {offset}"
                raise CorruptLog(segment.path, position, text)
            if header.last >= offset:
                self._next_at = position + header.length
                self._next_base = header.last + 1
                return segment, position, header
            position += header.length

    def seek(self, offset: int) -> None:
        """Move to the batch with the message at ``offset``, and verify its checksum."""
        segment, position, header = self.header_for(offset)
        self.large = None
        self.view.close()
        if header.kind != MESSAGES or header.base > offset:
            raise CorruptLog(segment.path, position, f"offset {offset} should be a message here")
        if header.length > _LARGE_BYTES and header.records == 1:
            self.large = self._read_large(segment, position, header, offset)
            return
        data = self._load(segment, position, header.length)
        at = position - self._data_at
        if crc32(memoryview(data)[at + HEADER_SIZE : at + header.length]) != header.payload_crc:
            raise CorruptLog(segment.path, position, "checksum of a batch is wrong")
        try:
            self.view.open_data(data, at, header)
        except ValueError as error:
            raise CorruptLog(segment.path, position, str(error)) from None

    def raw(self, segment: Segment, position: int, header: BatchHeader) -> bytes:
        """The bytes of a batch found by ``header_for``, checksum verified."""
        if header.length > _LARGE_BYTES:
            batch = self._partition.read(segment, position, header.length)
        else:
            data = self._load(segment, position, header.length)
            at = position - self._data_at
            batch = data[at : at + header.length]
        if crc32(memoryview(batch)[HEADER_SIZE:]) != header.payload_crc:
            raise CorruptLog(segment.path, position, "checksum of a batch is wrong")
        return batch

    def _load(self, segment: Segment, position: int, count: int) -> bytes:
        """Load a chunk that holds ``count`` bytes from ``position`` on (or up to the end)."""
        at = position - self._data_at
        if not self._data or at < 0 or at + count > len(self._data):
            size = max(count, self._partition.options.read_bytes)
            self._data = self._partition.read(segment, position, size)
            self._data_at = position
        return self._data

    def _read_large(self, segment: Segment, position: int, header: BatchHeader, offset: int) -> Message:
        partition = self._partition
        record = partition.read(segment, position + HEADER_SIZE, header.record_size)
        at = position + HEADER_SIZE + header.record_size
        if len(record) < MESSAGE_SIZE:
            raise CorruptLog(segment.path, position, "a large message is cut short")
        route_size, properties_size, body_size = _ENDS.unpack_from(record)
        rest = position + header.length - (at + route_size + properties_size + body_size)
        if rest < 0:
            raise CorruptLog(segment.path, position, "the heaps of a batch do not fit its length")
        sections = partition.read(segment, position + header.length - rest, rest)
        try:
            extras = parse_sections(header.attributes, sections, 1)
        except ValueError as error:
            raise CorruptLog(segment.path, position, str(error)) from None
        heaps = partition.read(segment, at, route_size + properties_size)
        # The checksum is known when the whole body is read; the method that announces it leaves before.
        if not _is_route(heaps[:route_size]) or len(heaps) < route_size + properties_size:
            raise CorruptLog(segment.path, position, "the route of a large message is damaged")
        crc = crc32(heaps, crc32(record))
        at += len(heaps)
        properties = heaps[route_size:]
        header_frame = content_header(properties, body_size)
        frames = StoredFrames(
            partition.open_own(segment),
            segment.path,
            header=header_frame,
            at=at,
            body_size=body_size,
            frame_payload=FRAME_PAYLOAD_MAX,
            crc=crc,
            wanted=header.payload_crc,
            behind=sections,
        )
        message = Message()
        message.content = frames
        message.route = heaps[:route_size]
        message.offset = offset
        message.header_size = len(header_frame)
        message.body_size = body_size
        message.frame_payload = FRAME_PAYLOAD_MAX
        message.frame_count = len(frames) - 1
        expire_ms = int.from_bytes(record[20:24] + record[28:30], "little")
        if expire_ms != NO_EXPIRY:
            appended_us = header.base_ts + int.from_bytes(record[12:16], "little")
            message.deadline_us = appended_us + expire_ms * 1000
        message.extras = extras.get(0)
        message.priority = record[24]
        message.flags = record[25] | flags.PERSISTENT | flags.LOGGED
        message.delivery_count = record[26] | record[27] << 8
        return message


def _is_route(route: bytes) -> bool:
    """Whether these are two short strings and nothing else."""
    key_at = 1 + route[0] if route else 1
    return key_at < len(route) and key_at + 1 + route[key_at] == len(route)
