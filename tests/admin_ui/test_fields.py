"""Fields of documents as RabbitMQ 3.10.8 fills them."""

from __future__ import annotations

import json

from admin_ui.documents.connections import NO_TLS
from amqp_router.sockets import BACKLOG
from tests.admin_ui.world import World


async def publish(node: World, queue: str, *sizes: int) -> None:
    for size in sizes:
        body = {"properties": {}, "routing_key": queue, "payload": "x" * size, "payload_encoding": "string"}
        reply = await node.call("POST", "/api/exchanges/%2F/amq.default/publish", body=json.dumps(body))
        assert reply.json == {"routed": True}


async def test_octets_of_ready_messages(node: World) -> None:
    await node.call("PUT", "/api/queues/%2F/q", body='{"durable":true}')
    queue = await node.get("/queues/%2F/q")
    assert (queue["message_bytes"], queue["message_bytes_ready"]) == (0, 0)
    await publish(node, "q", 10, 20)
    for queue in (await node.get("/queues/%2F/q"), (await node.get("/queues"))[0]):
        assert (queue["message_bytes"], queue["message_bytes_ready"]) == (30, 30)


async def test_members_of_a_quorum_queue(node: World) -> None:
    body = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    await node.call("PUT", "/api/queues/%2F/q", body=json.dumps(body))
    queue = await node.get("/queues/%2F/q")
    assert queue["leader"] == queue["node"]
    assert queue["members"] == queue["online"] == [queue["node"]]
    assert queue["open_files"] == {queue["node"]: 0}
    assert queue["messages_dlx"] == queue["message_bytes_dlx"] == 0
    assert queue["single_active_consumer_ctag"] is None
    await node.call("PUT", "/api/queues/%2F/c", body='{"durable":true}')
    assert "leader" not in await node.get("/queues/%2F/c")


async def test_a_connection_without_tls(node: World) -> None:
    """A list has null where the document of one connection has an empty text, as in RabbitMQ."""
    await node.connect()
    [listed] = await node.get("/connections")
    alone = await node.get(f"/connections/{listed['name'].replace(' ', '%20').replace('>', '%3E')}")
    [in_vhost] = await node.get("/vhosts/%2F/connections")
    for field in NO_TLS:
        assert listed[field] is in_vhost[field] is None
        assert alone[field] == ""


async def test_sockets_of_listeners(node: World) -> None:
    found = {each["protocol"]: each["socket_opts"] for each in (await node.get("/overview"))["listeners"]}
    assert found["amqp"] == {"backlog": BACKLOG, "nodelay": True, "linger": [True, 0], "exit_on_close": False}
    assert found["http"] == []
