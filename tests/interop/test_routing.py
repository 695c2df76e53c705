"""Which queues a message reaches: every exchange type, exchange-to-exchange, alternate exchanges, CC and BCC.

Source: measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.interop.wire import Typed, Wire, long_int

KEYS = ["", "a", "a.b", "a.b.c", ".", "a.", ".a", "..", "a..b", "a.."]
#: pattern -> the keys of KEYS that match
TOPIC = {
    "": [""],
    "#": KEYS,
    "#.#": KEYS,
    "*": ["a"],
    "*.*": ["a.b", ".", "a.", ".a"],
    "#.*": KEYS[1:],
    "*.#": KEYS[1:],
    "#.*.#": KEYS[1:],
    "a.#": ["a", "a.b", "a.b.c", "a.", "a..b", "a.."],
    "a.#.#": ["a", "a.b", "a.b.c", "a.", "a..b", "a.."],
    "#.a": ["a", ".a"],
    "a.*": ["a.b", "a."],
    "a.*.b": ["a..b"],
    "a.#.b": ["a.b", "a..b"],
    "*.": [".", "a."],
    ".*": [".", ".a"],
    ".": ["."],
    "a..b": ["a..b"],
    "*.*.*": ["a.b.c", "..", "a..b", "a.."],
    "a.#.*": ["a.b", "a.b.c", "a.", "a..b", "a.."],
    "*.#.*": ["a.b", "a.b.c", ".", "a.", ".a", "..", "a..b", "a.."],
    "a*": [],
    "#a": [],
}
#: binding arguments, message headers (None: no headers table), matches
HEADERS: list[tuple[dict[str, Any], dict[str, Any] | None, bool]] = [
    ({"x-match": "all", "a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 2}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": long_int(1)}, True),
    ({"a": 1}, {"a": Typed("b", b"\x01")}, True),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": True}, {"a": 1}, False),
    ({"a": "1"}, {"a": b"1"}, True),
    ({"a": None}, {"a": "anything"}, True),
    ({"a": None}, {}, False),
    ({"a": None}, None, False),
    ({}, {}, True),
    ({"x-match": "all"}, {}, True),
    ({"x-match": "any"}, {}, False),
    ({"x-match": "any"}, {"a": 1}, False),
    ({}, None, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
    ({"x-match": "any", "a": None}, {"a": 3}, True),
    ({"x-match": "all", "x-foo": 1, "a": 1}, {"a": 1}, True),
    ({"x-match": "all-with-x", "x-foo": 1, "a": 1}, {"a": 1}, False),
    ({"x-match": "all-with-x", "x-foo": 1, "a": 1}, {"a": 1, "x-foo": 1}, True),
    ({"x-match": "any", "x-foo": 1}, {"x-foo": 1}, False),
    ({"x-match": "any-with-x", "x-foo": 1}, {"x-foo": 1}, True),
    ({"x-match": "all", "x-foo": 1}, {"z": 1}, True),
    ({"a": [1, 2]}, {"a": [1, 2]}, True),
    ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ({"a": {"b": 1}}, {"a": {"b": 1}}, True),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 2}}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, False),
    ({"a": [{"b": 1, "c": 2}]}, {"a": [{"c": 2, "b": 1}]}, False),
    ({"a": "x"}, {"a": "x", "b": 2}, True),
    ({"a": Typed("T", struct.pack(">Q", 5))}, {"a": Typed("T", struct.pack(">Q", 5))}, True),
]


@pytest.fixture
def listening(wire: Wire, name: str) -> Wire:
    """Channel 1 consumes the exclusive queue ``name``."""
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "basic.consume", queue=name, no_ack=True)
    return wire


def delivered(wire: Wire, queue: str) -> list[bytes]:
    """Bodies delivered so far; a marker through the default exchange ends the list."""
    wire.publish(1, "", queue, b"end of list")
    bodies = []
    while (body := wire.receive().body) != b"end of list":
        bodies.append(body)
    return bodies


@pytest.mark.parametrize("pattern", TOPIC)
def test_topic(listening: Wire, name: str, pattern: str) -> None:
    listening.ok(1, "exchange.declare", exchange=name, type="topic", auto_delete=True)
    listening.ok(1, "queue.bind", queue="", exchange=name, routing_key=pattern)
    if pattern == "":  # the shortcut put the queue's name in place of the empty key
        listening.ok(1, "queue.unbind", queue=name, exchange="nope", routing_key=name)
        listening.ok(1, "queue.bind", queue=name, exchange=name, routing_key="")
    for key in KEYS:
        listening.publish(1, name, key, f"<{key}>")
    assert delivered(listening, name) == [f"<{key}>".encode() for key in KEYS if key in TOPIC[pattern]]


def test_topic_unbind_leaves_the_others(listening: Wire, name: str) -> None:
    for pattern in ("a.*", "*.b", "#.b", "a.#"):
        listening.ok(1, "queue.bind", queue=name, exchange="amq.topic", routing_key=f"{name}.{pattern}")
    for pattern in ("a.*", "a.#"):
        listening.ok(1, "queue.unbind", queue=name, exchange="amq.topic", routing_key=f"{name}.{pattern}")
    for key in ("a.b", "a.c", "c.b"):
        listening.publish(1, "amq.topic", f"{name}.{key}", key)
    assert delivered(listening, name) == [b"a.b", b"c.b"]


@pytest.mark.parametrize(("arguments", "headers", "matches"), HEADERS, ids=str)
def test_headers(
    listening: Wire, name: str, arguments: dict[str, Any], headers: dict[str, Any] | None, matches: bool
) -> None:
    listening.ok(1, "queue.bind", queue=name, exchange="amq.headers", arguments=arguments)
    options = {} if headers is None else {"headers": headers}
    listening.publish(1, "amq.headers", "whatever", b"x", **options)
    assert delivered(listening, name) == ([b"x"] if matches else [])


def test_direct(listening: Wire, name: str) -> None:
    listening.ok(1, "exchange.declare", exchange=name, type="direct", auto_delete=True)
    for key in ("one", "two", "one"):  # the same binding twice is one
        listening.ok(1, "queue.bind", queue=name, exchange=name, routing_key=key)
    for key in ("one", "two", "three", "one.two", ""):
        listening.publish(1, name, key, key)
    assert delivered(listening, name) == [b"one", b"two"]
    listening.ok(1, "queue.unbind", queue=name, exchange=name, routing_key="one")
    for key in ("one", "two"):
        listening.publish(1, name, key, key)
    assert delivered(listening, name) == [b"two"]


def test_fanout_ignores_the_key(listening: Wire, name: str) -> None:
    listening.ok(1, "exchange.declare", exchange=name, type="fanout", auto_delete=True)
    listening.ok(1, "queue.bind", queue=name, exchange=name, routing_key="ignored")
    listening.publish(1, name, "any", b"x")
    assert delivered(listening, name) == [b"x"]


def test_default_exchange_reaches_every_queue_by_name(listening: Wire, name: str) -> None:
    listening.publish(1, "", name, b"x")
    listening.publish(1, "", name + "-not", b"y")
    assert delivered(listening, name) == [b"x"]


def test_a_queue_gets_one_copy_whatever_matches(listening: Wire, name: str) -> None:
    """Several bindings, two exchange paths and CC all lead to the same queue."""
    listening.ok(1, "exchange.declare", exchange=name, type="topic", auto_delete=True)
    listening.ok(1, "exchange.declare", exchange=f"{name}-2", type="fanout", auto_delete=True)
    for pattern in ("a.*", "*.b", "#"):
        listening.ok(1, "queue.bind", queue=name, exchange=name, routing_key=pattern)
    listening.ok(1, "queue.bind", queue=name, exchange=f"{name}-2")
    listening.ok(1, "exchange.bind", destination=f"{name}-2", source=name, routing_key="#")
    listening.publish(1, name, "a.b", b"x", headers={"CC": ["a.c", "z.b"]})
    assert delivered(listening, name) == [b"x"]


def test_exchange_to_exchange(listening: Wire, name: str) -> None:
    """The second exchange sees the message's own key; a cycle ends."""
    first, second = name, f"{name}-2"
    listening.ok(1, "exchange.declare", exchange=first, type="topic")
    listening.ok(1, "exchange.declare", exchange=second, type="direct")
    listening.ok(1, "exchange.bind", destination=second, source=first, routing_key="*.stock")
    listening.ok(1, "exchange.bind", destination=first, source=second, routing_key="eur.stock")
    listening.ok(1, "queue.bind", queue=name, exchange=second, routing_key="eur.stock")
    for key in ("eur.stock", "usd.stock", "eur.bond"):
        listening.publish(1, first, key, key)
    assert delivered(listening, name) == [b"eur.stock"]
    listening.ok(1, "exchange.unbind", destination=second, source=first, routing_key="*.stock")
    listening.publish(1, first, "eur.stock", b"x")
    listening.publish(1, second, "eur.stock", b"y")
    assert delivered(listening, name) == [b"y"]
    for exchange in (first, second):
        listening.ok(1, "exchange.delete", exchange=exchange)


