"""Values for the fields of AMQP methods, tables and properties: right ones, odd ones and wrong ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.interop.wire import FIELDS, INTEGERS, NUMBERS, PROPERTIES, encode_short, encode_table

QUEUES = ["fz-0", "fz-1", "fz-2", "fz-3", "fz-4", ""]
EXCHANGES = ["fz-x0", "fz-x1", "fz-x2", "fz-x3", "amq.direct", "amq.topic", "amq.headers", "amq.fanout", ""]
KEYS = [
    "fz-0", "fz-1", "fz-2", "a", "a.b", "a.b.c", "#", "*", "a.#.c", "*.b.*", "#.#", "", "." * 20, "k" *
    255,
]  # fmt: skip
TAGS = ["t0", "t1", "t2", ""]
TYPES = [
    "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message", "x-random", "",
    "nope",
]  # fmt: skip
ARGUMENTS = [
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority", "x-queue-type",
    "x-queue-mode", "x-single-active-consumer", "x-partitions", "x-delivery-limit", "x-match",
    "x-priority", "x-cancel-on-ha-failover", "x-stream-offset", "alternate-exchange", "x-delayed-type",
    "x-death", "CC", "BCC", "x-delay", "a", "b", "é",
]  # fmt: skip
WORDS = [
    "drop-head", "reject-publish", "classic", "quorum", "stream", "lazy", "all", "any", "first", "a",
    "fz-x0", "fz-0",
]  # fmt: skip
NUMBERS_LIKED = [
    0, 1, 2, 3, 10, 255, 256, 1000, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 -
    1,
]  # fmt: skip
#: How the client settles what it got: method, multiple, requeue.
SETTLES = (
    ["basic.ack", 0, 0],
    ["basic.ack", 1, 0],
    ["basic.nack", 1, 1],
    ["basic.nack", 0, 0],
    ["basic.reject", 0, 1],
)
#: Methods a client sends once it is connected, those of every day more often.
USUAL = (
    ["basic.publish"] * 12
    + ["basic.ack"] * 4
    + ["queue.declare", "queue.bind", "basic.consume", "basic.get", "basic.nack", "exchange.declare"] * 3
    + [
        "basic.reject",
        "basic.recover",
        "basic.recover-async",
        "basic.cancel",
        "basic.qos",
        "queue.purge",
        "queue.delete",
        "queue.unbind",
        "exchange.delete",
        "exchange.bind",
        "exchange.unbind",
        "confirm.select",
        "channel.flow",
        "access.request",
    ]
)


def integer(random: Random, kind: str) -> int:
    most = (1 << 8 * struct.calcsize(INTEGERS[kind])) - 1
    value = random.choice(NUMBERS_LIKED) if random.random() < 0.3 else random.randrange(12)
    return value & most


def field_value(random: Random, depth: int = 0) -> bytes:
    """A field value with its type letter."""
    roll = random.random()
    if roll < 0.25:
        word = random.choice(WORDS).encode()
        return b"S" + struct.pack(">I", len(word)) + word
    if roll < 0.55:
        letter, form = random.choice(list(NUMBERS.items()))
        if form[-1] in "fd":
            return letter.encode() + struct.pack(
                form, random.choice((0.0, -1.5, 1e300 if form[-1] == "d" else 1e30))
            )
        bits = 8 * struct.calcsize(form)
        value = random.choice((0, 1, 5, 100, -1, 60000, 2**bits - 1, 2 ** (bits - 1))) % 2**bits
        return letter.encode() + value.to_bytes(bits // 8, "big")
    if roll < 0.65:
        return b"t" + bytes([random.choice((0, 1, 2, 255))])
    if roll < 0.72:
        return b"V"
    if roll < 0.77:
        return b"D" + random.randbytes(5)
    if roll < 0.82:
        data = random.randbytes(random.choice((0, 1, 300)))
        return random.choice((b"x", b"S")) + struct.pack(">I", len(data)) + data
    if depth > 3:
        return b"V"
    if roll < 0.92:
        return b"F" + table(random, depth + 1)
    if roll < 0.99:
        items = b"".join(field_value(random, depth + 1) for _ in range(random.randrange(4)))
        return b"A" + struct.pack(">I", len(items)) + items
    return nested(random, random.choice((20, 100, 1000, 5000)))


def nested(random: Random, levels: int) -> bytes:
    """Tables or arrays in each other."""
    out = b"V"
    for _ in range(levels):
        if random.random() < 0.5:
            out = b"A" + struct.pack(">I", len(out)) + out
        else:
            out = b"F" + struct.pack(">I", len(out) + 2) + b"\x01a" + out
    return out


def usual_table(random: Random) -> dict[str, Any]:
    """Arguments that a right client may give."""
    if random.random() < 0.7:
        return {}
    return random.choice(
        (
            {"x-message-ttl": random.choice((0, 1, 50, 60_000))},
            {"x-max-length": random.choice((0, 1, 5))},
            {"x-max-length": 3, "x-overflow": "reject-publish"},
            {"x-max-priority": 5},
            {"x-expires": 200},
            {"x-dead-letter-exchange": random.choice(EXCHANGES), "x-max-length": 2},
            {"x-single-active-consumer": True},
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "fz-1", "x-message-ttl": 1},
            {"alternate-exchange": random.choice(EXCHANGES)},
            {"x-match": random.choice(("all", "any")), "a": 1},
            {"x-priority": random.choice((-1, 0, 10))},
            {"x-queue-type": random.choice(("classic", "quorum"))},
        )
    )


def table(random: Random, depth: int = 0) -> bytes:
    out = bytearray()
    count = random.choice((0, 0, 1, 1, 2, 3)) if random.random() < 0.99 else random.choice((100, 2000))
    for _ in range(count):
        out += encode_short(random.choice(ARGUMENTS)) + field_value(random, depth)
    return struct.pack(">I", len(out)) + bytes(out)


def text(random: Random, field: str) -> str | bytes:
    if random.random() < 0.04:
        return random.choice(
            (b"\xff\xfe", b"\x00", b"x" * 255, "honest\x00", "amq.fz", "é", b"\xc3", "evil\x1b[2J")
        )
    pools: dict[str, Sequence[str]] = {
        "queue": QUEUES, "exchange": EXCHANGES, "destination": EXCHANGES, "source": EXCHANGES,
        "routing_key": KEYS, "tag": TAGS, "type": TYPES,
    }  # fmt: skip
    return random.choice(pools.get(field, ("", "text")))


def fields(random: Random, name: str) -> dict[str, Any]:
    """Values for a method, most of them sensible."""
    if random.random() < 0.85:
        return sane(random, name)
    values: dict[str, Any] = {}
    for field, kind in FIELDS[name]:
        if kind in INTEGERS:
            values[field] = integer(random, kind)
        elif kind == "b":
            chance = {"passive": 0.1, "nowait": 0.2, "exclusive": 0.1, "immediate": 0.03, "active": 0.8}
            values[field] = random.random() < chance.get(field, 0.4)
        elif kind == "F":
            values[field] = table(random) if random.random() < 0.5 else {}
        else:
            values[field] = text(random, field)
    if "ticket" in values:
        values["ticket"] = 0
    if name == "basic.qos" and random.random() < 0.9:
        values["size"] = 0
    return values


def sane(random: Random, name: str) -> dict[str, Any]:
    """Values that the broker has nothing against, mostly: the way into the depth."""
    values: dict[str, Any] = {}
    for field, kind in FIELDS[name]:
        if kind == "b":
            chance = {
                "immediate": 0.001,
                "nowait": 0.2,
                "multiple": 0.5,
                "requeue": 0.6,
                "no_ack": 0.3,
                "mandatory": 0.2,
                "active": 0.9,
            }
            values[field] = random.random() < chance.get(field, 0.03)
        elif kind == "F":
            values[field] = usual_table(random)
        elif field in ("queue", "exchange", "destination", "source", "routing_key"):
            values[field] = text(random, field)
    match name:
        case "queue.declare":
            values["queue"] = queue = random.choice(QUEUES[:5])
            values["durable"] = queue in ("fz-0", "fz-1")
            values["passive"] = random.random() < 0.1
            if queue != "fz-4":
                values["arguments"] = {}
        case "exchange.declare":
            number = random.randrange(4)
            values["exchange"], values["type"] = EXCHANGES[number], TYPES[number]
            values["durable"] = number < 2
            values["arguments"] = {}
        case "basic.recover" | "basic.recover-async":
            values["requeue"] = True
        case "basic.qos":
            values["count"] = random.choice((0, 1, 2, 10))
        case "basic.get" | "basic.consume" | "queue.bind" | "queue.purge":
            values["queue"] = random.choice(QUEUES[:5])
        case "basic.publish":
            values["exchange"] = random.choice((*EXCHANGES, "", ""))
        case "basic.ack" | "basic.nack":
            values["delivery_tag"], values["multiple"] = 0, True
    return values


def properties(random: Random) -> bytes:
    flags, out = 0, b""
    for index, (name, kind) in enumerate(PROPERTIES):
        if random.random() > 0.1:
            continue
        flags |= 1 << (15 - index)
        if kind == "F":
            out += table(random) if random.random() < 0.3 else encode_table(usual_table(random))
        elif kind in INTEGERS:
            value = random.choice((1, 2)) if name == "delivery_mode" else integer(random, kind)
            out += struct.pack(INTEGERS[kind], value)
        else:
            choices = {
                "expiration": ("0", "1", "50", "60000", "60000", "abc" if random.random() < 0.1 else "1"),
                "user_id": ("guest", "guest", "guest", "x"),
            }
            pools: Sequence[str] = choices.get(name, ("", "text", "amq.rabbitmq.reply-to", "x" * 255))
            out += encode_short(random.choice(pools))
    if random.random() < 0.005:
        flags |= random.choice((1, 2, 3))
    return struct.pack(">H", flags) + out
