"""Queues with a largest length, and priorities."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.oracle.conftest import Asker


def outcomes(asker: Asker, count: int) -> dict[int, str]:
    """What became of ``count`` publishes, by sequence number; the order of receipts is open."""
    found: dict[int, str] = {}
    below = 1
    while len(found) < count:
        receipt = asker.wire.receive()
        tags = [receipt.delivery_tag]
        if receipt.multiple:
            tags = [tag for tag in range(below, receipt.delivery_tag + 1) if tag not in found]
        found.update(dict.fromkeys(tags, receipt.name.partition(".")[2]))
    return found


@pytest.fixture
def confirming(asker: Asker) -> Asker:
    asker.wire.ok(1, "confirm.select")
    return asker


def test_drop_head_confirms_everything(confirming: Asker) -> None:
    queue = confirming.queue("q", x_max_length=2)
    for body in "0123":
        confirming.wire.publish(1, "", queue, body)
    assert outcomes(confirming, 4) == dict.fromkeys(range(1, 5), "ack")
    assert confirming.bodies(queue) == ["2", "3"]


def test_reject_publish(confirming: Asker) -> None:
    queue = confirming.queue("q", x_max_length=2, x_overflow="reject-publish")
    for body in "0123":
        confirming.wire.publish(1, "", queue, body, mandatory=True)
    assert outcomes(confirming, 4) == {1: "ack", 2: "ack", 3: "nack", 4: "nack"}
    assert confirming.bodies(queue) == ["0", "1"]


def test_reject_publish_dlx(confirming: Asker) -> None:
    letters = confirming.queue("dead")
    queue = confirming.queue(
        "q",
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=letters,
    )
    for body in "012":
        confirming.wire.publish(1, "", queue, body)
    assert outcomes(confirming, 3) == {1: "ack", 2: "nack", 3: "nack"}
    assert confirming.bodies(queue) == ["0"]
    found = confirming.wire.get_all(letters)
    assert [(each.body, each.properties["headers"]["x-death"][0]["reason"]) for each in found] == [
        (b"1", "maxlen"),
        (b"2", "maxlen"),
    ]


def test_length_in_bytes(asker: Asker) -> None:
    queue = asker.queue("q", x_max_length_bytes=10)
    for number in range(4):
        asker.wire.publish(1, "", queue, f"{number}234")
    assert asker.bodies(queue) == ["2234", "3234"]


def test_length_0(confirming: Asker) -> None:
    """Nothing waits, but a consumer that is ready gets it."""
    queue = confirming.queue("q", x_max_length=0)
    confirming.wire.publish(1, "", queue, "lost")
    assert outcomes(confirming, 1) == {1: "ack"}
    confirming.await_ready(queue, 0)
    confirming.wire.ok(1, "basic.consume", queue=queue, no_ack=True)
    confirming.wire.publish(1, "", queue, "taken")
    assert {confirming.wire.receive().name for _ in range(2)} == {"basic.deliver", "basic.ack"}


def test_unacked_messages_do_not_count_until_they_return(asker: Asker) -> None:
    queue = asker.queue("q", x_max_length=2)
    for body in "01":
        asker.wire.publish(1, "", queue, body)
    for _ in range(2):
        assert asker.wire.get(queue, no_ack=False) is not None
    for body in "234":
        asker.wire.publish(1, "", queue, body)
    asker.await_ready(queue, 2)
    asker.wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    assert asker.bodies(queue) == ["3", "4"]


@pytest.mark.parametrize("priority", [None, 5])
def test_what_a_closed_channel_gives_back_is_trimmed_before_others_get_it(
    asker: Asker, priority: int | None
) -> None:
    """Another consumer, which could take all of it, gets what the queue has room for."""
    dead = asker.queue("dead")
    limits: dict[str, Any] = {} if priority is None else {"x_max_priority": priority}
    queue = asker.queue(
        "q", x_max_length=2, x_dead_letter_exchange="", x_dead_letter_routing_key=dead, **limits
    )
    asker.wire.ok(2, "channel.open")
    asker.wire.ok(2, "basic.consume", queue=queue)
    for body, level in (("a", 1), ("b", 5), ("c", 1), ("d", 5), ("e", 3)):
        asker.wire.publish(1, "", queue, body, priority=level)
    assert sorted(asker.wire.receive().body for _ in range(5)) == [b"a", b"b", b"c", b"d", b"e"]
    asker.wire.ok(1, "basic.consume", queue=queue)
    asker.wire.send(2, "channel.close", code=200)
    left, dropped = (["d", "e"], ["a", "b", "c"]) if priority is None else (["a", "c"], ["b", "d", "e"])
    # Its answer comes before the deliveries, between or after them.
    found = [received for _ in range(3) if (received := asker.wire.receive()).name == "basic.deliver"]
    assert [each.body.decode() for each in found] == left
    asker.await_ready(dead, 3)
    assert asker.bodies(dead) == dropped
    asker.await_ready(queue, 0)


RETURNS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "nack": [("basic.nack", {"delivery_tag": 0, "multiple": True, "requeue": True})],
    "recover": [("basic.recover", {"requeue": True})],
    "recover in a transaction": [("tx.select", {}), ("basic.recover", {"requeue": True})],
    "commit of a nack": [
        ("tx.select", {}),
        ("basic.nack", {"delivery_tag": 0, "multiple": True, "requeue": True}),
        ("tx.commit", {}),
    ],
    "channel.close": [("channel.close", {"code": 200})],
}


def full(asker: Asker) -> tuple[str, str]:
    """A queue of at most five octets, and the one for its dead letters."""
    dead = asker.queue("dead")
    letters = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": dead}
    asker.wire.open_channel(2)
    return asker.queue("q", x_max_length_bytes=5, **letters), dead


def give_back(asker: Asker, how: str) -> None:
    for method, fields in RETURNS[how]:
        if method == "basic.nack":
            asker.wire.send(2, method, **fields)
        else:
            asker.wire.ok(2, method, **fields)


@pytest.mark.parametrize("how", RETURNS)
def test_the_length_counts_when_all_of_a_consumer_are_back(asker: Asker, how: str) -> None:
    """Messages that return together are in their places before the oldest ones leave.

    Here the oldest has the highest delivery tag. Were it back after the others, there would be room for it.
    """
    queue, dead = full(asker)
    asker.wire.ok(2, "basic.consume", queue=queue, tag="c")
    for body in ("a", "bb", "cc", "dd"):
        asker.wire.publish(1, "", queue, body)
        assert asker.wire.receive().name == "basic.deliver"
    asker.wire.send(2, "basic.nack", delivery_tag=1, requeue=True)
    assert asker.wire.receive().body == b"a"
    asker.wire.ok(2, "basic.cancel", tag="c")
    give_back(asker, how)
    asker.await_ready(dead, 2)
    assert asker.bodies(dead) == ["a", "bb"]
    assert asker.bodies(queue) == ["cc", "dd"]


@pytest.mark.parametrize("how", RETURNS)
def test_messages_that_were_got_return_one_by_one(asker: Asker, how: str) -> None:
    """Unless their channel closes."""
    queue, dead = full(asker)
    for body in ("a", "bb", "cc", "dd"):
        asker.wire.publish(1, "", queue, body)
        asker.await_ready(queue, 1)
        assert asker.wire.get(queue, 2, no_ack=False) is not None
    asker.wire.send(2, "basic.nack", delivery_tag=1, requeue=True)
    assert asker.wire.get(queue, 2, no_ack=False) is not None
    give_back(asker, how)
    gone = ["a", "bb"] if how == "channel.close" else ["bb"]
    asker.await_ready(dead, len(gone))
    assert asker.bodies(dead) == gone
    assert asker.bodies(queue) == (["cc", "dd"] if how == "channel.close" else ["a", "cc", "dd"])


def test_one_full_queue_of_two(confirming: Asker) -> None:
    """The publisher gets a nack, and the other queue keeps its copy."""
    full = confirming.queue("full", x_max_length=0, x_overflow="reject-publish")
    other, exchange = confirming.queue("other"), confirming.of("x")
    confirming.wire.ok(1, "exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
    for queue in (full, other):
        confirming.wire.ok(1, "queue.bind", queue=queue, exchange=exchange)
    confirming.wire.publish(1, exchange, "", "x")
    assert outcomes(confirming, 1) == {1: "nack"}
    assert confirming.bodies(other) == ["x"]


def test_priorities(asker: Asker) -> None:
    """Capped at the queue's, none is 0, in order within one; the property stays as it was sent."""
    queue = asker.queue("q", x_max_priority=5)
    given: list[tuple[str, int | None]] = [
        ("a", 1), ("b", 5), ("c", 9), ("d", None), ("e", 0), ("f", 5), ("g", 1),
    ]  # fmt: skip
    for body, priority in given:
        more: dict[str, Any] = {} if priority is None else {"priority": priority}
        asker.wire.publish(1, "", queue, body, **more)
    found = [(each.body.decode(), each.properties.get("priority")) for each in asker.wire.get_all(queue)]
    assert found == [("b", 5), ("c", 9), ("f", 5), ("a", 1), ("g", 1), ("d", None), ("e", 0)]


