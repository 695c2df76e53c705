"""Other people's programs: AMQPStorm's management client reads the API, and requests as others send them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aio_pika
import pytest
from amqpstorm.management import ApiError, ManagementApi

from tests.admin_ui.world import NODE, World, basic


async def traffic(node: World) -> tuple[str, str]:
    """A queue with a consumer and some messages; returns the names of connection and channel."""
    connection = await node.connect("shop", client_properties={"connection_name": "storm"})
    channel = await connection.channel()
    await channel.set_qos(2)
    queue = await channel.get_queue("orders.eu")
    await queue.consume(asyncio.Queue().put)
    orders = await channel.get_exchange("orders")
    for _ in range(5):
        await orders.publish(aio_pika.Message(b"x", delivery_mode=2), "eu.1")
    [found] = await node.get("/channels")
    return found["connection_details"]["name"], found["name"]


async def test_every_read_of_amqpstorm(shop: World) -> None:
    connection, channel = await traffic(shop)
    api = ManagementApi(shop.base, "guest", "guest", timeout=60)

    def read() -> None:
        assert api.whoami() == {"name": "guest", "tags": ["administrator"]}
        assert api.overview()["object_totals"]["connections"] == 1
        assert api.aliveness_test("shop") == {"status": "ok"}
        assert api.cluster_name() == {"name": NODE}
        assert api.node(NODE)["running"] is True
        assert [each["name"] for each in api.nodes()] == [NODE]
        assert api.healthchecks.get() == {"status": "ok"}
        assert api.healthchecks.get(NODE) == {"status": "ok"}
        assert [each["name"] for each in api.connection.list()] == [connection]
        assert [each["name"] for each in api.connection.list(page_size=1)] == [connection]
        assert api.connection.list(name="nobody", page_size=10) == []
        assert api.connection.get(connection)["user_provided_name"] == "storm"
        assert [each["name"] for each in api.channel.list()] == [channel]
        assert [each["number"] for each in api.channel.list(page_size=1)] == [1]
        assert api.channel.get(channel)["consumer_count"] == 1
        assert api.queue.get("orders.eu", "shop")["messages"] == 5
        assert len(api.queue.list("shop")) == 3  # with aliveness-test
        assert len(api.queue.list(show_all=True)) == 3
        assert len(api.queue.list("shop", page_size=2)) == 3
        found = api.queue.list("shop", name="^orders", use_regex=True, page_size=100)
        assert [each["name"] for each in found] == ["orders.eu"]
        assert [each["routing_key"] for each in api.queue.bindings("orders.eu", "shop")] == [
            "orders.eu",
            "eu.#",
        ]
        assert api.exchange.get("orders", "shop")["type"] == "topic"
        assert len(api.exchange.list("shop")) == 8
        assert len(api.exchange.list(show_all=True)) == 23  # with amq.rabbitmq.event
        assert len(api.exchange.list("shop", page_size=3)) == 8
        assert [each["destination"] for each in api.exchange.bindings("orders", "shop")] == ["orders.eu"]
        assert [each["name"] for each in api.user.list()] == ["alice", "bob", "carol", "dave", "guest"]
        assert api.user.get("alice")["tags"] == ["management"]
        assert api.user.get_permission("alice", "shop")["read"] == ".*"
        assert len(api.user.get_permissions("guest")) == 3
        assert [each["name"] for each in api.virtual_host.list()] == ["/", "shop", "staging"]
        assert api.virtual_host.get("shop")["messages"] == 5
        assert len(api.virtual_host.get_permissions("shop")) == 5

    await asyncio.to_thread(read)


async def test_writes_of_amqpstorm(shop: World) -> None:
    api = ManagementApi(shop.base, "guest", "guest", timeout=60)

    def write() -> None:
        api.queue.declare("made", "shop", durable=True, arguments={"x-a": 1})
        assert api.queue.get("made", "shop")["arguments"] == {"x-a": 1}
        api.exchange.declare("x", "topic", "shop", durable=True)
        api.queue.bind("made", "x", "a.b", "shop")
        assert [each["source"] for each in api.queue.bindings("made", "shop")] == ["", "x"]
        api.exchange.bind("amq.fanout", "x", "b", "shop")
        api.exchange.unbind("amq.fanout", "x", "b", "shop", "b")
        api.queue.unbind("made", "x", "a.b", "shop", "a.b")
        assert [each["source"] for each in api.queue.bindings("made", "shop")] == [""]
        api.queue.purge("made", "shop")
        api.queue.delete("made", "shop")
        api.exchange.delete("x", "shop")
        api.user.create("storm", "secret", tags="management")
        api.user.set_permission("storm", "shop", ".*", ".*", ".*")
        assert ManagementApi(shop.base, "storm", "secret").whoami()["tags"] == ["management"]
        api.user.delete_permission("storm", "shop")
        api.user.delete("storm")

    await asyncio.to_thread(write)
    assert "made" not in shop.broker.vhosts["shop"].queues


async def test_messages_with_amqpstorm(shop: World) -> None:
    def publish_and_get() -> None:
        api = ManagementApi(shop.base, "guest", "guest", timeout=60)
        assert api.basic.publish("body", "emails", virtual_host="shop", properties={"app_id": "storm"}) == {
            "routed": True
        }
        for requeue in (True, False):
            (found,) = api.basic.get("emails", "shop", requeue=requeue)
            assert (found.body, found.properties["app_id"]) == ("body", "storm")
        assert api.basic.get("emails", "shop") == []

    await asyncio.to_thread(publish_and_get)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda api: api.queue.get("nosuch", "shop"), 404),
        (lambda api: api.virtual_host.get("nosuch"), 404),
        (lambda api: api.top(), 404),
        (lambda api: api.queue.declare("amq.new", "shop"), 401),
        (lambda api: api.basic.get("nosuch", "shop"), 404),
        (lambda api: api.user.delete(["nosuch"]), 400),
    ],
)
async def test_what_amqpstorm_is_refused(shop: World, call: Callable[[Any], object], code: int) -> None:
    def refused() -> None:
        with pytest.raises(ApiError) as caught:
            call(ManagementApi(shop.base, "guest", "guest", timeout=60))
        assert caught.value.error_code == code

    await asyncio.to_thread(refused)
    assert "amq.new" not in shop.broker.vhosts["shop"].queues


async def test_wrong_password_of_amqpstorm(shop: World) -> None:
    def refused() -> None:
        with pytest.raises(ApiError) as caught:
            ManagementApi(shop.base, "guest", "wrong", timeout=60).overview()
        assert caught.value.error_code == 401

    await asyncio.to_thread(refused)


async def raw(node: World, text: str) -> tuple[str, dict[str, str], bytes]:
    """A request as it goes over the wire."""
    reader, writer = await asyncio.open_connection(*node.admin.address)
    writer.write(text.replace("\n", "\r\n").encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    writer.close()
    return head[0], headers, body


@pytest.mark.parametrize(("path", "vhost"), [("shop", "shop"), ("%2F", "/"), ("/", "/")])
async def test_request_of_celery_flower(shop: World, path: str, vhost: str) -> None:
    """Recorded of flower 2.2.0; for virtual host ``/`` it asks for ``/api/queues//``."""
    shop.broker.vhosts[vhost].declare_queue("celery", durable=True)
    shop.sample()
    shop.sample()
    status, _, body = await raw(
        shop,
        f"GET /api/queues/{path} HTTP/1.1\nConnection: close\nHost: localhost\n"
        f"Authorization: {basic('guest', 'guest')}\nUser-Agent: Tornado/6.6.1\nAccept-Encoding: identity\n\n",
    )
    assert status == "HTTP/1.1 200 OK"
    [queue] = [each for each in json.loads(body) if each["name"] == "celery"]
    assert queue["vhost"] == vhost
    for field in ("messages", "messages_ready", "messages_unacknowledged", "consumers"):
        assert type(queue[field]) is int
    assert queue["idle_since"].endswith("+00:00")


