"""The store: order, group commit, failure, restart."""

from __future__ import annotations

import resource
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from persistence.definitions import (
    Accepted,
    Conflict,
    DefinitionStore,
    Delete,
    Put,
    QueueRow,
    RevTrimmed,
    Snapshot,
    StoreFailed,
    StoreStopped,
    VhostRow,
    statements,
)
from persistence.definitions import store as module
from persistence.definitions.codec import encode_changes
from persistence.definitions.database import Database, Submission
from tests.persistence.definitions.support import Loop, queue, started, wait


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "definitions.db"


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def store(path: Path, loop: Loop) -> Iterator[DefinitionStore]:
    store = started(path, loop)
    yield store
    store.flush_and_stop()


class Gate:
    """Holds every transaction until it is opened, and notes how large each was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.entered = threading.Event()
        self.sizes: list[int] = []
        self.error: Exception | None = None
        write = Database.write

        def gated(database: Database, submissions: Sequence[Submission]) -> None:
            self.entered.set()
            assert self.opened.wait(30)
            if self.error is not None:
                raise self.error
            self.sizes.append(len(submissions))
            write(database, submissions)

        monkeypatch.setattr(Database, "write", gated)


def test_a_new_store_is_empty(store: DefinitionStore) -> None:
    assert (store.rev, store.committed) == (0, 0)
    assert store.snapshot() == Snapshot(0)
    assert store.since(0) == []


def test_directory_and_files_are_private(store: DefinitionStore, loop: Loop, path: Path) -> None:
    wait(store, loop, store.submit([Put(VhostRow("/"))]))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == dict.fromkeys(["definitions.db", "definitions.db-wal", "definitions.db-shm"], 0o600)


def test_a_commit_is_synced(store: DefinitionStore) -> None:
    """WAL with synchronous=FULL syncs at each commit, with NORMAL it would not."""
    writer: Any = store._database._writer
    assert writer.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    assert writer.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    writer.rollback()


def test_revs_count_up_and_are_told_when_stored(store: DefinitionStore, loop: Loop) -> None:
    told: list[int] = []
    store.on_committed = told.append
    assert [store.submit([Put(queue(f"q{i}"))]) for i in range(1, 4)] == [1, 2, 3]
    assert store.rev == 3
    assert told == []  # nothing is told from within a call
    wait(store, loop, 3)
    assert told == sorted(set(told))
    assert told[-1] == store.committed == 3
    assert [row.name for row in store.snapshot().queues] == ["q1", "q2", "q3"]


def test_what_is_submitted_together_shares_transactions(
    store: DefinitionStore, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    store.submit([Put(queue("first"))])
    assert gate.entered.wait(30)
    for i in range(500):
        store.submit([Put(queue(f"q{i}"))])
    gate.opened.set()
    wait(store, loop, 501)
    assert gate.sizes == [1, 500]
    assert len(store.snapshot().queues) == 501


def test_a_transaction_is_bounded(
    store: DefinitionStore, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_MAX", 10)
    gate = Gate(monkeypatch)
    for i in range(35):
        store.submit([Put(queue(f"q{i}"))])
    gate.opened.set()
    wait(store, loop, 35)
    assert max(gate.sizes) == 10
    assert sum(gate.sizes) == 35


def test_nothing_to_change_has_nothing_to_wait_for(store: DefinitionStore) -> None:
    assert store.submit([]) == 0
    assert store.rev == 0


def test_the_last_change_of_a_key_counts(store: DefinitionStore, loop: Loop) -> None:
    one, two = queue("q", "one"), queue("q", "two")
    wait(store, loop, store.submit([Put(one), Delete.of(one), Put(two)]))
    assert store.snapshot().queues == [two]
    wait(store, loop, store.submit([Put(one), Delete.of(one)]))
    assert store.snapshot().queues == []


def test_commit_only_if_nothing_came_between(store: DefinitionStore, loop: Loop) -> None:
    assert store.commit([Put(VhostRow("a"))], 0) == Accepted(1)
    assert store.commit([Put(VhostRow("b"))], 0) == Conflict(1)
    assert store.commit([Put(VhostRow("b"))], 1) == Accepted(2)
    assert store.commit([], 2) == Accepted(2)
    wait(store, loop, 2)
    assert [row.name for row in store.snapshot().vhosts] == ["a", "b"]


def test_since_gives_what_came_after_a_rev(store: DefinitionStore, loop: Loop, path: Path) -> None:
    put, delete = Put(VhostRow("\udcff")), Delete("queue", ("/", "q"))
    store.submit([put, delete])
    store.submit([delete])
    wait(store, loop, store.submit([put]))
    log = [(1, (put, delete)), (2, (delete,)), (3, (put,))]
    for rev in range(4):
        assert store.since(rev) == log[rev:]
    store.flush_and_stop()
    again = started(path, loop)
    assert again.since(1) == log[1:]
    again.flush_and_stop()


def test_old_changes_are_trimmed(path: Path, loop: Loop) -> None:
    store = started(path, loop, revs_kept=100)
    for i in range(1, 351):
        wait(store, loop, store.submit([Put(queue(f"q{i}"))]))
    assert [rev for rev, _ in store.since(300)] == list(range(301, 351))
    assert len(store.since(250)) == 100
    with pytest.raises(RevTrimmed, match="after rev 10 are gone") as caught:
        store.since(10)
    assert 200 <= caught.value.oldest <= 250
    assert len(store.since(caught.value.oldest)) == 350 - caught.value.oldest
    assert len(store.snapshot().queues) == 350
    store.flush_and_stop()


def test_history_is_bounded_by_its_size(path: Path) -> None:
    database = Database(path, revs_kept=10_000, history_bytes_max=100_000)
    database.open()

    def size() -> int:
        with sqlite3.connect(path) as connection:
            return int(connection.execute("SELECT total(length(changes)) FROM changes").fetchone()[0])

    def write(length: int) -> None:
        put = Put(QueueRow("/", "q", False, b"x" * length, "i"))
        database.write([Submission(database.rev + 1, encode_changes([put]), [statements.prepare(put)])])

    for _ in range(100):
        write(3000)  # 4,000 in the log
        assert size() <= 100_000
    assert len(database.since(database.rev - 15)) == 15
    with pytest.raises(RevTrimmed):
        database.since(database.rev - 30)
    write(200_000)
    assert size() == 0
    with pytest.raises(RevTrimmed):
        database.since(database.rev - 1)
    assert database.since(database.rev) == []
    write(10)
    assert len(database.since(database.rev - 1)) == 1
    database.close()
    again = Database(path, revs_kept=10_000, history_bytes_max=100_000)
    again.open()
    assert again._history_bytes == size()
    again.close()


def test_stop_stores_all_that_was_submitted_and_tells(path: Path, loop: Loop) -> None:
    store = started(path, loop)
    told: list[int] = []
    store.on_committed = told.append
    for i in range(2000):
        store.submit([Put(queue(f"q{i}"))])
    store.flush_and_stop()
    assert store.committed == 2000
    assert told[-1] == 2000
    loop.run_posted()  # what the thread had posted comes late, and says nothing new
    assert told == sorted(set(told))
    assert [each.name for each in path.parent.iterdir()] == ["definitions.db"]
    again = started(path, loop)
    assert (again.rev, again.committed) == (2000, 2000)
    assert len(again.snapshot().queues) == 2000
    assert again.submit([Put(queue("next"))]) == 2001
    again.flush_and_stop()


def test_a_store_that_does_not_run_takes_nothing(path: Path, loop: Loop) -> None:
    store = DefinitionStore(path, loop.post)
    with pytest.raises(StoreStopped, match="not running"):
        store.submit([Put(VhostRow("/"))])
    store.start()
    store.flush_and_stop()
    store.flush_and_stop()
    with pytest.raises(StoreStopped):
        store.submit([Put(VhostRow("/"))])


def test_a_name_that_cannot_be_stored_is_the_callers_mistake(store: DefinitionStore, loop: Loop) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        store.submit([Put(VhostRow("good")), Put(VhostRow("\ud800"))])
    wait(store, loop, store.submit([Put(VhostRow("next"))]))
    assert store.snapshot() == Snapshot(1, vhosts=[VhostRow("next")])


def test_after_a_failure_nothing_is_acknowledged(
    store: DefinitionStore, loop: Loop, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(store, loop, store.submit([Put(queue("before"))]))
    told: list[int] = []
    failures: list[Exception] = []
    store.on_committed, store.on_failed = told.append, failures.append
    gate = Gate(monkeypatch)
    gate.error = StoreFailed(path, "disk I/O error")
    store.submit([Put(queue("lost"))])
    assert gate.entered.wait(30)
    store.submit([Put(queue("lost too"))])
    gate.opened.set()
    loop.run_until(lambda: store.failed is not None)
    assert failures == [gate.error]
    for _ in range(2):
        with pytest.raises(StoreFailed, match="cannot be stored: disk I/O error; repair the cause"):
            store.submit([Put(queue("later"))])
        with pytest.raises(StoreFailed):
            store.commit([Put(queue("later"))], store.rev)
    store.flush_and_stop()
    loop.run_posted()
    assert told == []
    assert store.committed == 1
    assert failures == [gate.error]
    again = started(path, loop)
    assert [row.name for row in again.snapshot().queues] == ["before"]
    again.flush_and_stop()


def test_a_failure_before_the_loop_heard_of_it_is_told_at_the_stop(
    store: DefinitionStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    store.on_failed = failures.append
    gate = Gate(monkeypatch)
    gate.error = RuntimeError("a bug")
    gate.opened.set()
    store.submit([Put(queue("lost"))])
    store.flush_and_stop()
    assert store.committed == 0
    (failure,) = failures
    assert isinstance(failure, StoreFailed)
    assert "a bug" in str(failure)
    assert failure.__cause__ is gate.error


def test_a_full_disk_fails_the_store(store: DefinitionStore, loop: Loop) -> None:
    writer: Any = store._database._writer
    pages = writer.exec_driver_sql("PRAGMA page_count").scalar()
    writer.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    writer.rollback()
    for i in range(200):
        store.submit([Put(queue(f"q{i}", "x" * 200))])
    loop.run_until(lambda: store.failed is not None)
    assert "full" in str(store.failed)
    assert len(store.snapshot().queues) == store.committed < 200


def test_a_full_disk_passes(store: DefinitionStore, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken before is stored in the end, in order; nothing is taken meanwhile."""
    monkeypatch.setattr(module, "RETRY_FIRST_S", 0.01)
    told: list[str] = []
    store.on_failed = lambda error: told.append(str(error))
    store.on_recovered = lambda: told.append("recovered")
    wait(store, loop, store.submit([Put(queue("before"))]))
    gate = Gate(monkeypatch)
    gate.error = StoreFailed(store.path, "database or disk is full", passing=True)
    gate.opened.set()
    rev = store.submit([Put(queue("q"))])
    store.submit([Delete.of(queue("before"))])
    loop.run_until(lambda: store.failed is not None)
    for _ in range(3):
        with pytest.raises(StoreFailed, match="full; it is tried again"):
            store.submit([Put(queue("refused"))])
    assert store.committed == rev - 1
    gate.error = None
    wait(store, loop, rev + 1)
    assert store.failed is None
    assert [row.name for row in store.snapshot().queues] == ["q"]
    assert len(told) == 2
    assert told[1] == "recovered"
    wait(store, loop, store.submit([Put(queue("after"))]))


