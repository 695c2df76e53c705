"""Whose turn it is: single active consumers, priorities of consumers, turns."""

from __future__ import annotations

from tests.interop.wire import Received, Wire
from tests.oracle.conftest import Asker


def served(wire: Wire, count: int) -> list[tuple[str, str]]:
    """Consumer and body of ``count`` deliveries."""
    return [(each.tag, each.body.decode()) for each in wire.receive_named("basic.deliver", count)]


def consume(asker: Asker, queue: str, tag: str, *, channel: int = 1, **more: object) -> None:
    asker.wire.ok(channel, "basic.consume", queue=queue, tag=tag, **more)


def test_single_active_consumer(asker: Asker) -> None:
    """The second one waits. What the first has not acknowledged stays with it when it is cancelled."""
    queue = asker.queue("q", x_single_active_consumer=True)
    for tag in "AB":
        consume(asker, queue, tag)
    for body in "012":
        asker.wire.publish(1, "", queue, body)
    assert served(asker.wire, 3) == [("A", "0"), ("A", "1"), ("A", "2")]
    asker.wire.ok(1, "basic.cancel", tag="A")
    asker.wire.publish(1, "", queue, "3")
    assert served(asker.wire, 1) == [("B", "3")]
    reply = asker.wire.call(1, "basic.consume", queue=queue, tag="C", exclusive=True)
    assert (reply.code, reply.text) == (
        403,
        f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use",
    )


def test_the_next_active_consumer_gets_what_was_unacked(asker: Asker) -> None:
    wire = asker.wire
    wire.open_channel(2)
    queue = asker.queue("q", x_single_active_consumer=True)
    consume(asker, queue, "A")
    consume(asker, queue, "B", channel=2)
    for body in "012":
        wire.publish(1, "", queue, body)
    assert served(wire, 3) == [("A", "0"), ("A", "1"), ("A", "2")]
    wire.send(1, "basic.ack", delivery_tag=1)
    wire.send(1, "channel.close", code=200)
    found: list[Received] = [wire.receive() for _ in range(3)]
    deliveries = [each for each in found if each.name == "basic.deliver"]
    assert [(each.tag, each.body, each.redelivered) for each in deliveries] == [
        ("B", b"1", True),
        ("B", b"2", True),
    ]
    assert "channel.close-ok" in {each.name for each in found}


def test_priorities_of_consumers(asker: Asker) -> None:
    """The highest first while it has credit; a negative one comes last."""
    queue = asker.queue("q")
    asker.wire.ok(1, "basic.qos", count=1)
    consume(asker, queue, "low")
    consume(asker, queue, "high", arguments={"x-priority": 10})
    consume(asker, queue, "negative", arguments={"x-priority": -5})
    for body in "0123":
        asker.wire.publish(1, "", queue, body)
    assert served(asker.wire, 3) == [("high", "0"), ("low", "1"), ("negative", "2")]
    assert asker.wire.until_quiet() == []


def test_turns(asker: Asker) -> None:
    queue = asker.queue("q")
    for tag in "12":
        consume(asker, queue, tag, no_ack=True)
    for body in "012345":
        asker.wire.publish(1, "", queue, body)
    found = served(asker.wire, 6)
    assert [tag for tag, _ in found] == ["1", "2"] * 3
