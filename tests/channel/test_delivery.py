"""Deliveries on the wire, and what settling, requeueing and releasing give back to queues and consumers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from amqp_router.channel import delivery as delivery_module
from amqp_router.channel import tags as tags_module
from amqp_router.channel.consumer import getter
from amqp_router.channel.returns import ALL_DELIVER_UNITS, ALONE, return_tag
from amqp_router.protocol import methods as m
from tests.channel.delivering import Channel, is_outstanding
from tests.vhosts.queues.local import message
from vhosts.queues.destination import UNHEARD
from vhosts.queues.handle import REDELIVERY_UNITS, Credit


@pytest.fixture
def channel() -> Channel:
    return Channel()


def test_deliveries_on_the_wire(channel: Channel) -> None:
    queue = channel.queue()
    channel.consume(queue, "consumer")
    queue.publish(message("x" * 5000))
    queue.pump(10)
    (received,) = channel.received()
    assert received.method == m.BasicDeliver("consumer", 1, False, "", "q")
    assert received.properties == b"\0\0"
    assert received.body == b"x" * 5000


def test_consumer_tag_of_any_octets(channel: Channel) -> None:
    tag = b"\xff\xfe".decode("utf-8", "surrogateescape") + "x" * 253
    queue = channel.queue(count=1)
    channel.consume(queue, tag)
    queue.pump(1)
    assert channel.received()[0].method.consumer_tag == tag


@pytest.mark.parametrize("how", ["ack", "reject", "requeue"])
def test_very_many_outstanding_are_settled_in_slices(channel: Channel, how: str) -> None:
    count = 90_000  # more than places that stand in a ring, and very many slices
    queue = channel.queue(count=count)
    channel.consume(queue)
    while queue.pump(4096):
        channel.received()
    delivery = channel.delivery
    assert delivery.outstanding == count
    assert len(delivery.messages) == tags_module.RING_PLACES_MAX
    slices: list[int] = []

    def in_slices(step: Callable[[], bool]) -> None:
        done = False
        while not done:
            before = delivery.outstanding
            done = step()
            slices.append(before - delivery.outstanding)

    channel.listener.in_slices = in_slices  # type: ignore[method-assign]
    last = count - 10_000
    settle = {"ack": delivery.ack, "reject": delivery.reject, "requeue": partial(return_tag, delivery)}
    settle[how](last, True)
    assert sum(slices) == last
    of = delivery_module
    most = {"ack": of.SETTLE_SLICE, "reject": of.REJECT_SLICE, "requeue": of.RETURN_SLICE}
    assert max(slices) == most[how]
    assert delivery.outstanding == queue.unacked_count == 10_000
    assert queue.message_count() == (last if how == "requeue" else 0)
    assert [tag for tag in (1, last, last + 1, count) if is_outstanding(delivery, tag)] == [last + 1, count]


def test_requeue_puts_each_in_its_place(channel: Channel) -> None:
    queue = channel.queue(count=5)
    consumer = channel.consume(queue, prefetch=5)
    queue.pump(5)
    channel.texts()
    queue.publish(message("q5"))
    for tag in (4, 2, 5):
        channel.delivery.requeue(tag, ALONE)
    assert queue.message_count() == 4
    queue.pump(10)
    assert channel.texts() == [(6, "q1", True), (7, "q3", True), (8, "q4", True)]
    return_tag(channel.delivery, 0, True)
    assert consumer.unacked == 0
    queue.pump(20)
    assert [text for _, text, _ in channel.texts()] == ["q0", "q1", "q2", "q3", "q4"]
    channel.delivery.ack(0, True)
    queue.pump(10)
    assert channel.texts() == [(14, "q5", False)]


def test_release_in_slices(channel: Channel) -> None:
    queue = channel.queue(count=25)
    channel.consume(queue)
    queue.pump(25)
    channel.delivery.ack(3, False)
    rounds = 0
    while channel.delivery.requeue_some(25, 10, True) == 10:
        rounds += 1
        assert queue.message_count() == 10 * rounds
    assert queue.message_count() == 24
    assert channel.delivery.requeue_some(25, 10, True) == 0


def test_prefetch_is_given_back(channel: Channel) -> None:
    queue = channel.queue(count=10)
    consumer = channel.consume(queue, prefetch=3)
    assert queue.pump(10) == 3
    channel.delivery.ack(2, False)
    assert queue.pump(10) == 1
    channel.delivery.requeue(1, ALONE)
    channel.delivery.reject(3, False)
    assert queue.pump(10) == REDELIVERY_UNITS + 1
    assert consumer.credit == 0
    assert consumer.unacked == 3


def test_settling_touches_a_queue_with_consumers(channel: Channel) -> None:
    queue = channel.queue(count=3)
    consumer = channel.consume(queue, prefetch=2)
    queue.pump(9)
    for settle in (channel.delivery.ack, partial(return_tag, channel.delivery)):
        channel.tick.queues.clear()
        queue.dirty = False
        settle(channel.delivery.base, False)
        assert channel.tick.queues == [queue]
    queue.cancel(consumer, UNHEARD)
    channel.tick.queues.clear()
    queue.dirty = False
    queue.pump(1)
    assert channel.tick.queues == []


def test_limit_of_the_channel_counts_over_its_queues(channel: Channel) -> None:
    shared = Credit()
    shared.change(3)
    queue, other = channel.queue("a", 5), channel.queue("b", 5)
    channel.consume(queue, "a", shared=shared)
    channel.consume(other, "b", shared=shared)
    assert queue.pump(2) == 2
    assert other.pump(9) == 1
    assert queue.pump(9) == 0
    channel.delivery.ack(1, False)
    assert other.pump(9) == 1
    owner = getter(queue, channel.delivery)
    owner.shared = shared
    channel.delivery.add(queue.take(False), owner)
    assert shared.available == 0
    channel.delivery.ack(0, True)
    assert shared.available == 3


def test_owner_that_has_gone_still_gives_the_channel_its_credit(channel: Channel) -> None:
    shared = Credit()
    shared.change(1)
    queue = channel.queue("a", 2)
    consumer = channel.consume(queue, "a", shared=shared)
    queue.pump(9)
    queue.cancel(consumer, UNHEARD)
    channel.delivery.ack(1, False)
    assert shared.available == 1


def test_cancelled_consumer_is_reported(channel: Channel) -> None:
    queue = channel.queue("a", 2)
    channel.consume(queue, "t")
    queue.pump(2)
    assert queue.delete(0) == 0
    assert channel.listener.cancelled == ["t"]
    assert channel.delivery.ack(1, False) == 1
    assert channel.delivery.requeue(2, False) == 1
    assert queue.message_count() == 0
    assert queue.budget.used == 0


def test_settling_of_a_deleted_queue_does_not_touch_it(channel: Channel) -> None:
    queue = channel.queue("a", 2)
    channel.consume(queue, "t")
    queue.pump(2)
    queue.delete(0)
    queue.dirty = False
    channel.tick.queues.clear()
    channel.delivery.ack(1, False)
    channel.delivery.requeue(2, False)
    assert channel.tick.queues == []


def test_what_many_consumers_return_lets_a_queue_deliver_so_much_in_all() -> None:
    """A queue with much to deliver does so between the returns of any two of them, all in one turn."""
    channel, other = Channel(), Channel()
    queue = channel.queue(count=300)
    for number in range(300):
        channel.consume(queue, f"{number}", prefetch=1)
    queue.take_turn(1000)
    assert channel.delivery.outstanding == 300
    for number in range(20_000):
        queue.publish(message(f"late {number}"))
    other.consume(queue, no_ack=True)
    return_tag(channel.delivery, 0, True)
    assert 0 < other.delivery.deliver_no_ack_total <= ALL_DELIVER_UNITS
    assert channel.delivery.outstanding <= 300
