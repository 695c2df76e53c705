"""Message properties (class basic) of many messages at once.

Each value stands where the ones before it end, so a walk over the fourteen properties, each step over all
messages, finds every value's place; only header tables are decoded one by one, each distinct one once.
What a client sent malformed gives nulls from the broken value on.

Source: AMQP 0-9-1, sections 4.2.5.5 and 4.2.6.1, class basic; RabbitMQ's errata, section 3 (field tags).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

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
#: Seconds that fit a timestamp column (microseconds in 63 bits).
_SECONDS_MAX = (1 << 63) // 1_000_000 - 1
_DEPTH_MAX = 64
_NUMBERS = {
    "b": ">b",
    "B": ">B",
    "s": ">h",
    "u": ">H",
    "I": ">i",
    "i": ">I",
    "l": ">q",
    "L": ">q",
    "f": ">f",
    "d": ">d",
}


class PropertyColumns:
    """The wanted properties of messages whose raw properties stand one after the other in ``heap``.

    ``starts`` and ``ends`` are each message's piece of it.
    """

    def __init__(self, heap: bytes, starts: Any, ends: Any, wanted: Iterable[str]) -> None:
        self._heap = heap
        # Reads behind the end see zeros; whether a value really is there is decided by its end.
        octets = np.frombuffer(heap + bytes(16), np.uint8).astype(np.int64)
        self._limit = len(heap)
        self._octets = octets
        self._columns: dict[str, Any] = {}
        left = set(wanted)
        flags = self._integer(starts, 2)
        # Bits 0 and 1 announce what class basic does not have.
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
        """Big-endian unsigned; what does not fit 63 bits shows negative."""
        value = np.zeros(len(at), np.int64)
        for number in range(octets):
            value = value << 8 | self._octets[np.minimum(at + number, self._limit)]
        return value

    def _sizes(self, at: Any, kind: str) -> tuple[Any, int]:
        """Octets of the values at these places, and of the lengths before them."""
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
        return _texts(values)

    def _slices(self, begin: Any, end: Any, there: Any) -> Any:
        """A binary array of pieces of the heap, in rising order, null where nothing is there."""
        chosen = np.flatnonzero(there)
        bounds = np.zeros(2 * len(chosen) + 1, np.int32)
        bounds[0:-1:2], bounds[1::2] = begin[chosen], end[chosen]
        bounds[-1] = bounds[-2] if len(chosen) else 0
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._heap)]
        # Every other value is what stands between two of ours.
        pieces = pa.Array.from_buffers(pa.binary(), 2 * len(chosen), buffers)
        index = np.zeros(len(there), np.int64)
        index[chosen] = np.arange(0, 2 * len(chosen), 2)
        return pieces.take(pa.array(index, mask=~there))


def _texts(values: Any) -> Any:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())


def _maps(tables: Any) -> Any:
    """Header tables as maps of text, each distinct one decoded once."""
    encoded = tables.dictionary_encode()
    decoded = [header_texts(table) for table in encoded.dictionary.to_pylist()]
    distinct = pa.array(
        [None if table is None else list(table.items()) for table in decoded],
        arrow_type("map<string,string>"),
    )
    return distinct.take(encoded.indices)


def header_texts(table: bytes) -> dict[str, str | None] | None:
    """The entries of a headers table (without its size) as text; None if it is malformed.

    Text and octets are text (octets that are no UTF-8 as base64), numbers and booleans as JSON, times as
    ISO 8601, tables and arrays as JSON text, void is null. Of two entries with one name the first counts.
    """
    try:
        values, end = _table(table, 0, len(table), 0)
    except (IndexError, ValueError, struct.error, OverflowError):
        return None
    return {name: _as_text(value) for name, value in values.items()} if end == len(table) else None


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _table(data: bytes, at: int, end: int, depth: int) -> tuple[dict[str, Any], int]:
    if depth > _DEPTH_MAX:
        raise ValueError("nested too deeply")
    values: dict[str, Any] = {}
    while at < end:
        size = data[at]
        name = _octets(data, at + 1, size, end).decode("utf-8", "replace")
        value, at = _value(data, at + 1 + size, end, depth)
        values.setdefault(name, value)
    return values, at


def _octets(data: bytes, at: int, size: int, end: int) -> bytes:
    if at + size > end:
        raise ValueError("a value reaches beyond its table")
    return data[at : at + size]


def _value(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    """One field value behind its tag at ``at``, and where the next thing begins."""
    tag = chr(_octets(data, at, 1, end)[0])
    at += 1
    if tag == "V":
        return None, at
    if tag == "t":
        return _octets(data, at, 1, end) != b"\0", at + 1
    if tag in _NUMBERS:
        code = _NUMBERS[tag]
        size = struct.calcsize(code)
        return struct.unpack(code, _octets(data, at, size, end))[0], at + size
    if tag == "D":
        scale, number = struct.unpack(">Bi", _octets(data, at, 5, end))
        return number / 10**scale, at + 5
    if tag == "T":
        seconds = int.from_bytes(_octets(data, at, 8, end), "big")
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z"), at + 8
    size = int.from_bytes(_octets(data, at, 4, end), "big")
    inner = at + 4
    content = _octets(data, inner, size, end)
    if tag in "Sx":
        try:
            return content.decode(), inner + size
        except UnicodeDecodeError:
            return base64.b64encode(content).decode(), inner + size
    if tag == "F":
        return _table(data, inner, inner + size, depth + 1)
    if tag == "A":
        items = []
        position = inner
        while position < inner + size:
            if depth > _DEPTH_MAX:
                raise ValueError("nested too deeply")
            item, position = _value(data, position, inner + size, depth + 1)
            items.append(item)
        return items, position
    raise ValueError(f"unknown tag {tag!r}")
