"""Reads a segment batch by batch, and tells a torn tail from damage (FORMAT.md, "What recovery does").

Both kinds of logs are recovered and verified by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from zlib import crc32

from ...errors import CorruptLog
from ...files import File
from .messages import sections_at
from .record import HEADER_SIZE, MAGIC, MESSAGES, BatchHeader, parse_header
from .sections import KNOWN
from .segment import Segment

_CHUNK_BYTES = 1 << 20
_U32_MAX = 0xFFFFFFFF


class Scanner:
    """The good batches of a file from ``position`` on, each at the offset where the one before it ended.

    After the last good one ``fault`` says what is wrong at ``position``; it is empty at the end of the file.
    """

    def __init__(self, file: File, salt: int, *, base: int, position: int = 0) -> None:
        self._file = file
        self._salt = salt
        self.size = file.size()
        #: Place of the current batch, and its base offset; after the last one those of the next.
        self.position = position
        self.base = base
        self.fault = ""

    def __iter__(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """(header, payload) of each batch, checksums verified."""
        size = self.size
        data = b""
        at = 0
        while self.position < size:
            left = size - self.position
            if at + HEADER_SIZE > len(data):
                data, at = self._file.read(min(_CHUNK_BYTES, left), self.position), 0
            header = parse_header(data, at, self._salt)
            if header is None:
                self.fault = "no good batch header"
                return
            length = header.length
            if header.base != self.base:
                self.fault = f"base offset {header.base} where {self.base} should follow"
                return
            if length > left:
                self.fault = "the batch reaches beyond the end of the file"
                return
            if at + length > len(data):
                data, at = self._file.read(min(max(_CHUNK_BYTES, length), left), self.position), 0
            payload = memoryview(data)[at + HEADER_SIZE : at + length]
            if crc32(payload) != header.payload_crc:
                self.fault = "checksum of the payload is wrong"
                return
            yield header, payload
            self.base = header.last + 1
            self.position += length
            at += length

    def bad_header(self) -> bytes:
        """The octets at ``position``, as many as a header has."""
        return self._file.read(HEADER_SIZE, self.position)

    def witness(self) -> int:
        """Position of a later good batch which says that ``position`` was synced before it; -1 if none."""
        data = self._file.read(self.size - self.position, self.position)
        bad = parse_header(data, 0, self._salt)
        # If the bad batch has a good header, its payload is skipped, because a body may contain a piece of a
        # log.
        at = data.find(MAGIC, bad.length if bad is not None and bad.base == self.base else 1)
        while at >= 0:
            header = parse_header(data, at, self._salt)
            if (
                header is not None
                and header.base >= self.base
                and at + header.length <= len(data)
                # The part that was unsynced before it begins after the start of the bad batch.
                and header.unsynced_back < at
                and crc32(memoryview(data)[at + HEADER_SIZE : at + header.length]) == header.payload_crc
            ):
                return self.position + at
            at = data.find(MAGIC, at + 1)
        return -1


def recover_segment(
    scan: Scanner, segment: Segment, take: Callable[[BatchHeader, memoryview], bool]
) -> tuple[int, bool]:
    """Read a segment to the end of its good batches, and note them in ``segment`` and its index.

    ``take`` gets every batch; if it returns False the scan stops before that one. Returns the position up to
    which, by its own batches, the file was synced, and whether ``take`` has stopped the scan.

    Raises:
        CorruptLog: ``take`` has raised a ValueError.
    """
    index = segment.index
    synced = scan.position
    stopped = False
    for header, payload in scan:
        position = scan.position
        try:
            if not take(header, payload):
                stopped = True
                break
        except ValueError as error:
            raise CorruptLog(segment.path, position, str(error)) from None
        if position == 0:
            segment.first_ts = header.base_ts
        segment.last_ts = header.base_ts + header.max_ts_delta
        if index is not None:
            since_ms = (header.base_ts - segment.first_ts) // 1000
            index.note(min(header.base - segment.base, _U32_MAX), since_ms, position)
        synced = max(synced, position - header.unsynced_back)
        segment.end = header.last + 1
    segment.size = segment.written = scan.position
    return synced, stopped


def check_tail(
    scan: Scanner, segment: Segment, foreign_text: Callable[[bytes], str], *, is_last: bool = True
) -> None:
    """Accept what follows the last good batch as a torn tail.

    ``foreign_text`` says of a bad header that it is another log's, or is empty.

    Raises:
        CorruptLog: it is damage: another log's batch, or bytes that had been synced.
    """
    if scan.position == scan.size:
        return
    foreign = foreign_text(scan.bad_header())
    if foreign:
        raise CorruptLog(segment.path, scan.position, foreign)
    if not is_last:
        raise CorruptLog(segment.path, scan.position, "bad batch in a segment that was synced")
    witness = scan.witness()
    if witness >= 0:
        text = f"bad batch, yet the one at byte {witness} says that this had been synced"
        raise CorruptLog(segment.path, scan.position, text)


def records_of(header: BatchHeader, payload: memoryview | bytes) -> bytes:
    """What the fold needs of a batch: of MESSAGES only the fixed records and the optional sections.

    Raises:
        ValueError: the batch is shorter than its records say.
    """
    if header.kind != MESSAGES:
        return bytes(payload)
    records = bytes(payload[: header.records * header.record_size])
    if header.attributes & KNOWN:
        records += payload[sections_at(payload, header.records, header.record_size) :]
    return records
