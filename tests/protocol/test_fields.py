"""Field tables. AMQP 0-9-1, section 4.2.5.5, with RabbitMQ's types."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.fields import (
    TYPE_NAMES,
    Field,
    FieldError,
    Table,
    decode_table,
    encode_plain,
    encode_table,
    plain,
    skip_table,
)
from amqp_router.protocol.nested import DECODED_DEPTH
from tests.protocol.strategies import SCALARS, tables

#: A table with one field of every type, and its octets.
EVERY_TYPE: list[tuple[Field, bytes]] = [
    (("t", True), b"t\x01"),
    (("t", False), b"t\x00"),
    (("b", -2), b"b\xfe"),
    (("B", 254), b"B\xfe"),
    (("s", -2), b"s\xff\xfe"),
    (("u", 65534), b"u\xff\xfe"),
    (("I", -2), b"I\xff\xff\xff\xfe"),
    (("i", 2**32 - 2), b"i\xff\xff\xff\xfe"),
    (("l", -2), b"l\xff\xff\xff\xff\xff\xff\xff\xfe"),
    (("L", -2), b"L\xff\xff\xff\xff\xff\xff\xff\xfe"),
    (("f", 1.5), b"f\x3f\xc0\x00\x00"),
    (("d", 1.5), b"d\x3f\xf8\x00\x00\x00\x00\x00\x00"),
    (("D", (2, -314)), b"D\x02\xff\xff\xfe\xc6"),
    (("S", b"abc"), b"S\x00\x00\x00\x03abc"),
    (("x", b"\x00\xff"), b"x\x00\x00\x00\x02\x00\xff"),
    (("A", [("I", 1), ("V", None)]), b"A\x00\x00\x00\x06I\x00\x00\x00\x01V"),
    (("T", 2**64 - 1), b"T\xff\xff\xff\xff\xff\xff\xff\xff"),
    (("F", {"k": ("t", True)}), b"F\x00\x00\x00\x04\x01kt\x01"),
    (("V", None), b"V"),
]


def sized(entries: bytes) -> bytes:
    return len(entries).to_bytes(4, "big") + entries


def nested(levels: int, tag: str) -> Field:
    """A table or array with ``levels`` more of them inside one another."""
    field: Field = (tag, {} if tag == "F" else [])
    for _ in range(levels):
        field = (tag, {"": field} if tag == "F" else [field])
    return field


@pytest.mark.parametrize(("field", "octets"), EVERY_TYPE)
def test_every_type_reads_and_writes(field: Field, octets: bytes) -> None:
    data = sized(b"\x04name" + octets)
    assert decode_table(data, 0) == ({"name": field}, len(data))
    assert encode_table({"name": field}) == data


def test_every_type_has_a_name_and_an_example() -> None:
    assert {field[0] for field, _ in EVERY_TYPE} == TYPE_NAMES.keys()
    assert SCALARS.keys() | {"A", "F"} == TYPE_NAMES.keys()


def test_all_types_in_one_table_pass_through() -> None:
    data = sized(b"".join(b"\x02%02d" % number + octets for number, (_, octets) in enumerate(EVERY_TYPE)))
    table, end = decode_table(data, 0)
    assert end == len(data)
    assert encode_table(table) == data


@pytest.mark.parametrize("tag", ["b", "s", "I", "l", "L"])
def test_signed_limits(tag: str) -> None:
    size = {"b": 1, "s": 2, "I": 4, "l": 8, "L": 8}[tag]
    for value in (-(2 ** (8 * size - 1)), -1, 0, 2 ** (8 * size - 1) - 1):
        assert decode_table(encode_table({"n": (tag, value)}), 0)[0] == {"n": (tag, value)}
    for value in (-(2 ** (8 * size - 1)) - 1, 2 ** (8 * size - 1)):
        with pytest.raises(FieldError):
            encode_table({"n": (tag, value)})


@given(tables())
def test_decode_inverts_encode(table: Table) -> None:
    data = encode_table(table)
    assert decode_table(data, 0) == (table, len(data))


@given(tables(), st.binary(max_size=5), st.binary(max_size=5))
def test_table_between_other_octets(table: Table, before: bytes, after: bytes) -> None:
    data = encode_table(table)
    end = len(before) + len(data)
    assert decode_table(before + data + after, len(before)) == (table, end)
    assert skip_table(before + data + after, len(before)) == end


@given(st.binary(max_size=60))
def test_random_octets_give_a_table_or_a_field_error(data: bytes) -> None:
    decode_or_refuse(data)
    decode_or_refuse(sized(data))


@given(tables(), st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_table_gives_a_table_or_a_field_error(table: Table, place: int, octet: int) -> None:
    data = bytearray(encode_table(table))
    data[place % len(data)] = octet
    decode_or_refuse(bytes(data))


@given(tables(), st.integers(0, 10_000))
def test_table_cut_short_is_refused(table: Table, place: int) -> None:
    data = encode_table(table)
    with pytest.raises(FieldError):
        decode_table(data[: place % len(data)], 0)


def decode_or_refuse(data: bytes) -> None:
    try:
        table, end = decode_table(data, 0)
    except FieldError:
        return
    assert end <= len(data)
    decoded, _ = decode_table(encode_table(table), 0)
    assert repr(decoded) == repr(table)  # as text: not-a-number does not equal itself


def test_not_a_number_passes_through() -> None:
    for tag in "fd":
        (_, value) = decode_table(encode_table({"n": (tag, math.nan)}), 0)[0]["n"]
        assert math.isnan(value)


def test_first_of_two_entries_with_one_name_counts() -> None:
    data = sized(b"\x01aB\x01\x01bB\x02\x01aB\x03")
    assert decode_table(data, 0)[0] == {"a": ("B", 1), "b": ("B", 2)}


def test_name_that_is_no_utf8_keeps_its_octets() -> None:
    data = sized(b"\x02\xff\xfeV")
    table, _ = decode_table(data, 0)
    assert encode_table(table) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no size"),
        (b"\x00\x00\x00", "size cut short"),
        (b"\x00\x00\x00\x05\x01aV", "size beyond the end"),
        (b"\xff\xff\xff\xff\x01aV", "size far beyond the end"),
        (sized(b"\x01"), "name cut short"),
        (sized(b"\x01a"), "no type"),
        (sized(b"\x01aq"), "unknown type"),
        (sized(b"\x01a\x00"), "type zero"),
        (sized(b"\x01aI\x00\x00\x00"), "integer cut short"),
        (sized(b"\x01at"), "bool cut short"),
        (sized(b"\x01aD\x00\x00\x00\x00"), "decimal cut short"),
        (sized(b"\x01aS\x00\x00\x00\x05abcd"), "string cut short"),
        (sized(b"\x01aS\xff\xff\xff\xffabcd"), "string far too long"),
        (sized(b"\x01aA\x00\x00\x00\x03I\x00\x00") + b"\x00" * 9, "array item beyond its array"),
        (sized(b"\x01aF\x00\x00\x00\x04\x01bI\x00\x00\x00\x01"), "value beyond its table"),
        (sized(b"\x01aF\x00\x00\x00\x09\x01bV"), "inner table beyond the outer"),
    ],
)
def test_malformed_table(data: bytes, why: str) -> None:
    with pytest.raises(FieldError):
        decode_table(data, 0)


def test_position_beyond_the_end() -> None:
    for decode in (decode_table, skip_table):
        with pytest.raises(FieldError):
            decode(b"\x00\x00\x00\x00", 5)


@pytest.mark.parametrize("tag", ["F", "A"])
def test_only_nesting_that_is_decoded_is_encoded(tag: str) -> None:
    deepest: Table = {"": nested(DECODED_DEPTH - 1, tag)}
    assert decode_table(encode_table(deepest), 0)[0] == deepest
    with pytest.raises(FieldError, match="nested"):
        encode_table({"": nested(DECODED_DEPTH, tag)})


@pytest.mark.parametrize(
    "field",
    [
        ("B", -1),
        ("B", 256),
        ("i", 2**32),
        ("T", -1),
        ("I", "5"),
        ("I", 1.0),
        ("S", "text"),
        ("S", 5),
        ("D", (256, 1)),
        ("D", (0, 2**31)),
        ("D", 5),
        ("f", 1e300),
        ("d", "1.0"),
        ("F", []),
        ("F", {"x" * 256: ("V", None)}),
        ("F", {"\ud800": ("V", None)}),
        ("F", {5: ("V", None)}),
        ("F", {"a": None}),
        ("A", [("q", 1)]),
        ("A", 5),
        ("q", 1),
        ("", 1),
    ],
)
def test_value_that_no_octets_stand_for(field: Any) -> None:
    with pytest.raises(FieldError):
        encode_table({"a": field})


def test_plain_values_and_back() -> None:
    values = {
        "text": "grüße",
        "octets": b"\xff",
        "yes": True,
        "small": -5,
        "large": 2**31,
        "float": 0.25,
        "none": None,
        "list": [1, "a", [False]],
        "map": {"a": {"b": 1}},
        "decimal": decimal.Decimal("-3.14"),
    }
    table, _ = decode_table(encode_plain(values), 0)
    assert {name: field[0] for name, field in table.items()} == {
        "text": "S",
        "octets": "x",
        "yes": "t",
        "small": "I",
        "large": "l",
        "float": "d",
        "none": "V",
        "list": "A",
        "map": "F",
        "decimal": "D",
    }
    assert plain(table) == values


def test_plain_of_values_without_a_tag_of_their_own() -> None:
    table: Table = {"T": ("T", 5), "S": ("S", b"\xff"), "u": ("u", 7), "D": ("D", (0, 12))}
    assert plain(table) == {"T": 5, "S": "\udcff", "u": 7, "D": decimal.Decimal(12)}


def test_times_become_timestamps() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    table, _ = decode_table(
        encode_plain(
            {
                "aware": datetime.datetime(1970, 1, 1, 2, 0, 5, tzinfo=zone),
                "naive": datetime.datetime(1970, 1, 1, 0, 0, 5),
            }
        ),
        0,
    )
    assert table == {"aware": ("T", 5), "naive": ("T", 5)}


@pytest.mark.parametrize("number", ["0", "1E+3", "-0.001", "2147483647", "1E-255"])
def test_decimals(number: str) -> None:
    value = decimal.Decimal(number)
    assert plain(decode_table(encode_plain({"n": value}), 0)[0])["n"] == value


@pytest.mark.parametrize(
    "value",
    [object(), {1}, 2**63, 1 + 2j, decimal.Decimal("NaN"), decimal.Decimal("1E-256"), "\ud800", {5: 1}],
)
def test_plain_value_that_no_field_holds(value: Any) -> None:
    with pytest.raises(FieldError):
        encode_plain({"a": value})


def test_list_inside_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(FieldError, match="nested"):
        encode_plain({"a": endless})
