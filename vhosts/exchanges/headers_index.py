"""An index of header criteria: what a message's headers match.

Each header is looked up once: by name, then by value. An entry that wants any of its criteria stands at each
of them, and one hit is enough. An entry that wants all of them stands at one, where the fewest others stood
when it came, and when that is hit the others are compared with the message. So a match costs what it hits.

Values are equal as RabbitMQ compares them: numbers of any width and kind by value, text and binary by their
octets, booleans only with booleans, arrays and tables deeply and then with the types of their items.

A match is a generator, as that of ``topic_trie``: two of them do not disturb each other, and the index may
change meanwhile.

Compiled: see ``headers_index.pxd``.

Source: semantics 2.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqp_router.protocol.fields import Field, Table

#: A match tells of its work, beside what it finds, whenever it has compared so much.
VISITS_TOLD = 64

#: In place of a value: any will do.
_PRESENT = object()


class Entry:
    """A value, and where it stands in the index."""

    __slots__ = ("places", "rest", "value")

    def __init__(self) -> None:
        self.value: Any = None
        #: Its criteria by which it can be found: name, and comparable value or ``_PRESENT``.
        self.places: list[tuple[str, Any]] = []
        #: Those that must be met as well.
        self.rest: list[tuple[str, Any]] = []


class Column:
    """The entries that stand at one header name."""

    __slots__ = ("by_value", "present", "users")

    def __init__(self) -> None:
        #: Those that want a certain value, by its ``comparable`` form.
        self.by_value: dict[Any, dict[Entry, None]] = {}
        #: Those for which any value will do.
        self.present: dict[Entry, None] = {}
        #: Entries that look at this header, also those that stand elsewhere.
        self.users = 0


class HeadersIndex:
    """Values by criteria."""

    __slots__ = ("_always", "_columns", "_entries")

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._entries: dict[Any, Entry] = {}
        #: Values that want all of nothing.
        self._always: dict[Any, None] = {}

    def insert(self, criteria: Table, want_all: bool, value: Any) -> None:
        """Return ``value``, which is new, for headers that meet all, or else any, of ``criteria``."""
        if not criteria:
            if want_all:
                self._always[value] = None
            return
        entry = Entry()
        entry.value = value
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
            else:
                column.by_value.setdefault(wanted, {})[entry] = None
        self._entries[value] = entry

    def remove(self, value: Any) -> None:
        """Undo ``insert``."""
        self._always.pop(value, None)
        entry = self._entries.pop(value, None)
        if entry is None:
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

    def match(self, headers: Table) -> Iterator[Any]:
        """The values whose criteria ``headers`` meet, and among them, as numbers, how much was compared since
        the last number. A value that wants any of several comes once for each. Values are no numbers.
        """
        column: Column
        entry: Entry
        yield from list(self._always)  # a copy, as below: others may come and go
        values: dict[str, Any] = {}
        hit: list[dict[Entry, None]] = []
        visited = 0
        for name, field in headers.items():
            column = self._columns.get(name)  # type: ignore[assignment]  # None is looked for below
            if column is not None:
                value = values[name] = comparable(field)
                if column.present:
                    hit.append(column.present)
                entries = column.by_value.get(value)
                if entries is not None:
                    hit.append(entries)
            visited += 1
            if visited >= VISITS_TOLD:
                yield visited
                visited = 0
        for entries in hit:
            for entry in list(entries):
                if not entry.rest:
                    yield entry.value
                    continue
                compared = self._compare(entry, values)
                if compared < 0:
                    yield entry.value
                    compared = -compared
                visited += compared
                if visited >= VISITS_TOLD:
                    yield visited
                    visited = 0
        yield visited

    def _compare(self, entry: Entry, values: dict[str, Any]) -> int:
        """Compare what ``entry`` wants beside its place; returns how many, below zero if all are met."""
        compared = 0
        for name, wanted in entry.rest:
            compared += 1
            if name not in values or (wanted is not _PRESENT and values[name] != wanted):
                return compared
        return -compared

    def _others(self, place: tuple[str, Any]) -> int:
        """How many entries stand at ``place``."""
        name, wanted = place
        column = self._columns[name]
        return len(column.present if wanted is _PRESENT else column.by_value.get(wanted, ()))


def comparable(field: Field) -> Any:
    """A hashable form of a typed value: equal forms are equal values."""
    tag, value = field
    if tag in ("S", "x"):
        return value
    if tag == "t":
        return "true" if value else "false"  # not a bool: True equals 1
    if tag in ("A", "F", "D"):
        return tag, _frozen(field)
    return value


def _frozen(field: Field) -> Any:
    tag, value = field
    if tag == "A":
        return tuple([(item[0], _frozen(item)) for item in value])
    if tag == "F":
        return frozenset([(name, item[0], _frozen(item)) for name, item in value.items()])
    return value
