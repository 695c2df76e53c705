"""Loads whose single methods cost the broker much: others must not notice. As those of `hungry`."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

from tests.faults.duplex import Duplex
from tests.faults.hungry import array_argument, forget
from tests.faults.loads import Outcome
from tests.faults.place import CaseLoad, Place, answers, connect, drop, method, patiently, swallow, time_of
from tests.interop.wire import Wire, encode_publish

SETUP_S = 240.0


def many_consumers(place: Place, seconds: float) -> Outcome:
    """Two connections with 30,000 consumers each on one queue; the second goes, then the first."""
    begun = time.monotonic()
    rounds = 0
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        with connect(place) as wire:
            wire.ok(1, "queue.declare", queue="many")
        both = [connect(place), connect(place)]
        for wire in both:
            out = b"".join(
                method("basic.consume", queue="many", tag=str(number), nowait=True)
                for number in range(place.of(30_000))
            )
            wire.socket.settimeout(SETUP_S)
            wire.send_bytes(out)
            if not answers(wire, SETUP_S):
                return Outcome(0, 0, "the consumers were not taken")
        # the second's stand behind the first's, wherever consumers stand in the order they came
        drop(both[1])
        time.sleep(0.2)
        drop(both[0])
        after = patiently(place, SETUP_S)
        if after is None:
            return Outcome(0, 0, f"the broker answered nobody for {SETUP_S:.0f} s")
        with after as wire:
            wire.ok(1, "queue.delete", queue="many")
    return Outcome(rounds * 2 * place.of(30_000), 0)


def many_deleted(place: Place, seconds: float) -> Outcome:
    """A queue with 30,000 consumers of two connections is deleted."""
    begun = time.monotonic()
    rounds, count = 0, place.of(15_000)
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        both = [connect(place), connect(place)]
        both[0].ok(1, "queue.declare", queue="deleted")
        for wire in both:
            wire.socket.settimeout(SETUP_S)
            wire.send_bytes(
                b"".join(
                    method("basic.consume", queue="deleted", tag=str(number), nowait=True)
                    for number in range(count)
                )
            )
            if not answers(wire, SETUP_S):
                return Outcome(0, 0, "the consumers were not taken")
        both[0].ok(1, "queue.delete", queue="deleted")  # the reply comes before its own connection's cancels
        heard = [len(wire.receive_named("basic.cancel", count)) for wire in both]
        if heard != [count, count]:
            return Outcome(0, 0, f"{heard} consumers heard that the queue is gone")
        drop(*both)
    return Outcome(rounds * 2 * count, 0)


def wide_fanout(place: Place, seconds: float) -> Outcome:
    """Publishes to a fanout exchange with 100,000 queues."""
    begun = time.monotonic()
    wire = connect(place)
    wire.socket.settimeout(SETUP_S)
    count = place.of(100_000)
    wire.ok(1, "exchange.declare", exchange="wide", type="fanout")
    for start in range(0, count, 1000):
        names = [f"wide-{number}" for number in range(start, min(start + 1000, count))]
        wire.send_bytes(
            b"".join(
                method("queue.declare", queue=name, exclusive=True, nowait=True)
                + method("queue.bind", queue=name, exchange="wide", nowait=True)
                for name in names
            )
        )
    problem = "" if answers(wire, SETUP_S) else "the queues were not made"
    published = 0
    while not problem and (not published or time.monotonic() - begun < seconds):
        wire.send_bytes(encode_publish(1, "wide", "", b"x"))
        published += 1
        problem = "" if answers(wire, SETUP_S) else "publishing stopped"
    forget(place, wire, "wide")
    return Outcome(published, 0, problem)


def topic_misses(place: Place, seconds: float) -> Outcome:
    """2,048 bindings of '#', eleven words 'a' or '*', and 'z'; keys of 115 words, each another."""
    begun = time.monotonic()
    wire = connect(place)
    wire.ok(1, "exchange.declare", exchange="misses", type="topic")
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    patterns = [".".join(("#", *words, "z")) for words in itertools.product("a*", repeat=11)]
    patterns = patterns[: place.of(len(patterns))]
    wire.send_bytes(
        b"".join(
            method("queue.bind", queue=queue, exchange="misses", routing_key=pattern, nowait=True)
            for pattern in patterns
        )
    )
    problem = "" if answers(wire, SETUP_S) else "the bindings were not made"
    choose = random.Random(1)
    published = 0
    while not problem and (not published or time.monotonic() - begun < seconds):
        keys = [".".join(choose.choices("aaaaaaaab", k=115)) for _ in range(10)]
        wire.send_bytes(b"".join(encode_publish(1, "misses", key, b"") for key in keys))
        published += len(keys)
        problem = "" if answers(wire, SETUP_S) else "publishing stopped"
    forget(place, wire, "misses")
    return Outcome(published, 0, problem)


def header_bindings(place: Place, seconds: float) -> Outcome:
    """100,000 bindings of a headers exchange that every message matches."""
    begun = time.monotonic()
    wire = connect(place)
    wire.ok(1, "exchange.declare", exchange="headers-all", type="headers")
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    wire.socket.settimeout(SETUP_S)
    for start in range(0, place.of(100_000), 1000):
        wire.send_bytes(
            b"".join(
                method("queue.bind", queue=queue, exchange="headers-all", nowait=True,
                       arguments={"x-match": "any", "a": 1, "n": number})
                for number in range(start, min(start + 1000, place.of(100_000)))
            )
        )  # fmt: skip
    problem = "" if answers(wire, SETUP_S) else "the bindings were not made"
    published = 0
    message = encode_publish(1, "headers-all", "", b"", headers={"a": 1})
    while not problem and (not published or time.monotonic() - begun < seconds):
        wire.send_bytes(message * 10)
        published += 10
        problem = "" if answers(wire, SETUP_S) else "publishing stopped"
    forget(place, wire, "headers-all")
    return Outcome(published, 0, problem)


def held(
    place: Place, count: int, *, durable: bool, queue: str = "held", arguments: dict[str, Any] | None = None
) -> tuple[Wire, int]:
    """A connection that has ``count`` messages of ten octets unacknowledged; how many it got."""
    wire = connect(place)
    wire.ok(1, "queue.declare", queue=queue, durable=durable, arguments=arguments or {})
    wire.ok(1, "basic.consume", queue=queue)
    both = Duplex(wire)
    block = encode_publish(1, "", queue, bytes(10), delivery_mode=2 if durable else 1) * 1000
    published = 0
    end = time.monotonic() + SETUP_S
    while both.delivered < count and time.monotonic() < end and not both.closed:
        if len(both.out) < 1 << 20 and published < count:
            both.out += block
            published += 1000
        both.turn(0.02)
    wire.socket.setblocking(True)
    wire.buffer = both.incoming
    return wire, both.delivered


def global_qos(place: Place, seconds: float) -> Outcome:
    """A million messages unacknowledged, and basic.qos for the whole channel 200 times."""
    begun = time.monotonic()
    wire, delivered = held(place, place.of(1_000_000), durable=False)
    wire.socket.settimeout(SETUP_S)
    sent = 0
    while not sent or time.monotonic() - begun < seconds:
        wire.send_bytes(
            b"".join(method("basic.qos", count=1 + number % 7, is_global=True) for number in range(200))
        )
        sent += 200
        if not answers(wire, SETUP_S):
            return Outcome(delivered, delivered, "basic.qos was not answered")
    clean(place, wire)
    return Outcome(delivered, delivered, note=f"{sent} times qos")


def clean(place: Place, wire: Wire, queue: str = "held") -> None:
    drop(wire)
    with connect(place) as other:
        other.send(1, "queue.delete", queue=queue)
        other.receive(SETUP_S)


def argument_arrays_alone(place: Place, seconds: float) -> Outcome:
    """Tables of 128 KiB with nothing but short items, in methods that are refused or do nothing."""
    begun = time.monotonic()
    wire = connect(place)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    table = array_argument(130_000)
    wire.ok(1, "queue.bind", queue=queue, exchange="amq.headers")
    sent = 0
    while not sent or time.monotonic() - begun < seconds:
        for _ in range(place.of(20)):
            wire.send(1, "queue.unbind", queue=queue, exchange="amq.headers", arguments=table)
            sent += 1
        if not answers(wire, SETUP_S):
            return Outcome(sent, 0, "the tables were not taken")
    drop(wire)
    return Outcome(sent, 0)


def old_delivery(place: Place, seconds: float) -> Outcome:
    """One message is never acknowledged, millions behind it on the same channel are."""
    begun = time.monotonic()
    wire = connect(place)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    wire.publish(1, "", queue, b"first")
    assert wire.get(queue, no_ack=False) is not None
    wire.ok(1, "basic.consume", queue=queue, no_ack=True)
    both = Duplex(wire)
    block = encode_publish(1, "", queue, bytes(10)) * 1000
    published = 0
    while not both.closed and published < place.of(9_000_000):
        if published and time.monotonic() - begun >= seconds:
            break
        if len(both.out) < 1 << 20:
            both.out += block
            published += 1000
        both.turn(0.02)
    both.until(lambda: both.delivered >= published, 60)
    drop(wire)
    lost = published - both.delivered
    return Outcome(published, both.delivered, both.closed or (f"{lost} did not come" if lost else ""))


def purge_beside_unacked(place: Place, seconds: float) -> Outcome:
    """A durable queue is purged while a million of its messages are unacknowledged."""
    begun = time.monotonic()
    wire, delivered = held(place, place.of(1_000_000), durable=True)
    wire.socket.settimeout(SETUP_S)
    purges = 0
    while not purges or time.monotonic() - begun < seconds:
        wire.send(1, "queue.purge", queue="held")
        purges += 1
        if not answers(wire, SETUP_S):
            return Outcome(delivered, delivered, "queue.purge was not answered")
        swallow(wire, 0.05)
    clean(place, wire)
    return Outcome(delivered, delivered, note=f"{purges} purges")


def durable_delete(place: Place, seconds: float) -> Outcome:
    """A durable queue with 100,000 bindings is deleted; another client declares one meanwhile."""
    begun = time.monotonic()
    wire, other = connect(place), connect(place)
    longest, rounds, count = 0.0, 0, place.of(100_000)
    wire.socket.settimeout(SETUP_S)
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire.ok(1, "queue.declare", queue="bound", durable=True)
        for start in range(0, count, 1000):
            wire.send_bytes(
                b"".join(
                    method(
                        "queue.bind",
                        queue="bound",
                        exchange="amq.direct",
                        routing_key=f"{number}",
                        nowait=True,
                    )
                    for number in range(start, min(start + 1000, count))
                )
            )
        if not answers(wire, SETUP_S):
            return Outcome(count, 0, "the bindings were not made")
        wire.send(1, "queue.declare", queue="bound", durable=True)
        assert wire.receive(SETUP_S).name == "queue.declare-ok"
        wire.send(1, "queue.delete", queue="bound")
        other.send(1, "queue.declare", queue="meanwhile", durable=True)
        longest = max(longest, time_of(lambda: other.receive(SETUP_S)))
        if wire.receive(SETUP_S).name != "queue.delete-ok":
            return Outcome(count, 0, "the queue was not deleted")
        other.ok(1, "queue.delete", queue="meanwhile")
    wire.close()
    other.close()
    return Outcome(rounds * count, 0, note=f"a declare beside it took up to {longest:.2f} s")


COSTLY: dict[str, CaseLoad] = {
    "B1 30,000 consumers go": many_consumers,
    "B1 its queue is deleted": many_deleted,
    "B1 fanout to 100,000 queues": wide_fanout,
    "B2 topic patterns that miss": topic_misses,
    "B3 100,000 headers bindings": header_bindings,
    "B4 global qos, a million unacked": global_qos,
    "B5 arrays in arguments": argument_arrays_alone,
    "B6 one old delivery": old_delivery,
    "B7 purge beside a million unacked": purge_beside_unacked,
    "B8 durable delete": durable_delete,
}
