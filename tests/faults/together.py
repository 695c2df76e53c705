"""Loads of one client with many connections, each of which has work in the same turn of the event loop.

As those of `costly`: others must not notice. Each runs at least once, whatever its time.
"""

from __future__ import annotations

import time
from functools import partial

from tests.faults.costly import SETUP_S
from tests.faults.loads import Outcome
from tests.faults.place import CaseLoad, Place, answers, connect, drop, method
from tests.interop.wire import Wire, encode_frame, encode_method, encode_publish

#: Octets that a connection sends before the next one does: what the broker reads at a time.
CHUNK_BYTES = 256 << 10
REPLIES = "amq.rabbitmq.reply-to"


def each(wires: list[Wire], blocks: list[bytes], end: float) -> int:
    """Send one connection's block after the other until the time is over; how many blocks."""
    sent = 0
    while time.monotonic() < end:
        for wire, block in zip(wires, blocks, strict=True):
            wire.send_bytes(block)
            sent += 1
    return sent


def publishers(place: Place, seconds: float, *, connections: int, own: bool) -> Outcome:
    """So many connections publish small messages, to a queue each (``own``) or to none."""
    wires = [connect(place) for _ in range(place.of(connections))]
    blocks = []
    for number, wire in enumerate(wires):
        wire.socket.settimeout(SETUP_S)
        key = f"together-{number}" if own else "no-such-queue"
        if own:
            wire.ok(1, "queue.declare", queue=key, exclusive=True, arguments={"x-max-length": 10})
        one = encode_publish(1, "", key, b"x")
        blocks.append(one * (CHUNK_BYTES // len(one)))
    sent = each(wires, blocks, time.monotonic() + seconds)
    problem = "" if all(answers(wire, SETUP_S) for wire in wires) else "the messages were not taken"
    drop(*wires)
    return Outcome(sent, sent, problem, f"{sent} chunks of {CHUNK_BYTES >> 10} KiB")


def requesters(place: Place, seconds: float) -> Outcome:
    """10,000 channels of ten connections, each with a reply queue of its own, ask and get an answer."""
    wires = [connect(place) for _ in range(10)]
    count = place.of(1000)
    responder = connect(place)
    responder.socket.settimeout(SETUP_S)
    responder.ok(1, "queue.declare", queue="together-asked", arguments={"x-max-length": 10})
    names: list[str] = []
    blocks = []
    for wire in wires:
        wire.socket.settimeout(SETUP_S)
        opening, asking = bytearray(), bytearray()
        for number in range(2, 2 + count):
            opening += encode_frame(1, number, encode_method("channel.open"))
            opening += method("basic.consume", number, queue=REPLIES, no_ack=True, nowait=True)
            asking += encode_publish(number, "", "together-asked", b"x", reply_to=REPLIES)
        wire.send_bytes(bytes(opening))
        wire.receive_named("channel.open-ok", count)
        blocks.append(bytes(asking) * max(1, CHUNK_BYTES // len(asking)))
        wire.send_bytes(bytes(asking))
        if not answers(wire, SETUP_S):
            return Outcome(0, 0, "the requests were not taken")
    for _ in range(10):
        got = responder.get("together-asked")
        if got.properties.get("reply_to"):
            names.append(got.properties["reply_to"])
    sent = each(wires, blocks, time.monotonic() + seconds)
    problem = "" if all(answers(wire, SETUP_S) for wire in wires) else "the requests were not taken"
    for name in names:
        responder.publish(1, "", name, b"x")
    drop(*wires, responder)
    return Outcome(sent, sent, problem, f"{sent} blocks, {len(names)} answered")


def shared_limit(place: Place, seconds: float) -> Outcome:
    """200,000 consumers of one channel may have one message together; each ack lets another come."""
    begun = time.monotonic()
    wire, count, rounds = connect(place), place.of(200_000), 0
    wire.socket.settimeout(SETUP_S)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    wire.ok(1, "basic.qos", count=1, is_global=True)
    for start in range(0, count, 1000):
        wire.send_bytes(
            b"".join(
                method("basic.consume", queue=queue, tag=f"{number}", nowait=True)
                for number in range(start, min(start + 1000, count))
            )
        )
    wire.ok(1, "queue.declare", queue=queue, passive=True)
    for _ in range(1000):
        wire.publish(1, "", queue, b"x")
    while rounds < 999 and (not rounds or time.monotonic() - begun < seconds + 60):
        got = wire.receive(SETUP_S)
        if got.name != "basic.deliver":
            return Outcome(rounds, 0, f"no delivery but {got.name}")
        wire.send(1, "basic.ack", delivery_tag=got.delivery_tag)
        rounds += 1
    drop(wire)
    return Outcome(rounds, rounds)


TOGETHER: dict[str, CaseLoad] = {
    "T1 ten connections publish": partial(publishers, connections=10, own=True),
    "T1 500 connections publish": partial(publishers, connections=500, own=True),
    "T1 500 connections publish to nobody": partial(publishers, connections=500, own=False),
    "T2 10,000 requesters of ten connections": requesters,
    "T3 200,000 consumers share a limit": shared_limit,
}
