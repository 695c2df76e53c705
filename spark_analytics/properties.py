"""Decodes the properties (class basic) of many messages at once.

Each value begins where the one before it ends. One step for each of the fourteen properties, over all
messages, finds the place of every value. Only header tables are decoded one by one, each distinct one once.
In malformed properties the broken value and all after it are null.

Source: AMQP 0-9-1, sections 4.2.5.5 and 4.2.6.1, class basic; RabbitMQ, "AMQP 0-9-1 Errata", section 3
(tags).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from .decode import as_text
from .schema import arrow_type

#: Column, flag and kind of each property in wire order. s: short string, t: table, 1 and 8: unsigned integer.
PROPERTIES = (
    ("content_type", 0x8000, "s"),
    ("content_encoding", 0x4000, "s"),
    ("headers", 0x2000, "t"),
    ("delivery_mode", 0x1000, "1"),
    ("priority", 0x0800, "1"),
    ("correlation_id", 0x0400, "s"),
    ("reply_to", 0x0200, "s"),
    ("expiration", 0x0100, "s"),
    ("message_id", 0x0080, "s"),
    ("message_timestamp", 0x0040, "8"),
    ("type", 0x0020, "s"),
    ("user_id", 0x0010, "s"),
    ("app_id", 0x0008, "s"),
    ("cluster_id", 0x0004, "s"),
)
#: The end of the year 9999, the latest time of Python and Spark. Without this limit, one client that sends
#: milliseconds for seconds would make every ``collect()`` fail.
_SECONDS_MAX = 253_402_300_799
#: Nesting of tables and arrays up to which they are decoded, as in the broker. Clients may nest deeper.
_DEPTH_MAX = 64
#: A scale of up to 255 digits, and the 10 of 32 bits.
_EXACT = Context(prec=300)
_NUMBERS = {
    tag: struct.Struct(code)
    for tag, code in (
        (b"b", ">b"),
        (b"B", ">B"),
        (b"s", ">h"),
        (b"u", ">H"),
        (b"I", ">i"),
        (b"i", ">I"),
        (b"l", ">q"),
        (b"L", ">q"),
        (b"f", ">f"),
        (b"d", ">d"),
    )
}
#: Made once, because ``json.dumps`` makes an encoder for every call.
_as_json = json.JSONEncoder(ensure_ascii=False, default=lambda value: format(value, "f")).encode


class PropertyColumns:
    """The wanted properties of messages whose raw properties follow one another in ``heap``.

    ``starts`` and ``ends`` delimit each message's piece of it.
    """

    def __init__(self, heap: bytes, starts: Any, ends: Any, wanted: Iterable[str]) -> None:
        self._heap = heap
        # Reads after the end see zeros. A value counts only if its end is inside of the piece.
        octets = np.frombuffer(heap + bytes(16), np.uint8).astype(np.int64)
        self._limit = len(heap)
        self._octets = octets
        self._columns: dict[str, Any] = {}
        left = set(wanted)
        flags = self._integer(starts, 2)
        # Class basic does not use bits 0 and 1.
        good = (starts + 2 <= ends) & ((flags & 3) == 0)
        position = starts + 2
        for name, bit, kind in PROPERTIES:
            if not left:
                break
            there = good & ((flags & bit) != 0)
            sizes, skip = self._sizes(position, kind)
            begin = position + skip
            end = begin + sizes
            fits = end <= ends
            good &= fits | ~there
            there &= fits
            if name in left:
                self._columns[name] = self._column(name, kind, begin, end, there)
                left.discard(name)
            position = np.where(there, end, position)

    def column(self, name: str) -> Any:
        """An Arrow array, one value per message."""
        return self._columns[name]

    def _integer(self, at: Any, octets: int) -> Any:
        """Big-endian unsigned integers. Values above 63 bits become negative."""
        value = np.zeros(len(at), np.int64)
        for number in range(octets):
            value = value << 8 | self._octets[np.minimum(at + number, self._limit)]
        return value

    def _sizes(self, at: Any, kind: str) -> tuple[Any, int]:
        """Sizes of the values at these places, and of the lengths before them."""
        if kind == "s":
            return self._integer(at, 1), 1
        if kind == "t":
            return self._integer(at, 4), 4
        return np.full(len(at), int(kind), np.int64), 0

    def _column(self, name: str, kind: str, begin: Any, end: Any, there: Any) -> Any:
        if kind == "1":
            return pa.array(self._integer(begin, 1), pa.int32(), mask=~there)
        if kind == "8":
            seconds = self._integer(begin, 8)
            there = there & (seconds >= 0) & (seconds <= _SECONDS_MAX)
            micros = np.where(there, seconds, 0) * 1_000_000
            return pa.array(micros, pa.int64(), mask=~there).view(arrow_type("timestamp"))
        values = self._slices(begin, end, there)
        if kind == "t":
            return _maps(values)
        return as_text(values)

    def _slices(self, begin: Any, end: Any, there: Any) -> Any:
        """A binary array of pieces of the heap, in rising order; null where a message has none."""
        chosen = np.flatnonzero(there)
        bounds = np.zeros(2 * len(chosen) + 1, np.int32)
        bounds[0:-1:2], bounds[1::2] = begin[chosen], end[chosen]
        bounds[-1] = bounds[-2] if len(chosen) else 0
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._heap)]
        # Every other value is the gap between two wanted ones.
        pieces = pa.Array.from_buffers(pa.binary(), 2 * len(chosen), buffers)
        index = np.zeros(len(there), np.int64)
        index[chosen] = np.arange(0, 2 * len(chosen), 2)
        return pieces.take(pa.array(index, mask=~there))


def _maps(tables: Any) -> Any:
    """Header tables as maps of text, each distinct one decoded once."""
    encoded = tables.dictionary_encode()
    names: list[str] = []
    texts: list[str | None] = []
    bounds: list[int | None] = []
    for table in encoded.dictionary.to_pylist():
        entries = None if table is None else header_texts(table)
        bounds.append(None if entries is None else len(names))
        if entries is not None:
            names += entries
            texts += entries.values()
    bounds.append(len(names))
    columns = (pa.array(bounds, pa.int32()), pa.array(names, pa.string()), pa.array(texts, pa.string()))
    return pa.MapArray.from_arrays(*columns).take(encoded.indices)


def header_texts(table: bytes) -> dict[str, str | None] | None:
    """The entries of a headers table (without its size) as text; None if it is malformed.

    Text and octets are text (octets that are no UTF-8 as base64), numbers and booleans as JSON, times as
    ISO 8601 (beyond the year 9999 as seconds), decimals as their digits, tables and arrays as JSON text (with
    decimals as text, which JSON's numbers would round), void is null. Of two entries with one name the first
    counts. A table or array that is nested more than 64 deep becomes a note with its size.
    """
    try:
        values, end = _table(table, 0, len(table), 0)
    except (IndexError, ValueError, struct.error):
        return None
    return {name: _as_text(value) for name, value in values.items()} if end == len(table) else None


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value) if type(value) is int else _as_json(value)


# A read after the end of a table gives a place after its end, which is checked once for each value.
def _table(data: bytes, at: int, end: int, depth: int) -> tuple[dict[str, Any], int]:
    values: dict[str, Any] = {}
    while at < end:
        begin = at + 1
        at = begin + data[at]
        name = data[begin:at].decode("utf-8", "replace")
        value, at = _value(data, at, depth)
        if at > end:
            raise ValueError("a value reaches beyond its table")
        values.setdefault(name, value)
    return values, at


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The field value whose tag is at ``at``, and the place after it."""
    tag = data[at : at + 1]
    at += 1
    number = _NUMBERS.get(tag)
    if number is not None:
        return number.unpack_from(data, at)[0], at + number.size
    if tag == b"V":
        return None, at
    if tag == b"t":
        return data[at] != 0, at + 1
    if tag == b"D":
        scale, unscaled = struct.unpack_from(">Bi", data, at)
        return Decimal(unscaled).scaleb(-scale, _EXACT), at + 5
    if tag == b"T":
        seconds = int.from_bytes(data[at : at + 8], "big")
        try:
            return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z"), at + 8
        except (ValueError, OverflowError, OSError):  # beyond the year 9999
            return seconds, at + 8
    begin = at + 4
    end = begin + int.from_bytes(data[at:begin], "big")
    if tag in (b"S", b"x"):
        content = data[begin:end]
        try:
            return content.decode(), end
        except UnicodeDecodeError:
            return base64.b64encode(content).decode(), end
    if tag in (b"F", b"A") and depth == _DEPTH_MAX:
        return f"({end - begin} octets, nested more than {_DEPTH_MAX} deep)", end
    if tag == b"F":
        return _table(data, begin, end, depth + 1)
    if tag == b"A":
        items = []
        at = begin
        while at < end:
            item, at = _value(data, at, depth + 1)
            items.append(item)
        if at > end:
            raise ValueError("a value reaches beyond its array")
        return items, at
    raise ValueError(f"unknown tag {tag!r}")
