"""What a walk may do, right and wrong, with which queues, exchanges and policies, and what it does next."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.interop.wire import Received

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
    {"x-queue-mode": "lazy", "x-max-length": 3, "x-dead-letter-exchange": "x-direct"},
    {"x-max-priority": 2, "x-max-length": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q2"},
)
#: The letters of RabbitMQ's lazy queues have no "original-expiration".
LAZY = "f9"
FEATURE_QUEUES = tuple(f"f{number}" for number in range(1, len(FEATURES) + 1))
ALL_QUEUES = QUEUES + FEATURE_QUEUES
PRIORITIES = ("f5", "f10")
SINGLE_ACTIVE = "f8"
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
    # Over another one of the same queue, which then has no effect.
    {"pattern": "^q3$", "definition": {"dead-letter-exchange": "x-headers"}, "priority": 2},
    {"pattern": "^f9$", "definition": {"max-length": 1, "dead-letter-routing-key": "k2"}},
    {"pattern": "^f10$", "definition": {"message-ttl": 0}},
)
#: Values of the header that the headers exchange looks at, of all types. None in a binding stands for any.
VALUES: tuple[Any, ...] = (1, 2, 1, 2, 1.0, 2**40, True, "1", b"1", None, [1, "a"], {"k": 1})
MATCHES = ("all", "any", "all-with-x", "any-with-x")
#: Further properties, which nobody but the consumer looks at.
PROPERTIES: dict[str, tuple[Any, ...]] = {
    "content_type": ("text/plain", ""),
    "content_encoding": ("gzip",),
    "correlation_id": ("c", "ä" * 40),
    "reply_to": ("q1",),
    "message_id": ("m",),
    "timestamp": (0, 2**40),
    "type": ("t",),
    "app_id": ("a",),
    "cluster_id": ("",),
}
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


#: Methods that are answered unless "nowait" is set.
ANSWERED = frozenset(
    (
        "basic.cancel",
        "basic.consume",
        "basic.get",
        "basic.qos",
        "basic.recover",
        "channel.close",
        "channel.open",
        "confirm.select",
        "exchange.bind",
        "exchange.declare",
        "exchange.delete",
        "exchange.unbind",
        "queue.bind",
        "queue.declare",
        "queue.delete",
        "queue.purge",
        "queue.unbind",
        "tx.commit",
        "tx.rollback",
        "tx.select",
    )
)


class Step(NamedTuple):
    """One operation: a method, ``publish``, a ``burst`` of them, a ``frame`` or a ``close``."""

    connection: int
    channel: int
    name: str
    fields: dict[str, Any]

    @property
    def is_answered(self) -> bool:
        """Whether something comes in any case, an answer or an error, however busy the broker is."""
        return self.name in ANSWERED and not self.fields.get("nowait")


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

    def queue_of(self, key: Channel, tag: str) -> str:
        return self.consumers.get((key, tag), "")

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

    def __init__(self, seed: int | str, state: State) -> None:
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
            self.burst: 4,
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
        is_open = (connection, channel) in self.state.open
        while True:
            (draw,) = self.random.choices(list(self.weights), list(self.weights.values()))
            drawn = draw((connection, channel))
            if drawn is not None and (is_open or drawn[1].get("queue") != ""):
                return Step(connection, channel, *drawn)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def queue(self) -> str:
        return "" if self.chance(0.04) else self.random.choice(ALL_QUEUES)

    def exchange(self) -> str:
        return self.random.choice(
            (*EXCHANGES, *EXCHANGES, *EXCHANGES, "amq.direct", "amq.topic", "amq.match", "", "", "", "")
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
                self.random.choice(("CC", "BCC") if exchange != "x-history" else ("CC",)): [
                    self.random.choice(QUEUES),
                    self.random.choice(KEYS),
                ]
            }
        elif self.chance(0.3):
            fields["headers"] = {"h": self.random.choice(VALUES)}
            if self.chance(0.3):
                fields["headers"]["x-h"] = self.random.choice(VALUES)
        for name in self.random.sample(list(PROPERTIES), self.random.choice((0, 0, 0, 1, 3))):
            fields[name] = self.random.choice(PROPERTIES[name])
        return "publish", fields

    def burst(self, key: Channel) -> Drawn:
        """Publishes to one queue, and what looks into it, in one write."""
        queue = self.random.choice(ALL_QUEUES)
        if key in self.state.tx or (queue in PRIORITIES and queue in self.state.consumers.values()):
            return None
        calls: list[tuple[str, dict[str, Any]]] = []
        for _ in range(self.random.randint(1, 5)):
            self.bodies += 1
            more = {
                "delivery_mode": 2 if self.chance(0.5) else None,
                "priority": self.random.choice((None, 1, 9)),
            }
            calls.append(
                ("publish", {"exchange": "", "routing_key": queue, "body": str(self.bodies), **more})
            )
        no_ack = self.chance(0.5)
        calls += [("basic.get", {"queue": queue, "no_ack": no_ack})] * self.random.randint(0, 2)
        return "burst", {"queue": queue, "no_ack": no_ack, "calls": calls}

    def get(self, key: Channel) -> Drawn:
        return "basic.get", {"queue": self.queue(), "no_ack": self.chance(0.4)}

    def consume(self, key: Channel) -> Drawn:
        queue = self.random.choice(ALL_QUEUES)
        if any(key == other for other, _ in self.state.consumers):
            return None
        if queue in self.state.consumers.values() and queue != SINGLE_ACTIVE:
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
                "x-match": self.random.choice(MATCHES),
                self.random.choice(("h", "h", "x-h")): self.random.choice(VALUES),
            }
        name = self.random.choice(("queue.bind", "queue.bind", "queue.unbind"))
        is_sorted = fields["queue"] in ("", *PRIORITIES) and fields["exchange"] == "x-history"
        return None if is_sorted else (name, fields)

    def exchange_bind(self, key: Channel) -> Drawn:
        # RabbitMQ fails (541) when an exchange that looks at keys is bound to one with a history.
        sources = [name for name in EXCHANGES if name != "x-history"]
        # A publish in a transaction would be kept there before its commit.
        ends = {"destination": self.random.choice(sources), "source": self.random.choice(sources)}
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
        if fields["exchange"] == "x-history" and "BCC" in odd.get("headers", {}):
            return None
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
