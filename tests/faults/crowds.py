"""Loads of a million messages that end together: they expire, are dropped, are due, or become dead letters.

As those of `costly`: others must not notice. Each runs at least once, whatever its time.
"""

from __future__ import annotations

import http.client
import json
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.faults.costly import SETUP_S, held
from tests.faults.loads import Outcome
from tests.faults.place import CaseLoad, Place, answers, connect, drop
from tests.interop.wire import Wire, encode_publish

MILLION = 1_000_000
BLOCK = 1000
#: Seconds in which the last of them must have come to its end.
END_S = 600.0
#: Seconds between two looks, at first and at most.
LOOK_S, LOOK_S_MAX = 0.01, 0.5
SOURCE, TARGET, DELAYED = "crowd", "crowd-dead", "crowd-delayed"
LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": TARGET}


def fill(wire: Wire, exchange: str, key: str, count: int, **properties: Any) -> str:
    """Publish so many messages of ten octets; what went wrong."""
    wire.socket.settimeout(SETUP_S)
    block = encode_publish(1, exchange, key, bytes(10), **properties) * min(BLOCK, count)
    for _ in range(max(1, count // BLOCK)):
        wire.send_bytes(block)
    return "" if answers(wire, SETUP_S) else "the messages were not taken"


def counted(wire: Wire, queue: str, wanted: int) -> str:
    """Wait until so many messages are ready in ``queue``; what is wrong if they never are."""
    end = time.monotonic() + END_S
    ready, pause = -1, LOOK_S
    while time.monotonic() < end:
        ready = wire.ok(1, "queue.declare", queue=queue, passive=True).messages
        if ready == wanted:
            return ""
        time.sleep(pause)
        pause = min(2 * pause, LOOK_S_MAX)
    return f"{ready:,} messages in {queue}, not {wanted:,}"


def rounds(place: Place, seconds: float, act: Callable[[Wire], tuple[int, str]], *queues: str) -> Outcome:
    """Call ``act`` with a connection until the time is over; it returns how many messages, and a problem."""
    begun = time.monotonic()
    published, longest, problem = 0, 0.0, ""
    while not problem and (not published or time.monotonic() - begun < seconds):
        wire = connect(place)
        before = time.monotonic()
        count, problem = act(wire)
        longest = max(longest, time.monotonic() - before)
        published += count
        for queue in queues:
            wire.socket.settimeout(SETUP_S)
            wire.ok(1, "queue.delete", queue=queue)
        wire.close()
    return Outcome(published, published, problem, f"a round took up to {longest:.1f} s")


def expiry(place: Place, seconds: float, *, mode: int, letters: bool = False) -> Outcome:
    """They wait behind one message without a deadline, which is taken when the time of all is over."""
    count = place.of(MILLION) // BLOCK * BLOCK or place.of(MILLION)

    def act(wire: Wire) -> tuple[int, str]:
        wire.ok(1, "queue.declare", queue=SOURCE, durable=mode == 2, arguments=LETTERS if letters else {})
        wire.ok(1, "queue.declare", queue=TARGET, durable=mode == 2)
        wire.publish(1, "", SOURCE, b"first", delivery_mode=mode)
        problem = fill(wire, "", SOURCE, count, delivery_mode=mode, expiration="1")
        problem = problem or counted(wire, SOURCE, count + 1)
        wire.get(SOURCE)
        problem = problem or counted(wire, SOURCE, 0)
        return count, problem or counted(wire, TARGET, count * letters)

    return rounds(place, seconds, act, SOURCE, TARGET)


def policy_drops(place: Place, seconds: float, *, mode: int, letters: bool = False) -> Outcome:
    """A policy sets a maximum length of 10 for a queue of a million."""
    count = place.of(MILLION) // BLOCK * BLOCK or place.of(MILLION)

    def act(wire: Wire) -> tuple[int, str]:
        wire.ok(1, "queue.declare", queue=SOURCE, durable=mode == 2, arguments=LETTERS if letters else {})
        wire.ok(1, "queue.declare", queue=TARGET, durable=mode == 2)
        problem = fill(wire, "", SOURCE, count, delivery_mode=mode) or counted(wire, SOURCE, count)
        policy(place, "PUT", {"pattern": f"^{SOURCE}$", "definition": {"max-length": 10}})
        left = min(count, 10)
        problem = problem or counted(wire, SOURCE, left) or counted(wire, TARGET, (count - left) * letters)
        policy(place, "DELETE")
        return count, problem

    return rounds(place, seconds, act, SOURCE, TARGET)


def policy(place: Place, verb: str, body: dict[str, Any] | None = None) -> None:
    login = b64encode(b"guest:guest").decode()
    api = http.client.HTTPConnection("127.0.0.1", place.admin_port, timeout=SETUP_S)
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    api.request(verb, "/api/policies/%2F/crowd", json.dumps(body) if body else None, headers)
    answer = api.getresponse()
    answer.read()
    api.close()
    assert answer.status in (201, 204), answer.status


def rejected(place: Place, seconds: float, *, mode: int) -> Outcome:
    """A million unacknowledged messages are rejected by one basic.nack, and become dead letters."""
    count = place.of(MILLION) // BLOCK * BLOCK or place.of(MILLION)

    def act(wire: Wire) -> tuple[int, str]:
        wire.ok(1, "queue.declare", queue=SOURCE, durable=mode == 2, arguments=LETTERS)
        wire.ok(1, "queue.declare", queue=TARGET, durable=mode == 2)
        consumer, delivered = held(place, count, durable=mode == 2, queue=SOURCE, arguments=LETTERS)
        consumer.socket.settimeout(SETUP_S)
        consumer.send(1, "basic.nack", delivery_tag=0, multiple=True)
        problem = "" if answers(consumer, SETUP_S) else "basic.nack was not taken"
        problem = problem or counted(wire, TARGET, delivered)
        drop(consumer)
        return delivered, problem

    return rounds(place, seconds, act, SOURCE, TARGET)


def delayed(place: Place, seconds: float, *, mode: int) -> Outcome:
    """A million delayed messages are due at the same time."""
    count = place.of(MILLION) // BLOCK * BLOCK or place.of(MILLION)

    def act(wire: Wire) -> tuple[int, str]:
        arguments = {"x-delayed-type": "direct"}
        wire.ok(1, "exchange.declare", exchange=DELAYED, type="x-delayed-message", arguments=arguments,
                durable=mode == 2)  # fmt: skip
        wire.ok(1, "queue.declare", queue=TARGET, durable=mode == 2)
        wire.ok(1, "queue.bind", queue=TARGET, exchange=DELAYED, routing_key="k")
        wire.socket.settimeout(SETUP_S)
        due = time.monotonic() + max(0.5, 40 * place.scale)
        blocks = max(1, count // BLOCK)
        for _ in range(blocks):
            left_ms = max(1, int((due - time.monotonic()) * 1000))
            one = encode_publish(1, DELAYED, "k", bytes(10), delivery_mode=mode, headers={"x-delay": left_ms})
            wire.send_bytes(one * min(BLOCK, count))
        problem = "" if answers(wire, SETUP_S) else "the messages were not taken"
        late = time.monotonic() - due
        if not problem and late > 0 and place.scale == 1:
            problem = f"publishing took {late:.1f} s too long: they were not due together"
        problem = problem or counted(wire, TARGET, count)
        wire.ok(1, "exchange.delete", exchange=DELAYED)
        return count, problem

    return rounds(place, seconds, act, TARGET)


def delayed_dropped(place: Place, seconds: float, *, mode: int) -> Outcome:
    """The exchange of a million delayed messages is deleted."""
    count = place.of(MILLION) // BLOCK * BLOCK or place.of(MILLION)

    def act(wire: Wire) -> tuple[int, str]:
        arguments = {"x-delayed-type": "direct"}
        wire.ok(1, "exchange.declare", exchange=DELAYED, type="x-delayed-message", arguments=arguments,
                durable=mode == 2)  # fmt: skip
        wire.ok(1, "queue.declare", queue=TARGET)
        problem = fill(wire, DELAYED, "k", count, delivery_mode=mode, headers={"x-delay": 3_600_000})
        wire.ok(1, "exchange.delete", exchange=DELAYED)
        return count, problem

    return rounds(place, seconds, act, TARGET)


CROWDS: dict[str, CaseLoad] = {
    "C1 a million expire": partial(expiry, mode=1),
    "C1 a million expire, durable": partial(expiry, mode=2),
    "C2 a policy drops a million": partial(policy_drops, mode=1),
    "C2 a policy drops a million, durable": partial(policy_drops, mode=2),
    "C3 a million delayed are due": partial(delayed, mode=1),
    "C3 a million delayed are due, durable": partial(delayed, mode=2),
    "C4 a million expire, dead letters": partial(expiry, mode=1, letters=True),
    "C4 a million expire, dead letters, durable": partial(expiry, mode=2, letters=True),
    "C5 a policy drops a million, dead letters, durable": partial(policy_drops, mode=2, letters=True),
    "C6 a million rejected, dead letters": partial(rejected, mode=1),
    "C6 a million rejected, dead letters, durable": partial(rejected, mode=2),
    "C7 a million delayed go with their exchange": partial(delayed_dropped, mode=1),
    "C7 a million delayed go with their exchange, durable": partial(delayed_dropped, mode=2),
}
