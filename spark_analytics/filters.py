"""Filters that Spark hands to the reader, as far as they narrow what is read.

They only narrow: every filter goes back to Spark, which checks each row again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from .options import Selection, microseconds

#: Column of an equality or IN -> the set in a selection that it narrows.
_SETS = {"vhost": "vhosts", "exchange": "exchanges", "queue": "queues", "partition": "partitions"}
#: Lower bounds: what to add to the value for the first wanted one; upper bounds: for the first unwanted one.
_LOWER = {"GreaterThan": 1, "GreaterThanOrEqual": 0, "EqualTo": 0}
_UPPER = {"LessThan": 0, "LessThanOrEqual": 1, "EqualTo": 1}


def narrow(selection: Selection, filters: Iterable[Any]) -> Selection:
    """The selection with what ``pyspark.sql.datasource`` filters say about columns it knows."""
    for item in filters:
        kind = type(item).__name__
        column = ".".join(getattr(item, "attribute", ()))
        value: Any = getattr(item, "value", None)
        if kind in ("EqualTo", "In") and column in _SETS:
            # NULL among the values of an IN finds nothing.
            values = frozenset(value if kind == "In" else [value]) - {None}
            name = _SETS[column]
            known = getattr(selection, name)
            narrowed: Any = {name: values if known is None else known & values}
            selection = replace(selection, **narrowed)
        elif column == "timestamp" and isinstance(value, datetime):
            selection = _bound(selection, "start_us", "end_us", kind, microseconds(value))
        elif column == "offset" and isinstance(value, int):
            selection = _bound(selection, "from_offset", "below_offset", kind, value)
    return selection


def _bound(selection: Selection, lower: str, upper: str, kind: str, value: int) -> Selection:
    bounds: Any = {}
    if kind in _LOWER:
        known, first = getattr(selection, lower), value + _LOWER[kind]
        bounds[lower] = first if known is None else max(known, first)
    if kind in _UPPER:
        known, end = getattr(selection, upper), value + _UPPER[kind]
        bounds[upper] = end if known is None else min(known, end)
    return replace(selection, **bounds)
