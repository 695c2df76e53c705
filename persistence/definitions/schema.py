"""Tables of the definition store.

A table's columns are the fields of its row, under the same names. ``store`` has one row: the rev of the last
change. ``changes`` holds the latest transactions as ``codec`` encodes them, limited in number and size, for
readers that ask for the changes after a rev. A new store gets these tables, and
``migrations`` leads earlier ones to them; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, LargeBinary, MetaData, Table, Text

METADATA = MetaData()

VHOSTS = Table(
    "vhosts",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("description", Text, nullable=False),
    Column("tags", Text, nullable=False),  # a JSON list
    Column("default_queue_type", Text, nullable=False),
    Column("tracing", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

USERS = Table(
    "users",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("password_hash", Text, nullable=False),
    Column("hashing_algorithm", Text, nullable=False),
    Column("tags", Text, nullable=False),  # a JSON list
    Column("max_connections", BigInteger, nullable=False),
    Column("max_channels", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

PERMISSIONS = Table(
    "permissions",
    METADATA,
    Column("user", Text, primary_key=True),
    Column("vhost", Text, primary_key=True),
    Column("configure", Text, nullable=False),
    Column("write", Text, nullable=False),
    Column("read", Text, nullable=False),
    sqlite_with_rowid=False,
)

TOPIC_PERMISSIONS = Table(
    "topic_permissions",
    METADATA,
    Column("user", Text, primary_key=True),
    Column("vhost", Text, primary_key=True),
    Column("exchange", Text, primary_key=True),
    Column("write", Text, nullable=False),
    Column("read", Text, nullable=False),
    sqlite_with_rowid=False,
)

EXCHANGES = Table(
    "exchanges",
    METADATA,
    Column("vhost", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("auto_delete", Boolean, nullable=False),
    Column("internal", Boolean, nullable=False),
    Column("arguments", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

QUEUES = Table(
    "queues",
    METADATA,
    Column("vhost", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("auto_delete", Boolean, nullable=False),
    Column("arguments", LargeBinary, nullable=False),
    Column("incarnation", Text, nullable=False),
    sqlite_with_rowid=False,
)

BINDINGS = Table(
    "bindings",
    METADATA,
    Column("vhost", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("destination_type", Text, primary_key=True),
    Column("routing_key", Text, primary_key=True),
    Column("arguments", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)

PARAMETERS = Table(
    "parameters",
    METADATA,
    Column("vhost", Text, primary_key=True),  # empty for global parameters
    Column("component", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),  # JSON
    sqlite_with_rowid=False,
)

STORE = Table(
    "store",
    METADATA,
    Column("rev", BigInteger, nullable=False),
)

CHANGES = Table(
    "changes",
    METADATA,
    Column("last_rev", BigInteger, primary_key=True, autoincrement=False),
    Column("first_rev", BigInteger, nullable=False),
    Column("changes", Text, nullable=False),
)

#: Table of each kind of row.
TABLES: dict[str, Table] = {
    "vhost": VHOSTS,
    "user": USERS,
    "permission": PERMISSIONS,
    "topic_permission": TOPIC_PERMISSIONS,
    "parameter": PARAMETERS,
    "exchange": EXCHANGES,
    "queue": QUEUES,
    "binding": BINDINGS,
}
