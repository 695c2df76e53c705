"""What survives a clean stop and a kill -9, and with which redelivered flag.

Source: durable things and confirmed persistent messages survive both. After a clean stop only what had been
delivered is redelivered; after a kill every message is (RabbitMQ 3.10.8 does the same).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import spark_analytics
from tests.brokers import Broker, RouterProcess
from tests.interop.conftest import RABBITMQ
from tests.interop.wire import Received, Wire

BOTH_BUILDS = pytest.mark.parametrize(
    "own_broker",
    ["compiled", pytest.param("uncompiled", marks=pytest.mark.ours_only)],
    indirect=True,
)


def end(broker: Broker, how: str) -> None:
    if how == "kill9":
        broker.kill9()
    else:
        code = broker.stop()
        assert RABBITMQ or code == 0, broker.log()
    broker.start()


def opened(broker: Broker) -> Wire:
    wire = Wire(broker.port)
    wire.open_channel(1)
    return wire


def letter_in(wire: Wire, queue: str) -> Received:
    """The next dead letter."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = wire.get(queue)
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no dead letter came to {queue}")


def publish_confirmed(
    wire: Wire, exchange: str, key: str, bodies: Iterator[str] | list[str] | str, **properties: Any
) -> None:
    """Publish on channel 2 and wait for every confirm."""
    wire.open_channel(2, confirm=True)
    count = 0
    for body in bodies:
        wire.publish(2, exchange, key, body, **properties)
        count += 1
    confirmed = 0
    while confirmed < count:
        reply = wire.receive(30)
        assert reply.name == "basic.ack", reply
        confirmed = confirmed + 1 if not reply.multiple else reply.delivery_tag
    wire.ok(2, "channel.close", code=200)


def wait_for_ends(broker: Broker, queue: str, count: int) -> None:
    """Wait until the log of a queue says of ``count`` messages how they ended: no client waits for that."""
    if RABBITMQ:
        time.sleep(1)
        return
    assert isinstance(broker, RouterProcess)
    give_up = time.monotonic() + 60
    while True:
        rows = spark_analytics.read_arrow(broker.data_dir, table="messages", columns="outcome", queues=queue)
        if sum(outcome is not None for outcome in rows["outcome"].to_pylist()) >= count:
            return
        assert time.monotonic() < give_up, f"fewer than {count} messages of {queue} have an end on disk"
        time.sleep(0.02)


@BOTH_BUILDS
@pytest.mark.parametrize("how", ["stop", "kill9"])
def test_keys_of_bcc_route_dead_letters_after_a_start(own_broker: Broker, how: str) -> None:
    with opened(own_broker) as wire:
        wire.ok(
            1, "queue.declare", queue="s", durable=True, arguments={"x-dead-letter-exchange": "amq.direct"}
        )
        for queue in ("cc", "bcc"):
            wire.ok(1, "queue.declare", queue=queue, durable=True)
            wire.ok(1, "queue.bind", queue=queue, exchange="amq.direct", routing_key=f"k.{queue}")
        headers = {"CC": ["k.cc"], "BCC": ["k.bcc"]}
        publish_confirmed(wire, "", "s", ["small"], delivery_mode=2, headers=headers)
        publish_confirmed(wire, "", "s", ["large" * 300_000], delivery_mode=2, headers=headers)
    end(own_broker, how)
    with opened(own_broker) as wire:
        for _ in range(2):
            found = wire.get("s", no_ack=False)
            assert found is not None
            assert found.properties["headers"] == {"CC": ["k.cc"]}
            wire.send(1, "basic.reject", delivery_tag=found.delivery_tag, requeue=False)
        for queue in ("cc", "bcc"):
            for size in (5, 1_500_000):
                letter = letter_in(wire, queue)
                assert len(letter.body) == size
                assert "BCC" not in letter.properties["headers"]
                assert letter.properties["headers"]["x-death"][0]["routing-keys"] == ["s", "k.cc"]


