"""Delivery order, acknowledgement, requeue positions, the redelivered flag, prefetch and cancelling.

Source: measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.interop.wire import Received, Wire

Connect = Callable[..., Wire]


@pytest.fixture(params=["exclusive", "durable"])
def queue(wire: Wire, name: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty queue; durable ones are logged, and get persistent messages from ``fill``."""
    if request.param == "durable":
        name = f"{name}-durable"
    wire.ok(1, "queue.delete", queue=name)
    wire.ok(
        1,
        "queue.declare",
        queue=name,
        durable=request.param == "durable",
        exclusive=request.param != "durable",
    )
    yield name
    delete(wire, name)


def delete(wire: Wire, queue: str) -> None:
    wire.open_channel(99)
    wire.send(99, "queue.delete", queue=queue)
    while wire.receive().name != "queue.delete-ok":
        pass


def fill(wire: Wire, queue: str, bodies: str | Sequence[str], channel: int = 50) -> None:
    """Publish, persistently if the queue is durable, and wait until they are there."""
    wire.open_channel(channel, confirm=True)
    mode = 2 if queue.endswith("durable") else 1
    for body in bodies:
        wire.publish(channel, "", queue, body, delivery_mode=mode)
    confirmed = 0
    while confirmed < len(bodies):
        reply = wire.receive()
        assert reply.name == "basic.ack", reply
        confirmed = confirmed + 1 if not reply.multiple else reply.delivery_tag
    wire.ok(channel, "channel.close", code=200)


def got(messages: Sequence[Received | None]) -> list[tuple[str, bool, int]]:
    return [(m.body.decode(), m.redelivered, m.delivery_tag) for m in messages if m is not None]


def get(wire: Wire, queue: str, count: int) -> list[tuple[str, bool, int]]:
    """Get with manual acknowledgement; body, redelivered, delivery tag."""
    return got([wire.get(queue, no_ack=False) for _ in range(count)])


def deliveries(wire: Wire, count: int) -> list[tuple[str, bool, int]]:
    """Exactly ``count`` deliveries, and silence."""
    result = got(wire.receive_named("basic.deliver", count))
    assert wire.until_quiet() == []
    return result


def settle(wire: Wire, name: str, tag: int, **fields: bool) -> None:
    """Ack, nack or reject, and wait long enough for RabbitMQ's queue process to have done it."""
    wire.send(1, name, delivery_tag=tag, **fields)
    wire.ok(1, "basic.qos")
    time.sleep(0.05)


def test_requeue_restores_the_position(wire: Wire, queue: str) -> None:
    fill(wire, queue, "012345")
    assert get(wire, queue, 4) == [("0", False, 1), ("1", False, 2), ("2", False, 3), ("3", False, 4)]
    settle(wire, "basic.reject", 2, requeue=True)
    assert get(wire, queue, 2) == [("1", True, 5), ("4", False, 6)]
    settle(wire, "basic.nack", 0, multiple=True, requeue=True)
    in_order = [("0", True), ("1", True), ("2", True), ("3", True), ("4", True), ("5", False)]
    assert [(body, redelivered) for body, redelivered, _ in get(wire, queue, 6)] == in_order
    wire.ok(1, "basic.recover", requeue=True)
    time.sleep(0.05)
    again = get(wire, queue, 6)
    assert again == [(body, True, 13 + index) for index, (body, _) in enumerate(in_order)]


def test_get_ok_counts_what_remains(wire: Wire, queue: str) -> None:
    fill(wire, queue, "abc")
    messages = [wire.get(queue) for _ in range(4)]
    assert [message and message.messages for message in messages] == [2, 1, 0, None]


def test_recover_async(wire: Wire, queue: str) -> None:
    fill(wire, queue, "ab")
    assert get(wire, queue, 2) == [("a", False, 1), ("b", False, 2)]
    wire.send(1, "basic.recover-async", requeue=True)
    wire.ok(1, "basic.qos")
    time.sleep(0.05)
    assert get(wire, queue, 2) == [("a", True, 3), ("b", True, 4)]


