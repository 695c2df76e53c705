"""Alarms of the node: who is blocked, who is told, who goes on. Compared with RabbitMQ 3.10.8."""

from __future__ import annotations

import pytest

from amqp_router.connection.alarms import RELEASE_SLICE, Alarms
from amqp_router.connection.reading import TRICKLE_S
from amqp_router.protocol import methods as m
from tests.connection.test_transport import opened
from tests.nodes import TRANSIENT, Client, SimNode, publish_frames


def publish(*bodies: bytes, key: str = "q") -> bytes:
    return b"".join(
        frame for body in bodies for frame in publish_frames(1, m.BasicPublish("", key), TRANSIENT, body)
    )


@pytest.fixture
def node() -> SimNode:
    node = SimNode()
    node.vhost.declare_queue("q", durable=False)
    node.settle()
    return node


def methods_of(client: Client) -> list[m.Method]:
    client.node.quiet()
    return [received.method for received in client.take()]


def test_blocked_at_the_first_publish_and_the_rest_of_the_chunk_waits(node: SimNode) -> None:
    client = Client(node).open(1)
    node.alarms.set("memory")
    node.quiet()
    assert methods_of(client) == []
    client.feed(publish(b"one", b"two") + m.frame(1, m.BasicGet("q", True)))
    assert methods_of(client) == [m.ConnectionBlocked("low on memory")]
    assert node.queue("q").message_count() == 1
    node.alarms.set("disk")
    node.alarms.clear("memory")
    assert methods_of(client) == []
    node.alarms.clear("disk")
    unblocked, got = methods_of(client)
    assert unblocked == m.ConnectionUnblocked()
    assert isinstance(got, m.BasicGetOk)
    assert node.queue("q").message_count() == 1


def test_blocked_by_a_content_that_comes_frame_by_frame(node: SimNode) -> None:
    client = Client(node).open(1)
    node.alarms.set("disk")
    for frame in publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"body"):
        client.feed(frame)
    client.feed(publish(b"next"))
    assert methods_of(client) == [m.ConnectionBlocked("low on disk")]
    assert node.queue("q").message_count() == 1


def test_two_resources_are_named_in_the_order_of_rabbitmq(node: SimNode) -> None:
    node.alarms.set("memory")
    node.alarms.set("disk")
    client = Client(node).open(1)
    client.feed(publish(b"x"))
    assert methods_of(client) == [m.ConnectionBlocked("low on disk & memory")]


def test_who_published_before_the_alarm_is_blocked_at_its_next_publish(node: SimNode) -> None:
    client = Client(node).open(1)
    client.feed(publish(b"before"))
    node.alarms.set("memory")
    client.send(m.BasicQos(0, 1, False))
    assert methods_of(client) == [m.BasicQosOk()]
    assert not client.machine.blocked


def test_client_without_the_capability_waits_and_is_not_told(node: SimNode) -> None:
    client = Client(node, capabilities=False).open(1)
    node.alarms.set("memory")
    client.feed(publish(b"one", b"two"))
    node.alarms.clear("memory")
    assert methods_of(client) == []
    assert node.queue("q").message_count() == 2


def test_consumers_acks_and_deletes_go_on(node: SimNode) -> None:
    publisher, consumer = Client(node).open(1), Client(node).open(1)
    publisher.feed(publish(b"x"))
    node.alarms.set("memory")
    publisher.feed(publish(b"y"))
    consumer.send(m.BasicConsume("q", "c"))
    node.quiet()
    assert [received.body for received in consumer.take()] == [b"", b"x", b"y"]
    consumer.send(m.BasicAck(0, True), m.QueueDelete("q"))
    node.settle()
    assert methods_of(consumer) == [m.QueueDeleteOk(0), m.BasicCancel("c", True)]


def test_blocked_connection_that_ends_is_forgotten(node: SimNode) -> None:
    client = Client(node).open(1)
    node.alarms.set("memory")
    client.feed(publish(b"x"))
    client.machine.stop()
    node.alarms.clear("memory")
    assert methods_of(client) == [m.ConnectionBlocked("low on memory")]


