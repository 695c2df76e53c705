"""Argument tables that are kept for long."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.fields import FieldError, Table, decode_table, encode_table
from amqp_router.protocol.kept_table import (
    OCTETS_MAX,
    KeptTable,
    encoded,
    encoded_by_name,
    footprint,
    keep,
    outer,
    read_arguments,
)
from tests.protocol.strategies import tables

LARGE: Table = {
    "x-message-ttl": ("I", 5),
    "x-big": ("A", [("t", True)] * 60_000),
    "x-text": ("S", b"x" * 1000),
    "x-short": ("S", b"y"),
}


@given(tables())
def test_kept_table_is_equal_to_the_table(table: Table) -> None:
    table["padding"] = ("S", bytes(OCTETS_MAX))
    octets = encode_table(table)
    kept, end = read_arguments(b"before" + octets + b"after", 6)
    assert isinstance(kept, KeptTable)
    assert (kept.octets, end) == (octets, 6 + len(octets))
    table = decode_table(octets, 0)[0]
    assert kept == table
    assert dict(kept.items()) == kept.table() == table
    assert (list(kept), len(kept), list(kept.values())) == (list(table), len(table), list(table.values()))
    assert all(kept[name] == field and name in kept for name, field in table.items())
    assert kept.get("no such name") is None
    assert encode_table(kept) == encoded(kept) == octets
    assert encoded_by_name(kept) == encode_table(dict(sorted(table.items())))


def test_small_tables_stay_as_they_are() -> None:
    small: Table = {"x-message-ttl": ("I", 5)}
    assert keep(small) is small
    assert keep({}) == {}
    assert outer(small) == small
    assert footprint({}) == 0


def test_large_table_takes_little_memory_and_its_small_values_are_at_hand() -> None:
    kept = keep(LARGE)
    assert isinstance(kept, KeptTable)
    assert len(kept.octets) > OCTETS_MAX
    assert 120_000 < footprint(kept) < 140_000
    tracemalloc.start()
    table = decode_table(kept.octets, 0)[0]
    decoded, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded > 10 * len(kept.octets)
    octets, kept.octets = kept.octets, b""  # nothing of this decodes it
    assert kept["x-message-ttl"] == ("I", 5)
    assert kept.get("x-short") == ("S", b"y")
    assert kept.get("x-other") is None
    assert len(kept) == 4
    kept.octets = octets
    assert kept["x-big"] == table["x-big"]
    assert kept == LARGE


def test_table_of_very_many_names() -> None:
    table: Table = {f"n{number}": ("V", None) for number in range(20_000)}
    kept = keep(table)
    assert isinstance(kept, KeptTable)
    assert kept._few is None
    octets = kept.octets
    for _ in range(2):  # what was found is at hand: the octets are not needed again
        assert "n5" in kept
        assert kept["n5"] == ("V", None)
        with pytest.raises(KeyError):
            kept["m"]
        assert "m" not in kept
        kept.octets = b""
    kept.octets = octets
    assert list(kept) == list(table)
    assert len(kept) == kept.entries() == 20_000


def test_look_ups_in_a_table_of_very_many_names_do_not_decode_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declaration looks up 40 names: with 7,000 arguments that took 200 ms."""
    body = b"".join([pair(b"n%d" % number, b"t\x01") for number in range(1000)])
    for name, field in (
        (b"x-text", b"S\0\0\0\x06x-name"),
        (b"x-table", b"F\0\0\0\x09" + pair(b"x-name", b"t\x00")),
        (b"x-last", b"S\0\0\1\0" + bytes(256)),
        (b"x-last", b"V"),
    ):
        body += pair(name, field)
    kept, _ = read_arguments(len(body).to_bytes(4, "big") + body, 0)
    assert isinstance(kept, KeptTable)
    table = kept.table()
    monkeypatch.setattr(KeptTable, "table", None)
    for name in ("x-text", "x-table", "x-last", "n7", "x-name", "x-nothing"):
        assert kept.get(name) == table.get(name)
        assert (name in kept) == (name in table)
    assert kept.entries() == len(kept) + 1 == 1004
    assert kept == read_arguments(kept.octets, 0)[0]  # equal octets: neither is decoded


@given(tables())
def test_look_ups_among_many_find_what_decoding_finds(table: Table) -> None:
    many = {**{f"{number}": ("V", None) for number in range(200)}, **table}
    kept, _ = read_arguments(encode_table(many), 0)
    assert isinstance(kept, KeptTable)
    assert kept._few is None
    decoded = kept.table()
    assert {name: kept[name] for name in decoded} == decoded
    assert list(kept) == list(decoded)


def pair(name: bytes, field: bytes) -> bytes:
    return bytes([len(name)]) + name + field


def test_of_two_entries_with_one_name_the_first_counts() -> None:
    body = (
        pair(b"b", b"t\x01")
        + pair(b"a", b"t\x01")
        + pair(b"b", b"t\x00")
        + pair(b"p", b"S\0\0\1\0" + bytes(256))
    )
    octets = len(body).to_bytes(4, "big") + body
    kept, _ = read_arguments(octets, 0)
    assert isinstance(kept, KeptTable)
    assert kept == decode_table(octets, 0)[0]
    assert kept["b"] == ("t", True)
    assert encoded_by_name(kept) == encode_table(dict(sorted(kept.items())))


@given(st.binary(max_size=40), st.integers(0, 600))
def test_octets_that_are_no_table_are_refused_as_by_decoding(octets: bytes, padding: int) -> None:
    body = octets + pair(b"p", b"x" + padding.to_bytes(4, "big") + bytes(padding))
    data = len(body).to_bytes(4, "big") + body
    try:
        expected = decode_table(data, 0)[0]
    except FieldError as error:
        with pytest.raises(FieldError, match=str(error)):
            read_arguments(data, 0)
    else:
        assert read_arguments(data, 0)[0] == expected


@pytest.mark.parametrize("size", [0, 3, 4])
def test_table_that_is_cut_short(size: int) -> None:
    with pytest.raises(FieldError):
        read_arguments((1000).to_bytes(4, "big")[:size], 0)
