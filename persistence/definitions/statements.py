"""Converts rows to SQL and back, many in one statement.

SQLite's driver takes the interpreter lock once for each execution. Beside a busy event loop, each time may
cost a switch interval. Therefore one statement holds many rows: 100 rows took 2.3 ms instead of 11.4 ms
beside a loop that never sleeps, and the same 0.5 ms beside an idle one. Statements are compiled once for each
of a few sizes, because compiling costs more than running.

After each of the largest statements the thread sleeps for as long as that has taken of the CPU. If the event
loop has the same processor, it would otherwise stand still for 4 to 6 ms again and again while thousands of
changes are stored: the system lets a thread that has begun to work go on for so long.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias

from sqlalchemy import Boolean, Column, Connection, Text, and_, bindparam, delete, or_, select
from sqlalchemy.dialects import sqlite

from persistence.definitions.records import ROW_TYPES, Change, DeleteBindings, DeleteVhost, Put, values_of
from persistence.definitions.schema import BINDINGS, TABLES, VHOSTS

#: Values for the driver: those of a row, or those of a key.
Values: TypeAlias = tuple[object, ...]

#: A change for the driver: kind, key, and the row's values or None for a deletion. The pseudo-kind
#: ``ALL_BINDINGS`` has as its key the fields that the bindings have in common, and None for the others, and
#: ``ALL_OF_VHOST`` the name of the virtual host.
Prepared: TypeAlias = tuple[str, Values, Values | None]

#: Stands for ``DeleteBindings``.
ALL_BINDINGS = "all bindings"
#: Stands for ``DeleteVhost``.
ALL_OF_VHOST = "all of a virtual host"

#: Rows in one statement; SQLite allows 32,766 parameters.
SIZES = (64, 32, 8, 4, 2, 1)
#: Seconds that the thread sleeps after a statement with the most rows, at least.
SLEEP_MIN_S = 0.0002


def prepare(change: Change) -> Prepared:
    """Convert a change for the driver.

    Raises:
        ValueError: a name has characters that cannot be encoded (half of a surrogate pair).
        KeyError: there is no such kind.
    """
    if isinstance(change, DeleteBindings):
        destination_type = None if change.destination is None else change.destination_type
        ends = (change.vhost, change.source, change.destination, destination_type)
        return ALL_BINDINGS, tuple(map(_to_column, ends)), None
    if isinstance(change, DeleteVhost):
        return ALL_OF_VHOST, (_to_column(change.vhost),), None
    TABLES[change.kind]
    key = tuple(map(_to_column, change.key))
    if isinstance(change, Put):
        return change.kind, key, tuple(map(_to_column, values_of(change.row)))
    return change.kind, key, None


def write(
    connection: Connection, changes: Sequence[Prepared], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Apply ``changes`` in their order. ``sleep`` is called after each of the largest statements.

    Only the last change of each key is written, because the others would not be visible after the
    transaction. The rest is grouped by kind, and into deletions and puts; no change is moved across
    ``ALL_BINDINGS`` or ``ALL_OF_VHOST``.
    """
    last: _Last = {}
    for kind, key, values in changes:
        if kind not in (ALL_BINDINGS, ALL_OF_VHOST):
            last[kind, key] = values
            continue
        _write_last(connection, last, sleep)
        last = {}
        if kind == ALL_OF_VHOST:
            for text in _all_of_vhost_texts():
                connection.exec_driver_sql(text, key)
            continue
        parameters = tuple(each for each in key if each is not None)
        connection.exec_driver_sql(_all_bindings_text(*(each is not None for each in key)), parameters)
    _write_last(connection, last, sleep)


def _write_last(connection: Connection, last: _Last, sleep: Callable[[float], None]) -> None:
    puts: dict[str, list[Values]] = {}
    deletions: dict[str, list[Values]] = {}
    for (kind, key), values in last.items():
        if values is None:
            deletions.setdefault(kind, []).append(key)
        else:
            puts.setdefault(kind, []).append(values)
    for kind, keys in deletions.items():
        _execute(connection, _delete_text, kind, keys, sleep)
    for kind, rows in puts.items():
        _execute(connection, _put_text, kind, rows, sleep)


