"""Run by Alembic for every upgrade; the connection, and the transaction it is in, come from ``upgrade``."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
