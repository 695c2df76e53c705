"""Deliveries that are not acknowledged in time: the channel closes, and they go back.

A node without a loop: time goes by when the test says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from amqp_router import late_timeouts
from amqp_router.channel import ack_watch
from amqp_router.channel import tags as tags_module
from amqp_router.channel.ack_watch import MARKS_MAX, tag_of_age
from amqp_router.late_timeouts import LateTimeouts
from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import decode_table, encode_plain
from tests.nodes import Client, SimNode


def typed(values: dict[str, Any]) -> Any:
    return decode_table(encode_plain(values), 0)[0]


TIMED = {"arguments": typed({"x-consumer-timeout": 8000})}


@pytest.fixture
def node() -> SimNode:
    return SimNode()


@pytest.fixture
def client(node: SimNode) -> Client:
    opened = Client(node)
    opened.open(1, 2)
    return opened


def consume(client: Client, name: str, *, channel: int = 1, no_ack: bool = False, **arguments: Any) -> None:
    method = m.BasicConsume(name, name, no_ack=no_ack, arguments=typed(arguments))
    client.call(method, m.BasicConsumeOk, channel=channel)


def tags(client: Client) -> list[int]:
    client.node.quiet()
    return [each.method.delivery_tag for each in client.take() if isinstance(each.method, m.BasicDeliver)]


def is_closed(client: Client) -> bool:
    """Whether channel 1 was closed by its timeout."""
    client.node.quiet()
    found = [each.method for each in client.take() if isinstance(each.method, m.ChannelClose)]
    if not found:
        return False
    (close,) = found
    assert (close.reply_code, close.class_id, close.method_id) == (406, 0, 0)
    assert close.reply_text == (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 8000 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    return True


def pass_by(client: Client, seconds: float) -> bool:
    """Let time go by in small steps; True if channel 1 was closed meanwhile."""
    closed = False
    for _ in range(round(seconds * 2)):
        client.node.sleep(0.5)
        closed |= is_closed(client)
    return closed


def test_delivery_that_is_never_acknowledged(node: SimNode, client: Client) -> None:
    queue = client.declare("q", **TIMED)
    consume(client, "q")
    client.publish(b"a", "q")
    client.publish(b"b", "q")
    assert tags(client) == [1, 2]
    assert not pass_by(client, 7.5)
    assert pass_by(client, 2.5)
    assert (queue.message_count(), queue.unacked_count, queue.consumer_count()) == (2, 0, 0)
    assert not pass_by(client, 60)  # it is said once


def test_what_is_acknowledged_in_time(node: SimNode, client: Client) -> None:
    """Another delivery is always outstanding, but none for long."""
    client.declare("q", **TIMED)
    consume(client, "q")
    for number in range(1, 40):
        client.publish(b"m", "q")
        assert tags(client) == [number]
        assert not pass_by(client, 3)
        if number > 1:
            client.send(m.BasicAck(number - 1))


def test_one_old_delivery_among_many(node: SimNode, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it stands in a block behind the ring."""
    monkeypatch.setattr(tags_module, "RING_PLACES_MAX", 64)
    monkeypatch.setattr(tags_module, "BLOCK_TAGS", 16)
    client.declare("q", **TIMED)
    consume(client, "q")
    number = 0
    while number < 1000:
        number += 1
        client.publish(b"m", "q")
        assert tags(client) == [number]
        if number != 7:
            client.send(m.BasicAck(number))
        if number % 100 == 0:
            node.sleep(1.0)
            if is_closed(client):
                break
    assert 800 <= number <= 1000


@pytest.mark.parametrize("how", ["consumer", "get", "policy", "both"])
def test_where_the_timeout_comes_from(node: SimNode, client: Client, how: str) -> None:
    if how == "both":
        client.declare("q", arguments=typed({"x-consumer-timeout": 60_000}))
    else:
        client.declare("q", **(TIMED if how == "get" else {}))
    client.publish(b"m", "q")
    if how == "get":
        client.call(m.BasicGet("q"), m.BasicGetOk)
    elif how in ("consumer", "both"):
        client.send(m.BasicConsume("q", "c", arguments=typed({"x-consumer-timeout": 8000})))
    else:
        client.send(m.BasicConsume("q", "c"))
        node.quiet()
        node.queue("q").obey({"consumer-timeout": 8000})
    client.take()
    assert not pass_by(client, 7.5)
    assert pass_by(client, 2.5)


@pytest.mark.parametrize("how", ["get", "cancelled", "cancelled, with another consumer"])
def test_a_policy_reaches_what_no_consumer_holds(
    node: SimNode, client: Client, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_timeouts, "SLICE", 1)
    client.declare("q")
    for _ in range(40):
        client.publish(b"m", "q")
    if how == "get":
        client.call(m.BasicGet("q"), m.BasicGetOk)
    else:
        client.declare("other")
        client.send(m.BasicConsume("q", "q"))
        node.quiet()
        client.send(m.BasicCancel("q"))
        node.quiet()
        client.take()
        if "another" in how:
            consume(client, "other")
    client.take()
    node.enter(node.queue("q").obey, {"consumer-timeout": 8000})
    node.quiet()
    assert not pass_by(client, 7.5)
    assert pass_by(client, 2.5)


