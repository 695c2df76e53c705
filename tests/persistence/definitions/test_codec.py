"""Text of the change log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from persistence.definitions import Change, Delete, DeleteBindings, Put, VhostRow
from persistence.definitions.codec import decode_record, encode_changes, join_record
from tests.persistence.definitions.support import CHANGES


@given(st.lists(st.lists(CHANGES, max_size=3), max_size=3))
def test_decoding_inverts_encoding(submissions: list[list[Change]]) -> None:
    numbered = list(enumerate(submissions, 5))
    record = join_record((rev, encode_changes(changes)) for rev, changes in numbered)
    assert record.isascii()
    assert decode_record(record) == [(rev, tuple(changes)) for rev, changes in numbered]


def test_layout() -> None:
    """Stores hold it: a change of layout needs a migration."""
    changes: list[Change] = [Put(VhostRow("v")), Delete("binding", ("v", b"\xff"))]
    assert encode_changes(changes) == '[["vhost",["v","",[],"",false]],["binding",null,["v",{"b":"/w=="}]]]'
    changes = [DeleteBindings("v", "x"), DeleteBindings("v", None, "q", "queue")]
    assert encode_changes(changes) == (
        '[["binding",null,null,["v","x",null,"queue"]],["binding",null,null,["v",null,"q","queue"]]]'
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '[[1,[["vhost"]]]]', '[[1,[["nothing",["x"]]]]]', '[[1,[["vhost",[]]]]]']
)
def test_other_text_is_no_record(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  json's texts are its own
        decode_record(text)


def test_what_is_no_field_of_a_row() -> None:
    with pytest.raises(TypeError, match="object is no field"):
        encode_changes([Put(VhostRow(object()))])  # type: ignore[arg-type]  # the mistake under test
