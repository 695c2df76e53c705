"""AMQP 0-8: its handshake, its everyday methods, and its errors.

Source: measured on RabbitMQ 3.10.8. Octets are compared, as the two versions differ in them alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tests.interop.wire import Received, Wire, encode_method, encode_short

HEADERS = (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01")
GONE = ("eof", "reset")
Connect = Callable[..., Wire]


def method(class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return struct.pack(">HH", class_id, method_id) + arguments


CLOSE_OK = method(10, 61)
OPEN_OK = method(20, 11)


class Old:
    """A client of 0-8 on ``wire``."""

    def __init__(
        self, wire: Wire, header: bytes = HEADERS[0], properties: dict[str, object] | None = None
    ) -> None:
        self.wire = wire
        wire.send_bytes(header)
        self.start = wire.receive()
        wire.send(
            0,
            "connection.start-ok",
            properties=properties or {"product": "old"},
            mechanism="PLAIN",
            response="\0guest\0guest",
            locale="en_US",
        )
        assert wire.receive().name == "connection.tune"
        wire.send(0, "connection.tune-ok", channel_max=2047, frame_max=131072)
        assert self.ask(0, encode_method("connection.open", vhost="/")) == method(10, 41, b"\0")
        assert self.ask(1, encode_method("channel.open")) == OPEN_OK

    def send(self, channel: int, payload: bytes) -> None:
        self.wire.frame(1, channel, payload)

    def next(self, channel: int, kind: int = 1) -> bytes:
        """The payload that comes next."""
        found = self.wire.receive_frame()
        assert found is not None
        assert not isinstance(found, Received), found
        assert found[:2] == (kind, channel), found
        return found[2]

    def ask(self, channel: int, payload: bytes) -> bytes:
        self.send(channel, payload)
        return self.next(channel)


@pytest.fixture
def old(connect: Connect) -> Old:
    return Old(connect(until="connect"))


def consume(queue: str, tag: str, bits: int = 0) -> bytes:
    return method(60, 20, b"\0\0" + encode_short(queue) + encode_short(tag) + bytes([bits]))


def close(code: int, text: str, class_id: int, method_id: int) -> bytes:
    return struct.pack(">H", code) + encode_short(text) + struct.pack(">HH", class_id, method_id)


@pytest.mark.parametrize("header", HEADERS)
def test_start(connect: Connect, header: bytes) -> None:
    old = Old(connect(until="connect"), header)
    start = old.start
    assert (start.name, start.major, start.minor, start.locales) == ("connection.start", 8, 0, "en_US")
    assert start.fields["properties"]["capabilities"] == {}
    assert start.fields["properties"]["product"] == "RabbitMQ"
    assert old.ask(0, method(10, 60, close(200, "bye", 0, 0))) == CLOSE_OK


def test_everyday_methods(old: Old) -> None:
    ask = old.ask
    assert ask(1, encode_method("access.request", realm="/data", active=True)) == method(30, 11, b"\0\1")
    declare = encode_method("exchange.declare", exchange="e8", type="direct")
    assert ask(1, declare) == method(40, 11)
    found = ask(1, encode_method("queue.declare", queue="q8", exclusive=True))
    assert found == method(50, 11, b"\2q8" + bytes(8))
    assert ask(1, encode_method("queue.bind", queue="q8", exchange="e8", routing_key="k")) == method(50, 21)
    assert ask(1, encode_method("basic.qos", count=10)) == method(60, 11)
    assert ask(1, encode_method("channel.flow", active=True)) == method(20, 21, b"\1")
    assert ask(1, consume("q8", "t")) == method(60, 21, b"\1t")
    for body in (b"hi", b"x" * 200_000):
        old.wire.publish(1, "e8", "k", body, delivery_mode=2, headers={"a": 1})
    for tag, size in ((1, 2), (2, 200_000)):
        assert old.next(1) == method(60, 60, b"\1t" + struct.pack(">QB", tag, 0) + b"\2e8\1k")
        header = old.next(1, 2)
        assert header[:12] == struct.pack(">HHQ", 60, 0, size)
        left = size
        while left > 0:
            left -= len(old.next(1, 3))
    old.send(1, encode_method("basic.ack", delivery_tag=2, multiple=True))
    assert ask(1, encode_method("basic.cancel", tag="t")) == method(60, 31, b"\1t")
    assert ask(1, encode_method("basic.get", queue="q8")) == method(60, 72, b"\0")
    old.wire.publish(1, "", "q8", b"again")
    assert ask(1, encode_method("basic.get", queue="q8"))[:13] == method(60, 71, struct.pack(">QB", 3, 0))
    assert (len(old.next(1, 2)), old.next(1, 3)) == (14, b"again")
    old.send(1, encode_method("basic.recover-async", requeue=True))
    assert ask(1, encode_method("basic.get", queue="q8"))[:13] == method(60, 71, struct.pack(">QB", 4, 1))
    old.next(1, 2), old.next(1, 3)
    assert ask(1, encode_method("basic.recover", requeue=True)) == method(60, 111)
    assert ask(1, encode_method("queue.purge", queue="q8")) == method(50, 31, b"\0\0\0\1")
    old.wire.publish(1, "e8", "nowhere", b"", mandatory=True)
    assert old.next(1) == method(60, 50, struct.pack(">H", 312) + b"\x08NO_ROUTE\2e8\7nowhere")
    assert len(old.next(1, 2)) == 14
    unbind = encode_method("queue.unbind", queue="q8", exchange="e8", routing_key="k")
    assert ask(1, unbind) == method(50, 51)
    for name, answer in (("tx.select", 11), ("tx.commit", 21), ("tx.rollback", 31)):
        assert ask(1, encode_method(name)) == method(90, answer)
    assert ask(1, encode_method("queue.delete", queue="q8")) == method(50, 41, bytes(4))
    assert ask(1, encode_method("exchange.delete", exchange="e8")) == method(40, 21)
    assert ask(1, encode_method("channel.close", code=200)) == method(20, 41)
    assert ask(0, method(10, 60, close(200, "", 0, 0))) == CLOSE_OK


def test_a_consumer_hears_that_its_queue_is_gone(connect: Connect) -> None:
    old = Old(connect(until="connect"), properties={"capabilities": {"consumer_cancel_notify": True}})
    old.ask(1, encode_method("queue.declare", queue="q8-gone"))
    old.ask(1, consume("q8-gone", "t"))
    old.send(1, encode_method("queue.delete", queue="q8-gone"))
    assert {old.next(1), old.next(1)} == {method(50, 41, bytes(4)), method(60, 30, b"\1t\1")}


def test_an_error_of_a_channel(old: Old) -> None:
    text = "NOT_FOUND - no queue 'nope' in vhost '/'"
    assert old.ask(1, consume("nope", "")) == method(20, 40, close(404, text, 60, 20))
    old.send(1, encode_method("channel.close-ok"))
    assert old.ask(1, encode_method("channel.open")) == OPEN_OK


UNSERVED = "COMMAND_INVALID - unimplemented method"
CANNOT_DECODE = "FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0,0,0>>"
UNEXPECTED = "CHANNEL_ERROR - unexpected method in connection state running"


@pytest.mark.parametrize(
    ("channel", "sent", "wanted"),
    [
        (0, method(10, 50, b"\1a\0"), close(504, UNEXPECTED, 10, 50)),
        (0, method(100, 10), close(504, UNEXPECTED, 100, 10)),
        (0, encode_method("channel.open"), close(504, UNEXPECTED, 20, 10)),
        (1, encode_method("channel.open"), close(504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)),
        (1, method(20, 30, bytes(7)), close(503, UNSERVED, 20, 30)),
        (1, method(70, 10, bytes(7)), close(503, UNSERVED, 70, 10)),
        (1, method(100, 10), close(503, UNSERVED, 100, 10)),
        (1, method(120, 10, bytes(16)), close(503, UNSERVED, 120, 10)),
        (2, method(70, 10, bytes(7)), close(504, "CHANNEL_ERROR - expected 'channel.open'", 70, 10)),
        (1, consume("", "") + bytes(4), close(501, CANNOT_DECODE, 60, 20)),
    ],
)  # fmt: skip
def test_an_error_of_the_connection(old: Old, channel: int, sent: bytes, wanted: bytes) -> None:
    old.send(channel, sent)
    assert old.next(0) == method(10, 60, wanted)
    old.send(0, CLOSE_OK)
    assert old.wire.receive().name in GONE


@pytest.mark.ours_only
@pytest.mark.parametrize("name", ["exchange.bind", "basic.nack", "confirm.select"])
def test_what_came_with_0_9_1_is_not_there(old: Old, name: str) -> None:
    """RabbitMQ resets the socket, as for any unknown method."""
    sent = encode_method(name)
    class_id, method_id = struct.unpack_from(">HH", sent)
    old.send(1, sent)
    text = f"COMMAND_INVALID - unknown method {class_id}.{method_id}"
    assert old.next(0) == method(10, 60, close(503, text, class_id, method_id))


def test_connections_of_0_9_1_beside_it_are_as_they_were(old: Old, connect: Connect) -> None:
    new = connect()
    assert new.call(1, "channel.open").fields == {"reserved1": ""}
    assert new.call(0, "connection.close", code=200).name == "connection.close-ok"
