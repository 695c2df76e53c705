from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_ui import large_json
from admin_ui.large_json import read_object

INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
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


def read(text: str, size: int = 1 << 20) -> tuple[dict[str, Any], int]:
    """The object, and how often the reader made a pause; the text comes in pieces of ``size`` octets."""
    data = text.encode(errors="surrogatepass")
    found: dict[str, Any] = {}
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return found, sum(1 for _ in read_object(pieces, found))


@given(
    st.dictionaries(st.text(), VALUES),
    st.sampled_from([None, 1]),
    st.sampled_from([1, 2, 7, 64, 1000]),
    st.sampled_from([1, 2, 50]),
)
def test_as_the_standard_decoder(value: dict[str, Any], indent: int | None, size: int, window: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=size % 2 == 0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_json, "WINDOW", window)
        assert read(f" \n{text}\t", size)[0] == json.loads(text)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.data())
def test_whatever_is_cut_off_is_refused(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    with pytest.raises(ValueError):  # noqa: PT011  texts of two decoders
        read(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.parametrize("text", BROKEN)
def test_broken(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  texts of two decoders
        read(text)


def test_octets_that_are_not_utf_8() -> None:
    for data in (b'{"a": "\xff"}', b'{"a": "\xc3', b'{"a": 1}\xc3'):
        with pytest.raises(ValueError):  # noqa: PT011  texts of two decoders
            list(read_object([data], {}))


def test_after_an_error_what_came_before_is_known() -> None:
    found: dict[str, Any] = {}
    with pytest.raises(ValueError, match="is missing"):
        list(read_object([b'{"a": 5, "b": [1, 2 3]}'], found))
    assert found == {"a": 5, "b": [1, 2]}


def test_no_more_of_a_long_text_is_decoded_than_a_value_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step looks at a window of the text, so none takes long however long the text is."""
    monkeypatch.setattr(large_json, "WINDOW", 100)
    text = json.dumps({"a": list(range(10_000)), "b": "x" * 1000})
    read_already = 0

    def pieces() -> Iterator[bytes]:
        nonlocal read_already
        for start in range(0, len(text), 10):
            read_already = start
            yield text[start : start + 10].encode()

    class Lazy:
        """A deque of pieces that are made when they are asked for."""

        def __init__(self, pieces: Iterable[bytes]) -> None:
            self._pieces = iter(pieces)
            self._next = next(self._pieces, None)

        def __bool__(self) -> bool:
            return self._next is not None

        def popleft(self) -> bytes:
            assert self._next is not None
            found, self._next = self._next, next(self._pieces, None)
            return found

    monkeypatch.setattr(large_json, "deque", Lazy)
    found: dict[str, Any] = {}
    longest = before = 0
    for _ in read_object(pieces(), found):
        longest, before = max(longest, read_already - before), read_already
    assert found == json.loads(text)
    assert longest < 2500  # the string of 1,000 takes a window of twice its length


def test_pauses() -> None:
    found, pauses = read('{"a": [1, 2, 3], "b": {"c": [1, 2]}, "d": []}')
    assert found == {"a": [1, 2, 3], "b": {"c": [1, 2]}, "d": []}
    assert pauses == 4
