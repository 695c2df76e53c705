"""Loads of exchanges bound to each other, dead letters that come round again, and queues of one connection.

As those of `costly`: others must not notice. Each runs at least once, whatever its time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from tests.faults.costly import SETUP_S
from tests.faults.crowds import BLOCK, counted, fill
from tests.faults.loads import Outcome
from tests.faults.place import CaseLoad, Place, answers, connect, drop, method, swallow
from tests.interop.wire import Wire, encode_publish


def send_all(wire: Wire, methods: Iterable[bytes]) -> str:
    """Send them some thousand at a time; what went wrong."""
    wire.socket.settimeout(SETUP_S)
    block: list[bytes] = []
    for one in methods:
        block.append(one)
        if len(block) == BLOCK:
            wire.send_bytes(b"".join(block))
            block = []
    wire.send_bytes(b"".join(block))
    return "" if answers(wire, SETUP_S) else "the methods were not taken"


def declared(names: Iterable[str], kind: str = "fanout", **arguments: Any) -> list[bytes]:
    return [
        method("exchange.declare", exchange=name, type=kind, nowait=True, arguments=arguments)
        for name in names
    ]


def bound(source: str, destination: str) -> bytes:
    return method("exchange.bind", destination=destination, source=source, nowait=True)


def diamonds(place: Place) -> tuple[list[str], list[bytes]]:
    """20 layers: 2^20 ways lead from the first exchange to the last."""
    layers = 20
    names = [f"graph-{layer}-{side}" for layer in range(layers) for side in "ab"]
    links = [
        bound(f"graph-{layer}-{one}", f"graph-{layer + 1}-{other}")
        for layer in range(layers - 1)
        for one in "ab"
        for other in "ab"
    ]
    return names, declared(names) + links


def chain(place: Place) -> tuple[list[str], list[bytes]]:
    """10,000 exchanges in a ring."""
    count = place.of(10_000)
    names = [f"graph-{number}" for number in range(count)]
    return names, declared(names) + [bound(name, names[(at + 1) % count]) for at, name in enumerate(names)]


def alternates(place: Place) -> tuple[list[str], list[bytes]]:
    """10,000 exchanges, each the alternate of the one before; the first that of the last."""
    count = place.of(10_000)
    names = [f"graph-{number}" for number in range(count)]
    made: list[bytes] = []
    for at, name in enumerate(names):
        made += declared([name], "direct", **{"alternate-exchange": names[(at + 1) % count]})
    return names, made


def complete(place: Place) -> tuple[list[str], list[bytes]]:
    """300 exchanges, each bound to all."""
    count = place.of(300)
    names = [f"graph-{number}" for number in range(count)]
    return names, declared(names) + [bound(one, other) for one in names for other in names]


def histories(place: Place) -> tuple[list[str], list[bytes]]:
    """10,000 exchanges that keep their last message, all bound to one."""
    names = ["graph-first", *[f"graph-{number}" for number in range(place.of(10_000))]]
    made = declared(names[:1])
    for name in names[1:]:
        made += declared([name], "x-recent-history", **{"x-recent-history-length": 1})
        made.append(bound(names[0], name))
    return names, made


def graph(place: Place, seconds: float, *, shape: Any) -> Outcome:
    """Messages go through many exchanges to one queue, and each finds another generation of routes."""
    begun = time.monotonic()
    wire = connect(place)
    names, methods = shape(place)
    problem = send_all(wire, methods)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    wire.ok(1, "queue.bind", queue=queue, exchange=names[-1], routing_key="k")
    sent = 0
    while not problem and (not sent or time.monotonic() - begun < seconds):
        for _ in range(20):
            wire.send_bytes(encode_publish(1, names[0], "k", b"x", headers={"number": sent}))
            wire.send_bytes(method("exchange.declare", exchange="graph-other", type="fanout", nowait=True))
            wire.send_bytes(method("exchange.delete", exchange="graph-other", nowait=True))
            sent += 1
        problem = "" if answers(wire, SETUP_S) else "the messages were not taken"
    problem = problem or counted(wire, queue, sent)
    problem = problem or send_all(
        wire, [method("exchange.delete", exchange=name, nowait=True) for name in names]
    )
    drop(wire)
    return Outcome(sent, sent, problem)


def ring(place: Place, seconds: float, *, how: str, mode: int) -> Outcome:
    """100,000 messages go round three queues of dead letters for ever."""
    begun = time.monotonic()
    count, rounds = place.of(100_000) // BLOCK * BLOCK or place.of(100_000), 0
    names = ["ring-0", "ring-1", "ring-2"]
    problem = ""
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        wire = connect(place)
        for at, name in enumerate(names):
            arguments: dict[str, Any] = {
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": names[(at + 1) % 3],
            }
            if how == "ttl":
                arguments["x-message-ttl"] = at % 2
            elif how == "length":
                arguments["x-max-length"] = 0 if at else count // 2
            wire.ok(1, "queue.declare", queue=name, durable=mode == 2, arguments=arguments)
        if how == "reject":
            for name in names:
                wire.ok(1, "basic.consume", queue=name, tag=name)
        problem = fill(wire, "", names[0], count, delivery_mode=mode)
        time.sleep(max(1.0, seconds / 3) if place.scale == 1 else 0.2)
        problem = problem or ("" if answers(wire, SETUP_S) else "nothing was answered")
        for name in names:
            wire.ok(1, "queue.delete", queue=name)
        wire.close()
    return Outcome(rounds * count, rounds * count, problem)


def rejected_round(place: Place, seconds: float, *, mode: int) -> Outcome:
    """Two queues reject to each other, one message after the other."""
    begun = time.monotonic()
    wire = connect(place)
    for name, other in (("round-a", "round-b"), ("round-b", "round-a")):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
        wire.ok(1, "queue.declare", queue=name, durable=mode == 2, arguments=arguments)
        wire.ok(1, "basic.consume", queue=name)
    count = place.of(1000)
    for _ in range(count):
        wire.publish(1, "", "round-a", bytes(10), delivery_mode=mode)
    rejected, problem = 0, ""
    while not problem and (rejected < 3 * count or time.monotonic() - begun < seconds):
        got = wire.receive(SETUP_S)
        if got.name != "basic.deliver":
            problem = f"no delivery but {got.name}"
        wire.send(1, "basic.reject", delivery_tag=got.delivery_tag)
        rejected += 1
    with connect(place) as control:
        for name in ("round-a", "round-b"):
            control.ok(1, "queue.delete", queue=name)
    drop(wire)
    return Outcome(rejected, rejected, problem)


def letters_to_many(place: Place, seconds: float, *, mode: int, limit: int) -> Outcome:
    """Letters of 100,000 messages that expire together go to 100 queues each."""
    begun = time.monotonic()
    count, rounds, problem = place.of(100_000) // BLOCK * BLOCK or place.of(100_000), 0, ""
    targets = [f"to-{number}" for number in range(100)]
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        wire = connect(place)
        wire.ok(1, "exchange.declare", exchange="to-many", type="fanout", durable=mode == 2)
        for name in targets:
            arguments = {"x-max-length": limit} if limit else {}
            wire.ok(1, "queue.declare", queue=name, durable=mode == 2, arguments=arguments)
            wire.ok(1, "queue.bind", queue=name, exchange="to-many")
        letters = {"x-dead-letter-exchange": "to-many", "x-message-ttl": 1}
        wire.ok(1, "queue.declare", queue="from-one", durable=mode == 2, arguments=letters)
        problem = fill(wire, "", "from-one", count, delivery_mode=mode) or counted(wire, "from-one", 0)
        for name in targets:
            problem = problem or counted(wire, name, min(count, limit or count))
        for name in [*targets, "from-one"]:
            wire.socket.settimeout(SETUP_S)
            wire.ok(1, "queue.delete", queue=name)
        wire.ok(1, "exchange.delete", exchange="to-many")
        wire.close()
    return Outcome(rounds * count, rounds * count, problem)


def exclusive_queues(place: Place, seconds: float, *, durable: bool, letters: bool = False) -> Outcome:
    """A connection with 10,000 exclusive queues, with messages, bindings and consumers, is gone."""
    begun, rounds, problem = time.monotonic(), 0, ""
    count = place.of(10_000)
    other = connect(place)
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        wire = connect(place)
        arguments = {"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 3_600_000} if letters else {}
        made = []
        for number in range(count):
            name = f"mine-{number}"
            made.append(
                method("queue.declare", queue=name, exclusive=True, durable=durable, nowait=True,
                       arguments=arguments)
                + method("queue.bind", queue=name, exchange="amq.topic", routing_key=f"k.{number}.*",
                         nowait=True)
                + encode_publish(1, "", name, bytes(100), delivery_mode=1 + durable) * 10
            )  # fmt: skip
        problem = send_all(wire, made)
        wire.socket.settimeout(SETUP_S)
        wire.send_bytes(
            b"".join(
                method("basic.consume", queue=f"mine-{n}", tag=str(n), nowait=True) for n in range(count)
            )
        )
        swallow(wire, 1.0)
        drop(wire)
        end = time.monotonic() + SETUP_S
        while not problem:
            again = connect(place)
            got = again.call(1, "queue.declare", queue=f"mine-{count - 1}", passive=True)
            again.socket.close()
            if got.name == "channel.close" and got.code == 404:
                break
            if time.monotonic() > end:
                problem = f"the last queue is still there: {got.name}"
            time.sleep(0.05)
    other.close()
    return Outcome(rounds * count, rounds * count, problem)


GRAPHS: dict[str, CaseLoad] = {
    "F1 diamonds of exchanges": partial(graph, shape=diamonds),
    "F1 a ring of 10,000 exchanges": partial(graph, shape=chain),
    "F1 10,000 alternate exchanges": partial(graph, shape=alternates),
    "F1 90,000 bindings among exchanges": partial(graph, shape=complete),
    "F1 10,000 exchanges that keep messages": partial(graph, shape=histories),
    "F2 dead letters in a ring, ttl": partial(ring, how="ttl", mode=1),
    "F2 dead letters in a ring, ttl, durable": partial(ring, how="ttl", mode=2),
    "F2 dead letters in a ring, length": partial(ring, how="length", mode=1),
    "F2 dead letters in a ring, length, durable": partial(ring, how="length", mode=2),
    "F2 rejected to and fro": partial(rejected_round, mode=1),
    "F2 rejected to and fro, durable": partial(rejected_round, mode=2),
    "F3 letters to 100 queues": partial(letters_to_many, mode=1, limit=0),
    "F3 letters to 100 queues of 10": partial(letters_to_many, mode=1, limit=10),
    "F3 letters to 100 queues, durable": partial(letters_to_many, mode=2, limit=0),
    "F4 10,000 exclusive queues": partial(exclusive_queues, durable=False),
    "F4 10,000 exclusive queues, durable": partial(exclusive_queues, durable=True),
    "F4 10,000 exclusive queues, letters": partial(exclusive_queues, durable=True, letters=True),
}