def load(connection: Connection, kind: str) -> list[Any]:  # rows of one kind, which the caller knows
    """All rows of ``kind``, in the order of their keys. They are read column by column, which is faster."""
    table = TABLES[kind]
    text = str(select(table).order_by(*table.primary_key).compile(dialect=_DIALECT))
    values = zip(*connection.exec_driver_sql(text).all(), strict=True)
    columns = [_from_column(column, each) for column, each in zip(table.columns, values, strict=False)]
    return list(map(ROW_TYPES[kind], *columns)) if columns else []


def _execute(
    connection: Connection, text: _Text, kind: str, rows: Sequence[Values], sleep: Callable[[float], None]
) -> None:
    for start, size in _pieces(len(rows)):
        began = time.thread_time()
        parameters = tuple(chain.from_iterable(rows[start : start + size]))
        connection.exec_driver_sql(text(kind, size), parameters)
        if size == SIZES[0]:
            sleep(max(SLEEP_MIN_S, time.thread_time() - began))


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    start = 0
    for size in SIZES:
        while count - start >= size:
            yield start, size
            start += size


@cache
def _put_text(kind: str, size: int) -> str:
    table = TABLES[kind]
    statement = sqlite.insert(table).values(
        [{each.name: bindparam(f"{each.name}_{i}") for each in table.columns} for i in range(size)]
    )
    others = {each.name: statement.excluded[each.name] for each in table.columns if not each.primary_key}
    if others:
        statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=others)
    else:
        statement = statement.on_conflict_do_nothing()
    return str(statement.compile(dialect=_DIALECT))


@cache
def _delete_text(kind: str, size: int) -> str:
    # Not "(a, b) IN (...)": SQLite reads the whole table for it as soon as there are two rows.
    columns = list(TABLES[kind].primary_key)
    keys = [and_(*(each == bindparam(f"{each.name}_{i}") for each in columns)) for i in range(size)]
    return str(delete(TABLES[kind]).where(or_(*keys)).compile(dialect=_DIALECT))


@cache
def _all_bindings_text(*is_given: bool) -> str:
    columns = (BINDINGS.c.vhost, BINDINGS.c.source, BINDINGS.c.destination, BINDINGS.c.destination_type)
    given = [each == bindparam(each.name) for each, wanted in zip(columns, is_given, strict=True) if wanted]
    return str(delete(BINDINGS).where(and_(*given)).compile(dialect=_DIALECT))


@cache
def _all_of_vhost_texts() -> list[str]:
    columns = [VHOSTS.c.name, *(table.c.vhost for table in TABLES.values() if "vhost" in table.c)]
    statements = [delete(each.table).where(each == bindparam("vhost")) for each in columns]
    return [str(each.compile(dialect=_DIALECT)) for each in statements]


def _to_column(value: object) -> object:
    """The value to store.

    A name that is not UTF-8 is stored as bytes, which SQLite distinguishes from any text. All other names
    stay readable in any SQLite tool.
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        encoded = value.encode(errors="surrogateescape")
        try:
            encoded.decode()
        except UnicodeDecodeError:
            return encoded
    elif isinstance(value, tuple):
        return json.dumps(value)
    return value


# A column is of one type or the other, which only the schema knows.
# A column and its values, of whatever type it is.
def _from_column(column: Column[Any], values: Sequence[Any]) -> Sequence[Any]:
    if isinstance(column.type, Boolean):
        return list(map(bool, values))
    if column.name == "tags":
        return [tuple(json.loads(value)) for value in values]
    if isinstance(column.type, Text) and bytes in set(map(type, values)):
        return [each.decode(errors="surrogateescape") if isinstance(each, bytes) else each for each in values]
    return values


_Text: TypeAlias = Callable[[str, int], str]
_Last: TypeAlias = dict[tuple[str, Values], Values | None]

_DIALECT = sqlite.dialect()
