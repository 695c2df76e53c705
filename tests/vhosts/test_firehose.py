"""The firehose: copies of all publishes and deliveries, with the headers measured on RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import Field, plain
from amqp_router.protocol.properties import decode_properties, encode_properties
from tests.nodes import TRANSIENT, Client, Received, SimNode, publish_frames
from vhosts import firehose
from vhosts.firehose import EXCHANGE


@pytest.fixture
def client() -> Client:
    client = Client(SimNode()).open(1, 2)
    client.declare("copies")
    client.call(m.QueueBind("copies", EXCHANGE, "#"), m.QueueBindOk)
    switch(client, on=True)
    return client


def switch(client: Client, *, on: bool) -> None:
    client.node.core.virtual_hosts.put("/", tracing=on)
    client.node.settle()
    client.take()


def copies(client: Client) -> list[tuple[str, dict[str, Any], bytes]]:
    """Routing key, headers and body of each copy; the queue is emptied."""
    client.node.quiet()
    client.take()
    found = []
    while True:
        client.send(m.BasicGet("copies", no_ack=True), channel=2)
        client.node.quiet()
        (received,) = client.take()
        if isinstance(received.method, m.BasicGetEmpty):
            return found
        assert isinstance(received.method, m.BasicGetOk)
        assert received.method.exchange == EXCHANGE
        properties = decode_properties(received.properties)
        assert list(properties) == ["headers"]
        found.append((received.method.routing_key, properties["headers"], received.body))


def text(value: str) -> Field:
    return ("S", value.encode())


def test_a_publish_is_copied(client: Client) -> None:
    for queue in ("q", "r"):
        client.declare(queue)
        client.call(m.QueueBind(queue, "amq.fanout", ""), m.QueueBindOk)
    headers = {
        "x": ("I", 1),
        "CC": ("A", [text("cc")]),
        "BCC": ("A", [text("zz")]),
    }
    properties = encode_properties(
        {"content_type": "text/plain", "headers": headers, "priority": 3, "timestamp": 1 << 40}
    )
    client.publish(b"hello", "k", "amq.fanout", properties)
    ((key, told, body),) = copies(client)
    assert (key, body) == ("publish.amq.fanout", b"hello")
    shown = {
        "content_type": text("text/plain"),
        "headers": ("F", {"x": headers["x"], "CC": headers["CC"]}),
        "priority": ("I", 3),
        "timestamp": ("l", 1 << 40),
    }
    assert told == {
        "exchange_name": text("amq.fanout"),
        "routing_keys": ("A", [text("k"), text("cc"), text("zz")]),
        "properties": ("F", shown),
        "node": text("node"),
        "vhost": text("/"),
        "connection": text(""),
        "channel": ("I", 1),
        "user": text("guest"),
        "routed_queues": ("A", [text("q"), text("r")]),
    }
    assert list(told)[-1] == "routed_queues"


def test_deliveries_and_gets_are_copied(client: Client) -> None:
    client.declare("q")
    client.publish(b"1", "q")
    client.publish(b"2", "q")
    client.call(m.BasicGet("q"), m.BasicGetOk)
    client.send(m.BasicNack(1), m.BasicConsume("q", "tag"))
    found = copies(client)
    assert [(key, body) for key, _, body in found] == [
        ("publish.", b"1"),
        ("publish.", b"2"),
        ("deliver.q", b"1"),
        ("deliver.q", b"1"),
        ("deliver.q", b"2"),
    ]
    told = plain(found[2][1])
    assert told == {
        "exchange_name": "",
        "routing_keys": ["q"],
        "properties": {},
        "node": "node",
        "redelivered": 0,
        "vhost": "/",
        "connection": "",
        "channel": 1,
        "user": "guest",
    }
    assert [plain(headers)["redelivered"] for _, headers, _ in found[2:]] == [0, 1, 0]


def test_unroutable_ones_are_copied_and_refused_ones_not(client: Client) -> None:
    client.publish(b"nowhere", "nobody")
    client.publish(b"refused", "k", "nope")
    ((key, told, body),) = copies(client)
    assert (key, body, plain(told)["routed_queues"]) == ("publish.", b"nowhere", [])


def test_in_a_transaction_the_publish_counts_not_the_commit(client: Client) -> None:
    client.declare("q")
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish(b"1", "q")
    assert [key for key, _, _ in copies(client)] == ["publish."]
    client.call(m.TxRollback(), m.TxRollbackOk)
    assert copies(client) == []


def test_it_never_copies_itself(client: Client) -> None:
    """Neither copies that a client takes nor their dead letters; a consumer of both would never end."""
    dead = {"x-dead-letter-exchange": text("amq.fanout"), "x-message-ttl": ("I", 10)}
    client.declare("short", arguments=dead)
    client.declare("dead")
    client.call(m.QueueBind("short", EXCHANGE, "publish.#"), m.QueueBindOk)
    client.call(m.QueueBind("dead", "amq.fanout", ""), m.QueueBindOk)
    for queue in ("copies", "dead"):
        client.call(m.BasicConsume(queue, queue, no_ack=True), m.BasicConsumeOk)
    client.publish(b"1", "nobody")
    client.node.sleep(1)
    client.node.settle()
    keys = [received.method.routing_key for received in delivered(client)]
    assert keys == ["publish.", "publish."]


def delivered(client: Client) -> list[Received]:
    return [received for received in client.take() if isinstance(received.method, m.BasicDeliver)]


def test_it_is_switched_off_and_on_and_stays_so_after_a_restart(client: Client) -> None:
    node = client.node
    switch(client, on=False)
    client.publish(b"1", "nobody")
    assert copies(client) == []
    switch(client, on=True)
    switch(client, on=True)
    client.publish(b"2", "nobody")
    assert len(copies(client)) == 1
    client.drop()
    node.settle()
    again = Client(SimNode(node.disk, node.definitions, boot=2)).open(1, 2)
    again.declare("copies")
    again.call(m.QueueBind("copies", EXCHANGE, "#"), m.QueueBindOk)
    again.publish(b"3", "nobody")
    assert [body for _, _, body in copies(again)] == [b"3"]


def test_copies_do_not_expire_and_are_not_stored(client: Client) -> None:
    node = client.node
    client.send(m.QueueDeclare("kept", durable=True), m.QueueBind("kept", EXCHANGE, "#"))
    node.settle()
    client.take()
    properties = encode_properties({"delivery_mode": 2, "expiration": "1"})
    client.publish(b"1", "nobody", properties=properties)
    node.sleep(1)
    ((_, told, _),) = copies(client)
    assert plain(told)["properties"] == {"delivery_mode": 2, "expiration": "1"}
    client.drop()
    node.settle()
    assert SimNode(node.disk, node.definitions, boot=2).queue("kept").message_count() == 0


def test_large_bodies_and_headers(client: Client) -> None:
    body = bytes(3 << 20)
    client.publish(body, "nobody")
    ((_, _, found),) = copies(client)
    assert found == body
    headers = {"filler": ("S", bytes(firehose.PROPERTIES_BYTES_MAX)), "h": ("I", 1)}
    client.publish(b"1", "nobody", properties=encode_properties({"headers": headers, "priority": 1}))
    ((_, told, found),) = copies(client)
    assert (plain(told)["properties"], found) == ({"priority": 1}, b"1")


def test_names_of_full_length(client: Client) -> None:
    name = "q" * 255
    client.declare(name)
    client.publish(b"1", name)
    client.call(m.BasicGet(name, no_ack=True), m.BasicGetOk)
    assert [len(key) for key, _, _ in copies(client)] == [8, 255]


def test_very_many_queues_are_named_in_part(client: Client) -> None:
    for number in range(firehose.QUEUES_MAX + 10):
        client.send(m.QueueDeclare(f"q{number}"), m.QueueBind(f"q{number}", "amq.fanout", ""))
    client.node.quiet()
    client.take()
    client.publish(b"1", "k", "amq.fanout")
    ((_, told, _),) = copies(client)
    assert len(plain(told)["routed_queues"]) == firehose.QUEUES_MAX


def test_a_copy_is_charged_to_whoever_publishes_or_delivers(client: Client) -> None:
    """A turn has room for some 4,000 deliveries; copies take a hundred times as long."""
    queue = client.declare("q")
    frames = publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"1", 4088)
    client.feed(b"".join(frames * 1000))
    client.node.turn()
    assert 0 < queue.publish_total < 1000
    client.node.quiet()
    assert queue.publish_total == 1000
    client.send(m.BasicConsume("q", "tag", no_ack=True))
    client.node.turn()
    assert 0 < queue.deliver_no_ack_total < 1000
    client.node.quiet()
    assert queue.deliver_no_ack_total == 1000
    assert len(copies(client)) == 2000


def test_without_a_binding_nothing_is_made(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.call(m.QueueUnbind("copies", EXCHANGE, "#"), m.QueueUnbindOk)
    monkeypatch.setattr(firehose.Firehose, "_copy", lambda *_: pytest.fail("made in vain"))
    client.publish(b"1", "nobody")
    client.node.quiet()
    assert not client.node.faults
