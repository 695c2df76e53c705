"""The stream of events: what it says, to whom, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientResponse
from yarl import URL

from admin_ui.live import documents
from admin_ui.live import hub as live_hub
from admin_ui.live.rows import LISTS
from admin_ui.live.stream import HUB, SPARKLINES_MAX, STREAMS_MAX, TOPICS_MAX
from amqp_router.metrics import INTERVAL_S
from tests.admin_ui.world import World, basic


class Stream:
    """The events of a stream as they come."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response
        self._rest = b""

    async def next(self) -> tuple[str, Any] | None:
        """Topic and data of the next event; None at the end."""
        while b"\n\n" not in self._rest:
            piece = await self.response.content.readany()
            if not piece:
                return None
            self._rest += piece
        event, _, self._rest = self._rest.partition(b"\n\n")
        topic, data = (line.partition(": ")[2] for line in event.decode().split("\n"))
        return topic, json.loads(data) if data else None

    async def of(self, topic: str) -> Any:
        """The next event of a topic."""
        while True:
            event = await self.next()
            assert event is not None, "the stream ended"
            if event[0] == topic:
                return event[1]


@contextlib.asynccontextmanager
async def stream(node: World, topics: str, user: str = "guest", **headers: str) -> AsyncIterator[Stream]:
    password = "guest" if user == "guest" else f"{user}-pw"
    url = URL(f"{node.base}/admin/v1/events?topics={topics}", encoded=True)
    headers["Authorization"] = basic(user, password)
    async with node.http.get(url, headers=headers) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"] == "text/event-stream"
        yield Stream(response)


async def _ignore(message: Any) -> None:
    pass


async def test_a_stream_has_no_head(node: World) -> None:
    """It would never end."""
    reply = await node.call("HEAD", "/admin/v1/events?topics=overview")
    assert reply.status == 405


