"""Delivery tags: which are outstanding, what they settle, and how much memory they take."""

from __future__ import annotations

import gc
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.channel import tags as tags_module
from amqp_router.channel.consumer import getter
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.returns import ALONE, return_tag
from amqp_router.protocol.errors import PreconditionFailed
from tests.channel.delivering import Channel
from tests.vhosts.queues.local import message


@pytest.fixture
def channel() -> Channel:
    return Channel()


def test_tags_are_shared_by_all_that_is_delivered(channel: Channel) -> None:
    queue, other = channel.queue("a", 2), channel.queue("b", 2)
    channel.consume(queue, "a")
    channel.consume(other, "b", no_ack=True)
    queue.pump(1)
    other.pump(2)
    channel.delivery.add(queue.take(False), getter(queue, channel.delivery))
    assert [tag for tag, _, _ in channel.texts()] == [1, 2, 3]
    assert channel.delivery.next_tag == 5
    assert channel.delivery.outstanding == 2


@pytest.mark.parametrize("tag", [0, 2, 3, 1 << 32, (1 << 64) - 1])
def test_unknown_tag(channel: Channel, tag: int) -> None:
    queue = channel.queue(count=1)
    channel.consume(queue)
    queue.pump(1)
    for settle in (channel.delivery.ack, channel.delivery.reject, partial(return_tag, channel.delivery)):
        for multiple in (False, True):
            if multiple and tag == 0:
                continue
            with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}$"):
                settle(tag, multiple)
    assert channel.delivery.outstanding == queue.unacked_count == 1


def test_tag_settled_twice(channel: Channel) -> None:
    queue = channel.queue(count=3)
    channel.consume(queue)
    queue.pump(3)
    for settle in (channel.delivery.ack, channel.delivery.reject, partial(return_tag, channel.delivery)):
        tag = channel.delivery.next_tag - channel.delivery.outstanding
        settle(tag, False)
        for again in (channel.delivery.ack, partial(return_tag, channel.delivery)):
            with pytest.raises(PreconditionFailed):
                again(tag, False)
            with pytest.raises(PreconditionFailed):
                again(tag, True)


def test_tag_of_a_place_used_again(channel: Channel) -> None:
    """After 16 more tags a new delivery stands in the ring where the settled one stood."""
    queue = channel.queue(count=40)
    channel.consume(queue, prefetch=1)
    for tag in range(1, 20):
        assert queue.pump(5) == 1
        channel.delivery.ack(tag, False)
    assert queue.pump(5) == 1
    assert len(channel.delivery.messages) == 16
    with pytest.raises(PreconditionFailed):
        channel.delivery.ack(4, False)
    channel.delivery.ack(20, False)


def test_multiple_covers_exactly_up_to_the_tag(channel: Channel) -> None:
    queue = channel.queue(count=6)
    channel.consume(queue)
    queue.pump(6)
    channel.delivery.ack(2, False)
    assert channel.delivery.ack(4, True) == 3
    assert channel.delivery.outstanding == queue.unacked_count == 2
    assert channel.delivery.base == 5
    assert channel.delivery.ack(0, True) == 2
    assert channel.delivery.ack(0, True) == 0
    assert return_tag(channel.delivery, 0, True) == 0


def test_zero_alone_is_no_tag(channel: Channel) -> None:
    for settle in (channel.delivery.ack, channel.delivery.reject, partial(return_tag, channel.delivery)):
        with pytest.raises(PreconditionFailed, match="unknown delivery tag 0"):
            settle(0, False)


def test_ring_grows_over_holes(channel: Channel) -> None:
    queue = channel.queue(count=200)
    channel.consume(queue)
    queue.pump(30)
    for tag in range(2, 31, 2):
        channel.delivery.ack(tag, False)
    queue.pump(170)
    assert channel.delivery.base == 1
    assert len(channel.delivery.messages) == len(channel.delivery.owners) == 256
    for tag in range(2, 31, 2):
        with pytest.raises(PreconditionFailed):
            channel.delivery.ack(tag, False)
    assert channel.delivery.ack(200, True) == 185
    assert channel.delivery.base == 201


def test_the_garbage_collector_does_not_look_at_a_large_ring(channel: Channel) -> None:
    """It would look at a new one of 65,536 places twice, 10 ms each time."""
    queue = channel.queue(count=5000)
    channel.consume(queue)
    queue.pump(1 << 30)
    delivery = channel.delivery
    assert len(delivery.messages) > tags_module.BLOCK_TAGS
    assert not gc.is_tracked(delivery.messages)
    assert not gc.is_tracked(delivery.owners)


def test_a_channel_that_is_dropped_as_it_is_can_be_collected(channel: Channel) -> None:
    """A node that is killed in a simulation gives nothing back first. What the collector does not see would
    keep all of it.
    """
    queue = channel.queue(count=1000)
    channel.consume(queue)
    queue.pump(1 << 30)
    delivery = channel.delivery
    assert len(delivery.messages) > 16
    assert gc.is_tracked(delivery.messages)
    assert gc.is_tracked(delivery.owners)


def test_ring_grows_under_deliveries_that_need_no_acknowledgement(channel: Channel) -> None:
    queue, other = channel.queue("a", 1), channel.queue("b", 100)
    channel.consume(queue, "a")
    channel.consume(other, "b", no_ack=True)
    queue.pump(1)
    other.pump(100)
    queue.publish(message("later"))
    queue.pump(1)
    assert channel.delivery.next_tag == 103
    channel.delivery.ack(1, False)
    channel.delivery.ack(102, False)
    assert channel.delivery.outstanding == 0


@pytest.mark.parametrize("no_ack", [False, True], ids=["acknowledged", "no-ack"])
def test_one_old_delivery_keeps_no_places_for_those_behind_it(channel: Channel, no_ack: bool) -> None:
    queue = channel.queue(count=1)
    owner = channel.consume(queue)
    queue.pump(1)
    delivery = channel.delivery
    last = 300_000
    while delivery.next_tag <= last:
        if no_ack:
            delivery.skip_tag()
        else:
            queue.unacked_count += 1
            queue.budget.used += 1000
            delivery.ack(delivery.add(message("later"), owner), False)
    assert delivery.outstanding == 1
    assert len(delivery.messages) == len(delivery.owners) <= 2 * tags_module.BLOCK_TAGS
    assert places(delivery) <= 16
    for wrong in (2, last // 2, last):
        with pytest.raises(PreconditionFailed):
            delivery.ack(wrong, False)
    delivery.requeue(1, ALONE)
    queue.pump(10)
    assert [text for _, text, _ in channel.texts()] == ["q0", "q0"]
    assert delivery.ack(0, True) == 1
    assert not delivery.older.blocks


def places(delivery: Delivery) -> int:
    """Places of the deliveries that left the ring."""
    return sum(len(block.messages) for block in delivery.older.blocks)


@given(st.integers(1, 300), st.integers(1, 70))
@settings(max_examples=25, deadline=None)
def test_long_run_with_a_few_stragglers(count: int, keep_every: int) -> None:
    """Acks out of order with a tag left out now and then."""
    channel = Channel()
    queue = channel.queue(count=count)
    channel.consume(queue)
    queue.pump(count)
    kept = set(range(1, count + 1, keep_every))
    for tag in range(count, 0, -1):
        if tag not in kept:
            channel.delivery.ack(tag, False)
    assert channel.delivery.outstanding == len(kept)
    assert channel.delivery.ack(0, True) == len(kept)
    assert queue.budget.used == 0
