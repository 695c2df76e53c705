"""Moves over HTTP: begun, watched and stopped, by those who may."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import admin_ui.moving
from amqp_router import queue_maker
from tests.admin_ui.world import Reply, World
from tests.toys.late_queue import LateQueue
from tests.vhosts.queues.local import message, text_of
from vhosts import moves
from vhosts.queues.queue import Queue

A = "/admin/v1/queues/shop/a/moves"
MOVES = "/admin/v1/moves"


def queue(node: World, name: str, count: int = 0, vhost: str = "shop", **options: Any) -> Queue:
    found, _ = node.broker.vhosts[vhost].declare_queue(name, **options)
    assert isinstance(found, Queue)
    for number in range(count):
        found.publish(message(number))
    return found


async def begin(node: World, to: dict[str, Any], user: str = "guest", path: str = A, **more: Any) -> Reply:
    return await node.call("POST", path, user, body=json.dumps({"to": to, **more}))


async def ended(node: World, begun: Reply) -> dict[str, Any]:
    """The move when it is over."""
    assert begun.status == 200, begun
    for _ in range(1000):
        found: dict[str, Any] = (await node.call("GET", f"{MOVES}/{begun.json['id']}")).json
        if found["ended"] is not None:
            return found
        await asyncio.sleep(0.005)
    raise AssertionError(f"the move does not end: {found}")


def drained(found: Queue) -> list[str]:
    return [text_of(each) for each in iter(lambda: found.take(True), None)]


async def test_from_queue_to_queue(shop: World) -> None:
    queue(shop, "a", 20)
    to = queue(shop, "b")
    begun = await begin(shop, {"queue": "b"})
    facts = {
        "vhost": "shop",
        "queue": "a",
        "to": {"vhost": "shop", "queue": "b"},
        "user": "guest",
        "count": 20,
    }
    assert {name: begun.json[name] for name in facts} == facts
    found = await ended(shop, begun)
    assert {name: found[name] for name in facts} == facts
    assert (found["state"], found["reason"], found["moved"], found["left"]) == ("done", "", 20, 0)
    assert found["began"] <= found["ended"]
    assert found["rate"] > 0
    assert drained(to) == [str(number) for number in range(20)]
    for path in (MOVES, A, "/admin/v1/queues/shop/b/moves"):
        assert (await shop.call("GET", path)).json == [found]
    assert (await shop.call("GET", "/admin/v1/queues/shop/other/moves")).json == []
    assert (await shop.call("DELETE", f"{MOVES}/{found['id']}")).status == 204
    assert (await shop.call("GET", f"{MOVES}/{found['id']}")).json == found


async def test_some_to_another_virtual_host(shop: World) -> None:
    source, to = queue(shop, "a", 5), queue(shop, "b", vhost="/")
    found = await ended(shop, await begin(shop, {"vhost": "/", "queue": "b"}, count=2))
    assert (found["to"], found["count"], found["moved"]) == ({"vhost": "/", "queue": "b"}, 2, 2)
    assert (drained(to), drained(source)) == (["0", "1"], ["2", "3", "4"])


@pytest.mark.parametrize(("key", "expected"), [(None, "q"), ("k", "k")])
async def test_to_an_exchange(shop: World, key: str | None, expected: str) -> None:
    queue(shop, "a", 1)
    to = queue(shop, "b")
    for each in ("q", "k"):
        shop.broker.vhosts["shop"].bind_queue("b", "amq.direct", each, {}, None)
    where = {"exchange": "amq.direct"} | ({} if key is None else {"routing_key": key})
    found = await ended(shop, await begin(shop, where))
    assert (found["state"], found["to"]) == ("done", {"vhost": "shop", **where})
    taken = to.take(True)
    assert taken is not None
    assert taken.route == b"\x0aamq.direct\x01" + expected.encode()


async def test_to_the_default_exchange(shop: World) -> None:
    queue(shop, "a", 1)
    to = queue(shop, "b")
    found = await ended(shop, await begin(shop, {"exchange": "amq.default", "routing_key": "b"}))
    assert (found["state"], to.message_count()) == ("done", 1)


async def test_one_that_fails_says_why(shop: World) -> None:
    source = queue(shop, "a", 3)
    found = await ended(shop, await begin(shop, {"exchange": "amq.direct"}))
    reason = "no queue takes messages of exchange 'amq.direct' with the routing key 'q'"
    assert (found["state"], found["reason"], found["moved"], found["left"]) == ("failed", reason, 0, 3)
    assert source.message_count() == 3


async def test_stopped(shop: World) -> None:
    source, to = queue(shop, "a", 10), queue(shop, "b")
    shop.broker.alarms.set("disk")
    refused = await begin(shop, {"queue": "b"})
    assert (refused.status, refused.json["error"]) == (503, "blocked")
    shop.broker.alarms.clear("disk")
    real, shop.broker.in_slices = shop.broker.in_slices, lambda step: None  # type: ignore[method-assign]
    begun = await begin(shop, {"queue": "b"})
    known = f"{MOVES}/{begun.json['id']}"
    assert (await shop.call("GET", known)).json["state"] == "running"
    assert (await shop.call("DELETE", known)).status == 204
    assert (await shop.call("GET", known)).json["state"] == "ending"
    shop.broker.in_slices = real  # type: ignore[method-assign]
    move = shop.admin._runner.app[admin_ui.moves.MOVES].all()[0].move  # type: ignore[union-attr]
    shop.broker.in_slices(move._slice)
    assert (await ended(shop, begun))["state"] == "stopped"
    assert (source.message_count(), to.message_count()) == (10, 0)


async def test_an_alarm_is_waited_for(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_ui.moving, "LOOK_S", 0.01)
    monkeypatch.setattr(moves, "SLICE", 1)
    queue(shop, "a", 200)
    queue(shop, "b")
    begun = await begin(shop, {"queue": "b"})
    shop.broker.alarms.set("disk")
    for _ in range(5):
        await asyncio.sleep(0.02)
        found = (await shop.call("GET", f"{MOVES}/{begun.json['id']}")).json
    assert (found["state"], found["ended"]) == ("blocked", None)
    assert found["left"] > 0
    assert found["rate"] == 0
    shop.broker.alarms.clear("disk")
    assert (await ended(shop, begun))["moved"] == 200


async def test_a_source_that_does_not_answer(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_ui.moving, "LOOK_S", 0.01)
    monkeypatch.setattr(admin_ui.moving, "ANSWER_S", 0.02)
    monkeypatch.setattr(queue_maker, "Queue", LateQueue)
    queue(shop, "a", 2)
    queue(shop, "b")
    found = await ended(shop, await begin(shop, {"queue": "b"}))
    assert (found["state"], found["reason"]) == ("failed", "queue 'a' in vhost 'shop' does not answer")


async def test_only_so_many_run_and_are_remembered(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_ui.moving, "RUNNING_MAX", 1)
    source = queue(shop, "a", 300)
    queue(shop, "b")
    monkeypatch.setattr(moves, "SLICE", 1)
    begun = await begin(shop, {"queue": "b"})
    refused = await begin(shop, {"queue": "b"})
    assert (refused.status, refused.json["error"]) == (503, "too_many_moves")
    await ended(shop, begun)
    monkeypatch.setattr(moves, "SLICE", 32)
    for _ in range(admin_ui.moving.ENDED_MAX):
        await ended(shop, await begin(shop, {"queue": "b"}))
    assert len((await shop.call("GET", MOVES)).json) == admin_ui.moving.ENDED_MAX
    assert (await shop.call("GET", f"{MOVES}/{begun.json['id']}")).status == 404
    assert source.message_count() == 0


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({}, 400, "[{key_missing,to}]"),
        ({"to": "b"}, 400, "to is not an object"),
        ({"to": {}}, 400, "to has either queue or exchange"),
        ({"to": {"queue": "b", "exchange": "x"}}, 400, "to has either queue or exchange"),
        ({"to": {"queue": 5}}, 400, "queue is not a string"),
        (
            {"to": {"queue": "b", "routing_key": "k"}},
            400,
            "to has routing_key: that belongs to an exchange, a queue needs none",
        ),
        ({"to": {"queue": "a"}}, 400, "queue 'a' is where the messages are: choose another one"),
        ({"to": {"queue": "bc"}}, 404, "no queue 'bc' in vhost 'shop'; did you mean 'b'?"),
        ({"to": {"queue": "zzz"}}, 404, "no queue 'zzz' in vhost 'shop'"),
        (
            {"to": {"exchange": "amq.topc"}},
            404,
            "no exchange 'amq.topc' in vhost 'shop'; did you mean 'amq.topic'?",
        ),
        ({"to": {"vhost": "sohp", "queue": "b"}}, 404, "no vhost 'sohp'; did you mean 'shop'?"),
        (
            {"to": {"queue": "b"}, "count": 0},
            400,
            "count is a whole number above 0, or null for all messages",
        ),
        (
            {"to": {"queue": "b"}, "count": True},
            400,
            "count is a whole number above 0, or null for all messages",
        ),
        (
            {"to": {"queue": "b"}, "count": "5"},
            400,
            "count is a whole number above 0, or null for all messages",
        ),
        (
            {"to": {"queue": "mine"}},
            400,
            "queue 'mine' in vhost 'shop' is exclusive and goes with its connection; choose another one",
        ),
    ],
)
async def test_what_is_wrong(shop: World, body: dict[str, Any], status: int, reason: str) -> None:
    source = queue(shop, "a", 1)
    queue(shop, "b")
    queue(shop, "mine", exclusive=True, owner=object())
    reply = await shop.call("POST", A, body=json.dumps(body))
    assert (reply.status, reply.json["reason"]) == (status, reason)
    assert source.message_count() == 1
    assert (await shop.call("GET", MOVES)).json == []


async def test_a_source_that_is_not_there_or_locked(shop: World) -> None:
    queue(shop, "b")
    queue(shop, "mine", exclusive=True, owner=object())
    assert (await begin(shop, {"queue": "b"})).status == 404
    assert (await begin(shop, {"queue": "b"}, path="/admin/v1/queues/shop/mine/moves")).status == 400
    assert (await begin(shop, {"queue": "b"}, path="/admin/v1/queues/nosuch/a/moves")).status == 404
    for number in ("1", "x", "0", "9" * 30):
        assert (await shop.call("GET", f"{MOVES}/{number}")).status == 404
        assert (await shop.call("DELETE", f"{MOVES}/{number}")).status == 404


async def test_permissions(shop: World) -> None:
    queue(shop, "a", 5)
    queue(shop, "b", vhost="/")
    queue(shop, "b")
    shop.add_user("reader", "management")
    shop.add_user("watcher", "management", vhosts=("shop",))
    rights = shop.broker.users
    to = {"queue": "b"}
    assert (await begin(shop, to, "reader")).status == 401
    rights.set_permission("reader", "shop", configure="", write="", read=".*")
    refused = await begin(shop, to, "reader")
    text = "ACCESS_REFUSED - access to exchange 'amq.default' in vhost 'shop' refused for user 'reader'"
    assert (refused.status, refused.json["reason"]) == (401, text)
    rights.set_permission("reader", "shop", configure="", write="amq.default", read="^b$")
    refused = await begin(shop, to, "reader")
    assert (refused.status, "access to queue 'a'" in refused.json["reason"]) == (401, True)
    rights.set_permission("reader", "shop", configure="", write="^amq.default$", read="^a$")
    assert (await begin(shop, {"exchange": "amq.topic"}, "reader")).status == 401
    assert (await begin(shop, {"vhost": "/", "queue": "b"}, "reader")).status == 401
    begun = await begin(shop, to, "reader", count=1)
    found = await ended(shop, begun)
    assert (found["user"], found["moved"]) == ("reader", 1)
    # Another one sees it; who may not read from the source cannot stop it, an administrator can.
    assert [each["id"] for each in (await shop.call("GET", MOVES, "watcher")).json] == [found["id"]]
    rights.set_permission("watcher", "shop", configure="", write="", read="^b$")
    assert (await shop.call("DELETE", f"{MOVES}/{found['id']}", "watcher")).status == 401
    assert (await shop.call("DELETE", f"{MOVES}/{found['id']}", "reader")).status == 204
    # One into a virtual host that somebody may not see is not told of.
    await ended(shop, await begin(shop, {"vhost": "/", "queue": "b"}))
    assert len((await shop.call("GET", MOVES, "watcher")).json) == 1
    assert len((await shop.call("GET", MOVES)).json) == 2


async def test_an_internal_exchange_is_refused(shop: World) -> None:
    queue(shop, "a", 1)
    shop.broker.vhosts["shop"].declare_exchange("inner", "fanout", internal=True)
    refused = await begin(shop, {"exchange": "inner"})
    assert refused.status == 401
    assert "cannot publish to internal exchange 'inner' in vhost 'shop'" in refused.json["reason"]


async def test_a_node_that_stops_ends_them(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "SLICE", 1)
    source, to = queue(shop, "a", 5000), queue(shop, "b")
    await begin(shop, {"queue": "b"})
    await shop.admin.stop()
    for _ in range(20):
        await asyncio.sleep(0)
    assert 0 < source.message_count() < 5000
    assert source.message_count() + to.message_count() == 5000
    assert source.unacked_count == 0
