"""Encodes and decodes the arguments of a method, by a layout that lists their types.

A layout is a string of type names in wire order, such as ``"(short) shortstr bit bit table"``. Types in
parentheses are reserved: zero or empty when written, skipped when read, absent from the Python method.
Neighbouring bits share an octet, the first in its lowest bit.

Source: AMQP 0-9-1, sections 4.2.5 and 4.2.5.2 (bits).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from amqp_router.protocol.constants import SHORT_STRING_MAX
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.kept_table import encoded, read_arguments

#: A table without entries.
_EMPTY = bytes(4)

#: Appends what it reads at the position to the list; returns the position after it.
Read = Callable[[bytes, int, list[Any]], int]
#: Appends the octets of as many values as it is wide, from that index on.
Write = Callable[[bytearray, Sequence[Any], int], None]


class _Part(NamedTuple):
    """An argument, or up to eight bits that share an octet."""

    read: Read
    write: Write
    #: Number of arguments of the Python method that it holds.
    width: int


class Layout:
    """Decoder and encoder of one method's arguments."""

    def __init__(self, types: str) -> None:
        self._parts = _parts(types.split())

    def decode(self, data: bytes, pos: int) -> list[Any]:
        """The arguments from ``pos`` to the end of ``data``.

        Raises:
            FieldError: too few octets, too many, or a malformed table.
        """
        values: list[Any] = []
        try:
            for read, _, _ in self._parts:
                pos = read(data, pos, values)
        except (IndexError, struct.error) as error:
            raise FieldError("arguments end in the middle of a value") from error
        # This also detects a string that is cut by the end of the data.
        if pos != len(data):
            raise FieldError("arguments do not end where the frame does")
        return values

    def encode(self, out: bytearray, values: Sequence[Any]) -> None:
        """Append ``values``.

        Raises:
            FieldError: a value is out of its type's range.
        """
        start = 0
        try:
            for _, write, width in self._parts:
                write(out, values, start)
                start += width
        except (struct.error, UnicodeEncodeError) as error:
            raise FieldError(str(error)) from error


def _parts(types: list[str]) -> list[_Part]:
    parts = []
    index = 0
    while index < len(types):
        name = types[index]
        end = index + 1
        while name == "bit" and end < len(types) and types[end] == "bit":
            end += 1
        parts.append(_bits(end - index) if name == "bit" else _part(name))
        index = end
    return parts


def _part(name: str) -> _Part:
    if name.startswith("("):
        return _RESERVED[name]
    if name in _NUMBERS:
        return _number(_NUMBERS[name])
    read, write = _STRINGS[name]
    return _Part(read, write, 1)


def _number(layout: struct.Struct) -> _Part:
    def read(data: bytes, pos: int, values: list[Any]) -> int:
        values += layout.unpack_from(data, pos)
        return pos + layout.size

    def write(out: bytearray, values: Sequence[Any], at: int) -> None:
        out += layout.pack(values[at])

    return _Part(read, write, 1)


def _bits(count: int) -> _Part:
    masks = [1 << number for number in range(count)]

    def read(data: bytes, pos: int, values: list[Any]) -> int:
        octet = data[pos]
        values += [octet & mask != 0 for mask in masks]
        return pos + 1

    def write(out: bytearray, values: Sequence[Any], at: int) -> None:
        octet = 0
        for mask in masks:
            if values[at]:
                octet |= mask
            at += 1
        out.append(octet)

    return _Part(read, write, count)


def _read_short_string(data: bytes, pos: int, values: list[Any]) -> int:
    start = pos + 1
    end = start + data[pos]
    values.append(data[start:end].decode("utf-8", "surrogateescape"))
    return end


def _write_short_string(out: bytearray, values: Sequence[Any], at: int) -> None:
    octets = values[at].encode("utf-8", "surrogateescape")
    if len(octets) > SHORT_STRING_MAX:
        raise FieldError(f"short string of {len(octets)} octets, at most {SHORT_STRING_MAX} are possible")
    out.append(len(octets))
    out += octets


def _read_long_string(data: bytes, pos: int, values: list[Any]) -> int:
    start = pos + 4
    end: int = start + _NUMBERS["long"].unpack_from(data, pos)[0]
    values.append(data[start:end])
    return end


def _write_long_string(out: bytearray, values: Sequence[Any], at: int) -> None:
    octets = values[at]
    out += _NUMBERS["long"].pack(len(octets))
    out += octets


def _read_table(data: bytes, pos: int, values: list[Any]) -> int:
    if data[pos : pos + 4] == _EMPTY:  # as most are
        values.append({})
        return pos + 4
    table, end = read_arguments(data, pos)
    values.append(table)
    return end


def _write_table(out: bytearray, values: Sequence[Any], at: int) -> None:
    out += encoded(values[at])


def _reserved(part: _Part, octets: bytes) -> _Part:
    def read(data: bytes, pos: int, values: list[Any]) -> int:
        return part.read(data, pos, [])

    def write(out: bytearray, values: Sequence[Any], at: int) -> None:
        out += octets

    return _Part(read, write, 0)


_NUMBERS = {
    "octet": struct.Struct(">B"),
    "short": struct.Struct(">H"),
    "long": struct.Struct(">I"),
    "longlong": struct.Struct(">Q"),
}

_STRINGS: dict[str, tuple[Read, Write]] = {
    "shortstr": (_read_short_string, _write_short_string),
    "longstr": (_read_long_string, _write_long_string),
    "table": (_read_table, _write_table),
}

_RESERVED = {
    "(short)": _reserved(_number(_NUMBERS["short"]), bytes(2)),
    "(shortstr)": _reserved(_part("shortstr"), bytes(1)),
    "(longstr)": _reserved(_part("longstr"), bytes(4)),
    "(bit)": _reserved(_bits(1), bytes(1)),
}
