"""A message may come in by any protocol: a listener for lines beside AMQP."""

from __future__ import annotations

import errno

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import decode_table, encode_plain
from tests.nodes import PERSISTENT, Client, SimNode
from tests.toys.line_protocol import LineConnection
from vhosts.publishing.spread import SPREAD_SLICE


class Lines:
    """A client of the listener."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.got: list[str] = []
        self.connection = LineConnection(
            node.vhost, node.budget, node.in_slices, lambda data: self.got.extend(data.decode().splitlines())
        )

    def send(self, text: str) -> None:
        self.node.enter(self.connection.receive, text.encode())

    def take(self) -> list[str]:
        self.node.settle()
        got, self.got = self.got, []
        return got


@pytest.fixture
def node() -> SimNode:
    node = SimNode()
    for name, durable in (("q", False), ("d", True)):
        node.vhost.declare_queue(name, durable=durable)
        node.vhost.bind_queue(name, "amq.topic", f"{name}.#", {}, None)
    node.settle()
    return node


def test_publish_and_subscribe(node: SimNode) -> None:
    lines = Lines(node)
    lines.send("SUB q\nPUB amq.topic q.1 one\nPUB - q two words\n")
    assert lines.take() == ["TAKEN", "TAKEN", "MSG amq.topic q.1 one", "MSG - q two words"]
    lines.connection.close()
    lines.send("PUB - q later\n")
    assert lines.take() == ["TAKEN"]
    assert node.queue("q").message_count() == 1


def test_credit_in_octets(node: SimNode) -> None:
    lines = Lines(node)
    lines.send("SUB q 7\n" + "PUB - q four\n" * 4)
    assert lines.take() == ["TAKEN"] * 4 + ["MSG - q four"] * 2
    lines.send("ACK\n")
    assert lines.take() == ["MSG - q four"] * 2
    lines.connection.close()
    assert (node.queue("q").message_count(), node.queue("q").unacked_count) == (2, 0)


def test_receipts_come_when_messages_are_durable(node: SimNode) -> None:
    lines = Lines(node)
    lines.send("PUB - d one\nPUB - d two\nPUB amq.topic d.x three\nPUB amq.topic nowhere four\n")
    node.quiet()
    assert lines.got == ["UNROUTABLE"]
    assert lines.take() == ["UNROUTABLE", "TAKEN", "TAKEN", "TAKEN"]


def test_a_log_that_fails(node: SimNode) -> None:
    lines = Lines(node)
    lines.send("PUB - d one\n")
    node.queue("d").log.fail(OSError(errno.EIO, "simulated"))
    assert lines.take() == ["LOST"]
    lines.send("PUB - d two\n")
    assert lines.take() == ["FAILED"]


def test_a_queue_that_is_full(node: SimNode) -> None:
    arguments, _ = decode_table(encode_plain({"x-max-length": 1, "x-overflow": "reject-publish"}), 0)
    node.vhost.declare_queue("full", arguments=arguments)
    lines = Lines(node)
    lines.send("PUB - full one\nPUB - full two\n")
    assert lines.take() == ["TAKEN", "REFUSED"]


def test_errors(node: SimNode) -> None:
    lines = Lines(node)
    lines.send("PUB none key body\nSUB none\nPUB amq.rabbitmq.trace key body\n")
    assert lines.take() == [
        "ERR no exchange 'none' in vhost '/'",
        "ERR no queue 'none' in vhost '/'",
        "ERR cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
    ]


def test_it_and_amqp_meet(node: SimNode) -> None:
    lines, client = Lines(node), Client(node).open(1)
    client.call(m.BasicConsume("d", "t", no_ack=True), m.BasicConsumeOk)
    lines.send("PUB - d hello\n")
    assert lines.take() == ["TAKEN"]
    assert [(received.body, received.properties) for received in client.take()] == [(b"hello", PERSISTENT)]
    lines.send("SUB q\n")
    client.publish(b"back", "q")
    assert lines.take() == ["MSG - q back"]


def test_a_message_for_very_many_queues(node: SimNode) -> None:
    for number in range(SPREAD_SLICE + 10):
        node.vhost.declare_queue(f"many.{number}", durable=number == 0)
        node.vhost.bind_queue(f"many.{number}", "amq.fanout", "", {}, None)
    node.settle()
    lines = Lines(node)
    lines.send("PUB amq.fanout - x\n")
    assert lines.got == []
    assert lines.take() == ["TAKEN"]
    assert all(node.queue(f"many.{number}").message_count() == 1 for number in range(SPREAD_SLICE + 10))


def test_it_is_counted_and_noted_as_any_publish(node: SimNode) -> None:
    lines = Lines(node)
    lines.send("PUB amq.topic q.1 one\nPUB amq.topic nowhere two\n")
    lines.take()
    counters = node.vhost.exchanges["amq.topic"].counters
    assert (counters.publish_in, counters.publish_out, counters.unroutable) == (2, 1, 1)
    assert node.vhost.table.unroutable.of("amq.topic") == [("nowhere", 1)]