async def test_overview_counts(shop: World) -> None:
    connection = await shop.connect("shop")
    channel = await connection.channel()
    await channel.default_exchange.publish(__import__("aio_pika").Message(b"x"), "emails")
    async with stream(shop, "overview,overview:shop,overview:staging") as events:
        event = await events.of("overview")
        assert event["queues"] == 2
        assert event["connections"] == event["channels"] == 1
        assert event["overview"]["queue_totals"]["messages_ready"] == 1
        assert event["overview"]["message_stats"]["publish"] == 1
        assert event["node"]["mem_used"] > 0
        budget = shop.broker.budget
        assert event["node"]["accounts"]["contents"] == [budget.used, budget.limit]
        assert event["node"]["accounts"]["kept"] == [budget.kept, budget.whole // 4]
        assert event["node"]["uptime"] < 60_000
        assert event["attention"] == [{"kind": "no_consumers", "vhost": "shop", "name": "emails", "ready": 1}]
        one = await events.of("overview:shop")
        assert (one["queues"], one["overview"]["messages_ready"]) == (2, 1)
        none = await events.of("overview:staging")
        assert (none["queues"], none["connections"], none["attention"]) == (0, 0, [])
    await connection.close()


async def test_what_one_viewer_sends_changes_nothing_for_others(shop: World) -> None:
    connection = await shop.connect("shop")
    channel = await connection.channel()
    await channel.default_exchange.publish(__import__("aio_pika").Message(b"x"), "emails")
    async with (
        stream(shop, "overview", **{"X-Vhost": "staging"}) as events,
        stream(shop, "overview") as others,
    ):
        for each in (events, others):
            assert (await each.of("overview"))["overview"]["queue_totals"]["messages"] == 1


async def test_lists_come_whole_then_as_changes(shop: World) -> None:
    async with stream(shop, "queues") as events:
        whole = await events.of("queues")
        assert whole["full"] is True
        names = whole["columns"].index("name")
        assert sorted(row[names] for row in whole["rows"]) == ["emails", "orders.eu"]
        shop.broker.vhosts["shop"].declare_queue("late")
        change = await events.of("queues")
        assert "full" not in change
        assert [row[names] for row in change["rows"]] == ["late"]
        shop.broker.vhosts["shop"].delete_queue("late")
        gone = await events.of("queues")
        assert (gone["rows"], len(gone["gone"])) == ([], 1)


async def test_exchanges_and_connections(shop: World) -> None:
    connection = await shop.connect("shop", client_properties={"connection_name": "checkout"})
    async with stream(shop, "exchanges,connections") as events:
        found = await events.of("exchanges")
        rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
        orders = next(row for row in rows if row["name"] == "orders")
        assert (orders["type"], orders["bindings"], orders["durable"]) == ("topic", 1, True)
    async with stream(shop, "connections") as events:
        found = await events.of("connections")
        row = dict(zip(found["columns"], found["rows"][0], strict=True))
        assert (row["user"], row["vhost"], row["state"]) == ("guest", "shop", "running")
    await connection.close()


async def test_one_object_and_none(shop: World) -> None:
    connection = await shop.connect("shop")
    channel = await connection.channel()
    queue = await channel.get_queue("orders.eu")
    await queue.consume(_ignore)
    topics = "queue:shop%2Forders.eu,exchange:shop%2Forders,exchange:shop%2Famq.default,queue:shop%2Fnone"
    async with stream(shop, topics) as events:
        event = await events.of("queue:shop/orders.eu")
        assert event["queue"]["consumers"] == 1
        name = event["queue"]["consumer_details"][0]["channel_details"]["connection_name"]
        assert list(event["clients"]) == [name]
        assert (await events.of("exchange:shop/orders"))["exchange"]["type"] == "topic"
        assert (await events.of("exchange:shop/amq.default"))["exchange"]["name"] == ""
        assert (await events.of("queue:shop/none"))["gone"] is True
    topic = f"connection:{URL.build(path=name).raw_path}".replace(">", "%3E").replace("%", "%25")
    async with stream(shop, topic) as events:
        found = await events.next()
        assert found is not None
        assert [channel["number"] for channel in found[1]["channels"]] == [1]
        await connection.close()
        for _ in range(5):
            found = await events.next()
            assert found is not None
            if "gone" in found[1]:
                break
        else:
            raise AssertionError("the connection is still shown")


async def test_each_sees_its_own(shop: World) -> None:
    shop.broker.vhosts["staging"].declare_queue("secret")
    shop.broker.vhosts["staging"].declare_exchange("secret", "topic")
    connection = await shop.connect("shop")
    topics = "queues,exchanges,connections,overview,queue:staging%2Fsecret,exchange:staging%2Fsecret"
    async with stream(shop, topics, "alice") as events:
        found = [await events.next() for _ in range(6)]
        assert "secret" not in json.dumps([event for event in found if ":" not in event[0]])  # type: ignore[index]
        assert all(event[1].get("gone") for event in found if ":" in event[0])  # type: ignore[index]
        by_topic = dict(found)  # type: ignore[arg-type]
        assert by_topic["connections"]["rows"] == []
        assert by_topic["overview"]["node"] is None
        assert by_topic["overview"]["queues"] == 2
        assert by_topic["overview"]["connections"] == 0
    async with stream(shop, "connections", "bob") as events:
        assert len((await events.of("connections"))["rows"]) == 1
    await connection.close()


async def test_names_that_are_hostile_travel(shop: World) -> None:
    names = ["<img src=x onerror=alert(1)>", "line\nbreak", "a/b%2Fc,d:e", "é" * 120, "data: x\n\nevent: y"]
    for name in names:
        shop.broker.vhosts["shop"].declare_queue(name)
    async with stream(shop, "queues") as events:
        whole = await events.of("queues")
        assert set(names) <= {row[2] for row in whole["rows"]}


async def test_a_change_of_users_ends_the_stream(shop: World) -> None:
    async with stream(shop, "overview", "alice") as events:
        await events.of("overview")
        shop.broker.users.put_user("alice", b"other", ("management",))
        while await events.next() is not None:
            pass


async def test_nothing_is_read_without_viewers(node: World) -> None:
    hub = node.admin._runner.app[HUB]
    async with stream(node, "queues") as events:
        await events.of("queues")
        assert hub._task is not None
    while hub._task is not None:
        await asyncio.sleep(0.05)
    assert hub._lists == {}


async def test_a_viewer_that_does_not_read_gets_the_newest_whole(node: World) -> None:
    hub = node.admin._runner.app[HUB]
    vhost = node.broker.vhosts["/"]
    for number in range(3000):
        vhost.declare_queue(f"queue-{number:04}-{'x' * 200}")
    async with stream(node, "queues") as events:
        while not hub._viewers:
            await asyncio.sleep(0.01)
        [viewer] = hub._viewers
        for number in range(30):  # more than the sockets between the two hold
            for queue in vhost.queues.values():
                queue.publish_total += 1
            vhost.declare_queue(f"late-{number}")
            hub._hurry.set()
            await asyncio.sleep(0.05)
        assert len(viewer.news) <= 1
        found: dict[str, Any] = {}
        wholes = 0
        while "late-29" not in {row[2] for row in found.values()}:
            event = await events.of("queues")
            wholes += bool(event.get("full"))
            found = ({} if event.get("full") else found) | {row[0]: row for row in event["rows"]}
        assert wholes >= 1
        assert len(found) == 3030


async def test_streams_of_one_user_are_bounded(node: World) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(STREAMS_MAX):
            await stack.enter_async_context(stream(node, "overview"))
        reply = await node.call("GET", "/admin/v1/events?topics=overview")
        assert (reply.status, reply.headers["Retry-After"]) == (429, "10")


@pytest.mark.parametrize(
    "topics",
    [
        "",
        "none",
        "queue",
        "queue:",
        "queues:x",
        "overview,",
        "queue:a%0Ab",
        ",".join(["overview:a"] * 1) + ",x",
    ],
)
async def test_unknown_topics(node: World, topics: str) -> None:
    reply = await node.call("GET", f"/admin/v1/events?topics={topics}")
    assert reply.status == 400
    assert "unknown topic" in reply.json["reason"]


async def test_too_many_topics(node: World) -> None:
    topics = ",".join(f"overview:v{number}" for number in range(TOPICS_MAX + 1))
    assert (await node.call("GET", f"/admin/v1/events?topics={topics}")).status == 400


async def test_the_stream_needs_a_login(node: World) -> None:
    assert (await node.call("GET", "/admin/v1/events?topics=overview", None)).status == 401


async def test_sparklines(shop: World) -> None:
    vhost = shop.broker.vhosts["shop"]
    shop.sample()
    vhost.queues["emails"].publish_total += 1
    for _ in range(5):
        shop.sample()
    body = json.dumps({"queues": [["shop", "emails"], ["shop", "none"], ["none", "none"], ["staging", "x"]]})
    reply = await shop.call("POST", "/admin/v1/sparklines", "alice", body=body)
    emails, *others = reply.json["series"]
    assert len(emails) == 31
    assert emails[0] is None
    assert emails[-1] == 0
    assert others == [None, None, None]
    assert reply.json["waiting"] == [None, None, None, None]


async def test_since_when_the_oldest_message_waits(shop: World) -> None:
    queue, prioritised = (
        shop.broker.vhosts["shop"].declare_queue(name, durable=False, arguments=arguments)[0]
        for name, arguments in (("fifo", {}), ("priorities", {"x-max-priority": ("l", 3)}))
    )

    async def waits_since(*, ticks: int) -> tuple[int, bool] | None:
        for _ in range(ticks):
            shop.sample()
        body = json.dumps({"queues": [["shop", "fifo"], ["shop", "priorities"]]})
        found = (await shop.call("POST", "/admin/v1/sparklines", "alice", body=body)).json["waiting"]
        assert found[1] is None
        if found[0] is None:
            return None
        now = shop.metrics.history(queue).seen * INTERVAL_S
        return now - found[0][0] // 1000, found[0][1]

    async def publish(count: int) -> None:
        payload = {"routing_key": "fifo", "properties": {}, "payload": "x", "payload_encoding": "string"}
        for _ in range(count):
            path = "/api/exchanges/shop/amq.default/publish"
            assert (await shop.call("POST", path, "alice", body=json.dumps(payload))).json == {"routed": True}

    async def take(count: int) -> None:
        content = {"count": count, "ackmode": "ack_requeue_false", "encoding": "auto"}
        reply = await shop.call("POST", "/api/queues/shop/fifo/get", "alice", body=json.dumps(content))
        assert len(reply.json) == count

    assert prioritised.settings.max_priority == 3
    assert await waits_since(ticks=2) is None
    await publish(2)
    assert await waits_since(ticks=3) == (10, False)
    await publish(1)
    assert await waits_since(ticks=3) == (25, False)
    await take(2)
    assert await waits_since(ticks=1) == (15, False)
    await take(1)
    assert await waits_since(ticks=1) is None
    await publish(1)
    found = await waits_since(ticks=15 * 12)  # by the ring of minutes: up to a minute less
    assert found is not None
    assert 14 * 60 - 5 <= found[0] <= 15 * 60 - 5
    assert not found[1]
    await publish(1)  # an object that does not change for an hour is forgotten
    found = await waits_since(ticks=55 * 12)
    assert found is not None
    assert found[1]  # further back than the history


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"queues": [1]}', '{"queues": 3}', "\xff"])
async def test_sparklines_of_nonsense(node: World, body: str) -> None:
    assert (await node.call("POST", "/admin/v1/sparklines", body=body)).status == 400


