"""A message for very many queues reaches them in slices, and nothing of that connection overtakes it."""

from __future__ import annotations

import itertools

import pytest

from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from vhosts.publishing.spread import SPREAD_DURABLE, SPREAD_SLICE
from vhosts.queues.state import REFUSING

COUNT = 3 * SPREAD_SLICE + 10


def wide(count: int = COUNT, durable: int = 0) -> SimNode:
    """A node with a fanout exchange "wide" and ``count`` queues, the first ``durable`` of them durable."""
    node = SimNode()
    vhost = node.vhost
    vhost.declare_exchange("wide", "fanout")
    for number in range(count):
        vhost.declare_queue(f"q{number}", durable=number < durable)
        vhost.bind_queue(f"q{number}", "wide", "", {}, None)
    node.settle()
    return node


def publish(properties: bytes = TRANSIENT, body: bytes = b"x") -> bytes:
    return b"".join(publish_frames(1, m.BasicPublish("wide", ""), properties, body))


def reached(node: SimNode) -> int:
    return sum(queue.message_count() for queue in node.vhost.queues.values())


def routed(node: SimNode, client: Client) -> None:
    """Turns until the first message is on its way to the queues."""
    while not reached(node):
        node.turn()


def test_a_slice_in_each_turn_and_later_frames_wait() -> None:
    node = wide()
    client = Client(node).open(1)
    client.feed(publish() + m.frame(1, m.QueuePurge(f"q{COUNT - 1}")))
    routed(node, client)
    counts = []
    while node.ready:
        counts.append(reached(node))
        node.turn()
    steps = [after - before for before, after in itertools.pairwise(counts)]
    assert max([counts[0], *steps]) <= 256
    assert [received.method for received in client.take()] == [m.QueuePurgeOk(1)]
    assert reached(node) == COUNT - 1
    assert node.vhost.exchanges["wide"].counters.publish_out == COUNT


@pytest.mark.parametrize("durable", [0, 5])
def test_confirms_in_order(durable: int) -> None:
    node = wide(durable=durable)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    one = b"".join(publish_frames(1, m.BasicPublish("", "q0"), PERSISTENT, b"y"))
    client.feed(one + publish(PERSISTENT) + one)
    node.settle()
    tags = [received.method.delivery_tag for received in client.take()]
    assert tags[-1] == 3
    assert client.machine.inflow.unsynced == 0
    assert reached(node) == COUNT + 2


def test_no_confirm_before_all_have_it() -> None:
    node = wide(durable=5)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(publish(PERSISTENT))
    routed(node, client)
    while reached(node) < COUNT:
        node.sync_once() if not node.ready else node.turn()
        if reached(node) < COUNT:
            assert not client.take()
    node.settle()
    assert [received.method for received in client.take()] == [m.BasicAck(1, False)]


def test_a_queue_that_refuses() -> None:
    node = wide(durable=5)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    node.queue("q3").state = REFUSING
    client.feed(publish(PERSISTENT))
    node.settle()
    assert [received.method for received in client.take()] == [m.BasicNack(1, False)]
    assert reached(node) == COUNT - 1


def test_queues_that_go_meanwhile() -> None:
    node = wide()
    client, other = Client(node).open(1), Client(node).open(1)
    client.feed(publish())
    routed(node, client)
    other.send(m.QueueDelete(f"q{COUNT - 1}"))
    node.settle()
    assert reached(node) == COUNT - 1
    assert not node.faults


def test_a_publisher_that_goes_meanwhile() -> None:
    node = wide(durable=2)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(publish(PERSISTENT))
    routed(node, client)
    client.drop()
    node.settle()
    assert reached(node) == COUNT
    assert not node.faults


def test_a_queue_deleted_between_slices_holds_the_confirm_until_that_is_stored() -> None:
    """A crash before would bring it back without the message."""
    node = wide(durable=SPREAD_DURABLE + 1)
    client = Client(node).open(1)
    client.send(m.ConfirmSelect())
    client.take()
    client.feed(publish(PERSISTENT))
    routed(node, client)
    passed_over = next(q for q in node.vhost.queues.values() if q.durable and not q.message_count())
    node.vhost.delete_queue(passed_over.name)
    for _ in range(20):
        node.sync_once()
    assert reached(node) == COUNT - 1
    assert client.take() == [], "the deletion is not stored"
    node.settle()
    assert [received.method for received in client.take()] == [m.BasicAck(1, False)]


def test_fewer_durable_queues_in_a_turn() -> None:
    """A log that is not in the processor's cache takes four times as long."""
    count = 2 * SPREAD_DURABLE
    node = wide(count, durable=count)
    client = Client(node).open(1)
    client.feed(publish(PERSISTENT) * 3)
    routed(node, client)
    counts = []
    while node.ready:
        counts.append(reached(node))
        node.turn()
    node.settle()
    steps = [after - before for before, after in itertools.pairwise(counts)]
    assert max([counts[0], *steps]) <= 64
    assert reached(node) == 3 * count


def test_transaction_to_very_many_queues_whose_route_is_let_go() -> None:
    node = wide()
    client = Client(node).open(1)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.feed(publish() * 2)
    node.settle()
    node.vhost.delete_queue("q7")  # no cached route is valid any more
    node.settle()
    client.feed(publish() + m.frame(1, m.TxCommit()))
    node.settle()
    assert [received.method for received in client.take()] == [m.TxCommitOk()]
    assert {queue.message_count() for queue in node.vhost.queues.values()} == {3}
