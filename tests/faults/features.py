"""Loads with which one client turns AMQP's further features against the others.

Priorities, transactions, history, dead letters, delays, timeouts. As those of `costly`: others must not
notice. Each runs at least once, whatever its time.
"""

from __future__ import annotations

import random
import struct
import time
from functools import partial

from tests.faults.costly import SETUP_S
from tests.faults.crowds import BLOCK, MILLION, counted, fill
from tests.faults.duplex import Duplex
from tests.faults.loads import Outcome
from tests.faults.place import CaseLoad, Place, answers, connect, drop, method, patiently
from tests.interop.wire import Wire, encode_publish, encode_short

#: How long the deliveries of `timeouts` may take.
TIMEOUT_MS = 3000
#: Octets of headers that fit into a frame.
HEADERS_BYTES = 120_000


def many_values(octets: int, name: str = "x-values", tag: bytes = b"t\x01") -> bytes:
    """A headers table of that size: one array of as many small values as fit."""
    items = tag * ((octets - 60) // len(tag))
    pair = encode_short(name) + b"A" + struct.pack(">I", len(items)) + items
    return struct.pack(">I", len(pair)) + pair


def consumers_of_many_priorities(place: Place, seconds: float) -> Outcome:
    """20,000 consumers of one channel, each of another priority, wait for one global prefetch."""
    begun = time.monotonic()
    rounds, count = 0, place.of(20_000)
    wire = connect(place)
    wire.socket.settimeout(SETUP_S)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    wire.ok(1, "basic.qos", count=1, is_global=True)
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    wire.send_bytes(
        b"".join(
            method(
                "basic.consume", queue=queue, tag=str(number), nowait=True, arguments={"x-priority": number}
            )
            for number in numbers
        )
    )
    if not answers(wire, SETUP_S):
        return Outcome(0, 0, "the consumers were not taken")
    wire.publish(1, "", queue, b"first")
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire.publish(1, "", queue, b"next")
        got = wire.receive(SETUP_S)
        if got.name != "basic.deliver":
            return Outcome(rounds, 0, f"no delivery but {got.name}")
        wire.send(1, "basic.ack", delivery_tag=got.delivery_tag)
    drop(wire)
    after = patiently(place, SETUP_S)
    if after is None:
        return Outcome(0, 0, f"the broker answered nobody for {SETUP_S:.0f} s")
    after.close()
    return Outcome(rounds, rounds, note=f"{rounds} messages")


def take_all(wire: Wire, queue: str, tag: str, count: int) -> str:
    """Take ``count`` messages without acknowledging them; the consumer is gone then. What went wrong."""
    wire.ok(1, "basic.consume", queue=queue, tag=tag)
    both = Duplex(wire)
    done = both.until(lambda: both.delivered >= count, SETUP_S)
    wire.socket.setblocking(True)
    wire.socket.settimeout(SETUP_S)
    wire.buffer = both.incoming
    wire.send(1, "basic.cancel", tag=tag)
    while done and wire.receive(SETUP_S).name != "basic.cancel-ok":
        pass
    return "" if done else f"{both.delivered} of {count} messages were delivered"


def priorities(place: Place, seconds: float) -> Outcome:
    """A million transient messages of 255 levels: taken, requeued by one nack, looked at, and purged."""
    begun = time.monotonic()
    blocks = place.of(MILLION) // BLOCK or 1
    count, rounds = blocks * 255 * 4, 0
    block = b"".join(encode_publish(1, "", "levels", bytes(10), priority=level) for level in range(255))
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire = connect(place)
        wire.socket.settimeout(SETUP_S)
        wire.ok(1, "queue.declare", queue="levels", arguments={"x-max-priority": 255})
        for _ in range(blocks):
            wire.send_bytes(block * 4)
        problem = counted(wire, "levels", count)
        consumer = connect(place)
        problem = problem or take_all(consumer, "levels", "all", count)
        consumer.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
        problem = problem or ("" if answers(consumer, SETUP_S) else "basic.nack was not taken")
        problem = problem or counted(wire, "levels", count)
        consumer.ok(1, "basic.qos", count=1)
        problem = problem or take_all(consumer, "levels", "one", 1)
        drop(consumer)
        problem = problem or counted(wire, "levels", count)
        wire.ok(1, "queue.purge", queue="levels")
        for _ in range(blocks):
            wire.send_bytes(block * 4)
        problem = problem or counted(wire, "levels", count)
        wire.ok(1, "queue.delete", queue="levels")
        drop(wire)
        if problem:
            return Outcome(count, 0, problem)
    return Outcome(rounds * count, rounds * count)


def acks(wire: Wire, first: int, count: int) -> str:
    """Acknowledge tag after tag; what went wrong."""
    for start in range(first, first + count, BLOCK):
        tags = range(start, min(start + BLOCK, first + count))
        wire.send_bytes(b"".join(method("basic.ack", delivery_tag=tag) for tag in tags))
    return "" if answers(wire, SETUP_S) else "the acknowledgements were not taken"


def transaction(place: Place, seconds: float) -> Outcome:
    """A million publishes in one transaction, then a million acks, both rolled back and committed."""
    begun = time.monotonic()
    count = place.of(MILLION) // BLOCK * BLOCK or place.of(MILLION)
    rounds = 0
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire = connect(place)
        wire.socket.settimeout(SETUP_S)
        wire.ok(1, "queue.declare", queue="tx")
        wire.ok(1, "tx.select")
        problem = fill(wire, "", "tx", count)
        wire.ok(1, "tx.rollback")
        problem = problem or fill(wire, "", "tx", count)
        wire.ok(1, "tx.commit")
        problem = problem or counted(wire, "tx", count) or take_all(wire, "tx", "all", count)
        for end in ("tx.rollback", "tx.commit"):
            problem = problem or acks(wire, 1, count)
            wire.ok(1, end)
        problem = problem or counted(wire, "tx", 0)
        wire.ok(1, "queue.delete", queue="tx")
        drop(wire)
        if problem:
            return Outcome(count, 0, problem)
    return Outcome(rounds * count, rounds * count)


def transacted_returns(place: Place, seconds: float) -> Outcome:
    """100,000 messages are returned one by one within a transaction, and by basic.recover."""
    begun = time.monotonic()
    count = place.of(100_000) // BLOCK * BLOCK or place.of(100_000)
    rounds = 0
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire = connect(place)
        wire.socket.settimeout(SETUP_S)
        wire.ok(1, "queue.declare", queue="tx-back", arguments={"x-max-length": 2 * MILLION})
        problem = fill(wire, "", "tx-back", count) or counted(wire, "tx-back", count)
        wire.ok(1, "tx.select")
        problem = problem or take_all(wire, "tx-back", "nack", count)
        for start in range(1, count + 1, BLOCK):
            tags = range(start, min(start + BLOCK, count + 1))
            wire.send_bytes(b"".join(method("basic.nack", delivery_tag=tag, requeue=True) for tag in tags))
        wire.ok(1, "tx.commit")
        problem = problem or counted(wire, "tx-back", count) or take_all(wire, "tx-back", "recover", count)
        wire.ok(1, "basic.recover", requeue=True)
        problem = problem or counted(wire, "tx-back", count)
        wire.ok(1, "queue.delete", queue="tx-back")
        drop(wire)
        if problem:
            return Outcome(count, 0, problem)
    return Outcome(rounds * count, rounds * count)


def rejected_headers(place: Place, seconds: float, *, name: str, durable: bool) -> Outcome:
    """200 messages with 120 KB of headers (``name``) become dead letters together."""
    begun = time.monotonic()
    count = place.of(200)
    death = b"F" + struct.pack(">I", 0)
    tag = death if name == "x-death" else b"t\x01"
    headers = many_values(HEADERS_BYTES, name, tag)
    rounds = 0
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire = connect(place)
        wire.socket.settimeout(SETUP_S)
        wire.ok(1, "queue.declare", queue="dead-to", durable=durable)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead-to"}
        wire.ok(1, "queue.declare", queue="dead-from", durable=durable, arguments=arguments)
        for number in range(count):  # each has properties of its own
            properties = {"headers": headers, "delivery_mode": 1 + durable, "message_id": str(number)}
            wire.send_bytes(encode_publish(1, "", "dead-from", b"x", **properties))
        problem = counted(wire, "dead-from", count)
        problem = problem or take_all(wire, "dead-from", "all", count)
        wire.send(1, "basic.nack", delivery_tag=0, multiple=True)
        problem = problem or counted(wire, "dead-to", count)
        wire.ok(1, "queue.delete", queue="dead-from")
        wire.ok(1, "queue.delete", queue="dead-to")
        drop(wire)
        if problem:
            return Outcome(count, 0, problem)
    return Outcome(rounds * count, rounds * count)


def transacted_headers(place: Place, seconds: float, *, kind: str) -> Outcome:
    """A transaction of 500 messages with 120 KB of headers to an exchange that reads them."""
    begun = time.monotonic()
    count = place.of(500)
    rounds = 0
    arguments = {"x-delayed-type": "fanout"} if kind == "x-delayed-message" else {}
    headers = many_values(HEADERS_BYTES)
    if kind == "x-delayed-message":
        delay = encode_short("x-delay") + b"I" + struct.pack(">i", 500)
        headers = struct.pack(">I", len(headers) - 4 + len(delay)) + delay + headers[4:]
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire = connect(place)
        wire.socket.settimeout(SETUP_S)
        queue = wire.ok(1, "queue.declare", queue="tx-headers").queue
        wire.ok(1, "exchange.declare", exchange="tx-headers", type=kind, arguments=arguments)
        wire.ok(1, "queue.bind", queue=queue, exchange="tx-headers")
        wire.ok(1, "tx.select")
        message = encode_publish(1, "tx-headers", "", b"x", headers=headers)
        for _ in range(count):
            wire.send_bytes(message)
        wire.ok(1, "tx.commit")
        problem = counted(wire, queue, count)
        wire.ok(1, "exchange.delete", exchange="tx-headers")
        wire.ok(1, "queue.delete", queue=queue)
        drop(wire)
        if problem:
            return Outcome(count, 0, problem)
    return Outcome(rounds * count, rounds * count)


def large_transaction(place: Place, seconds: float) -> Outcome:
    """Transactions of 500 messages of 120 KB: rolled back, committed, and acknowledged in another one."""
    begun = time.monotonic()
    count, rounds = place.of(500), 0
    message = encode_publish(1, "", "tx-large", bytes(120_000))
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire = connect(place)
        wire.socket.settimeout(SETUP_S)
        wire.ok(1, "queue.declare", queue="tx-large")
        wire.ok(1, "tx.select")
        for end in ("tx.rollback", "tx.commit"):
            for _ in range(count):
                wire.send_bytes(message)
            wire.ok(1, end)
        problem = counted(wire, "tx-large", count) or take_all(wire, "tx-large", "all", count)
        wire.send(1, "basic.ack", delivery_tag=0, multiple=True)
        wire.ok(1, "tx.commit")
        problem = problem or counted(wire, "tx-large", 0)
        wire.ok(1, "queue.delete", queue="tx-large")
        drop(wire)
        if problem:
            return Outcome(count, 0, problem)
    return Outcome(rounds * count, rounds * count)


def timeouts(place: Place, seconds: float) -> Outcome:
    """10,000 channels whose deliveries have a timeout, which all reach it together."""
    begun = time.monotonic()
    rounds, connections, channels = 0, 5, place.of(2000)
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        first = connect(place)
        first.socket.settimeout(SETUP_S)
        first.ok(1, "queue.declare", queue="timeouts")
        problem = fill(first, "", "timeouts", connections * channels)
        wires = [Wire(place.port) for _ in range(connections)]
        holders = []
        for wire in wires:
            wire.socket.settimeout(SETUP_S)
            for number in range(1, channels + 1):
                wire.send_bytes(
                    method("channel.open", number)
                    + method("basic.qos", number, count=1)
                    + method(
                        "basic.consume",
                        number,
                        queue="timeouts",
                        arguments={"x-consumer-timeout": TIMEOUT_MS},
                    )
                )
            holders.append(Duplex(wire))
        for holder in holders:
            taken = holder.until(lambda: "timed out" in holder.closed, SETUP_S)  # noqa: B023
            if not taken and "timed out" not in holder.closed:
                problem = problem or f"no timeout: {holder.closed}"
        drop(*wires)
        first.ok(1, "queue.delete", queue="timeouts")
        first.close()
        if problem:
            return Outcome(rounds, 0, problem)
    return Outcome(rounds * connections * channels, rounds * connections * channels)


FEATURES: dict[str, CaseLoad] = {
    "E1 consumers of 20,000 priorities": consumers_of_many_priorities,
    "E2 a million of 255 priorities": priorities,
    "E3 a million in a transaction": transaction,
    "E4 100,000 returns in a transaction": transacted_returns,
    "E5 dead letters with many values": partial(rejected_headers, name="x-values", durable=False),
    "E5 dead letters with x-death": partial(rejected_headers, name="x-death", durable=False),
    "E5 dead letters with x-death, durable": partial(rejected_headers, name="x-death", durable=True),
    "E6 many values to x-recent-history": partial(transacted_headers, kind="x-recent-history"),
    "E6 many values to x-delayed-message": partial(transacted_headers, kind="x-delayed-message"),
    "E7 large messages in a transaction": large_transaction,
    "E8 timeouts of 10,000 channels": timeouts,
}