def test_cc_and_bcc(wire: Wire, name: str) -> None:
    """Every copy shows the primary key and keeps CC; BCC is removed before delivery."""
    queues = [f"{name}-{letter}" for letter in "abc"]
    for queue in queues:
        wire.ok(1, "queue.declare", queue=queue, exclusive=True)
        wire.ok(1, "basic.consume", queue=queue, tag=queue, no_ack=True)
    headers = {"CC": [queues[1], queues[0]], "BCC": [queues[2]], "z": 1}
    wire.publish(1, "", queues[0], b"x", headers=headers)
    messages = wire.receive_named("basic.deliver", 3)
    assert sorted(message.tag for message in messages) == queues
    for message in messages:
        assert message.routing_key == queues[0]
        assert message.properties == {"headers": {"CC": [queues[1], queues[0]], "z": 1}}
    assert wire.until_quiet() == []


def outcomes(wire: Wire, exchange: str, key: str = "k") -> list[str]:
    """What a mandatory publish in confirm mode brings."""
    wire.publish(1, exchange, key, b"x", mandatory=True)
    replies = [wire.receive()]
    while replies[-1].name == "basic.return":  # its confirm follows
        replies.append(wire.receive())
    return sorted(reply.name for reply in replies + wire.until_quiet())


def test_alternate_exchange(wire: Wire, name: str) -> None:
    alternate = f"{name}-alternate"
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "exchange.declare", exchange=alternate, type="fanout")
    wire.ok(1, "exchange.declare", exchange=name, type="direct", arguments={"alternate-exchange": alternate})
    wire.ok(1, "confirm.select")
    assert outcomes(wire, name) == ["basic.ack", "basic.return"]
    wire.ok(1, "queue.bind", queue=name, exchange=alternate)
    assert outcomes(wire, name) == ["basic.ack"]
    message = wire.get(name)
    assert message is not None
    assert (message.exchange, message.routing_key) == (name, "k")
    wire.ok(1, "queue.bind", queue=name, exchange=name, routing_key="k")
    assert outcomes(wire, name) == ["basic.ack"]
    assert len(wire.get_all(name)) == 1
    for exchange in (alternate, name):
        wire.ok(1, "exchange.delete", exchange=exchange)