def test_many_are_let_go_over_several_turns_and_an_alarm_stops_that() -> None:
    class Waiting:
        released = 0

        def unblocked(self) -> None:
            Waiting.released += 1

    steps = []
    alarms = Alarms(steps.append)
    alarms.set("memory")
    for _ in range(3 * RELEASE_SLICE):
        alarms.block(Waiting())
    alarms.clear("memory")
    assert Waiting.released == RELEASE_SLICE
    alarms.set("disk")
    assert steps.pop()()
    assert Waiting.released == RELEASE_SLICE
    alarms.clear("disk")
    assert Waiting.released == 2 * RELEASE_SLICE
    assert steps.pop()()
    assert Waiting.released == 3 * RELEASE_SLICE


def test_on_change_is_told_of_changes_only() -> None:
    alarms = Alarms(lambda step: None)
    told = []
    alarms.on_change = lambda name, is_on: told.append((name, is_on))
    alarms.set("disk")
    alarms.set("disk")
    assert alarms.on
    assert "disk" in alarms
    alarms.clear("disk")
    alarms.clear("memory")
    assert told == [("disk", True), ("disk", False)]
    assert not alarms.on


def test_socket_of_a_blocked_connection_is_not_read(node: SimNode) -> None:
    transport, sock = opened(node, 60)
    transport.data_received(m.frame(1, m.ChannelOpen()))
    node.alarms.set("memory")
    transport.data_received(publish(b"one", b"two"))
    node.sleep(10)
    assert sock.paused
    assert node.queue("q").message_count() == 1
    node.alarms.clear("memory")
    node.quiet()
    assert not sock.paused
    assert node.queue("q").message_count() == 2
    transport.connection_lost(None)


def test_acknowledgements_of_a_blocked_connection_are_read(node: SimNode) -> None:
    transport, sock = opened(node, 60)
    transport.data_received(
        m.frame(1, m.ChannelOpen()) + m.frame(1, m.BasicConsume("q", "c")) + publish(b"x")
    )
    node.quiet()
    node.alarms.set("memory")
    transport.data_received(publish(b"one", b"two") + m.frame(1, m.BasicAck(1, False)))
    node.quiet()
    assert sock.paused
    assert node.queue("q").unacked_count == 2
    node.sleep(0.05)
    node.sleep(0.05)
    assert node.queue("q").unacked_count == 2
    assert node.queue("q").ack_total == 1
    assert not sock.paused  # until the next chunk
    transport.data_received(m.frame(1, m.BasicAck(0, True)))
    node.quiet()
    assert sock.paused
    assert node.queue("q").unacked_count == 0
    transport.connection_lost(None)


def test_client_that_ends_while_it_is_blocked_is_read_to_its_end(node: SimNode) -> None:
    """It is noticed, and what it sent before is not lost."""
    transport, sock = opened(node, 60)
    transport.data_received(m.frame(1, m.ChannelOpen()))
    assert node.hangups.watched == {}
    node.alarms.set("memory")
    transport.data_received(publish(b"one", b"two"))
    node.sleep(10)
    assert sock.paused
    assert node.queue("q").message_count() == 1
    (ended,) = node.hangups.watched.values()
    node.hangups.watched.clear()  # it tells once
    ended()
    node.sleep(TRICKLE_S)
    assert node.queue("q").message_count() == 2
    node.sleep(TRICKLE_S)
    assert not sock.paused
    transport.data_received(publish(b"three"))
    assert sock.paused
    node.sleep(TRICKLE_S)
    assert not sock.paused
    assert transport.eof_received() is False
    transport.connection_lost(None)
    assert node.queue("q").message_count() == 3
    assert node.hangups.watched == {}


@pytest.mark.parametrize("end", ["clear", "lost"])
def test_end_of_a_connection_is_watched_for_only_while_it_is_blocked(node: SimNode, end: str) -> None:
    transport, _ = opened(node, 60)
    transport.data_received(m.frame(1, m.ChannelOpen()))
    node.alarms.set("memory")
    transport.data_received(publish(b"one", b"two"))
    assert len(node.hangups.watched) == 1
    if end == "clear":
        node.alarms.clear("memory")
        node.quiet()
    else:
        transport.connection_lost(None)
    assert node.hangups.watched == {}
    if end == "clear":
        transport.connection_lost(None)
