"""An index of header criteria: finds the entries that a message's headers match.

Each header is looked up once: by name, then by value. An entry that requires any of its criteria is stored
under each of them; one hit is enough. An entry that requires all of them is stored under one only: the one
with the fewest entries at that time. When it is hit, its other criteria are compared with the message.
Therefore the cost of a match depends on what it hits, not on the size of the index.

An entry with very many criteria (a binding can have 2,048) is not stored under them, because that would
hold the event loop. Each match compares such wide entries with the message, whatever it hits.

Values are equal as RabbitMQ compares them: numbers of any width and kind by value, text and binary by their
octets, booleans only with booleans. Arrays and tables are equal if their octets are, so types and the order
of names count there.

A match is a generator, like that of ``topic_trie``. Several can run at a time, and the index may change
meanwhile.

Compiled: see ``headers_index.pxd``.

Source: measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeAlias

from amqp_router.protocol.fields import Field, Table, encode_table
from vhosts.exchanges.exchange import Binding
from vhosts.spread_map import SpreadMap

#: A match yields a number whenever it has made this many comparisons.
VISITS_TOLD = 64

#: An entry with more criteria is wide. A C integer where compiled.
_CRITERIA_MAX = 256
#: To compare a table or array takes as long as one comparison of numbers for each 16 octets, and a text
#: or binary for each 2,048. C integers where compiled.
_NESTED_SHIFT = 4
_PLAIN_SHIFT = 11


class Present:
    """Stands for "any value"."""


_PRESENT = Present()
#: See ``comparable``.
Comparable: TypeAlias = Hashable
#: A criterion: the name of a header, and the value it must have or ``_PRESENT``.
Place: TypeAlias = tuple[str, Comparable | Present]


class Entry:
    """A value, and the places in the index where it is stored."""

    __slots__ = ("places", "rest", "value", "want_all", "wide")

    def __init__(self) -> None:
        self.value: Binding
        #: The criteria under which it is stored.
        self.places: list[Place] = []
        #: Further criteria, all of which must be met.
        self.rest: list[Place] = []
        #: All criteria of a wide entry, which has no places; None for others.
        self.wide: dict[str, Comparable | Present] | None = None
        #: Whether a wide entry requires all of them.
        self.want_all = False


class Column:
    """The entries stored under one header name."""

    __slots__ = ("by_value", "present", "users")

    def __init__(self) -> None:
        #: Bindings that require a certain value of the header, by its ``comparable`` form.
        self.by_value: SpreadMap[Comparable, SpreadMap[Entry, None]] = SpreadMap()
        #: Bindings that accept any value of the header.
        self.present: SpreadMap[Entry, None] = SpreadMap()
        #: Number of entries with a criterion on this header, also of those stored under another one.
        self.users = 0


class HeadersIndex:
    """Values by criteria."""

    __slots__ = ("_always", "_columns", "_entries", "_wide")

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._entries: SpreadMap[Binding, Entry] = SpreadMap()
        self._wide: SpreadMap[Entry, None] = SpreadMap()
        #: Values that require all of no criteria, and so always match.
        self._always: SpreadMap[Binding, None] = SpreadMap()

    def insert(self, criteria: Table, want_all: bool, value: Binding) -> None:
        """Let ``match`` return ``value``, which is new, for headers that meet all (or any) of
        ``criteria``.
        """
        if not criteria:
            if want_all:
                self._always[value] = None
            return
        entry = Entry()
        entry.value = value
        self._enter(entry, criteria, want_all)
        self._entries[value] = entry

    def _enter(self, entry: Entry, criteria: Table, want_all: bool) -> None:
        if len(criteria) > _CRITERIA_MAX:
            entry.want_all = want_all
            entry.wide = {
                name: _PRESENT if field[0] == "V" else comparable(field) for name, field in criteria.items()
            }
            self._wide[entry] = None
            return
        entry.places = [
            (name, _PRESENT if field[0] == "V" else comparable(field)) for name, field in criteria.items()
        ]
        for name, _ in entry.places:
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = Column()
            column.users += 1
        if want_all and len(entry.places) > 1:
            place = min(entry.places, key=self._others)
            entry.rest = [each for each in entry.places if each is not place]
            entry.places = [place]
        for name, wanted in entry.places:
            column = self._columns[name]
            if wanted is _PRESENT:
                column.present[entry] = None
                continue
            same_value = column.by_value.get(wanted)
            if same_value is None:
                same_value = column.by_value[wanted] = SpreadMap()
            same_value[entry] = None

    def remove(self, value: Binding) -> None:
        """Undo ``insert``."""
        self._always.pop(value, None)
        entry = self._entries.pop(value, None)
        if entry is not None:
            self._take_out(entry)

    def _take_out(self, entry: Entry) -> None:
        if entry.wide is not None:
            del self._wide[entry]
            return
        for name, wanted in entry.places:
            column = self._columns[name]
            if wanted is _PRESENT:
                del column.present[entry]
            else:
                same_value = column.by_value[wanted]
                del same_value[entry]
                if not same_value:
                    del column.by_value[wanted]
        for name, _ in entry.places + entry.rest:
            column = self._columns[name]
            column.users -= 1
            if column.users == 0:
                del self._columns[name]

    def match(self, headers: Table) -> Iterator[Binding | int]:
        """The values whose criteria ``headers`` meet. A value that requires any criterion comes once for each
        met.

        Numbers between the values say how many comparisons were made since the last number. Values are never
        numbers.
        """
        column: Column
        entry: Entry
        yield from self._always.steady_keys()
        values: dict[str, Comparable] = {}
        heavy: dict[str, int] = {}
        hit: list[SpreadMap[Entry, None]] = []
        visited = 0
        for name, field in headers.items():
            looks = _looks(field)
            if looks > 0:
                heavy[name] = looks
            column = self._columns.get(name)  # type: ignore[assignment]  # None is looked for below
            if column is not None:
                value = values[name] = comparable(field)
                if column.present:
                    hit.append(column.present)
                entries = column.by_value.get(value)
                if entries is not None:
                    hit.append(entries)
                visited += looks
            visited += 1
            if visited >= VISITS_TOLD:
                yield visited
                visited = 0
        for entries in hit:
            for entry in entries.steady_keys():
                if not entry.rest:
                    yield entry.value
                    continue
                compared = self._compare(entry, values, heavy)
                if compared < 0:
                    yield entry.value
                    compared = -compared
                visited += compared
                if visited >= VISITS_TOLD:
                    yield visited
                    visited = 0
        for entry in self._wide.steady_keys():
            wide = entry.wide
            assert wide is not None
            want_all = entry.want_all
            is_met = want_all
            visited += 1
            if want_all and len(wide) > len(headers):
                is_met = False
            else:
                for name in wide if want_all or len(wide) < len(headers) else headers:
                    if visited >= VISITS_TOLD:
                        yield visited
                        visited = 0
                    visited += 1
                    if heavy and name in heavy:
                        visited += heavy[name]
                    if (name in wide and self._meets(name, wide, headers, values)) != want_all:
                        is_met = not want_all
                        break
            if is_met:
                yield entry.value
            if visited >= VISITS_TOLD:
                yield visited
                visited = 0
        yield visited

    def _meets(
        self,
        name: str,
        wide: dict[str, Comparable | Present],
        headers: Table,
        values: dict[str, Comparable],
    ) -> bool:
        """Whether the header ``name`` has the value wanted by ``wide``; ``values`` are the comparable ones so
        far.
        """
        wanted = wide[name]
        if name not in headers:
            return False
        if wanted is _PRESENT:
            return True
        if name not in values:
            values[name] = comparable(headers[name])
        return bool(values[name] == wanted)

    def _compare(self, entry: Entry, values: dict[str, Comparable], heavy: dict[str, int]) -> int:
        """Compare the further criteria of ``entry``; returns how many were compared, negative if all are
        met. A value counts ``heavy`` more if it is large.
        """
        compared = 0
        for name, wanted in entry.rest:
            compared += 1
            if heavy and name in heavy:
                compared += heavy[name]
            if name not in values or (wanted is not _PRESENT and values[name] != wanted):
                return compared
        return -compared

    def _others(self, place: Place) -> int:
        """How many entries are stored under ``place``."""
        name, wanted = place
        column = self._columns[name]
        if wanted is _PRESENT:
            return len(column.present)
        same_value = column.by_value.get(wanted)
        return 0 if same_value is None else len(same_value)


def _looks(field: Field) -> int:
    """What it takes to compare a value of ``outer_table``, beside one comparison, in such."""
    value = field[1]
    if not isinstance(value, bytes):
        return 0
    return len(value) >> (_NESTED_SHIFT if field[0] in ("A", "F") else _PLAIN_SHIFT)


def comparable(field: Field) -> Comparable:
    """A hashable form of a typed value: equal forms are equal values."""
    tag = field[0]
    value: Comparable = field[1]
    if tag == "t":
        return "true" if value else "false"  # not a bool: True equals 1
    if tag in ("A", "F"):  # behind size, empty name and tag
        return tag, value if isinstance(value, bytes) else encode_table({"": field})[6:]
    return (tag, value) if tag == "D" else value
