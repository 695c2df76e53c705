"""In which order letters come of what a full quorum queue drops at once. Measured on RabbitMQ 3.10.8."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.interop.test_quorum import QUORUM
from tests.interop.wire import Wire


def declare(wire: Wire, name: str, **arguments: Any) -> None:
    """A quorum queue, and a classic one for its letters."""
    wire.ok(1, "queue.declare", queue=f"{name} letters")
    more = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name} letters"}
    more.update({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
    wire.ok(1, "queue.declare", queue=name, durable=True, arguments={**QUORUM, **more})


def fill(wire: Wire, name: str, *bodies: str, late: str = "") -> None:
    """Publish, those of ``late`` with a time to live, and wait until all are confirmed; deliveries may come
    meanwhile.
    """
    wire.open_channel(2, confirm=True)
    for body in bodies:
        wire.publish(2, "", name, body, expiration="3000" if body in [*late] else None)
    waiting = set(range(1, len(bodies) + 1))
    while waiting:
        reply = wire.receive()
        if reply.name == "basic.ack":
            last = reply.delivery_tag
            waiting -= {tag for tag in waiting if tag == last or (reply.multiple and tag < last)}
    wire.send(2, "channel.close", code=200)
    while wire.receive().name != "channel.close-ok":
        pass


def letters(wire: Wire, name: str, count: int, channel: int = 1) -> str:
    """Bodies and reasons of the letters, once there are ``count``."""
    until = time.monotonic() + 30
    while wire.ready(f"{name} letters", channel) < count:
        assert time.monotonic() < until, wire.ready(f"{name} letters", channel)
        time.sleep(0.05)
    return " ".join(
        each.body.decode() + each.properties["headers"]["x-death"][0]["reason"][0]
        for each in wire.get_all(f"{name} letters", channel)
    )


def consume(wire: Wire, name: str, count: int) -> None:
    """Let a consumer get ``count`` messages and leave."""
    wire.ok(1, "basic.qos", count=count)
    wire.ok(1, "basic.consume", queue=name, tag="a")
    wire.receive_named("basic.deliver", count)
    wire.ok(1, "basic.cancel", tag="a")


@pytest.mark.parametrize("how", ["nack", "close"])
def test_what_one_return_drops(wire: Wire, name: str, how: str) -> None:
    declare(wire, name, max_length=2, delivery_limit=9)
    fill(wire, name, "0", "1")
    consume(wire, name, 2)
    fill(wire, name, "2", "3")
    if how == "nack":
        wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    else:
        wire.ok(1, "channel.close", code=200)
        wire.open_channel(1)
    assert letters(wire, name, 2) == "1m 0m"
    fill(wire, name, "4", "5")
    assert letters(wire, name, 2) == "2m 3m"  # one with each publish


def test_what_one_publish_drops(wire: Wire, name: str) -> None:
    declare(wire, name, max_length_bytes=4)
    fill(wire, name, "0", "1", "2", "3", "bbb", "c")
    assert letters(wire, name, 4) == "2m 1m 0m 3m"
    fill(wire, name, "dddd")
    assert letters(wire, name, 2) == "cm bbbm"


def test_what_one_publish_drops_behind_a_consumer(wire: Wire, name: str) -> None:
    declare(wire, name, max_length_bytes=4)
    wire.ok(1, "basic.qos", count=2)
    wire.ok(1, "basic.consume", queue=name, tag="a")
    wire.open_channel(3)
    fill(wire, name, "x", "y", "0", "1", "2", "3", "bbb", "c", "dddd")
    assert letters(wire, name, 6, channel=3) == "2m 1m 0m 3m cm bbbm"


def test_drops_come_before_what_returned_too_often(wire: Wire, name: str) -> None:
    declare(wire, name, max_length=4, delivery_limit=1)
    fill(wire, name, "0", "1")
    consume(wire, name, 2)
    wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    fill(wire, name, "2", "3")
    consume(wire, name, 4)
    fill(wire, name, "4", "5", "6")
    wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    assert letters(wire, name, 3) == "2m 0d 1d"


@pytest.mark.parametrize(
    ("late", "expected"), [("0", "3m 2m 1m 0e"), ("01", "3m 2m 0e 1e"), ("012", "3m 0e 1e 2e")]
)
def test_drops_come_before_what_is_over(wire: Wire, name: str, late: str, expected: str) -> None:
    declare(wire, name, max_length=4, delivery_limit=9)
    fill(wire, name, "0", "1", "2", "3", late=late)
    consume(wire, name, 4)
    fill(wire, name, "4", "5", "6", "7")
    time.sleep(3.2)
    wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    assert letters(wire, name, 4) == expected


def test_what_is_over_at_a_consumers_turn_comes_in_order(wire: Wire, name: str) -> None:
    """With a limit, though nothing is dropped."""
    declare(wire, name, max_length=9)
    fill(wire, name, "0", "1", "2", "3", "4", late="134")
    time.sleep(3.5)
    consume(wire, name, 2)
    assert letters(wire, name, 3) == "1e 3e 4e"
