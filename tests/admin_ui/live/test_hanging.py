"""A consumer that hangs beside others that work is found; one with a long job among long jobs is not."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import aio_pika
import pytest

from admin_ui.live import holders
from admin_ui.live.attention import PERIOD_S, Attention
from admin_ui.live.holders import PACE, SLICE_CONSUMERS, STUCK_TICKS
from admin_ui.live.work import Work
from admin_ui.state import STATE
from amqp_router.ctl.node import sentence
from tests.admin_ui.world import World


class Shop:
    """Queue ``emails`` with a consumer that works, and one that may hang."""

    def __init__(self, node: World) -> None:
        self.node = node
        self.attention = Attention(node.admin._runner.app[STATE])
        self.clock = itertools.count(0, PERIOD_S)
        self.held: list[Any] = []
        self.done = 0
        self.connections: list[Any] = []

    async def consume(self, name: str, prefetch: int, does: Any) -> Any:
        connection = await self.node.connect(client_properties={"connection_name": name})
        self.connections.append(connection)
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=prefetch)
        await (await channel.get_queue("emails", ensure=False)).consume(does)
        return channel

    async def work(self, message: Any) -> None:
        await message.ack()
        self.done += 1

    async def keep(self, message: Any) -> None:
        self.held.append(message)

    async def send(self, messages: int) -> None:
        """Publish, and wait until each is with a consumer."""
        channel = await self.connections[0].channel()
        before = self.done + len(self.held)
        for _ in range(messages):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "emails")
        while self.done + len(self.held) < before + messages or self.busy() > 0:
            await asyncio.sleep(0.01)
        await channel.close()

    def busy(self) -> int:
        """Acknowledgements that are on their way."""
        return int(self.node.broker.vhosts["/"].queues["emails"].unacked_count) - len(self.held)

    async def look(self) -> list[dict[str, Any]]:
        await self.attention.refresh(next(self.clock), Work())
        return [each for each in self.attention.findings if each["kind"] not in ("disk", "memory", "filling")]

    async def a_minute(self, messages: int) -> None:
        """The time after which a consumer hangs, and so many messages in it."""
        await self.send(messages)
        for _ in range(STUCK_TICKS):
            self.node.sample()

    async def close(self) -> None:
        for connection in self.connections:
            await connection.close()


async def two(node: World, *, prefetch: int = 3) -> Shop:
    """Both consumers, and what the one that hangs holds: up to three messages."""
    node.broker.vhosts["/"].declare_queue("emails")
    shop = Shop(node)
    await shop.consume("mailer", 10, shop.work)
    await shop.consume("mailer-hung", prefetch, shop.keep)
    await shop.send(6)
    node.sample()
    node.sample()  # from here on there are histories
    return shop


async def test_a_consumer_that_hangs_beside_another(node: World) -> None:
    shop = await two(node)
    assert len(shop.held) == 3
    assert await shop.look() == []
    for _ in range(STUCK_TICKS - 2):
        await shop.send(5)
        node.sample()
        assert await shop.look() == []
    for _ in range(3):
        await shop.send(5)
        node.sample()
    [found] = await shop.look()
    assert (found["kind"], found["client"], found["held"]) == ("hanging", "mailer-hung", 3)
    assert (found["consumers"], found["hanging"], found["finished"]) == (2, 1, 5 * STUCK_TICKS)
    assert "mailer-hung" in sentence(found)
    assert "acknowledged none" in sentence(found)
    # What closes that consumer alone.
    consumers = await node.get("/consumers")
    [row] = [row for row in consumers if row["channel_details"]["name"] == found["channel"]]
    assert (found["tag"], found["cancels"]) == (row["consumer_tag"], True)
    dated = shop.attention.dated(found)
    assert dated["since"] <= (node.metrics.tick - STUCK_TICKS) * 5000
    # One acknowledgement, and it is at work again.
    await shop.held.pop().ack()
    while shop.busy() > 0:
        await asyncio.sleep(0.01)
    node.sample()
    assert await shop.look() == []
    await shop.close()


async def test_one_that_takes_without_a_limit_and_acknowledges_none(node: World) -> None:
    shop = await two(node, prefetch=0)
    for _ in range(2):
        await shop.a_minute(60)
    [found] = await shop.look()
    assert (found["kind"], found["client"]) == ("hanging", "mailer-hung")
    assert found["held"] == len(shop.held) > 30
    await shop.close()


async def test_a_long_job_among_long_jobs(node: World) -> None:
    shop = await two(node)
    for _ in range(3):
        await shop.a_minute(PACE - 1)
    assert await shop.look() == []
    await shop.a_minute(PACE + 1)
    assert [each["kind"] for each in await shop.look()] == ["hanging"]
    await shop.close()


async def test_one_that_has_just_begun_to_hold(node: World) -> None:
    shop = await two(node)
    for message in shop.held:
        await message.ack()
    shop.held.clear()
    while shop.busy() > 0:
        await asyncio.sleep(0.01)
    await shop.a_minute(0)
    await shop.send(40)  # it holds three since now
    node.sample()
    assert len(shop.held) == 3
    assert await shop.look() == []
    await shop.close()


async def test_a_finding_goes_with_its_consumer(node: World) -> None:
    shop = await two(node)
    await shop.a_minute(60)
    await shop.look()

    def seen() -> tuple[list[str], int]:
        mine = shop.attention.visible({"/"}, "guest", watches_node=False)
        return [each["kind"] for each in mine.worst], mine.counts.total()

    assert seen() == (["hanging"], 1)
    await shop.connections[1].close()
    while len(node.broker.vhosts["/"].queues["emails"].consumers) > 1:
        await asyncio.sleep(0.01)
    assert seen() == ([], 0)
    await shop.close()


async def test_very_many_consumers_are_looked_at_in_slices(
    node: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await two(node)
    channel = await shop.connections[1].channel()
    queue = await channel.get_queue("emails", ensure=False)
    for _ in range(5 * SLICE_CONSUMERS):
        await queue.consume(shop.keep)
    node.sample()
    pauses = 0

    class Slices(Work):
        async def pause(self) -> None:
            nonlocal pauses
            pauses += 1

    monkeypatch.setattr(holders, "PACE", 0)  # so that all of them are looked at
    vhost = node.broker.vhosts["/"]
    await holders.hanging(vhost.queues["emails"], shop.attention._state.metrics, holders.Marks(), Slices())
    assert pauses == 5
    await shop.close()


async def shared_channel(node: World) -> tuple[Shop, list[Any]]:
    """One channel with a consumer that works and one that keeps what it gets; and what that one holds."""
    node.broker.vhosts["/"].declare_queue("emails")
    shop = Shop(node)
    channel = await shop.consume("mailer", 3, shop.work)
    await (await channel.get_queue("emails", ensure=False)).consume(shop.keep, consumer_tag="hangs")
    await shop.send(6)
    node.sample()
    node.sample()
    for _ in range(STUCK_TICKS):  # a queue is not looked into before it had so busy a minute
        await shop.send(5)
        node.sample()
    return shop, shop.held


async def test_one_that_hangs_beside_a_busy_one_on_its_channel(node: World) -> None:
    shop, held = await shared_channel(node)
    assert len(held) == 3
    begin = node.metrics.tick
    assert await shop.look() == []
    for _ in range(STUCK_TICKS - 1):
        await shop.send(5)
        node.sample()
        assert await shop.look() == []
    await shop.send(5)
    node.sample()
    [found] = await shop.look()
    assert (found["kind"], found["tag"], found["held"], found["hanging"]) == ("hanging", "hangs", 3, 1)
    assert shop.attention.dated(found)["since"] == begin * 5000
    # A message that it returns is something done, too.
    await held.pop().reject(requeue=False)
    while shop.busy() > 0:
        await asyncio.sleep(0.01)
    node.sample()
    assert await shop.look() == []
    await shop.close()


async def test_one_that_is_slow_beside_a_busy_one_on_its_channel(node: World) -> None:
    shop, held = await shared_channel(node)
    for round_ in range(2 * STUCK_TICKS):
        await shop.send(5)
        if round_ % (STUCK_TICKS // 2) == 0:  # one in half a minute
            await held.pop(0).ack()
            while shop.busy() > 0:
                await asyncio.sleep(0.01)
            await shop.send(5)
        node.sample()
        assert await shop.look() == []
    await shop.close()


async def test_marks_do_not_outlive_their_consumers(node: World) -> None:
    shop, _ = await shared_channel(node)
    for _ in range(2):
        await shop.a_minute(60)
        await shop.look()
    assert len(shop.attention._marks._marks) == 1
    await shop.connections.pop().close()
    shop.held.clear()
    await shop.look()
    assert not shop.attention._marks._marks
    assert not shop.attention._marks._before