def test_a_policy_of_another_queue_sets_no_timer(node: SimNode, client: Client) -> None:
    for name in ("q", "other"):
        client.declare(name)
        client.publish(b"m", name)
        client.call(m.BasicGet(name), m.BasicGetOk, channel=1 if name == "q" else 2)
    node.enter(node.queue("other").obey, {"consumer-timeout": 8000})
    node.quiet()
    assert client.machine.channels[1].ack_watch is None
    assert client.machine.channels[2].ack_watch is not None


def test_very_many_queues_that_get_a_timeout_cost_two_looks(node: SimNode, client: Client) -> None:
    looks = LateTimeouts(node.connections, node.in_slices)  # type: ignore[arg-type]
    begun: list[int] = []
    look_at_all = looks._look_at_all

    def counted() -> Iterator[int]:
        begun.append(1)
        return look_at_all()

    looks._look_at_all = counted  # type: ignore[method-assign]
    for _ in range(1000):
        looks.timeout_set()
    node.quiet()
    assert len(begun) == 2


def test_an_acknowledgement_that_waits_for_the_commit_counts(node: SimNode, client: Client) -> None:
    """Measured with RabbitMQ 3.10.8: the channel stays open."""
    client.declare("q", **TIMED)
    client.publish(b"1", "q")
    client.publish(b"2", "q")
    client.call(m.TxSelect(), m.TxSelectOk)
    client.call(m.BasicGet("q"), m.BasicGetOk)
    client.send(m.BasicAck(1))
    assert not pass_by(client, 30)
    client.call(m.BasicGet("q"), m.BasicGetOk)
    assert pass_by(client, 10)


def test_timeout_that_is_lifted(node: SimNode, client: Client) -> None:
    queue = client.declare("q")
    queue.obey({"consumer-timeout": 8000})
    client.publish(b"m", "q")
    consume_without_look(client)
    queue.obey({})
    assert not pass_by(client, 30)


def consume_without_look(client: Client) -> None:
    client.send(m.BasicConsume("q", "c"))
    client.node.quiet()
    client.take()


def test_deliveries_of_other_queues_have_no_timeout(node: SimNode, client: Client) -> None:
    """An older delivery without one hides no newer one with it."""
    client.declare("free")
    client.declare("q", **TIMED)
    consume(client, "free")
    consume(client, "q")
    client.publish(b"m", "free")
    assert tags(client) == [1]
    assert not pass_by(client, 30)
    client.publish(b"m", "q")
    assert tags(client) == [2]
    assert not pass_by(client, 7.5)
    assert pass_by(client, 2.5)


def test_consumer_that_is_cancelled_or_does_not_acknowledge(node: SimNode, client: Client) -> None:
    client.declare("q", **TIMED)
    consume(client, "q", no_ack=True)
    client.publish(b"m", "q")
    assert tags(client) == [1]
    assert not pass_by(client, 30)
    client.call(m.BasicCancel("q"), m.BasicCancelOk)
    consume(client, "q")
    client.publish(b"m", "q")
    assert tags(client) == [2]
    client.call(m.BasicCancel("q"), m.BasicCancelOk)
    assert pass_by(client, 10)


def test_channel_that_waits_for_nothing_has_no_timer(node: SimNode, client: Client) -> None:
    client.declare("q", **TIMED)
    consume(client, "q")
    client.call(m.BasicCancel("q"), m.BasicCancelOk)
    assert not pass_by(client, 3)
    timers = node.queue("q").timers_of_node()
    assert timers is not None
    assert not [timer for timer in timers._heap if timer.queue is not None]
    client.publish(b"m", "q")
    consume_without_look(client)  # it waits again
    assert pass_by(client, 10)
    assert not [timer for timer in timers._heap if timer.queue is not None]


def test_many_outstanding_are_looked_at_in_slices(
    node: SimNode, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ack_watch, "SCAN_SLICE", 16)
    client.declare("free")
    client.declare("q", **TIMED)
    consume(client, "free")
    consume(client, "q")
    for _ in range(200):
        client.publish(b"m", "free")
    client.publish(b"m", "q")
    assert len(tags(client)) == 201
    assert not pass_by(client, 7.5)
    assert pass_by(client, 4)


@pytest.mark.parametrize("value", ["a", -1, 1.5, True, None, [8000], {"a": 1}])
def test_wrong_arguments_have_no_effect(node: SimNode, client: Client, value: Any) -> None:
    """RabbitMQ looks neither at the type nor at the value."""
    wrong = typed({"x-consumer-timeout": value})
    client.declare("q", arguments=wrong)
    client.declare("q", arguments=TIMED["arguments"])  # nor are they compared
    client.call(m.BasicConsume("q", "c", arguments=wrong), m.BasicConsumeOk)
    client.publish(b"m", "q")
    assert tags(client) == [1]
    assert not pass_by(client, 100)


def test_marks_grow_coarse_but_never_early() -> None:
    marks = [(number * 10, number + 1) for number in range(MARKS_MAX)]
    assert tag_of_age(marks, 1000, 1001) == 0
    assert tag_of_age(marks, 1000, 1000) == 1
    assert tag_of_age(marks, 1000, 995) == 1
    assert tag_of_age(marks, 1000, 500) == 51
