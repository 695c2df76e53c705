"""Whose turn it is: priorities of consumers, and a single active one. As measured with RabbitMQ 3.10.8."""

from __future__ import annotations

import sys
from random import Random
from time import process_time

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import AccessRefused
from tests.nodes import PERSISTENT, Client, SimNode
from tests.vhosts.queues.local import Sink, declared, message, numbers, transient_queue, typed
from vhosts.queues.destination import UNHEARD
from vhosts.queues.dispatch import Dispatch
from vhosts.queues.queue import Queue


def sink_of(queue: Queue, priority: int, credit: int = 1) -> Sink:
    sink = Sink(queue, credit)
    sink.priority = priority
    return sink


def fill(queue: Queue, *values: int) -> None:
    for value in values:
        queue.publish(message(value))


# -- priorities -------------------------------------------------------------------------------------


def test_the_higher_ones_get_messages_while_they_have_credit() -> None:
    queue = transient_queue()
    low, high, negative, also_high = (sink_of(queue, value) for value in (0, 10, -5, 10))
    for sink in (low, high, negative, also_high):
        queue.add_consumer(sink)
    fill(queue, *range(6))
    queue.pump(99)
    assert [sink.got for sink in (high, also_high, low, negative)] == [["0"], ["1"], ["2"], ["3"]]
    negative.ack()
    high.ack()
    queue.pump(99)
    assert (high.got, negative.got) == (["0", "4"], ["3", "5"])


def test_consumers_of_one_priority_take_turns() -> None:
    queue = transient_queue()
    sinks = [sink_of(queue, 3, 100) for _ in range(3)]
    queue.add_consumer(sink_of(queue, 1, 100))
    for sink in sinks:
        queue.add_consumer(sink)
    fill(queue, *range(7))
    queue.pump(99)
    assert [sink.got for sink in sinks] == [numbers(0, 3, 6), numbers(1, 4), numbers(2, 5)]


@pytest.mark.parametrize("seed", range(20))
def test_any_course_of_consumers(seed: int) -> None:
    """The one in turn is always one of the highest priority that is in a ring, and nobody is lost."""
    random = Random(seed)
    queue = transient_queue()
    dispatch = Dispatch()
    linked: set[Sink] = set()
    sinks = [sink_of(queue, random.randrange(4)) for _ in range(12)]
    for _ in range(300):
        sink = random.choice(sinks)
        if sink in linked:
            dispatch.unlink(sink)
            linked.discard(sink)
        else:
            dispatch.link(sink)
            linked.add(sink)
        if dispatch.turn is not None and random.random() < 0.5:
            dispatch.turn = dispatch.turn.following
        seen: set[object] = set()
        lower = sorted(dispatch.lower.items(), reverse=True)
        rings = [(dispatch.priority, dispatch.turn), *lower] if dispatch.turn else []
        assert [each for each, _ in rings] == sorted({each.priority for each in linked}, reverse=True)
        for priority, first in rings:
            current = first
            while current is not None:
                assert current.priority == priority
                assert current.following is not None
                assert current.following.previous is current
                seen.add(current)
                current = current.following if current.following is not first else None
        assert seen == linked


def test_very_many_priorities_cost_little_each() -> None:
    """Of ten times as many consumers, each of another priority, each costs about as much."""

    def took(count: int) -> float:
        queue = transient_queue()
        dispatch = Dispatch()
        sinks = [sink_of(queue, priority) for priority in Random(1).sample(range(count), count)]
        begun = process_time()
        for sink in sinks:
            dispatch.link(sink)
        for sink in sinks:
            dispatch.park(sink)
        for sink in reversed(sinks):
            dispatch.unpark(sink)
        parked = []
        while dispatch.turn is not None:
            parked.append(dispatch.turn.priority)
            dispatch.park(dispatch.turn)
        assert parked == sorted(parked, reverse=True)
        assert len(parked) == count
        return process_time() - begun

    assert min(took(10_000) for _ in range(3)) < 40 * min(took(1000) for _ in range(5))