def test_a_disk_that_fails_for_a_while(store: DefinitionStore, loop: Loop, path: Path) -> None:
    """SQLite's own error for a write that fails; a limit of file sizes is one that a test can raise again."""
    wait(store, loop, store.submit([Put(queue("before"))]))
    failures: list[Exception] = []
    store.on_failed = failures.append
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name(path.name + "-wal").stat().st_size, hard))
    try:
        rev = store.submit([Put(queue("q", "x" * 100_000)), Delete.of(queue("before"))])
        loop.run_until(lambda: store.failed is not None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "disk I/O error; it is tried again" in str(failures[0])
    wait(store, loop, rev)
    assert store.failed is None
    assert [row.name for row in store.snapshot().queues] == ["q"]
    wait(store, loop, store.submit([Put(queue("after"))]))


def test_a_second_writer_is_noticed(store: DefinitionStore, loop: Loop, path: Path) -> None:
    wait(store, loop, store.submit([Put(VhostRow("mine"))]))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE store SET rev = rev + 1")
        other.execute("INSERT INTO vhosts VALUES ('theirs', '', '[]', '', 0)")
    other.close()
    store.submit([Delete("vhost", ("theirs",))])
    loop.run_until(lambda: store.failed is not None)
    assert "another process" in str(store.failed)
    assert [row.name for row in store.snapshot().vhosts] == ["mine", "theirs"]


def test_a_reader_beside_it_disturbs_nobody(store: DefinitionStore, loop: Loop, path: Path) -> None:
    wait(store, loop, store.submit([Put(VhostRow("a"))]))
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT name FROM vhosts").fetchall() == [("a",)]
        wait(store, loop, store.submit([Put(VhostRow("b"))]))
        assert reader.execute("SELECT name FROM vhosts").fetchall() == [("a",)]
        reader.execute("COMMIT")
        assert reader.execute("SELECT name FROM vhosts").fetchall() == [("a",), ("b",)]
    reader.close()


def test_a_directory_that_cannot_be_made(tmp_path: Path, loop: Loop) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        started(tmp_path / "file" / "definitions.db", loop)
