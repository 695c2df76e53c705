"""Users get limits for their connections and channels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table anew: SQLite adds columns only behind the table's constraints."""
    rows = op.get_bind().exec_driver_sql("SELECT * FROM users").all()
    op.drop_table("users")
    op.create_table(
        "users",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("password_hash", sa.Text, nullable=False),
        sa.Column("hashing_algorithm", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("max_connections", sa.BigInteger, nullable=False),
        sa.Column("max_channels", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    for row in rows:
        # The driver's own parameters, because a name that is not UTF-8 is stored as bytes.
        op.get_bind().exec_driver_sql("INSERT INTO users VALUES (?, ?, ?, ?, -1, -1)", tuple(row))
