"""Argument tables as they are kept: small ones decoded, large ones as the octets they came in.

A decoded table takes up to 40 times its octets in memory. What is declared stays for long and is seldom
looked at, so a large table is decoded again whenever all of it is wanted; single values, as the broker looks
them up, stay decoded.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView

from amqp_router.protocol.fields import Field, Table, decode_table, encode_table
from amqp_router.protocol.frames import table_entries

#: Octets of an encoded table above which it is kept as octets.
OCTETS_MAX = 256
#: Bytes in memory for each octet of a table that is decoded, at most: an array of booleans.
DECODED_BYTES = 40
#: Values of a large table that stay decoded, if they are small themselves.
_DECODED_MAX = 64
_VALUE_MAX = 255

Arguments = Mapping[str, Field]


def read_arguments(data: bytes, position: int) -> tuple[Arguments, int]:
    """As ``decode_table``, but a large table is kept as octets; they are checked to be a table.

    Raises:
        FieldError: the octets are no table.
    """
    entries, end, is_all = table_entries(data, position, _DECODED_MAX)
    if end - position <= OCTETS_MAX:  # malformed too: decoding tells how
        return decode_table(data, position)
    few: dict[str, Field | None] | None = {} if is_all else None
    if few is not None:
        for name, field in entries:
            few.setdefault(name.decode("utf-8", "surrogateescape"), _decode_small(field))
    return KeptTable(data[position:end], few), end


def keep(arguments: Arguments) -> Arguments:
    """A table in the form that takes less memory for long; equal to it."""
    if not arguments or isinstance(arguments, KeptTable):
        return arguments
    octets = encode_table(arguments)
    return arguments if len(octets) <= OCTETS_MAX else read_arguments(octets, 0)[0]


def encoded(arguments: Arguments) -> bytes:
    """As ``encode_table``, without decoding what is kept as octets."""
    return arguments.octets if isinstance(arguments, KeptTable) else encode_table(arguments)


def encoded_by_name(arguments: Arguments) -> bytes:
    """As ``encoded``, in the order of the names."""
    if not isinstance(arguments, KeptTable):
        return encode_table(dict(sorted(arguments.items())))
    octets: dict[str, bytes] = {}
    for name, field in table_entries(arguments.octets, 0, len(arguments.octets))[0]:
        octets.setdefault(name.decode("utf-8", "surrogateescape"), bytes((len(name),)) + name + field)
    body = b"".join([octets[name] for name in sorted(octets)])
    return len(body).to_bytes(4, "big") + body


def footprint(arguments: Arguments) -> int:
    """Bytes in memory of a table that was kept, at most."""
    if isinstance(arguments, KeptTable):
        return len(arguments.octets) + _DECODED_MAX * _VALUE_MAX
    return DECODED_BYTES * len(encode_table(arguments)) if arguments else 0


def unpacked(arguments: Arguments) -> Table:
    """All of a table that was kept; for several look-ups."""
    return arguments.table() if isinstance(arguments, KeptTable) else dict(arguments)


class KeptTable(Mapping[str, Field]):
    """A table as ``octets``, its u32 size first. Reading all of it decodes all of it, each time."""

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
