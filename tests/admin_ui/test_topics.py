"""Topic permissions: set over HTTP as recorded of RabbitMQ 3.10.8, and kept when publishing and binding."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from tests.admin_ui.world import World
from tests.test_durable_queues import running, until

NO_OBJECT = {"error": "Object Not Found", "reason": "Not Found"}
BODY = '{"exchange":"nosuch","write":".*","read":".*"}'
PATH = "/api/topic-permissions/shop/alice"


async def test_set_listed_and_removed(shop: World) -> None:
    assert (await shop.call("PUT", PATH, body=BODY))[::2] == (201, b"")
    assert (await shop.call("PUT", PATH, body=BODY)).status == 204
    await shop.call("PUT", PATH, body='{"exchange":"orders","write":"^eu","read":""}')
    made = [
        {"user": "alice", "vhost": "shop", "exchange": "nosuch", "write": ".*", "read": ".*"},
        {"user": "alice", "vhost": "shop", "exchange": "orders", "write": "^eu", "read": ""},
    ]
    for path in (
        "/topic-permissions",
        "/topic-permissions/shop/alice",
        "/users/alice/topic-permissions",
        "/vhosts/shop/topic-permissions",
    ):
        assert await shop.get(path) == made
    assert await shop.get("/vhosts/staging/topic-permissions") == []
    assert (await shop.call("GET", "/api/topic-permissions/shop/bob")).status == 404
    assert (await shop.get("/definitions"))["topic_permissions"] == made
    assert (await shop.call("DELETE", PATH + "/nosuch")).status == 204
    assert await shop.get("/topic-permissions") == made[1:]
    assert (await shop.call("DELETE", PATH)).status == 204
    gone = await shop.call("DELETE", PATH)
    assert (gone.status, gone.json) == (404, NO_OBJECT)


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (PATH, "{}", "[{key_missing,exchange},{key_missing,write},{key_missing,read}]"),
        ("/api/topic-permissions/shop/nobody", "{}", "vhost_or_user_not_found"),
        (PATH, '{"exchange":"x","write":5,"read":""}', "write is not a string"),
        ("/api/topic-permissions/nope/alice", BODY, "vhost_or_user_not_found"),
        ("/api/topic-permissions/shop/nobody", BODY, "vhost_or_user_not_found"),
    ],
)
async def test_what_is_refused(shop: World, path: str, body: str, reason: str) -> None:
    reply = await shop.call("PUT", path, body=body)
    assert (reply.status, reply.json) == (400, {"error": "bad_request", "reason": reason})
    bad = await shop.call("PUT", PATH, body='{"exchange":"x","write":"(","read":""}')
    assert bad.status == 400
    assert (await shop.call("PUT", PATH, "carol", body=BODY)).status == 401


async def refused(channel: Any, act: Any) -> str:
    """What closes the channel when ``act`` runs."""
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    channel.close_callbacks.add(lambda _, error: ended.done() or ended.set_result(error))
    with pytest.raises(Exception):  # noqa: B017, PT011  the callback has the reason
        await act
    return str(await asyncio.wait_for(ended, 60))


async def test_publishing_and_binding(shop: World) -> None:
    await shop.call("PUT", PATH, body='{"exchange":"orders","write":"^{username}\\\\.","read":"^eu"}')
    connection = await shop.connect("shop", login="alice", password="alice-pw")

    def text(key: str) -> str:
        where = "in exchange 'orders' in vhost 'shop' refused for user 'alice'"
        return f"ACCESS_REFUSED - access to topic '{key}' {where}"

    channel = await connection.channel()
    orders = await channel.get_exchange("orders")
    for _ in range(2):  # found anew, and remembered
        await orders.publish(aio_pika.Message(b""), "alice.x", mandatory=False)
    assert text("z.z") in await refused(channel, orders.publish(aio_pika.Message(b""), "z.z"))
    channel = await connection.channel()
    orders = await channel.get_exchange("orders")
    message = aio_pika.Message(b"", headers={"CC": ["z.y"]})
    assert text("z.y") in await refused(channel, orders.publish(message, "alice.x"))
    channel = await connection.channel()
    queue = await channel.get_queue("orders.eu")
    await queue.bind("orders", "eu.x")
    assert text("us.x") in await refused(channel, queue.bind("orders", "us.x"))
    # Only topic exchanges know topics, and the change holds for open channels.
    await shop.call("PUT", PATH, body='{"exchange":"amq.direct","write":"^a$","read":"^a$"}')
    await shop.call("DELETE", PATH + "/orders")
    channel = await connection.channel()
    queue = await channel.get_queue("orders.eu")
    await queue.bind("amq.direct", "b")
    direct = await channel.get_exchange("amq.direct")
    await direct.publish(aio_pika.Message(b""), "b")
    orders = await channel.get_exchange("orders")
    await orders.publish(aio_pika.Message(b""), "z.z", mandatory=False)
    await connection.close()


def test_they_are_stored_and_go_with_their_user(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as broker:
            broker.virtual_hosts.put("v")
            broker.users.put_user("ann", b"pw")
            broker.users.put_user("bob", b"pw")
            for user, vhost in (("ann", "/"), ("ann", "v"), ("bob", "/"), ("bob", "v")):
                broker.users.set_topic_permission(user, vhost, "x", write="a", read="b")
            broker.users.delete_user("ann")
            rev = broker.virtual_hosts.delete("v")
            await until(lambda: broker.commits.committed >= rev)
            assert list(broker.users.topic_permissions) == [("bob", "/", "x")]
        async with running(tmp_path) as broker:
            assert list(broker.users.topic_permissions) == [("bob", "/", "x")]

    asyncio.run(live())
