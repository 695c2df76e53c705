"""What a channel had that ends its connection by an error. Measured on RabbitMQ 3.10.8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.wire import Wire

#: Methods that are answered by connection.close.
ERRORS: dict[int, tuple[str, dict[str, Any]]] = {
    504: ("channel.open", {}),
    530: ("basic.consume", {"tag": "f"}),
    540: ("basic.qos", {"size": 1}),
}


def consumed(name: str, failing: Wire, other: Wire, tags: str, *, no_ack: bool = False) -> None:
    """Channel 2 of ``failing`` has the messages 0 and 1 of a queue. Then come the consumers ``tags``: o on
    its channel 1, w on ``other``.
    """
    other.open_channel(1, confirm=True)
    other.open_channel(2)
    other.ok(2, "queue.declare", queue=name)
    for body in "01":
        other.publish(1, "", name, body)
    other.confirmed(2)
    failing.open_channel(1)
    failing.open_channel(2)
    failing.ok(2, "basic.consume", queue=name, tag="f")
    failing.receive_named("basic.deliver", 2)
    for tag in tags:
        wire, channel = (failing, 1) if tag == "o" else (other, 2)
        wire.ok(channel, "basic.consume", queue=name, tag=tag, no_ack=no_ack)


def heard(wire: Wire, count: int) -> str:
    return " ".join(got.body.decode() or got.name for got in wire.until_quiet(expected=count))


@pytest.mark.parametrize("code", list(ERRORS))
@pytest.mark.parametrize(("tags", "first", "then"), [("ow", "0", "1 0"), ("wo", "1", "0 1")])
def test_another_channel_of_the_connection_may_get_it_before_the_end(
    connect: Callable[..., Wire], name: str, code: int, tags: str, first: str, then: str
) -> None:
    """And what it gets returns in its turn."""
    failing, other = connect(), connect()
    consumed(name, failing, other, tags)
    method, fields = ERRORS[code]
    if code == 530:
        fields = {**fields, "queue": name}
    failing.send(2, method, **fields)
    assert failing.receive().body.decode() == first
    assert failing.receive().code == code
    assert heard(other, 2) == then


def test_what_it_gets_without_acknowledgement_is_gone(connect: Callable[..., Wire], name: str) -> None:
    failing, other = connect(), connect()
    consumed(name, failing, other, "ow", no_ack=True)
    failing.send(2, "basic.qos", size=1)
    assert failing.receive().body == b"0"
    assert failing.receive().code == 540
    assert heard(other, 1) == "1"
