"""Decodes windows of routing batches to Arrow with numpy: a handful of array operations for all records.

A record is a run of equal events; a row is an event. All steps except the last work on records, so a million
equal messages cost the work of a few hundred records and the copying of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from . import layout
from .names import Names
from .options import Selection
from .planning import LogRef
from .schema import arrow_type
from .segments import Piece, Window, record_dtype

Take = Callable[[Any, Any], Any]


class Records:
    """The records of a window's batches in one array, and which batch each belongs to."""

    def __init__(self, window: Window, fields: Sequence[tuple[str, str, int]]) -> None:
        headers = window.headers
        size = window.record_size
        self.window = window
        self.counts = headers["records"].astype(np.int64)
        #: Where each batch's heaps begin in the window's data.
        self.heaps = np.array(window.starts, np.int64) + layout.HEADER_SIZE + size * self.counts
        first = layout.HEADER_SIZE
        ends = self.heaps.tolist()
        joined = b"".join(
            [window.data[start + first : end] for start, end in zip(window.starts, ends, strict=True)]
        )
        self.rows = np.frombuffer(joined, record_dtype(fields, size))
        self.total = len(self.rows)
        #: Index of each batch's first record and of its last one.
        self.last = np.cumsum(self.counts) - 1
        self.first = self.last + 1 - self.counts
        self.batch = np.repeat(np.arange(len(headers)), self.counts)
        self.base = headers["base"].astype(np.int64)
        self.base_ts = headers["base_ts"].astype(np.int64)

    def times(self) -> Any:
        """Microseconds of each record."""
        return self.base_ts[self.batch] + self.rows["dts_us"]

    def pieces(self, field: str) -> tuple[Any, Any]:
        """(length of each record's piece of a heap, bytes of each batch's heap) from cumulative ends.

        Raises:
            CorruptLog: the ends do not rise within a batch.
        """
        ends = self.rows[field].astype(np.int64)
        lengths = np.diff(ends, prepend=0)
        lengths[self.first] = ends[self.first]
        if lengths.min() < 0:
            batch = int(self.batch[int(lengths.argmin())])
            raise self.window.error(batch, f"the ends in field {field} of its records do not rise")
        return lengths, ends[self.last]

    def heap(self, skipped: Any, sizes: Any) -> bytes:
        """One heap of all batches joined; ``skipped``: bytes of the heaps between it and the records."""
        data = self.window.data
        starts = self.heaps + skipped
        ends = starts + sizes
        return b"".join([data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])

    def check_length(self, heaps: Any) -> None:
        """Check that records and heaps fill their batches exactly, but for optional sections."""
        ends = np.array(self.window.starts, np.int64) + self.window.headers["length"]
        left = ends - (self.heaps + heaps)
        wrong = np.flatnonzero((left < 0) | ((left > 0) & (self.window.headers["attributes"] == 0)))
        if len(wrong):
            raise self.window.error(int(wrong[0]), "the heaps of the batch do not fit its length")


def binary(offsets: Any, heap: bytes, kind: Any = None) -> Any:
    """An Arrow array over a heap; ``offsets`` has one more entry than there are values."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(heap)]
    return pa.Array.from_buffers(kind or pa.binary(), len(offsets) - 1, buffers)


def as_text(values: Any) -> Any:
    """A binary array as strings. Octets that are no UTF-8 become U+FFFD: names are bytes on the wire."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())


def constant(value: Any, sql: str) -> Take:
    """A column with one value."""
    scalar = pa.scalar(value, arrow_type(sql))
    return lambda index, _: pa.repeat(scalar, len(index))


def numbers(values: Any, kind: Any) -> Take:
    """A column of numbers, one per record."""
    return lambda index, _: pa.array(values[index], kind)


def flag(values: Any, bit: int) -> Take:
    """A boolean column: is a bit set?"""
    return lambda index, _: pa.array((values[index] & bit) != 0)


def taken(values: Any) -> Take:
    """A column of an Arrow array, one value per record."""
    return lambda index, _: values.take(pa.array(index))


