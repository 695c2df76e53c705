"""Properties of class basic. AMQP 0-9-1, sections 2.3.5.2 and 4.2.6.1."""

from __future__ import annotations

from typing import Any

import pika.spec  # type: ignore[import-untyped]  # pika has no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.fields import FieldError, encode_table
from amqp_router.protocol.properties import (
    PROPERTIES,
    decode_properties,
    encode_properties,
    header_range,
    headers_of,
)
from tests.protocol.strategies import property_lists


@given(property_lists())
def test_decode_inverts_encode(values: dict[str, Any]) -> None:
    assert decode_properties(encode_properties(values)) == values


@given(property_lists())
def test_headers_are_found_without_the_rest(values: dict[str, Any]) -> None:
    properties = encode_properties(values)
    start, end = header_range(properties)
    assert headers_of(properties) == values.get("headers")
    if "headers" in values:
        assert properties[start:end] == encode_table(values["headers"])
    else:
        assert (start, end) == (0, 0)


@given(st.binary(max_size=50))
def test_random_octets_give_properties_or_a_field_error(data: bytes) -> None:
    for function in (decode_properties, headers_of, header_range):
        try:
            function(data)
        except FieldError:
            continue


@given(property_lists(), st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_properties(values: dict[str, Any], place: int, octet: int) -> None:
    data = bytearray(encode_properties(values))
    data[place % len(data)] = octet
    for function in (decode_properties, headers_of, header_range):
        try:
            function(bytes(data))
        except FieldError:
            continue


@given(property_lists(), st.integers(0, 10_000))
def test_properties_cut_short_are_refused(values: dict[str, Any], place: int) -> None:
    data = encode_properties(values)
    with pytest.raises(FieldError):
        decode_properties(data[: place % len(data)])


def test_every_property_against_another_implementation() -> None:
    values: dict[str, Any] = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "headers": {"k": ("S", b"v")},
        "delivery_mode": 2,
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "user_id": "u",
        "app_id": "a",
        "cluster_id": "x",
    }
    assert values.keys() == PROPERTIES.keys()
    theirs = pika.spec.BasicProperties(**(values | {"headers": {"k": "v"}}))
    assert encode_properties(values) == b"".join(theirs.encode())


def test_no_properties() -> None:
    assert encode_properties({}) == b"\x00\x00"
    assert decode_properties(b"\x00\x00") == {}
    assert headers_of(b"\x00\x00") is None
    assert header_range(b"\x00\x00") == (0, 0)


def test_empty_headers_are_headers() -> None:
    properties = encode_properties({"headers": {}})
    assert headers_of(properties) == {}
    assert header_range(properties) == (2, 6)


def test_headers_of_looks_at_nothing_behind_them() -> None:
    properties = encode_properties({"headers": {"a": ("V", None)}, "app_id": "abc"})
    assert headers_of(properties[:-2]) == {"a": ("V", None)}


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (b"", "no flags"),
        (b"\x80", "half of the flags"),
        (b"\x00\x01\x00\x00", "a second flags word, which class basic has not"),
        (b"\x00\x02", "a flag without a property"),
        (b"\x80\x00", "string without size"),
        (b"\x80\x00\x02a", "string cut short"),
        (b"\x20\x00\x00\x00\x00\x01", "table cut short"),
        (b"\x10\x00", "octet missing"),
        (b"\x00\x40" + bytes(7), "timestamp cut short"),
        (b"\x00\x00\x00", "octets that belong to nothing"),
    ],
)
def test_malformed_properties(properties: bytes, why: str) -> None:
    with pytest.raises(FieldError):
        decode_properties(properties)


@pytest.mark.parametrize("properties", [b"\xa0\x00\x02a", b"\x60\x00", b"\x20\x00\x00\x00\x00\x01", b"\x20"])
def test_headers_behind_malformed_octets(properties: bytes) -> None:
    for function in (headers_of, header_range):
        with pytest.raises(FieldError):
            function(properties)


@pytest.mark.parametrize(
    "values",
    [
        {"priority": 256},
        {"priority": -1},
        {"priority": "5"},
        {"timestamp": 2**64},
        {"type": "x" * 256},
        {"type": b"octets"},
        {"type": "\ud800"},
        {"headers": {"a": ("B", 256)}},
        {"headers": None},
        {"content-type": "a/b"},
    ],
)
def test_values_that_no_octets_stand_for(values: dict[str, Any]) -> None:
    with pytest.raises(FieldError):
        encode_properties(values)
