"""Who holds messages of a quorum queue and is no consumer."""

from __future__ import annotations

import pytest

from amqp_router.protocol import methods as m
from tests.nodes import TRANSIENT, Client, SimNode
from vhosts.queues.handle import Consumer
from vhosts.queues.queue import Queue

QUORUM = {"x-queue-type": ("S", b"quorum")}
#: More than were known when each declare looked at each of them.
MANY = 2500


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1, 2)


def counted(client: Client, queue: str = "q") -> int:
    client.send(m.QueueDeclare(queue, passive=True))
    client.node.quiet()
    (received,) = client.take()
    assert isinstance(received.method, m.QueueDeclareOk)
    return received.method.consumer_count


def filled(client: Client, messages: int) -> Queue:
    queue = client.declare("q", durable=True, arguments=QUORUM)
    for _ in range(messages):
        client.publish(b"x", "q", properties=TRANSIENT)
    client.node.settle()
    client.take()
    return queue


def test_each_message_of_a_get_counts(client: Client) -> None:
    """However many there are, and until each is settled or comes back."""
    filled(client, MANY)
    for number in range(MANY):
        client.send(m.BasicGet("q"), channel=1 + number % 2)
    client.node.quiet()
    assert len(client.take()) == MANY
    assert counted(client) == MANY
    client.send(m.BasicAck(10, True))
    client.send(m.BasicNack(11, False, True))
    client.send(m.BasicReject(12, False))
    client.node.settle()
    assert counted(client) == MANY - 12
    client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk, channel=2)
    assert counted(client) == MANY // 2 - 12


def test_each_cancelled_consumer_with_messages_counts_once(client: Client) -> None:
    filled(client, 2 * MANY)
    client.call(m.BasicQos(0, 2, False), m.BasicQosOk)
    for number in range(MANY):
        client.send(m.BasicConsume("q", f"t{number}"))
    client.node.settle()
    came = [received.method for received in client.take() if isinstance(received.method, m.BasicDeliver)]
    assert len(came) == 2 * MANY
    for number in range(MANY):
        client.send(m.BasicCancel(f"t{number}"))
    client.node.settle()
    client.take()
    assert counted(client) == MANY
    first, second = (each.delivery_tag for each in came if each.consumer_tag == "t7")
    client.send(m.BasicAck(first, False))
    assert counted(client) == MANY
    client.send(m.BasicReject(second, False))
    assert counted(client) == MANY - 1
    client.send(m.BasicRecover(True))
    client.node.settle()
    client.take()
    assert counted(client) == 0


def test_a_classic_queue_counts_its_consumers_alone() -> None:
    queue, holder = Queue.__new__(Queue), Consumer()
    queue.held_count = -1
    queue.note_holder(holder)
    assert (queue.held_count, holder.holds) == (-1, False)