def decode_routing(
    window: Window,
    log: LogRef,
    piece: Piece,
    names: Names,
    columns: Sequence[str],
    selection: Selection,
    batch_rows: int,
    schema: Any,
) -> Iterator[Any]:
    """Record batches of at most ``batch_rows`` events that the selection wants.

    Raises:
        CorruptLog: the numbers of a batch contradict one another.
    """
    records = Records(window, layout.ROUTING_FIELDS)
    rows = records.rows
    events, sizes = records.pieces("events_end")
    expected = window.headers["last_delta"].astype(np.int64) + 1
    if (sizes != expected).any():
        batch = int(np.flatnonzero(sizes != expected)[0])
        raise window.error(batch, f"{sizes[batch]} events in its records, {expected[batch]} in its header")
    routes = rows["route_id"]
    if routes.max() >= names.count:
        batch = int(records.batch[int(routes.argmax())])
        raise window.error(batch, f"route {routes.max()} has no name")
    firsts = records.base[records.batch] + (rows["events_end"].astype(np.int64) - events)
    lows, highs = np.maximum(firsts, piece.low), np.minimum(firsts + events, piece.high)
    wanted = highs > lows
    wanted_routes = names.wanted(selection.exchanges, selection.queues)
    if wanted_routes is not None:
        wanted &= wanted_routes[routes]
    times = records.times()
    if selection.start_us is not None:
        wanted &= times >= selection.start_us
    if selection.end_us is not None:
        wanted &= times < selection.end_us
    makers = _routing_columns(records, log, names, columns, times)
    chosen = np.flatnonzero(wanted)
    for index, offsets in _expanded(chosen, lows[chosen], (highs - lows)[chosen], batch_rows):
        yield pa.RecordBatch.from_arrays([make(index, offsets) for make in makers], schema=schema)


def _expanded(records: Any, firsts: Any, counts: Any, most: int) -> Iterator[tuple[Any, Any]]:
    """(record, offset) of each row, at most ``most`` rows at a time."""
    if not len(records):
        return
    ends = np.cumsum(counts)
    total = int(ends[-1])
    if total == len(records):
        for at in range(0, total, most):
            yield records[at : at + most], firsts[at : at + most]
        return
    for low in range(0, total, most):
        high = min(low + most, total)
        a = int(np.searchsorted(ends, low, "right"))
        b = int(np.searchsorted(ends, high, "left")) + 1
        starts = ends[a:b] - counts[a:b]
        begin = np.maximum(starts, low)
        repeats = np.minimum(ends[a:b], high) - begin
        index = np.repeat(np.arange(a, b), repeats)
        # A row's offset is its place among all rows, plus the distance of its record's first offset from its
        # first place.
        yield records[index], np.arange(low, high) + (firsts[a:b] - starts)[index - a]


def _routing_columns(
    records: Records, log: LogRef, names: Names, columns: Sequence[str], times: Any
) -> list[Take]:
    rows = records.rows
    flags = rows["flags"]
    routes = rows["route_id"]

    def by_route(values: Any) -> Take:
        return lambda index, _: values.take(pa.array(routes[index]))

    def key() -> Take:
        lengths, sizes = records.pieces("key_end")
        records.check_length(sizes)
        keys = as_text(binary(np.concatenate(([0], np.cumsum(lengths))), records.heap(0, sizes)))
        own = (flags & layout.EVENT_SAME_KEY) == 0
        if own.all():
            return taken(keys)
        # A record without a key of its own has the key of the last record before it that has one.
        source = np.maximum.accumulate(np.where(own, np.arange(records.total), 0))
        return lambda index, _: keys.take(pa.array(source[index]))

    stamp = arrow_type("timestamp")
    makers: dict[str, Callable[[], Take]] = {
        "node": lambda: constant(log.node, "string"),
        "vhost": lambda: constant(log.vhost, "string"),
        "partition": lambda: constant(log.partition, "int"),
        "offset": lambda: lambda _, offsets: pa.array(offsets, pa.int64()),
        "timestamp": lambda: lambda index, _: pa.array(times[index], pa.int64()).view(stamp),
        "exchange": lambda: by_route(names.exchange),
        "routing_key": key,
        "queues": lambda: by_route(names.queues),
        "route_id": lambda: numbers(routes, pa.int32()),
        "fanout": lambda: numbers(names.fanout[routes], pa.int32()),
        "unroutable": lambda: flag(flags, layout.EVENT_UNROUTABLE),
        "returned": lambda: flag(flags, layout.EVENT_RETURNED),
        "mandatory": lambda: flag(flags, layout.EVENT_MANDATORY),
        "persistent": lambda: flag(flags, layout.EVENT_PERSISTENT),
        "confirmed": lambda: flag(flags, layout.EVENT_CONFIRMED),
        "refused": lambda: flag(flags, layout.EVENT_REFUSED),
        "body_size": lambda: numbers(rows["body_size"], pa.int64()),
    }
    return [makers[name]() for name in columns]
