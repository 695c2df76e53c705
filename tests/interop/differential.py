"""The same random operations on our broker and on RabbitMQ; after each, both must have answered alike.

``python -m tests.interop.differential --seeds 20`` starts both. Two connections of two channels each
declare, bind, publish, consume, get, acknowledge, commit and err on queues of every kind and five exchanges,
under policies that come and go; now and then
they do what no client should, with methods, contents and frames that are wrong. Compared are all frames
that arrive: methods with all fields, deliveries with tags, flags, properties and bodies, and what is
confirmed.

A difference is looked at again: the same seed runs on two RabbitMQs, ``RACE_RUNS`` times. If they differ from
each other at the same step, RabbitMQ's answer is a race of its processes there: for example, dead letters of
two queues that end in a third may come in either order. That is known without a run, if nothing else differs
and those of each queue are in order. Such a seed is counted apart. Any other one is ours.

Left out is what RabbitMQ itself leaves to chance or where we differ on purpose: several consumers on one
queue or channel (their order is a race between RabbitMQ's processes), and channel-wide prefetch (RabbitMQ
counts gets into it, and suspends consumers without acknowledgement), and publishes in a transaction to the
exchange with a history (RabbitMQ keeps them there without a commit).
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import struct
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.brokers import Broker, RabbitProcess, RouterProcess
from tests.interop.wire import Received, Wire

PLUGINS = ("rabbitmq_management", "rabbitmq_recent_history_exchange", "rabbitmq_consistent_hash_exchange")
QUEUES = ("q1", "q2", "q3", "q4")
EXCHANGES = {
    "x-direct": "direct",
    "x-fanout": "fanout",
    "x-topic": "topic",
    "x-headers": "headers",
    "x-history": "x-recent-history",
}
#: Arguments of the queues f1, f2 ... Times are so long or so short that nothing expires by chance.
FEATURES: tuple[dict[str, Any], ...] = (
    {"x-max-length": 2},
    {"x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
    {"x-max-length-bytes": 5, "x-dead-letter-exchange": "x-topic"},
    {"x-max-priority": 3},
    {"x-message-ttl": 0, "x-dead-letter-exchange": "x-fanout"},
    {"x-message-ttl": 600_000, "x-dead-letter-exchange": "x-direct", "x-dead-letter-routing-key": "k1"},
    {"x-single-active-consumer": True},
)
FEATURE_QUEUES = tuple(f"f{number}" for number in range(1, len(FEATURES) + 1))
ALL_QUEUES = QUEUES + FEATURE_QUEUES
#: Set and cleared over HTTP. Each applies to one queue or exchange.
POLICIES: tuple[dict[str, Any], ...] = (
    {"pattern": "^q3$", "definition": {"max-length": 3}},
    # Emptied first: RabbitMQ drops the oldest messages of a queue that is too long, then reads "overflow".
    {
        "pattern": "^q3$",
        "definition": {"max-length": 1, "overflow": "reject-publish"},
        "priority": 1,
        "purges": "q3",
    },
    {"pattern": "^q4$", "definition": {"dead-letter-exchange": "", "dead-letter-routing-key": "q2"}},
    {"pattern": "^f1$", "definition": {"max-length": 1}},
    {"pattern": "^f2$", "definition": {"max-length-bytes": 4, "overflow": "reject-publish-dlx"}},
    {"pattern": "^q1$", "definition": {"message-ttl": 600_000, "expires": 600_000}},
    {"pattern": "^f5$", "definition": {"max-length": 2, "dead-letter-exchange": "x-direct"}},
    {
        "pattern": "^f8$",
        "definition": {"message-ttl": 0, "dead-letter-exchange": "", "dead-letter-routing-key": "q1"},
    },
    {"pattern": "^x-direct$", "definition": {"alternate-exchange": "x-fanout"}},
    {"pattern": "^x-topic$", "definition": {"alternate-exchange": "x-nowhere"}},
)
KEYS = ("k1", "k2", "a.b", "a.c", "")
PATTERNS = (*KEYS, "a.*", "#")
TAGS = ("t1", "t2", "t3")
QUIET_S = 0.03
#: How long RabbitMQ takes at most until a policy that was set applies.
POLICY_S = 0.15
#: How long both may take to agree.
PATIENCE_S = 1.5

#: A queue that is to expire does after this many ms, and both have so many seconds for it.
EXPIRY_MS = 150
EXPIRY_S = 0.6
#: How often two RabbitMQs repeat a seed that differed.
RACE_RUNS = 3
#: Said of a difference that is nothing but the order of dead letters of several queues.
LETTERS = " dead letters of several queues in another order"

Channel = tuple[int, int]

ODD_PUBLISHES: tuple[dict[str, Any], ...] = (
    {"exchange": "nope"},
    {"user_id": "bob"},
    {"user_id": "bob", "exchange": "nope"},
    {"user_id": "guest", "content_type": "text/plain", "timestamp": 7, "cluster_id": "c"},
    {"delivery_mode": 0},
    {"delivery_mode": 3, "headers": {"CC": "a"}},
    {"expiration": "soon"},
    {"expiration": "-1"},
    {"immediate": True},
    {"headers": {"CC": "q1"}},
    {"headers": {"CC": [1, "q1", b"q2"], "BCC": ["q3"], "h": 1}},
    {"headers": {"BCC": None}},
    {"headers": {"h": [1.5, None, {"a": b"b"}], "x-h": 1}},
    {"routing_key": "q1\n"},
    {"headers": {"x-recent-history-no-store": True}},
    {"headers": {"x-death": [{"queue": "f1", "reason": "rejected", "count": 5}]}},
    {"expiration": "0"},
)
ODD_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"x-queue-type": "classic"},
    {"x-queue-type": "foo"},
    {"x-queue-type": 1},
    {"x-queue-mode": "lazy"},
    {"x-queue-mode": None},
    {"x-max-age": "1D"},
    {"x-message-ttl": "a"},
    {"x-foo": [1]},
    {"x-max-length": -1},
    {"x-max-length-bytes": "5"},
    {"x-max-priority": 256},
    {"x-overflow": "nope"},
    {"x-expires": 0},
    {"x-dead-letter-routing-key": "k"},
    {"x-dead-letter-exchange": 1},
    {"x-single-active-consumer": 1},
    {"x-message-ttl": 2**40},
    {"x-recent-history-length": 0},
    {"x-recent-history-length": 3},
    {"hash-header": "h", "hash-property": "message_id"},
    {"hash-property": "foo"},
    {"hash-header": "h"},
    {"alternate-exchange": 1},
    {"alternate-exchange": "amq.fanout"},
)
ODD_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("basic.consume", {"queue": "q1", "arguments": {"x-stream-offset": "first"}}),
    ("basic.consume", {"queue": "q1", "arguments": {"x-priority": "high"}}),
    ("basic.consume", {"queue": "nope"}),
    ("basic.get", {"queue": "nope"}),
    ("basic.qos", {"size": 1}),
    ("basic.qos-ok", {}),
    ("basic.recover", {"requeue": False}),
    ("basic.recover-async", {"requeue": False}),
    ("channel.close-ok", {}),
    ("channel.flow", {"active": True}),
    ("channel.flow", {"active": False}),
    ("channel.open", {}),
    ("connection.open", {"vhost": "/"}),
    ("exchange.delete", {"exchange": "amq.direct"}),
    ("queue.bind", {"queue": "nope", "exchange": "nope"}),
    ("queue.unbind", {"queue": "nope", "exchange": "nope"}),
    ("tx.commit", {}),
    ("access.request", {"realm": "/", "active": True}),
)
#: Kind and payload. Each ends the connection.
ODD_FRAMES = (
    (2, struct.pack(">HHQH", 60, 0, 1, 0)),
    (3, b"body"),
    (3, b""),
    (5, b"kind"),
    (8, b""),
    (8, b"beat"),
    (1, struct.pack(">HH", 50, 10) + b"\0\0\x09cut"),
    (1, struct.pack(">HH", 60, 20) + bytes(7) + b"too much"),
)


class Step(NamedTuple):
    """One operation: a method, ``publish``, ``frame`` as it is, or ``close`` of the connection."""

    connection: int
    channel: int
    name: str
    fields: dict[str, Any]


class Side:
    """The connections to one broker."""

    def __init__(self, port: int, admin_port: int) -> None:
        self.port = port
        self.admin_port = admin_port
        self.wires: dict[int, Wire] = {}
        self.confirmed: dict[Channel, set[int]] = {}

    def wire(self, connection: int) -> Wire:
        if connection not in self.wires:
            self.wires[connection] = Wire(self.port)
        return self.wires[connection]

    def drop(self, connection: int) -> None:
        if connection in self.wires:
            self.wires.pop(connection).close()
        self.confirmed = {key: tags for key, tags in self.confirmed.items() if key[0] != connection}

    def do(self, step: Step) -> None:
        if step.name == "close":
            self.drop(step.connection)
        elif step.name == "policy":
            set_policy(self.admin_port, **step.fields)
        elif step.name == "expire":
            expire(self.admin_port, **step.fields)
        elif step.name == "publish":
            self.wire(step.connection).publish(step.channel, **step.fields)
        elif step.name == "frame":
            self.wire(step.connection).frame(channel=step.channel, **step.fields)
        else:
            self.wire(step.connection).send(step.channel, step.name, **step.fields)

    def answers(self) -> list[tuple[Channel, Received]]:
        """All that comes until nothing does for a while; a channel.close is answered at once."""
        result = []
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            for connection, wire in list(self.wires.items()):
                received = wire.receive_within(0.002)
                if received is None:
                    continue
                end = time.monotonic() + QUIET_S
                result.append(((connection, received.channel), received))
                if received.name in ("channel.close", "channel.open-ok"):
                    self.confirmed.pop((connection, received.channel), None)
                if received.name == "channel.close":
                    wire.send(received.channel, "channel.close-ok")
                if received.name in ("connection.close", "eof", "reset"):
                    self.drop(connection)
        return result

    def shown(self, answers: Iterable[tuple[Channel, Received]]) -> dict[Channel, list[str]]:
        """By channel and comparable: confirms as the tags that they settle, generated names levelled."""
        result: dict[Channel, list[str]] = {}
        for key, received in answers:
            lines = result.setdefault(key, [])
            if received.name in ("basic.ack", "basic.nack"):
                word = "confirm" if received.name == "basic.ack" else "refuse"
                settled = self.confirmed.setdefault(key, set())
                tag = received.delivery_tag
                new = set(range(1, tag + 1)) - settled if received.multiple else {tag}
                settled |= new
                lines += [f"{word} {number}" for number in new]
            else:
                text = f"{received.name} {received.fields} {_timeless(received.properties)} {received.body!r}"
                lines.append(re.sub(r"amq\.gen-[\w-]{22}", "amq.gen-", text))
        return {key: _in_comparable_order(lines) for key, lines in result.items()}


def _timeless(value: Any) -> Any:
    """Tables in the order of their names, which is the brokers' own business; without times of death."""
    if isinstance(value, dict):
        is_death = "routing-keys" in value
        return {name: _timeless(value[name]) for name in sorted(value) if not (is_death and name == "time")}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def _in_comparable_order(lines: list[str]) -> list[str]:
    """Deliveries keep their order; what comes between them may come a little sooner or later."""
    deliveries = [line for line in lines if line.startswith("basic.deliver")]
    return deliveries + sorted(line for line in lines if not line.startswith("basic.deliver"))


