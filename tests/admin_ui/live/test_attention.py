"""What needs attention, and what does not."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from admin_ui.live.attention import GROWTH_MIN, PERIOD_S, Attention, seconds_to_full, shown
from admin_ui.live.findings import KEPT_OF_KIND, Findings
from admin_ui.live.waiting import waits_since
from admin_ui.live.work import Work
from admin_ui.state import STATE
from amqp_router.ctl.findings import FULL
from amqp_router.metrics import GLOBAL, NODE
from tests.admin_ui.world import World
from tests.vhosts.queues.local import typed


class Looker:
    """Looks again at each call, whatever the time."""

    def __init__(self, node: World) -> None:
        self.node = node
        self.attention = Attention(node.admin._runner.app[STATE])
        self.clock = itertools.count(0, PERIOD_S)

    async def __call__(self) -> list[dict[str, Any]]:
        await self.attention.refresh(next(self.clock), Work())
        return [each for each in self.attention.findings if each["kind"] not in ("disk", "memory", "filling")]


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


async def test_dead_letters_whose_target_is_full(node: World) -> None:
    vhost = node.broker.vhosts["/"]
    vhost.declare_queue("full", arguments=typed(max_length=0, overflow="reject-publish"))
    letters = typed(message_ttl=1, dead_letter_exchange="", dead_letter_routing_key="full")
    vhost.declare_queue("src", durable=True, arguments=letters)
    connection = await node.connect()
    channel = await connection.channel()
    aio_pika = __import__("aio_pika")
    for _ in range(2):
        await channel.default_exchange.publish(aio_pika.Message(b"x", delivery_mode=2), "src")
    while vhost.dead_letters.waiting.count < 2:
        await asyncio.sleep(0.02)
    await connection.close()
    [found] = [each for each in await Looker(node)() if each["kind"] == "letters_wait"]
    about = {"vhost": "/", "name": "src", "letters": 2, "target": "full", "reason": FULL}
    assert found == {"kind": "letters_wait", **about}


async def test_a_queue_that_grows_all_the_time(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    looker = Looker(node)
    for _ in range(13):
        await fill(node, "q", 20)
        node.sample()
    [found] = await looker()
    assert (found["kind"], found["ready"], found["consumers"]) == ("growing", 260, 0)
    assert found["per_minute"] == 240
    for _ in range(4):  # it stands still: no longer growing
        node.sample()
    assert [each["kind"] for each in await looker()] == ["no_consumers"]


async def test_a_large_queue_that_grows_by_less_than_its_hundredth_each_minute(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    queue = node.broker.vhosts["/"].queues["q"]
    looker = Looker(node)
    for _ in range(13):
        queue.ready.count += 217_000 if queue.ready.count == 0 else 150
        node.sample()
    [found] = await looker()
    assert (found["kind"], found["per_minute"]) == ("growing", 1800)


async def test_consumers_that_hold_messages_and_do_nothing(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("q")
    looker = Looker(node)
    await fill(node, "q", 9)
    connection = await node.connect(client_properties={"connection_name": "mailer-slow"})
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=4)
    held: list[Any] = []

    async def keep(message: Any) -> None:
        held.append(message)

    await (await channel.get_queue("q", ensure=False)).consume(keep)
    while len(held) < 4:
        await asyncio.sleep(0.01)
    for _ in range(12):
        node.sample()
        assert [each["kind"] for each in await looker()] == []
    for _ in range(6):
        node.sample()
    [found] = await looker()
    assert (found["kind"], found["client"], found["held"], found["ready"]) == ("stuck", "mailer-slow", 4, 5)
    # What closes that consumer alone.
    [consumer] = await node.get("/consumers")
    assert (found["tag"], found["channel"]) == (consumer["consumer_tag"], consumer["channel_details"]["name"])
    assert found["cancels"] is True
    # One acknowledgement, and the consumer is at work again.
    await held[0].ack()
    while len(held) < 5:
        await asyncio.sleep(0.01)
    node.sample()
    assert await looker() == []
    for _ in range(13):
        node.sample()
    [found] = await looker()
    dated = looker.attention.dated(found)
    # Since the sample that saw the acknowledgement.
    assert dated["since"] == (node.metrics.tick - 13) * 5000
    assert dated["longer"] is False

    def seen() -> tuple[list[str], int]:
        mine = looker.attention.visible({"/"}, "guest", watches_node=False)
        return [each["kind"] for each in mine.worst], mine.counts.total()

    # Whoever closes that consumer is not offered to close it again, before the next search either.
    assert seen() == (["stuck"], 1)
    await channel.close()
    while node.broker.vhosts["/"].queues["q"].consumers:
        await asyncio.sleep(0.01)
    assert seen() == ([], 0)
    await connection.close()


async def test_the_worst_is_shown_first_and_no_kind_hides_the_others(node: World) -> None:
    vhost = node.broker.vhosts["/"]
    for number in range(12):
        vhost.declare_queue(f"q{number}")
        vhost.queues[f"q{number}"].ready.count = number + 1
    vhost.declare_queue("bad", durable=True)
    vhost.queues["bad"].set_failed("its log cannot be read")
    node.sample()
    await fill(node, "nowhere", 5)
    node.sample()
    findings = await Looker(node)()
    kinds = [each["kind"] for each in shown(findings)]
    assert kinds == ["failed", "unroutable"] + ["no_consumers"] * 6
    assert [each["kind"] for each in findings][:2] == ["failed", "unroutable"]
    many = [{"kind": kind, "ready": 1} for kind in ("stuck", "no_consumers") for _ in range(20)]
    many.append({"kind": "blocked"})
    assert [each["kind"] for each in shown(many)] == ["stuck"] * 4 + ["no_consumers"] * 3 + ["blocked"]


async def test_when_unroutable_messages_began(node: World) -> None:
    looker = Looker(node)
    for _ in range(20):
        node.sample()
    for _ in range(30):
        await fill(node, "nowhere", 1)
        node.sample()
    [found] = await looker()
    dated = looker.attention.dated(found)
    assert node.metrics.tick - dated["since"] // 5000 in (28, 29, 30)
    assert dated["longer"] is False


async def test_a_disk_that_will_be_full_soon(node: World) -> None:
    for _ in range(14):
        node.sample()
    column = list(NODE.fields).index("disk_free")
    history = node.metrics.node
    assert history.rings is not None
    width, free = len(history.last), 100 << 30
    # 100 GiB are free, and it was 1 GiB more at each sample before.
    for (interval, reach), ring in zip(GLOBAL, history.rings, strict=True):
        slots = reach // interval + 1
        for tick in range(history.first, history.seen):
            step = interval // 5
            if tick % step == 0:
                ring[tick // step % slots * width + column] = free + (history.seen - tick << 30)
    last = list(history.last)
    last[column] = free
    history.last = tuple(last)
    assert seconds_to_full(history) == 500
    last[column] = 200 << 30
    history.last = tuple(last)
    assert seconds_to_full(history) is None


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
    node.broker.vhosts["/"].queues["q"].set_failed("its log cannot be read")
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


async def test_very_many_findings_are_counted_and_the_worst_of_them_kept(node: World) -> None:
    """Each event of each viewer goes through them, and a user of one virtual host sees that one's."""
    node.add_vhost("tenant")
    for vhost in (node.broker.vhosts["/"], node.broker.vhosts["tenant"]):
        for number in range(2 * KEPT_OF_KIND):
            vhost.declare_queue(f"q{number}")
            vhost.queues[f"q{number}"].ready.count = 1 + number * 7 % (2 * KEPT_OF_KIND)
    node.sample()
    look = Looker(node)
    await look()
    findings = look.attention.findings
    assert findings.counts["no_consumers"] == 4 * KEPT_OF_KIND
    every = findings.visible({"/", "tenant"}, "guest", watches_node=True)
    assert every.counts == findings.counts
    ready = [each["ready"] for each in every.worst if each["kind"] == "no_consumers"]
    assert ready == sorted([*range(KEPT_OF_KIND + 1, 2 * KEPT_OF_KIND + 1)] * 2, reverse=True)
    mine = findings.visible({"tenant"}, "someone", watches_node=False)
    assert (dict(mine.counts), len(mine.worst)) == ({"no_consumers": 2 * KEPT_OF_KIND}, KEPT_OF_KIND)
    assert {each["vhost"] for each in mine.worst} == {"tenant"}


