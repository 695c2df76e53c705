"""Policies that change while messages wait: what RabbitMQ 3.10.8 was measured to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest

from tests.admin_ui.world import World


class Clients:
    """A node with queue ``q``, and ``dead`` behind the exchange ``dlx``."""

    def __init__(self, node: World, channel: Any) -> None:
        self.node = node
        self.channel = channel

    async def policy(self, kind: str = "policies", **definition: Any) -> None:
        values = {name.replace("_", "-"): value for name, value in definition.items()}
        path, body = f"/api/{kind}/%2F/p", {"pattern": "^q$", "definition": values, "apply-to": "queues"}
        reply = await self.node.call("PUT", path, body=json.dumps(body))
        assert reply.status in (201, 204), reply

    async def publish(self, *bodies: str) -> list[bool]:
        """Publish to ``q``; whether each was confirmed."""
        confirmed = []
        for body in bodies:
            try:
                await self.channel.default_exchange.publish(aio_pika.Message(body.encode()), "q")
                confirmed.append(True)
            except aio_pika.exceptions.DeliveryError:
                confirmed.append(False)
        return confirmed

    async def take(self, name: str) -> list[Any]:
        """All messages of a queue, which stay unacknowledged."""
        queue = await self.channel.get_queue(name)
        found = []
        while (message := await queue.get(fail=False)) is not None:
            found.append(message)
        return found

    async def drain(self, name: str) -> list[str]:
        """The bodies of all messages of a queue."""
        messages = await self.take(name)
        for message in messages:
            await message.ack()
        return [message.body.decode() for message in messages]


@pytest.fixture
async def clients(node: World) -> AsyncIterator[Clients]:
    await node.call("PUT", "/api/exchanges/%2F/dlx", body='{"type":"fanout"}')
    await node.call("PUT", "/api/queues/%2F/dead", body="{}")
    await node.call("POST", "/api/bindings/%2F/e/dlx/q/dead", body="{}")
    await node.call("PUT", "/api/queues/%2F/q", body="{}")
    connection = await node.connect()
    yield Clients(node, await connection.channel())
    await connection.close()


async def test_a_lowered_length_drops_at_once(clients: Clients) -> None:
    await clients.publish(*"12345")
    await clients.policy(dead_letter_exchange="dlx")
    await clients.policy(dead_letter_exchange="dlx", max_length=2)
    assert await clients.drain("q") == ["4", "5"]
    dead = await clients.take("dead")
    assert [message.body for message in dead] == [b"1", b"2", b"3"]
    assert {message.headers["x-death"][0]["reason"] for message in dead} == {"maxlen"}


async def test_reject_publish_keeps_what_waits_until_drop_head(clients: Clients) -> None:
    await clients.publish(*"12345")
    await clients.policy(max_length=2, overflow="reject-publish")
    assert await clients.publish("6") == [False]
    assert (await clients.channel.declare_queue("q", passive=True)).declaration_result.message_count == 5
    await clients.policy(max_length=2, overflow="drop-head")
    assert await clients.drain("q") == ["4", "5"]


async def test_a_lowered_length_while_all_are_unacknowledged(clients: Clients) -> None:
    """All go back, and only the newest stays."""
    await clients.publish(*"1234")
    messages = await clients.take("q")
    await clients.policy(max_length=1)
    await messages[-1].nack(multiple=True)
    assert await clients.drain("q") == ["4"]


async def test_a_ttl_leaves_waiting_messages_alone(clients: Clients) -> None:
    await clients.publish("before")
    await clients.policy(message_ttl=1)
    await clients.publish("after")
    assert (await clients.node.call("DELETE", "/api/policies/%2F/p")).status == 204
    await asyncio.sleep(0.05)
    assert await clients.drain("q") == ["before"]


async def test_the_dead_letter_target_is_read_at_death(clients: Clients) -> None:
    await clients.publish("1")
    await clients.policy(dead_letter_exchange="nowhere")
    await clients.policy(dead_letter_exchange="dlx")
    for message in await clients.take("q"):
        await message.reject()
    assert await clients.drain("dead") == ["1"]


async def test_arguments_policy_and_operator_policy(clients: Clients) -> None:
    """Of the numbers the smallest counts; the argument's overflow is before the policy's."""
    await clients.node.call("DELETE", "/api/queues/%2F/q")
    arguments = {"x-max-length": 4, "x-overflow": "drop-head"}
    await clients.node.call("PUT", "/api/queues/%2F/q", body=json.dumps({"arguments": arguments}))
    await clients.policy(max_length=5, overflow="reject-publish")
    assert await clients.publish(*"123456") == [True] * 6
    assert await clients.drain("q") == ["3", "4", "5", "6"]
    await clients.policy("operator-policies", max_length=3)
    assert await clients.publish(*"123456") == [True] * 6
    assert await clients.drain("q") == ["4", "5", "6"]