@BOTH_BUILDS
@pytest.mark.parametrize("how", ["stop", "kill9"])
def test_durable_things_and_persistent_messages_survive(own_broker: Broker, how: str) -> None:
    with opened(own_broker) as wire:
        wire.ok(1, "exchange.declare", exchange="durable", type="topic", durable=True)
        wire.ok(1, "exchange.declare", exchange="behind", type="headers", durable=True)
        wire.ok(1, "exchange.declare", exchange="transient", type="topic")
        wire.ok(1, "queue.declare", queue="durable", durable=True, arguments={"x-foo": [1, {"a": None}]})
        wire.ok(1, "queue.declare", queue="transient")
        wire.ok(1, "queue.declare", queue="exclusive", durable=True, exclusive=True)
        wire.ok(1, "queue.declare", queue="empty", durable=True)
        wire.ok(1, "queue.bind", queue="durable", exchange="durable", routing_key="a.*")
        wire.ok(1, "queue.bind", queue="durable", exchange="transient", routing_key="#")
        wire.ok(1, "exchange.bind", destination="behind", source="durable", routing_key="h")
        wire.ok(1, "queue.bind", queue="empty", exchange="behind", arguments={"x-match": "any", "n": 5})
        publish_confirmed(wire, "durable", "a.b", [str(index) for index in range(100)], delivery_mode=2)
        publish_confirmed(wire, "durable", "a.b", ["transient"], delivery_mode=1)
    end(own_broker, how)
    with opened(own_broker) as wire:
        wire.ok(1, "exchange.declare", exchange="durable", type="topic", durable=True)
        wire.ok(1, "queue.declare", queue="durable", durable=True)
        wire.publish(1, "durable", "h", b"by headers", headers={"n": 5}, mandatory=True)
        wire.publish(1, "durable", "h", b"returned", headers={"n": 6}, mandatory=True)
        assert wire.receive().body == b"returned"
        assert [message.body for message in wire.get_all("empty")] == [b"by headers"]
        messages = wire.get_all("durable")
        assert [int(message.body) for message in messages] == list(range(100))
        assert {message.redelivered for message in messages} == {how == "kill9"}
        assert messages[0].properties == {"delivery_mode": 2}
        assert (messages[0].exchange, messages[0].routing_key) == ("durable", "a.b")
        for queue in ("transient", "exclusive"):
            reply = wire.call(1, "queue.declare", queue=queue, passive=True)
            assert reply.code == 404
            wire.send(1, "channel.close-ok")
            wire.open_channel(1)
        reply = wire.call(1, "exchange.declare", exchange="transient", type="topic", passive=True)
        assert reply.code == 404


@pytest.mark.parametrize("how", ["stop", "kill9"])
def test_settled_messages_stay_away_and_order_is_kept(own_broker: Broker, how: str) -> None:
    """Of twenty, some are acked, some rejected, some purged around, some held unacked, over two restarts."""
    with opened(own_broker) as wire:
        wire.ok(1, "queue.declare", queue="q", durable=True)
        publish_confirmed(wire, "", "q", [str(index) for index in range(20)], delivery_mode=2)
        tags = {int(m.body): m.delivery_tag for m in (wire.get("q", no_ack=False) for _ in range(10)) if m}
        for number in (0, 3, 4, 8):
            wire.send(1, "basic.ack", delivery_tag=tags[number])
        wire.send(1, "basic.reject", delivery_tag=tags[5], requeue=False)
        wire.send(1, "basic.reject", delivery_tag=tags[2], requeue=True)
        wire.ok(1, "basic.qos")
        wait_for_ends(own_broker, "q", 5)
    end(own_broker, how)
    left = [1, 2, 6, 7, *range(9, 20)]
    with opened(own_broker) as wire:
        messages = [wire.get("q", no_ack=False) for _ in range(16)]
        seen = [(int(m.body), m.redelivered) for m in messages if m]
        assert [number for number, _ in seen] == left
        delivered_before = {1, 2, 6, 7, 9}
        assert all(
            redelivered for number, redelivered in seen if number in delivered_before or how == "kill9"
        )
        if how == "stop":
            assert not any(redelivered for number, redelivered in seen if number not in delivered_before)
        wire.send(1, "basic.ack", delivery_tag=4, multiple=True)
        wire.ok(1, "basic.qos")
        wait_for_ends(own_broker, "q", 9)
    end(own_broker, how)
    with opened(own_broker) as wire:
        rest = wire.get_all("q")
        assert [int(message.body) for message in rest] == left[4:]
        assert all(message.redelivered for message in rest)


def test_a_deleted_queue_stays_deleted(own_broker: Broker) -> None:
    """And one declared again under its name does not see the old content."""
    with opened(own_broker) as wire:
        for queue in ("gone", "again"):
            wire.ok(1, "queue.declare", queue=queue, durable=True)
            publish_confirmed(wire, "", queue, "abc", delivery_mode=2)
            wire.ok(1, "queue.delete", queue=queue)
        wire.ok(1, "queue.declare", queue="again", durable=True)
        publish_confirmed(wire, "", "again", "z", delivery_mode=2)
        wire.ok(1, "queue.declare", queue="purged", durable=True)
        publish_confirmed(wire, "", "purged", "abc", delivery_mode=2)
        assert wire.get("purged", no_ack=False) is not None
        assert wire.ok(1, "queue.purge", queue="purged").messages == 2
        publish_confirmed(wire, "", "purged", "d", delivery_mode=2)
        wait_for_ends(own_broker, "purged", 2)
    end(own_broker, "kill9")
    with opened(own_broker) as wire:
        assert [message.body for message in wire.get_all("again")] == [b"z"]
        assert [message.body for message in wire.get_all("purged")] == [b"a", b"d"]
        assert wire.call(1, "queue.declare", queue="gone", passive=True).code == 404


