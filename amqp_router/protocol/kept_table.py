"""Argument tables in memory: small ones are decoded, large ones stay encoded.

A decoded table takes up to 40 times the memory of its octets. Declared objects live long, and their arguments
are seldom used. So a large table is decoded each time all of it is needed. Small single values, which the
broker looks up, stay decoded.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView

from amqp_router.protocol.fields import Field, Table, decode_table, encode_table
from amqp_router.protocol.frames import table_entries

#: A table with more octets than this stays encoded.
OCTETS_MAX = 256
#: Largest memory of a decoded table, in bytes for each octet: that of an array of booleans.
DECODED_BYTES = 40
#: Largest number of small values of an encoded table that stay decoded.
_DECODED_MAX = 64
_VALUE_MAX = 255
#: A name's length as its octet.
_LENGTHS = [bytes((length,)) for length in range(256)]

Arguments = Mapping[str, Field]


def read_arguments(data: bytes, position: int) -> tuple[Arguments, int]:
    """As ``decode_table``, but a large table is only checked and stays encoded.

    Raises:
        FieldError: the octets are no table.
    """
    entries, end, is_all = table_entries(data, position, _DECODED_MAX)
    if end - position <= OCTETS_MAX:  # also if it is malformed, because decoding raises the right error
        return decode_table(data, position)
    few: dict[str, Field | None] | None = {} if is_all else None
    if few is not None:
        for name, field in entries:
            few.setdefault(name.decode("utf-8", "surrogateescape"), _decode_small(field))
    return KeptTable(data[position:end], few), end


def keep(arguments: Arguments) -> Arguments:
    """An equal table, in the form that takes less memory."""
    if not arguments or isinstance(arguments, KeptTable):
        return arguments
    octets = encode_table(arguments)
    return arguments if len(octets) <= OCTETS_MAX else read_arguments(octets, 0)[0]


def encoded(arguments: Arguments) -> bytes:
    """As ``encode_table``, without decoding a table that is kept encoded."""
    return arguments.octets if isinstance(arguments, KeptTable) else encode_table(arguments)


def encoded_by_name(arguments: Arguments) -> bytes:
    """As ``encoded``, in the order of the names."""
    if not isinstance(arguments, KeptTable):
        return encode_table(dict(sorted(arguments.items())))
    entries = table_entries(arguments.octets, 0, len(arguments.octets))[0]
    entries.reverse()  # of two entries with one name the first counts
    fields = dict(entries)
    names = sorted(fields) if b"".join(fields).isascii() else sorted(fields, key=_text)
    body = b"".join([_LENGTHS[len(name)] + name + fields[name] for name in names])
    return len(body).to_bytes(4, "big") + body


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def footprint(arguments: Arguments) -> int:
    """Largest memory of a kept table, in bytes."""
    if isinstance(arguments, KeptTable):
        return len(arguments.octets) + _DECODED_MAX * _VALUE_MAX
    return DECODED_BYTES * len(encode_table(arguments)) if arguments else 0


def unpacked(arguments: Arguments) -> Table:
    """A kept table decoded as a whole, for several look-ups."""
    return arguments.table() if isinstance(arguments, KeptTable) else dict(arguments)


class KeptTable(Mapping[str, Field]):
    """A table as ``octets``, its u32 size first. Each access to all of it decodes it again."""

    __slots__ = ("_few", "octets")

    def __init__(self, octets: bytes, few: dict[str, Field | None] | None) -> None:
        self.octets = octets
        #: All names with their values, None for a large one; None if there are many names.
        self._few = few

    def table(self) -> Table:
        """All of it, decoded."""
        return decode_table(self.octets, 0)[0]

    def __getitem__(self, name: str) -> Field:
        few = self._few
        if few is not None:
            field = few[name]
            if field is not None:
                return field
        return self.table()[name]

    def __contains__(self, name: object) -> bool:
        return name in (self.table() if self._few is None else self._few)

    def __iter__(self) -> Iterator[str]:
        return iter(self.table() if self._few is None else self._few)

    def __len__(self) -> int:
        return len(self.table() if self._few is None else self._few)

    def __bool__(self) -> bool:
        return True  # an empty one is not kept as octets

    def items(self) -> ItemsView[str, Field]:
        """Decoded once for all of them."""
        return self.table().items()

    def values(self) -> ValuesView[Field]:
        """Decoded once for all of them."""
        return self.table().values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self.table() == (
            other.table() if isinstance(other, KeptTable) else other
        )

    __hash__ = None  # type: ignore[assignment]  # as a dict


def _decode_small(field: bytes) -> Field | None:
    """A value from the octets of its tag and value; None if it is large."""
    if field[:1] in b"AF" or len(field) > _VALUE_MAX:
        return None
    return decode_table((len(field) + 1).to_bytes(4, "big") + b"\0" + field, 0)[0][""]


__all__ = [
    "DECODED_BYTES",
    "OCTETS_MAX",
    "Arguments",
    "KeptTable",
    "encoded",
    "encoded_by_name",
    "footprint",
    "keep",
    "read_arguments",
    "unpacked",
]
