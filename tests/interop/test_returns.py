"""In which order messages come again that a channel returned. Measured on RabbitMQ 3.10.8."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.interop.conftest import RABBITMQ
from tests.interop.wire import Received, Wire, encode_frame, encode_method, encode_publish

QUORUM: dict[str, Any] = {"x-queue-type": "quorum"}


def prepared(wire: Wire, name: str, tags: str, prefetch: int, count: int, **arguments: Any) -> list[Received]:
    """Consumers ``tags`` of a queue that then gets ``count`` messages; returns the deliveries."""
    wire.ok(1, "queue.declare", queue=name, durable=True, arguments=arguments)
    wire.ok(1, "basic.qos", count=prefetch)
    for tag in tags:
        wire.ok(1, "basic.consume", queue=name, tag=tag)
    wire.open_channel(2)
    for number in range(count):
        wire.publish(2, "", name, b"%d" % number)
    return wire.receive_named("basic.deliver", min(count, prefetch * len(tags) or count))


def at_once(wire: Wire, *methods: tuple[str, dict[str, Any]]) -> None:
    """Send all ``methods`` on channel 1 in one write."""
    sent: list[bytes] = []
    send_bytes = wire.send_bytes
    wire.send_bytes = sent.append  # type: ignore[method-assign]
    for method, fields in methods:
        wire.send(1, method, **fields)
    wire.send_bytes = send_bytes  # type: ignore[method-assign]
    wire.send_bytes(b"".join(sent))


def again(wire: Wire, count: int) -> str:
    """Consumer and body of what comes again."""
    return " ".join(f"{got.tag}{got.body.decode()}" for got in wire.receive_named("basic.deliver", count))


def nack(tag: int, *, multiple: bool = False) -> tuple[str, dict[str, Any]]:
    return "basic.nack", {"delivery_tag": tag, "multiple": multiple, "requeue": True}


@pytest.mark.parametrize("arguments", [{}, QUORUM])
def test_nacks_of_one_write_come_again_one_by_one(wire: Wire, name: str, arguments: dict[str, Any]) -> None:
    prepared(wire, name, "a", 0, 4, **arguments)
    at_once(wire, nack(4), nack(2), nack(3), nack(1))
    assert again(wire, 4) == "a3 a1 a2 a0"


def test_the_consumer_that_has_room_gets_what_comes_first(wire: Wire, name: str) -> None:
    prepared(wire, name, "ab", 1, 2)
    at_once(wire, nack(2), nack(1))
    assert again(wire, 2) == "b1 a0"


@pytest.mark.parametrize(
    ("prefetch", "order"), [(0, "b1 a3 b5 a0 b2 a4"), (2, "a1 a3 b0 b2")], ids=["unlimited", "limited"]
)
@pytest.mark.parametrize("how", ["nack", "recover", "commit"])
def test_consumers_return_theirs_one_after_the_other(
    wire: Wire, name: str, how: str, prefetch: int, order: str
) -> None:
    """In the order of their tags, not of their start."""
    prepared(wire, name, "ba", prefetch, 6)
    if how == "recover":
        wire.ok(1, "basic.recover", requeue=True)
    elif how == "nack":
        at_once(wire, nack(0, multiple=True))
    else:
        wire.ok(1, "tx.select")
        at_once(wire, nack(0, multiple=True), ("tx.commit", {}))
        assert wire.receive().name == "tx.commit-ok"
    assert again(wire, len(order.split())) == order


@pytest.mark.parametrize(("prefetch", "order"), [(0, "b1 a3 b0 a2"), (2, "a1 a3 b0 b2")])
def test_nacks_of_a_transaction_return_together(wire: Wire, name: str, prefetch: int, order: str) -> None:
    prepared(wire, name, "ba", prefetch, 6)
    wire.ok(1, "tx.select")
    at_once(wire, nack(4), nack(1), nack(3), nack(2), ("tx.commit", {}))
    assert wire.receive().name == "tx.commit-ok"
    assert again(wire, 4) == order


@pytest.mark.parametrize("how", ["close", "nack"])
@pytest.mark.parametrize(
    ("arguments", "theirs"),
    [({}, "b0 a1 b2 a3 b4"), ({**QUORUM, "x-delivery-limit": 9}, "a1 a3 b0 b2 b4")],
    ids=["classic", "quorum"],
)
def test_several_consumers_of_another_channel_get_what_returns(
    wire: Wire, name: str, how: str, arguments: dict[str, Any], theirs: str
) -> None:
    """In the queue's order, as AMQP 0-9-1, 4.7 has it. RabbitMQ's quorum queues serve one after the other."""
    prepared(wire, name, "c", 0, 5, **arguments)
    if how == "nack":
        wire.ok(1, "basic.cancel", tag="c")
    for tag in "ba":
        wire.send(2, "basic.consume", queue=name, tag=tag)
    wire.receive_named("basic.consume-ok", 2)
    at_once(wire, nack(0, multiple=True) if how == "nack" else ("channel.close", {"code": 200}))
    found: list[str] = []
    while len(found) < 5:
        got = wire.receive()
        if got.name != "channel.close-ok":
            found.append(f"{got.tag}{got.body.decode()}")
    assert " ".join(found) == (theirs if RABBITMQ else "b0 a1 b2 a3 b4")


def limited(wire: Wire, name: str, count: int, **more: Any) -> None:
    """A quorum queue with a delivery limit and ``count`` messages; channels 2 to 4 are open."""
    wire.open_channel(2, confirm=True)
    wire.open_channel(3)
    wire.open_channel(4)
    arguments = {**QUORUM, "x-delivery-limit": 9, **more}
    wire.ok(1, "queue.declare", queue=name, durable=True, arguments=arguments)
    for number in range(count):
        wire.publish(2, "", name, b"%d" % number)
    wire.confirmed(count)


def take(wire: Wire, name: str, channel: int = 1, *, no_ack: bool = False) -> Received:
    """The next message. RabbitMQ's quorum queues take a moment to have what returned."""
    until = time.monotonic() + 30
    while (found := wire.get(name, channel, no_ack=no_ack)) is None:
        assert time.monotonic() < until, f"no message in {name}"
        time.sleep(0.02)
    return found


