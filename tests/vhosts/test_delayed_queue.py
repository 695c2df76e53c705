"""The internal queue of delayed messages, and what bounds its work and memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from amqp_router.protocol.message import build_message
from amqp_router.protocol.properties import encode_properties
from persistence.errors import PersistenceError
from tests.nodes import Client, SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.delaying import QUEUE, bound, declare, pass_time, publish, ready, taken, waiting
from vhosts.queues import delayed as delay_queues
from vhosts.queues.delayed import DelayQueue
from vhosts.queues.ready import due
from vhosts.queues.ready.due import ENTRY_BYTES, REMOVED_BYTES
from vhosts.queues.state import WORKING
from vhosts.queues.timers import TIMER_BYTES


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1)


# -- the internal queue -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        m.QueueDeclare(QUEUE, passive=True),
        m.QueueDelete(QUEUE),
        m.QueuePurge(QUEUE),
        m.BasicConsume(QUEUE, "tag"),
        m.BasicGet(QUEUE),
        m.QueueBind(QUEUE, "amq.fanout", ""),
    ],
)
def test_clients_may_not_touch_the_queue(client: Client, method: m.Method) -> None:
    declare(client)
    publish(client, b"1", 1000)
    client.send(method)
    close = client.closed_with(errors.AccessRefused)
    assert close.reply_text == f"ACCESS_REFUSED - queue '{QUEUE}' in vhost '/' is internal"


def test_nobody_publishes_to_it_by_name(client: Client) -> None:
    declare(client)
    publish(client, b"1", 1000)
    publish(client, b"2", key=QUEUE, exchange="")
    publish(client, b"3", key="nobody", exchange="", headers={"CC": ("A", [("S", QUEUE.encode())])})
    assert waiting(client) == 1


def test_policies_do_not_shorten_the_delay(client: Client) -> None:
    declare(client)
    bound(client)
    publish(client, b"1", 5000)
    client.node.vhost.queues[QUEUE].obey({"message-ttl": 10, "max-length": 0, "expires": 10})
    publish(client, b"2", 5000)
    pass_time(client, 1)
    assert waiting(client) == 2
    pass_time(client, 5)
    assert ready(client) == 2


def test_it_goes_with_its_exchange(client: Client) -> None:
    node = client.node
    kept = node.budget.kept
    declare(client)
    publish(client, b"1", 1000)
    client.send(m.ExchangeDelete("x"))
    node.settle()
    assert QUEUE not in node.vhost.queues
    assert not node.definitions.of_kind("queue")
    assert node.budget.kept == kept + TIMER_BYTES, "until its time comes"
    node.sleep(1)
    assert node.budget.kept == kept
    client.take()
    declare(client)
    assert waiting(client) == 0


def test_a_queue_whose_exchange_is_gone_goes_at_the_start(client: Client) -> None:
    node = client.node
    declare(client)
    publish(client, b"1", 1000)
    del node.definitions.rows["exchange", ("/", "x")]
    client.drop()
    node.settle()
    again = SimNode(node.disk, node.definitions, boot=2)
    again.settle()
    assert QUEUE not in again.vhost.queues
    assert not again.definitions.of_kind("queue")


def test_the_store_refuses_the_queue(client: Client) -> None:
    declare(client)
    client.node.fail_definitions(PersistenceError("no"))
    client.publish(b"1", "k", "x", encode_properties({"headers": {"x-delay": ("I", 1000)}}))
    client.node.quiet()
    assert QUEUE not in client.node.vhost.queues


# -- bounds -------------------------------------------------------------------------------------------


def test_very_many_due_at_once_go_in_slices(client: Client) -> None:
    declare(client, "fanout", durable=False)
    bound(client, durable=False)
    headers = {"x-delay": ("I", 1000)}
    for _ in range(5000):
        client.publish(b"1", "k", "x", encode_properties({"headers": headers}))
    client.node.quiet()
    assert waiting(client) == 5000
    node = client.node
    timers = node.clock.advance(2)
    node.tick.now_us = node.clock.wall_us()
    for timer in timers:
        node.enter(timer.go_off)
    most = 0
    while waiting(client) or node.ready:
        before = ready(client)
        node.turn()
        most = max(most, ready(client) - before)
    assert ready(client) == 5000
    assert 0 < most <= 64


def test_memory_of_due_times_is_counted_and_bounded() -> None:
    client = Client(SimNode(memory_limit=1 << 20)).open(1)
    declare(client)
    budget = client.node.budget
    publish(client, b"1", 1000)
    before = budget.kept
    publish(client, b"1", 1000)
    assert budget.kept - before == ENTRY_BYTES
    budget.kept += (1 << 18) - budget.kept  # nothing is left
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    publish(client, b"2", 1000)
    (received,) = client.take()
    assert isinstance(received.method, m.BasicNack)
    assert waiting(client) == 2


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("how", ["exchange deleted", "all cancelled"])
def test_very_many_are_dropped_in_slices(
    client: Client, is_durable: bool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million held the event loop for half a second when their exchange was deleted."""
    monkeypatch.setattr(delay_queues, "DROP_SLICE", 10)
    node = client.node
    declare(client, durable=is_durable)
    used = node.budget.used
    for number in range(200):
        publish(client, b"%d" % number, 5000)
    queue = node.vhost.queues[QUEUE]
    assert isinstance(queue, DelayQueue)
    before = node.budget.kept - ENTRY_BYTES * 200
    assert queue.drop(next(queue.order.first(1)))
    node.settle()
    steps: list[int] = []
    drop = due.Taken.drop

    def dropped(self: due.Taken, count: int, *args: Any) -> bool:
        steps.append(count)
        return drop(self, count, *args)

    monkeypatch.setattr(due.Taken, "drop", dropped)
    if how == "all cancelled":
        node.enter(queue.empty)
    else:
        client.send(m.ExchangeDelete("x"))
    assert len(steps) < 3
    assert waiting(client) == 0
    node.settle()
    assert steps == [10] * 20
    assert node.budget.used == used
    if how == "all cancelled":
        assert node.budget.kept - before <= TIMER_BYTES
        assert not is_durable or unsettled(queue.log) == []


