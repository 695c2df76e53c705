"""What needs attention, and what does not."""

from __future__ import annotations

import itertools
from typing import Any

from admin_ui.live.attention import GROWTH_MIN, PERIOD_S, Attention
from admin_ui.live.work import Work
from admin_ui.state import STATE
from amqp_router.metrics import NODE
from tests.admin_ui.world import World


class Looker:
    """Looks again at each call, whatever the time."""

    def __init__(self, node: World) -> None:
        self.node = node
        self.attention = Attention(node.admin._runner.app[STATE])
        self.clock = itertools.count(0, PERIOD_S)

    async def __call__(self) -> list[dict[str, Any]]:
        await self.attention.refresh(next(self.clock), Work())
        return [each for each in self.attention.findings if each["kind"] not in ("disk", "memory")]


async def fill(node: World, queue: str, messages: int) -> None:
    connection = await node.connect()
    channel = await connection.channel()
    exchange, message = channel.default_exchange, __import__("aio_pika").Message(b"x")
    for _ in range(messages):
        await exchange.publish(message, queue)
    await connection.close()


async def test_a_node_at_rest_is_left_in_peace(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    assert await Looker(node)() == []


async def test_messages_that_nobody_consumes(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    await fill(node, "q", 3)
    assert await Looker(node)() == [{"kind": "no_consumers", "vhost": "/", "name": "q", "ready": 3}]


async def test_a_queue_that_grows_all_the_time(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    looker = Looker(node)
    for _ in range(13):
        await fill(node, "q", 20)
        node.sample()
    [found] = await looker()
    assert (found["kind"], found["ready"], found["consumers"]) == ("growing", 260, 0)
    assert found["per_minute"] in range(180, 261)  # the node's own clock goes on as well
    for _ in range(4):  # it stands still: no longer growing
        node.sample()
    assert [each["kind"] for each in await looker()] == ["no_consumers"]


async def test_a_little_growth_is_none(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    for _ in range(13):
        await fill(node, "q", GROWTH_MIN // 13 - 1)
        node.sample()
    assert [each["kind"] for each in await Looker(node)()] == ["no_consumers"]


async def test_messages_that_no_queue_wanted(node: World) -> None:
    node.sample()
    await fill(node, "nowhere", 30)
    node.sample()
    found = await Looker(node)()
    assert [(each["kind"], each["vhost"], each["rate"]) for each in found] == [("unroutable", "/", 3.0)]
    for _ in range(13):
        node.sample()
    assert await Looker(node)() == []


async def test_a_failed_queue(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q", durable=True)
    node.broker.vhosts["/"].queues["q"].error = "its log cannot be read"
    assert await Looker(node)() == [
        {"kind": "failed", "vhost": "/", "name": "q", "reason": "its log cannot be read"}
    ]


async def test_a_connection_that_is_held_back_for_long(node: World) -> None:
    connection = await node.connect()
    await connection.channel()
    looker = Looker(node)
    machine = next(iter(node.broker.registry)).machine
    machine.inflow.over = True
    assert await looker() == []
    found = await looker()
    assert [(each["kind"], each["user"]) for each in found] == [("blocked", "guest")]
    machine.inflow.over = False
    assert await looker() == []
    await connection.close()


async def test_the_node_near_its_limits(node: World) -> None:
    attention = Attention(node.admin._runner.app[STATE])
    row = dict(zip(NODE.fields, node.metrics.node.last, strict=True))
    row.update(mem_used=node.metrics.usage.mem_total, fd_used=node.metrics.usage.fd_total, disk_free=1)
    node.metrics.node.last = tuple(row.values())
    await attention.refresh(0, Work())
    assert [each["kind"] for each in attention.findings] == ["disk", "memory", "files"]