def test_missing_and_circular_alternate_exchanges(wire: Wire, name: str) -> None:
    wire.ok(1, "confirm.select")
    for exchange, alternate in ((f"{name}-a", f"{name}-b"), (f"{name}-b", f"{name}-a"), (name, "missing")):
        wire.ok(
            1,
            "exchange.declare",
            exchange=exchange,
            type="direct",
            arguments={"alternate-exchange": alternate},
        )
    for exchange in (f"{name}-a", f"{name}-b", name):
        assert outcomes(wire, exchange) == ["basic.ack", "basic.return"]
        wire.ok(1, "exchange.delete", exchange=exchange)


def test_routes_change_at_once(listening: Wire, name: str) -> None:
    """A message goes where the bindings are now, whatever they were for the same key before."""
    listening.ok(1, "exchange.declare", exchange=name, type="topic")
    for _ in range(2):
        listening.publish(1, name, "a.b", b"0")
        listening.ok(1, "queue.bind", queue=name, exchange=name, routing_key="a.*")
        listening.publish(1, name, "a.b", b"1")
        assert listening.receive().body == b"1"
        listening.ok(1, "queue.unbind", queue=name, exchange=name, routing_key="a.*")
        listening.publish(1, name, "a.b", b"2")
    assert delivered(listening, name) == []
    listening.ok(1, "exchange.delete", exchange=name)
    listening.publish(1, name, "a.b", b"3")
    reply = listening.receive()
    assert (reply.name, reply.code) == ("channel.close", 404)


def test_internal_exchange_routes_from_another(listening: Wire, name: str) -> None:
    listening.ok(1, "exchange.declare", exchange=name, type="fanout", internal=True)
    listening.ok(1, "exchange.bind", destination=name, source="amq.direct", routing_key=name)
    listening.ok(1, "queue.bind", queue=name, exchange=name)
    listening.publish(1, "amq.direct", name, b"x")
    assert delivered(listening, name) == [b"x"]
    listening.ok(1, "exchange.delete", exchange=name)
