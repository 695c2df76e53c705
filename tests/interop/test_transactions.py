"""Transactions on the wire and with pika, also over kill -9. Measured on RabbitMQ 3.10.8."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pika.exceptions
import pytest

from tests.brokers import Broker
from tests.interop.conftest import RABBITMQ
from tests.interop.wire import Wire


@pytest.fixture
def tx(wire: Wire) -> Wire:
    """A connection whose channel 1 is transactional; channel 2 is not."""
    wire.ok(1, "tx.select")
    wire.open_channel(2)
    return wire


def test_publishes(tx: Wire, name: str) -> None:
    tx.ok(1, "queue.declare", queue=name, exclusive=True)
    for body in (b"1", b"2"):
        tx.publish(1, "", name, body)
    assert tx.ready(name, channel=2) == 0
    tx.ok(1, "tx.commit")
    assert tx.ready(name, channel=2) == 2
    tx.publish(1, "", name, b"3")
    tx.ok(1, "tx.rollback")
    tx.ok(1, "tx.commit")
    assert tx.ready(name, channel=2) == 2


def test_acknowledgements(tx: Wire, name: str) -> None:
    tx.ok(1, "queue.declare", queue=name, exclusive=True)
    tx.publish(2, "", name, b"1")
    tx.publish(2, "", name, b"2")
    assert tx.ready(name, channel=2) == 2
    got = tx.get(name, no_ack=False)
    assert got is not None
    tx.send(1, "basic.ack", delivery_tag=1)
    tx.ok(1, "tx.rollback")
    assert tx.ready(name, channel=2) == 1, "nothing is requeued"
    tx.send(1, "basic.ack", delivery_tag=1)
    tx.ok(1, "tx.commit")
    tx.ok(1, "channel.close", code=200)
    assert tx.ready(name, channel=2) == 1


def test_mandatory_and_missing_exchange(tx: Wire, name: str) -> None:
    tx.publish(1, "", name, b"z", mandatory=True)
    assert tx.until_quiet() == []
    tx.send(1, "tx.commit")
    assert [tx.receive().name, tx.receive().name] == ["basic.return", "tx.commit-ok"]
    tx.publish(1, name, "k", b"z")
    reply = tx.receive()
    assert (reply.name, reply.code, reply.class_id, reply.method_id) == ("channel.close", 404, 60, 40)
    assert reply.text == f"NOT_FOUND - no exchange '{name}' in vhost '/'"


@pytest.mark.parametrize(
    ("methods", "text", "ids"),
    [
        (["tx.commit"], "channel is not transactional", (90, 20)),
        (["tx.rollback"], "channel is not transactional", (90, 30)),
        (["confirm.select", "tx.select"], "cannot switch from confirm to tx mode", (90, 10)),
        (["tx.select", "confirm.select"], "cannot switch from tx to confirm mode", (85, 10)),
    ],
)
def test_wrong_modes(wire: Wire, methods: list[str], text: str, ids: tuple[int, int]) -> None:
    *before, last = methods
    for method in before:
        wire.ok(1, method)
    reply = wire.call(1, last)
    assert (reply.name, reply.code, reply.class_id, reply.method_id) == ("channel.close", 406, *ids)
    assert reply.text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_a_failed_commit_returns(wire: Wire, name: str, kind: str) -> None:
    """The consumers of its channel, which is closed, get it once more in RabbitMQ."""
    wire.open_channel(2)
    full = f"{name} full"
    wire.ok(2, "queue.declare", queue=full, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    wire.ok(2, "queue.declare", queue=name, durable=True, arguments={"x-queue-type": kind})
    wire.publish(2, "", name, b"m")
    wire.ok(1, "basic.consume", queue=name, tag="c")
    wire.receive_named("basic.deliver", 1)
    wire.ok(1, "tx.select")
    wire.publish(1, "", full, b"refused")
    wire.publish(1, "", "nowhere", b"returned", mandatory=True)
    wire.send(1, "basic.nack", delivery_tag=1, requeue=True)
    wire.send(1, "tx.commit")
    seen = wire.until_quiet(expected=3 if RABBITMQ else 2)
    assert [got.name for got in seen if got.name != "basic.deliver"] == ["basic.return", "channel.close"]
    assert [got.text for got in seen if got.name == "channel.close"] == [
        "PRECONDITION_FAILED - partial tx completion"
    ]
    assert [got.redelivered for got in seen if got.name == "basic.deliver"] == ([True] if RABBITMQ else [])
    wire.send(1, "channel.close-ok")
    wire.open_channel(3)
    until = time.monotonic() + 30
    while not wire.ready(name, channel=3):
        assert time.monotonic() < until
    got = wire.get(name, channel=3)
    assert got is not None
    assert got.redelivered
    if kind == "quorum":
        assert got.properties["headers"]["x-delivery-count"] == (2 if RABBITMQ else 1)


def test_pika(broker: Broker, name: str) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True)
    channel.tx_select()
    for number in range(100):
        channel.basic_publish("", name, b"%d" % number)
    channel.tx_commit()
    assert channel.queue_declare(name, passive=True).method.message_count == 100
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(100)]
    channel.basic_ack(tags[49], multiple=True)
    channel.tx_rollback()
    channel.basic_nack(tags[9], multiple=True, requeue=True)
    channel.basic_ack(tags[-1], multiple=True)
    channel.tx_commit()
    assert channel.queue_declare(name, passive=True).method.message_count == 10
    bodies = [channel.basic_get(name)[2] for _ in range(10)]
    assert bodies == [b"%d" % number for number in range(10)]
    connection.close()


@pytest.mark.parametrize("own_broker", ["compiled", "uncompiled"], indirect=True)
def test_what_was_committed_survives_kill_9(own_broker: Broker) -> None:
    with Wire(own_broker.port, host=own_broker.host) as wire:
        wire.open_channel(1)
        for queue in ("a", "b"):
            wire.ok(1, "queue.declare", queue=queue, durable=True)
            wire.ok(1, "queue.bind", queue=queue, exchange="amq.fanout")
        wire.ok(1, "tx.select")
        for number in range(200):
            wire.publish(1, "amq.fanout", "", str(number), delivery_mode=2)
        wire.ok(1, "tx.commit")
        for number in range(200, 300):
            wire.publish(1, "amq.fanout", "", str(number), delivery_mode=2)
        own_broker.kill9()
    own_broker.start()
    with Wire(own_broker.port, host=own_broker.host) as wire:
        wire.open_channel(1)
        for queue in ("a", "b"):
            assert [int(message.body) for message in wire.get_all(queue)] == list(range(200))


def test_very_large_transaction(connect: Callable[..., Wire], name: str) -> None:
    """Others are served meanwhile, and nothing is lost or out of order."""
    wire = connect()
    wire.open_channel(1)
    wire.open_channel(2)
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "tx.select")
    for number in range(20_000):
        wire.publish(1, "", name, str(number))
    assert wire.call(1, "tx.commit", timeout=60).name == "tx.commit-ok"
    assert wire.ready(name, channel=2) == 20_000
    wire.ok(2, "basic.consume", queue=name, tag="t", no_ack=True)
    assert [int(message.body) for message in wire.receive_named("basic.deliver", 20_000)] == list(
        range(20_000)
    )
