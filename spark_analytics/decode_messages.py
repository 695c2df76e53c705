"""Decodes windows of MESSAGES batches to Arrow. Heaps that no wanted column needs are not copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import layout
from .decode import Records, Take, as_text, binary, constant, flag, numbers
from .options import Selection
from .outcomes import Ends, Outcomes
from .planning import LogRef
from .properties import PROPERTIES, PropertyColumns
from .schema import arrow_type
from .sections import Sections
from .segments import Piece, Window

#: ``priority`` is in the record too, and taken from there.
_FROM_PROPERTIES = {name for name, _, _ in PROPERTIES} - {"priority"}
_ARROW_BYTES_MAX = (1 << 31) - 1


def decode_messages(
    window: Window,
    log: LogRef,
    piece: Piece,
    outcomes: Outcomes | None,
    columns: Sequence[str],
    selection: Selection,
    batch_rows: int,
    schema: Any,
) -> Iterator[Any]:
    """Record batches of at most ``batch_rows`` messages that the selection wants.

    ``outcomes`` is needed for the columns that it has.

    Raises:
        CorruptLog: the numbers of a batch contradict one another.
    """
    decoder = _Decoder(window, log, outcomes)
    records = decoder.records
    offsets = records.base[records.batch] + records.rows["offset_delta"]
    wanted = (offsets >= piece.low) & (offsets < piece.high)
    times = records.times()
    if selection.start_us is not None:
        wanted &= times >= selection.start_us
    if selection.end_us is not None:
        wanted &= times < selection.end_us
    if selection.exchanges is not None:
        names = pa.array(sorted(selection.exchanges), pa.string())
        found = pc.is_in(decoder.exchange(), value_set=names)
        wanted &= found.to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return
    makers = decoder.makers(columns, offsets, times)
    for at in range(0, len(chosen), batch_rows):
        index = chosen[at : at + batch_rows]
        yield pa.RecordBatch.from_arrays([make(index, None) for make in makers], schema=schema)


def _taken(values: Any) -> Take:
    """A column of an Arrow array, one value per record. A contiguous range is not copied."""

    def make(index: Any, _: Any) -> Any:
        first, count = int(index[0]), len(index)
        # Each record is one row here, so rising indices without a gap are a range.
        is_range = int(index[-1]) - first + 1 == count
        return values.slice(first, count) if is_range else values.take(pa.array(index))

    return make


def _ended(ends: Ends) -> Any:
    """When each message ended, in microseconds; null if it has not."""
    return pa.array(ends.time_us, pa.int64(), mask=ends.kind == 0)


class _Decoder:
    """Columns of one window. Each heap and each derived column is made once, when it is first used."""

    def __init__(self, window: Window, log: LogRef, outcomes: Outcomes | None) -> None:
        self.log = log
        self._outcomes = outcomes
        self._ends: Ends | None = None
        self.records = records = Records(window, layout.MESSAGE_FIELDS)
        self.route_lengths, self.route_sizes = records.pieces("route_end")
        self.property_lengths, self.property_sizes = records.pieces("properties_end")
        self.body_lengths, self.body_sizes = records.pieces("body_end")
        records.check_length(self.route_sizes + self.property_sizes + self.body_sizes)
        self._sections: Sections | None = None
        self._routes: tuple[Any, Any] | None = None

    def exchange(self) -> Any:
        return self._route(1)

    def _route(self, part: int) -> Any:
        """Exchange (1) or routing key (3) of each record."""
        pieces, numbers_ = self._route_pieces()
        return as_text(pieces.take(pa.array(numbers_ + part)))

    def _route_pieces(self) -> tuple[Any, Any]:
        """An array of four values per distinct route, and the first of them for each record.

        A piece of the heap is length, exchange, length, routing key. The second and the fourth value are the
        wanted ones. An empty piece means the route of the record before.
        """
        if self._routes is not None:
            return self._routes
        records = self.records
        own = self.route_lengths > 0
        ends = np.cumsum(self.route_lengths)[own]
        starts = ends - self.route_lengths[own]
        heap = records.heap(0, self.route_sizes)
        octets = np.frombuffer(heap, np.uint8).astype(np.int64)
        exchange_ends = starts + 1 + octets[starts]
        good = exchange_ends < ends
        key_sizes = octets[np.where(good, exchange_ends, starts)]
        good &= exchange_ends + 1 + key_sizes == ends
        if not good.all() or not own[records.first].all():
            batch = int(records.batch[np.flatnonzero(own)[int(good.argmin())]]) if not good.all() else 0
            raise records.window.error(batch, "a route is not two short strings")
        bounds = np.empty(4 * len(starts) + 1, np.int64)
        bounds[0:-1:4], bounds[1::4], bounds[2::4], bounds[3::4] = (
            starts,
            starts + 1,
            exchange_ends,
            exchange_ends + 1,
        )
        bounds[-1] = len(heap)
        self._routes = binary(bounds, heap), 4 * (np.cumsum(own) - 1)
        return self._routes

    def makers(self, columns: Sequence[str], offsets: Any, times: Any) -> list[Take]:
        """A maker per column: (indices of records) -> Arrow array."""
        records = self.records
        rows = records.rows
        flags = rows["flags"]
        log = self.log
        wanted = [name for name in columns if name in _FROM_PROPERTIES]
        properties = self._properties(wanted) if wanted else None
        stamp = arrow_type("timestamp")
        makers: dict[str, Callable[[], Take]] = {
            "node": lambda: constant(log.node, "string"),
            "vhost": lambda: constant(log.vhost, "string"),
            "queue": lambda: constant(log.queue, "string"),
            "log": lambda: constant(log.id, "string"),
            "epoch": lambda: numbers(records.window.headers["epoch"][records.batch], pa.int64()),
            "partition": lambda: constant(log.partition, "int"),
            "offset": lambda: numbers(offsets, pa.int64()),
            "timestamp": lambda: lambda index, _: pa.array(times[index], pa.int64()).view(stamp),
            "exchange": lambda: _taken(self.exchange()),
            "routing_key": lambda: _taken(self._route(3)),
            "body_size": lambda: numbers(self.body_lengths, pa.int64()),
            "persistent": lambda: flag(flags, layout.MESSAGE_PERSISTENT),
            "redelivered": lambda: flag(flags, layout.MESSAGE_REDELIVERED),
            "delivery_count": lambda: numbers(rows["delivery_count"], pa.int32()),
            "priority": lambda: numbers(rows["priority"], pa.int32()),
            "deadline": lambda: _taken(self._deadlines(times).view(stamp)),
            "due": lambda: _taken(pa.array(self.sections().due, pa.int64()).view(stamp)),
            "source_log": lambda: _taken(pa.array(self.sections().source_logs, pa.string())),
            "source_epoch": lambda: _taken(pa.array(self.sections().source_epochs, pa.int64())),
            "source_offset": lambda: _taken(pa.array(self.sections().source_offsets, pa.int64())),
            "outcome": lambda: _taken(pa.array(self.ends(offsets).outcomes(), pa.string())),
            "outcome_reason": lambda: _taken(pa.array(self.ends(offsets).reasons(), pa.string())),
            "outcome_timestamp": lambda: _taken(_ended(self.ends(offsets)).view(stamp)),
            "returns": lambda: numbers(self.ends(offsets).returns, pa.int32()),
            "properties": lambda: _taken(self._heap_column(self.property_lengths, self._property_heap())),
            "body": lambda: _taken(self._heap_column(self.body_lengths, self._body_heap())),
        }
        return [
            _taken(properties.column(name)) if properties is not None and name in wanted else makers[name]()
            for name in columns
        ]

    def ends(self, offsets: Any) -> Ends:
        """What became of the records, which are at ``offsets``."""
        if self._ends is None:
            assert self._outcomes is not None  # one of its columns is wanted
            self._ends = self._outcomes.of(offsets)
        return self._ends

    def sections(self) -> Sections:
        """What some of the records have besides."""
        if self._sections is None:
            heaps = self.records.heaps + self.route_sizes + self.property_sizes + self.body_sizes
            self._sections = Sections(self.records, heaps)
        return self._sections

    def _deadlines(self, times: Any) -> Any:
        """When each message expires, in microseconds; null if it never does."""
        rows = self.records.rows
        expire_ms = rows["expire_ms"].astype(np.int64) | rows["expire_high"].astype(np.int64) << 32
        never = expire_ms == layout.NO_EXPIRY
        return pa.array(times + expire_ms * 1000, pa.int64(), mask=never)

    def _heap_column(self, lengths: Any, heap: bytes) -> Any:
        if len(heap) > _ARROW_BYTES_MAX:
            raise self.records.window.error(0, f"{len(heap)} bytes in one batch are more than Arrow takes")
        return binary(np.concatenate(([0], np.cumsum(lengths))), heap)

    def _property_heap(self) -> bytes:
        return self.records.heap(self.route_sizes, self.property_sizes)

    def _body_heap(self) -> bytes:
        return self.records.heap(self.route_sizes + self.property_sizes, self.body_sizes)

    def _properties(self, wanted: Sequence[str]) -> PropertyColumns:
        ends = np.cumsum(self.property_lengths)
        return PropertyColumns(self._property_heap(), ends - self.property_lengths, ends, wanted)
