"""The sparse index of a segment: finds the position of an offset or a time, and where a segment may be cut.

The broker writes the index file when it closes a segment. The active segment has an older index file or none,
and the rest is read header by header.
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

#: Indexes kept at a time. One of a segment of 64 MiB has about 1,000 entries.
_KEPT_MAX = 256

_DTYPE = record_dtype(layout.INDEX_FIELDS, layout.INDEX_ENTRY_SIZE)


class Entry(NamedTuple):
    """The base offset and time (see ``SegmentIndex``) of the batch at ``position``."""

    position: int
    offset: int
    rel_ms: int


class SegmentIndex:
    """Entries of one segment. The first one is always its beginning.

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
        """The first entry at or above an offset; lower offsets end there."""
        at = bisect_left(self._offsets, offset)
        return self.entries[at] if at < len(self.entries) else None

    def at_time(self, start_us: int) -> Entry:
        """The last entry that surely begins before a time; everything from that time on comes after it."""
        # One millisecond less, because times in the index are rounded.
        rel_ms = min((start_us - self.first_ts) // 1000 - 1, layout.U32_MAX)
        return self.entries[max(bisect_left(self._times, rel_ms) - 1, 0)]

    def after_time(self, end_us: int) -> Entry | None:
        """The first entry that surely begins at or after a time."""
        at = bisect_right(self._times, (end_us - self.first_ts) // 1000 + 1)
        return self.entries[at] if at < len(self.entries) else None


def first_time(path: str, salt: int) -> int:
    """The time of a segment's first batch.

    Raises:
        CorruptLog: the segment does not begin with a batch.
        FileNotFoundError: it was removed.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return parse_header(os.pread(file, layout.HEADER_SIZE, 0), 0, 0, path, salt).base_ts()
    except BadBatch as error:
        raise CorruptLog(path, 0, layout.base_of(os.path.basename(path)) or 0, str(error)) from None
    finally:
        os.close(file)


def ends_before(directory: str, segment: Segment, salt: int, time_us: int) -> bool:
    """Whether all times in a segment's durable bytes lie before ``time_us``. Damage is left to who reads it.

    Times do not fall within a segment, so its last batch has the last one. The next segment may begin with an
    earlier time.

    Raises:
        FileNotFoundError: the segment was removed.
    """
    path = os.path.join(directory, layout.file_name(segment.base, layout.LOG_SUFFIX))
    try:
        start = load_index(directory, segment, salt).entries[-1]
        last_us = None
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for batch in iterate_batches(
                file, path, start.position, segment.size, start.offset, salt, payloads=False
            ):
                last_us = batch.last_ts()
        finally:
            os.close(file)
    except (BadBatch, CorruptLog):
        return False
    return last_us is not None and last_us < time_us


def load_index(directory: str, segment: Segment, salt: int) -> SegmentIndex:
    """The index of a segment's durable bytes: from its index file, and for the rest from the batch headers.

    Raises:
        CorruptLog: a batch header is bad.
        FileNotFoundError: the segment was removed.
    """
    path = os.path.join(directory, layout.file_name(segment.base, layout.LOG_SUFFIX))
    first_ts = first_time(path, salt)
    entries = _stored(os.path.join(directory, layout.file_name(segment.base, layout.INDEX_SUFFIX)), segment)
    if entries and not _fits(path, entries[-1], salt):
        entries = []
    if not entries or entries[0].position:
        entries.insert(0, Entry(0, segment.base, 0))
    if segment.size - entries[-1].position > 2 * layout.INDEX_INTERVAL_BYTES:
        _walk(path, segment, first_ts, entries, salt)
    return SegmentIndex(first_ts, entries)


class GrownIndexes:
    """The indexes of segments that grow from one batch of a stream to the next: only what is new is read."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[int, SegmentIndex]] = {}

    def load(self, directory: str, segment: Segment, salt: int) -> SegmentIndex:
        """As ``load_index``."""
        key = directory, segment.base
        inode, index = self._kept.pop(key, (-1, None))
        path = os.path.join(directory, layout.file_name(segment.base, layout.LOG_SUFFIX))
        last = None if index is None else index.entries[-1]
        if (
            index is None
            or last is None
            or inode != segment.inode
            or last.position >= segment.size
            or not _fits(path, last, salt)
        ):
            index = load_index(directory, segment, salt)
        elif segment.size - last.position > 2 * layout.INDEX_INTERVAL_BYTES:
            entries = list(index.entries)
            _walk(path, segment, index.first_ts, entries, salt)
            index = SegmentIndex(index.first_ts, entries)
        self._kept[key] = segment.inode, index
        if len(self._kept) > _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return index


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


def _fits(path: str, entry: Entry, salt: int) -> bool:
    """Whether a batch with the entry's base offset begins at its position. It does not if the segment was
    rewritten.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(file, layout.HEADER_SIZE, entry.position)
        return parse_header(data, 0, entry.position, path, salt).base == entry.offset
    except BadBatch:
        return False
    finally:
        os.close(file)


def _walk(path: str, segment: Segment, first_ts: int, entries: list[Entry], salt: int) -> None:
    """Append an entry for each interval after the last entry."""
    last = entries[-1]
    expected = last.offset
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for batch in iterate_batches(
            file, path, last.position, segment.size, last.offset, salt, payloads=False
        ):
            expected = batch.last + 1
            if batch.position >= entries[-1].position + layout.INDEX_INTERVAL_BYTES:
                rel_ms = min(max((batch.base_ts() - first_ts) // 1000, 0), layout.U32_MAX)
                entries.append(Entry(batch.position, batch.base, rel_ms))
    except BadBatch as error:
        raise CorruptLog(path, error.position, expected, str(error)) from None
    finally:
        os.close(file)
