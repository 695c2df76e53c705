"""Publisher confirms and returned messages.

Source: measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.wire import Received, Wire

Connect = Callable[..., Wire]


def confirmed(replies: list[Received], outstanding: set[int]) -> list[int]:
    """The tags these acks settle, in order; each exactly once."""
    order = []
    for reply in replies:
        if reply.name != "basic.ack":
            continue
        tags = [reply.delivery_tag]
        if reply.multiple:
            tags = sorted(tag for tag in outstanding if tag <= reply.delivery_tag)
        assert tags, f"an ack that settles nothing: {reply}"
        for tag in tags:
            outstanding.remove(tag)
            order.append(tag)
    return order


def test_select_twice(wire: Wire) -> None:
    wire.ok(1, "confirm.select")
    wire.ok(1, "confirm.select")


def test_tags_count_from_select(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.publish(1, "", name, b"before")
    wire.ok(1, "confirm.select")
    wire.publish(1, "", name, b"after")
    assert wire.receive().fields == {"delivery_tag": 1, "multiple": False}
    assert wire.ready(name) == 2


def test_return_comes_before_its_ack(wire: Wire, name: str) -> None:
    """Unroutable messages are confirmed as well; only mandatory ones come back."""
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "confirm.select")
    wire.publish(1, "amq.direct", "nowhere", b"m", mandatory=True, message_id="id", headers={"a": 1})
    wire.publish(1, "", name, b"ok", mandatory=True)
    wire.publish(1, "", "nowhere", b"x")
    replies: list[Received] = []
    outstanding, tags = {1, 2, 3}, []
    while outstanding:
        replies.append(wire.receive())
        tags += confirmed(replies[-1:], outstanding)
    assert replies[0] == Received(
        1,
        "basic.return",
        {"code": 312, "text": "NO_ROUTE", "exchange": "amq.direct", "routing_key": "nowhere"},
        {"message_id": "id", "headers": {"a": 1}},
        b"m",
    )
    assert [reply.name for reply in replies[1:]] == ["basic.ack"] * len(replies[1:])
    assert sorted(tags) == [1, 2, 3]
    assert wire.until_quiet() == []


def test_return_without_confirms(wire: Wire) -> None:
    wire.publish(1, "", "nowhere", b"m" * 300_000, mandatory=True)
    reply = wire.receive()
    assert (reply.name, reply.code, len(reply.body)) == ("basic.return", 312, 300_000)
    wire.publish(1, "", "nowhere", b"m")
    wire.ok(1, "basic.qos")


@pytest.mark.parametrize("durable", [True, False])
def test_every_tag_is_confirmed_once(wire: Wire, name: str, durable: bool) -> None:
    """200 publishes, persistent and transient by turns, every seventh unroutable."""
    wire.ok(1, "queue.declare", queue=name, durable=durable)
    wire.ok(1, "confirm.select")
    for index in range(200):
        key = "nowhere" if index % 7 == 0 else name
        wire.publish(1, "", key, b"p", delivery_mode=2 if index % 2 else 1)
    replies: list[Received] = []
    outstanding = set(range(1, 201))
    while outstanding:
        reply = wire.receive()
        replies.append(reply)
        confirmed([reply], outstanding)
    assert {reply.name for reply in replies} == {"basic.ack"}
    assert wire.ok(1, "queue.delete", queue=name).messages == 200 - 29


def test_channels_count_on_their_own(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, durable=True)
    for channel in (2, 3):
        wire.open_channel(channel, confirm=True)
    for index in range(50):
        wire.publish(2 + index % 2, "", name, b"p", delivery_mode=2)
    outstanding = {2: set(range(1, 26)), 3: set(range(1, 26))}
    while any(outstanding.values()):
        reply = wire.receive()
        confirmed([reply], outstanding[reply.channel])
    assert wire.ok(1, "queue.delete", queue=name).messages == 50


def test_fanout_is_confirmed_when_all_have_it(wire: Wire, connect: Connect, name: str) -> None:
    queues = [f"{name}-{index}" for index in range(20)]
    for index, queue in enumerate(queues):
        wire.ok(1, "queue.declare", queue=queue, durable=index % 2 == 0)
        wire.ok(1, "queue.bind", queue=queue, exchange="amq.fanout")
    wire.ok(1, "confirm.select")
    for _ in range(10):
        wire.publish(1, "amq.fanout", "", b"p", delivery_mode=2)
    outstanding = set(range(1, 11))
    while outstanding:
        confirmed([wire.receive()], outstanding)
    other = connect()
    other.open_channel(1)
    assert [other.ok(1, "queue.delete", queue=queue).messages for queue in queues] == [10] * 20


def test_confirm_when_the_queue_is_deleted_meanwhile(wire: Wire, name: str) -> None:
    """A target that is deleted counts as settled: the confirm must come."""
    wire.ok(1, "confirm.select")
    wire.open_channel(2)
    for _ in range(5):
        wire.ok(1, "queue.declare", queue=name, durable=True)
        for _ in range(20):
            wire.publish(1, "", name, b"p" * 2000, delivery_mode=2)
        wire.send(2, "queue.delete", queue=name)
        pending = 20
        deleted = False
        first = 0
        while pending or not deleted:
            reply = wire.receive()
            if reply.name == "queue.delete-ok":
                deleted = True
            else:
                assert reply.name == "basic.ack", reply
                settled = (reply.delivery_tag - 1) % 20 + 1 if reply.multiple else first + 1
                pending -= settled - first
                first = settled


def test_confirm_of_a_large_message(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, durable=True)
    wire.ok(1, "confirm.select")
    body = bytes(range(256)) * 20_000
    wire.publish(1, "", name, body, delivery_mode=2)
    wire.publish(1, "", name, b"small", delivery_mode=2)
    outstanding = {1, 2}
    while outstanding:
        confirmed([wire.receive()], outstanding)
    messages = wire.get_all(name)
    assert [message.body for message in messages] == [body, b"small"]
    wire.ok(1, "queue.delete", queue=name)


def test_each_message_got_as_it_is_published(connect: Connect) -> None:
    """Each get of a queue without consumers closes a batch of its log: a round has hundreds of them."""
    wire = connect()
    wire.open_channel(1)
    wire.open_channel(2, confirm=True)
    wire.ok(1, "queue.declare", queue="got at once", durable=True)
    published = got = confirmed = 0
    for _ in range(3):
        for _ in range(2000):
            wire.publish(2, "", "got at once", "x", delivery_mode=2)
            wire.send(1, "basic.get", queue="got at once", no_ack=True)
        published += 2000
        while got < published or confirmed < published:
            received = wire.receive(30)
            assert received.name in ("basic.get-ok", "basic.get-empty", "basic.ack"), received
            if received.name == "basic.ack":
                confirmed = received.delivery_tag if received.multiple else confirmed + 1
            else:
                got += 1
    wire.ok(1, "queue.delete", queue="got at once")
