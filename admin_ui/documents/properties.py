"""The properties of a message as JSON, made in slices: headers of 128 KiB may have 65,000 values."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from admin_ui.documents.tables import table, value
from admin_ui.turns import Turns
from amqp_router.protocol.fields import decode_table
from amqp_router.protocol.nested import DECODED_DEPTH
from amqp_router.protocol.properties import decode_properties

#: Octets of properties that are made at once.
AT_ONCE = 4 << 10
#: Octets of the values that always have the same, by their tags.
_SIZES = {ord(tag): size for size, tags in ((0, "V"), (1, "tbB"), (2, "su"), (4, "Iif")) for tag in tags}
_SIZES |= {ord("D"): 5, **dict.fromkeys(b"lLTd", 8)}


async def properties_document(properties: bytes, turns: Turns) -> Any:
    """Decoded properties; an empty list if there are none, as in RabbitMQ."""
    is_large = len(properties) > AT_ONCE
    found = decode_properties(properties, as_octets=is_large)
    if "headers" in found:
        if is_large:
            made: dict[str, Any] = {}
            for _ in table_steps(found["headers"], made):
                await turns.next()
            found["headers"] = made
        else:
            found["headers"] = table(found["headers"])
    return found or []


def table_steps(octets: bytes, made: dict[str, Any], depth: int = 0) -> Generator[None]:
    """Put an encoded table, its u32 size first, into ``made``; yields after each `AT_ONCE` octets or so."""
    for piece, nested in _pieces(octets, depth, is_table=True):
        # The first of several with one name counts.
        if nested:
            content: Any = {}
            name_end = 1 + piece[0]
            name = piece[1:name_end].decode("utf-8", "surrogateescape")
            if piece[name_end] == ord("F"):
                yield from table_steps(piece[name_end + 1 :], content, depth + 1)
            else:
                content = []
                yield from _array_steps(piece[name_end + 1 :], content, depth + 1)
            made.setdefault(name, content)
        else:
            for name, field in decode_table(len(piece).to_bytes(4, "big") + piece, 0)[0].items():
                made.setdefault(name, value(field))
        yield


def _array_steps(octets: bytes, made: list[Any], depth: int) -> Generator[None]:
    for piece, nested in _pieces(octets, depth, is_table=False):
        if nested and piece[0] == ord("F"):
            inner: dict[str, Any] = {}
            yield from table_steps(piece[1:], inner, depth + 1)
            made.append(inner)
        elif nested:
            items: list[Any] = []
            yield from _array_steps(piece[1:], items, depth + 1)
            made.append(items)
        else:
            # A table whose one value, without a name, is an array of these.
            array = b"\0A" + len(piece).to_bytes(4, "big") + piece
            made += value(decode_table(len(array).to_bytes(4, "big") + array, 0)[0][""])
        yield


def _pieces(octets: bytes, depth: int, *, is_table: bool) -> Generator[tuple[bytes, bool]]:
    """Some entries or elements at a time, or (True) one that is a large table or array."""
    start = position = 4
    while position < len(octets):
        tag_at = position + 1 + octets[position] if is_table else position
        tag = octets[tag_at]
        size = _SIZES.get(tag)
        if size is None:
            size = 4 + int.from_bytes(octets[tag_at + 1 : tag_at + 5], "big")
        end = tag_at + 1 + size
        if size > AT_ONCE and tag in b"FA" and depth < DECODED_DEPTH:
            if position > start:
                yield octets[start:position], False
            yield octets[position:end], True
            start = end
        elif end - start >= AT_ONCE:
            yield octets[start:end], False
            start = end
        position = end
    if position > start:
        yield octets[start:position], False
