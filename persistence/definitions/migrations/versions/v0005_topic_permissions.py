"""Topic permissions: which routing keys of a topic exchange a user may write and read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "topic_permissions",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("vhost", sa.Text, primary_key=True),
        sa.Column("exchange", sa.Text, primary_key=True),
        sa.Column("write", sa.Text, nullable=False),
        sa.Column("read", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
