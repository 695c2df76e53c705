"""Rows to SQL and back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine

from persistence.definitions import BindingRow, Change, Delete, DeleteBindings, Put, Row, VhostRow, statements
from persistence.definitions.records import ROW_TYPES
from persistence.definitions.schema import METADATA, TABLES
from tests.persistence.definitions.support import CHANGES, applied, queue


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def write(connection: Connection, changes: list[Change]) -> None:
    statements.write(connection, [statements.prepare(change) for change in changes])


def loaded(connection: Connection) -> list[Row]:
    return [row for kind in ROW_TYPES for row in statements.load(connection, kind)]


@given(st.lists(st.lists(CHANGES, max_size=12), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changes_in_their_order(connection: Connection, batches: list[list[Change]]) -> None:
    for table in METADATA.sorted_tables:
        connection.execute(table.delete())
    rows: dict[object, Row] = {}
    for batch in batches:
        write(connection, batch)
        for change in batch:
            applied(rows, change)
        found = loaded(connection)
        assert len(found) == len(rows)
        assert set(found) == set(rows.values())


@pytest.mark.parametrize("count", [0, 1, 7, 127, 128, 129, 500])
def test_any_number_of_rows(connection: Connection, count: int) -> None:
    rows = [queue(f"q{i:03}") for i in range(count)]
    write(connection, [Put(row) for row in rows])
    assert loaded(connection) == rows
    replaced = [queue(f"q{i:03}", "other") for i in range(count)]
    write(connection, [Put(row) for row in replaced])
    assert loaded(connection) == replaced
    write(connection, [Delete.of(row) for row in rows[: count // 2]])
    assert loaded(connection) == replaced[count // 2 :]


def test_loaded_in_the_order_of_keys(connection: Connection) -> None:
    write(connection, [Put(queue(name)) for name in ("b", "a", "c")])
    assert [row.name for row in statements.load(connection, "queue")] == ["a", "b", "c"]


def test_loaded_types(connection: Connection) -> None:
    write(connection, [Put(queue("q"))])
    (row,) = statements.load(connection, "queue")
    assert [type(value) for value in (row.name, row.auto_delete, row.arguments)] == [str, bool, bytes]


def test_text_stays_readable_for_other_tools(connection: Connection) -> None:
    write(connection, [Put(VhostRow("ü")), Put(VhostRow("\udcff"))])
    names = connection.exec_driver_sql("SELECT name, typeof(name) FROM vhosts ORDER BY typeof(name)").all()
    assert [tuple(each) for each in names] == [(b"\xff", "blob"), ("ü", "text")]


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        statements.prepare(Put(VhostRow("\ud800")))
    with pytest.raises(KeyError):
        statements.prepare(Delete("nothing", ("x",)))


def test_others_get_the_processor_while_very_many_rows_are_stored(connection: Connection) -> None:
    slept: list[float] = []
    changes = [statements.prepare(Put(queue(f"q{i:04}"))) for i in range(1024)]
    statements.write(connection, changes, slept.append)
    assert len(slept) >= 1024 // 64
    assert min(slept) > 0
    slept.clear()
    statements.write(
        connection, [statements.prepare(Delete.of(queue(f"q{i:04}"))) for i in range(1024)], slept.append
    )
    assert len(slept) >= 1024 // 64
    slept.clear()
    statements.write(connection, changes[:32], slept.append)
    assert slept == []  # few are stored at once


@pytest.mark.parametrize("size", statements.SIZES)
@pytest.mark.parametrize("kind", ROW_TYPES)
def test_no_statement_reads_a_whole_table(connection: Connection, kind: str, size: int) -> None:
    for text in (statements._delete_text(kind, size), statements._put_text(kind, size)):
        plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN " + text, ("",) * text.count("?"))
        steps = [str(row[3]) for row in plan]
        table = TABLES[kind].name
        assert [step for step in steps if step.startswith(f"SCAN {table}")] == []
        if text.startswith("DELETE"):
            columns = " AND ".join(f"{each.name}=?" for each in TABLES[kind].primary_key)
            searches = {step for step in steps if step.startswith("SEARCH")}
            assert searches == {f"SEARCH {table} USING PRIMARY KEY ({columns})"}


@pytest.mark.parametrize(
    ("change", "searched"),
    [
        (DeleteBindings("/", "x"), "vhost=? AND source=?"),
        (DeleteBindings("/", "x", "q"), "vhost=? AND source=? AND destination=? AND destination_type=?"),
    ],
)
def test_all_bindings_of_a_source_are_found_by_their_key(
    connection: Connection, change: DeleteBindings, searched: str
) -> None:
    _, key, _ = statements.prepare(change)
    text = statements._all_bindings_text(*(each is not None for each in key))
    plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN " + text, ("",) * text.count("?"))
    assert [row[3] for row in plan] == [f"SEARCH bindings USING PRIMARY KEY ({searched})"]


def test_only_bindings_before_the_deletion_of_all_go(connection: Connection) -> None:
    before, behind, other = (
        BindingRow("/", "x", "q", "queue", "before"),
        BindingRow("/", "x", "q", "queue", "behind"),
        BindingRow("/", "x", "q", "exchange", "before"),
    )
    for ends in (("x", None), ("x", "q"), (None, "q")):
        write(connection, [Put(before), Put(other), DeleteBindings("/", *ends), Put(behind), Put(other)])
        assert set(loaded(connection)) == {behind, other}
        write(connection, [Put(before), DeleteBindings("/", "x", "nobody"), DeleteBindings("other", "x")])
        assert set(loaded(connection)) == {before, behind, other}
