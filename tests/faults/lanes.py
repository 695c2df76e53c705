"""``make chaos ARGS=--everything``: each feature that decides where a message ends, on a lane of its own.

A lane is one publisher, the queues that its messages may be in, and the outcomes that they may have: the name
of the queue whose consumer acknowledged it, or the reason of its death, which the consumer of the queue
"grave" reads from the letter. All queues and exchanges are durable.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.interop.wire import Received, Wire

GRAVE = "grave"
#: What a full queue holds.
LENGTH = 60
#: Messages of a transaction.
TRANSACTION = 100
#: Exchange and routing key, and properties, of a message with that number.
Address = tuple[str, str, dict[str, Any]]
#: Whether a consumer takes a message, or returns or rejects it.
ACK, RETURN, REJECT = "ack", "return", "reject"


def dying(target: str = GRAVE, **arguments: Any) -> dict[str, Any]:
    """Arguments of a queue whose dead letters go to the queue ``target``."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return {**named, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}


QUEUES: dict[str, dict[str, Any]] = {
    GRAVE: {},
    "ttl": dying(x_message_ttl=300),
    "chain": dying("chain-2", x_message_ttl=100),
    "chain-2": dying(x_message_ttl=100, x_queue_type="quorum"),
    "cycle": dying("cycle-wait"),
    "cycle-wait": dying("cycle", x_message_ttl=100),
    "priority": dying(x_max_priority=5),
    "quorum": dying(x_queue_type="quorum", x_delivery_limit=3),
    "head": dying(x_max_length=LENGTH),
    "refuse": dying(x_max_length=LENGTH, x_overflow="reject-publish"),
    "refuse-dlx": dying(x_max_length=LENGTH, x_overflow="reject-publish-dlx"),
    "single": {"x-single-active-consumer": True},
    "single-quorum": {"x-single-active-consumer": True, "x-queue-type": "quorum"},
    "delayed": {},
    "transaction": {},
    "alternate": {},
    "hash-0": {},
    "hash-1": {"x-queue-type": "quorum"},
    "hash-2": {"x-queue-mode": "lazy"},
    "newest": {"x-max-length": LENGTH},
}
#: Queues without a consumer: what is too much is dropped without a letter.
UNREAD = {"newest", "chain", "chain-2", "cycle-wait"}
#: These have two consumers, the second of which waits.
SINGLE = {"single", "single-quorum"}
#: Acks in a transaction.
TRANSACTED = {"transaction"}
#: A consumer that takes its time, so that limits and times are reached.
SLOW = {"ttl", "head", "refuse", "refuse-dlx", "priority"}


@dataclass(frozen=True)
class Lane:
    """``outcomes`` are those that its confirmed messages may have."""

    name: str
    outcomes: frozenset[str]
    address: Callable[[int, random.Random], Address]
    #: Its messages leave each queue in the order in which they were published.
    ordered: bool = False
    #: Its queue keeps transient messages as well, half of all.
    keeps_all: bool = False
    #: It has no transient messages.
    persistent: bool = False
    #: Ever only in one queue: whatever was delivered before must say so.
    flagged: bool = True


def to(queue: str, **properties: Any) -> Callable[[int, random.Random], Address]:
    return lambda number, randomness: ("", queue, properties)


def sometimes_short(number: int, randomness: random.Random) -> Address:
    return "", "ttl", {"expiration": "30"} if number % 3 == 0 else {}


def of_five_priorities(number: int, randomness: random.Random) -> Address:
    times = {"expiration": "200"} if number % 4 == 0 else {}
    return "", "priority", {"priority": number % 6, **times}


def later(number: int, randomness: random.Random) -> Address:
    delay = randomness.choice((0, 1, 50, 300, 900))
    return "x-later", "delayed", {"headers": {"x-delay": delay}}


def hashed(number: int, randomness: random.Random) -> Address:
    return "x-hash", str(number), {}


def nowhere(number: int, randomness: random.Random) -> Address:
    return "x-direct", f"unbound-{number % 50}", {}


def only(*outcomes: str) -> frozenset[str]:
    return frozenset(outcomes)


LANES = [
    Lane("ttl", only("ttl", "expired"), sometimes_short),
    Lane("chain", only("expired"), to("chain"), flagged=False),
    Lane("cycle", only("cycle"), to("cycle"), flagged=False),
    Lane("priority", only("priority", "rejected", "expired"), of_five_priorities),
    Lane("quorum", only("quorum", "delivery_limit"), to("quorum"), flagged=False),
    Lane("head", only("head", "maxlen"), to("head"), ordered=True),
    Lane("refuse", only("refuse"), to("refuse"), ordered=True),
    Lane("refuse-dlx", only("refuse-dlx"), to("refuse-dlx"), ordered=True),
    Lane("single", only("single"), to("single"), ordered=True),
    Lane("single-quorum", only("single-quorum"), to("single-quorum"), ordered=True, keeps_all=True),
    Lane("delayed", only("delayed"), later, flagged=False),
    Lane("alternate", only("alternate"), nowhere, ordered=True),
    Lane("hash", only("hash-0", "hash-1", "hash-2"), hashed, ordered=True),
    Lane("newest", only("newest"), to("newest"), ordered=True, persistent=True),
    Lane("transaction", only("transaction"), to("transaction"), ordered=True),
]
NUMBERS: Mapping[str, int] = {lane.name: number for number, lane in enumerate(LANES)}


def declare(wire: Wire) -> None:
    """Make all queues and exchanges, as often as one likes."""
    for queue, arguments in QUEUES.items():
        wire.ok(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
    for exchange, kind, given in (
        ("x-later", "x-delayed-message", {"x-delayed-type": "direct"}),
        ("x-hash", "x-consistent-hash", {}),
        ("x-alternate", "fanout", {}),
        ("x-direct", "direct", {"alternate-exchange": "x-alternate"}),
    ):
        wire.ok(1, "exchange.declare", exchange=exchange, type=kind, durable=True, arguments=given)
    for queue, exchange, key in (
        ("delayed", "x-later", "delayed"),
        ("alternate", "x-alternate", ""),
        *[(f"hash-{number}", "x-hash", "1") for number in range(3)],
    ):
        wire.ok(1, "queue.bind", queue=queue, exchange=exchange, routing_key=key)


def decide(queue: str, number: int, message: Received) -> str:
    """What the consumer of a queue does with a message."""
    if queue == "priority" and number % 7 == 0:
        return REJECT
    if queue == "quorum" and number % 5 == 0:
        return RETURN
    if queue == "cycle" and deaths(message) < 4:
        return REJECT
    return ACK


def deaths(message: Received) -> int:
    """How often it died, of all reasons and in all queues."""
    return sum(death["count"] for death in message.properties.get("headers", {}).get("x-death", []))


def outcome(queue: str, message: Received) -> str:
    """What became of a message that a consumer of ``queue`` acknowledges."""
    if queue != GRAVE:
        return queue
    return str(message.properties["headers"]["x-death"][0]["reason"])
