"""Field tables: the typed maps of arguments, headers and client properties.

A value is a pair ``(tag, value)``; the tag is the letter that RabbitMQ and its clients use on the wire,
which differs from the specification's. The tag is kept so that a table can be passed on byte for byte, and
errors can name the type that the client sent.

    tag  Python value                        octets          tag  Python value                 octets
    t    bool                                1               f    float                        4
    b B  int, signed and unsigned            1               d    float                        8
    s u  int, signed and unsigned            2               D    (scale, int), both exact     1 + 4
    I i  int, signed and unsigned            4               T    int, seconds since 1970      8
    l L  int, signed both                    8               S x  bytes, text and binary       4 + n
    V    None                                0               A    list of pairs                4 + n
                                                             F    dict of name to pair         4 + n

A table is a u32 size, then for each entry: name (u8 size and octets), tag, value. All is big-endian.
Names are text: UTF-8 with surrogateescape, so that any octets encode back to themselves. Of two entries
with one name the first counts, as in RabbitMQ.

Tables and arrays may be nested as deep as a frame has room for, as in RabbitMQ. Below ``DECODED_DEPTH``
levels the value of a table or array is its octets (bytes, u32 size first) instead of a dict or list. So any
reader of a decoded table may be recursive; Python's printing, comparing and hashing are.

Compiled: see ``fields.pxd``.

Source: AMQP 0-9-1, section 4.2.5.5; RabbitMQ, "AMQP 0-9-1 Errata", section 3 (tags).
"""

from __future__ import annotations

import calendar
import datetime
import decimal
import struct
from collections.abc import Mapping
from typing import Any

from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.nested import DECODED_DEPTH, end_of_nested, nested_note
from amqp_router.protocol.type_names import TYPE_NAMES

__all__ = [
    "TYPE_NAMES",
    "Field",
    "FieldError",
    "Table",
    "decode_table",
    "encode_plain",
    "encode_table",
    "outer_field",
    "outer_table",
    "plain",
    "plain_value",
    "skip_table",
    "unnested",
]

Field = tuple[str, Any]
Table = dict[str, Field]

#: Size in octets and signedness of the integer tags.
_INTEGERS = {
    "b": (1, True),
    "B": (1, False),
    "s": (2, True),
    "u": (2, False),
    "I": (4, True),
    "i": (4, False),
    "l": (8, True),
    "L": (8, True),
    "T": (8, False),
}

_DEPTH_MAX = DECODED_DEPTH  # a C integer where compiled
_FLOAT = struct.Struct(">f")
_DOUBLE = struct.Struct(">d")


def decode_table(data: bytes, pos: int) -> tuple[Table, int]:
    """Decode the table whose u32 size stands at ``pos``; return it and the position after it.

    Raises:
        FieldError: the octets are no table.
    """
    reader = _Reader(data, pos)
    table = reader.table(0)
    return table, reader.pos


def outer_table(data: bytes, pos: int) -> Table:
    """As ``decode_table``, but tables and arrays in the table stay octets, as those that are nested too
    deeply do. One client's array of 60,000 values takes some 10 ms to decode.

    Raises:
        FieldError: the octets are no table.
    """
    return _Reader(data, pos).table(_DEPTH_MAX)


def outer_field(data: bytes, pos: int) -> Field:
    """The value whose tag stands at ``pos``; as in an ``outer_table``.

    Raises:
        FieldError: the octets are no value.
    """
    return _Reader(data, pos).field(_DEPTH_MAX)


def unnested(field: Field, depth: int = 1) -> Field:
    """A value of an ``outer_table`` as ``decode_table`` gives it; with ``DECODED_DEPTH`` its own stay octets.

    Raises:
        FieldError: the octets are no table or array.
    """
    tag, value = field
    if not isinstance(value, bytes):
        return field
    if tag == "A":
        return tag, _Reader(value, 0).array(depth)
    if tag == "F":
        return tag, _Reader(value, 0).table(depth)
    return field


def skip_table(data: bytes, pos: int) -> int:
    """The position after the table whose u32 size stands at ``pos``; its entries are not looked at.

    Raises:
        FieldError: it reaches beyond the end of ``data``.
    """
    return _Reader(data, pos).sized_end()


def encode_table(table: Mapping[str, Field]) -> bytes:
    """``table`` as octets, its u32 size first.

    Raises:
        FieldError: a value does not fit its tag, a name exceeds 255 octets, or the nesting is too deep: more
            than ``DECODED_DEPTH`` levels of dicts and lists, which no decoded table has.
    """
    out = bytearray()
    try:
        _put_table(out, table, 0)
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        raise FieldError(str(error)) from error
    return bytes(out)


