"""The database file: opening, writing many submissions in one transaction, and reading back.

SQLite runs in WAL mode with ``synchronous=FULL``: when a transaction returns, it has been synced. The file
and SQLite's ``-wal`` and ``-shm`` beside it have mode 0600. Each transaction raises the rev in ``store`` from
the value that this process knows. A second process that writes the same file is therefore noticed before
anything is overwritten.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError, SQLAlchemyError

from persistence.definitions import migrations, statements
from persistence.definitions.codec import decode_record, join_record
from persistence.definitions.errors import NotADefinitionStore, RevTrimmed, StoreFailed
from persistence.definitions.records import ROW_TYPES, Change, Put, Row, Snapshot

#: How long a transaction waits for another process that holds the file, for instance an operator's SQLite
#: shell.
LOCK_WAIT_S = 30

#: SQLite's passing errors: locked, no space, no file descriptor, a failing disk. Another attempt is honest,
#: even after a failed sync: SQLite has not counted the transaction's frames in, so it writes all of them
#: again, at the same place of its WAL, before it syncs.
PASSING_CODES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PROTOCOL,
    }
)

#: After a checkpoint a large WAL file (of a large import) is truncated to this size.
WAL_BYTES_KEPT = 16 * 1024 * 1024

#: The change log holds at most this many characters, however few revs that is. It serves readers that were
#: away for a moment; all others take a snapshot.
HISTORY_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Submission:
    """The changes of one rev, prepared for writing."""

    rev: int
    encoded: str
    changes: Sequence[statements.Prepared]


class Database:
    """One definition database. Only one thread may call ``write``; another may read at the same time."""

    def __init__(self, path: Path, *, revs_kept: int, history_bytes_max: int = HISTORY_BYTES_MAX) -> None:
        self.path = path
        #: The last rev that a committed transaction contains.
        self.rev = 0
        self._revs_kept = revs_kept
        self._history_bytes_max = history_bytes_max
        #: Size of the change log.
        self._history_bytes = 0
        self._trim_at = 0
        self._engine = _engine(path)
        self._writer: Connection | None = None

    def open(self) -> None:
        """Create the file if there is none, bring it to this release's schema, and read its rev.

        Raises:
            SchemaTooNew, NotADefinitionStore: the file is not ours, or too new; it is left as it is.
            StoreFailed: it cannot be opened or written.
            OSError: the directory or the file cannot be made.
        """
        _make_file(self.path)
        try:
            with self._errors():
                with self._engine.begin() as connection:
                    migrations.upgrade(connection, self.path)
                    self.rev = _rev(connection)
                    self._history_bytes = _history_bytes(connection)
                self._write_ahead()
                self._writer = self._engine.connect()
        except BaseException:
            self._engine.dispose()
            raise

    def write(self, submissions: Sequence[Submission]) -> None:
        """Apply all of ``submissions``, which follow ``rev`` without a gap, in one synced transaction.

        Raises:
            StoreFailed: none of them is stored.
        """
        assert self._writer is not None, "the database is open"
        assert submissions[0].rev == self.rev + 1, "revs follow each other"
        rev = submissions[-1].rev
        with self._errors(), self._writer.begin():
            self._move_rev(self._writer, rev)
            statements.write(self._writer, [change for each in submissions for change in each.changes])
            history_bytes = self._remember(self._writer, submissions)
        self._history_bytes = history_bytes
        self.rev = rev

    def snapshot(self) -> Snapshot:
        """All rows of the last committed transaction."""
        with self._errors(), self._reader() as connection:
            rev = _rev(connection)
            return Snapshot(rev, **{kind + "s": statements.load(connection, kind) for kind in ROW_TYPES})

    def since(self, rev: int) -> list[tuple[int, tuple[Change, ...]]]:
        """The committed changes after ``rev``, oldest first.

        Raises:
            RevTrimmed: some of them are no longer kept.
        """
        with self._errors(), self._reader() as connection:
            if rev >= (last := _rev(connection)):
                return []
            oldest = connection.exec_driver_sql(
                "SELECT first_rev FROM changes ORDER BY last_rev LIMIT 1"
            ).scalar()
            kept_after = last if oldest is None else oldest - 1
            if rev < kept_after:
                raise RevTrimmed(rev, kept_after)
            records = connection.exec_driver_sql(
                "SELECT changes FROM changes WHERE last_rev > ? ORDER BY last_rev", (rev,)
            ).scalars()
            return [each for record in records for each in decode_record(record) if each[0] > rev]

    def was_put(self, row: Row) -> bool:
        """Whether the change log has stored just this ``row``."""
        wanted = Put(row)
        with self._errors(), self._reader() as connection:
            records = connection.exec_driver_sql("SELECT changes FROM changes ORDER BY last_rev DESC")
            for record in records.scalars():
                if any(wanted in changes for _, changes in decode_record(record)):
                    return True
        return False

    def close(self) -> None:
        """Close the file; SQLite copies the WAL back and removes it."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._engine.dispose()

    def _write_ahead(self) -> None:
        """Switch the file to WAL mode. The mode is permanent, so the caller first checks that the file is
        ours.
        """
        with self._engine.connect().execution_options(begin=None) as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    def _move_rev(self, connection: Connection, rev: int) -> None:
        moved = connection.exec_driver_sql("UPDATE store SET rev = ? WHERE rev = ?", (rev, self.rev))
        if moved.rowcount != 1:
            raise StoreFailed(self.path, "another process has written to it")

    def _remember(self, connection: Connection, submissions: Sequence[Submission]) -> int:
        """Add ``submissions`` to the change log; returns its new size."""
        rev = submissions[-1].rev
        if sum(len(each.encoded) for each in submissions) > self._history_bytes_max:
            connection.exec_driver_sql("DELETE FROM changes")  # the change log must have no gaps
            return 0
        record = join_record((each.rev, each.encoded) for each in submissions)
        connection.exec_driver_sql("INSERT INTO changes VALUES (?, ?, ?)", (rev, self.rev + 1, record))
        return self._trim(connection, rev, self._history_bytes + len(record))

    def _trim(self, connection: Connection, rev: int, history_bytes: int) -> int:
        """Remove from the change log what is too old or too much; returns its new size."""
        # Only now and then, because each deletion has a fixed cost.
        if rev >= self._trim_at:
            connection.exec_driver_sql("DELETE FROM changes WHERE last_rev <= ?", (rev - self._revs_kept,))
            self._trim_at = rev + self._revs_kept // 10
            history_bytes = _history_bytes(connection)
        if history_bytes <= self._history_bytes_max:
            return history_bytes
        newest_first = connection.exec_driver_sql(
            "SELECT last_rev, length(changes) FROM changes ORDER BY last_rev DESC"
        ).all()
        kept = 0
        for last_rev, size in newest_first:
            if kept + size > self._history_bytes_max * 3 // 4:
                connection.exec_driver_sql("DELETE FROM changes WHERE last_rev <= ?", (last_rev,))
                break
            kept += size
        return kept

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(begin="BEGIN") as connection, connection.begin():
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:  # locked, full or unreadable: the stored rows are not damaged
            passing = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in PASSING_CODES
            raise StoreFailed(self.path, error.orig, passing=passing) from error
        except (DatabaseError, ValueError) as error:
            raise NotADefinitionStore(self.path, getattr(error, "orig", error)) from error
        except SQLAlchemyError as error:
            raise StoreFailed(self.path, error) from error
        except MemoryError as error:
            raise StoreFailed(self.path, "out of memory", passing=True) from error


def _make_file(path: Path) -> None:
    """Make the file with its mode, which SQLite copies to the files beside it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    # SQLite does not sync the directory entry of a file that existed before.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _rev(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT rev FROM store").scalar_one())


def _history_bytes(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT total(length(changes)) FROM changes").scalar_one())


def _engine(path: Path) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": LOCK_WAIT_S})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:  # the driver's; SQLAlchemy has no type for it
        # Without this the driver would commit before DDL. "begin" below opens the transactions instead.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once, because taking it at the first write can fail without waiting.
        text = connection.get_execution_options().get("begin", "BEGIN IMMEDIATE")
        if text is not None:
            connection.exec_driver_sql(text)

    return engine
