"""Messages over HTTP: published and taken; answers as recorded of RabbitMQ 3.10.8."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
from typing import Any

import aio_pika
import pytest

from admin_ui.api import message_list
from admin_ui.api.messages import GET_BYTES_MAX, PUBLISH_BYTES_MAX, SLICE
from admin_ui.replies import dumps
from tests.admin_ui.world import Reply, World
from vhosts.publishing.spread import SPREAD_SLICE


def bad(reason: Any) -> dict[str, Any]:
    return {"error": "bad_request", "reason": reason}


async def post(shop: World, path: str, user: str = "guest", **content: Any) -> Reply:
    return await shop.call("POST", f"/api{path}", user, body=json.dumps(content))


async def publish(
    shop: World,
    routing_key: str,
    payload: Any = "x",
    exchange: str = "amq.default",
    *,
    encoding: Any = "string",
    properties: Any = None,
    user: str = "guest",
) -> Reply:
    return await post(
        shop,
        f"/exchanges/shop/{exchange}/publish",
        user,
        routing_key=routing_key,
        payload=payload,
        payload_encoding=encoding,
        properties={} if properties is None else properties,
    )


async def get(shop: World, queue: str = "emails", user: str = "guest", **content: Any) -> Reply:
    wanted = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto", **content}
    return await post(shop, f"/queues/shop/{queue}/get", user, **wanted)


async def taken(shop: World, queue: str = "emails", **content: Any) -> list[dict[str, Any]]:
    reply = await get(shop, queue, **content)
    assert reply.status == 200, reply
    found: list[dict[str, Any]] = reply.json
    return found


# -- publish -----------------------------------------------------------------------------------------


async def test_published_and_taken(shop: World) -> None:
    properties = {
        "delivery_mode": 2,
        "headers": {"a": 1, "b": "x", "c": [1, 2], "d": {"e": True}},
        "content_type": "application/json",
        "priority": 3,
        "timestamp": 1700000000,
        "message_id": "m1",
        "correlation_id": "c1",
        "reply_to": "rq",
        "type": "t",
        "user_id": "guest",
        "app_id": "app",
    }
    for reply in (
        await publish(shop, "emails", '{"hello":1}', properties={**properties, "bogus": 1}),
        await publish(shop, "emails", "//79AA==", encoding="base64", properties=[]),
        await publish(shop, "emails", "héllo"),
    ):
        assert (reply.status, reply.json) == (200, {"routed": True})
    first, second, third = await taken(shop)
    assert first == {
        "payload_bytes": 11,
        "redelivered": False,
        "exchange": "",
        "routing_key": "emails",
        "message_count": 2,
        "properties": properties,
        "payload": '{"hello":1}',
        "payload_encoding": "string",
    }
    assert (second["properties"], second["payload"], second["payload_encoding"]) == ([], "//79AA==", "base64")
    assert (second["payload_bytes"], second["message_count"]) == (4, 1)
    assert (third["payload"], third["payload_encoding"], third["message_count"]) == ("héllo", "string", 0)


async def test_where_it_goes(shop: World) -> None:
    assert (await publish(shop, "eu.1", exchange="orders")).json == {"routed": True}
    assert (await publish(shop, "us.1", exchange="orders")).json == {"routed": False}
    (found,) = await taken(shop, "orders.eu")
    assert (found["exchange"], found["routing_key"]) == ("orders", "eu.1")
    counters = shop.broker.vhosts["shop"].exchanges["orders"].counters
    assert (counters.publish_in, counters.publish_out, counters.unroutable) == (2, 1, 1)


async def test_a_persistent_message_is_stored_when_the_answer_comes(shop: World) -> None:
    queue = shop.broker.vhosts["shop"].queues["orders.eu"]
    assert (await publish(shop, "orders.eu", properties={"delivery_mode": 2})).json == {"routed": True}
    assert queue.message_count() == 1
    assert queue.log.high_watermark == queue.log.end


async def test_a_queue_that_cannot_store_it(shop: World) -> None:
    queue = shop.broker.vhosts["shop"].queues["orders.eu"]
    queue.log.fail(OSError(errno.EIO, "simulated"))
    reply = await publish(shop, "orders.eu", properties={"delivery_mode": 2})
    assert (reply.status, reply.json["error"]) == (500, "internal_error")


async def test_a_queue_that_is_full(shop: World) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    content = json.dumps({"arguments": arguments})
    assert (await shop.call("PUT", "/api/queues/shop/full", body=content)).status == 201
    assert (await publish(shop, "full")).json == {"routed": True}
    reply = await publish(shop, "full")
    assert (reply.status, reply.json) == (400, bad("rejected Unable to publish message. Check queue limits."))


async def test_what_rabbitmq_takes_too(shop: World) -> None:
    """An empty array, which PHP makes of an empty table, and a number of messages with a point."""
    assert (await publish(shop, "emails", properties={"headers": []})).json == {"routed": True}
    content = {"count": 1.5, "truncate": 50000.5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    reply = await post(shop, "/queues/shop/emails/get", **content)
    assert (reply.status, [each["payload"] for each in reply.json]) == (200, ["x"])
    for path in ("vhost-limits", "parameters/vhost-limits"):
        where = "shop/max-queues" if path == "vhost-limits" else "shop/limits"
        value: Any = -1 if path == "vhost-limits" else []
        put = await shop.call("PUT", f"/api/{path}/{where}", body=json.dumps({"value": value}))
        assert put.status in (201, 204), put
    policy = {"pattern": "x", "definition": {"initial-cluster-size": 0}}
    assert (await shop.call("PUT", "/api/policies/shop/p", body=json.dumps(policy))).status == 201


@pytest.mark.parametrize("expiration", ["1", "+1", "0"])
async def test_a_message_that_expires(shop: World, expiration: str) -> None:
    reply = await publish(shop, "emails", properties={"expiration": expiration})
    assert reply.json == {"routed": True}
    await asyncio.sleep(0.01)
    assert await taken(shop) == []
    reply = await publish(shop, "emails", properties={"expiration": "-1"})
    text = "406 PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}"
    assert reply.json == bad(text)


async def test_headers_choose_the_queues(shop: World) -> None:
    headers = {"CC": ["orders.eu"], "BCC": ["emails"]}
    assert (await publish(shop, "nowhere", properties={"headers": headers})).json == {"routed": True}
    for queue in ("orders.eu", "emails"):
        (found,) = await taken(shop, queue)
        assert found["properties"]["headers"] == {"CC": ["orders.eu"]}


async def test_very_many_queues_get_it_in_slices(shop: World) -> None:
    vhost = shop.broker.vhosts["shop"]
    for number in range(SPREAD_SLICE + 10):
        vhost.declare_queue(f"q{number}")
        vhost.bind_queue(f"q{number}", "amq.fanout", "", {}, None)
    assert (await publish(shop, "", exchange="amq.fanout")).json == {"routed": True}
    assert all(vhost.queues[f"q{number}"].message_count() == 1 for number in range(SPREAD_SLICE + 10))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"routing_key": None}, "routing_key is not a string"),
        ({"routing_key": "k" * 256}, "routing_key has 256 octets, 255 are the most"),
        ({"payload": {"a": 1}}, "payload_not_string"),
        ({"payload": "\ud800"}, "a string has half of a surrogate pair"),
        ({"payload_encoding": "rot13"}, ["unsupported_encoding", "rot13"]),
        ({"payload_encoding": None}, ["unsupported_encoding", None]),
        ({"payload": "###", "payload_encoding": "base64"}, ["not_base64", "###"]),
        ({"properties": 5}, "properties is not an object"),
        ({"properties": {"delivery_mode": "two"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"priority": True}}, ["not_int", "priority"]),
        ({"properties": {"app_id": 5}}, ["not_string", "app_id"]),
        ({"properties": {"headers": ["a"]}}, "headers is not an object"),
        ({"properties": {"priority": "5"}}, ["not_int", "priority"]),
        ({"properties": {"priority": 256}}, "properties: property priority: int too big to convert"),
        (
            {"properties": {"user_id": "nobody"}},
            "406 PRECONDITION_FAILED - user_id property set to 'nobody' but authenticated user was 'guest'",
        ),
        (
            {"properties": {"delivery_mode": 7}},
            "406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,7}",
        ),
        (
            {"properties": {"headers": {"CC": "x"}}},
            '406 PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}',
        ),
    ],
)
async def test_publish_that_is_refused(shop: World, content: dict[str, Any], reason: Any) -> None:
    wanted = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string", **content}
    reply = await post(shop, "/exchanges/shop/amq.direct/publish", **wanted)
    assert (reply.status, reply.json) == (400, bad(reason))


async def test_what_publish_needs(shop: World) -> None:
    wanted = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}
    for name in wanted:
        content = {each: value for each, value in wanted.items() if each != name}
        reply = await post(shop, "/exchanges/shop/amq.direct/publish", **content)
        assert (reply.status, reply.json) == (400, bad(f"[{{key_missing,{name}}}]"))


async def test_exchanges_that_nobody_publishes_to(shop: World) -> None:
    shop.broker.vhosts["shop"].declare_exchange("inner", "fanout", internal=True)
    text = "404 NOT_FOUND - no exchange 'nosuch' in vhost 'shop'"
    reply = await publish(shop, "k", exchange="nosuch", properties={"user_id": "nobody"})
    assert (reply.status, reply.json) == (400, bad(text))
    text = "403 ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost 'shop'"
    assert (await publish(shop, "k", exchange="inner")).json == bad(text)
    reply = await post(shop, "/exchanges/nope/x/publish")
    assert reply.status == 400


async def test_a_publish_is_bounded(shop: World) -> None:
    budget = shop.broker.budget
    assert (await publish(shop, "emails", "x" * PUBLISH_BYTES_MAX)).status == 400
    body = "x" * (2 << 20)
    assert (await publish(shop, "emails", body)).json == {"routed": True}
    assert budget.arriving == 0
    (found,) = await taken(shop)
    assert found["payload"] == body
    budget.whole, whole = 1000, budget.whole
    assert (await publish(shop, "emails", body)).status == 503
    budget.whole = whole
    assert budget.arriving == 0


async def test_an_alarm_blocks_publishers(shop: World) -> None:
    shop.broker.alarms.set("memory")
    reply = await publish(shop, "emails")
    assert (reply.status, reply.json) == (503, {"error": "blocked", "reason": reply.json["reason"]})
    shop.broker.alarms.clear("memory")
    assert (await publish(shop, "emails")).status == 200


# -- get ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "left", "redelivered"),
    [
        ("ack_requeue_true", 3, True),
        ("reject_requeue_true", 3, True),
        ("ack_requeue_false", 1, False),
        ("reject_requeue_false", 1, False),
    ],
)
@pytest.mark.parametrize("queue", ["emails", "orders.eu"])
async def test_ack_modes(shop: World, mode: str, left: int, redelivered: bool, queue: str) -> None:
    for number in range(3):
        await publish(shop, queue, str(number), properties={"delivery_mode": 2})
    found = await taken(shop, queue, count="2", ackmode=mode)
    assert [(each["payload"], each["redelivered"], each["message_count"]) for each in found] == [
        ("0", False, 2),
        ("1", False, 1),
    ]
    document = await shop.get(f"/queues/shop/{queue}")
    assert (document["messages_ready"], document["messages_unacknowledged"]) == (left, 0)
    again = await taken(shop, queue)
    assert [each["redelivered"] for each in again] == [redelivered] * (left - 1) + [False]
    assert [each["payload"] for each in again] == [str(number) for number in range(3 - left, 3)]


async def test_payload_encodings(shop: World) -> None:
    await publish(shop, "emails", "héllo")
    for encoding, truncate, payload in (
        ("base64", None, base64.b64encode("héllo".encode()).decode()),
        ("base64", 4, base64.b64encode(b"h\xc3\xa9l").decode()),
        ("auto", "4", "hél"),
        ("auto", 2, base64.b64encode(b"h\xc3").decode()),
        ("auto", 0, ""),
        ("auto", 50_000, "héllo"),
    ):
        content = {} if truncate is None else {"truncate": truncate}
        (found,) = await taken(shop, encoding=encoding, **content)
        assert (found["payload"], found["payload_bytes"]) == (payload, 6)


async def test_headers_of_all_types(shop: World) -> None:
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        headers = {
            "n": None,
            "by": bytearray(b"\xff\x00"),
            "l": [1, "a", None, {"z": 1}],
            "long": 1 << 40,
            "neg": -5,
        }
        await channel.default_exchange.publish(aio_pika.Message(b"x", headers=headers), "emails")
    finally:
        await connection.close()
    (found,) = await taken(shop)
    assert found["properties"]["headers"] == {
        "n": "undefined",
        "by": "Not UTF-8, base64 is: /wA=",
        "l": [1, "a", "undefined", {"z": 1}],
        "long": 1 << 40,
        "neg": -5,
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"count": -1}, "count is negative"),
        ({"count": "x"}, ["not_integer", "x"]),
        ({"count": True}, ["not_integer", True]),
        ({"count": None}, ["not_integer", None]),
        ({"truncate": "1.5"}, ["not_integer", "1.5"]),
        ({"truncate": None}, ["not_integer", None]),
        ({"encoding": "bogus"}, "Unsupported encoding. Please use auto or base64."),
    ],
)
async def test_get_that_is_refused(shop: World, content: dict[str, Any], reason: Any) -> None:
    reply = await get(shop, **content)
    assert (reply.status, reply.json) == (400, bad(reason))
    assert (await get(shop, ackmode="bogus")).status == 400


async def test_what_get_needs(shop: World) -> None:
    wanted = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for name in wanted:
        content = {each: value for each, value in wanted.items() if each != name}
        reply = await post(shop, "/queues/shop/emails/get", **content)
        assert (reply.status, reply.json) == (400, bad(f"[{{key_missing,{name}}}]"))


async def test_queues_that_nobody_reads(shop: World) -> None:
    missing = {"error": "not_found", "reason": "NOT_FOUND - no queue 'nosuch' in vhost 'shop'"}
    reply = await get(shop, "nosuch")
    assert (reply.status, reply.json) == (404, missing)
    assert await taken(shop) == []
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        await channel.declare_queue("mine", exclusive=True)
        reply = await get(shop, "mine")
        assert reply.status == 400
        assert reply.json["reason"].startswith("405 RESOURCE_LOCKED - cannot obtain exclusive access")
    finally:
        await connection.close()


async def test_rights(shop: World) -> None:
    """The caller's permissions hold as over AMQP."""
    shop.broker.users.set_permission("alice", "shop", configure="", write="^orders$", read="^orders")
    await publish(shop, "emails")
    reply = await get(shop, user="alice")
    refused = "ACCESS_REFUSED - access to queue 'emails' in vhost 'shop' refused for user 'alice'"
    assert (reply.status, reply.json) == (401, {"error": "not_authorised", "reason": refused})
    refused = "403 ACCESS_REFUSED - access to exchange 'amq.direct' in vhost 'shop' refused for user 'alice'"
    reply = await publish(shop, "k", exchange="amq.direct", user="alice")
    assert (reply.status, reply.json) == (400, bad(refused))
    assert (await publish(shop, "eu.1", exchange="orders", user="alice")).json == {"routed": True}
    assert [each["routing_key"] for each in (await get(shop, "orders.eu", "alice")).json] == ["eu.1"]
    for user, reason in (
        ("bob", "User not authorised to access virtual host"),
        ("dave", "Not management user"),
    ):
        path = "/queues/staging/emails/get"
        reply = await post(shop, path, user, count=1, ackmode="ack_requeue_true", encoding="auto")
        assert (reply.status, reply.json["reason"]) == (401, reason)


