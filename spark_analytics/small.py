"""The tables of ``statistics``, counted by Arrow in this process. For small logs this is faster than a start
of Spark.

The log must fit into memory a few times over. ``statistics`` gives the same tables for larger ones; a test
compares both.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow import end_offsets, read_arrow
from .options import parse_options
from .snapshot import take_snapshot

#: Larger logs are counted by Spark. This size takes about two seconds of one processor and half a gigabyte.
SMALL_BYTES = 64 << 20
_HOUR_US = 3600 * 1_000_000


def log_bytes(path: str | os.PathLike[str], table: str, **options: Any) -> int:
    """Bytes of log that a read of the table would read."""
    asked = parse_options({"path": os.fspath(path), "table": table, **options})
    return sum(segment.size for log in take_snapshot(asked) for segment in log.segments)


class SmallStats:
    """As ``RoutingStats``, but each table is a list of rows by name, at most ``limit`` of them."""

    def __init__(self, path: str | os.PathLike[str], limit: int, **options: Any) -> None:
        self._path = path
        self._limit = limit
        self._options = options
        columns = "vhost,exchange,routing_key,timestamp,queues,body_size,fanout,unroutable,returned,refused"
        ends = end_offsets(path)
        self._events = read_arrow(path, columns=columns, endingOffsets=ends, **options)

    def per_exchange(self) -> list[dict[str, Any]]:
        """vhost, exchange, messages, bytes, unroutable, returned, copies; most messages first."""
        return self._grouped(self._events, ["vhost", "exchange"], "unroutable", "returned", copies="fanout")

    def per_routing_key(self) -> list[dict[str, Any]]:
        """vhost, exchange, routing_key, messages, bytes, unroutable; most messages first."""
        return self._grouped(self._events, ["vhost", "exchange", "routing_key"], "unroutable")

    def per_queue(self) -> list[dict[str, Any]]:
        """vhost, queue, messages, bytes; most messages first."""
        queues = self._events["queues"].combine_chunks()
        rows = self._events.select(["vhost", "body_size"]).take(pc.list_parent_indices(queues))
        return self._grouped(rows.append_column("queue", pc.list_flatten(queues)), ["vhost", "queue"])

    def per_hour(self, *, timestamp: str = "broker", queues: Any = None) -> list[dict[str, Any]]:
        """vhost, hour (UTC), messages, bytes; ``broker`` time adds unroutable. In order of time."""
        if timestamp == "broker":
            return self._hours(self._events, "timestamp", "unroutable")
        rows = read_arrow(
            self._path,
            table="messages",
            columns="vhost,message_timestamp,body_size",
            **self._options,
            **({} if queues is None else {"queues": queues}),
        )
        return self._hours(rows, "message_timestamp")

    def unroutable(self) -> list[dict[str, Any]]:
        """vhost, exchange, routing_key, messages, returned of what went to no queue; most first."""
        rows = self._events.filter(self._events["unroutable"])
        found = self._grouped(rows, ["vhost", "exchange", "routing_key"], "returned")
        return [{name: value for name, value in row.items() if name != "bytes"} for row in found]

    def totals(self) -> dict[str, Any]:
        """messages, bytes, unroutable, returned, refused, copies, and the first and last time."""
        events = self._events
        times = pc.min_max(events["timestamp"])
        return {
            "messages": events.num_rows,
            "bytes": pc.sum(events["body_size"]).as_py() or 0,
            **{flag: pc.sum(events[flag]).as_py() or 0 for flag in ("unroutable", "returned", "refused")},
            "copies": pc.sum(events["fanout"]).as_py() or 0,
            "first": times["min"].as_py(),
            "last": times["max"].as_py(),
        }

    def _grouped(self, rows: Any, keys: list[str], *flags: str, **sums: str) -> list[dict[str, Any]]:
        found = _sums(rows, keys, *flags, **sums)
        order = [("messages", "descending"), *((key, "ascending") for key in keys)]
        return list(found.sort_by(order).slice(0, self._limit).to_pylist())

    def _hours(self, rows: Any, column: str, *flags: str) -> list[dict[str, Any]]:
        micros = rows[column].combine_chunks().view(pa.int64())
        known = np.asarray(pc.fill_null(micros, 0))
        hours = pa.array(known - known % _HOUR_US, pa.int64(), mask=np.asarray(pc.is_null(micros)))
        rows = rows.append_column("hour", hours.view(pa.timestamp("us", tz="UTC")))
        found = _sums(rows, ["vhost", "hour"], *flags)
        # Rows without a time come first, as in Spark.
        order = [("vhost", "ascending"), ("known", "ascending"), ("hour", "ascending")]
        found = found.append_column("known", pc.is_valid(found["hour"]).cast(pa.int8())).sort_by(order)
        return list(found.drop_columns("known").slice(0, self._limit).to_pylist())


def _sums(rows: Any, keys: list[str], *flags: str, **sums: str) -> Any:
    """Messages and bytes by key, how often each flag is set, and named sums of other columns."""
    wanted: list[tuple[Any, str]] = [([], "count_all"), ("body_size", "sum")]
    names = ["messages", "bytes", *flags, *sums]
    wanted += [(column, "sum") for column in (*flags, *sums.values())]
    found = rows.group_by(keys).aggregate(wanted)
    made = ["count_all", "body_size_sum", *(f"{column}_sum" for column in (*flags, *sums.values()))]
    table = found.select([*keys, *made]).rename_columns([*keys, *names])
    for place, name in enumerate(names, len(keys)):
        table = table.set_column(place, name, pc.fill_null(table[name].cast(pa.int64()), 0))
    return table
