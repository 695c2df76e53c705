"""What a client may do before its channel, or its connection, is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.wire import Wire

#: The methods in which an empty name means the queue declared last.
NAMELESS: list[tuple[str, dict[str, Any], tuple[int, int]]] = [
    ("queue.bind", {"exchange": "amq.direct", "routing_key": "a"}, (50, 20)),
    ("queue.unbind", {"exchange": "amq.direct", "routing_key": "a"}, (50, 50)),
    ("queue.purge", {}, (50, 30)),
    ("queue.delete", {}, (50, 40)),
    ("basic.consume", {}, (60, 20)),
    ("basic.consume", {"nowait": True}, (60, 20)),
    ("basic.get", {}, (60, 70)),
]


@pytest.mark.parametrize(("method", "fields", "ids"), NAMELESS)
def test_the_queue_declared_last_is_looked_for_before_the_channel(
    connect: Callable[..., Wire], name: str, method: str, fields: dict[str, Any], ids: tuple[int, int]
) -> None:
    wire = connect()
    for _ in range(2):
        close = wire.call(3, method, **fields)
        assert (close.name, close.code, close.text) == (
            "channel.close",
            404,
            "NOT_FOUND - no previously declared queue",
        )
        assert (close.class_id, close.method_id) == ids
        wire.send(3, "channel.close-ok")
    wire.open_channel(3)
    wire.ok(3, "queue.declare", queue=name, exclusive=True)
    assert wire.call(3, "basic.get").name == "basic.get-empty"


def test_such_a_channel_is_closing_until_close_ok(connect: Callable[..., Wire]) -> None:
    wire = connect()
    wire.send(3, "basic.get")
    wire.send(3, "queue.declare", queue="dropped")
    wire.send(3, "channel.open")
    assert wire.receive().name == "channel.close"
    close = wire.receive()
    assert (close.code, close.text) == (504, "CHANNEL_ERROR - second 'channel.open' seen")


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("basic.get", {"queue": "x"}),
        ("queue.declare", {"passive": True}),
        ("queue.bind", {"queue": "x", "exchange": "x"}),
        ("basic.ack", {"delivery_tag": 1}),
    ],
)
def test_other_methods_need_an_open_channel(
    connect: Callable[..., Wire], method: str, fields: dict[str, Any]
) -> None:
    close = connect().call(3, method, **fields)
    assert (close.name, close.code, close.text) == (
        "connection.close",
        504,
        "CHANNEL_ERROR - expected 'channel.open'",
    )


def test_the_header_of_0_9_is_served_as_0_9_1(connect: Callable[..., Wire], name: str) -> None:
    wire = connect(until="connect")
    wire.send_bytes(b"AMQP\x01\x01\x00\x09")
    start = wire.receive()
    assert (start.name, start.major, start.minor) == ("connection.start", 0, 9)
    wire.send(0, "connection.start-ok", mechanism="PLAIN", response="\0guest\0guest", locale="en_US")
    assert wire.receive().name == "connection.tune"
    wire.send(0, "connection.tune-ok", channel_max=2047, frame_max=131072)
    assert wire.call(0, "connection.open", vhost="/").name == "connection.open-ok"
    wire.open_channel(1)
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
