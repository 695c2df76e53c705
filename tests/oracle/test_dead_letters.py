"""Dead letters: where they go, and what ``x-death`` says. The keys of its tables have no order."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.interop.wire import Received, long_int
from tests.oracle.conftest import Asker


def dead(asker: Asker, queue: str) -> Received:
    """The next dead letter."""
    for _ in range(1000):
        found = asker.wire.get(queue)
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("no dead letter came")


def deaths(letter: Received) -> list[dict[str, Any]]:
    """``x-death`` without its times, which are checked."""
    found = [dict(death) for death in letter.properties["headers"]["x-death"]]
    for death in found:
        assert time.time() - 60 < death.pop("time", time.time()) < time.time() + 60
    return found


def first(letter: Received) -> tuple[str, str, str]:
    headers = letter.properties["headers"]
    return tuple(headers[f"x-first-death-{key}"] for key in ("queue", "reason", "exchange"))  # type: ignore[return-value]


def test_rejected(asker: Asker) -> None:
    target = asker.queue("dead")
    source = asker.queue("s", x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    given: dict[str, Any] = {
        "content_type": "text/plain",
        "message_id": "m1",
        "delivery_mode": 2,
        "priority": 3,
    }
    asker.wire.publish(1, "", source, "r", headers={"h": 1}, expiration="60000", **given)
    asker.reject(source)
    letter = dead(asker, target)
    assert (letter.exchange, letter.routing_key, letter.redelivered) == ("", target, False)
    assert deaths(letter) == [
        {
            "count": 1,
            "reason": "rejected",
            "queue": source,
            "exchange": "",
            "routing-keys": [source],
            "original-expiration": "60000",
        }
    ]
    assert first(letter) == (source, "rejected", "")
    kept = {key: value for key, value in letter.properties.items() if key != "headers"}
    assert kept == given
    assert letter.properties["headers"]["h"] == 1


@pytest.mark.parametrize("reason", ["expired", "maxlen"])
def test_expired_and_too_many(asker: Asker, reason: str) -> None:
    target = asker.queue("dead")
    limit = {"x_message_ttl": 50} if reason == "expired" else {"x_max_length": 1}
    source = asker.queue("s", x_dead_letter_exchange="", x_dead_letter_routing_key=target, **limit)
    asker.wire.publish(1, "", source, "1")
    if reason == "maxlen":
        asker.wire.publish(1, "", source, "2")
    letter = dead(asker, target)
    assert letter.body == b"1"
    assert deaths(letter) == [
        {"count": 1, "reason": reason, "queue": source, "exchange": "", "routing-keys": [source]}
    ]


def test_cc_with_a_dead_letter_routing_key(asker: Asker) -> None:
    """Only that key is used, CC goes, and BCC is not told."""
    target, copy = asker.queue("dead"), asker.queue("copy")
    source = asker.queue("s", x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    asker.wire.publish(1, "", source, "c", headers={"CC": [copy], "BCC": ["nowhere"]})
    asker.reject(source)
    letter = dead(asker, target)
    assert "CC" not in letter.properties["headers"]
    assert deaths(letter)[0]["routing-keys"] == [source, copy]
    assert len(asker.wire.get_all(copy)) == 1


def test_keys_without_a_dead_letter_routing_key(asker: Asker) -> None:
    target, exchange = asker.queue("dead"), asker.of("x")
    asker.wire.ok(1, "exchange.declare", exchange=exchange, type="topic", auto_delete=True)
    asker.wire.ok(1, "queue.bind", queue=target, exchange=exchange, routing_key="#")
    source = asker.queue("s", x_dead_letter_exchange=exchange)
    key = asker.of("k")
    asker.wire.ok(1, "queue.bind", queue=source, exchange="amq.topic", routing_key=f"{key}.#")
    headers = {"CC": [f"{key}.2"], "BCC": [f"{key}.3"]}
    asker.wire.publish(1, "amq.topic", f"{key}.1", "c", headers=headers)
    asker.await_ready(source, 1)
    asker.reject(source)
    letter = dead(asker, target)
    assert (letter.exchange, letter.routing_key) == (exchange, f"{key}.1")
    assert letter.properties["headers"]["CC"] == [f"{key}.2"]
    assert deaths(letter)[0]["routing-keys"] == [f"{key}.1", f"{key}.2"]
    assert first(letter) == (source, "rejected", "amq.topic")


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_keys_of_bcc_are_used_and_not_told(asker: Asker, reason: str) -> None:
    """Measured: a letter goes by the routing key, CC and BCC; no consumer ever sees BCC."""
    copies = [asker.queue(f"copy{number}") for number in range(3)]
    for copy in copies:
        asker.wire.ok(1, "queue.bind", queue=copy, exchange="amq.direct", routing_key=f"{copy}.k")
    keys = [f"{copy}.k" for copy in copies]
    limit = {"expired": {"x_message_ttl": 50}, "maxlen": {"x_max_length": 0}, "rejected": {}}[reason]
    source = asker.queue("s", x_dead_letter_exchange="amq.direct", **limit)
    asker.wire.publish(1, "", source, "c", headers={"CC": keys[:1], "BCC": keys[1:], "z": 1})
    if reason == "rejected":
        found = asker.wire.get(source, no_ack=False)
        assert found is not None
        assert found.properties["headers"] == {"CC": keys[:1], "z": 1}
        asker.wire.send(1, "basic.reject", delivery_tag=found.delivery_tag, requeue=False)
    for copy in copies:
        letter = dead(asker, copy)
        assert (letter.exchange, letter.routing_key) == ("amq.direct", source)
        assert {"CC", "z", "x-death"} <= letter.properties["headers"].keys()
        assert "BCC" not in letter.properties["headers"]
        assert deaths(letter)[0]["routing-keys"] == [source, keys[0]]


def test_keys_of_bcc_are_used_by_the_second_death_too(asker: Asker) -> None:
    copy, second = asker.queue("copy"), asker.of("second")
    exchange = asker.of("x")
    asker.wire.ok(1, "exchange.declare", exchange=exchange, type="fanout", auto_delete=True)
    asker.queue("second", x_dead_letter_exchange="amq.direct")
    asker.wire.ok(1, "queue.bind", queue=second, exchange=exchange)
    asker.wire.ok(1, "queue.bind", queue=copy, exchange="amq.direct", routing_key=f"{copy}.k")
    source = asker.queue("s", x_dead_letter_exchange=exchange)
    asker.wire.publish(1, "", source, "c", headers={"BCC": [f"{copy}.k"]})
    asker.reject(source)
    asker.await_ready(second, 1)
    asker.reject(second)
    letter = dead(asker, copy)
    assert [death["routing-keys"] for death in deaths(letter)] == [[source], [source]]
    assert "BCC" not in letter.properties["headers"]


def test_a_dead_letter_routing_key_is_the_end_of_bcc(asker: Asker) -> None:
    """The letter has one key. When it dies again without such a key, it goes by this one alone."""
    copy, second, last = asker.queue("copy"), asker.of("second"), asker.queue("last")
    for queue in (copy, last):
        asker.wire.ok(1, "queue.bind", queue=queue, exchange="amq.direct", routing_key=f"{queue}.k")
    asker.wire.ok(1, "queue.bind", queue=last, exchange="amq.direct", routing_key=second)
    asker.queue("second", x_dead_letter_exchange="amq.direct")
    source = asker.queue("s", x_dead_letter_exchange="", x_dead_letter_routing_key=second)
    asker.wire.publish(1, "", source, "c", headers={"BCC": [f"{copy}.k"]})
    asker.reject(source)
    asker.await_ready(second, 1)
    asker.reject(second)
    assert dead(asker, last).routing_key == second
    assert asker.wire.get_all(copy) == []


def test_two_deaths(asker: Asker) -> None:
    """The newest comes first; the first one is remembered."""
    target = asker.queue("dead")
    second = asker.queue("b", x_message_ttl=40, x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    source = asker.queue("a", x_message_ttl=40, x_dead_letter_exchange="", x_dead_letter_routing_key=second)
    asker.wire.publish(1, "", source, "h", expiration="30")
    letter = dead(asker, target)
    assert [(death["queue"], death["count"]) for death in deaths(letter)] == [(second, 1), (source, 1)]
    assert deaths(letter)[1]["original-expiration"] == "30"
    assert first(letter) == (source, "expired", "")


def test_deaths_that_a_client_tells_are_counted_on(asker: Asker) -> None:
    target = asker.queue("dead")
    source = asker.queue("a", x_message_ttl=40, x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    death = {
        "queue": source,
        "reason": "expired",
        "count": long_int(5),
        "exchange": "",
        "routing-keys": [source],
    }
    asker.wire.publish(1, "", source, "h", headers={"x-death": [death], "x-first-death-queue": "zzz"})
    letter = dead(asker, target)
    assert [(each["queue"], each["count"]) for each in deaths(letter)] == [(source, 6)]
    assert letter.properties["headers"]["x-first-death-queue"] == "zzz"


def test_a_cycle_without_a_rejection_ends(asker: Asker) -> None:
    own = asker.of("c")
    queue = asker.queue("c", x_message_ttl=40, x_dead_letter_exchange="", x_dead_letter_routing_key=own)
    asker.wire.publish(1, "", queue, "c")
    time.sleep(0.25)
    asker.await_ready(queue, 0)


def test_a_cycle_with_rejections_goes_on(asker: Asker) -> None:
    pause = asker.of("pause")
    queue = asker.queue("c", x_dead_letter_exchange="", x_dead_letter_routing_key=pause)
    asker.queue("pause", x_message_ttl=30, x_dead_letter_exchange="", x_dead_letter_routing_key=queue)
    asker.wire.publish(1, "", queue, "c")
    for _ in range(3):
        letter = dead_unacked(asker, queue)
        asker.wire.send(1, "basic.reject", delivery_tag=letter.delivery_tag, requeue=False)
    found = [
        (death["queue"], death["reason"], death["count"]) for death in deaths(dead_unacked(asker, queue))
    ]
    assert found == [(pause, "expired", 3), (queue, "rejected", 3)]


def dead_unacked(asker: Asker, queue: str) -> Received:
    for _ in range(1000):
        found = asker.wire.get(queue, no_ack=False)
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("the message did not come back")


def test_a_missing_exchange_drops_in_silence(asker: Asker) -> None:
    source = asker.queue("s", x_dead_letter_exchange="missing")
    asker.wire.publish(1, "", source, "x")
    asker.reject(source)
    asker.await_ready(source, 0)
