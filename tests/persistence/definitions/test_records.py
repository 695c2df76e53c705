"""Rows and their keys."""

from __future__ import annotations

from hypothesis import given

from persistence.definitions import BindingRow, Delete, Put, Row, Snapshot, VhostRow
from persistence.definitions.records import FIELDS, ROW_TYPES, values_of
from tests.persistence.definitions.support import ROWS, queue


@given(ROWS)
def test_a_row_is_its_values(row: Row) -> None:
    assert ROW_TYPES[row.kind](*values_of(row)) == row
    assert values_of(row) == tuple(getattr(row, name) for name in FIELDS[row.kind])


@given(ROWS)
def test_changes_know_kind_and_key_of_their_row(row: Row) -> None:
    for change in (Put(row), Delete.of(row)):
        assert (change.kind, change.key) == (row.kind, row.key)


def test_bindings_that_differ_in_arguments_are_two() -> None:
    one, two = (BindingRow("/", "e", "q", "queue", "k", arguments) for arguments in (b"a", b"b"))
    assert one.key != two.key


def test_a_snapshot_gives_first_what_others_name() -> None:
    binding = BindingRow("/", "e", "q", "queue", "k")
    snapshot = Snapshot(1, bindings=[binding], queues=[queue("q")], vhosts=[VhostRow("/")])
    assert list(snapshot.rows()) == [VhostRow("/"), queue("q"), binding]