async def test_very_many_messages(shop: World) -> None:
    queue = shop.broker.vhosts["shop"].queues["emails"]
    count = 3 * SLICE + 7
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        for number in range(count):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), "emails")
    finally:
        await connection.close()
    for _ in range(2):
        found = await taken(shop, count=10 * count)
        assert [each["payload"] for each in found] == [str(number) for number in range(count)]
        assert (queue.message_count(), queue.unacked_count) == (count, 0)
    assert len(await taken(shop, count=10 * count, ackmode="reject_requeue_false")) == count
    assert (queue.message_count(), queue.unacked_count, shop.broker.budget.used) == (0, 0, 0)


async def test_an_answer_is_bounded(shop: World) -> None:
    queue = shop.broker.vhosts["shop"].queues["orders.eu"]
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        for size in (GET_BYTES_MAX - 1, 1, 1, GET_BYTES_MAX + 1):
            await channel.default_exchange.publish(
                aio_pika.Message(bytes(size), delivery_mode=2), "orders.eu"
            )
    finally:
        await connection.close()
    held = shop.broker.budget.held
    found = await taken(shop, "orders.eu", ackmode="ack_requeue_false")
    assert [each["payload_bytes"] for each in found] == [GET_BYTES_MAX - 1, 1]
    reply = await get(shop, "orders.eu")
    assert reply.status == 400
    assert "too large to be shown" in reply.json["reason"]
    found = await taken(shop, "orders.eu", truncate=3)
    assert [each["payload"] for each in found] == ["\0", "\0\0\0"]
    # What was taken for the answer that failed came back as it was: nobody has seen it.
    assert [each["redelivered"] for each in found] == [False, False]
    assert (queue.message_count(), queue.unacked_count) == (2, 0)
    assert abs(shop.broker.budget.held - held) < 10_000  # the routing log's events