@pytest.mark.parametrize("how", ["stop", "kill9"])
def test_auto_delete_and_unbound_things_stay_away(own_broker: Broker, how: str) -> None:
    with opened(own_broker) as wire:
        wire.ok(1, "queue.declare", queue="kept", durable=True)
        wire.ok(1, "queue.bind", queue="kept", exchange="amq.direct", routing_key="was")
        wire.ok(1, "queue.bind", queue="kept", exchange="amq.direct", routing_key="is")
        wire.ok(1, "queue.unbind", queue="kept", exchange="amq.direct", routing_key="was")
        wire.ok(1, "queue.declare", queue="auto", durable=True, auto_delete=True)
        wire.ok(1, "exchange.declare", exchange="auto", type="fanout", durable=True, auto_delete=True)
        wire.ok(1, "queue.bind", queue="kept", exchange="auto")
        wire.ok(1, "queue.unbind", queue="kept", exchange="auto")
        wire.ok(1, "basic.consume", queue="auto", tag="t")
        wire.ok(1, "basic.cancel", tag="t")
        if RABBITMQ:
            time.sleep(0.2)
        wire.ok(1, "queue.declare", queue="later", durable=True)  # stored after what went by itself
    end(own_broker, how)
    with opened(own_broker) as wire:
        for key in ("was", "is"):
            wire.publish(1, "amq.direct", key, key)
        wire.ok(1, "basic.consume", queue="kept", no_ack=True)
        assert wire.receive().body == b"is"
        assert wire.until_quiet() == []
        assert wire.call(1, "queue.declare", queue="auto", passive=True).code == 404
        wire.send(1, "channel.close-ok")
        wire.open_channel(1)
        reply = wire.call(1, "exchange.declare", exchange="auto", type="fanout", passive=True)
        assert reply.code == 404


@pytest.mark.parametrize("how", ["stop", "kill9"])
def test_large_and_empty_bodies_survive(own_broker: Broker, how: str) -> None:
    bodies = [b"", b"x", bytes(range(256)) * 512, b"y" * 131064, bytes(range(256)) * 20_000, b"end"]
    with opened(own_broker) as wire:
        wire.ok(1, "queue.declare", queue="q", durable=True)
        wire.open_channel(2, confirm=True)
        for body in bodies:
            wire.publish(2, "", "q", body, delivery_mode=2, headers={"size": len(body)})
        confirmed = 0
        while confirmed < len(bodies):
            reply = wire.receive(30)
            confirmed = confirmed + 1 if not reply.multiple else reply.delivery_tag
    end(own_broker, how)
    with opened(own_broker) as wire:
        messages = wire.get_all("q")
        assert [message.body for message in messages] == bodies
        assert [message.properties["headers"]["size"] for message in messages] == [
            len(body) for body in bodies
        ]


def test_clean_stop_tells_the_clients(own_broker: Broker) -> None:
    wire = opened(own_broker)
    own_broker.stop()
    reply = wire.receive()
    assert (reply.name, reply.code) == ("connection.close", 320)
    assert reply.text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    wire.close()
    own_broker.start()


def test_unconfirmed_publishes_are_flushed_by_a_clean_stop(own_broker: Broker) -> None:
    """No confirm was asked for; the connection is closed in order before the broker stops."""
    with opened(own_broker) as wire:
        wire.ok(1, "queue.declare", queue="q", durable=True)
        for index in range(500):
            wire.publish(1, "", "q", str(index), delivery_mode=2)
        wire.ok(1, "channel.close", code=200)
    end(own_broker, "stop")
    with opened(own_broker) as wire:
        assert [int(message.body) for message in wire.get_all("q")] == list(range(500))


@pytest.mark.ours_only
def test_without_the_count_of_starts_epochs_go_on_from_the_logs(own_broker: Broker) -> None:
    """To remove a damaged ``boots.json`` is the way out its error names: nothing confirmed is lost by it."""
    with opened(own_broker) as wire:
        wire.ok(1, "queue.declare", queue="q", durable=True)
        publish_confirmed(wire, "", "q", ["first"], delivery_mode=2)
    for _ in range(3):  # the log's last batch stays of the first start, its checkpoint moves on
        end(own_broker, "stop")
    assert own_broker.stop() == 0
    (own_broker.data_dir / "boots.json").unlink()
    own_broker.start()
    with opened(own_broker) as wire:
        publish_confirmed(wire, "", "q", ["second"], delivery_mode=2)
    end(own_broker, "kill9")
    with opened(own_broker) as wire:
        assert wire.ok(1, "queue.declare", queue="q", durable=True).messages == 2
