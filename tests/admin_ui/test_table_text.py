"""Large tables in documents: written in steps, and as if they were decoded and written at once."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_ui.documents.arguments import AT_ONCE, LargeTable, arguments
from admin_ui.documents.table_text import STEP, TableText
from admin_ui.documents.tables import value
from admin_ui.live import documents as live_documents
from admin_ui.query import parse, sort_key
from admin_ui.replies import dumps, text_of
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.fields import Table, decode_table, encode_plain, encode_table
from amqp_router.protocol.kept_table import Arguments, keep, read_arguments
from amqp_router.protocol.nested import DECODED_DEPTH
from tests.admin_ui.world import World
from tests.protocol.strategies import tables


def written(octets: bytes) -> bytes:
    text = TableText(octets)
    while not text.go_on():
        pass
    return text.json()


def document(table: Table) -> dict[str, Any]:
    """As a document that can be written at once: all of its texts are UTF-8."""
    return {text_of(name.encode("utf-8", "surrogateescape")): inner(*field) for name, field in table.items()}


def inner(tag: str, content: Any) -> Any:
    if tag == "F" and isinstance(content, dict):
        return document(content)
    if tag == "A" and isinstance(content, list):
        return [inner(*each) for each in content]
    return value((tag, content))


@given(tables())
def test_as_at_once(table: Table) -> None:
    octets = encode_table(table)
    assert written(octets) == orjson.dumps(document(table))


@given(tables(), st.data())
def test_malformed_octets_are_an_error_or_something_in_json(table: Table, data: st.DataObject) -> None:
    octets = bytearray(encode_table(table))
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    try:
        made = written(bytes(octets[: data.draw(st.integers(4, len(octets)))]))
    except FieldError:
        return
    json.loads(made)


def entry(name: bytes, tagged: bytes) -> bytes:
    return bytes([len(name)]) + name + tagged


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_first_of_several_with_one_name_counts(is_nested: bool) -> None:
    octets = sized(
        entry(b"a", b"I\0\0\0\1")
        + entry(b"b", b"t\1")
        + entry(b"a", b"F" + sized(entry(b"b", b"V")))
        + entry(b"c", b"b\xff")
    )
    if is_nested:
        octets = sized(entry(b"n", b"F" + octets))
    assert written(octets) == dumps(document(decode_table(octets, 0)[0]))
    assert b'{"a":1,"b":true,"c":-1}' in written(octets)


@pytest.mark.parametrize("depth", [DECODED_DEPTH, DECODED_DEPTH + 1, 200])
@pytest.mark.parametrize("tag", [b"A", b"F"])
def test_what_lies_too_deep_is_a_note(depth: int, tag: bytes) -> None:
    octets = b"V"
    for _ in range(depth):
        octets = tag + sized(octets if tag == b"A" else entry(b"x", octets))
    octets = sized(entry(b"a", octets))
    assert written(octets) == dumps(document(decode_table(octets, 0)[0]))
    assert (b"deep)" in written(octets)) == (depth > DECODED_DEPTH)


SHAPES: dict[str, dict[str, Any]] = {
    "booleans": {"x": [True] * 20_000},
    "strings": {"x": ["ab"] * 5000},
    "names": {f"x-{number}": number for number in range(1500)},
    "tables": {"x": [{"a": 1}] * 3000},
    "octets": {"x": [b"\xff"] * 5000},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_writes_some_values(shape: str) -> None:
    octets = encode_plain(SHAPES[shape])
    text = TableText(octets)
    count = 1
    while not text.go_on():
        count += 1
    assert count >= max(len(SHAPES[shape]), len(SHAPES[shape].get("x", ()))) // STEP
    assert text.json() == orjson.dumps(document(decode_table(octets, 0)[0]))


def kept(values: dict[str, Any]) -> Arguments:
    return read_arguments(encode_plain(values), 0)[0]


def test_small_tables_are_plain() -> None:
    assert arguments(kept({"a": "x" * 10})) == {"a": "x" * 10}
    assert arguments(kept({"a": "x" * (AT_ONCE - 100)})) == {"a": "x" * (AT_ONCE - 100)}
    assert isinstance(arguments(kept({"a": "x" * AT_ONCE})), LargeTable)


def test_a_large_table_can_be_sorted_by_without_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    large = [
        {"arguments": arguments(kept({"more": [True] * 20_000, "n": number, "t": {"a": [number] * 2000}}))}
        for number in (2, 3, 1)
    ]
    for path, wanted in (("arguments.n", [1, 2, 3]), ("arguments.t", None), ("arguments", None)):
        sort = parse({"sort": path}).sort
        assert sort is not None
        keys = [sort_key(each, sort) for each in large]
        assert len(str(keys)) < 3000
        assert wanted is None or [number for _, number in sorted(keys)] == wanted
    assert sort_key(large[0], ["arguments", "none"]) == sort_key({}, ["arguments", "none"])


# -- over HTTP ---------------------------------------------------------------------------------------

VALUES = [True] * 20_000


def declare(shop: World) -> None:
    vhost = shop.broker.vhosts["shop"]
    table = keep(decode_table(encode_plain({"values": VALUES}), 0)[0])
    vhost.declare_queue("large", durable=True, arguments=table)
    vhost.declare_exchange("large", "fanout", durable=True, arguments=table)
    vhost.bind_queue("large", "large", "", table, None)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize(
    "path",
    [
        "queues",
        "queues?page=1",
        "queues?columns=arguments",
        "queues/shop/large",
        "exchanges",
        "exchanges/shop/large",
        "bindings",
        "bindings/shop/e/large/q/large",
        "definitions",
    ],
)
async def test_large_arguments_are_written_in_turns(
    shop: World, turns: list[int], path: str, encoding: str
) -> None:
    """A row with 128 KiB of them held the event loop for 12 to 34 ms."""
    declare(shop)
    turns.clear()
    found = await shop.get(f"/{path}", **{"Accept-Encoding": encoding})
    assert len(turns) > len(VALUES) // STEP
    if path == "definitions":
        found = found["queues"] + found["exchanges"] + found["bindings"]
    rows = found.get("items", [found]) if isinstance(found, dict) else found
    large = [row["arguments"] for row in rows if row["arguments"]]
    assert large == [{"values": VALUES}] * (3 if path == "definitions" else 1)


async def test_the_page_of_a_queue_with_large_arguments(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(shop)
    events: list[Any] = []
    plain = live_documents.build

    def build(*arguments: Any) -> Any:
        events.append(plain(*arguments))
        return events[-1]

    monkeypatch.setattr(live_documents, "build", build)
    headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
    url = f"{shop.base}/admin/v1/events?topics=queue:shop/large"
    async with shop.http.get(url, headers=headers) as response:
        data = b""
        while b"\n\n" not in data:
            data += await response.content.readany()
    event = json.loads(data.partition(b"data: ")[2].partition(b"\n\n")[0])
    assert event["queue"]["arguments"] == {"values": VALUES}
    assert isinstance(events[0]["queue"]["arguments"], LargeTable)