def encode_plain(values: Mapping[str, Any]) -> bytes:
    """A map of ordinary Python values as an encoded table.

    str becomes S, bytes x, bool t, int I or l by size, float d, Decimal D, datetime T (naive ones are UTC),
    list and tuple A, dict F, None V.

    Raises:
        FieldError: a value of another type, or out of its type's range.
    """
    return encode_table({name: _typed(value, 0) for name, value in values.items()})


def plain(table: Mapping[str, Field]) -> dict[str, Any]:
    """The values of ``table`` without tags: S is str, D Decimal, T int seconds, the others as they are.

    What is nested too deeply to be decoded is a note that says so.
    """
    return {name: plain_value(field) for name, field in table.items()}


def plain_value(field: Field) -> Any:
    """One value without its tag; see ``plain``."""
    tag, value = field
    if tag == "S":
        return value.decode("utf-8", "surrogateescape")
    if tag in ("F", "A") and isinstance(value, bytes):
        return nested_note(value)
    if tag == "F":
        return plain(value)
    if tag == "A":
        return [plain_value(item) for item in value]
    if tag == "D":
        scale, number = value
        return decimal.Decimal(number).scaleb(-scale)
    return value


class _Reader:
    """Reads values from ``data[pos:end]`` and moves ``pos`` on. ``end`` is that of the innermost table."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data)

    def table(self, depth: int) -> Table:
        outer_end = self.end
        end = self.sized_end()
        self.end = end
        table: Table = {}
        while self.pos < end:
            self.need(1)
            name = self.octets(self.u8()).decode("utf-8", "surrogateescape")
            field = self.field(depth)
            if name not in table:
                table[name] = field
        self.end = outer_end
        return table

    def array(self, depth: int) -> list[Field]:
        outer_end = self.end
        end = self.sized_end()
        self.end = end
        items: list[Field] = []
        while self.pos < end:
            items.append(self.field(depth))
        self.end = outer_end
        return items

    def field(self, depth: int) -> Field:
        """One tag and value. The tags stand in the order of their frequency."""
        self.need(1)
        tag = self.u8()
        if tag == 83:  # S
            return "S", self.octets(self.size())
        if tag == 73:  # I
            return "I", self.s32()
        if tag == 108:  # l
            return "l", self.s64()
        if tag == 116:  # t
            self.need(1)
            return "t", self.u8() != 0
        if tag == 70:  # F
            return "F", self.table(depth + 1) if depth < _DEPTH_MAX else self.nested(True)
        if tag == 65:  # A
            return "A", self.array(depth + 1) if depth < _DEPTH_MAX else self.nested(False)
        if tag == 84:  # T
            return "T", self.unsigned(8)
        if tag == 100:  # d
            return "d", _DOUBLE.unpack(self.octets(8))[0]
        if tag == 86:  # V
            return "V", None
        if tag == 120:  # x
            return "x", self.octets(self.size())
        return self.rare_field(tag)

    def rare_field(self, tag: int) -> Field:
        letter = chr(tag)
        if letter in _INTEGERS:
            size, is_signed = _INTEGERS[letter]
            return letter, self.signed(size) if is_signed else self.unsigned(size)
        if letter == "f":
            return letter, _FLOAT.unpack(self.octets(4))[0]
        if letter == "D":
            self.need(5)
            # RabbitMQ reads the number as unsigned, but its clients (Java, pika) write signed ones.
            return letter, (self.u8(), self.s32())
        raise FieldError(f"unknown field type {tag}")

    def nested(self, named: bool) -> bytes:
        """The octets of a table (``named``) or array that is nested too deeply to be decoded."""
        start = self.pos
        end = end_of_nested(self.data, start, self.end, named)
        if end < 0:
            raise FieldError(f"malformed value, nested more than {DECODED_DEPTH} deep")
        self.pos = end
        return self.data[start:end]

    def need(self, count: int) -> int:
        if self.end - self.pos < count:
            raise FieldError("field table ends in the middle of a value")
        return 0

    def u8(self) -> int:
        """The next octet. The caller has called ``need``."""
        pos = self.pos
        self.pos = pos + 1
        return self.data[pos]

    def s32(self) -> int:
        number = self.size()
        return number - 4294967296 if number > 2147483647 else number

    def s64(self) -> int:
        self.need(8)
        high = self.s32()
        return high * 4294967296 + self.size()

    def size(self) -> int:
        """The next four octets, unsigned."""
        self.need(4)
        pos = self.pos
        self.pos = pos + 4
        return _u32(self.data, pos)

    def sized_end(self) -> int:
        """Where the table, array or string ends whose size comes next."""
        size = self.size()
        self.need(size)
        return self.pos + size

    def octets(self, count: int) -> bytes:
        self.need(count)
        pos = self.pos
        self.pos = pos + count
        return self.data[pos : pos + count]

    def signed(self, size: int) -> int:
        return int.from_bytes(self.octets(size), "big", signed=True)

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.octets(size), "big")


def _u32(data: bytes, pos: int) -> int:
    return data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3]


def _put_u32(out: bytearray, number: int) -> int:
    out.append(number >> 24 & 255)
    out.append(number >> 16 & 255)
    out.append(number >> 8 & 255)
    out.append(number & 255)
    return 0


def _put_table(out: bytearray, table: Mapping[str, Field], depth: int) -> int:
    start = _open(out, depth)
    for name, field in table.items():
        octets = name.encode("utf-8", "surrogateescape")
        if len(octets) > 255:
            raise FieldError(f"field name of {len(octets)} octets, at most 255 are possible")
        out.append(len(octets))
        out += octets
        _put_field(out, field, depth)
    return _close(out, start)


def _put_field(out: bytearray, field: Field, depth: int) -> int:
    tag, value = field
    if tag in ("S", "x"):
        out.append(ord(tag))
        _put_u32(out, len(value))
        out += value
    elif tag == "F":
        out.append(70)
        if isinstance(value, bytes):
            out += value
        else:
            _put_table(out, value, depth + 1)
    elif tag == "A":
        out.append(65)
        if isinstance(value, bytes):
            out += value
        else:
            _put_array(out, value, depth + 1)
    elif tag in _INTEGERS:
        size, is_signed = _INTEGERS[tag]
        out.append(ord(tag))
        out += value.to_bytes(size, "big", signed=is_signed)
    else:
        out += _rare_octets(tag, value)
    return 0


def _rare_octets(tag: str, value: Any) -> bytes:
    if tag == "t":
        return b"t\x01" if value else b"t\x00"
    if tag == "V":
        return b"V"
    if tag == "d":
        return b"d" + _DOUBLE.pack(value)
    if tag == "f":
        return b"f" + _FLOAT.pack(value)
    if tag == "D":
        scale, number = value
        octets: bytes = b"D" + scale.to_bytes(1, "big") + number.to_bytes(4, "big", signed=True)
        return octets
    raise FieldError(f"unknown field type {tag!r}")


def _put_array(out: bytearray, items: list[Field], depth: int) -> int:
    start = _open(out, depth)
    for item in items:
        _put_field(out, item, depth)
    return _close(out, start)


def _open(out: bytearray, depth: int) -> int:
    """Leave room for a size; returns the position after it."""
    if depth > DECODED_DEPTH:
        raise FieldError(f"tables nested more than {DECODED_DEPTH} deep")
    _put_u32(out, 0)
    return len(out)


def _close(out: bytearray, start: int) -> int:
    size = len(out) - start
    out[start - 4] = size >> 24 & 255
    out[start - 3] = size >> 16 & 255
    out[start - 2] = size >> 8 & 255
    out[start - 1] = size & 255
    return 0


def _typed(value: Any, depth: int) -> Field:
    """The pair for an ordinary Python value; see ``encode_plain``."""
    if depth > DECODED_DEPTH:
        raise FieldError(f"tables nested more than {DECODED_DEPTH} deep")
    if value is None:
        return "V", None
    if isinstance(value, bool):
        return "t", value
    if isinstance(value, str):
        return "S", _text_octets(value)
    if isinstance(value, bytes):
        return "x", value
    if isinstance(value, int):
        return "I" if -(2**31) <= value < 2**31 else "l", value
    if isinstance(value, float):
        return "d", value
    if isinstance(value, decimal.Decimal):
        return "D", _scaled(value)
    if isinstance(value, datetime.datetime):
        return "T", calendar.timegm(value.utctimetuple())
    if isinstance(value, list | tuple):
        return "A", [_typed(item, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return "F", {name: _typed(item, depth + 1) for name, item in value.items()}
    raise FieldError(f"no field type holds a {type(value).__name__}")


def _text_octets(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise FieldError(str(error)) from error


def _scaled(number: decimal.Decimal) -> tuple[int, int]:
    """``number`` as (scale, unscaled integer)."""
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise FieldError(f"no decimal field holds {number}")
    scale = max(0, -exponent)
    return scale, int(number.scaleb(scale))
