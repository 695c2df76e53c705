"""An index of header criteria: what a message's headers match, in time that grows with what they hit.

Each header is looked up once: by name, then by value. What stands there are the entries that want just this
value, and each of them counts it. An entry has matched when its count reaches its need: all its criteria,
or one of them.

Values are equal as RabbitMQ compares them: numbers of any width and kind by value, text and binary by their
octets, booleans only with booleans, arrays and tables deeply and then with the types of their items.

Compiled: see ``headers_index.pxd``.

Source: semantics 2.5.
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.fields import Field, Table


class Entry:
    """A value with its need, and its count for the message being matched."""

    __slots__ = ("count", "mark", "need", "value")

    def __init__(self) -> None:
        self.value: Any = None
        #: Criteria that must be found.
        self.need = 0
        #: Criteria found, valid if ``mark`` is that of the message.
        self.count = 0
        self.mark = 0


class Column:
    """The entries that look at one header name."""

    __slots__ = ("by_value", "present")

    def __init__(self) -> None:
        #: Those that want a certain value, by its ``comparable`` form.
        self.by_value: dict[Any, dict[Entry, None]] = {}
        #: Those for which any value will do.
        self.present: dict[Entry, None] = {}


class HeadersIndex:
    """Values by criteria."""

    __slots__ = ("_always", "_columns", "_entries", "_mark")

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._entries: dict[Any, Entry] = {}
        #: Values that want all of nothing.
        self._always: dict[Any, None] = {}
        self._mark = 0

    def insert(self, criteria: Table, want_all: bool, value: Any) -> None:
        """Return ``value``, which is new, for headers that meet all, or else any, of ``criteria``."""
        if not criteria:
            if want_all:
                self._always[value] = None
            return
        entry = Entry()
        entry.value = value
        entry.need = len(criteria) if want_all else 1
        self._entries[value] = entry
        for name, field in criteria.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = Column()
            if field[0] == "V":
                column.present[entry] = None
            else:
                column.by_value.setdefault(comparable(field), {})[entry] = None

    def remove(self, criteria: Table, value: Any) -> None:
        """Undo ``insert``; ``criteria`` are those it was inserted with."""
        self._always.pop(value, None)
        entry = self._entries.pop(value, None)
        if entry is None:
            return
        for name, field in criteria.items():
            column = self._columns[name]
            if field[0] == "V":
                del column.present[entry]
            else:
                same_value = column.by_value[comparable(field)]
                del same_value[entry]
                if not same_value:
                    del column.by_value[comparable(field)]
            if not column.present and not column.by_value:
                del self._columns[name]

    def match(self, headers: Table) -> list[Any]:
        """The values whose criteria ``headers`` meet, each once."""
        found = list(self._always)
        self._mark += 1
        columns = self._columns
        for name, field in headers.items():
            column = columns.get(name)
            if column is None:
                continue
            if column.present:
                self._count(column.present, found)
            if column.by_value:
                entries = column.by_value.get(comparable(field))
                if entries is not None:
                    self._count(entries, found)
        return found

    def _count(self, entries: dict[Entry, None], found: list[Any]) -> None:
        """One more criterion of each of ``entries`` is met."""
        mark = self._mark
        for entry in entries:
            if entry.mark != mark:
                entry.mark = mark
                entry.count = 0
            entry.count += 1
            if entry.count == entry.need:
                found.append(entry.value)


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
