"""Requests to queues whose answers come later than the call, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

import admin_ui.asking
from amqp_router import queue_maker
from amqp_router.protocol.flags import REDELIVERED
from tests.admin_ui.world import World
from tests.toys.late_queue import LateQueue
from tests.vhosts.queues.local import message


@pytest.fixture
def queue(shop: World, monkeypatch: pytest.MonkeyPatch) -> LateQueue:
    monkeypatch.setattr(queue_maker, "Queue", LateQueue)
    found, _ = shop.broker.vhosts["shop"].declare_queue("late")
    assert isinstance(found, LateQueue)
    for number in range(3):
        found.publish(message(number))
    return found


async def asked(queue: LateQueue) -> Callable[[], None]:
    """Wait until a request has asked; returns what lets its answer arrive."""
    while not queue.questions:
        await asyncio.sleep(0.001)
    return queue.questions.pop().arrive


GET = json.dumps({"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"})
PEEK = json.dumps({"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"})


async def test_get(shop: World, queue: LateQueue) -> None:
    request = asyncio.create_task(shop.call("POST", "/api/queues/shop/late/get", body=GET))
    for _ in range(4):
        arrive = await asked(queue)
        await asyncio.sleep(0.01)
        assert not request.done()
        shop.broker.enter(arrive)
    shown = (await request).json
    assert [(each["payload"], each["message_count"]) for each in shown] == [("0", 2), ("1", 1), ("2", 0)]
    assert (queue.message_count(), queue.unacked_count) == (0, 0)


@pytest.mark.parametrize("body", [GET, PEEK])
async def test_no_answer(shop: World, queue: LateQueue, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    monkeypatch.setattr(admin_ui.asking, "ANSWER_S", 0.05)
    request = asyncio.create_task(shop.call("POST", "/api/queues/shop/late/get", body=body))
    arrive = await asked(queue)
    reply = await request
    assert (reply.status, reply.json["reason"]) == (
        400,
        "404 NOT_FOUND - queue 'late' in vhost 'shop' does not answer",
    )
    shop.broker.enter(arrive)
    assert (queue.message_count(), queue.unacked_count) == (3, 0)
    assert not any(queue.take(False).flags & REDELIVERED for _ in range(3))


async def test_a_client_that_is_gone(shop: World, queue: LateQueue) -> None:
    request = asyncio.create_task(shop.call("POST", "/api/queues/shop/late/get", body=PEEK))
    shop.broker.enter(await asked(queue))
    arrive = await asked(queue)
    request.cancel()
    await asyncio.sleep(0.05)
    shop.broker.enter(arrive)
    while queue.unacked_count:  # the handler goes on to the end
        for question in queue.questions:
            shop.broker.enter(question.arrive)
        queue.questions.clear()
        await asyncio.sleep(0.01)
    assert queue.message_count() == 3


@pytest.mark.parametrize("path", ["late/contents", "late"])
async def test_removals(shop: World, queue: LateQueue, path: str) -> None:
    request = asyncio.create_task(shop.call("DELETE", f"/api/queues/shop/{path}"))
    arrive = await asked(queue)
    await asyncio.sleep(0.01)
    assert not request.done()
    shop.broker.enter(arrive)
    assert (await request).status == 204
    assert (queue.message_count(), queue.deleted) == (0, path == "late")


async def test_a_condition_that_the_leader_refuses(shop: World, queue: LateQueue) -> None:
    request = asyncio.create_task(shop.call("DELETE", "/api/queues/shop/late?if-empty=true"))
    shop.broker.enter(await asked(queue))
    reply = await request
    assert (reply.status, reply.json["reason"]) == (400, "queue 'late' in vhost 'shop' not empty")
    assert not queue.deleted


async def test_the_link_breaks(shop: World, queue: LateQueue) -> None:
    request = asyncio.create_task(shop.call("DELETE", "/api/queues/shop/late/contents"))
    arrive = await asked(queue)
    queue.questions.clear()
    request_two = asyncio.create_task(shop.call("POST", "/api/queues/shop/late/get", body=PEEK))
    while not queue.questions:
        await asyncio.sleep(0.001)
    shop.broker.enter(queue.lose)
    assert (await request_two).json["reason"] == "404 NOT_FOUND - home node of queue 'late' is down"
    shop.broker.enter(arrive)
    assert (await request).status == 204
