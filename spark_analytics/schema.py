"""Tables and their columns: name, SQL type, meaning, and whether it is a default column.

Spark's data source interface has no column pruning: every column in the schema is decoded and sent. So the
default tables are narrow, and the option ``columns`` selects others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

import pyarrow as pa

from .errors import OptionError


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``sql`` is its type as Spark writes it."""

    name: str
    sql: str
    meaning: str
    default: bool = True


ROUTING_COLUMNS = (
    Column("node", "string", "id of the broker's data directory", default=False),
    Column("vhost", "string", "virtual host"),
    Column("partition", "int", "partition of the routing log; all events of an exchange are in one"),
    Column("offset", "bigint", "number of the event in its partition"),
    Column("timestamp", "timestamp", "when the broker took the message, microseconds"),
    Column("exchange", "string", "exchange it was published to, '' = the default exchange"),
    Column("routing_key", "string", "routing key"),
    Column("queues", "array<string>", "queues it was routed to"),
    Column("route_id", "int", "number of the route inside its segment", default=False),
    Column("fanout", "int", "how many queues"),
    Column("unroutable", "boolean", "went to no queue"),
    Column("returned", "boolean", "given back to its publisher"),
    Column("mandatory", "boolean", "published with the flag mandatory"),
    Column("persistent", "boolean", "delivery mode 2"),
    Column("confirmed", "boolean", "its channel was in confirm mode"),
    Column("refused", "boolean", "a queue could not take it"),
    Column("body_size", "bigint", "bytes of the body"),
)
MESSAGES_COLUMNS = (
    Column("node", "string", "id of the broker's data directory", default=False),
    Column("vhost", "string", "virtual host"),
    Column("queue", "string", "queue"),
    Column("partition", "int", "partition of the queue"),
    Column("offset", "bigint", "offset in the queue's log"),
    Column("timestamp", "timestamp", "when the queue took it, microseconds"),
    Column("exchange", "string", "exchange it was published to, '' = the default exchange"),
    Column("routing_key", "string", "routing key"),
    Column("body_size", "bigint", "bytes of the body"),
    Column("persistent", "boolean", "delivery mode 2"),
    Column("redelivered", "boolean", "was redelivered before it was written here"),
    Column("delivery_count", "int", "returns before it was written here"),
    Column("priority", "int", "property priority, 0 without one"),
    Column("content_type", "string", "property", default=False),
    Column("content_encoding", "string", "property", default=False),
    Column("delivery_mode", "int", "property", default=False),
    Column("correlation_id", "string", "property", default=False),
    Column("reply_to", "string", "property", default=False),
    Column("expiration", "string", "property", default=False),
    Column("message_id", "string", "property", default=False),
    Column("message_timestamp", "timestamp", "property timestamp; null beyond the year 9999", default=False),
    Column("type", "string", "property", default=False),
    Column("user_id", "string", "property", default=False),
    Column("app_id", "string", "property", default=False),
    Column("headers", "map<string,string>", "property headers, values as text", default=False),
    Column("deadline", "timestamp", "when it expires, null if it does not", default=False),
    Column("due", "timestamp", "it is not delivered before, null without such a time", default=False),
    Column("source_log", "string", "id of the log that a dead letter comes from, else null", default=False),
    Column("source_epoch", "bigint", "epoch of the message that it was there", default=False),
    Column("source_offset", "bigint", "offset of that message", default=False),
    Column("outcome", "string", "what became of it, null while it waits or is unacknowledged", default=False),
    Column("outcome_reason", "string", "why, where the outcome alone does not tell", default=False),
    Column("outcome_timestamp", "timestamp", "when that was written", default=False),
    Column("returns", "int", "returns to the queue since it was written here", default=False),
    Column("properties", "binary", "flags word and values as received", default=False),
    Column("body", "binary", "body", default=False),
    Column("log", "string", "id of the queue's log", default=False),
    Column("epoch", "bigint", "epoch of the log in which it was written", default=False),
)
#: The columns that say what became of a message after it was written.
LATER_COLUMNS = frozenset(("outcome", "outcome_reason", "outcome_timestamp", "returns"))
TABLES: dict[str, tuple[Column, ...]] = {"routing": ROUTING_COLUMNS, "messages": MESSAGES_COLUMNS}


@cache
def arrow_type(sql: str) -> Any:
    """The Arrow type that Spark expects for one of our SQL types."""
    types = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<string>": pa.list_(pa.field("element", pa.string())),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return types[sql]


def columns_of(table: str) -> tuple[Column, ...]:
    """All columns of a table.

    Raises:
        OptionError: there is no such table.
    """
    if table not in TABLES:
        raise OptionError(f"table {table!r} does not exist; {nearest(table, TABLES)}")
    return TABLES[table]


def pick(table: str, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Columns in the order of ``names``; None = the default ones, ``["*"]`` = all.

    Raises:
        OptionError: a column does not exist or is named twice.
    """
    columns = columns_of(table)
    if names is None:
        return tuple(column for column in columns if column.default)
    if list(names) == ["*"]:
        return columns
    known = {column.name: column for column in columns}
    # Spark ignores case; our names are all in small letters.
    names = [name.lower() for name in names]
    for name in names:
        if name not in known:
            raise OptionError(f"column {name!r} does not exist in table {table!r}; {nearest(name, known)}")
    twice = [name for name in known if names.count(name) > 1]
    if twice:
        raise OptionError(f"column {twice[0]!r} is named twice")
    return tuple(known[name] for name in names)


def ddl(columns: Iterable[Column]) -> str:
    """The columns as Spark's DDL text, their meanings as comments."""
    return ", ".join(f"`{column.name}` {column.sql} COMMENT {_quoted(column.meaning)}" for column in columns)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def arrow_schema(columns: Iterable[Column]) -> Any:
    """The columns as a ``pyarrow.Schema``."""
    return pa.schema([pa.field(column.name, arrow_type(column.sql)) for column in columns])


def nearest(name: str, known: Iterable[str], listed_max: int = 100) -> str:
    """``did you mean 'x'? there are: ...``; at most ``listed_max`` names are listed."""
    names = list(known)
    close = get_close_matches(name.lower(), names, 1, 0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    more = f" and {len(names) - listed_max} more" if len(names) > listed_max else ""
    return f"{hint}there are: {', '.join(name or repr(name) for name in names[:listed_max])}{more}"