async def test_blocked_connections_of_others_are_not_counted() -> None:
    findings = Findings()
    for user in ("a", "a", "b"):
        findings.add({"kind": "blocked", "vhost": "/", "name": "c", "client": "", "user": user})
    findings.add({"kind": "disk", "free": 1})
    await findings.sort(Work())
    seen = findings.visible({"/"}, "b", watches_node=False)
    assert (dict(seen.counts), [each["user"] for each in seen.worst]) == ({"blocked": 1}, ["b"])
    assert dict(findings.visible({"/"}, "b", watches_node=True).counts) == {"blocked": 3, "disk": 1}
    assert dict(findings.visible({"/"}, "b", watches_node=True, whole=False).counts) == {"blocked": 3}


async def test_number_of_blocked_connections_of_others_stays_hidden() -> None:
    """Also when there are more than are kept."""
    findings = Findings()
    for number in range(2 * KEPT_OF_KIND):
        user = "a" if number else "b"
        findings.add({"kind": "blocked", "vhost": "/", "name": "c", "client": "", "user": user})
    await findings.sort(Work())
    seen = findings.visible({"/"}, "b", watches_node=False)
    assert (dict(seen.counts), [each["user"] for each in seen.worst]) == ({"blocked": 1}, ["b"])


async def test_search_holds_the_loop_for_a_slice(node: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it does with 20,000 queues, it pauses between: at most 1,000 calls of Python's a pause."""
    vhost = node.broker.vhosts["/"]
    for number in range(20_000):
        vhost.declare_queue(f"q{number}")
        vhost.queues[f"q{number}"].ready.count = 1
    node.sample()
    looked = longest = 0
    queue = Attention._queue

    def counted(self: Attention, each: Any, holders: dict[tuple[str, str], Any]) -> dict[str, Any] | None:
        nonlocal looked
        looked += 1
        return queue(self, each, holders)

    class Paused(Work):
        async def pause(self) -> None:
            nonlocal looked, longest
            looked, longest = 0, max(longest, looked)

    monkeypatch.setattr(Attention, "_queue", counted)
    attention = Attention(node.admin._runner.app[STATE])
    await attention.refresh(0, Paused())
    assert longest <= 64
    assert attention.findings.counts["no_consumers"] == 20_000
    assert len(list(attention.findings)) <= KEPT_OF_KIND + 3


async def test_since_when_of_a_queue_that_has_not_changed_since_it_was_first_seen(node: World) -> None:
    looker = Looker(node)
    vhost = node.broker.vhosts["/"]
    vhost.declare_queue("left")
    vhost.queues["left"].ready.count = 5
    for _ in range(4):
        node.sample()
    [found] = await looker()
    dated = looker.attention.dated(found)
    assert (dated["kind"], dated["longer"]) == ("no_consumers", True)
    # The first sample that saw it: it may wait a little longer than since then.
    assert node.metrics.tick - dated["since"] // 5000 == 3
    waits = waits_since(vhost.queues["left"], node.metrics.history(vhost.queues["left"]))
    assert waits == (dated["since"], True)
