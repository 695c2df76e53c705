"""Reads and checks the batches of a segment in large windows, for the decoders.

A window holds complete batches of one kind and record size. Its decoder processes all of them at once. So a
batch costs a few microseconds here, and nothing in the decoder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from . import layout
from .errors import CorruptLog, FormatVersionError

WINDOW_BYTES = 4 << 20


def record_dtype(fields: Sequence[tuple[str, str, int]], size: int) -> Any:
    """The numpy type of a fixed record. Bytes that a later version added at its end are skipped."""
    return np.dtype(
        {
            "names": [name for name, _, _ in fields],
            "formats": [kind for _, kind, _ in fields],
            "offsets": [at for _, _, at in fields],
            "itemsize": size,
        }
    )


_HEADER_DTYPE = record_dtype(layout.HEADER_FIELDS, layout.HEADER_SIZE)


class Batch(NamedTuple):
    """The place of a batch, and the fields that decide whether it is wanted. ``last`` is its last offset."""

    position: int
    #: Where it begins in ``data``.
    at: int
    length: int
    kind: int
    record_size: int
    records: int
    base: int
    last: int
    payload_crc: int
    data: memoryview

    def base_ts(self) -> int:
        """The time of its first record, microseconds."""
        return int.from_bytes(self.data[self.at + 56 : self.at + 64], "little", signed=True)

    def last_ts(self) -> int:
        """The last time in it."""
        return self.base_ts() + int.from_bytes(self.data[self.at + 40 : self.at + 44], "little")


class Piece(NamedTuple):
    """A part of a segment to read: the batches from byte ``start`` to ``end``, rows with offsets ``[low,
    high)``.

    ``first`` is the base offset of the batch at ``start``, ``next`` that of the batch at ``end`` (-1 =
    unknown). ``inode`` is the file's when the table was loaded. Another inode means that the broker has
    rewritten the segment without its settled messages.
    """

    log: int
    base: int
    start: int
    end: int
    first: int
    next: int
    low: int
    high: int
    inode: int
    is_last: bool


class Window:
    """Complete batches in ``data``: the place of each, and their headers as an array."""

    __slots__ = ("_headers", "data", "path", "position", "record_size", "starts")

    def __init__(self, path: str, position: int, data: memoryview, record_size: int) -> None:
        self.path = path
        #: Where ``data`` begins in the file.
        self.position = position
        self.data = data
        self.record_size = record_size
        self.starts: list[int] = []
        self._headers: Any = None

    @property
    def headers(self) -> Any:
        """One entry per batch, fields as in ``layout.HEADER_FIELDS``."""
        if self._headers is None:
            size = layout.HEADER_SIZE
            joined = b"".join([self.data[start : start + size] for start in self.starts])
            self._headers = np.frombuffer(joined, _HEADER_DTYPE)
        return self._headers

    def error(self, batch: int, text: str) -> CorruptLog:
        """The error for one of the batches."""
        offset = int(self.headers["base"][batch])
        return CorruptLog(self.path, self.position + self.starts[batch], offset, text)


class BadBatch(Exception):
    """There is no good batch at a position. The caller decides what that means.

    The next batch is not before ``after``, which is the end of the payload if the header is good.
    """

    def __init__(self, position: int, text: str, after: int = 0) -> None:
        super().__init__(text)
        self.position = position
        self.after = after or position + 1


class Gap(Exception):
    """A segment ends below the offset at which the next one begins: ``[low, high)`` is missing."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"offsets {low} to {high - 1} are missing")
        self.low = low
        self.high = high


def parse_header(data: memoryview | bytes, at: int, position: int, path: str, salt: int) -> Batch:
    """The header at ``at`` of ``data``, which is byte ``position`` of a file of the log with that salt.

    Raises:
        BadBatch: it is cut short, or its magic, checksum or length is wrong.
        FormatVersionError: a header of another version, or of a compressed batch.
    """
    view = memoryview(data)
    for batch in _batches(view, at, position, position + layout.HEADER_SIZE, path, salt):
        return batch
    raise BadBatch(position, "the file ends inside a batch header")


def _batches(data: memoryview, at: int, position: int, end: int, path: str, salt: int) -> Iterator[Batch]:
    """The batches whose headers are completely in ``data``, in order. Their payloads may not be.

    This is the inner loop of reading small batches, where a microsecond counts for every message.
    """
    unpack, crc_of, size = layout.BATCH_HEADER.unpack_from, crc32, layout.HEADER_SIZE
    first, stamp = layout.STAMP_CRC_AT, layout.STAMP_SIZE
    behind = first + 4
    make = Batch._make
    limit = len(data) - size
    while position < end and at <= limit:
        (
            magic,
            version,
            record_size,
            length,
            kind,
            attributes,
            payload_crc,
            records,
            stamp_crc,
            last_delta,
            base,
            crc,
        ) = unpack(data, at)
        if magic != layout.BATCH_MAGIC:
            raise BadBatch(position, "no batch begins here")
        if version > 1:
            # The last 8 octets are the node's own, of no use to others.
            crc = stamp_crc
            found = crc_of(data[at + behind : at + stamp], crc_of(data[at : at + first], salt))
        else:
            found = crc_of(data[at : at + size - 4], salt if version else 0)
        if found != crc:
            raise BadBatch(
                position, "the checksum of the batch header is wrong, or the batch belongs to another log"
            )
        if version > layout.LOG_VERSION:
            raise FormatVersionError(path, version, layout.LOG_VERSION)
        if attributes:
            unknown = attributes & ~layout.KNOWN_BITS if kind == layout.KIND_MESSAGES else attributes
            if unknown:
                raise FormatVersionError(path, f"with attributes {unknown:#x}", "without them")
        if length < size + record_size * records:
            raise BadBatch(position, "the batch is shorter than its records")
        yield make(
            (position, at, length, kind, record_size, records, base, base + last_delta, payload_crc, data)
        )
        position += length
        at += length


