"""Walks over tables without making their values: where one ends, however deep it is nested, where one of its
entries is, and cutting one out of it.

Recursive readers of tables stop at ``DECODED_DEPTH`` and use this module for what is nested deeper. A frame
of 128 KiB has room for 26,000 levels, and a recursion of that depth would overflow the stack.

Compiled: see ``nested.pxd``.

Source: AMQP 0-9-1, section 4.2.5.5; the sizes of values are listed in ``fields``.
"""

from __future__ import annotations

__all__ = [
    "DECODED_DEPTH",
    "end_of_nested",
    "entry_range",
    "long_strings",
    "nested_note",
    "value_end",
    "without_entry",
]

#: Levels of tables and arrays in the outermost table that are decoded. Deeper ones stay octets.
DECODED_DEPTH = 64

# By tag: the octets of a value and one more; 0 is no tag.
_SIZES = bytearray(256)
for _tags, _size in ((b"tbB", 1), (b"su", 2), (b"Iif", 4), (b"lLTd", 8), (b"D", 5), (b"V", 0)):
    for _tag in _tags:
        _SIZES[_tag] = _size + 1
_PLAIN_SIZES = bytes(_SIZES)


def end_of_nested(data: bytes, position: int, limit: int, named: bool) -> int:
    """The end of the table, or of the array (not ``named``), whose u32 size is at ``position``.

    -1 if it or anything in it is malformed, or if it reaches beyond ``limit``. The work is one step for each
    value. The memory is at most 40 bytes for each level, and none for a level that ends together with the one
    inside.
    """
    d = data
    sizes = _PLAIN_SIZES
    outer: list[int] = []  # of each that goes on behind the one inside: twice its end, plus 1 for a table
    p = position + 4
    end = _sized_end(d, position, limit)
    while p <= end:
        if p == end:
            if not outer:
                return p
            packed = outer.pop()
            end = packed >> 1
            named = packed & 1 == 1
            continue
        if named:
            p += 1 + d[p]
            if p >= end:
                return -1
        tag = d[p]
        p += 1
        if sizes[tag]:
            p += sizes[tag] - 1
        elif tag in (83, 120):  # S x
            p = _sized_end(d, p, end)
            if p < 0:
                return -1
        elif tag in (70, 65):  # F A
            inner = _sized_end(d, p, end)
            if inner < end:  # else the outer one is complete with the inner one
                outer.append(2 * end + (1 if named else 0))
            p += 4
            end = inner
            named = tag == 70
        else:
            return -1
    return -1


def value_end(data: bytes, position: int, limit: int) -> int:
    """The end of the value whose tag is at ``position``; what a table or an array holds is not looked at.

    -1 if there is no such tag, or if the value reaches beyond ``limit``.
    """
    d = data
    sizes = _PLAIN_SIZES
    if position >= limit:
        return -1
    tag = d[position]
    if sizes[tag]:
        end = position + sizes[tag]
        return end if end <= limit else -1
    if tag in (83, 120, 70, 65):  # S x F A
        return _sized_end(d, position + 1, limit)
    return -1


def entry_range(data: bytes, position: int, name: bytes) -> tuple[int, int]:
    """Start and end of the first entry of that name, its name included, in the table whose u32 size is at
    ``position``.

    (0, 0) if there is none, (-1, -1) if what stands before it is malformed. The work is one step for each
    entry, whatever its value holds.
    """
    d = data
    sizes = _PLAIN_SIZES
    size = len(name)
    end = _sized_end(d, position, len(data))
    p = position + 4
    while p < end:
        start = p
        p += 1 + d[p]
        if p >= end:
            return -1, -1
        is_named = p - start - 1 == size and data[start + 1 : p] == name
        tag = d[p]
        p += 1
        if sizes[tag]:
            p += sizes[tag] - 1
        elif tag in (83, 120, 70, 65):  # S x F A
            p = _sized_end(d, p, end)
        else:
            return -1, -1
        if p < 0 or p > end:
            return -1, -1
        if is_named:
            return start, p
    return (0, 0) if p == end else (-1, -1)


def without_entry(table: bytes, name: bytes) -> bytes | None:
    """A ``table``, which begins with its u32 size, without its entries of that name; None if it is malformed.

    The work is one step for each entry, whatever its value holds.
    """
    d = table
    sizes = _PLAIN_SIZES
    kept: list[bytes] = []
    begun = p = 4
    end = _sized_end(d, 0, len(table))
    if end != len(table):
        return None
    while p < end:
        start = p
        p += 1 + d[p]
        if p >= end:
            return None
        is_named = p - start - 1 == len(name) and table[start + 1 : p] == name
        tag = d[p]
        p += 1
        if sizes[tag]:
            p += sizes[tag] - 1
        elif tag in (83, 120, 70, 65):  # S x F A
            p = _sized_end(d, p, end)
        else:
            return None
        if p < 0 or p > end:
            return None
        if is_named:
            kept.append(table[begun:start])
            begun = p
    kept.append(table[begun:])
    rest = b"".join(kept)
    return len(rest).to_bytes(4, "big") + rest


def long_strings(array: bytes) -> list[str]:
    """The long strings of an array, its u32 size first, whose end ``end_of_nested`` has found. All other
    values are passed over.
    """
    d = array
    sizes = _PLAIN_SIZES
    texts: list[str] = []
    p = 4
    size = len(array)
    while p < size:
        tag = d[p]
        p += 1
        if sizes[tag]:
            p += sizes[tag] - 1
            continue
        end = _sized_end(d, p, size)
        if tag == 83:  # S
            texts.append(array[p + 4 : end].decode("utf-8", "surrogateescape"))
        p = end
    return texts


def _sized_end(d: bytes, position: int, limit: int) -> int:
    """The end of the value whose u32 size is at ``position``; -1 if it reaches beyond ``limit``."""
    if limit - position < 4:
        return -1
    size = (
        (d[position] << 24) | (d[position + 1] << 16) | (d[position + 2] << 8) | d[position + 3]
    ) & 0xFFFFFFFF
    return -1 if size > limit - position - 4 else position + 4 + size


def nested_note(octets: bytes) -> str:
    """The text shown for a value that is nested too deeply; ``octets`` begin with its size."""
    return f"({len(octets) - 4} octets, nested more than {DECODED_DEPTH} deep)"
