"""What became of the messages of a log, as its SETTLES and PURGE records say (FORMAT.md).

A record lies behind the messages that it speaks of, often in a later segment, so a task that wants to know
walks from its first piece to the log's end. It looks at batch headers, and reads only the records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from . import layout
from .errors import CorruptLog, DataLoss
from .planning import LogRef, loss_text, segment_path
from .segments import BadBatch, Batch, Piece, parse_header

#: Names by kind. A kind 4 without a reason is a purge, a kind 5 for the last reason a delayed message.
OUTCOMES = (None, "acked", "rejected", "expired", "dropped", "dead-lettered")
PURGED, RELEASED = "purged", "released"
REASONS = (None, "rejected", "expired", "maxlen", "delivery_limit", None)
_STEP_BYTES = 64 << 10


class Run(NamedTuple):
    """A record: offsets ``[first, end)``, kind and reason, returns, and when it was written (µs)."""

    first: int
    end: int
    kind: int
    reason: int
    returns: int
    time_us: int


class Outcomes:
    """The records of one log from an offset on, in their order."""

    def __init__(self, runs: list[Run]) -> None:
        columns = list(zip(*runs, strict=True)) if runs else [()] * len(Run._fields)
        self._first, self._end, self._kind, self._reason, self._returns, self._time = (
            np.array(column, np.int64) for column in columns
        )

    def of(self, offsets: Any) -> Ends:
        """What became of the messages at ``offsets``, which rise."""
        ends = Ends(len(offsets))
        if not len(offsets):
            return ends
        near = np.flatnonzero((self._end > offsets[0]) & (self._first <= offsets[-1]))
        starts = np.searchsorted(offsets, self._first[near], "left").tolist()
        stops = np.searchsorted(offsets, self._end[near], "left").tolist()
        for run, start, stop in zip(near.tolist(), starts, stops, strict=True):
            if start == stop:
                continue
            kind = int(self._kind[run])
            if kind == layout.SETTLE_RETURN:
                returns = ends.returns[start:stop]
                np.maximum(returns, self._returns[run], out=returns)
                continue
            # The first record counts: later ones may name offsets again.
            open_ = ends.kind[start:stop] == 0
            ends.kind[start:stop][open_] = kind
            ends.reason[start:stop][open_] = self._reason[run]
            ends.time_us[start:stop][open_] = self._time[run]
        return ends


class Ends:
    """One entry for each message; kind 0 for one without a record of its end."""

    def __init__(self, count: int) -> None:
        self.kind = np.zeros(count, np.int64)
        self.reason = np.zeros(count, np.int64)
        self.returns = np.zeros(count, np.int64)
        self.time_us = np.zeros(count, np.int64)

    def outcomes(self) -> list[str | None]:
        """Names of the outcomes."""
        return [
            _outcome(kind, why) for kind, why in zip(self.kind.tolist(), self.reason.tolist(), strict=True)
        ]

    def reasons(self) -> list[str | None]:
        """Names of the reasons, where the outcome has one."""
        return [REASONS[why] if why < len(REASONS) else None for why in self.reason.tolist()]


def _outcome(kind: int, reason: int) -> str | None:
    if kind == layout.SETTLE_DROP and not reason:
        return PURGED
    if kind == layout.SETTLE_DEAD_LETTER and reason == layout.REASON_DUE:
        return RELEASED
    return OUTCOMES[kind] if kind < len(OUTCOMES) else None


def read_outcomes(log: LogRef, piece: Piece, *, fail_on_data_loss: bool) -> Outcomes:
    """Everything that the log says of messages from the piece's first offset on.

    Raises:
        CorruptLog: a batch is damaged (``fail_on_data_loss``; otherwise the rest of its segment is left out).
        DataLoss: a segment is gone or was rewritten since the table was loaded (``fail_on_data_loss``).
    """
    runs: list[Run] = []
    for segment in log.segments:
        if segment.base < piece.base:
            continue
        path = segment_path(log.directory, segment.base)
        start = piece.start if segment.base == piece.base else 0
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if fail_on_data_loss:
                raise DataLoss(loss_text(log, segment.base, log.end)) from None
            continue
        try:
            status = os.fstat(file)
            size = segment.size
            if status.st_ino != segment.inode:
                if fail_on_data_loss:
                    raise DataLoss(loss_text(log, segment.base, log.end))
                start, size = 0, status.st_size
            for batch in _records(file, path, start, size, log.salt):
                if batch.base < log.end:
                    runs += _runs(batch, path)
        except BadBatch as error:
            if fail_on_data_loss:
                raise CorruptLog(path, error.position, segment.base, str(error)) from None
        finally:
            os.close(file)
    return Outcomes(runs)


def _records(file: int, path: str, position: int, end: int, salt: int) -> Iterator[Batch]:
    """The SETTLES and CONTROL batches in ``[position, end)``, each complete in its ``data``."""
    while position < end:
        data = memoryview(os.pread(file, min(_STEP_BYTES, end - position), position))
        at = 0
        while at + layout.HEADER_SIZE <= len(data):
            batch = parse_header(data, at, position + at, path, salt)
            if batch.kind in (layout.KIND_SETTLES, layout.KIND_CONTROL):
                if at + batch.length > len(data):
                    whole = memoryview(os.pread(file, batch.length, position + at))
                    batch = batch._replace(data=whole, at=0)
                payload = batch.data[batch.at + layout.HEADER_SIZE : batch.at + batch.length]
                if len(payload) + layout.HEADER_SIZE != batch.length or crc32(payload) != batch.payload_crc:
                    raise BadBatch(batch.position, "the checksum of the payload is wrong")
                yield batch
            at += batch.length
        if not at:
            raise BadBatch(position, "the file ends inside a batch header")
        position += at


def _runs(batch: Batch, path: str) -> Iterator[Run]:
    time_us = batch.base_ts()
    payload = bytes(batch.data[batch.at + layout.HEADER_SIZE : batch.at + batch.length])
    if batch.kind == layout.KIND_SETTLES:
        for number in range(batch.records):
            first, count, kind, reason, returns, dts_us = layout.SETTLE.unpack_from(
                payload, number * batch.record_size
            )
            yield Run(first, first + count, kind, reason, returns, time_us + dts_us)
        return
    if len(payload) < layout.CONTROL.size:
        raise CorruptLog(path, batch.position, batch.base, "a control record is cut short")
    if layout.CONTROL.unpack_from(payload)[0] != layout.CONTROL_PURGE:
        return
    up_to, count = layout.PURGE.unpack_from(payload, layout.CONTROL.size)
    at = layout.CONTROL.size + layout.PURGE.size
    kept = [
        layout.PURGE_KEPT.unpack_from(payload, at + number * layout.PURGE_KEPT.size)
        for number in range(count)
    ]
    low = 0
    for first, length in sorted(kept):
        if first > low:
            yield Run(low, first, layout.SETTLE_DROP, 0, 0, time_us)
        low = max(low, first + length)
    if low < up_to:
        yield Run(low, up_to, layout.SETTLE_DROP, 0, 0, time_us)