async def test_sparklines_of_too_many(node: World) -> None:
    body = json.dumps({"queues": [["/", "x"]] * (SPARKLINES_MAX + 1)})
    assert (await node.call("POST", "/admin/v1/sparklines", body=body)).status == 400
    assert (await node.call("POST", "/admin/v1/sparklines", body="x" * 300_000)).status == 400


async def test_new_viewers_of_a_long_list_do_not_have_it_read_again(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading takes its share of the time at most, however many pages are opened.

    The share is so small that the next reading is due when this test is long over.
    """
    monkeypatch.setattr(live_hub, "SHARE", 0.0001)
    columns, read = LISTS["queues"]
    readings = 0

    def slow(state: Any) -> Any:
        nonlocal readings
        readings += 1
        time.sleep(0.03)
        yield from read(state)

    monkeypatch.setitem(LISTS, "queues", (columns, slow))
    async with contextlib.AsyncExitStack() as streams:
        for _ in range(10):
            events = await streams.enter_async_context(stream(shop, "queues"))
            assert len((await events.of("queues"))["rows"]) == 2
        assert readings == 1
        events = await streams.enter_async_context(stream(shop, "queues,connections"))
        # A list that nobody watched is read before the other one is read again.
        assert (await events.of("connections"))["rows"] == []
        assert readings == 1


async def test_viewers_with_the_same_rights_share_the_overview(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making it takes milliseconds when there are many queues."""
    built: list[tuple[str, str]] = []
    build = documents.build

    def counted(request: Any, identity: Any, topic: str, attention: Any) -> Any:
        built.append((identity.name, topic))
        return build(request, identity, topic, attention)

    monkeypatch.setattr(documents, "build", counted)
    for name, tags in (("m1", "monitoring"), ("m2", "monitoring"), ("m3", "management")):
        user = json.dumps({"password": f"{name}-pw", "tags": tags})
        await shop.call("PUT", f"/api/users/{name}", body=user)
        rights = dict.fromkeys(("configure", "write", "read"), "")
        await shop.call("PUT", f"/api/permissions/shop/{name}", body=json.dumps(rights))
    async with (
        stream(shop, "overview", "m1") as one,
        stream(shop, "overview", "m2") as two,
        stream(shop, "overview", "m3") as three,
        stream(shop, "overview") as all_of_it,
    ):
        for events in (one, two, three, all_of_it):
            await events.of("overview")
        built.clear()
        found: list[dict[Any, Any]] = [{}, {}, {}, {}]
        for _ in range(6):
            for seen, events in zip(found, (one, two, three, all_of_it), strict=True):
                document = await events.of("overview")
                seen[document["at"]] = document
    # Viewers need not be at the same reading: a new one hastens the next.
    both = found[0].keys() & found[1].keys()
    assert len(both) >= 3
    assert all(found[0][at] == found[1][at] for at in both)
    readings = len(found[0].keys() | found[1].keys())
    assert sum(name in ("m1", "m2") for name, _ in built) <= readings + 1  # one may not be read yet
    one_of_each = [next(iter(seen.values())) for seen in found]
    assert one_of_each[2]["node"] is None
    assert one_of_each[0]["exchanges"] < one_of_each[3]["exchanges"]
