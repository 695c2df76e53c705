"""A return of very many messages takes many turns; it must look as if it took one, as in RabbitMQ.

Between its slices other consumers may be ready, and the queue may have newer messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from amqp_router.channel.delivery import RETURN_SLICE
from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from tests.vhosts.queues.local import typed

COUNT = 4 * RETURN_SLICE
#: Ways to return all that channel 1 has.
RETURNS = {
    "nack": [m.BasicNack(COUNT, True, True)],
    "recover": [m.BasicRecover(True)],
    "close": [m.ChannelClose(200, "", 0, 0)],
    "end": [],
}


def publish(client: Client, count: int, first: int = 0, *, durable: bool = False, queue: str = "q") -> None:
    properties = PERSISTENT if durable else TRANSIENT
    client.feed(
        b"".join(
            frame
            for number in range(first, first + count)
            for frame in publish_frames(2, m.BasicPublish("", queue), properties, b"%d" % number)
        )
    )


def holding(
    node: SimNode, *, durable: bool = False, newer: int = 0, arguments: Mapping[str, Any] | None = None
) -> Client:
    """A client with ``COUNT`` messages of ``q`` unacknowledged on channel 1, and ``newer`` ones ready."""
    client = Client(node).open(1, 2)
    client.declare("q", durable=durable, arguments=arguments or {})
    client.send(m.BasicConsume("q", "t"))
    publish(client, COUNT, durable=durable)
    node.settle()
    client.send(m.BasicCancel("t"))
    publish(client, newer, COUNT, durable=durable)
    node.settle()
    client.take()
    return client


def bodies(client: Client) -> list[int]:
    return [int(received.body) for received in client.take() if received.body]


@pytest.mark.parametrize("way", list(RETURNS))
@pytest.mark.parametrize("durable", [False, True])
def test_consumer_that_waits_gets_them_in_order(durable: bool, way: str) -> None:
    node = SimNode()
    client = holding(node, durable=durable)
    other = Client(node).open(1, 2)
    other.send(m.BasicConsume("q", "u"))
    if way == "end":
        client.drop()
    else:
        client.send(*RETURNS[way])
    heard = []
    later = 0
    while node.ready:
        publish(other, 3, COUNT + later, durable=durable)
        later += 3
        node.turn()
        heard += bodies(other)
    node.settle()
    heard += bodies(other)
    assert later >= 6
    assert heard == list(range(COUNT + later))
    assert not node.queue("q").ready.returning


def test_all_wait_until_all_are_back() -> None:
    """Between the slices older ones could still come back, and would be overtaken."""
    node = SimNode()
    client = holding(node, newer=10)
    other = Client(node).open(1)
    client.feed(m.frame(1, m.BasicNack(COUNT, True, True)) + m.frame(1, m.BasicConsume("q", "u")))
    other.send(m.BasicConsume("q", "v"))
    turns = 0
    got: list[int] = []
    while node.ready:
        node.turn()
        turns += 1
        got += bodies(other)
        if node.queue("q").is_returning():
            assert got == []
    assert turns < COUNT // RETURN_SLICE + 8
    assert sorted(got + bodies(client)) == list(range(COUNT + 10))


@pytest.mark.parametrize(
    "method",
    [m.BasicGet("q"), m.QueuePurge("q"), m.QueueDeclare("q", passive=True), m.QueueDelete("q")],
    ids=lambda method: type(method).__name__,
)
def test_methods_of_others_see_none_or_all(method: m.Method) -> None:
    node = SimNode()
    client = holding(node, newer=1)
    other = Client(node).open(1)
    client.feed(m.frame(1, m.BasicNack(COUNT, True, True)))
    other.feed(m.frame(1, method))
    node.settle()
    (received,) = other.take()
    answer: Any = received.method
    if isinstance(answer, m.BasicGetOk):
        assert (received.body, answer.message_count) == (b"0", COUNT)
    else:
        assert answer.message_count == COUNT + 1


def test_returns_of_several_clients() -> None:
    """What is back waits for those that are not, and no longer."""
    node = SimNode()
    clients = [holding(node)]
    queue = node.queue("q")
    second = Client(node).open(1, 2)
    second.send(m.BasicConsume("q", "t"))
    publish(second, COUNT, COUNT)
    node.settle()
    second.send(m.BasicCancel("t"))
    clients.append(second)
    for client in clients:
        client.take()
    publish(second, 1, 2 * COUNT)
    reader = Client(node).open(1)
    reader.send(m.BasicConsume("q", "r"))
    assert bodies(reader) == [2 * COUNT]
    queue.begin_return()  # as of another return that takes longer
    for client in clients:
        client.send(m.BasicNack(0, True, True))
    node.settle()
    assert bodies(reader) == []
    assert queue.message_count() == 2 * COUNT
    queue.end_return()
    node.settle()
    assert bodies(reader) == list(range(2 * COUNT))
    assert queue.message_count() == 0
    assert reader.machine.channels[1].delivery.outstanding == 2 * COUNT + 1
    assert not queue.ready.returning


@pytest.mark.parametrize("way", list(RETURNS))
@pytest.mark.parametrize("is_quorum", [False, True])
def test_what_comes_back_above_the_limit(way: str, is_quorum: bool) -> None:
    """Consumers of a quorum queue get all of it, those of another one what is left of it."""
    node = SimNode()
    arguments = typed(max_length=1, **({"queue_type": "quorum"} if is_quorum else {}))
    client = holding(node, durable=True, arguments=arguments)
    other = Client(node).open(1)
    other.send(m.BasicConsume("q", "u"))
    if way == "end":
        client.drop()
    else:
        client.send(*RETURNS[way])
    node.settle()
    assert bodies(other) == list(range(COUNT))[0 if is_quorum else -1 :]
    assert node.queue("q").message_count() == 0


@pytest.mark.parametrize("way", list(RETURNS))
def test_what_is_published_meanwhile_makes_nothing_leave(way: str) -> None:
    """The queue is as long as it may be when all are back, and consumers take what comes then."""
    node = SimNode()
    client = holding(node, arguments=typed(max_length=COUNT))
    other = Client(node).open(1, 2)
    other.send(m.BasicConsume("q", "u"))
    if way == "end":
        client.drop()
    else:
        client.send(*RETURNS[way])
    later = 0
    while node.ready:
        if node.queue("q").is_returning():
            publish(other, 3, COUNT + later)
            later += 3
        node.turn()
    node.settle()
    assert later >= 6
    assert bodies(other) == list(range(COUNT + later))


def test_what_is_due_to_a_consumer_makes_nothing_leave_that_returns() -> None:
    node = SimNode()
    client = holding(node, arguments=typed(max_length=COUNT))
    other = Client(node).open(1, 2)
    other.send(m.BasicConsume("q", "u"))
    node.busy = True
    publish(other, 1, COUNT)
    client.drop()
    node.busy = False
    node.settle()
    assert sorted(bodies(other)) == list(range(COUNT + 1))


def test_a_queue_is_let_go_when_its_messages_are_back() -> None:
    """Also if the channel that returns them had messages of many queues."""
    node = SimNode()
    client = Client(node).open(1, 2)
    queues = [client.declare(f"q{number}") for number in range(RETURN_SLICE + 50)]
    for queue in queues:
        client.send(m.BasicConsume(queue.name, nowait=True))
    for queue in queues:
        publish(client, 3, queue=queue.name)
    node.settle()
    client.send(m.BasicRecover(True))
    node.settle()
    assert not any(queue.ready.returning for queue in queues)
    assert not client.machine.channels[1].delivery.returning
    assert client.machine.channels[1].delivery.outstanding == 3 * len(queues)


@pytest.mark.parametrize("how", ["close", "end", "nack", "commit"])
def test_a_quorum_queue_gets_back_what_one_consumer_had_after_the_other(how: str) -> None:
    """In the order of their tags. What returns stands before what is new, as it returns."""
    node = SimNode()
    client, other = Client(node).open(1, 2), Client(node).open(1)
    client.declare("q", durable=True, arguments=typed(queue_type="quorum"))
    if how == "commit":
        client.send(m.TxSelect())
    client.send(m.BasicQos(0, 3, False), m.BasicConsume("q", "b"), m.BasicConsume("q", "a"))
    publish(client, 8, durable=True)
    node.settle()
    got = [(each.method.consumer_tag, int(each.body)) for each in client.take() if each.body]
    client.send(m.BasicCancel("a"), m.BasicCancel("b"))
    node.settle()
    if how == "close":
        client.send(m.ChannelClose(200, "", 0, 0))
    elif how == "end":
        client.drop()
    elif how == "nack":
        client.send(m.BasicNack(0, True, True))
    else:
        client.send(*[m.BasicNack(tag, False, True) for tag in (5, 2, 1, 6, 3, 4)], m.TxCommit())
    node.settle()
    for _ in range(8):
        other.send(m.BasicGet("q", True))
    node.settle()
    assert len(got) == 6
    assert bodies(other) == [number for tag in "ab" for each, number in got if each == tag] + [6, 7]


def test_what_basic_get_took_returns_by_the_text_of_its_tags() -> None:
    """When its channel closes."""
    node = SimNode()
    client, other = Client(node).open(1, 2), Client(node).open(1)
    client.declare("q", durable=True, arguments=typed(queue_type="quorum"))
    publish(client, 12, durable=True)
    node.settle()
    client.send(*[m.BasicGet("q") for _ in range(11)])
    node.settle()
    assert bodies(client) == [*range(11)]
    client.send(m.ChannelClose(200, "", 0, 0))
    node.settle()
    other.send(*[m.BasicGet("q", True) for _ in range(12)])
    node.settle()
    assert bodies(other) == [0, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 11], "the tags are 1 to 11"
