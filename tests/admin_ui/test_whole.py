"""The cluster's name, attempts to log in, the reset of histories, and other small parts of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admin_ui.documents.node import MEMORY_PARTS
from tests.admin_ui.world import NODE, World


async def test_cluster_name(node: World) -> None:
    assert await node.get("/cluster-name") == {"name": NODE}
    assert (await node.call("PUT", "/api/cluster-name", body='{"name":"shop"}')).status == 204
    assert await node.get("/cluster-name") == {"name": "shop"}
    assert (await node.get("/overview"))["cluster_name"] == "shop"
    assert {"name": "cluster_name", "value": "shop"} in await node.get("/global-parameters")
    # As in RabbitMQ, any text is a name, also none.
    for name in ("", "x" * 10_000):
        for path, body in (
            ("cluster-name", {"name": name}),
            ("global-parameters/cluster_name", {"value": name}),
        ):
            assert (await node.call("PUT", f"/api/{path}", body=json.dumps(body))).status == 204
            assert await node.get("/cluster-name") == {"name": name}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{}", "[{key_missing,name}]"),
        ('{"name":5}', "name is not a string"),
    ],
)
async def test_cluster_name_refused(node: World, body: str, reason: str) -> None:
    reply = await node.call("PUT", "/api/cluster-name", body=body)
    assert (reply.status, reply.json) == (400, {"error": "bad_request", "reason": reason})


async def test_attempts(node: World) -> None:
    await node.call("GET", "/api/whoami", "guest", "wrong")
    connection = await node.connect()
    await connection.close()
    with pytest.raises(Exception, match="ACCESS_REFUSED"):
        await node.connect(login="guest", password="wrong")
    path = f"/auth/attempts/{NODE}"
    found = {row["protocol"]: row for row in await node.get(path)}
    assert found["amqp091"] == _attempts("amqp091", 1, 1)
    assert found["http"]["auth_attempts_failed"] == 1
    sources = await node.get(f"{path}/source")
    assert {row["remote_address"] for row in sources} == {"127.0.0.1"}
    assert (await node.call("DELETE", f"/api{path}")).status == 204
    assert await node.get(path) == [_attempts("amqp091", 0, 0), _attempts("http", 1, 0)]
    assert (await node.call("GET", "/api/auth/attempts/nosuch")).status == 404


def _attempts(protocol: str, succeeded: int, failed: int) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "auth_attempts": succeeded + failed,
        "auth_attempts_failed": failed,
        "auth_attempts_succeeded": succeeded,
    }


async def test_reset(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    path = "/queues/%2F/q?lengths_age=600&lengths_incr=5"
    for _ in range(3):
        await node.call(
            "POST",
            "/api/exchanges/%2F/amq.default/publish",
            body='{"routing_key":"q","properties":{},"payload":"x","payload_encoding":"string"}',
        )
        node.sample()
    assert len((await node.get(path))["messages_details"]["samples"]) > 2
    assert (await node.call("DELETE", "/api/reset")).status == 204
    node.sample()
    found = await node.get(path)
    assert len(found["messages_details"]["samples"]) <= 2
    assert found["messages_details"]["rate"] == 0
    assert (found["messages"], found["message_stats"]["publish"]) == (3, 3)
    assert (await node.call("DELETE", f"/api/reset/{NODE}")).status == 204
    assert (await node.call("DELETE", "/api/reset/nosuch")).status == 404


async def test_a_node_without_virtual_hosts(node: World) -> None:
    node.broker.virtual_hosts.delete("/")
    found = await node.get("/overview")
    assert found["object_totals"]["queues"] == found["queue_totals"]["messages"] == 0
    assert found["churn_rates"]["connection_created"] == 0
    assert await node.get("/queues") == []
    assert (await node.call("GET", "/metrics")).status == 200


async def test_memory_in_hundredths(node: World) -> None:
    found = (await node.get(f"/nodes/{NODE}/memory/relative"))["memory"]
    assert found.keys() == {"total", *MEMORY_PARTS}
    assert found["total"] == 100
    assert max(found.values()) <= 100


async def test_what_a_single_node_has_nothing_to_do_for(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    actions = "/api/queues/%2F/q/actions"
    for method, path, body, status in (
        ("POST", "/api/rebalance/queues", None, 204),
        ("PUT", "/api/feature-flags/drop_unroutable_metric/enable", "{}", 204),
        ("PUT", "/api/feature-flags/nosuch/enable", "{}", 400),
        ("POST", actions, '{"action":"sync"}', 204),
        ("POST", actions, '{"action":"cancel_sync"}', 204),
        ("POST", actions, '{"action":"dance"}', 400),
        ("POST", actions, "{}", 400),
        ("POST", "/api/queues/%2F/nosuch/actions", '{"action":"sync"}', 404),
    ):
        assert (await node.call(method, path, body=body)).status == status, (method, path, body)