def test_recover_redelivers_to_a_consumer(wire: Wire, queue: str) -> None:
    fill(wire, queue, "ab")
    wire.ok(1, "basic.consume", queue=queue)
    assert deliveries(wire, 2) == [("a", False, 1), ("b", False, 2)]
    wire.send(1, "basic.recover", requeue=True)
    replies = wire.until_quiet(expected=3)
    assert got([r for r in replies if r.name == "basic.deliver"]) == [("a", True, 3), ("b", True, 4)]
    assert [r.name for r in replies].count("basic.recover-ok") == 1


def test_cancel_leaves_unacked_with_the_channel(wire: Wire, queue: str) -> None:
    fill(wire, queue, "0123")
    wire.ok(1, "basic.consume", queue=queue, tag="t")
    assert deliveries(wire, 4) == [("0", False, 1), ("1", False, 2), ("2", False, 3), ("3", False, 4)]
    assert wire.ok(1, "basic.cancel", tag="t").tag == "t"
    assert wire.ready(queue) == 0
    settle(wire, "basic.ack", 2)
    settle(wire, "basic.nack", 4, multiple=True, requeue=True)
    assert get(wire, queue, 4) == [("0", True, 5), ("2", True, 6), ("3", True, 7)]


def test_nothing_is_delivered_after_cancel_ok(wire: Wire, connect: Connect, queue: str) -> None:
    publisher = connect()
    publisher.open_channel(1)
    wire.ok(1, "basic.consume", queue=queue, tag="t", no_ack=True)
    for index in range(300):
        publisher.publish(1, "", queue, str(index), delivery_mode=2 if queue.endswith("durable") else 1)
    wire.send(1, "basic.cancel", tag="t")
    while (reply := wire.receive()).name == "basic.deliver":
        pass
    assert reply.name == "basic.cancel-ok"
    assert wire.until_quiet() == []


@pytest.mark.parametrize("end", ["channel", "close", "drop"])
def test_what_was_unacked_returns_in_order(wire: Wire, connect: Connect, name: str, end: str) -> None:
    other = connect()
    other.open_channel(1)
    other.ok(1, "queue.declare", queue=name)
    fill(wire, name, "01234")
    other.ok(1, "basic.qos", count=4)
    other.ok(1, "basic.consume", queue=name)
    assert deliveries(other, 4) == [("0", False, 1), ("1", False, 2), ("2", False, 3), ("3", False, 4)]
    other.send(1, "basic.ack", delivery_tag=2)
    assert deliveries(other, 1) == [("4", False, 5)]
    if end == "channel":
        other.ok(1, "channel.close", code=200)
    else:
        getattr(other, end)()
    for _ in range(400):
        if wire.ready(name) == 4:
            break
        time.sleep(0.05)
    assert get(wire, name, 5) == [("0", True, 1), ("2", True, 2), ("3", True, 3), ("4", True, 4)]
    wire.ok(1, "queue.delete", queue=name)


def test_ack_multiple(wire: Wire, queue: str) -> None:
    fill(wire, queue, "012345")
    get(wire, queue, 6)
    settle(wire, "basic.ack", 2)
    settle(wire, "basic.ack", 4, multiple=True)
    wire.ok(1, "basic.recover", requeue=True)
    time.sleep(0.05)
    assert get(wire, queue, 6) == [("4", True, 7), ("5", True, 8)]
    settle(wire, "basic.ack", 0, multiple=True)
    reply = wire.call(1, "basic.recover", requeue=True)
    assert reply.name == "basic.recover-ok"
    assert get(wire, queue, 1) == []


