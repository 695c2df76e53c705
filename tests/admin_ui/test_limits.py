"""Limits of virtual hosts and users: set over HTTP as recorded of RabbitMQ 3.10.8, and kept."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from amqp_router.protocol.errors import NotAllowed
from tests.admin_ui.world import World


def failed(problem: str) -> dict[str, Any]:
    return {"error": "bad_request", "reason": f"Validation failed\n\n{problem}\n"}


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        (
            "/vhost-limits/shop/max-queues",
            '{"value":"x"}',
            failed('max-queues should be a number, actually was <<"x">>'),
        ),
        (
            "/vhost-limits/shop/bogus",
            '{"value":5}',
            failed('Unrecognised terms [{<<"bogus">>,5}] in limits'),
        ),
        (
            "/user-limits/dave/max-connections",
            '{"value":"x"}',
            {
                "error": "bad_request",
                "reason": 'max-connections should be a number, actually was <<"x">>',
            },
        ),
        (
            "/user-limits/dave/bogus",
            '{"value":1}',
            {"error": "bad_request", "reason": 'Unrecognised terms [{<<"bogus">>,1}] in user-limits'},
        ),
        (
            "/user-limits/dave/max-channels",
            "{}",
            {"error": "bad_request", "reason": "[{key_missing,value}]"},
        ),
    ],
)
async def test_what_is_refused(shop: World, path: str, body: str, answer: Any) -> None:
    reply = await shop.call("PUT", "/api" + path, body=body)
    assert (reply.status, reply.json) == (400, answer)


async def test_limits_of_a_virtual_host(shop: World) -> None:
    for name, value in (("max-queues", 500), ("max-connections", 100)):
        path = f"/api/vhost-limits/shop/{name}"
        assert (await shop.call("PUT", path, body=f'{{"value":{value}}}')).status == 204
    found = [{"vhost": "shop", "value": {"max-connections": 100, "max-queues": 500}}]
    assert await shop.get("/vhost-limits") == found
    assert await shop.get("/vhost-limits/shop", "alice") == found
    assert await shop.get("/vhost-limits/staging") == []
    parameter = {"vhost": "shop", "component": "vhost-limits", "name": "limits", "value": found[0]["value"]}
    assert await shop.get("/parameters") == [parameter]
    assert (await shop.get("/definitions"))["parameters"] == [parameter]
    assert (await shop.call("PUT", "/api/vhost-limits/shop/max-queues", body='{"value":-1}')).status == 204
    assert (await shop.get("/vhost-limits"))[0]["value"] == {"max-connections": 100}
    assert (await shop.call("DELETE", "/api/vhost-limits/shop/max-connections")).status == 204
    assert await shop.get("/vhost-limits") == await shop.get("/parameters") == []
    for user in ("alice", "bob", "carol"):
        reply = await shop.call("PUT", "/api/vhost-limits/shop/max-queues", user, body='{"value":1}')
        assert (reply.status, reply.json["reason"]) == (401, "Not administrator user")


async def test_limits_of_a_user(shop: World) -> None:
    path = "/api/user-limits/dave/max-connections"
    assert (await shop.call("PUT", path, body='{"value":5}')).status == 204
    found = [{"user": "dave", "value": {"max-connections": 5}}]
    assert await shop.get("/user-limits") == await shop.get("/user-limits/dave") == found
    assert (await shop.get("/users/dave"))["limits"] == {"max-connections": 5}
    await shop.call("PUT", "/api/users/dave", body='{"tags":"management","password":"new"}')
    assert (await shop.get("/users/dave"))["limits"] == {"max-connections": 5}
    assert (await shop.call("DELETE", path)).status == 204
    assert await shop.get("/user-limits") == []
    assert (await shop.call("PUT", "/api/user-limits/nobody/max-channels", body='{"value":5}')).status == 404


async def test_no_more_queues(shop: World) -> None:
    count = len(shop.broker.vhosts["shop"].queues)
    await shop.call("PUT", "/api/vhost-limits/shop/max-queues", body=f'{{"value":{count + 1}}}')
    assert (await shop.call("PUT", "/api/queues/shop/one", body="{}")).status == 201
    reply = await shop.call("PUT", "/api/queues/shop/2", body="{}")
    text = f"cannot declare queue '2': queue limit in vhost 'shop' ({count + 1}) is reached"
    assert (reply.status, reply.json) == (400, {"error": "bad_request", "reason": text})
    assert (await shop.call("PUT", "/api/queues/shop/one", body="{}")).status == 204
    assert (await shop.call("DELETE", "/api/queues/shop/one")).status == 204
    assert (await shop.call("PUT", "/api/queues/shop/2", body="{}")).status == 201


async def test_no_more_connections(shop: World) -> None:
    broker = shop.broker
    alice, vhost = broker.users.users["alice"], broker.vhosts["shop"]

    async def connect() -> Any:
        return await shop.connect("shop", login="alice", password="alice-pw")

    await shop.call("PUT", "/api/user-limits/alice/max-connections", body='{"value":1}')
    first = await connect()
    text = r"connection refused for user 'alice': user connection limit \(1\) is reached"
    with pytest.raises(NotAllowed, match=text):
        broker.admission.connection(alice, vhost)
    with pytest.raises(Exception, match=r"Connection\.Close"):
        await connect()
    await shop.call("DELETE", "/api/user-limits/alice/max-connections")
    await shop.call("PUT", "/api/vhost-limits/shop/max-connections", body='{"value":2}')
    second = await connect()
    text = r"access to vhost 'shop' refused for user 'alice': connection limit \(2\) is reached"
    with pytest.raises(NotAllowed, match=text):
        broker.admission.connection(alice, vhost)
    with pytest.raises(Exception, match=r"Connection\.Close"):
        await connect()
    await first.close()
    while broker.registry.count_in(vhost) > 1:
        await asyncio.sleep(0.01)
    await (await connect()).close()
    await second.close()
    while broker.registry.of_user("alice"):
        await asyncio.sleep(0.01)
    assert broker.registry.count_in(vhost) == 0


async def test_no_more_channels(shop: World) -> None:
    await shop.call("PUT", "/api/user-limits/alice/max-channels", body='{"value":2}')
    connections = [await shop.connect("shop", login="alice", password="alice-pw") for _ in range(2)]
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connections[1].close_callbacks.add(lambda _, error: ended.done() or ended.set_result(error))
    first = await connections[0].channel()
    await connections[1].channel()
    with contextlib.suppress(Exception):
        await connections[1].channel()
    text = "number of channels opened for user 'alice' has reached the maximum allowed user limit of (2)"
    assert f"NOT_ALLOWED - {text}" in str(await asyncio.wait_for(ended, 60))
    assert not first.is_closed
    await connections[0].close()