def left(wire: Wire, name: str, count: int) -> str:
    """The bodies of ``count`` ready messages, once all of them are ready."""
    until = time.monotonic() + 30
    while (found := wire.ready(name, 3)) != count:
        assert time.monotonic() < until, f"{found} messages are ready, and not {count}"
        time.sleep(0.02)
    return " ".join(take(wire, name, 3, no_ack=True).body.decode() for _ in range(count))


def taken(wire: Wire, name: str, how: str, count: int) -> None:
    """Channel 1 gets ``count`` messages, by basic.get or a consumer that it cancels then."""
    if how == "get":
        for _ in range(count):
            wire.ok(1, "basic.get", queue=name)
    else:
        wire.ok(1, "basic.qos", count=count)
        wire.ok(1, "basic.consume", queue=name, tag="a")
        wire.receive_named("basic.deliver", count)
        wire.ok(1, "basic.cancel", tag="a")


@pytest.mark.parametrize("how", ["get", "consume"])
def test_what_returns_to_a_quorum_queue_stands_before_all_else(wire: Wire, name: str, how: str) -> None:
    """In the order of the nacks. RabbitMQ does so if the queue has a delivery limit."""
    limited(wire, name, 8)
    taken(wire, name, how, 6)
    at_once(wire, *[nack(tag) for tag in (4, 2, 3, 1, 6, 5)])
    assert left(wire, name, 8) == "3 1 2 0 5 4 6 7"


@pytest.mark.parametrize("how", ["get", "consume"])
def test_what_returns_to_a_quorum_queue_again_comes_last_of_that(wire: Wire, name: str, how: str) -> None:
    limited(wire, name, 4)
    taken(wire, name, how, 4)
    at_once(wire, nack(3), nack(1))
    wire.publish(2, "", name, b"new")
    assert wire.receive().name == "basic.ack"
    again = take(wire, name)
    assert again.body == b"2"
    at_once(wire, nack(again.delivery_tag), nack(2))
    assert left(wire, name, 4) == "0 2 1 new"