def test_one_can_be_cancelled(client: Client) -> None:
    node = client.node
    declare(client)
    bound(client)
    for number in range(5):
        publish(client, b"%d" % number, 1000 * (5 - number))
    queue = node.vhost.queues[QUEUE]
    assert isinstance(queue, DelayQueue)
    first = list(queue.order.first(3))
    assert [message.body() for each in first if (message := queue.order.read(each.offset))] == [
        b"4",
        b"3",
        b"2",
    ]
    assert queue.drop(first[0])
    assert not queue.drop(first[0])
    assert queue.drop(first[2])
    pass_time(client, 0.5)
    assert waiting(client) == 3
    client.drop()
    node.settle()
    again = SimNode(node.disk, node.definitions, boot=2, clock=node.clock)
    client = Client(again).open(1)
    pass_time(client, 10)
    assert [body for body, _ in taken(client)] == [b"3", b"1", b"0"]


@pytest.mark.parametrize("transient", [False, True])
def test_who_looks_for_a_message_that_has_left_does_not_fail_the_queue(
    client: Client, transient: bool
) -> None:
    """Its log was taken for failed, and nothing was released any more."""
    node = client.node
    declare(client, durable=not transient)
    bound(client)
    publish(client, b"first", 1000)
    queue = node.vhost.queues[QUEUE]
    assert isinstance(queue, DelayQueue)
    (delayed,) = queue.order.first(1)
    publish(client, b"second", 3000)
    pass_time(client, 2)
    assert queue.order.read(delayed.offset) is None
    assert not queue.drop(delayed)
    pass_time(client, 2)
    publish(client, b"third", 1000)
    pass_time(client, 2)
    assert [body for body, _ in taken(client)] == [b"first", b"second", b"third"]
    assert queue.state == WORKING


def test_cancelled_ones_count_until_their_time_comes(client: Client) -> None:
    declare(client)
    bound(client)
    publish(client, b"0", 1000)
    queue = client.node.queue(QUEUE)
    assert isinstance(queue, DelayQueue)
    pass_time(client, 2)
    taken(client)
    budget = client.node.budget
    before = budget.kept
    for number in range(10):
        publish(client, b"%d" % number, 1000 + number)
    for delayed in list(queue.order.first(20))[1:]:
        assert queue.drop(delayed)
    client.node.settle()
    counted = budget.kept - before
    assert (
        10 * ENTRY_BYTES + 9 * REMOVED_BYTES <= counted <= 10 * ENTRY_BYTES + 9 * REMOVED_BYTES + TIMER_BYTES
    )
    pass_time(client, 5)
    assert len(taken(client)) == 1
    pass_time(client, 100)
    remembered = queue.remembered + client.node.queue("q").remembered
    assert budget.kept == before, remembered


def test_very_many_cancelled_ones_leave_in_slices(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand with neighbouring due times would hold the event loop for a third of a second."""
    monkeypatch.setattr(due, "SKIP_SLICE", 10)
    declare(client)
    bound(client)
    node = client.node
    publish(client, b"before", 500)
    for number in range(300):
        publish(client, b"%d" % number, 1000 + number)
    publish(client, b"last", 2000)
    queue = node.queue(QUEUE)
    assert isinstance(queue, DelayQueue)
    for delayed in list(queue.order.first(301))[1:]:
        assert queue.drop(delayed)
    node.settle()
    sizes = [len(queue.order._heap)]
    plain = node.turn

    def turn() -> None:
        plain()
        sizes.append(len(queue.order._heap))

    monkeypatch.setattr(node, "turn", turn)
    for _ in range(30):
        node.sleep(0.1)
    assert sizes[-1] == 0
    gone = [before - after for before, after in itertools.pairwise(sizes)]
    assert max(gone) <= 5 * 11, gone
    pass_time(client, 1)
    assert [body for body, _ in taken(client)] == [b"before", b"last"]


def test_a_message_on_its_way_is_not_cancelled_although_the_clock_was_set_back(client: Client) -> None:
    declare(client)
    bound(client)
    publish(client, b"first", 1000)
    queue = client.node.vhost.queues[QUEUE]
    assert isinstance(queue, DelayQueue)
    (delayed,) = queue.order.first(1)
    assert queue.order.pop() is not None  # released, and not settled yet
    queue.tick.now_us -= 10_000_000
    early = build_message(b"\x01d\x01k", encode_properties({"headers": {"x-delay": ("I", 1)}}), b"early")
    assert queue.publish(early)
    assert next(queue.order.first(1)) < delayed
    assert not queue.drop(delayed)