class State:
    """What the next operations depend on, as the answers tell."""

    def __init__(self) -> None:
        self.open: set[Channel] = set()
        #: unsettled delivery tags, and (channel, consumer tag) -> queue
        self.unacked: dict[Channel, list[int]] = {}
        self.consumers: dict[tuple[Channel, str], str] = {}
        self.no_ack: set[tuple[Channel, str]] = set()
        #: Transactional channels.
        self.tx: set[Channel] = set()

    def close(self, matches: Callable[[Channel], bool]) -> None:
        self.open = {key for key in self.open if not matches(key)}
        self.tx = {key for key in self.tx if not matches(key)}
        self.unacked = {key: tags for key, tags in self.unacked.items() if not matches(key)}
        self.consumers = {key: queue for key, queue in self.consumers.items() if not matches(key[0])}

    def learn(self, step: Step, answers: Iterable[tuple[Channel, Received]]) -> None:
        for key, received in answers:
            if received.name == "channel.open-ok":
                self.open.add(key)
            elif received.name == "tx.select-ok":
                self.tx.add(key)
            elif received.name in ("channel.close", "channel.close-ok"):
                self.close(lambda other, key=key: other == key)  # type: ignore[misc]
            elif received.name in ("connection.close", "eof", "reset"):
                self.close(lambda other, key=key: other[0] == key[0])  # type: ignore[misc]
            elif received.name == "basic.consume-ok":
                self.consumers[key, received.tag] = step.fields.get("queue", "")
                if step.fields.get("no_ack"):
                    self.no_ack.add((key, received.tag))
                else:
                    self.no_ack.discard((key, received.tag))
            elif received.name in ("basic.cancel", "basic.cancel-ok"):
                self.consumers.pop((key, received.tag), None)
            elif (received.name == "basic.deliver" and (key, received.tag) not in self.no_ack) or (
                received.name == "basic.get-ok" and not step.fields.get("no_ack")
            ):
                self.unacked.setdefault(key, []).append(received.delivery_tag)


