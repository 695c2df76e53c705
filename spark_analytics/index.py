"""From an offset or a time to a byte of a segment, and where a segment may be cut: its sparse index.

The broker writes the index file when it leaves a segment; for the one it still writes to there is an older
one or none, and the rest is walked, header by header.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from typing import NamedTuple
from zlib import crc32

import numpy as np

from . import layout
from .errors import CorruptLog
from .segments import BadBatch, iterate_batches, parse_header, record_dtype
from .snapshot import Segment

_DTYPE = record_dtype(layout.INDEX_FIELDS, layout.INDEX_ENTRY_SIZE)


class Entry(NamedTuple):
    """A batch begins at ``position``: its base offset, its time (see ``SegmentIndex``)."""

    position: int
    offset: int
    rel_ms: int


class SegmentIndex:
    """Entries of one segment, the first one always its beginning.

    Times are milliseconds since the segment's first batch; one that did not fit is 2**32 - 1.
    """

    def __init__(self, first_ts: int, entries: list[Entry]) -> None:
        self.first_ts = first_ts
        self.entries = entries
        self._offsets = [entry.offset for entry in entries]
        self._times = [entry.rel_ms for entry in entries]

    def at_offset(self, offset: int) -> Entry:
        """The last entry at or below an offset."""
        return self.entries[max(bisect_right(self._offsets, offset) - 1, 0)]

    def after_offset(self, offset: int) -> Entry | None:
        """The first entry at or above an offset: what is below it ends there."""
        at = bisect_left(self._offsets, offset)
        return self.entries[at] if at < len(self.entries) else None

    def at_time(self, start_us: int) -> Entry:
        """The last entry that surely begins before a time; everything from that time on is behind it."""
        # One millisecond less: the index has them rounded.
        rel_ms = min((start_us - self.first_ts) // 1000 - 1, layout.U32_MAX)
        return self.entries[max(bisect_left(self._times, rel_ms) - 1, 0)]

    def after_time(self, end_us: int) -> Entry | None:
        """The first entry that surely begins at or after a time."""
        at = bisect_right(self._times, (end_us - self.first_ts) // 1000 + 1)
        return self.entries[at] if at < len(self.entries) else None


def first_time(path: str) -> int:
    """The time of a segment's first batch.

    Raises:
        CorruptLog: no batch begins there.
        FileNotFoundError: it was removed.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return parse_header(os.pread(file, layout.HEADER_SIZE, 0), 0, 0, path).base_ts()
    except BadBatch as error:
        raise CorruptLog(path, 0, layout.base_of(os.path.basename(path)) or 0, str(error)) from None
    finally:
        os.close(file)


def load_index(directory: str, segment: Segment) -> SegmentIndex:
    """The index of a segment's durable bytes: its file as far as it goes, the rest by walking the headers.

    Raises:
        CorruptLog: the walk meets a bad batch.
        FileNotFoundError: the segment was removed.
    """
    path = os.path.join(directory, layout.file_name(segment.base, layout.LOG_SUFFIX))
    first_ts = first_time(path)
    entries = _stored(os.path.join(directory, layout.file_name(segment.base, layout.INDEX_SUFFIX)), segment)
    if entries and not _fits(path, entries[-1]):
        entries = []
    if not entries or entries[0].position:
        entries.insert(0, Entry(0, segment.base, 0))
    if segment.size - entries[-1].position > 2 * layout.INDEX_INTERVAL_BYTES:
        _walk(path, segment, first_ts, entries)
    return SegmentIndex(first_ts, entries)


def _stored(path: str, segment: Segment) -> list[Entry]:
    """Entries of the index file; empty if it is missing or not usable."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    if len(data) < layout.INDEX_HEADER.size:
        return []
    magic, version, count, crc = layout.INDEX_HEADER.unpack_from(data)
    body = data[layout.INDEX_HEADER.size :]
    is_good = magic == layout.INDEX_MAGIC and version == layout.FORMAT_VERSION
    if not is_good or len(body) != count * layout.INDEX_ENTRY_SIZE or crc32(body) != crc:
        return []
    raw = np.frombuffer(body, _DTYPE)
    raw = raw[raw["position"] < segment.size]
    offsets = raw["rel_offset"].astype(np.int64) + segment.base
    return [
        Entry(*entry)
        for entry in zip(raw["position"].tolist(), offsets.tolist(), raw["rel_ts_ms"].tolist(), strict=True)
    ]


def _fits(path: str, entry: Entry) -> bool:
    """Does a batch with the entry's base offset begin at its position? Not in a segment rewritten since."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(file, layout.HEADER_SIZE, entry.position)
        return parse_header(data, 0, entry.position, path).base == entry.offset
    except BadBatch:
        return False
    finally:
        os.close(file)


def _walk(path: str, segment: Segment, first_ts: int, entries: list[Entry]) -> None:
    """Append an entry per interval behind the last one."""
    last = entries[-1]
    expected = last.offset
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for batch in iterate_batches(file, path, last.position, segment.size, last.offset, payloads=False):
            expected = batch.last + 1
            if batch.position >= entries[-1].position + layout.INDEX_INTERVAL_BYTES:
                rel_ms = min(max((batch.base_ts() - first_ts) // 1000, 0), layout.U32_MAX)
                entries.append(Entry(batch.position, batch.base, rel_ms))
    except BadBatch as error:
        raise CorruptLog(path, error.position, expected, str(error)) from None
    finally:
        os.close(file)
