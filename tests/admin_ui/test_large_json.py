from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_ui.large_json import read_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
BROKEN = [
    '{"a":}',
    '{"a" 1}',
    '{"a":1,}',
    "{a:1}",
    '{"a":[1,]}',
    '{"a":[1 2]}',
    "[]",
    "5",
    "{",
    "",
    '{"a":[',
    "{} x",
]


def read(text: str) -> tuple[dict[str, Any], int]:
    """The object, and how often the reader made a pause."""
    reader, pauses = read_object(text), 0
    while True:
        try:
            next(reader)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@given(st.dictionaries(st.text(), VALUES), st.sampled_from([None, 1]))
def test_as_the_standard_decoder(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert read(f" \n{text}\t")[0] == json.loads(text)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.data())
def test_whatever_is_cut_off_is_refused(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    with pytest.raises(ValueError):  # noqa: PT011  texts of two decoders
        read(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.parametrize("text", BROKEN)
def test_broken(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  texts of two decoders
        read(text)


def test_pauses() -> None:
    found, pauses = read('{"a": [1, 2, 3], "b": {"c": [1, 2]}, "d": []}')
    assert found == {"a": [1, 2, 3], "b": {"c": [1, 2]}, "d": []}
    assert pauses == 4