def test_ack_of_one_between_others(wire: Wire, queue: str) -> None:
    fill(wire, queue, "01234")
    get(wire, queue, 5)
    for tag in (3, 5, 1):
        settle(wire, "basic.ack", tag)
    wire.ok(1, "basic.recover", requeue=True)
    time.sleep(0.05)
    assert get(wire, queue, 5) == [("1", True, 6), ("3", True, 7)]


def test_reject_without_requeue_drops(wire: Wire, queue: str) -> None:
    fill(wire, queue, "ab")
    get(wire, queue, 2)
    settle(wire, "basic.reject", 1, requeue=False)
    settle(wire, "basic.nack", 2, requeue=False)
    wire.ok(1, "basic.recover", requeue=True)
    assert get(wire, queue, 1) == []


def test_prefetch_per_consumer(wire: Wire, queue: str) -> None:
    """qos(global=false) is for consumers started later, each on its own."""
    fill(wire, queue, "0123456789")
    wire.ok(1, "basic.qos", count=2)
    wire.send(1, "basic.consume", queue=queue, tag="A")
    wire.send(1, "basic.consume", queue=queue, tag="B")
    replies = wire.until_quiet(expected=6)
    pairs = [(r.tag, r.body) for r in replies if r.name == "basic.deliver"]
    assert sorted(pairs) == [("A", b"0"), ("A", b"1"), ("B", b"2"), ("B", b"3")]
    wire.ok(1, "basic.qos", count=5)
    wire.send(1, "basic.ack", delivery_tag=1)
    assert deliveries(wire, 1) == [("4", False, 5)]


def test_prefetch_of_the_channel(wire: Wire, queue: str) -> None:
    """qos(global=true) counts at once, over all consumers, and lowering it pauses delivery."""
    fill(wire, queue, "0123456789")
    wire.ok(1, "basic.qos", count=2)
    wire.ok(1, "basic.consume", queue=queue, tag="A")
    assert deliveries(wire, 2) == [("0", False, 1), ("1", False, 2)]
    wire.ok(1, "basic.consume", queue=queue, tag="B")
    assert deliveries(wire, 2) == [("2", False, 3), ("3", False, 4)]
    wire.ok(1, "basic.qos", count=1, is_global=True)
    wire.send(1, "basic.ack", delivery_tag=1)
    assert wire.until_quiet() == []
    wire.send(1, "basic.ack", delivery_tag=4, multiple=True)
    assert deliveries(wire, 1) == [("4", False, 5)]
    wire.ok(1, "basic.qos", count=3, is_global=True)
    assert len(deliveries(wire, 2)) == 2


def test_later_global_false_lifts_the_channels_limit(wire: Wire, queue: str) -> None:
    """RabbitMQ 3.10's reading."""
    fill(wire, queue, "0123456789")
    wire.ok(1, "basic.qos", count=1, is_global=True)
    wire.ok(1, "basic.consume", queue=queue, tag="A")
    assert deliveries(wire, 1) == [("0", False, 1)]
    wire.ok(1, "basic.qos", count=5)
    wire.send(1, "basic.ack", delivery_tag=1)
    assert len(deliveries(wire, 9)) == 9


def test_both_limits_hold_when_global_comes_second(wire: Wire, queue: str) -> None:
    fill(wire, queue, "0123456789")
    wire.ok(1, "basic.qos", count=2)
    wire.ok(1, "basic.qos", count=3, is_global=True)
    wire.send(1, "basic.consume", queue=queue, tag="A")
    wire.send(1, "basic.consume", queue=queue, tag="B")
    replies = [reply for reply in wire.until_quiet(expected=5) if reply.name == "basic.deliver"]
    assert Counter(reply.tag for reply in replies) == {"A": 2, "B": 1}


def test_lifting_a_limit_resumes_delivery(wire: Wire, queue: str) -> None:
    fill(wire, queue, "0123")
    wire.ok(1, "basic.qos", count=1, is_global=True)
    wire.ok(1, "basic.consume", queue=queue)
    assert deliveries(wire, 1) == [("0", False, 1)]
    wire.ok(1, "basic.qos", count=0, is_global=True)
    assert deliveries(wire, 3) == [("1", False, 2), ("2", False, 3), ("3", False, 4)]


