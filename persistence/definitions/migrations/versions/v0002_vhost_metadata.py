"""Virtual hosts get a description, tags, a default queue type and a flag for tracing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table anew: SQLite adds columns only behind the table's constraints."""
    names = op.get_bind().exec_driver_sql("SELECT name FROM vhosts").scalars().all()
    op.drop_table("vhosts")
    op.create_table(
        "vhosts",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("default_queue_type", sa.Text, nullable=False),
        sa.Column("tracing", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    for name in names:
        # The driver's own parameters, because a name that is not UTF-8 is stored as bytes.
        op.get_bind().exec_driver_sql("INSERT INTO vhosts VALUES (?, '', '[]', '', 0)", (name,))
