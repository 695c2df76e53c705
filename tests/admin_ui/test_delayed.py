"""Delayed messages over HTTP: listed and dropped, by those who may."""

from __future__ import annotations

from typing import Any

import aio_pika

from admin_ui.delayed import SLICE
from tests.admin_ui.world import World

X = "/admin/v1/exchanges/shop/later"


async def later(shop: World, *delays_s: int) -> aio_pika.abc.AbstractConnection:
    """An exchange with these messages; the connection is open."""
    connection = await shop.connect("shop")
    channel = await connection.channel()
    arguments: Any = {"x-delayed-type": "direct"}
    exchange = await channel.declare_exchange(
        "later", aio_pika.ExchangeType.X_DELAYED_MESSAGE, durable=True, arguments=arguments
    )
    for delay in delays_s:
        message = aio_pika.Message(
            b"%d" % delay, headers={"x-delay": 1000 * delay}, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
        )
        await exchange.publish(message, "k", mandatory=False)
    return connection


async def test_listed_and_dropped(shop: World) -> None:
    connection = await later(shop, 3000, 1000, 2000)
    found = (await shop.call("GET", f"{X}/delayed")).json
    assert found["messages"] == 3
    assert [each["properties"]["headers"]["x-delay"] // 1000 for each in found["first"]] == [1000, 2000, 3000]
    first = found["first"][0]
    assert (first["exchange"], first["routing_key"], first["payload_bytes"]) == ("later", "k", 4)
    assert [each["due"] for each in found["first"]] == sorted(each["due"] for each in found["first"])
    assert (await shop.call("DELETE", f"{X}/delayed/{first['id']}")).status == 204
    assert (await shop.call("DELETE", f"{X}/delayed/{first['id']}")).status == 404
    found = (await shop.call("GET", f"{X}/delayed?count=1")).json
    assert (found["messages"], len(found["first"])) == (2, 1)
    assert (await shop.call("DELETE", f"{X}/delayed")).status == 204
    assert (await shop.call("GET", f"{X}/delayed")).json == {"messages": 0, "first": []}
    await connection.close()


async def test_many_are_listed_over_several_turns(shop: World) -> None:
    connection = await later(shop, *range(1000, 1000 + 3 * SLICE))
    found = (await shop.call("GET", f"{X}/delayed")).json
    assert len(found["first"]) == 3 * SLICE
    await connection.close()


async def test_what_is_wrong(shop: World) -> None:
    connection = await later(shop)
    assert (await shop.call("GET", f"{X}/delayed")).json == {"messages": 0, "first": []}
    assert (await shop.call("DELETE", f"{X}/delayed")).status == 204
    assert (await shop.call("DELETE", f"{X}/delayed/1-1")).status == 404
    for path, reason in (
        (f"{X}/delayed?count=0", "count is a number from 1 to 500, not '0'"),
        (f"{X}/delayed?count=x", "count is a number from 1 to 500, not 'x'"),
        (
            "/admin/v1/exchanges/shop/amq.direct/delayed",
            "exchange 'amq.direct' is no x-delayed-message exchange",
        ),
    ):
        reply = await shop.call("GET", path)
        assert (reply.status, reply.json["reason"]) == (400, reason)
    assert (await shop.call("DELETE", f"{X}/delayed/one")).status == 400
    assert (await shop.call("GET", "/admin/v1/exchanges/shop/nope/delayed")).status == 404
    await connection.close()


async def test_the_internal_queue_is_not_exported_and_not_touched(shop: World) -> None:
    connection = await later(shop, 1000)
    name = "amq.delayed.later"
    assert name in [queue["name"] for queue in await shop.get("/queues/shop")]
    exported = await shop.get("/definitions/shop")
    assert name not in [queue["name"] for queue in exported["queues"]]
    assert "later" in [exchange["name"] for exchange in exported["exchanges"]]
    for method, path in (("DELETE", ""), ("DELETE", "/contents")):
        assert (await shop.call(method, f"/api/queues/shop/{name}{path}")).status >= 400
    assert (await shop.call("GET", f"{X}/delayed")).json["messages"] == 1
    await connection.close()
