"""Argument tables in memory: small ones are decoded, large ones stay encoded.

A decoded table takes up to 40 times the memory of its octets. Declared objects live long, and their arguments
are seldom used. So a large table is decoded each time all of it is needed. Small single values, which the
broker looks up, stay decoded. A declaration looks up 40 names. In a table of very many each is searched for
in the octets, once.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView

from amqp_router.protocol.fields import Field, Table, decode_table, encode_table, outer_table
from amqp_router.protocol.frames import entry_names, first_value, table_entries

#: A table with more octets than this stays encoded.
OCTETS_MAX = 256
#: Largest memory of a decoded table, in bytes for each octet: that of an array of booleans.
DECODED_BYTES = 40
#: Largest number of small values of an encoded table that stay decoded.
_DECODED_MAX = 64
_VALUE_MAX = 255
#: A table without entries.
_EMPTY = bytes(4)
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
    if not arguments:  # as most are
        return _EMPTY
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
    if not arguments:
        return 0
    if isinstance(arguments, KeptTable):
        return len(arguments.octets) + _DECODED_MAX * _VALUE_MAX
    return DECODED_BYTES * len(encode_table(arguments))


def entries_in(arguments: Arguments) -> int:
    """How many entries a table has, without decoding one that is kept; a name may be there twice."""
    return arguments.entries() if isinstance(arguments, KeptTable) else len(arguments)


def outer(arguments: Arguments) -> Table:
    """Decoded as a whole, for several look-ups, but that tables and arrays of a kept table stay octets."""
    return outer_table(arguments.octets, 0) if isinstance(arguments, KeptTable) else dict(arguments)


class KeptTable(Mapping[str, Field]):
    """A table as ``octets``, its u32 size first. Each access to all of it decodes it again."""

    __slots__ = ("_few", "_found", "octets")

    def __init__(self, octets: bytes, few: dict[str, Field | None] | None) -> None:
        self.octets = octets
        #: All names with their values, None for a large one; None if there are many names.
        self._few = few
        #: If there are many: what was looked up, None if it is not there.
        self._found: dict[str, Field | None] = {}

    def table(self) -> Table:
        """All of it, decoded."""
        return decode_table(self.octets, 0)[0]

    def __getitem__(self, name: str) -> Field:
        field = self._look_up(name) if self._few is None else self._few[name]
        if field is not None:
            return field
        if self._few is None:
            raise KeyError(name)
        return self.table()[name]

    def _look_up(self, name: str) -> Field | None:
        """The value of ``name`` among many."""
        found = self._found
        if name in found:
            return found[name]
        key = name.encode("utf-8", "surrogateescape")
        octets = first_value(self.octets, key) if key in self.octets else b""
        field = _decode(octets) if octets else None
        if len(octets) <= _VALUE_MAX and len(found) < _DECODED_MAX:
            found[name] = field
        return field

    def __contains__(self, name: object) -> bool:
        if self._few is not None:
            return name in self._few
        return isinstance(name, str) and self._look_up(name) is not None

    def entries(self) -> int:
        """Their number; that of the different names is ``len``."""
        return len(entry_names(self.octets) if self._few is None else self._few)

    def _names(self) -> dict[str, None]:
        return dict.fromkeys([_text(name) for name in entry_names(self.octets)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names() if self._few is None else self._few)

    def __len__(self) -> int:
        return len(self._names() if self._few is None else self._few)

    def __bool__(self) -> bool:
        return True  # an empty one is not kept as octets

    def items(self) -> ItemsView[str, Field]:
        """Decoded once for all of them."""
        return self.table().items()

    def values(self) -> ValuesView[Field]:
        """Decoded once for all of them."""
        return self.table().values()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeptTable):
            return self.octets == other.octets or self.table() == other.table()
        return isinstance(other, Mapping) and self.table() == other

    __hash__ = None  # type: ignore[assignment]  # as a dict


def _decode_small(field: bytes) -> Field | None:
    """A value from the octets of its tag and value; None if it is large."""
    return None if field[:1] in b"AF" or len(field) > _VALUE_MAX else _decode(field)


def _decode(field: bytes) -> Field:
    """A value from the octets of its tag and value."""
    return decode_table((len(field) + 1).to_bytes(4, "big") + b"\0" + field, 0)[0][""]


__all__ = [
    "DECODED_BYTES",
    "OCTETS_MAX",
    "Arguments",
    "KeptTable",
    "encoded",
    "encoded_by_name",
    "entries_in",
    "footprint",
    "keep",
    "outer",
    "read_arguments",
]