async def test_request_of_keda(shop: World) -> None:
    await traffic(shop)
    one = await shop.get("/queues/shop/orders.eu")
    query = "page=1&use_regex=true&pagination=false&name=%5Eorders&page_size=100"
    [listed] = (await shop.get(f"/queues/shop?{query}"))["items"]
    for queue in (one, listed):
        assert queue["name"] == "orders.eu"
        assert queue["messages"] == 5
        assert queue["messages_unacknowledged"] == 2
        assert isinstance(queue["message_stats"]["publish_details"]["rate"], float)


async def test_request_of_zabbix(shop: World) -> None:
    """It looks for the status line itself."""
    for path in (
        "/api/overview",
        f"/api/nodes/{NODE}?memory=true",
        "/api/healthchecks/node",
        "/api/exchanges",
    ):
        status, _, body = await raw(
            shop,
            f"GET {path} HTTP/1.1\nHost: [::1]\nAuthorization: {basic('guest', 'guest')}\nAccept: */*\n\n",
        )
        assert status.startswith("HTTP/1.1 200")
        assert json.loads(body)


async def test_fields_of_telegraf_are_integers(shop: World) -> None:
    """It refuses a float where it wants an int64, and a reply without totals."""
    await traffic(shop)
    overview = await shop.get("/overview")
    for part in ("message_stats", "object_totals", "queue_totals"):
        numbers = {key: value for key, value in overview[part].items() if not key.endswith("_details")}
        assert numbers
        assert all(type(value) is int for value in numbers.values()), numbers
    [node] = await shop.get("/nodes")
    for key in (
        "disk_free", "disk_free_limit", "fd_total", "fd_used", "mem_limit", "mem_used", "proc_total",
        "proc_used", "run_queue", "sockets_total", "sockets_used", "uptime", "gc_num", "gc_bytes_reclaimed",
    ):  # fmt: skip
        assert type(node[key]) is int, key
    for queue in await shop.get("/queues"):
        for key in ("consumers", "memory", "messages", "message_bytes", "message_bytes_ready"):
            assert type(queue[key]) is int, key


async def test_slashes_of_rabbit_hole(shop: World) -> None:
    for path in ("users/", "bindings/", "permissions/", "topic-permissions/", "cluster-name/"):
        assert await shop.get("/" + path) is not None
    assert await shop.get("/overview?columns=rabbitmq_version") == {"rabbitmq_version": "3.10.8"}
