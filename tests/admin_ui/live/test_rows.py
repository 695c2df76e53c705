"""Lists as a whole and as changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admin_ui.live.rows import Row, Rows

COLUMNS = ("key", "vhost", "value")
NAMES = st.sampled_from(["a", "b", "c", "d"])
STATES = st.lists(
    st.dictionaries(NAMES, st.tuples(st.sampled_from(["/", "shop"]), st.integers(0, 2))), max_size=6
)


def rows_of(state: dict[str, tuple[str, int]]) -> dict[str, Row]:
    return {key: (key, *values) for key, values in state.items()}


def apply(known: dict[str, Any] | None, event: dict[str, Any]) -> dict[str, Any]:
    """What the page does; see ``lib/rows.mjs``."""
    if event.get("full"):
        return {row[0]: row for row in event["rows"]}
    assert known is not None
    kept = {key: row for key, row in known.items() if key not in event["gone"]}
    return kept | {row[0]: row for row in event["rows"]}


def follow(states: list[dict[str, tuple[str, int]]], sees: Callable[[Row], bool] | None) -> None:
    rows = Rows(COLUMNS)
    known: dict[str, Any] | None = None
    sent = None
    for at, state in enumerate(states):
        rows.replace(rows_of(state), at)
        if sent != rows.version:
            fresh = sent is None or sent != rows.version - 1
            known = apply(known, json.loads(rows.whole(sees) if fresh else rows.patch(sees)))
            sent = rows.version
        expected = {key: list(row) for key, row in rows_of(state).items() if sees is None or sees(row)}
        assert known == expected


@given(STATES)
def test_changes_lead_to_the_whole(states: list[dict[str, tuple[str, int]]]) -> None:
    follow(states, None)


@given(STATES)
def test_who_sees_a_part_never_hears_of_the_rest(states: list[dict[str, tuple[str, int]]]) -> None:
    # a queue does not move between virtual hosts: its key has the virtual host in it
    states = [{f"{value[0]}{key}": value for key, value in state.items()} for state in states]
    follow(states, lambda row: bool(row[1] == "shop"))


def test_nothing_new_is_no_new_version() -> None:
    rows = Rows(COLUMNS)
    rows.replace({"a": ("a", "/", 1)}, 1)
    rows.replace({"a": ("a", "/", 1)}, 2)
    assert rows.version == 1