class Operations:
    """Draws the next operation."""

    def __init__(self, seed: int, state: State) -> None:
        self.random = random.Random(seed)
        self.state = state
        self.bodies = 0
        self.weights = {
            self.publish: 60,
            self.get: 9,
            self.consume: 5,
            self.cancel: 3,
            self.ack: 14,
            self.nack: 8,
            self.reject: 6,
            self.recover: 2,
            self.qos: 3,
            self.confirm: 3,
            self.bind: 4,
            self.exchange_bind: 2,
            self.declare_queue: 3,
            self.declare_exchange: 2,
            self.delete_queue: 0.5,
            self.delete_exchange: 0.4,
            self.purge: 1.5,
            self.close_channel: 1,
            self.close_connection: 0.7,
            self.publish_oddly: 1.5,
            self.declare_oddly: 2,
            self.call_oddly: 1,
            self.send_frame: 0.5,
            self.select_tx: 1,
            self.end_tx: 4,
            self.set_policy: 1.5,
            self.expire: 0.4,
        }

    def next(self) -> Step:
        connection, channel = self.random.choice((0, 0, 1)), self.random.choice((1, 2))
        if (connection, channel) not in self.state.open and not self.chance(0.02):
            return Step(connection, channel, "channel.open", {})
        while True:
            (draw,) = self.random.choices(list(self.weights), list(self.weights.values()))
            drawn = draw((connection, channel))
            if drawn is not None:
                return Step(connection, channel, *drawn)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def queue(self) -> str:
        return "" if self.chance(0.04) else self.random.choice(ALL_QUEUES)

    def exchange(self) -> str:
        return self.random.choice(
            (*EXCHANGES, *EXCHANGES, *EXCHANGES, "amq.direct", "amq.topic", "", "", "", "")
        )

    Drawn = tuple[str, dict[str, Any]] | None

    def publish(self, key: Channel) -> Drawn:
        self.bodies += 1
        exchange = self.exchange()
        if exchange == "x-history" and key in self.state.tx:
            exchange = "x-topic"
        fields: dict[str, Any] = {
            "exchange": exchange,
            "routing_key": self.random.choice(KEYS if exchange else ALL_QUEUES),
            "body": "" if self.chance(0.03) else str(self.bodies),
            "mandatory": self.chance(0.3),
            "delivery_mode": 2 if self.chance(0.5) else None,
            "priority": self.random.choice((None, None, 0, 1, 3, 9)),
            "expiration": "600000" if self.chance(0.05) else None,
        }
        if self.chance(0.1):
            fields["headers"] = {
                self.random.choice(("CC", "BCC")): [self.random.choice(QUEUES), self.random.choice(KEYS)]
            }
        elif self.chance(0.3):
            fields["headers"] = {"h": self.random.choice((1, 2))}
        return "publish", fields

    def get(self, key: Channel) -> Drawn:
        return "basic.get", {"queue": self.queue(), "no_ack": self.chance(0.4)}

    def consume(self, key: Channel) -> Drawn:
        queue = self.random.choice(ALL_QUEUES)
        if queue in self.state.consumers.values() or any(key == other for other, _ in self.state.consumers):
            return None
        options = {"no_ack": self.chance(0.3), "exclusive": self.chance(0.1)}
        return "basic.consume", {"queue": queue, "tag": self.random.choice(TAGS), **options}

    def cancel(self, key: Channel) -> Drawn:
        return "basic.cancel", {"tag": self.random.choice(TAGS)}

    def tag(self, key: Channel) -> int | None:
        unacked = self.state.unacked.get(key, [])
        if self.chance(0.02):
            return self.random.choice((0, 1, 2, 1000))
        return self.random.choice(unacked) if unacked else None

    def settle(self, key: Channel, name: str, multiple: bool, **fields: bool) -> Drawn:
        tag = self.tag(key)
        if tag is None:
            return None
        unacked = self.state.unacked.get(key, [])
        self.state.unacked[key] = [
            t for t in unacked if t != tag and not (multiple and (t < tag or tag == 0))
        ]
        if name != "basic.reject":
            fields["multiple"] = multiple
        return name, {"delivery_tag": tag, **fields}

    def ack(self, key: Channel) -> Drawn:
        return self.settle(key, "basic.ack", self.chance(0.3))

    def nack(self, key: Channel) -> Drawn:
        return self.settle(key, "basic.nack", self.chance(0.3), requeue=self.chance(0.7))

    def reject(self, key: Channel) -> Drawn:
        return self.settle(key, "basic.reject", False, requeue=self.chance(0.7))

    def recover(self, key: Channel) -> Drawn:
        self.state.unacked.pop(key, None)
        return "basic.recover", {"requeue": True}

    def bind(self, key: Channel) -> Drawn:
        fields: dict[str, Any] = {
            "queue": self.queue(),
            "exchange": self.exchange(),
            "routing_key": self.random.choice(PATTERNS),
        }
        if self.chance(0.3):
            fields["arguments"] = {
                "x-match": self.random.choice(("all", "any")),
                "h": self.random.choice((1, 2)),
            }
        return self.random.choice(("queue.bind", "queue.bind", "queue.unbind")), fields

    def exchange_bind(self, key: Channel) -> Drawn:
        # RabbitMQ fails (541) when an exchange that looks at keys is bound to one with a history.
        sources = [name for name in EXCHANGES if name != "x-history"]
        ends = {"destination": self.random.choice([*EXCHANGES]), "source": self.random.choice(sources)}
        name = self.random.choice(("exchange.bind", "exchange.bind", "exchange.unbind"))
        return name, {**ends, "routing_key": self.random.choice(PATTERNS), "nowait": self.chance(0.1)}

    def declare_queue(self, key: Channel) -> Drawn:
        flags = {"passive": 0.2, "durable": 0.5, "exclusive": 0.15, "auto_delete": 0.2}
        return "queue.declare", {
            "queue": self.queue(),
            "nowait": self.chance(0.1),
            **{flag: self.chance(share) for flag, share in flags.items()},
        }

    def declare_exchange(self, key: Channel) -> Drawn:
        name = self.random.choice([*EXCHANGES])
        kind = EXCHANGES[name] if self.chance(0.8) else "direct"
        flags = {"passive": 0.1, "durable": 0.5, "auto_delete": 0.15, "internal": 0.1}
        fields = {flag: self.chance(share) for flag, share in flags.items()}
        return "exchange.declare", {"exchange": name, "type": kind, **fields}

    def delete_queue(self, key: Channel) -> Drawn:
        return "queue.delete", {
            "queue": self.queue(),
            "if_unused": self.chance(0.4),
            "if_empty": self.chance(0.4),
        }

    def delete_exchange(self, key: Channel) -> Drawn:
        return "exchange.delete", {
            "exchange": self.random.choice([*EXCHANGES]),
            "if_unused": self.chance(0.4),
        }

    def purge(self, key: Channel) -> Drawn:
        return "queue.purge", {"queue": self.queue(), "nowait": self.chance(0.1)}

    def qos(self, key: Channel) -> Drawn:
        return "basic.qos", {"count": self.random.choice((0, 1, 2, 5))}

    def confirm(self, key: Channel) -> Drawn:
        return "confirm.select", {"nowait": self.chance(0.2)}

    def select_tx(self, key: Channel) -> Drawn:
        return "tx.select", {}

    def end_tx(self, key: Channel) -> Drawn:
        return self.random.choice(("tx.commit", "tx.commit", "tx.rollback")), {}

    def set_policy(self, key: Channel) -> Drawn:
        number = self.random.randrange(len(POLICIES))
        return "policy", {"name": f"p{number}", "policy": POLICIES[number] if self.chance(0.6) else None}

    def expire(self, key: Channel) -> Drawn:
        return "expire", {"queue": self.random.choice(ALL_QUEUES)}

    def publish_oddly(self, key: Channel) -> Drawn:
        drawn = self.publish(key)
        assert drawn is not None
        _, fields = drawn
        odd: dict[str, Any] = self.random.choice(ODD_PUBLISHES)
        return "publish", {**fields, **odd}

    def declare_oddly(self, key: Channel) -> Drawn:
        arguments = self.random.choice(ODD_ARGUMENTS)
        if self.chance(0.6):
            fields = {"queue": self.random.choice((*QUEUES, "amq.q")), "durable": self.chance(0.5)}
            return "queue.declare", {**fields, "arguments": arguments, "passive": self.chance(0.3)}
        name = self.random.choice((*EXCHANGES, "", "amq.direct", "amq.x"))
        kind = self.random.choice(
            ("direct", "direct", "topic", "nope", "x-recent-history", "x-consistent-hash")
        )
        fields = {"exchange": name, "type": kind, "durable": self.chance(0.5), "passive": self.chance(0.3)}
        return "exchange.declare", {**fields, "arguments": arguments}

    def call_oddly(self, key: Channel) -> Drawn:
        if self.chance(0.2):
            used = [tag for other, tag in self.state.consumers if other == key]
            return ("basic.consume", {"queue": self.queue(), "tag": used[0]}) if used else None
        return self.random.choice(ODD_CALLS)

    def send_frame(self, key: Channel) -> Drawn:
        kind, payload = self.random.choice(ODD_FRAMES)
        return "frame", {"kind": kind, "payload": payload}

    def close_channel(self, key: Channel) -> Drawn:
        return "channel.close", {"code": 200}

    def close_connection(self, key: Channel) -> Drawn:
        self.state.close(lambda other: other[0] == key[0])
        return "close", {}


