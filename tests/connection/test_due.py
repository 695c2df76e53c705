"""A message published to a queue with a ready consumer is as good as delivered for every method behind it.

Publishes and the method come in one write, as from a client that does not wait; the answers are RabbitMQ's.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from tests.vhosts.queues.local import order


def consuming(node: SimNode, *, prefetch: int = 0, durable: bool = False) -> Client:
    """A client with a consumer of ``q`` on channel 1, which publishes on channel 2."""
    client = Client(node).open(1, 2)
    client.declare("q", durable=durable)
    node.settle()
    client.send(m.QueueDeclare("q", passive=True), channel=2)
    client.send(m.BasicQos(prefetch_count=prefetch), m.BasicConsume("q", "t"))
    node.settle()
    client.take()
    return client


def answers(
    client: Client, count: int, method: m.Method, *, channel: int = 2, durable: bool = False
) -> list[Any]:
    """Publish ``count`` messages and send ``method``, in one write; "deliver" and the other methods heard."""
    properties = PERSISTENT if durable else TRANSIENT
    frames = [
        frame
        for number in range(count)
        for frame in publish_frames(2, m.BasicPublish("", "q"), properties, b"%d" % number)
    ]
    client.feed(b"".join([*frames, m.frame(channel, method)]))
    client.node.settle()
    heard = [received.method for received in client.take()]
    return ["deliver" if isinstance(each, m.BasicDeliver) else each for each in heard]


DELIVERED = ["deliver", "deliver"]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (m.BasicGet("q"), m.BasicGetEmpty()),
        (m.BasicGet(""), m.BasicGetEmpty()),
        (m.QueuePurge("q"), m.QueuePurgeOk(0)),
        (m.QueueDeclare("q", passive=True), m.QueueDeclareOk("q", 0, 1)),
        (m.BasicConsume("q", "second"), m.BasicConsumeOk("second")),
        (m.QueueDelete("q", if_empty=True), m.QueueDeleteOk(0)),
        (m.QueueDelete("q"), m.QueueDeleteOk(0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_methods_behind_publishes(method: m.Method, answer: m.Method, durable: bool) -> None:
    client = consuming(SimNode(), durable=durable)
    heard = answers(client, 2, method, durable=durable)
    assert [each for each in heard if not isinstance(each, m.BasicCancel)] == [*DELIVERED, answer]


def test_consumer_that_is_cancelled_gets_what_came_before() -> None:
    client = consuming(SimNode())
    assert answers(client, 2, m.BasicCancel("t"), channel=1) == [*DELIVERED, m.BasicCancelOk("t")]
    assert client.node.queue("q").unacked_count == 2


def test_consumer_whose_prefetch_is_used_up_is_not_ready() -> None:
    client = consuming(SimNode(), prefetch=2)
    assert answers(client, 3, m.QueuePurge("q")) == [*DELIVERED, m.QueuePurgeOk(1)]
    client = consuming(SimNode(), prefetch=2)
    heard = answers(client, 3, m.BasicGet("q"))
    assert heard[:2] == DELIVERED
    assert isinstance(heard[2], m.BasicGetOk)


def test_consumer_of_another_connection() -> None:
    node = SimNode()
    consumer = consuming(node)
    publisher = Client(node).open(2)
    assert answers(publisher, 2, m.BasicGet("q")) == [m.BasicGetEmpty()]
    assert len(consumer.take()) == 2


def behind(node: SimNode, client: Client, *sent: m.Method) -> list[Any]:
    """Publish "new" to ``q`` and send methods behind it, in one write; methods and bodies that come."""
    frames = publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"new")
    client.feed(b"".join([*frames, *[m.frame(1, method) for method in sent]]))
    node.settle()
    return [received.body.decode() or received.method for received in client.take()]


@pytest.mark.parametrize("prefetch", [0, 5])
@pytest.mark.parametrize(
    "method",
    [
        m.BasicNack(2, True, True),
        m.BasicNack(1, False, True),
        m.BasicReject(1, True),
        m.BasicRecover(True),
        m.BasicRecoverAsync(True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_returned_comes_behind_what_was_published_before(method: m.Method, prefetch: int) -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.declare("q")
    for number in range(2):
        client.publish(b"%d" % number, "q")
        client.call(m.BasicGet("q"), m.BasicGetOk)
    client.send(m.BasicQos(prefetch_count=prefetch), m.BasicConsume("q", "t"))
    node.settle()
    client.take()
    heard = [each for each in behind(node, client, method) if isinstance(each, str)]
    single = isinstance(method, m.BasicReject) or method == m.BasicNack(1, False, True)
    assert heard == (["new", "0"] if single else ["new", "0", "1"])


def test_messages_of_a_cancelled_consumer_come_behind_too() -> None:
    node = SimNode()
    client = consuming(node)
    client.publish(b"old", "q")
    client.send(m.BasicCancel("t"), m.BasicConsume("q", "second"))
    node.settle()
    client.take()
    assert behind(node, client, m.BasicNack(1, False, True)) == ["new", "old"]


def test_a_limit_does_not_keep_back_what_was_published_before() -> None:
    node = SimNode()
    client = consuming(node)
    client.publish(b"old", "q")
    node.settle()
    client.take()
    limit = m.BasicQos(prefetch_count=1, is_global=True)
    assert behind(node, client, limit) == ["new", m.BasicQosOk()]
    assert behind(node, client) == []


def test_a_channel_gets_what_was_published_before_its_close() -> None:
    node = SimNode()
    client = consuming(node)
    assert behind(node, client, m.ChannelClose(200, "", 0, 0)) == ["new", m.ChannelCloseOk()]
    queue = node.queue("q")
    assert (queue.message_count(), queue.unacked_count, len(order(queue).requeued)) == (1, 0, 1)


def test_returns_come_again_nack_by_nack() -> None:
    """As in RabbitMQ (``tests/interop/test_returns.py``): the queue delivers before it hears of the next."""
    node = SimNode()
    client = consuming(node, durable=True)
    for number in range(4):
        client.publish(b"%d" % number, "q", properties=PERSISTENT)
    node.settle()
    client.take()
    client.feed(b"".join(m.frame(1, m.BasicNack(tag, False, True)) for tag in (3, 2, 1)))
    assert [received.body for received in client.take()] == [b"2", b"1", b"0"]


def test_very_many_are_delivered_in_slices_before_the_method() -> None:
    """The method comes when all is delivered, and what is behind it comes after it."""
    node = SimNode()
    client = consuming(node)
    frames = publish_frames(2, m.BasicPublish("", "q"), TRANSIENT, b"m")
    behind = [m.frame(2, m.QueuePurge("q")), *frames, m.frame(2, m.BasicGet("q"))]
    client.feed(b"".join([*frames * 1900, *behind]))
    turns = 0
    heard: list[Any] = []
    while not heard or not isinstance(heard[-1], m.BasicGetEmpty):
        heard += [received.method for received in client.take()]
        node.turn()
        turns += 1
        assert turns < 100
    kinds = [type(each).__name__ for each in heard]
    assert kinds == ["BasicDeliver"] * 1900 + ["QueuePurgeOk", "BasicDeliver", "BasicGetEmpty"]
    assert heard[1900] == m.QueuePurgeOk(0)
    assert turns > 1
    assert not node.faults


def test_publishers_elsewhere_do_not_keep_a_method_waiting() -> None:
    node = SimNode()
    client = consuming(node)
    other = Client(node).open(2)
    frames = b"".join(publish_frames(2, m.BasicPublish("", "q"), TRANSIENT, b"m") * 1900)
    client.feed(frames + m.frame(2, m.QueuePurge("q")))
    for _ in range(12):
        other.feed(frames)
        node.turn()
        if any(isinstance(received.method, m.QueuePurgeOk) for received in client.take()):
            return
    raise AssertionError("the purge was not answered")


def test_error_of_a_method_that_waited() -> None:
    """It is told on its own channel, as always."""
    node = SimNode()
    client = consuming(node)
    frames = publish_frames(2, m.BasicPublish("", "q"), TRANSIENT, b"m")
    client.feed(b"".join([*frames * 1900, m.frame(2, m.QueueDelete("q", if_unused=True))]))
    node.settle()
    heard = [received.method for received in client.take()]
    assert isinstance(heard[-1], m.ChannelClose)
    assert heard[-1].reply_code == 406
    assert len(heard) == 1901


@pytest.mark.parametrize(
    ("count", "size", "is_first"),
    [(3, 10, True), (3, 300_000, True), (4, 300_000, False), (700, 10, False)],
)
@pytest.mark.parametrize("durable", [False, True])
def test_a_channels_own_deliveries_wait_for_the_answer_up_to_a_bound(
    durable: bool, count: int, size: int, is_first: bool
) -> None:
    """None is lost, none comes out of order, and nothing is held back for long or beyond a MiB."""
    node = SimNode()
    client = Client(node).open(1)
    client.declare("q", durable=durable)
    client.call(m.BasicConsume("q", "t"), m.BasicConsumeOk)
    node.settle()
    bodies = [b"%d." % number + bytes(size) for number in range(count)]
    properties = PERSISTENT if durable else TRANSIENT
    frames = [f for body in bodies for f in publish_frames(1, m.BasicPublish("", "q"), properties, body)]
    client.feed(b"".join([*frames, m.frame(1, m.BasicGet("q"))]))
    node.settle()
    heard = client.take()
    deliveries = [each for each in heard if isinstance(each.method, m.BasicDeliver)]
    assert [each.body for each in deliveries] == bodies
    assert [each.method.delivery_tag for each in deliveries] == list(range(1, count + 1))
    assert [type(each.method) for each in heard].index(m.BasicGetEmpty) == (0 if is_first else count)
    assert len(heard) == count + 1