@pytest.mark.parametrize("how", ["nack", "recover", "commit", "close"])
def test_consumers_return_theirs_to_a_quorum_queue_one_after_the_other(
    wire: Wire, name: str, how: str
) -> None:
    limited(wire, name, 0)
    wire.ok(1, "basic.qos", count=3)
    for tag in "ba":
        wire.ok(1, "basic.consume", queue=name, tag=tag)
    for number in range(8):
        wire.publish(4, "", name, b"%d" % number)
    got = wire.receive_named("basic.deliver", 6)
    for tag in "ab":
        wire.ok(1, "basic.cancel", tag=tag)
    if how == "nack":
        at_once(wire, nack(0, multiple=True))
    elif how == "commit":
        wire.ok(1, "tx.select")
        at_once(wire, *[nack(tag) for tag in (5, 2, 1, 6, 3, 4)], ("tx.commit", {}))
        assert wire.receive().name == "tx.commit-ok"
    else:
        fields = {"requeue": True} if how == "recover" else {"code": 200}
        wire.ok(1, "basic.recover" if how == "recover" else "channel.close", **fields)
    order = [each.body.decode() for tag in "ab" for each in got if each.tag == tag]
    assert left(wire, name, 8) == " ".join([*order, "6", "7"])


def test_the_channel_that_closes_first_returns_first(wire: Wire, name: str) -> None:
    limited(wire, name, 8)
    for channel, tag in ((1, "a"), (4, "b")):
        wire.ok(channel, "basic.qos", count=3)
        wire.ok(channel, "basic.consume", queue=name, tag=tag)
        wire.receive_named("basic.deliver", 3)
    for channel, tag in ((1, "a"), (4, "b")):
        wire.ok(channel, "basic.cancel", tag=tag)
    wire.ok(4, "channel.close", code=200)
    until = time.monotonic() + 30
    while wire.ready(name, 3) < 5:
        assert time.monotonic() < until
    wire.ok(1, "channel.close", code=200)
    assert left(wire, name, 8) == "3 4 5 0 1 2 6 7"


def test_a_waiting_consumer_gets_what_returns_to_a_quorum_queue_first(wire: Wire, name: str) -> None:
    limited(wire, name, 6)
    taken(wire, name, "consume", 4)
    wire.ok(4, "basic.qos", count=1)
    wire.ok(4, "basic.consume", queue=name, tag="w")
    got = [wire.receive()]
    at_once(wire, *[nack(tag) for tag in (3, 1, 4, 2)])
    until = time.monotonic() + 30
    while wire.ready(name, 3) < 5:
        assert time.monotonic() < until
    while len(got) < 6:
        wire.send(4, "basic.ack", delivery_tag=got[-1].delivery_tag)
        got.append(wire.receive())
    assert " ".join(each.body.decode() for each in got) == "4 2 0 3 1 5"


def test_a_full_quorum_queue_drops_what_returned_first(wire: Wire, name: str) -> None:
    limited(wire, name, 4, **{"x-max-length": 4})
    taken(wire, name, "get", 4)
    for body in (b"n", b"m"):
        wire.publish(2, "", name, body)
        assert wire.receive().name == "basic.ack"
    at_once(wire, *[nack(tag) for tag in (4, 2, 3, 1)])
    assert wire.until_quiet() == []
    assert left(wire, name, 4) == "2 0 n m"


def test_who_counts_as_a_consumer_of_a_quorum_queue(wire: Wire, name: str) -> None:
    """An unsettled message of basic.get does, and a cancelled consumer that has some."""

    def await_consumers(count: int) -> None:
        """RabbitMQ tells of an acknowledgement a moment later."""
        until = time.monotonic() + 30
        while (found := wire.ok(1, "queue.declare", queue=name, passive=True).consumers) != count:
            assert time.monotonic() < until, f"{found} consumers, and not {count}"

    wire.open_channel(2, confirm=True)
    wire.open_channel(3)
    wire.ok(1, "queue.declare", queue=name, durable=True, arguments=QUORUM)
    for number in range(6):
        wire.publish(2, "", name, b"%d" % number)
    wire.confirmed(6)
    first, second = wire.get(name, 3, no_ack=False), wire.get(name, 3, no_ack=False)
    assert first is not None
    assert second is not None
    await_consumers(2)
    wire.get(name, 3, no_ack=True)
    wire.send(3, "basic.ack", delivery_tag=first.delivery_tag)
    wire.ok(3, "basic.qos", count=2)
    wire.ok(3, "basic.consume", queue=name, tag="x")
    wire.receive_named("basic.deliver", 2)
    await_consumers(2)
    wire.ok(3, "basic.cancel", tag="x")
    await_consumers(2)
    wire.send(3, "basic.ack", delivery_tag=4, multiple=True)
    await_consumers(1)
    wire.send(3, "basic.ack", delivery_tag=5)
    await_consumers(0)


