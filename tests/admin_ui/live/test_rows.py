"""Lists as a whole and as changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_ui.live import encoded
from admin_ui.live.encoded import Encoded, Row
from admin_ui.live.rows import GONE_MAX, Rows
from admin_ui.live.work import Work
from admin_ui.replies import dumps

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


def read(rows: Rows, state: dict[str, Row], at: int) -> None:
    """Let ``rows`` read a state; it is short, so nothing waits for a turn."""
    reading = rows.read(state.values(), at, Work())
    with pytest.raises(StopIteration):
        reading.send(None)


def follow(states: list[dict[str, tuple[str, int]]], sees: Callable[[Row], bool] | None) -> None:
    rows = Rows(COLUMNS)
    known: dict[str, Any] | None = None
    sent = None
    for at, state in enumerate(states):
        read(rows, rows_of(state), at)
        if sent != rows.version:
            fresh = sent is None or sent != rows.version - 1
            event = rows.whole(sees) if fresh else rows.patch(sees, "shop")
            known = apply(known, json.loads(b"".join(event)))
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
    read(rows, {"a": ("a", "/", 1)}, 1)
    read(rows, {"a": ("a", "/", 1)}, 2)
    assert rows.version == 1


def test_viewers_with_the_same_rights_share_what_is_encoded() -> None:
    rows = Rows(COLUMNS)
    read(rows, {"a": ("a", "/", 1), "b": ("b", "shop", 1)}, 1)
    read(rows, {"a": ("a", "/", 2), "b": ("b", "shop", 2)}, 2)
    assert rows.whole(None) is rows.whole(None)
    assert rows.patch(None, None) is rows.patch(None, None)
    shop = rows.patch(lambda row: row[1] == "shop", frozenset({"shop"}))
    assert rows.patch(lambda row: row[1] == "shop", frozenset({"shop"})) is shop
    assert json.loads(b"".join(shop))["rows"] == [["b", "shop", 2]]
    assert len(json.loads(b"".join(rows.patch(None, None)))["rows"]) == 2


def test_pieces_are_made_once_and_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(document: Any) -> bytes:
        made.append(len(document))
        return dumps(document)

    monkeypatch.setattr(encoded, "dumps", counted)
    event = Encoded({"full": True}, [(number,) for number in range(600)])
    one, other = iter(event), iter(event)
    next(one)
    next(one)
    assert made == [1, 256]
    whole = b"".join(event)
    assert json.loads(whole) == {"full": True, "rows": [[number] for number in range(600)]}
    assert made == [1, 256, 256, 88]
    assert b"".join(other) == whole
    assert made == [1, 256, 256, 88]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 512])
@pytest.mark.parametrize("kept", [1, 2, 300])
def test_pieces_are_one_document(count: int, kept: int) -> None:
    rows: list[Row] = [(number,) for number in range(count)]
    event = Encoded({"at": 1}, rows, lambda row: bool(row[0] % kept == kept - 1))
    assert json.loads(b"".join(event))["rows"] == [list(row) for row in rows if row[0] % kept == kept - 1]


async def test_very_many_gone_rows_are_no_patch() -> None:
    rows = Rows(COLUMNS)
    known: list[Row] = [(str(number), "/", 1) for number in range(GONE_MAX + 1)]
    await rows.read(known, 1, Work())
    await rows.read([], 2, Work())
    assert rows.version == 3
