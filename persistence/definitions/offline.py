"""Reads the queues of a definition database without changing it, for tools that run beside the broker."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from sqlalchemy import URL, create_engine
from sqlalchemy.exc import SQLAlchemyError

from persistence.definitions import statements
from persistence.definitions.records import QueueRow


def read_queues(path: Path) -> list[QueueRow] | None:
    """The durable queues that the database at ``path`` defines; None if it is missing or cannot be read.

    A copy is read: SQLite changes files beside a database in WAL mode even when it only reads.
    """
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / path.name
        try:
            shutil.copyfile(path, copy)
            wal = path.with_name(path.name + "-wal")
            if wal.exists():
                shutil.copyfile(wal, copy.with_name(wal.name))
            engine = create_engine(URL.create("sqlite", database=str(copy)))
            try:
                with engine.connect() as connection:
                    return statements.load(connection, QueueRow.kind)
            finally:
                engine.dispose()
        except (OSError, SQLAlchemyError, ValueError):
            return None