def test_what_looks_into_a_queue_is_answered_before_its_deliveries(wire: Wire, name: str) -> None:
    """On the channel that consumes from it, behind publishes in one write; with the lower delivery tag."""

    def write(heard: str, *sent: str | tuple[str, dict[str, Any]]) -> None:
        """Publish bodies and send methods in one write; ``heard`` is what comes then."""
        frames = [
            encode_publish(1, "", name, each.encode())
            if isinstance(each, str)
            else encode_frame(1, 1, encode_method(each[0], **each[1]))
            for each in sent
        ]
        wire.send_bytes(b"".join(frames))
        answers = wire.until_quiet(expected=len(heard.split()))
        texts = [
            f"{each.delivery_tag}{each.body.decode()}" if each.body else each.name.partition(".")[2]
            for each in answers
        ]
        assert " ".join(texts) == heard

    wire.ok(1, "queue.declare", queue=name)
    wire.ok(1, "basic.qos", count=1)
    wire.ok(1, "basic.consume", queue=name, tag="a")
    get = ("basic.get", {"queue": name})
    acks = ("basic.ack", {"delivery_tag": 0, "multiple": True})
    write("1b get-empty 2a", "a", "b", get, get)
    write("", acks)
    # What is acknowledged or returned behind it is not what the client has not seen.
    write("3d 4c", "c", "d", get, acks)
    write("5c", nack(4))
    write("", acks)
    write("6e", "e", nack(0, multiple=True))
    write("", acks)
    write("declare-ok get-empty 7f", "f", ("queue.declare", {"queue": name, "passive": True}), get)
    write("", acks)
    write("get-empty 8g cancel-ok", "g", get, ("basic.cancel", {"tag": "a"}))


@pytest.mark.parametrize("late", ["0", "1", "01"])
@pytest.mark.parametrize("how", ["get", "consume"])
def test_a_full_quorum_queue_looks_at_the_time_of_what_returns_first(
    wire: Wire, name: str, how: str, late: str
) -> None:
    """What basic.get took returns one by one, so what is over behind one that is dropped has expired."""
    letters = f"{name} letters"
    wire.ok(1, "queue.declare", queue=letters)
    more = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
    arguments = {**QUORUM, "x-max-length": 2, "x-delivery-limit": 9, **more}
    wire.ok(1, "queue.declare", queue=name, durable=True, arguments=arguments)
    wire.open_channel(2, confirm=True)
    for body in "01":
        wire.publish(2, "", name, body.encode(), expiration="3000" if body in late else None)
    wire.confirmed(2)
    if how == "get":
        for _ in range(2):
            wire.ok(1, "basic.get", queue=name)
    else:
        wire.ok(1, "basic.qos", count=2)
        wire.ok(1, "basic.consume", queue=name, tag="a")
        wire.receive_named("basic.deliver", 2)
        wire.ok(1, "basic.cancel", tag="a")
    for body in (b"2", b"3"):
        wire.publish(2, "", name, body)
    wire.until_quiet(expected=1)
    time.sleep(3.2)
    wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    until = time.monotonic() + 30
    while wire.ready(letters) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    reasons = {
        each.body.decode(): each.properties["headers"]["x-death"][0]["reason"]
        for each in wire.get_all(letters)
    }
    is_dropped = how == "consume" and late == "1"
    assert {body for body, reason in reasons.items() if reason == "expired"} == (
        {*late} - ({"1"} if is_dropped else set())
    )
    assert [each.body for each in wire.get_all(name)] == [b"2", b"3"]
