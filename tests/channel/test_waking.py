"""Consumers of one channel that share a limit are woken in slices."""

from __future__ import annotations

import pytest

from amqp_router.channel.waking import WAKE_SLICE
from amqp_router.protocol import methods as m
from tests.nodes import Client, SimNode

MANY = 3 * WAKE_SLICE


@pytest.fixture
def node() -> SimNode:
    return SimNode()


def awake(client: Client, channel: int = 1) -> int:
    """Consumers of the channel whose turn may come."""
    return sum(not consumer.parked for consumer in client.machine.channels[channel].consumers.values())


def sharing(node: SimNode, *queues: str) -> Client:
    """A client with ``MANY`` consumers of each queue, which may have one message together; all sleep."""
    client = Client(node).open(1, 2)
    client.call(m.BasicQos(0, 1, True), m.BasicQosOk)
    for queue in queues:
        client.declare(queue)
        client.send(*(m.BasicConsume(queue, f"{queue}{number}", nowait=True) for number in range(MANY)))
    node.settle()
    for queue in queues:
        client.publish(b"x", queue, channel=2)
        node.settle()
        client.publish(b"x", queue, channel=2)
        node.settle()
    client.take()
    assert awake(client) == 0
    return client


def delivered(client: Client) -> list[m.BasicDeliver]:
    return [each.method for each in client.take() if isinstance(each.method, m.BasicDeliver)]


def test_an_ack_wakes_no_more_than_a_slice(node: SimNode) -> None:
    client = sharing(node, "q")
    client.send(m.BasicAck(1))
    assert 0 < awake(client) <= WAKE_SLICE + 1
    node.settle()
    assert len(delivered(client)) == 1
    client.send(m.BasicAck(2))
    node.settle()
    assert awake(client) == MANY  # nothing is left that one of them could get


def test_another_limit_wakes_in_slices(node: SimNode) -> None:
    client = sharing(node, "q")
    client.send(m.BasicQos(0, 2, True), m.BasicQos(0, 3, True))
    assert 0 < awake(client) <= WAKE_SLICE + 1
    node.settle()
    assert len(delivered(client)) == 1
    assert awake(client) == MANY


def test_output_that_is_read_again_wakes_in_slices(node: SimNode) -> None:
    client = sharing(node, "q")
    client.machine.channels[1].shared.available = 1
    client.machine.drained()
    assert 0 < awake(client) <= WAKE_SLICE + 1
    node.settle()
    assert len(delivered(client)) == 1


def test_each_queue_gets_its_turn(node: SimNode) -> None:
    """The first consumers of a walk use up the credit again and again: the others are woken all the same."""
    client = sharing(node, "a", "b")
    for _ in range(3 * MANY):
        client.publish(b"x", "a", channel=2)
    node.settle()
    tags = []
    for tag in range(1, 10):
        client.send(m.BasicAck(tag))
        node.settle()
        tags += [each.consumer_tag[0] for each in delivered(client)]
    assert set(tags) == {"a", "b"}


def test_consumers_that_come_and_go_during_a_walk(node: SimNode) -> None:
    client = sharing(node, "a", "b")
    for _ in range(10):
        client.publish(b"x", "a", channel=2)
    for tag in range(1, 5):
        client.send(m.BasicAck(tag))
        node.settle()
        client.send(m.BasicCancel(f"a{tag}", nowait=True), m.BasicConsume("b", f"more{tag}", nowait=True))
        node.settle()
        client.send(m.BasicConsume("b", f"further{tag}", nowait=True))
        node.settle()
    client.send(m.BasicQos(0, 100, True))
    node.settle()
    assert awake(client) == 2 * MANY + 4
    assert {node.queue(queue).message_count() for queue in "ab"} == {0}


def test_a_channel_that_closes_wakes_nobody(node: SimNode) -> None:
    client = sharing(node, "q")
    client.send(m.BasicAck(1), m.ChannelClose(200, "", 0, 0))
    node.settle()
    assert not node.queue("q").consumers
    assert node.queue("q").message_count() == 1
