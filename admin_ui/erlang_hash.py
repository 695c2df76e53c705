"""The hash by which RabbitMQ tells bindings with arguments apart: ``erlang:phash2`` of the arguments' term.

A term is built of what Erlang's would be: ``Atom``, bytes for a binary, int, float, tuple and list.

Source: Erlang/OTP 25, ``make_hash2`` in ``erts/emulator/beam/utils.c``; compared with it on random terms.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

_MASK = 0xFFFFFFFF
#: The golden ratio; its multiples tell kinds of terms apart.
_RATIO = 0x9E3779B9
_NIL, _ATOM, _STRING, _TUPLE = 2, 3, 4, 9
_NEGATIVE_BIG, _BIG, _FLOAT, _BINARY = 10, 11, 12, 13
_EMPTY_LIST = 3468870702
#: What the end of a list is mixed in as.
_END_OF_LIST = 2
#: Whole numbers from here on are large ones.
_SMALL_MAX = 1 << 27


class Atom(str):
    """The name of an atom, in Latin-1."""

    __slots__ = ()


Term: TypeAlias = "Atom | bytes | int | float | tuple[Term, ...] | list[Term]"


def phash2(term: Term) -> int:
    """``erlang:phash2(Term, 1 bsl 32)``."""
    value = 0
    rest: list[tuple[Term, int]] = [(term, 0)]
    while rest:
        found, at = rest.pop()
        if isinstance(found, Atom):
            named = _atom(found)
            value = named if value == 0 else _mixed(named, 0, value, _ATOM)
        elif isinstance(found, bytes):
            value = _block(found, (_RATIO * _BINARY + value) & _MASK)
        elif isinstance(found, float):
            low, high = struct.unpack("<II", struct.pack("<d", found + 0.0))
            value = _mixed(high, low, value, _FLOAT)
        elif isinstance(found, int):
            value = _whole(found, value)
        elif isinstance(found, tuple):
            value = _mixed(len(found), 0, value, _TUPLE)
            rest.extend([(each, 0) for each in reversed(found)])
        else:
            value, at = _octets(found, at, value)
            if at < len(found):
                rest += [(found, at + 1), (found[at], 0)]
            else:
                value = _EMPTY_LIST if value == 0 else _mixed(_END_OF_LIST, 0, value, _NIL)
    return value


def _octets(found: list[Term], at: int, value: int) -> tuple[int, int]:
    """The small numbers of a list from ``at`` on, four together, as those of a string; and where they end."""
    word = count = 0
    while at < len(found) and isinstance(octet := found[at], int) and 0 <= octet < 256:
        word, count, at = word << 8 | octet, count + 1, at + 1
        if count == 4:
            value = _mixed(word, 0, value, _STRING)
            word = count = 0
    return (_mixed(word, 0, value, _STRING) if count else value), at


def _whole(number: int, value: int) -> int:
    if -_SMALL_MAX <= number < _SMALL_MAX:
        if number < 0:
            value = _mixed(-number, 0, value, 1)
        return _mixed(number, 0, value, 1)
    left, kind = abs(number), _NEGATIVE_BIG if number < 0 else _BIG
    while left:
        value = _mixed(left & _MASK, left >> 32 & _MASK, value, kind)
        left >>= 64
    return value


def _atom(name: str) -> int:
    value = 0
    for octet in name.encode("latin-1"):
        value = (value << 4) + octet & _MASK
        if high := value & 0xF0000000:
            value ^= high >> 24 ^ high
    return value


def _mixed(one: int, other: int, value: int, kind: int) -> int:
    ratio = _RATIO * kind
    return _mix((ratio + one) & _MASK, (ratio + other) & _MASK, value)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Bob Jenkins' mix of three words of 32 bits."""
    for first, second, third in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = (a - b - c & _MASK) ^ c >> first
        b = (b - c - a & _MASK) ^ a << second & _MASK
        c = (c - a - b & _MASK) ^ b >> third
    return a, b, c


def _block(octets: bytes, start: int) -> int:
    a = b = _RATIO
    c = start
    size = len(octets)
    if not size:
        return c
    whole = size // 12 * 12
    for at in range(0, whole, 12):
        one, two, three = struct.unpack_from("<III", octets, at)
        a, b, c = _mix(a + one & _MASK, b + two & _MASK, c + three & _MASK)
    # The lowest octet of the last word is the length's.
    left = octets[whole:]
    one, two = struct.unpack("<II", left[:8].ljust(8, b"\0"))
    three = int.from_bytes(left[8:], "little") << 8
    return _mix(a + one & _MASK, b + two & _MASK, c + size + three & _MASK)[2]