def test_prefetch_does_not_hold_no_ack_consumers_and_gets(wire: Wire, queue: str) -> None:
    fill(wire, queue, "0123456")
    wire.ok(1, "basic.qos", count=1, is_global=True)
    assert get(wire, queue, 2) == [("0", False, 1), ("1", False, 2)]
    wire.ok(1, "basic.consume", queue=queue, tag="acked")
    assert deliveries(wire, 1) == [("2", False, 3)]
    wire.ok(1, "basic.cancel", tag="acked")
    wire.ok(1, "basic.qos", count=1)
    wire.ok(1, "basic.consume", queue=queue, no_ack=True)
    assert deliveries(wire, 4) == [("3", False, 4), ("4", False, 5), ("5", False, 6), ("6", False, 7)]


def test_no_ack_deliveries_use_tags_too(wire: Wire, queue: str) -> None:
    fill(wire, queue, "ab")
    first = wire.get(queue)
    assert first is not None
    assert first.delivery_tag == 1
    wire.ok(1, "basic.consume", queue=queue)
    assert deliveries(wire, 1) == [("b", False, 2)]


def test_consumers_take_turns(wire: Wire, queue: str) -> None:
    wire.ok(1, "basic.consume", queue=queue, tag="1", no_ack=True)
    wire.ok(1, "basic.consume", queue=queue, tag="2", no_ack=True)
    for body in "012345":
        wire.publish(1, "", queue, body)
        assert wire.receive().tag == "12"[int(body) % 2]


def test_a_newcomer_is_served_last(wire: Wire, queue: str) -> None:
    """Who was in line before it comes first."""
    turns = ""
    for tag, count in (("A", 1), ("B", 4), ("C", 5)):
        wire.ok(1, "basic.consume", queue=queue, tag=tag, no_ack=True)
        for _ in range(count):
            wire.publish(1, "", queue, b"x")
            turns += wire.receive().tag
    assert turns == "A" + "ABAB" + "ABCAB"


def test_consumers_without_credit_are_passed_over(wire: Wire, queue: str) -> None:
    wire.ok(1, "basic.qos", count=1)
    wire.ok(1, "basic.consume", queue=queue, tag="slow")
    wire.ok(1, "basic.qos", count=0)
    wire.ok(1, "basic.consume", queue=queue, tag="quick")
    for body in "0123":
        wire.publish(1, "", queue, body)
    assert Counter(d.tag for d in wire.receive_named("basic.deliver", 4)) == {"slow": 1, "quick": 3}


def test_consume_ok_comes_before_deliveries(wire: Wire, queue: str) -> None:
    fill(wire, queue, "abc")
    reply = wire.ok(1, "basic.consume", queue=queue)
    assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", reply.tag)
    assert {d.tag for d in wire.receive_named("basic.deliver", 3)} == {reply.tag}


def test_consumer_tags_are_of_one_channel(wire: Wire, queue: str) -> None:
    wire.open_channel(2)
    wire.ok(1, "basic.consume", queue=queue, tag="same")
    wire.ok(2, "basic.consume", queue=queue, tag="same")
    wire.ok(1, "basic.cancel", tag="same")
    wire.ok(1, "basic.consume", queue=queue, tag="same")


def test_exclusive_consumer_lets_others_get(wire: Wire, queue: str) -> None:
    wire.open_channel(2)
    wire.ok(1, "basic.qos", count=1)
    wire.ok(1, "basic.consume", queue=queue, tag="only", exclusive=True)
    fill(wire, queue, [])
    wire.publish(1, "", queue, "a")
    wire.publish(1, "", queue, "b")
    assert deliveries(wire, 1) == [("a", False, 1)]
    message = wire.get(queue, channel=2)
    assert message is not None
    assert message.body == b"b"
    wire.ok(1, "basic.cancel", tag="only")
    wire.ok(2, "basic.consume", queue=queue, exclusive=True)


