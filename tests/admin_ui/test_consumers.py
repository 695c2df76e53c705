"""Consumers closed over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from admin_ui.live.documents import CONSUMERS_MAX
from admin_ui.replies import TURN_ROWS
from tests.admin_ui.world import World, basic

PATH = "/admin/v1/queues/shop/emails/consumers"


class Slow:
    """A client that takes what comes and acknowledges nothing."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    async def start(self, shop: World, tag: str, user: str = "alice", prefetch: int = 3) -> Slow:
        self.connection = await shop.connect("shop", login=user, password=f"{user}-pw")
        self.channel = await self.connection.channel()
        await self.channel.set_qos(prefetch_count=prefetch)
        queue = await self.channel.get_queue("emails", ensure=False)
        await queue.consume(self._take, consumer_tag=tag)
        return self

    async def _take(self, message: Any) -> None:
        self.held.append(message)

    async def has(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.held) < count:
                await asyncio.sleep(0.01)


async def fill(shop: World, count: int) -> None:
    body = '{"properties":{},"routing_key":"emails","payload":"x","payload_encoding":"string"}'
    for _ in range(count):
        assert (await shop.call("POST", "/api/exchanges/shop/amq.default/publish", "alice", body=body)).json


async def test_its_messages_go_back_and_it_goes_on(shop: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await fill(shop, 5)
    slow = await Slow().start(shop, "hangs")
    await slow.has(3)
    reply = await shop.call("DELETE", f"{PATH}/hangs", **{"X-Reason": "since noon"})
    assert (reply.status, reply.json) == (200, {"returned": 3})
    queue = await shop.get("/queues/shop/emails")
    assert (queue["messages_ready"], queue["messages_unacknowledged"], queue["consumers"]) == (5, 0, 0)
    (line,) = [each for each in caplog.records if each.getMessage() == "consumer closed"]
    facts = vars(line)["amqp_router_fields"]
    assert {name: facts[name] for name in ("queue", "vhost", "consumer", "returned", "by", "reason")} == {
        "queue": "emails",
        "vhost": "shop",
        "consumer": "hangs",
        "returned": 3,
        "by": "guest",
        "reason": "since noon",
    }
    for message in slow.held:  # late, and no fault of the client
        await message.ack()
    assert (await slow.channel.declare_queue("emails", passive=True)).declaration_result.message_count == 5
    assert (await shop.call("DELETE", f"{PATH}/hangs")).status == 404
    await slow.connection.close()


async def test_who_may(shop: World) -> None:
    slow = await Slow().start(shop, "mine")
    for user in ("bob", "carol", "dave"):
        assert (await shop.call("DELETE", f"{PATH}/mine", user)).status == 401
    assert (await shop.get("/queues/shop/emails"))["consumers"] == 1
    assert (await shop.call("DELETE", f"{PATH}/mine", "alice")).json == {"returned": 0}
    await slow.connection.close()


async def test_several_with_one_tag_are_told_apart_by_their_channels(shop: World) -> None:
    first, second = [await Slow().start(shop, "same") for _ in range(2)]
    reply = await shop.call("DELETE", f"{PATH}/same")
    channels = [each["channel_details"]["name"] for each in await shop.get("/consumers/shop")]
    assert reply.status == 400
    assert reply.json["reason"].startswith("2 consumers of this queue have the tag 'same'")
    assert all(channel in reply.json["reason"] for channel in channels)
    chosen = await shop.call("DELETE", f"{PATH}/same?channel={quote(channels[1], safe='')}")
    assert chosen.json == {"returned": 0}
    left = [each["channel_details"]["name"] for each in await shop.get("/consumers/shop")]
    assert left == channels[:1]
    await first.connection.close()
    await second.connection.close()


async def test_what_is_not_there(shop: World) -> None:
    for path in (f"{PATH}/none", "/admin/v1/queues/shop/none/consumers/none"):
        assert (await shop.call("DELETE", path)).status == 404


# -- in documents -------------------------------------------------------------------------------------


async def queue_event(shop: World) -> Any:
    """What the page of the queue gets."""
    headers = {"Authorization": basic("guest", "guest")}
    url = f"{shop.base}/admin/v1/events?topics=queue:shop/emails"
    async with shop.http.get(url, headers=headers) as response:
        data = b""
        while b"\n\n" not in data:
            data += await response.content.readany()
    return json.loads(data.partition(b"data: ")[2].partition(b"\n\n")[0])


async def _ignore(message: Any) -> None:
    pass


async def test_very_many_consumers_of_one_queue_are_shown_in_turns(shop: World, turns: list[int]) -> None:
    """10,000 of them took a tenth of a second of one callback."""
    connection = await shop.connect("shop")
    channel = await connection.channel()
    queue = await channel.get_queue("emails")
    for number in range(2 * CONSUMERS_MAX):
        await queue.consume(_ignore, consumer_tag=f"tag {number}")
    [listed] = await shop.get("/channels")
    wanted = {f"tag {number}" for number in range(2 * CONSUMERS_MAX)}
    for path in ("queues/shop/emails", f"channels/{quote(listed['name'])}"):
        turns.clear()
        found = await shop.get(f"/{path}")
        assert {each["consumer_tag"] for each in found["consumer_details"]} == wanted
        assert len(turns) >= 2 * CONSUMERS_MAX // TURN_ROWS
    found = await shop.get("/queues/shop/emails?columns=consumer_details.consumer_tag")
    assert {each["consumer_tag"] for each in found["consumer_details"]} == wanted
    assert [*found, *found["consumer_details"][0]] == ["consumer_details", "consumer_tag"]
    assert await shop.get("/queues/shop/emails?columns=name") == {"name": "emails"}
    assert await shop.get("/queues/shop/emails?columns=none") == []
    event = await queue_event(shop)
    assert len(event["queue"]["consumer_details"]) == len(event["clients"]) * CONSUMERS_MAX == CONSUMERS_MAX
    assert event["consumers_total"] == 2 * CONSUMERS_MAX
    await connection.close()


async def test_a_consumer_whose_channel_ends_while_a_list_is_made(shop: World) -> None:
    """The answer broke off in its middle."""
    connection = await shop.connect("shop")
    tags = []
    for _ in range(3):
        queue = await (await connection.channel()).get_queue("emails")
        tags.append(await queue.consume(_ignore))
    first: Any = next(iter(shop.broker.vhosts["shop"].queues["emails"].consumers))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(first.delivery, "listener", None)
        assert [each["consumer_tag"] for each in await shop.get("/consumers")] == tags[1:]
        assert len(await shop.get("/consumers?sort=consumer_tag")) == 2
        found = await shop.get("/queues/shop/emails")
        assert [each["consumer_tag"] for each in found["consumer_details"]] == tags[1:]
        assert len((await queue_event(shop))["queue"]["consumer_details"]) == 2
    await connection.close()
