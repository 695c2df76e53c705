"""A queue with thousands of consumers ends: they hear of it in slices, and nobody else waits for that."""

from __future__ import annotations

import errno

import pytest

from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, Client, SimNode
from vhosts.queues.dispatch import CANCEL_SLICE

COUNT = 7 * CANCEL_SLICE


def consuming(node: SimNode, *channels: int, queue: str = "q", count: int = COUNT) -> Client:
    """A client whose channels have ``count`` consumers of the queue between them."""
    client = Client(node).open(*channels)
    for number in range(count):
        client.send(
            m.BasicConsume(queue, f"t{number}", nowait=True), channel=channels[number % len(channels)]
        )
    node.settle()
    client.take()
    return client


def cancels_by_turn(client: Client) -> list[int]:
    """How many cancels each turn of the loop brings, until the node is quiet."""
    counts = []
    while client.node.ready:
        client.node.turn()
        counts.append(sum(isinstance(each.method, m.BasicCancel) for each in client.take()))
    return counts


def test_those_of_others_hear_in_slices() -> None:
    node = SimNode()
    deleting = Client(node).open(1)
    deleting.declare("q")
    client = consuming(node, 1, 2)
    deleting.feed(m.frame(1, m.QueueDelete("q")))
    counts = cancels_by_turn(client)
    assert sum(counts) == COUNT
    assert max(counts) <= CANCEL_SLICE
    assert not client.machine.channels[1].consumers
    assert [each.method for each in deleting.take()] == [m.QueueDeleteOk(0)]


@pytest.mark.parametrize("durable", [False, True])
def test_the_reply_comes_first_and_what_follows_waits(durable: bool) -> None:
    node = SimNode()
    declaring = Client(node).open(1)
    declaring.declare("q", durable=durable)
    declaring.declare("r")
    client = consuming(node, 1, 2)
    again = [m.frame(1, m.BasicConsume("r", f"t{number}")) for number in (0, COUNT - 2)]
    client.feed(b"".join([m.frame(1, m.QueueDelete("q")), *again]))
    node.settle()
    heard = [each.method for each in client.take()]
    assert heard[0] == m.QueueDeleteOk(0)
    assert sum(isinstance(each, m.BasicCancel) for each in heard) == COUNT
    on_first = [each for each in heard if not isinstance(each, m.BasicCancel)]
    assert on_first[1:] == [m.BasicConsumeOk("t0"), m.BasicConsumeOk(f"t{COUNT - 2}")]
    assert node.queue("r").consumer_count() == 2
    assert client.machine.shared.held_cancels == {}
    assert not node.faults


def test_a_log_that_fails_for_good() -> None:
    node = SimNode()
    publishing = Client(node).open(1)
    queue = publishing.declare("q", durable=True)
    client = consuming(node, 1)
    queue.on_log_failed(queue.log, OSError(errno.EIO, "no"))
    counts = cancels_by_turn(client)
    assert sum(counts) == COUNT
    assert max(counts) <= CANCEL_SLICE
    assert queue.consumer_count() == 0
    publishing.publish(b"x", "q", properties=PERSISTENT)
    assert not node.faults


def test_a_tag_that_is_free_before_its_consumer_has_heard() -> None:
    """The client cancels a consumer that has lost its queue, and starts another one of that tag."""
    node = SimNode()
    deleting = Client(node).open(1)
    deleting.declare("q")
    deleting.declare("r")
    client = consuming(node, 1)
    deleting.feed(m.frame(1, m.QueueDelete("q")))
    late = [tag for tag in ("t0", f"t{COUNT - 1}") if tag in client.machine.channels[1].consumers]
    assert late
    client.send(m.BasicCancel(late[0]), m.BasicConsume("r", late[0]))
    node.settle()
    heard = [each.method for each in client.take()]
    assert m.BasicCancel(late[0], True) not in heard
    assert sum(isinstance(each, m.BasicCancel) for each in heard) == COUNT - 1
    assert list(client.machine.channels[1].consumers) == late[:1]
    assert node.queue("r").consumer_count() == 1


def test_one_that_is_ready_again_before_it_has_heard() -> None:
    """It waited for an acknowledgement; that comes between the queue's end and the consumer's."""
    node = SimNode()
    deleting = Client(node).open(1)
    queue = deleting.declare("q")
    waiting = Client(node).open(1)
    waiting.send(m.BasicQos(prefetch_count=1), m.BasicConsume("q", "waits"))
    waiting.publish(b"x", "q")
    waiting.publish(b"y", "q")
    node.settle()
    consumer = waiting.machine.channels[1].consumers["waits"]
    assert consumer.parked
    others = consuming(node, 1)
    queue.dispatch.leaving = queue.consumers  # as in the midst of its end
    queue.consumers = {}
    queue.dispatch.turn = None
    queue.deleted = True
    waiting.send(m.BasicAck(1, False))
    assert queue.dispatch.turn is None
    assert queue.pump(100) == 0
    assert not queue.dispatch.cancel_some()
    others.drop()
    while not queue.dispatch.cancel_some():
        pass
    assert not consumer.parked
    assert not node.faults


def test_a_connection_that_goes_meanwhile() -> None:
    node = SimNode()
    deleting = Client(node).open(1)
    deleting.declare("q", exclusive=False)
    client = consuming(node, 1)
    deleting.feed(m.frame(1, m.QueueDelete("q")))
    client.drop()
    deleting.drop()
    node.settle()
    assert not node.faults
    assert not client.machine.work.steps


def test_exclusive_queues_with_many_consumers() -> None:
    """They go with their connection, few in a turn if their consumers are many."""
    node = SimNode()
    client = Client(node).open(1)
    for number in range(20):
        client.declare(f"q{number}", exclusive=True)
        for tag in range(200):
            client.send(m.BasicConsume(f"q{number}", f"{number}-{tag}", nowait=True))
    node.settle()
    assert client.machine.vhost.remove_exclusive_queues(client.machine.shared, 200)
    assert len(node.vhost.queues) >= 20 - 5 - 1