def furnish(port: int) -> None:
    """Four queues and four exchanges, bound, and nothing in them."""
    with Wire(port) as wire:
        wire.open_channel(1)
        for queue, arguments in zip(FEATURE_QUEUES, FEATURES, strict=True):
            wire.ok(1, "queue.delete", queue=queue)
            wire.ok(
                1, "queue.declare", queue=queue, durable=queue in FEATURE_QUEUES[::2], arguments=arguments
            )
        for queue in QUEUES:
            wire.ok(1, "queue.delete", queue=queue)
            wire.ok(1, "queue.declare", queue=queue, durable=queue in QUEUES[:2])
        for number, (exchange, kind) in enumerate(EXCHANGES.items()):
            wire.ok(1, "exchange.delete", exchange=exchange)
            wire.ok(1, "exchange.declare", exchange=exchange, type=kind, durable=number % 2 == 0)
        for number, queue in enumerate(QUEUES):
            wire.ok(1, "queue.bind", queue=queue, exchange="x-direct", routing_key=KEYS[number % 2])
            wire.ok(
                1,
                "queue.bind",
                queue=queue,
                exchange="x-topic",
                routing_key=("a.*", "#", "a.b", "*.c")[number],
            )
            wire.ok(1, "queue.bind", queue=queue, exchange="x-headers", arguments={"h": number % 2 + 1})
        for queue in QUEUES[1::2]:
            wire.ok(1, "queue.bind", queue=queue, exchange="x-fanout")
        for queue in FEATURE_QUEUES[:4]:
            wire.ok(1, "queue.bind", queue=queue, exchange="x-fanout")


