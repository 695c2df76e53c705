"""Virtual hosts made and deleted over HTTP: answers as recorded of RabbitMQ 3.10.8, and what clients see."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aio_pika
import pytest

from tests.admin_ui.world import NODE, World

NO_OBJECT = {"error": "Object Not Found", "reason": "Not Found"}
TMP1 = {
    "name": "tmp1",
    "description": "d",
    "tags": ["a", "b"],
    "metadata": {"description": "d", "tags": ["a", "b"]},
    "tracing": False,
    "cluster_state": {NODE: "running"},
}


async def test_made_changed_and_deleted(node: World) -> None:
    body = '{"description":"d","tags":["a","b"],"tracing":false,"default_queue_type":"quorum"}'
    assert (await node.call("PUT", "/api/vhosts/tmp1", body=body))[::2] == (201, b"")
    found = await node.get("/vhosts/tmp1")
    assert {name: found[name] for name in TMP1} == TMP1
    # RabbitMQ 3.10 takes the type and forgets it.
    assert found["default_queue_type"] == "quorum"
    assert await node.get("/permissions/tmp1/guest") == {
        "user": "guest",
        "vhost": "tmp1",
        "configure": ".*",
        "write": ".*",
        "read": ".*",
    }
    assert len(await node.get("/exchanges/tmp1")) == 7
    assert (await node.call("PUT", "/api/vhosts/tmp1")).status == 204
    assert (await node.get("/vhosts/tmp1"))["description"] == "d"
    assert (await node.call("PUT", "/api/vhosts/tmp1", body='{"tags":"x, y","tracing":"true"}')).status == 204
    found = await node.get("/vhosts/tmp1")
    assert (found["tags"], found["description"], found["tracing"]) == (["x", "y"], "d", True)
    assert (await node.call("POST", f"/api/vhosts/tmp1/start/{NODE}")).status == 204
    assert (await node.call("POST", "/api/vhosts/tmp1/start/other")).status == 404
    assert (await node.call("DELETE", "/api/vhosts/tmp1"))[::2] == (204, b"")
    gone = await node.call("DELETE", "/api/vhosts/tmp1")
    assert (gone.status, gone.json) == (404, NO_OBJECT)
    assert (await node.call("GET", "/api/vhosts/tmp1")).status == 404
    assert [each["vhost"] for each in await node.get("/permissions")] == ["/"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{bad", "not_json"),
        ('{"tracing":"perhaps"}', ["not_boolean", "perhaps"]),
        ('{"tracing":null}', ["not_boolean", None]),
        ('{"tags":5}', "tags is neither a text nor a list of texts"),
        ('{"description":5}', "description is not a string"),
        ('{"default_queue_type":"nope"}', "Unsupported default queue type: nope"),
    ],
)
async def test_a_body_that_is_wrong(node: World, body: str, reason: Any) -> None:
    reply = await node.call("PUT", "/api/vhosts/bad", body=body)
    assert (reply.status, reply.json) == (400, {"error": "bad_request", "reason": reason})
    assert "bad" not in node.broker.vhosts


async def test_only_administrators(shop: World) -> None:
    refused = {"error": "not_authorised", "reason": "Not administrator user"}
    for user in ("alice", "bob", "carol"):
        for method, path in (("PUT", "/api/vhosts/av"), ("DELETE", "/api/vhosts/shop")):
            reply = await shop.call(method, path, user, body="{}")
            assert (reply.status, reply.json) == (401, refused)
    assert "shop" in shop.broker.vhosts


async def test_what_clients_see_of_a_deletion(node: World) -> None:
    await node.call("PUT", "/api/vhosts/lv", body="{}")
    connection = await node.connect("lv")
    channel = await connection.channel()
    queue = await channel.declare_queue("q", durable=True)
    await channel.default_exchange.publish(aio_pika.Message(b"1", delivery_mode=2), "q")

    async def take(message: Any) -> None:
        await message.ack()

    await queue.consume(take)
    other = await node.connect()
    closed = asyncio.Event()
    reasons: list[BaseException | None] = []

    def note(_: Any, error: BaseException | None) -> None:
        reasons.append(error)
        closed.set()

    connection.close_callbacks.add(note)
    assert (await node.call("DELETE", "/api/vhosts/lv")).status == 204
    await asyncio.wait_for(closed.wait(), 60)
    assert "CONNECTION_FORCED - vhost 'lv' is deleted" in str(reasons[0])
    with pytest.raises(Exception, match=r"Connection\.Close"):  # 530, as for a name that never existed
        await node.connect("lv")
    assert not other.is_closed
    assert (await node.call("PUT", "/api/vhosts/lv", body="{}")).status == 201
    again = await node.connect("lv")
    channel = await again.channel()
    assert (await channel.declare_queue("q", durable=True)).declaration_result.message_count == 0
    await again.close()
    await other.close()


async def test_definitions_have_what_was_said_of_it(node: World) -> None:
    await node.call("PUT", "/api/vhosts/v", body=json.dumps({"description": "d", "tags": "a"}))
    found = (await node.get("/definitions"))["vhosts"]
    assert found == [
        {"name": "/", "description": "Default virtual host"},
        {"name": "v", "description": "d", "tags": ["a"]},
    ]