def test_a_return_keeps_its_place_within_its_priority(asker: Asker) -> None:
    queue = asker.queue("q", x_max_priority=5)
    for body, priority in (("x", 5), ("y", 5), ("z", 1)):
        asker.wire.publish(1, "", queue, body, priority=priority)
    asker.reject(queue, requeue=True)
    assert asker.bodies(queue) == ["x", "y", "z"]


def test_a_full_priority_queue_drops_its_highest(asker: Asker) -> None:
    """Its head, which is the most important message: RabbitMQ does so, too."""
    queue = asker.queue("q", x_max_priority=5, x_max_length=2)
    for body, priority in (("a", 1), ("b", 5), ("c", 1)):
        asker.wire.publish(1, "", queue, body, priority=priority)
    assert asker.bodies(queue) == ["a", "c"]


@pytest.mark.parametrize("how", ["channel.close", "nack", "a long one", "a short one"])
def test_what_is_over_behind_others_is_dropped_with_them(asker: Asker, how: str) -> None:
    """The time of the one in the middle is over, and the oldest leave as all return, or for a long message.

    If a short one makes but the oldest leave, the next one is the head, and expires.
    """
    queue, dead = full(asker)
    returns = how in RETURNS
    if returns:
        asker.wire.ok(2, "basic.consume", queue=queue, tag="c")
    for body, expiration in (("aa", None), ("b", "1"), ("cc", None)):
        asker.wire.publish(1, "", queue, body, expiration=expiration)
        if returns:
            assert asker.wire.receive().body == body.encode()
    asker.wire.ok(1, "basic.qos")
    time.sleep(0.1)
    if returns:
        asker.wire.ok(2, "basic.cancel", tag="c")
        asker.wire.publish(1, "", queue, "ddd")
        asker.await_ready(queue, 1)
        give_back(asker, how)
    else:
        asker.wire.publish(1, "", queue, "d" * (3 if how == "a long one" else 2))
    asker.await_ready(dead, 2)
    found = asker.wire.get_all(dead)
    assert [(each.body, each.properties["headers"]["x-death"][0]["reason"]) for each in found] == [
        (b"aa", "maxlen"),
        (b"b", "expired" if how == "a short one" else "maxlen"),
    ]
    assert asker.bodies(queue) == ["cc", "dd" if how == "a short one" else "ddd"]
