"""Names, lifetimes and counts of queues and exchanges.

Source: measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.interop.wire import CAPABILITIES, Received, Wire

Connect = Callable[..., Wire]


def gone(wire: Wire, queue: str, channel: int = 9) -> bool:
    """Does a passive declare say 404 in the end? Asked on a channel of its own."""
    for _ in range(400):
        wire.open_channel(channel)
        reply = wire.call(channel, "queue.declare", queue=queue, passive=True)
        if reply.name == "channel.close":
            wire.send(channel, "channel.close-ok")
            return bool(reply.code == 404)
        wire.ok(channel, "channel.close", code=200)
        time.sleep(0.05)
    return False


def test_server_named_queues(wire: Wire) -> None:
    names = {wire.ok(1, "queue.declare", exclusive=True).queue for _ in range(20)}
    assert len(names) == 20
    for name in names:
        assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name)
    assert gone(wire, "amq.gen-0000000000000000000000") is True


def test_the_last_declared_queue_stands_for_an_empty_name(wire: Wire, name: str) -> None:
    """Also as routing key, if that is empty too."""
    wire.ok(1, "queue.declare", queue=f"{name}-earlier", exclusive=True)
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "queue.bind", queue="", exchange="amq.direct", routing_key="")
    wire.publish(1, "amq.direct", name, b"x")
    wire.publish(1, "amq.direct", "", b"not this")
    time.sleep(0.1)
    assert wire.ok(1, "basic.get", queue="", no_ack=True).body == b"x"
    assert wire.ok(1, "queue.purge", queue="").messages == 0
    assert wire.ok(1, "basic.consume", queue="", tag="t").tag == "t"
    wire.ok(1, "queue.unbind", queue="", exchange="amq.direct", routing_key="")
    wire.ok(1, "basic.cancel", tag="t")
    wire.ok(1, "queue.delete", queue="")
    assert gone(wire, name)
    assert not gone(wire, f"{name}-earlier")


def test_the_last_declared_queue_is_of_one_channel(wire: Wire, name: str) -> None:
    wire.open_channel(2)
    wire.ok(2, "queue.declare", queue=name, exclusive=True)
    reply = wire.call(1, "queue.bind", queue="", exchange="amq.direct", routing_key="x")
    assert (reply.code, reply.text) == (404, "NOT_FOUND - no previously declared queue")


def test_declare_ok_counts(wire: Wire, name: str) -> None:
    first = wire.ok(1, "queue.declare", queue=name, exclusive=True)
    assert (first.queue, first.messages, first.consumers) == (name, 0, 0)
    wire.ok(1, "confirm.select")
    for _ in range(3):
        wire.publish(1, "", name, b"x")
    wire.confirmed(3)
    assert wire.get(name, no_ack=False) is not None
    again = wire.ok(1, "queue.declare", queue=name, exclusive=True)
    assert (again.messages, again.consumers) == (2, 0)
    wire.ok(1, "basic.consume", queue=name, tag="a")
    wire.receive_named("basic.deliver", 2)
    wire.ok(1, "basic.consume", queue=name, tag="b", no_ack=True)
    again = wire.ok(1, "queue.declare", queue=name, passive=True)
    assert (again.messages, again.consumers) == (0, 2)


def test_nowait(wire: Wire, name: str) -> None:
    """No answers, and everything done in order."""
    wire.send(1, "queue.declare", queue=name, exclusive=True, nowait=True)
    wire.send(1, "exchange.declare", exchange=name, type="fanout", nowait=True)
    wire.send(1, "queue.bind", queue=name, exchange=name, nowait=True)
    wire.send(1, "confirm.select", nowait=True)
    wire.publish(1, name, "", b"x")
    assert wire.receive().name == "basic.ack"
    wire.send(1, "queue.purge", queue=name, nowait=True)
    wire.publish(1, name, "", b"y")
    assert wire.receive().name == "basic.ack"
    wire.send(1, "basic.consume", queue=name, nowait=True)
    delivery = wire.receive()
    assert (delivery.name, delivery.body) == ("basic.deliver", b"y")
    assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", delivery.tag)
    wire.send(1, "basic.cancel", tag=delivery.tag, nowait=True)
    wire.send(1, "queue.delete", queue=name, nowait=True)
    wire.send(1, "exchange.delete", exchange=name, nowait=True)
    assert wire.ok(1, "queue.delete", queue=name).messages == 0
    assert gone(wire, name)


def test_auto_delete_goes_with_the_last_consumer(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, auto_delete=True)
    assert wire.get(name) is None
    wire.ok(1, "basic.consume", queue=name, tag="a")
    wire.ok(1, "basic.consume", queue=name, tag="b")
    wire.ok(1, "basic.cancel", tag="a")
    assert wire.ready(name) == 0
    wire.ok(1, "basic.cancel", tag="b")
    assert gone(wire, name)


def test_auto_delete_when_the_channel_or_connection_of_the_last_consumer_goes(
    wire: Wire, connect: Connect, name: str
) -> None:
    for queue, end in ((f"{name}-1", "channel"), (f"{name}-2", "close"), (f"{name}-3", "drop")):
        other = connect()
        other.open_channel(1)
        other.ok(1, "queue.declare", queue=queue, auto_delete=True)
        other.ok(1, "basic.consume", queue=queue)
        if end == "channel":
            other.ok(1, "channel.close", code=200)
        else:
            getattr(other, end)()
        assert gone(wire, queue), end


def test_auto_delete_without_a_consumer_ever_stays(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, auto_delete=True)
    assert wire.get(name) is None
    time.sleep(0.1)
    assert wire.ready(name) == 0
    wire.ok(1, "queue.delete", queue=name)


def test_exclusive_goes_with_its_connection(wire: Wire, connect: Connect, name: str) -> None:
    for queue, end in ((f"{name}-1", "close"), (f"{name}-2", "drop")):
        owner = connect()
        owner.open_channel(1)
        owner.ok(1, "queue.declare", queue=queue, exclusive=True, durable=True)
        owner.publish(1, "", queue, b"x", delivery_mode=2)
        owner.ok(1, "channel.close", code=200)
        owner.open_channel(1)
        assert owner.ready(queue) == 1  # the connection owns it, not the channel
        getattr(owner, end)()
        assert gone(wire, queue), end
        wire.ok(1, "queue.declare", queue=queue, exclusive=True)
        assert wire.ready(queue) == 0


def test_auto_delete_exchange_goes_with_its_last_binding(wire: Wire, name: str) -> None:
    def exists(exchange: str) -> bool:
        wire.open_channel(2)
        reply = wire.call(2, "exchange.declare", exchange=exchange, type="fanout", passive=True)
        if reply.name == "exchange.declare-ok":
            wire.ok(2, "channel.close", code=200)
            return True
        wire.send(2, "channel.close-ok")
        return False

    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    for exchange in (f"{name}-a", f"{name}-b", f"{name}-c"):
        wire.ok(1, "exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
    wire.ok(1, "queue.bind", queue=name, exchange=f"{name}-a", routing_key="1")
    wire.ok(1, "queue.bind", queue=name, exchange=f"{name}-a", routing_key="2")
    wire.ok(1, "queue.unbind", queue=name, exchange=f"{name}-a", routing_key="1")
    assert exists(f"{name}-a")
    wire.ok(1, "queue.unbind", queue=name, exchange=f"{name}-a", routing_key="2")
    assert not exists(f"{name}-a")
    # b is bound to c: with c's queue gone c goes, and with c its binding to b
    wire.ok(1, "exchange.bind", destination=f"{name}-c", source=f"{name}-b")
    wire.ok(1, "queue.bind", queue=name, exchange=f"{name}-c")
    assert exists(f"{name}-b")
    assert exists(f"{name}-c")
    wire.ok(1, "queue.delete", queue=name)
    assert not exists(f"{name}-c")
    assert not exists(f"{name}-b")


def test_delete_exchange_if_unused(wire: Wire, name: str) -> None:
    """A binding as source counts, one as destination does not."""
    wire.ok(1, "exchange.declare", exchange=name, type="fanout")
    wire.ok(1, "exchange.bind", destination=name, source="amq.fanout")
    wire.ok(1, "exchange.delete", exchange=name, if_unused=True)


def test_purge_and_delete_count_ready_messages_only(wire: Wire, name: str) -> None:
    """Unacked ones survive a purge; acks after the delete are fine."""
    wire.ok(1, "queue.declare", queue=name)
    wire.ok(1, "confirm.select")
    for body in "abcde":
        wire.publish(1, "", name, body)
    wire.confirmed(5)
    for _ in range(2):
        assert wire.get(name, no_ack=False) is not None
    assert wire.ok(1, "queue.purge", queue=name).messages == 3
    wire.send(1, "basic.reject", delivery_tag=1, requeue=True)
    time.sleep(0.05)
    assert wire.ready(name) == 1
    assert wire.ok(1, "queue.delete", queue=name).messages == 1
    wire.send(1, "basic.ack", delivery_tag=2)
    wire.ok(1, "basic.qos")
    assert gone(wire, name)


def test_deleting_a_queue_cancels_its_consumers(connect: Connect, wire: Wire, name: str) -> None:
    """Only of clients that can be told so."""
    deaf = connect(capabilities={**CAPABILITIES, "consumer_cancel_notify": False})
    deaf.open_channel(1)
    wire.open_channel(2)
    wire.ok(1, "queue.declare", queue=name)
    wire.ok(2, "basic.consume", queue=name, tag="T")
    deaf.ok(1, "basic.consume", queue=name, tag="D")
    wire.send(1, "queue.delete", queue=name)
    replies = {reply.name: reply for reply in (wire.receive(), wire.receive())}
    assert replies["queue.delete-ok"].messages == 0
    cancel = replies["basic.cancel"]
    assert (cancel.channel, cancel.tag, cancel.nowait) == (2, "T", True)
    assert deaf.until_quiet() == []
    wire.ok(2, "basic.consume", queue=wire.ok(1, "queue.declare", exclusive=True).queue, tag="T")


@pytest.mark.parametrize("durable", [True, False])
def test_deleting_a_queue_is_answered_before_its_own_consumer_is_cancelled(
    wire: Wire, name: str, durable: bool
) -> None:
    """kombu takes a cancel that comes while it waits for delete-ok for an error, on any channel."""
    wire.open_channel(2)
    wire.ok(1, "queue.declare", queue=name, durable=durable)
    wire.ok(1, "basic.consume", queue=name, tag="T1")
    wire.ok(2, "basic.consume", queue=name, tag="T2")
    assert wire.ok(1, "queue.delete", queue=name).messages == 0
    cancels = wire.receive_named("basic.cancel", 2)
    assert {(cancel.channel, cancel.tag) for cancel in cancels} == {(1, "T1"), (2, "T2")}
    wire.ok(2, "basic.qos")


def test_a_queue_declared_again_is_empty(wire: Wire, name: str) -> None:
    wire.ok(1, "confirm.select")
    for _ in range(2):
        wire.ok(1, "queue.declare", queue=name, durable=True)
        assert wire.get(name) is None
        wire.publish(1, "", name, b"x", delivery_mode=2)
        assert wire.receive().name == "basic.ack"
        assert wire.ok(1, "queue.delete", queue=name).messages == 1


@pytest.mark.parametrize("durable", [True, False])
def test_unbound_when_the_exchange_goes(wire: Wire, name: str, durable: bool) -> None:
    """The exchange declared again has no bindings."""
    wire.ok(1, "confirm.select")
    wire.ok(1, "queue.declare", queue=name, durable=durable)
    wire.ok(1, "exchange.declare", exchange=name, type="fanout", durable=durable)
    wire.ok(1, "queue.bind", queue=name, exchange=name)
    wire.ok(1, "exchange.delete", exchange=name)
    wire.ok(1, "exchange.declare", exchange=name, type="fanout", durable=durable)
    wire.publish(1, name, "", b"x", mandatory=True)
    assert [reply.name for reply in wire.until_quiet(expected=2)] == ["basic.return", "basic.ack"]
    wire.ok(1, "queue.bind", queue=name, exchange=name)
    wire.ok(1, "queue.delete", queue=name)
    wire.publish(1, name, "", b"x", mandatory=True)
    assert [reply.name for reply in wire.until_quiet(expected=2)] == ["basic.return", "basic.ack"]
    wire.ok(1, "exchange.delete", exchange=name)


def test_pipelined_declares_answer_in_order(wire: Wire, name: str) -> None:
    """300 durable declares, binds and deletes without waiting, and publishes in between."""
    count = 100
    wire.ok(1, "confirm.select")
    for index in range(count):
        wire.send(1, "queue.declare", queue=f"{name}-{index}", durable=True)
        wire.send(1, "queue.bind", queue="", exchange="amq.topic", routing_key=f"{name}.{index}")
        wire.publish(1, "amq.topic", f"{name}.{index}", str(index), delivery_mode=2)
    replies: list[Received] = []
    confirmed = 0
    while len(replies) < 2 * count or confirmed < count:
        reply = wire.receive()
        if reply.name == "basic.ack":
            confirmed = max(confirmed, reply.delivery_tag)
        else:
            replies.append(reply)
    declared = [reply.queue for reply in replies if reply.name == "queue.declare-ok"]
    assert declared == [f"{name}-{index}" for index in range(count)]
    for index in range(count):
        wire.send(1, "queue.delete", queue=f"{name}-{index}")
    assert [reply.messages for reply in wire.receive_named("queue.delete-ok", count)] == [1] * count