@pytest.mark.parametrize("columns", ["", "?columns=payload", "?columns=payload,payload_bytes"])
async def test_the_answer_is_made_in_slices(
    shop: World, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """NULs become six octets each: 2,000 payloads of 1,000 held the event loop for 35 ms."""
    most = 0

    def noted(document: Any) -> bytes:
        nonlocal most
        made = dumps(document)
        most = max(most, len(made))
        return made

    monkeypatch.setattr(message_list, "dumps", noted)
    payloads = ["\0" * 1000] * 150 + ["é\0" * message_list.TEXT_SLICE, "", '"', "\0" * 70_000]
    for payload in payloads:
        await publish(shop, "emails", payload)
    wanted = {"count": 1000, "ackmode": "ack_requeue_true", "encoding": "auto"}
    reply = await post(shop, f"/queues/shop/emails/get{columns}", **wanted)
    assert [each["payload"] for each in reply.json] == payloads
    if "bytes" in columns or not columns:
        assert [each["payload_bytes"] for each in reply.json] == [len(each.encode()) for each in payloads]
    assert all(("exchange" in each) is (not columns) for each in reply.json)
    assert most < 8 * message_list.TEXT_SLICE
    reply = await post(shop, "/queues/shop/emails/get?columns=nothing", **wanted)
    assert reply.json == [[]] * len(payloads)
    budget = shop.broker.budget
    assert budget.held == 0 or budget.held < 10_000


async def test_consumers_come_first(shop: World) -> None:
    """What was published to a queue with a ready consumer is the consumer's."""
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        queue = await channel.get_queue("emails")
        received: asyncio.Queue[bytes] = asyncio.Queue()

        async def receive(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            received.put_nowait(message.body)

        await queue.consume(receive, no_ack=True)
        assert (await publish(shop, "emails", "for the consumer")).json == {"routed": True}
        assert await taken(shop) == []
        assert await received.get() == b"for the consumer"
    finally:
        await connection.close()


async def test_the_firehose_hears_of_both(shop: World) -> None:
    """Switched on over HTTP; AMQP clients that are connected already are heard, too."""
    connection = await shop.connect("shop")
    channel = await connection.channel()
    copies = await channel.declare_queue("copies")
    await copies.bind("amq.rabbitmq.trace", "#")
    await channel.declare_queue("q")
    body = '{"tracing": true}'
    assert (await shop.call("PUT", "/api/vhosts/shop", body=body)).status == 204
    await channel.default_exchange.publish(aio_pika.Message(b"1"), "q")
    await publish(shop, "q", "2")
    await get(shop, "q", count=1)
    found = []
    async with copies.iterator(no_ack=True) as messages:
        async for message in messages:
            found.append((message.routing_key, message.body, message.headers))
            if len(found) == 3:
                break
    names = [each["name"] for each in await shop.get("/connections")]
    assert [each[:2] for each in found] == [("publish.", b"1"), ("publish.", b"2"), ("deliver.q", b"1")]
    assert found[0][2]["connection"] in names
    assert found[1][2]["connection"].endswith(" -> HTTP API")
    assert [each[2]["user"] for each in found] == ["guest"] * 3
    body = '{"tracing": false}'
    assert (await shop.call("PUT", "/api/vhosts/shop", body=body)).status == 204
    await publish(shop, "q", "3")
    await connection.close()
    assert [each["payload"] for each in await taken(shop, "copies")] == []
