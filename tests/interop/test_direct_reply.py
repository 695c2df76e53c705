"""Direct reply-to on the wire and with pika. Measured on RabbitMQ 3.10.8."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.brokers import Broker
from tests.interop.wire import Wire

PSEUDO = "amq.rabbitmq.reply-to"


def test_request_and_reply(connect: Callable[..., Wire], wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name)
    wire.ok(1, "basic.consume", queue=PSEUDO, tag="r", no_ack=True)
    wire.publish(1, "", name, b"req", reply_to=PSEUDO, correlation_id="1")
    request = wire.get(name)
    assert request is not None
    reply_to = request.properties["reply_to"]
    assert reply_to.startswith(PSEUDO + ".")
    assert request.properties["correlation_id"] == "1"
    other = connect()
    other.open_channel(1)
    declared = other.ok(1, "queue.declare", queue=reply_to, passive=True)
    assert (declared.queue, declared.messages, declared.consumers) == (reply_to, 0, 1)
    other.publish(1, "", reply_to, b"rep", correlation_id="1")
    reply = wire.receive()
    assert (reply.name, reply.exchange, reply.routing_key) == ("basic.deliver", "", reply_to)
    assert (reply.tag, reply.delivery_tag, reply.redelivered, reply.body) == ("r", 2, False, b"rep")
    assert reply.properties == {"correlation_id": "1"}
    # A mandatory reply finds the requester, and comes back as well.
    other.open_channel(2, confirm=True)
    for channel, size in ((1, 3), (2, 2_000_000)):
        other.publish(channel, "", reply_to, b"r" * size, mandatory=True)
        returned = other.receive()
        assert (returned.name, returned.code, returned.routing_key) == ("basic.return", 312, reply_to)
        assert returned.body == wire.receive().body == b"r" * size
    assert other.receive().name == "basic.ack"
    other.open_channel(3)
    other.ok(3, "tx.select")
    other.publish(3, "", reply_to, b"tx", mandatory=True)
    other.send(3, "tx.commit")
    assert [other.receive().name for _ in range(2)] == ["basic.return", "tx.commit-ok"]
    assert wire.receive().body == b"tx"
    wire.ok(1, "queue.delete", queue=name)
    wire.ok(1, "channel.close", code=200)
    other.publish(1, "", reply_to, b"rep", mandatory=True)
    returned = other.receive()
    assert (returned.name, returned.code, returned.routing_key) == ("basic.return", 312, reply_to)
    assert other.call(1, "queue.declare", queue=reply_to, passive=True).code == 404


@pytest.mark.parametrize(
    ("consumes", "text"),
    [
        ([{"no_ack": False}], "reply consumer cannot acknowledge"),
        ([{"no_ack": True}, {"no_ack": True}], "reply consumer already set"),
        ([{"no_ack": True}, {"no_ack": False}], "reply consumer cannot acknowledge"),
    ],
)
def test_wrong_consumers(wire: Wire, consumes: list[dict[str, Any]], text: str) -> None:
    *before, last = consumes
    for consume in before:
        wire.ok(1, "basic.consume", queue=PSEUDO, **consume)
    reply = wire.call(1, "basic.consume", queue=PSEUDO, **last)
    assert (reply.name, reply.code, reply.class_id, reply.method_id) == ("channel.close", 406, 60, 20)
    assert reply.text == f"PRECONDITION_FAILED - {text}"


def test_declare(wire: Wire) -> None:
    declared = wire.ok(1, "queue.declare", queue=PSEUDO)
    assert (declared.queue, declared.messages, declared.consumers) == (PSEUDO, 0, 1)


def test_without_consumer(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.publish(1, "", name, b"x", reply_to="amq.gen-mine", headers={"a": PSEUDO})
    assert wire.ready(name) == 1
    wire.publish(1, "", name, b"x", reply_to=PSEUDO)
    reply = wire.receive()
    assert (reply.name, reply.code, reply.class_id, reply.method_id) == ("channel.close", 406, 60, 40)
    assert reply.text == "PRECONDITION_FAILED - fast reply consumer does not exist"


def test_pika(broker: Broker, name: str) -> None:
    """The example of RabbitMQ's documentation, with a server in a thread."""

    def serve() -> None:
        connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
        channel = connection.channel()
        channel.queue_declare(name, auto_delete=True)
        ready.set()
        for method, properties, body in channel.consume(name, inactivity_timeout=60):
            assert method is not None
            answer = pika.BasicProperties(correlation_id=properties.correlation_id)
            channel.basic_publish("", properties.reply_to, body[::-1], answer)
            channel.basic_ack(method.delivery_tag)
            if body == b"end":
                break
        connection.close()

    ready = threading.Event()
    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(60)
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
    channel = connection.channel()
    replies: list[tuple[str, bytes]] = []

    def on_reply(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        replies.append((properties.correlation_id, body))

    channel.basic_consume(PSEUDO, on_reply, auto_ack=True)
    for number, body in enumerate((b"abc", b"x" * 200_000, b"end")):
        properties = pika.BasicProperties(reply_to=PSEUDO, correlation_id=str(number))
        channel.basic_publish("", name, body, properties)
    for _ in range(1200):
        if len(replies) == 3:
            break
        connection.process_data_events(time_limit=0.05)
    assert replies == [("0", b"cba"), ("1", b"x" * 200_000), ("2", b"dne")]
    connection.close()
    server.join(60)
    assert not server.is_alive()


def test_second_consumer_with_the_same_tag(wire: Wire) -> None:
    """That there is one already is looked at before its tag."""
    wire.ok(1, "basic.consume", queue=PSEUDO, tag="r", no_ack=True)
    reply = wire.call(1, "basic.consume", queue=PSEUDO, tag="r", no_ack=True)
    assert (reply.name, reply.text) == (
        "channel.close",
        "PRECONDITION_FAILED - reply consumer already set",
    )


def test_tag_of_another_consumer(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "basic.consume", queue=name, tag="r")
    wire.ok(1, "basic.consume", queue=PSEUDO, tag="p", no_ack=True)
    reply = wire.call(1, "basic.consume", queue=PSEUDO, tag="r", no_ack=True)
    assert (reply.code, reply.text) == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'r'")
