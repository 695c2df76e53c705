"""Handshake, negotiation, heartbeats and framing.

Source: measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.wire import Received, Typed, Wire, encode_frame, encode_method, encode_table

GONE = ("eof", "reset")
Connect = Callable[..., Wire]


def close_of(reply: Received) -> tuple[int, str, int, int]:
    assert reply.name == "connection.close", reply
    return reply.code, reply.text, reply.class_id, reply.method_id


def test_start(connect: Connect) -> None:
    start = connect(until="start").start
    assert (start.major, start.minor, start.locales) == (0, 9, "en_US")
    assert "PLAIN" in start.mechanisms.split()
    capabilities = start.fields["properties"]["capabilities"]
    for name in (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "per_consumer_qos",
        "authentication_failure_close",
    ):
        assert capabilities[name] is True
    properties = start.fields["properties"]
    # Clients choose their ways by these two: kombu sets a limit for running consumers only with RabbitMQ.
    assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.10.8")
    assert properties["platform"]
    assert properties["information"]


@pytest.mark.parametrize(
    "header",
    [b"GET / HTTP/1.0\r\n\r\n", b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"],
    ids=["http", "0-9-0", "1.0", "1.0-sasl"],
)
def test_other_protocols_get_our_header_and_are_closed(connect: Connect, header: bytes) -> None:
    connection = connect(until="connect")
    connection.send_bytes(header)
    reply = connection.receive()
    assert (reply.name, reply.fields.get("data")) == ("header", b"AMQP\x00\x00\x09\x01")
    assert connection.receive().name in GONE


def start_ok(connection: Wire, **fields: Any) -> None:
    fields = {"mechanism": "PLAIN", "response": "\0guest\0guest", "locale": "en_US", **fields}
    connection.send(0, "connection.start-ok", **fields)


#: What may go wrong before a client has logged in, and before it has agreed: nobody is told what it was.
BEFORE_LOGIN: dict[str, Callable[[Wire], None]] = {
    "unknown mechanism": lambda wire: start_ok(wire, mechanism="NOPE"),
    "more than 4096 bytes": lambda wire: start_ok(wire, properties={"a": "x" * 5000}),
    "malformed PLAIN": lambda wire: start_ok(wire, response="x"),
    "malformed AMQPLAIN": lambda wire: start_ok(wire, mechanism="AMQPLAIN", response="x"),
    "undecodable": lambda wire: wire.frame(1, 0, b"\0\x0a\0\x0b\0\0\0\x05\x01aZ"),
    "no end of a frame": lambda wire: wire.send_bytes(b"\x01\0\0\0\0\0\x04abcd\0"),
    "connection.open": lambda wire: wire.send(0, "connection.open", vhost="/"),
    "connection.update-secret": lambda wire: wire.send(0, "connection.update-secret", secret="x"),
    "channel.open": lambda wire: wire.send(1, "channel.open"),
    "a body": lambda wire: wire.frame(3, 1, b"x"),
}


@pytest.mark.parametrize("capable", [True, False])
def test_mistakes_before_the_tuning_end_in_a_late_silent_close(connect: Connect, capable: bool) -> None:
    """Measured: after three seconds, without a frame, whatever the client can take."""
    capabilities = {"authentication_failure_close": capable}
    clients = {name: connect(until="start") for name in BEFORE_LOGIN}
    tuning = connect(until="start")
    start_ok(tuning, properties={"capabilities": capabilities})
    assert tuning.receive().name == "connection.tune"
    clients["connection.open at tuning"] = tuning
    started = time.monotonic()
    for name, client in clients.items():
        BEFORE_LOGIN[name.removesuffix(" at tuning")](client)
    for client in clients.values():
        assert client.receive().name in GONE
    assert time.monotonic() - started > 2


@pytest.mark.ours_only
@pytest.mark.parametrize("until", ["start", "tune"])
def test_a_client_that_gives_up_its_handshake_gets_its_answer(connect: Connect, until: str) -> None:
    """RabbitMQ lets it wait: for three seconds, or until the client closes the socket."""
    connection = connect(until=until)
    assert connection.call(0, "connection.close", code=200).name == "connection.close-ok"


def test_any_locale_is_accepted(connect: Connect) -> None:
    connection = connect(until="start")
    start_ok(connection, locale="de_DE")
    assert connection.receive().name == "connection.tune"


@pytest.mark.parametrize(("user", "password"), [("guest", "bad"), ("nobody", "guest"), ("", "")])
def test_login_refused(connect: Connect, user: str, password: str) -> None:
    assert close_of(connect(user=user, password=password).tune) == (
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
        " For details see the broker logfile.",
        0,
        0,
    )


def test_login_refused_without_the_capability_is_a_late_silent_close(connect: Connect) -> None:
    connection = connect(until="start")
    started = time.monotonic()
    start_ok(connection, response="\0guest\0bad")
    assert connection.receive().name in GONE
    assert time.monotonic() - started > 2


def test_tune(connect: Connect) -> None:
    tune = connect().tune
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_bad_tune_ok_is_a_late_silent_close(connect: Connect) -> None:
    bad = [
        {"frame_max": 0},
        {"frame_max": 100},
        {"frame_max": 4095},
        {"frame_max": 131073},
        {"channel_max": 0},
        {"channel_max": 2048},
    ]
    started = time.monotonic()
    connections = [connect(until="tune", **options) for options in bad]
    for connection in connections:
        connection.send(0, "connection.open", vhost="/")
    for connection, options in zip(connections, bad, strict=True):
        assert connection.receive().name in GONE, options
    assert time.monotonic() - started > 1


@pytest.mark.parametrize(
    "options",
    [
        {"frame_max": 4096},
        {"channel_max": 1},
        {"heartbeat": 0},
        {"heartbeat": 1},
        {"heartbeat": 65535},
    ],
)
def test_good_tune_ok(connect: Connect, options: dict[str, int]) -> None:
    assert connect(**options).opened.name == "connection.open-ok"


def test_unknown_vhost(connect: Connect) -> None:
    assert close_of(connect(vhost="nope").opened) == (530, "NOT_ALLOWED - vhost nope not found", 10, 40)


def test_method_before_connection_open(connect: Connect) -> None:
    connection = connect(until="tune")
    reply = connection.call(0, "connection.tune-ok", channel_max=2047, frame_max=131072)
    assert (reply.name, reply.code) == ("connection.close", 504)
    assert reply.text == "CHANNEL_ERROR - unexpected method in connection state opening"
    assert (reply.class_id, reply.method_id) == (10, 31)


def test_channel_open_before_connection_open(connect: Connect) -> None:
    connection = connect(until="tune")
    connection.send(1, "channel.open")
    text = "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"
    assert close_of(connection.receive()) == (505, text, 0, 0)


def test_channel_max_counts_channels(connect: Connect) -> None:
    connection = connect(channel_max=3)
    for channel in (1, 2, 4464):
        connection.open_channel(channel)
    text = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    assert close_of(connection.call(4, "channel.open")) == (530, text, 0, 0)


def test_closed_channels_do_not_count(connect: Connect) -> None:
    connection = connect(channel_max=2)
    for channel in (1, 2, 3, 4, 5):
        connection.open_channel(channel)
        connection.ok(channel, "channel.close", code=200)


def test_handshake_in_single_octets(connect: Connect) -> None:
    connection = connect(until="connect")
    opening = b"AMQP\x00\x00\x09\x01"
    login = {"mechanism": "PLAIN", "response": "\0guest\0guest", "locale": "en_US"}
    for octet in opening + encode_frame(1, 0, encode_method("connection.start-ok", **login)):
        connection.send_bytes(bytes([octet]))
    assert connection.receive().name == "connection.start"
    assert connection.receive().name == "connection.tune"
    tune_ok = encode_method("connection.tune-ok", channel_max=2047, frame_max=131072)
    rest = encode_frame(1, 0, tune_ok) + encode_frame(1, 0, encode_method("connection.open", vhost="/"))
    for octet in rest + encode_frame(1, 1, encode_method("channel.open")):
        connection.send_bytes(bytes([octet]))
    assert connection.receive().name == "connection.open-ok"
    assert connection.receive().name == "channel.open-ok"


def test_heartbeats_come_at_half_the_interval_and_a_silent_peer_is_dropped(connect: Connect) -> None:
    """One peer is silent, one sends heartbeats, one sends a frame octet by octet, which is life too."""
    # The two others are dropped, too, if this process gets no processor for twice the interval.
    started = time.monotonic()
    silent, beating, dripping = (connect(heartbeat=2) for _ in range(3))
    drip = encode_frame(1, 0, encode_method("connection.close", code=200, text="x" * 200))
    beats = 0
    ended = 0.0
    while not ended:
        beating.frame(8, 0, b"")
        dripping.send_bytes(drip[:1])
        drip = drip[1:]
        if select.select([silent.socket], [], [], 0.2)[0] or silent.buffer:
            received = silent.receive()
            if received.name == "heartbeat":
                beats += 1
            else:
                assert received.name in GONE
                ended = time.monotonic() - started
    assert ended > 2
    assert beats >= 1
    for alive in (beating, dripping):
        assert {reply.name for reply in alive.until_quiet(0.3, expected=1)} == {"heartbeat"}


def test_no_heartbeats_when_turned_off(connect: Connect) -> None:
    assert connect(heartbeat=0).receive_within(1.2) is None


def body_frames(connection: Wire, queue: str) -> list[tuple[int, int]]:
    """Type and size of the frames that answer a basic.get."""
    connection.send(1, "basic.get", queue=queue, no_ack=True)
    result: list[tuple[int, int]] = []
    size = 0
    while len(result) < 2 or sum(length for kind, length in result if kind == 3) < size:
        frame = connection.receive_frame()
        assert frame is not None, "the rest of the answer did not come"
        assert not isinstance(frame, Received), frame
        result.append((frame[0], len(frame[2])))
        if frame[0] == 2:
            (size,) = struct.unpack_from(">Q", frame[2], 4)
    return result


def test_bodies_are_split_at_the_consumers_frame_max(connect: Connect, wire: Wire, name: str) -> None:
    """The publisher's frames are of 131,072 bytes, the consumer's of 4,096."""
    small = connect(frame_max=4096)
    small.open_channel(1)
    small.ok(1, "queue.declare", queue=name)
    wire.ok(1, "confirm.select")
    for body in (b"z" * 10000, b"", b"z" * 4088, b"z" * 4089):
        wire.publish(1, "", name, body)
    wire.confirmed(4)
    assert body_frames(small, name)[2:] == [(3, 4088), (3, 4088), (3, 1824)]
    assert body_frames(small, name)[1:][1:] == []
    assert body_frames(small, name)[2:] == [(3, 4088)]
    assert body_frames(small, name)[2:] == [(3, 4088), (3, 1)]
    small.ok(1, "queue.delete", queue=name)


def test_frames_may_be_eight_octets_too_long(connect: Connect, wire: Wire, name: str) -> None:
    """Some clients (rabbitpy) take frame_max for the payload; whoever agreed to less gets less."""
    body = bytes(range(256)) * 512
    assert len(body) == wire.frame_max == 131072
    wire.ok(1, "queue.declare", queue=name, durable=True)
    wire.ok(1, "confirm.select")
    for delivery_mode in (1, 2):
        wire.send(1, "basic.publish", routing_key=name)
        wire.frame(2, 1, struct.pack(">HHQHB", 60, 0, len(body), 1 << 12, delivery_mode))
        wire.frame(3, 1, body)
        assert wire.receive().name == "basic.ack"
    assert body_frames(wire, name)[2:] == [(3, 131064), (3, 8)]
    assert wire.ok(1, "basic.get", queue=name, no_ack=True).body == body
    wire.ok(1, "queue.delete", queue=name)


def test_small_frames_reach_a_consumer_of_large_ones(connect: Connect, wire: Wire, name: str) -> None:
    small = connect(frame_max=4096)
    small.open_channel(1)
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    body = bytes(range(256)) * 1000
    wire.ok(1, "basic.consume", queue=name, no_ack=True)
    small.publish(1, "", name, body)
    assert wire.receive().body == body


def test_empty_body_frames_are_tolerated(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "basic.consume", queue=name, no_ack=True)
    wire.send(1, "basic.publish", routing_key=name)
    wire.header(1, 4)
    for part in (b"", b"ab", b"", b"cd"):
        wire.frame(3, 1, part)
    wire.publish(1, "", name, b"next")
    assert [message.body for message in wire.receive_named("basic.deliver", 2)] == [b"abcd", b"next"]


@pytest.mark.parametrize("durable", [False, True])
def test_headers_pass_through_untouched(wire: Wire, name: str, durable: bool) -> None:
    """Every field type, byte for byte, the message read back as the raw frame payload."""
    headers = encode_table(
        {
            "b": Typed("b", b"\xff"),
            "B": Typed("B", b"\xff"),
            "s": Typed("s", struct.pack(">h", -5)),
            "u": Typed("u", struct.pack(">H", 5)),
            "I": -3,
            "i": Typed("i", struct.pack(">I", 7)),
            "l": 2**40,
            "f": Typed("f", struct.pack(">f", 1.5)),
            "d": 2.5,
            "D": Typed("D", b"\x02" + struct.pack(">i", 12345)),
            "S": Typed("S", struct.pack(">I", 3) + b"\xff\x00\xfe"),
            "x": b"bytes",
            "A": [1, "a", [True, None]],
            "T": Typed("T", struct.pack(">Q", 1700000000)),
            "F": {"k": 1, "": {}},
            "V": None,
            "t": True,
            "t2": Typed("t", b"\x07"),
        }
    )
    wire.ok(1, "queue.declare", queue=name, durable=durable)
    wire.ok(1, "confirm.select")
    wire.publish(1, "", name, b"x", headers=headers, delivery_mode=2 if durable else 1, message_id="m")
    assert wire.receive().name == "basic.ack"
    wire.send(1, "basic.get", queue=name, no_ack=True)
    assert wire.receive_frame()[0] == 1  # type: ignore[index]
    frame = wire.receive_frame()
    assert frame is not None
    assert headers in frame[2]
    wire.receive_frame()
    wire.ok(1, "queue.delete", queue=name)


def test_all_properties_come_back(wire: Wire, name: str) -> None:
    properties = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {"a": 1},
        "delivery_mode": 2,
        "priority": 5,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "timestamp": 1700000000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "cl",
    }
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "basic.consume", queue=name, no_ack=True)
    wire.publish(1, "", name, b"", **properties)
    message = wire.receive()
    assert (message.properties, message.body) == (properties, b"")


def test_client_closes(connect: Connect) -> None:
    connection = connect()
    connection.open_channel(1)
    assert connection.call(0, "connection.close", code=200, text="bye").name == "connection.close-ok"
    assert connection.until_quiet() == [], "the socket is the client's to close"
    connection.publish(1, "", "nobody", b"what is still under way is read")
    assert connection.until_quiet() == []