def iterate_batches(
    file: int, path: str, start: int, end: int, first: int, salt: int, *, payloads: bool
) -> Iterator[Batch]:
    """Every batch in ``[start, end)``, each complete in its buffer.

    ``first``: the base offset expected at ``start``, -1 = any. ``salt``: that of the log. ``payloads``:
    verify their checksums.

    Raises:
        BadBatch: there is no good batch at a position. The batches before it have been yielded.
        FormatVersionError: another version wrote it, or it is compressed.
    """
    position = start
    expected = first
    header_size = least = layout.HEADER_SIZE
    while position < end:
        buffer = memoryview(os.pread(file, min(max(WINDOW_BYTES, least), end - position), position))
        size = len(buffer)
        if size < least:
            raise BadBatch(position, "the file ends inside a batch")
        least = header_size
        for batch in _batches(buffer, 0, position, end, path, salt):
            at, length = batch.at, batch.length
            if expected not in (batch.base, -1):
                raise BadBatch(position, f"base offset {batch.base} where {expected} should follow")
            if length > end - position:
                raise BadBatch(position, "the batch reaches beyond the end")
            if at + length > size:
                least = length
                break
            if payloads and crc32(buffer[at + header_size : at + length]) != batch.payload_crc:
                raise BadBatch(position, "the checksum of the payload is wrong", position + length)
            yield batch
            expected = batch.last + 1
            position += length


#: Called for a range that is left out: place in the file, first offset, end of the range, what is wrong.
LeftOut = Callable[[int, int, int, str], None]


def read_windows(
    file: int,
    path: str,
    piece: Piece,
    kind: int,
    salt: int,
    *,
    payloads: bool,
    left_out: LeftOut | None = None,
) -> Iterator[Window]:
    """Windows of the batches of one kind. Other batches are skipped after their checksums are verified.

    ``left_out`` is called for bad batches, and reading continues after them.

    Raises:
        CorruptLog: a batch of the piece is damaged; the text names the offsets that cannot be read.
        FormatVersionError: another version wrote it, or it is compressed.
        Gap: after its last batch, offsets are missing before ``piece.next``.
    """
    window: Window | None = None
    expected = piece.first
    start, first = piece.start, piece.first
    while True:
        try:
            for batch in iterate_batches(file, path, start, piece.end, first, salt, payloads=payloads):
                if batch.base >= piece.high:
                    expected = piece.next
                    break
                expected = batch.last + 1
                if batch.kind != kind or batch.last < piece.low or not batch.records:
                    continue
                if window is None or window.data is not batch.data or window.record_size != batch.record_size:
                    if window is not None:
                        yield window
                    window = Window(path, batch.position - batch.at, batch.data, batch.record_size)
                window.starts.append(batch.at)
            break
        except BadBatch as error:
            found = _next_good(file, path, error.after, piece.end, expected, salt)
            behind = piece.high if found is None else found.base
            if left_out is None:
                raise CorruptLog(
                    path,
                    error.position,
                    expected,
                    f"{error}, so offsets {expected} to {behind - 1} cannot be read; "
                    "option failOnDataLoss=false leaves them out, with a warning",
                ) from None
            left_out(error.position, expected, behind, str(error))
            expected = behind
            if found is None:
                expected = piece.next
                break
            start, first = found.position, found.base
    if window is not None:
        yield window
    if piece.next not in (-1, expected):
        raise Gap(expected, piece.next)


def _next_good(file: int, path: str, start: int, end: int, least: int, salt: int) -> Batch | None:
    """The first complete batch at or after a position whose offsets begin at ``least`` or later."""
    while start < end:
        data = os.pread(file, min(WINDOW_BYTES, end - start), start)
        at = data.find(layout.BATCH_MAGIC)
        while at >= 0:
            try:
                for batch in iterate_batches(file, path, start + at, end, -1, salt, payloads=True):
                    if batch.base >= least:
                        return batch
                    break
            except (BadBatch, FormatVersionError):
                pass  # the magic octets in a body
            at = data.find(layout.BATCH_MAGIC, at + 1)
        if start + len(data) >= end or not data:
            return None
        start += len(data) - len(layout.BATCH_MAGIC) + 1
    return None
