"""Batches of a segment, read in large windows and checked: the layer below the decoders.

A window holds whole batches of one kind and record size; its decoder works on all of them at once, so that
the cost per batch is a few microseconds here and nothing there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from . import layout
from .errors import CorruptLog, FormatVersionError

WINDOW_BYTES = 4 << 20


class Header(NamedTuple):
    """What a decoder or planner needs of a batch header. ``last`` is the batch's last offset."""

    length: int
    kind: int
    record_size: int
    records: int
    base: int
    last: int
    base_ts: int
    max_ts: int
    payload_crc: int
    attributes: int


class Piece(NamedTuple):
    """A part of a segment to read: batches from byte ``start`` to ``end``, rows with offsets ``[low, high)``.

    ``first`` is the base offset of the batch at ``start``, ``next`` the one that follows on ``end`` (-1 =
    unknown). ``inode`` is the file's when the table was loaded: another one means that the broker has
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
    """Whole batches in ``data``; ``spans`` has where each one's payload begins and ends."""

    __slots__ = ("data", "headers", "path", "position", "spans")

    def __init__(self, path: str, position: int, data: memoryview) -> None:
        self.path = path
        #: Where ``data`` begins in the file.
        self.position = position
        self.data = data
        self.headers: list[Header] = []
        self.spans: list[tuple[int, int]] = []

    def error(self, batch: int, text: str) -> CorruptLog:
        """The error for one of the batches."""
        at = self.position + self.spans[batch][0] - layout.HEADER_SIZE
        return CorruptLog(self.path, at, self.headers[batch].base, text)


class BadBatch(Exception):
    """No good batch stands at a position; the caller knows what that means."""

    def __init__(self, position: int, text: str) -> None:
        super().__init__(text)
        self.position = position


class Gap(Exception):
    """A segment ends below the offset at which the next one begins: ``[low, high)`` is missing."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"offsets {low} to {high - 1} are missing")
        self.low = low
        self.high = high


def parse_header(data: memoryview | bytes, at: int, position: int, path: str) -> Header:
    """The header at ``at`` of ``data``, which is byte ``position`` of a file.

    Raises:
        BadBatch: it is cut short, or its magic, checksum or length is wrong.
        FormatVersionError: a header of another version.
    """
    end = at + layout.HEADER_SIZE
    if end > len(data):
        raise BadBatch(position, "the file ends inside a batch header")
    (
        magic,
        version,
        record_size,
        length,
        kind,
        attributes,
        payload_crc,
        count,
        _,
        _,
        last_delta,
        max_ts_delta,
        _,
        base,
        base_ts,
        _,
        crc,
    ) = layout.BATCH_HEADER.unpack_from(data, at)
    if magic != layout.BATCH_MAGIC:
        raise BadBatch(position, "no batch begins here")
    if crc32(data[at : end - 4]) != crc:
        raise BadBatch(position, "the checksum of the batch header is wrong")
    if version != layout.FORMAT_VERSION:
        raise FormatVersionError(path, version, layout.FORMAT_VERSION)
    if length < layout.HEADER_SIZE + record_size * count:
        raise BadBatch(position, "the batch is shorter than its records")
    return Header(
        length,
        kind,
        record_size,
        count,
        base,
        base + last_delta,
        base_ts,
        base_ts + max_ts_delta,
        payload_crc,
        attributes,
    )


def iterate_batches(
    file: int, path: str, start: int, end: int, first: int, *, payloads: bool
) -> Iterator[tuple[int, Header, int, memoryview]]:
    """(position, header, place of the batch in the buffer, buffer) of every batch in ``[start, end)``.

    ``first``: the base offset expected at ``start``, -1 = any. ``payloads``: verify their checksums.

    Raises:
        BadBatch: what stands at a position is no good batch; those before it have been yielded.
    """
    position = start
    expected = first
    buffer = memoryview(b"")
    at = 0
    while position < end:
        if at + layout.HEADER_SIZE > len(buffer):
            buffer, at = _read(file, min(WINDOW_BYTES, end - position), position), 0
        header = parse_header(buffer, at, position, path)
        if expected not in (-1, header.base):
            raise BadBatch(position, f"base offset {header.base} where {expected} should follow")
        if header.length > end - position:
            raise BadBatch(position, "the batch reaches beyond the end")
        if at + header.length > len(buffer):
            buffer, at = _read(file, min(max(WINDOW_BYTES, header.length), end - position), position), 0
            if header.length > len(buffer):
                raise BadBatch(position, "the file ends inside a batch")
        if payloads and crc32(buffer[at + layout.HEADER_SIZE : at + header.length]) != header.payload_crc:
            raise BadBatch(position, "the checksum of the payload is wrong")
        yield position, header, at, buffer
        expected = header.last + 1
        position += header.length
        at += header.length


def _read(file: int, count: int, position: int) -> memoryview:
    return memoryview(os.pread(file, count, position))


def read_windows(file: int, path: str, piece: Piece, kind: int, *, payloads: bool) -> Iterator[Window]:
    """Windows of the batches of one kind; the others are passed over (their checksums are verified too).

    Raises:
        CorruptLog: a batch of the piece is not as it was written.
        FormatVersionError: another version wrote it, or it is compressed.
        Gap: after its last batch, offsets are missing before ``piece.next``.
    """
    window: Window | None = None
    expected = piece.first
    record_size = -1
    try:
        for position, header, at, buffer in iterate_batches(
            file, path, piece.start, piece.end, piece.first, payloads=payloads
        ):
            if header.base >= piece.high:
                expected = piece.next
                break
            expected = header.last + 1
            if header.kind != kind or header.last < piece.low or not header.records:
                continue
            if header.attributes:
                raise FormatVersionError(path, f"with attributes {header.attributes:#x}", "without any")
            if window is None or window.data is not buffer or record_size != header.record_size:
                if window is not None:
                    yield window
                window = Window(path, position - at, buffer)
                record_size = header.record_size
            window.headers.append(header)
            window.spans.append((at + layout.HEADER_SIZE, at + header.length))
    except BadBatch as error:
        raise CorruptLog(path, error.position, expected, str(error)) from None
    if window is not None:
        yield window
    if piece.next not in (-1, expected):
        raise Gap(expected, piece.next)
