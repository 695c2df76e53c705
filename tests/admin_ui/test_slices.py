"""Large bodies, headers and arguments: no step makes more than some of the values, however many there are."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_ui.documents import table_text
from admin_ui.json_text import HalfOfAPairError, UnrepeatableError
from admin_ui.large_json import WINDOW, Pieces, read_object
from admin_ui.replies import ApiError
from admin_ui.table_octets import STEP, table_octets
from admin_ui.writing import VALUES_MAX
from admin_ui.writing import table as table_of_json
from amqp_router.protocol import kept_table
from amqp_router.protocol.fields import encode_table
from tests.admin_ui.world import World

VALUES = st.recursive(
    st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=50), inner),
    max_leaves=20,
)
TABLES = st.dictionaries(st.text(max_size=50), VALUES)


def steps(text: str, **options: Any) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    return found, sum(1 for _ in read_object([text.encode()], found, **options))


def whole(content: dict[str, Any], octets_max: int) -> bytes:
    """The octets, made in all steps."""
    result = b""

    def run() -> Generator[None]:
        nonlocal result
        result = yield from table_octets(content, octets_max)

    for _ in run():
        pass
    return result


def test_a_large_object_at_any_depth_is_read_member_by_member() -> None:
    content = {"properties": {"headers": {f"k{number}": number for number in range(20_000)}}}
    text = json.dumps(content)
    found, count = steps(text)
    assert found == content
    assert count > len(text) // WINDOW * 100


@pytest.mark.parametrize("text", ["é" * 20_000, "\U0001f600" * 20_000, "\\" * 100_000, 'a"' * 50_000])
def test_a_long_string_is_read_in_parts(text: str) -> None:
    encoded = json.dumps({"payload": text, "other": text})
    found, count = steps(encoded, in_pieces=("payload",))
    assert isinstance(found["payload"], Pieces)
    assert b"".join(found["payload"]).decode() == found["other"] == text
    assert max(map(len, found["payload"])) <= 4 * WINDOW
    assert count > len(encoded) // (2 * WINDOW)


def test_half_of_a_pair_at_the_end_of_a_part() -> None:
    for before in range(12):
        with pytest.raises(HalfOfAPairError):
            steps('{"a":"' + "x" * (WINDOW - before) + "\\ud83d" + "x" * WINDOW * 3 + '"}')


def test_more_values_than_a_body_may_have_are_not_read() -> None:
    for value in ("[]", '{"a":1}', "1"):
        found: dict[str, Any] = {}
        text = f'{{"a":[{",".join([value] * 10_000)}]}}'
        with pytest.raises(UnrepeatableError, match="more than 1000 values"):
            list(read_object([text.encode()], found, values_max=1000))


@given(TABLES)
def test_octets_as_made_at_once(content: dict[str, Any]) -> None:
    assert whole(content, 1 << 20) == encode_table(table_of_json(content))


def test_a_table_is_made_in_steps_and_refused_early() -> None:
    content: dict[str, Any] = {"a": [True] * 10_000, "b": {str(number): 1 for number in range(10_000)}}
    assert sum(1 for _ in table_octets(content, 1 << 20)) >= 20_000 // STEP
    with pytest.raises(ApiError, match="fit into a frame"):  # and not that null is no value
        whole({"a": [True] * 10_000, "b": None}, 1000)


async def test_headers_that_fit_into_no_frame_are_refused(shop: World) -> None:
    async def publish(headers: dict[str, Any]) -> Any:
        content = {"routing_key": "emails", "payload": "x", "payload_encoding": "string"}
        body = json.dumps({**content, "properties": {"headers": headers}})
        return await shop.call("POST", "/api/exchanges/shop/amq.default/publish", body=body)

    before = shop.broker.options.frame_max - 8 - 12 - 2 - 4
    fits = before - len("\1aS") - 4
    assert (await publish({"a": "x" * fits})).status == 200
    for headers in ({"a": "x" * (fits + 1)}, {str(number): 1 for number in range(20_000)}):
        reply = await publish(headers)
        assert reply.status == 400
        assert "frame" in reply.json["reason"]
    reply = await publish({str(number): 1 for number in range(VALUES_MAX)})
    assert (reply.status, reply.json["reason"]) == (400, f"more than {VALUES_MAX} values")


async def test_arguments_that_fit_into_no_frame_are_refused(shop: World) -> None:
    for path, method in (
        ("queues/shop/large", "PUT"),
        ("exchanges/shop/large", "PUT"),
        ("bindings/shop/e/amq.topic/q/emails", "POST"),
    ):
        body = json.dumps({"arguments": {"a": "x" * (1 << 17)}})
        reply = await shop.call(method, f"/api/{path}", body=body)
        assert reply.status == 400
        assert "frame" in reply.json["reason"]


async def test_the_headers_of_a_taken_message_are_shown_in_slices(shop: World, turns: list[int]) -> None:
    headers = {"names": {str(number): True for number in range(5000)}, "values": [True] * 20_000}
    content = {"routing_key": "emails", "payload": "x", "payload_encoding": "string"}
    body = json.dumps({**content, "properties": {"headers": headers}})
    path = "/api/exchanges/shop/amq.default/publish"
    assert (await shop.call("POST", path, body=body)).status == 200
    turns.clear()
    wanted = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}
    reply = await shop.call("POST", "/api/queues/shop/emails/get", body=json.dumps(wanted))
    assert reply.json[-1]["properties"]["headers"] == headers
    assert len(turns) > 25_000 // table_text.STEP


@pytest.mark.parametrize("what", ["queues", "exchanges", "bindings"])
async def test_large_arguments_are_not_encoded_again(
    shop: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A declaration with 128 KiB of arguments held the event loop for 31 to 49 ms."""
    encoded: list[int] = []

    def counting(values: Any) -> bytes:
        octets = encode_table(values)
        encoded.append(len(octets))
        return octets

    monkeypatch.setattr(kept_table, "encode_table", counting)
    content: dict[str, Any] = {"arguments": {f"x-{number}": True for number in range(2000)}}
    if what == "bindings":
        answer = await shop.call("POST", "/api/bindings/shop/e/amq.topic/q/emails", body=json.dumps(content))
    else:
        body = json.dumps({"type": "direct", **content} if what == "exchanges" else content)
        answer = await shop.call("PUT", f"/api/{what}/shop/large", body=body)
    assert answer.status == 201
    assert max(encoded, default=0) < 1000
