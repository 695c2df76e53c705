"""Bodies with strings and numbers that no answer could repeat are refused, wherever they stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admin_ui.json_text import NESTED_MAX, UnrepeatableError, loads
from tests.admin_ui.world import World

HALF = "a\ud800b"
LISTS = (
    "/definitions",
    "/users",
    "/vhosts",
    "/policies",
    "/parameters",
    "/global-parameters",
    "/queues",
    "/exchanges",
    "/bindings",
    "/permissions",
    "/topic-permissions",
)
RIGHTS = {"configure": "", "write": "", "read": ""}
PUBLISH = {"properties": {}, "routing_key": "", "payload": "", "payload_encoding": "string"}
QUEUE = {"vhost": "shop", "name": "x", "durable": True, "auto_delete": False, "arguments": {}}
BODIES: list[tuple[str, str, Any]] = [
    ("PUT", "/global-parameters/x", {"value": HALF}),
    ("PUT", "/global-parameters/x", {"value": {HALF: 1}}),
    ("PUT", "/cluster-name", {"name": HALF}),
    ("PUT", "/policies/shop/x", {"pattern": HALF, "definition": {"message-ttl": 5}}),
    ("PUT", "/policies/shop/x", {"pattern": "", "definition": {"dead-letter-exchange": HALF}}),
    ("PUT", "/vhosts/x", {"description": HALF}),
    ("PUT", "/vhosts/x", {"tags": [HALF]}),
    ("PUT", "/vhosts/x", {"default_queue_type": HALF}),
    ("PUT", "/users/x", {"password": HALF, "tags": ""}),
    ("PUT", "/users/x", {"password": "x", "tags": HALF}),
    ("POST", "/users/bulk-delete", {"users": [HALF]}),
    ("PUT", "/permissions/shop/alice", {**RIGHTS, "read": HALF}),
    ("PUT", "/topic-permissions/shop/alice", {"exchange": HALF, "write": "", "read": ""}),
    ("PUT", "/queues/shop/x", {"arguments": {HALF: 1}}),
    ("PUT", "/queues/shop/x", {"arguments": {"a": [HALF]}}),
    ("PUT", "/exchanges/shop/x", {"type": HALF}),
    ("POST", "/bindings/shop/e/orders/q/emails", {"routing_key": HALF}),
    ("POST", "/exchanges/shop/orders/publish", {**PUBLISH, "routing_key": HALF}),
    ("POST", "/exchanges/shop/orders/publish", {**PUBLISH, "payload": HALF}),
    ("POST", "/exchanges/shop/orders/publish", {**PUBLISH, "properties": {"app_id": HALF}}),
    ("POST", "/exchanges/shop/orders/publish", {**PUBLISH, "properties": {"headers": {"a": HALF}}}),
    ("POST", "/definitions", {"vhosts": [{"name": HALF}]}),
    ("POST", "/definitions", {"global_parameters": [{"name": "x", "value": HALF}]}),
    ("POST", "/definitions", {"users": [{"name": "x", "password": "x", "tags": HALF}]}),
    ("POST", "/definitions", {"queues": [{**QUEUE, "name": HALF}]}),
    ("POST", "/definitions/shop", {HALF: []}),
]


@pytest.mark.parametrize(("method", "path", "body"), BODIES)
async def test_half_of_a_pair_is_refused_and_leaves_nothing_behind(
    shop: World, method: str, path: str, body: Any
) -> None:
    before = {each: (await shop.call("GET", f"/api{each}")).json for each in LISTS}
    reply = await shop.call(method, f"/api{path}", body=json.dumps(body))
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert reply.json["reason"] in ("a string has half of a surrogate pair", "failed_to_parse_json")
    assert {each: (await shop.call("GET", f"/api{each}")).json for each in LISTS} == before


async def test_half_of_a_pair_that_is_stored_already_does_not_spoil_lists(shop: World) -> None:
    shop.broker.parameters.put_global("x", HALF)
    shop.broker.users.put_user("x", b"x", (HALF,))
    for path in LISTS:
        await shop.get(path)
    assert {"name": "x", "value": "a?b"} in await shop.get("/global-parameters")


def test_whole_pairs_and_all_else_that_utf_8_has() -> None:
    for value in ("\U0001f600", "\\ud800", "\\\\ud800", "\uffff", "é\0"):
        for escaped in (True, False):
            assert loads(json.dumps({value: [value]}, ensure_ascii=escaped).encode()) == {value: [value]}
    assert loads(b"\xef\xbb\xbf{}") == {}


@pytest.mark.parametrize(
    "data",
    [
        rb'"\ud800"',
        rb'"\uDFFF"',
        rb'"\uDE00\uD83D"',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        '"x"'.encode("utf-16"),
        b"NaN",
        b"[-Infinity]",
        b'{"a": 1e999}',
    ],
)
def test_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"surrogate|utf-8|is not JSON|too large"):
        loads(data)


HUGE = "1" + "0" * 400
DEEP = "[" * 900 + "]" * 900
POISON: list[tuple[str, str, str]] = [
    ("PUT", "/policies/shop/x", f'{{"pattern": "", "definition": {{"max-length": 1}}, "priority": {HUGE}}}'),
    ("PUT", "/global-parameters/x", f'{{"value": {HUGE}}}'),
    ("PUT", "/global-parameters/x", f'{{"value": {1 << 64}}}'),
    ("PUT", "/global-parameters/x", f'{{"value": {DEEP}}}'),
    ("PUT", "/queues/shop/x", f'{{"arguments": {{"x": {DEEP}}}}}'),
    ("POST", "/exchanges/shop/orders/publish", f'{{"properties": {{"headers": {{"a": {DEEP}}}}}}}'),
    ("POST", "/definitions", f'{{"global_parameters": [{{"name": "x", "value": {DEEP}}}]}}'),
    ("POST", "/definitions", f'{{"global_parameters": [{{"name": "x", "value": {HUGE}}}]}}'),
]


@pytest.mark.parametrize(("method", "path", "body"), POISON)
async def test_what_is_too_large_or_too_deep_to_be_shown_is_refused(
    shop: World, method: str, path: str, body: str
) -> None:
    """A policy with such a priority was stored, and lists of policies failed from then on."""
    before = {each: (await shop.call("GET", f"/api{each}")).json for each in LISTS}
    reply = await shop.call(method, f"/api{path}", body=body)
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert {each: (await shop.call("GET", f"/api{each}")).json for each in LISTS} == before


def test_the_deepest_and_the_largest_values() -> None:
    nested = b"[" * NESTED_MAX + b"]" * NESTED_MAX
    assert json.dumps(loads(nested)).encode() == nested
    for wrong in (b"[" + nested + b"]", b'{"a":' + nested + b"}"):
        with pytest.raises(UnrepeatableError, match="nested more than 200 deep"):
            loads(wrong)
    assert loads(b'"' + b"[" * 300 + b'"') == "[" * 300
    wide = b"[" + b"[]," * 300 + b"{}]"
    assert len(loads(wide)) == 301
    for number in (-(1 << 63), (1 << 64) - 1):
        assert loads(str(number).encode()) == number
    for number in (-(1 << 63) - 1, 1 << 64, int(HUGE)):
        with pytest.raises(UnrepeatableError, match="does not fit into 64 bits"):
            loads(str(number).encode())