def test_priorities_that_are_gone_leave_nothing_behind() -> None:
    queue = transient_queue()
    dispatch = Dispatch()
    dispatch.link(sink_of(queue, 10_000))
    before = sys.getallocatedblocks()
    for priority in range(5000):
        sink = sink_of(queue, priority)
        dispatch.link(sink)
        dispatch.unlink(sink)
    assert sys.getallocatedblocks() - before < 1000


def test_priority_of_clients() -> None:
    node = SimNode()
    client = Client(node).open(1, 2)
    queue = client.declare("q")
    for channel, tag, priority in ((1, "lo", 1), (2, "hi", 10)):
        arguments = typed(priority=priority)
        client.feed(
            m.frame(channel, m.BasicQos(0, 1))
            + m.frame(channel, m.BasicConsume("q", tag, arguments=arguments))
        )
    client.take()
    for body in (b"0", b"1"):
        client.publish(body, "q")
    found = [
        (each.method.consumer_tag, each.body)
        for each in client.take()
        if isinstance(each.method, m.BasicDeliver)
    ]
    assert found == [("hi", b"0"), ("lo", b"1")]
    assert queue.is_empty()


# -- a single active consumer -----------------------------------------------------------------------


def test_only_the_first_consumer_gets_messages() -> None:
    node = SimNode()
    client = Client(node).open(1, 2)
    queue = declared(node, single_active_consumer=True)
    for channel, tag in ((1, "A"), (2, "B")):
        client.feed(m.frame(channel, m.BasicConsume("q", tag)))
    client.take()
    for number in range(3):
        client.publish(b"%d" % number, "q", properties=PERSISTENT)

    def came() -> list[tuple[str, bytes, bool]]:
        node.settle()
        return [
            (each.method.consumer_tag, each.body, bool(each.method.redelivered))
            for each in client.take()
            if isinstance(each.method, m.BasicDeliver)
        ]

    assert came() == [("A", b"0", False), ("A", b"1", False), ("A", b"2", False)]
    client.feed(m.frame(1, m.BasicAck(1)) + m.frame(1, m.BasicCancel("A")))
    client.publish(b"3", "q", properties=PERSISTENT)
    assert came() == [("B", b"3", False)], "what A holds stays with its channel"
    client.feed(m.frame(1, m.ChannelClose(200, "", 0, 0)))
    assert came() == [("B", b"1", True), ("B", b"2", True)]
    assert queue.dispatch.active is not None
    assert queue.dispatch.active.tag == "B"


def test_those_that_wait_may_leave() -> None:
    queue = declared(SimNode(), single_active_consumer=True)
    sinks = [Sink(queue) for _ in range(3)]
    for sink in sinks:
        queue.add_consumer(sink)
    queue.cancel(sinks[1], UNHEARD)
    fill(queue, 0)
    queue.pump(9)
    queue.cancel(sinks[0], UNHEARD)
    fill(queue, 1)
    queue.pump(9)
    queue.cancel(sinks[2], UNHEARD)
    assert [sink.got for sink in sinks] == [["0"], [], ["1"]]
    assert queue.dispatch.active is None
    queue.add_consumer(sinks[1])
    fill(queue, 2)
    queue.pump(9)
    assert sinks[1].got == ["2"]


def test_no_exclusive_consumer_with_a_single_active_one() -> None:
    """Measured on RabbitMQ 3.10.8: not even as the first."""
    queue = declared(SimNode(), single_active_consumer=True)
    exclusive = Sink(queue)
    exclusive.exclusive = True
    with pytest.raises(AccessRefused, match="in exclusive use"):
        queue.add_consumer(exclusive)
    assert not queue.consumers


def test_no_exclusive_consumer_beside_others() -> None:
    queue = declared(SimNode(), single_active_consumer=True)
    queue.add_consumer(Sink(queue))
    exclusive = Sink(queue)
    exclusive.exclusive = True
    with pytest.raises(AccessRefused, match="in exclusive use"):
        queue.add_consumer(exclusive)


def test_all_hear_of_the_end() -> None:
    node = SimNode()
    queue = declared(node, single_active_consumer=True)
    sinks = [Sink(queue) for _ in range(3)]
    for sink in sinks:
        queue.add_consumer(sink)
    queue.delete(0)
    assert all(sink.is_cancelled for sink in sinks)
    assert queue.dispatch.turn is None