def test_two_channels_share_by_credit(wire: Wire, queue: str) -> None:
    for channel in (2, 3):
        wire.open_channel(channel)
        wire.ok(channel, "basic.qos", count=3)
        wire.ok(channel, "basic.consume", queue=queue)
    for body in "01234567":
        wire.publish(1, "", queue, body)
    first = wire.receive_named("basic.deliver", 6)
    assert Counter(d.channel for d in first) == {2: 3, 3: 3}
    assert wire.until_quiet() == []
    wire.ok(2, "channel.close", code=200)
    # what channel 2 had stays undelivered: channel 3 has no credit
    assert wire.until_quiet() == []
    assert wire.ready(queue) == 5
    wire.send(3, "basic.ack", delivery_tag=0, multiple=True)
    rest = wire.receive_named("basic.deliver", 3)
    mine = [d.body for d in first if d.channel == 2]
    assert [(d.body, d.redelivered) for d in rest] == [(body, True) for body in mine]


def test_unacked_queue_deleted_and_declared_again(wire: Wire, queue: str) -> None:
    """A late ack of the old queue's message does not touch the new one's."""
    fill(wire, queue, "ab")
    get(wire, queue, 1)
    durable = queue.endswith("durable")
    wire.ok(1, "queue.delete", queue=queue)
    wire.ok(1, "queue.declare", queue=queue, durable=durable, exclusive=not durable)
    fill(wire, queue, "xy")
    settle(wire, "basic.ack", 1)
    assert get(wire, queue, 3) == [("x", False, 2), ("y", False, 3)]
    wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    wire.ok(1, "basic.qos")
    time.sleep(0.05)
    assert get(wire, queue, 3) == [("x", True, 4), ("y", True, 5)]


@pytest.mark.parametrize("size", [0, 1, 4087, 131064, 131065, 1_048_576, 3_000_000])
def test_bodies_of_every_size(wire: Wire, queue: str, size: int) -> None:
    body = bytes(index * 7 % 251 for index in range(1000)) * (size // 1000 + 1)
    wire.ok(1, "basic.consume", queue=queue)
    mode = 2 if queue.endswith("durable") else 1
    wire.publish(1, "", queue, body[:size], delivery_mode=mode)
    message = wire.receive()
    assert message.body == body[:size]
    wire.send(1, "basic.reject", delivery_tag=1, requeue=True)
    again = wire.receive()
    assert (again.body, again.redelivered, again.properties) == (body[:size], True, {"delivery_mode": mode})


def test_many_requeues_in_mixed_order(wire: Wire, queue: str) -> None:
    """A thousand messages, nacked back in blocks from both ends: order stays that of publishing."""
    bodies = [str(index) for index in range(1000)]
    fill(wire, queue, bodies)
    wire.ok(1, "basic.consume", queue=queue, tag="t")
    wire.receive_named("basic.deliver", 1000)
    wire.ok(1, "basic.cancel", tag="t")
    for tag in range(900, 1001):
        wire.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    wire.send(1, "basic.nack", delivery_tag=300, multiple=True, requeue=True)
    for tag in range(301, 900, 2):
        wire.send(1, "basic.nack", delivery_tag=tag, requeue=True)
    for tag in range(302, 900, 4):
        wire.send(1, "basic.ack", delivery_tag=tag)
    wire.ok(1, "channel.close", code=200)
    wire.open_channel(1)
    time.sleep(0.1)
    expected = [body for body in bodies if not (301 <= int(body) <= 898 and (int(body) + 1 - 302) % 4 == 0)]
    wire.ok(1, "basic.consume", queue=queue, no_ack=True)
    messages = wire.receive_named("basic.deliver", len(expected))
    assert [message.body.decode() for message in messages] == expected
    assert all(message.redelivered for message in messages)