def set_policy(admin_port: int, name: str, policy: dict[str, Any] | None, wait_s: float = POLICY_S) -> None:
    """Set the policy of that name, or clear it, and wait so long for it to apply."""
    path = f"policies/%2F/{name}"
    if policy is None:
        call(admin_port, "DELETE", path)
    else:
        given = dict(policy)
        if queue := given.pop("purges", ""):
            call(admin_port, "DELETE", f"queues/%2F/{queue}/contents")
        call(admin_port, "PUT", path, given)
    time.sleep(wait_s)


def call(admin_port: int, method: str, path: str, body: dict[str, Any] | None = None) -> None:
    """A request to the HTTP API. What it is about may be missing."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{admin_port}/api/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=10):
            pass
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise


def expire(admin_port: int, queue: str) -> None:
    """Let the queue expire, if nobody uses it."""
    definition = {"expires": EXPIRY_MS}
    set_policy(admin_port, "expiry", {"pattern": f"^{queue}$", "definition": definition, "priority": 9})
    time.sleep(EXPIRY_S)
    set_policy(admin_port, "expiry", None)


def compare(
    brokers: list[Broker], admin_ports: list[int], seed: int, steps: int, shown_steps: int = 15
) -> list[str]:
    """Run one seed; the lines that tell of the first difference, if there is one."""
    for broker, admin_port in zip(brokers, admin_ports, strict=True):
        for name in ("expiry", *[f"p{number}" for number in range(len(POLICIES))]):
            set_policy(admin_port, name, None, 0)
        time.sleep(POLICY_S)
        furnish(broker.port)
    sides = [Side(broker.port, port) for broker, port in zip(brokers, admin_ports, strict=True)]
    state = State()
    operations = Operations(seed, state)
    history: list[Step] = []
    try:
        for _ in range(steps):
            step = operations.next()
            history.append(step)
            for side in sides:
                side.do(step)
            shown: list[dict[Channel, list[str]]] = [{}, {}]
            end = time.monotonic() + PATIENCE_S
            while True:
                answers = [side.answers() for side in sides]
                for side, seen, new in zip(sides, shown, answers, strict=True):
                    for key, lines in side.shown(new).items():
                        seen[key] = _in_comparable_order(seen.get(key, []) + lines)
                state.learn(step, answers[-1])
                if shown[0] == shown[1] or time.monotonic() > end:
                    break
            if shown[0] != shown[1]:
                note = LETTERS if differ_by_letters(*shown) else ""
                told = [f"  {step}" for step in history[-shown_steps:]]
                return [f"seed {seed}, step {len(history)}:{note}", *told, *_difference(brokers, shown)]
    finally:
        for side in sides:
            for connection in list(side.wires):
                side.drop(connection)
    return []


def differ_by_letters(ours: dict[Channel, list[str]], theirs: dict[Channel, list[str]]) -> bool:
    """Whether nothing differs but the order of dead letters that come from different queues."""
    return ours.keys() == theirs.keys() and all(
        _by_source(ours[key]) == _by_source(theirs[key]) for key in ours
    )


def _by_source(lines: list[str]) -> dict[str, list[str]]:
    """Lines without delivery tags, in order, by the queue that they died in last; "" for other lines."""
    found: dict[str, list[str]] = {}
    for line in lines:
        source = re.search(r"'x-death': \[\{[^{}]*?'queue': '(\w+)'", line)
        rest = re.sub(r"'delivery_tag': \d+, ", "", line) if line.startswith("basic.deliver") else line
        found.setdefault(source[1] if source else "", []).append(rest)
    return found


def _difference(brokers: list[Broker], shown: list[dict[Channel, list[str]]]) -> list[str]:
    lines = []
    for key in sorted({*shown[0], *shown[1]}):
        if shown[0].get(key) != shown[1].get(key):
            for broker, seen in zip(brokers, shown, strict=True):
                lines.append(f"  channel {key}, {broker.name}:")
                lines += [f"    {line}" for line in seen.get(key, ["(nothing)"])]
    return lines


def step_of(lines: list[str]) -> str:
    """The seed and step of a difference."""
    return lines[0] if lines else ""


class Races:
    """A second RabbitMQ, started when it is first needed, beside which the first one repeats a seed."""

    def __init__(self, directory: Path, rabbit: RabbitProcess) -> None:
        self._first = rabbit
        self._second = RabbitProcess(directory, plugins=PLUGINS)
        self._is_started = False

    def has(self, lines: list[str], seed: int, steps: int) -> bool:
        """Whether RabbitMQ differs from itself where ``lines`` say that we differ from it."""
        if step_of(lines).endswith(LETTERS):
            return True
        if not self._is_started:
            self._second.start()
            self._is_started = True
        pair: list[Broker] = [self._second, self._first]
        ports = [self._second.admin_port, self._first.admin_port]
        return any(step_of(compare(pair, ports, seed, steps)) == step_of(lines) for _ in range(RACE_RUNS))

    def stop(self) -> None:
        if self._is_started:
            self._second.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--history", type=int, default=15, help="steps that are shown before a difference")
    args = parser.parse_args()
    if not RabbitProcess.available():
        print("RabbitMQ is not installed here", file=sys.stderr)
        return 2
    different = raced = 0
    with tempfile.TemporaryDirectory(prefix="differential-") as directory:
        brokers: list[Broker] = [
            router := RouterProcess(Path(directory, "router")),
            rabbit := RabbitProcess(Path(directory, "rabbitmq"), plugins=PLUGINS),
        ]
        for broker in brokers:
            broker.start()
        admin_ports = [router.admin_port, rabbit.admin_port]
        races = Races(Path(directory, "second"), rabbit)
        try:
            for seed in range(args.first, args.first + args.seeds):
                lines = compare(brokers, admin_ports, seed, args.steps, args.history)
                print("\n".join(lines or [f"seed {seed}: {args.steps} steps alike"]), flush=True)
                if lines and races.has(lines, seed, args.steps):
                    print("  a race of RabbitMQ", flush=True)
                    raced += 1
                else:
                    different += bool(lines)
        finally:
            races.stop()
            for broker in brokers:
                broker.stop()
    print(f"{different} of {args.seeds} seeds with a difference, {raced} with a race of RabbitMQ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
