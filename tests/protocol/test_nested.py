"""Tables nested far deeper than a recursive reader could go, in front of everyone who reads tables."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from admin_ui.documents.tables import table as table_document
from amqp_router.protocol.fields import (
    FieldError,
    Table,
    decode_table,
    encode_plain,
    encode_table,
    plain,
    skip_table,
)
from amqp_router.protocol.frames import COMPLETE, ContentScan, table_entries
from amqp_router.protocol.kept_table import KeptTable, encoded, encoded_by_name, keep, read_arguments
from amqp_router.protocol.nested import DECODED_DEPTH, end_of_nested, without_entry
from amqp_router.protocol.properties import decode_properties
from amqp_router.protocol.shown import without_bcc
from spark_analytics.properties import header_texts
from tests.protocol.strategies import tables
from vhosts.arguments import check_queue_equivalence
from vhosts.errors import erlang
from vhosts.exchanges.headers_index import comparable

#: What a frame may have at most: 128 KiB.
FRAME = 131_064


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


def deep_table(kinds: str, *, rest: bytes = b"") -> bytes:
    """A table with one of ``kinds`` in each other, the outermost first; ``rest`` follows inside of each."""
    heads: list[bytes] = []
    ends: list[bytes] = []
    size = 0
    for level in range(len(kinds) - 1, -1, -1):
        end = rest and (b"\x01z" + rest if kinds[level] == "F" else rest)
        size += len(end)
        name = b"\x01a" if level == 0 or kinds[level - 1] == "F" else b""
        head = name + kinds[level].encode() + size.to_bytes(4, "big")
        size += len(head)
        heads.append(head)
        ends.append(end)
    return sized(b"".join(reversed(heads)) + b"".join(ends))


def kinds(depth: int, mixture: int) -> str:
    """``depth`` tables and arrays, mixed by the bits of ``mixture``."""
    return "".join("F" if mixture >> level % 13 & 1 else "A" for level in range(depth))


def walk(octets: bytes) -> Table:
    """Everything that is done with a table; returns it decoded."""
    table, end = decode_table(octets, 0)
    assert end == len(octets) == skip_table(octets, 0)
    assert encode_table(table) == octets
    assert table == decode_table(octets, 0)[0]
    assert copy.deepcopy(table) == pickle.loads(pickle.dumps(table)) == table
    assert repr(table)
    json.loads(json.dumps(table_document(table)))
    json.dumps(plain(table))
    for field in table.values():
        hash(comparable(field))
        assert comparable(field) == comparable(decode_table(octets, 0)[0]["a"])
        erlang(field[1])
    check_content(octets)
    check_arguments(octets)
    texts = header_texts(octets[4:])
    assert texts is not None
    assert texts.keys() == table.keys()
    return table


def check_content(octets: bytes) -> None:
    properties = b"\x20\0" + octets
    payload = b"\0\x3c\0\0" + bytes(8) + properties
    data = b"\2\0\1" + sized(payload) + b"\xce"
    assert ContentScan().scan(data, 0, len(data), 1) == COMPLETE
    assert encode_table(decode_properties(properties)["headers"]) == octets
    with_bcc = sized(octets[4:] + b"\x03BCCA\0\0\0\0")
    assert without_bcc(b"\x20\0" + with_bcc) == properties


def check_arguments(octets: bytes) -> None:
    arguments, end = read_arguments(octets, 0)
    assert end == len(octets)
    assert encoded(arguments) == encoded(keep(arguments)) == encoded_by_name(arguments) == octets
    assert arguments == keep(decode_table(octets, 0)[0])
    assert table_entries(octets, 0, 10)[1:] == (len(octets), True)
    assert dict(arguments.items())
    check_queue_equivalence("q", "/", (True, False, arguments), (True, False, dict(arguments)))


@given(st.integers(1, 6000), st.integers(0, (1 << 13) - 1), st.sampled_from([b"", b"V", b"t\x01"]))
@example(DECODED_DEPTH - 1, 0, b"")
@example(DECODED_DEPTH, 0, b"V")
@example(DECODED_DEPTH + 1, 5555, b"V")
@example(6000, (1 << 13) - 1, b"V")
@example(6000, 0, b"")
def test_any_depth_passes_every_reader(depth: int, mixture: int, rest: bytes) -> None:
    walk(deep_table(kinds(depth, mixture), rest=rest))


def in_a_thread_with_a_small_stack(call: Callable[[], Any]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    for error in errors:
        raise error


@pytest.mark.parametrize("kind", ["A", "F"])
@pytest.mark.parametrize("rest", [b"", b"V"])
def test_frame_full_of_nesting_needs_no_stack(kind: str, rest: bytes) -> None:
    """Compiled, a recursion that goes too deep would end the process."""
    level = len(deep_table(2 * kind, rest=rest)) - len(deep_table(kind, rest=rest))
    octets = deep_table(kind * ((FRAME - 20) // level), rest=rest)
    assert FRAME - 40 < len(octets) < FRAME
    in_a_thread_with_a_small_stack(lambda: walk(octets))


@pytest.mark.parametrize("kind", ["A", "F"])
@pytest.mark.parametrize("rest", [b"", b"V"])
def test_frame_full_of_nesting_takes_little_memory(kind: str, rest: bytes) -> None:
    octets = deep_table(kind * 16_000, rest=rest)
    tracemalloc.start()
    end_of_nested(octets, 0, len(octets), True)
    _, walking = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    table = decode_table(octets, 0)[0]
    decoded, decoding = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table
    assert walking < (10 * len(octets) if rest else 2000)
    assert decoded < 1.5 * len(octets)
    assert decoding < 12 * len(octets)


def test_what_lies_too_deep_is_a_note_and_a_value_is_not() -> None:
    table = decode_table(deep_table("A" * 100 + "F"), 0)[0]
    shown = json.dumps(table_document(table))
    assert "(180 octets, nested more than 64 deep)" in shown
    assert json.dumps(plain(table)) == shown
    texts = header_texts(deep_table("A" * 100 + "F")[4:])
    assert texts is not None
    assert texts["a"] == shown[6:-1].replace(" [", "[")
    assert "nested" not in json.dumps(table_document(decode_table(deep_table("A" * 64), 0)[0]))


def test_headers_are_compared_below_what_is_decoded_too() -> None:
    one, same, other = (
        comparable(decode_table(deep_table("A" * 500, rest=rest), 0)[0]["a"])
        for rest in (b"t\x01", b"t\x01", b"t\x00")
    )
    assert one == same != other
    assert hash(one) == hash(same)


@given(tables(), st.data())
def test_the_walk_without_recursion_takes_what_decoding_takes(table: Table, data: st.DataObject) -> None:
    check_end(encode_table(table))
    octets = bytearray(encode_table(table))
    at = data.draw(st.integers(0, len(octets) - 1))
    octets[at] = data.draw(st.integers(0, 255))
    check_end(bytes(octets))
    check_end(bytes(octets[: data.draw(st.integers(0, len(octets)))]))


def check_end(octets: bytes) -> None:
    try:
        _, end = decode_table(octets, 0)
    except FieldError:
        end = -1
    assert end_of_nested(octets, 0, len(octets), True) == end
    assert end_of_nested(b"around" + octets + b"it", 6, 6 + len(octets), True) == (
        end + 6 if end >= 0 else -1
    )


@given(st.integers(65, 300), st.integers(0, (1 << 13) - 1), st.data())
def test_malformed_octets_are_found_at_any_depth(depth: int, mixture: int, data: st.DataObject) -> None:
    octets = bytearray(deep_table(kinds(depth, mixture), rest=b"V"))
    octets[data.draw(st.integers(0, len(octets) - 1))] ^= data.draw(st.integers(1, 255))
    end = end_of_nested(bytes(octets), 0, len(octets), True)
    arguments: Any = None
    try:
        arguments, there = read_arguments(bytes(octets), 0)
        assert there == end
        assert decode_table(bytes(octets), 0)[1] == end
    except FieldError:
        assert end == -1
        with pytest.raises(FieldError):
            decode_table(bytes(octets), 0)
    else:
        assert isinstance(arguments, KeptTable | dict)


def test_values_nested_too_deeply_are_not_made_of_python_objects() -> None:
    value: Any = "x"
    for _ in range(DECODED_DEPTH + 1):
        value = [value]
    with pytest.raises(FieldError, match="nested"):
        encode_plain({"a": value})


@given(tables(), st.sampled_from(["BCC", "BC", "BCCC", "a", ""]))
def test_entry_is_cut_out_as_if_decoded(table: Table, name: str) -> None:
    octets = encode_table(table)
    rest = without_entry(octets, name.encode())
    assert rest is not None
    assert rest == encode_table({each: field for each, field in table.items() if each != name})
    for end in range(len(octets)):
        assert without_entry(octets[:end], name.encode()) is None


def test_every_entry_of_a_name_is_cut_out() -> None:
    one, two = b"\3BCCV", b"\1at\1"
    octets = one + two + one + one + two
    rest = without_entry(len(octets).to_bytes(4, "big") + octets, b"BCC")
    assert rest == len(two + two).to_bytes(4, "big") + two + two
    assert without_entry(b"\0\0\0\4\1a?\0", b"BCC") is None  # no such type


def test_values_beside_the_entry_are_not_looked_at() -> None:
    """Else a consumer of messages with many values in their headers would hold up the others."""
    table: Table = {"many": ("A", [("t", True)] * 60_000), "BCC": ("A", [("S", b"q")])}
    octets = encode_table(table)
    damaged = octets.replace(b"t\1", b"?\1")  # of no type
    assert damaged != octets
    rest = without_entry(damaged, b"BCC")
    assert rest is not None
    assert rest.count(b"?\1") == 60_000
    assert b"BCC" not in rest
