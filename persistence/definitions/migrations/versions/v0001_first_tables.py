"""The first schema: virtual hosts, users, permissions, exchanges, queues, bindings, and the change log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "vhosts",
        sa.Column("name", sa.Text, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "users",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("password_hash", sa.Text, nullable=False),
        sa.Column("hashing_algorithm", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "permissions",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("vhost", sa.Text, primary_key=True),
        sa.Column("configure", sa.Text, nullable=False),
        sa.Column("write", sa.Text, nullable=False),
        sa.Column("read", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "exchanges",
        sa.Column("vhost", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("auto_delete", sa.Boolean, nullable=False),
        sa.Column("internal", sa.Boolean, nullable=False),
        sa.Column("arguments", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "queues",
        sa.Column("vhost", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("auto_delete", sa.Boolean, nullable=False),
        sa.Column("arguments", sa.LargeBinary, nullable=False),
        sa.Column("incarnation", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bindings",
        sa.Column("vhost", sa.Text, primary_key=True),
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("destination", sa.Text, primary_key=True),
        sa.Column("destination_type", sa.Text, primary_key=True),
        sa.Column("routing_key", sa.Text, primary_key=True),
        sa.Column("arguments", sa.LargeBinary, primary_key=True),
        sqlite_with_rowid=False,
    )
    store = op.create_table("store", sa.Column("rev", sa.BigInteger, nullable=False))
    op.bulk_insert(store, [{"rev": 0}])
    op.create_table(
        "changes",
        sa.Column("last_rev", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("first_rev", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.Text, nullable=False),
    )
