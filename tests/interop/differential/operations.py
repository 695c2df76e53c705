"""What a walk does next."""

from __future__ import annotations

import random
from typing import Any

from tests.interop.differential.state import Channel, State, Step
from tests.interop.differential.vocabulary import (
    ALL_QUEUES,
    CONSUMER_PRIORITIES,
    EXCHANGES,
    FEATURE_QUEUES,
    KEYS,
    MATCHES,
    ODD_ARGUMENTS,
    ODD_CALLS,
    ODD_FRAMES,
    ODD_PUBLISHES,
    OPERATOR_POLICIES,
    PATTERNS,
    POLICIES,
    PRIORITIES,
    PROPERTIES,
    QUEUES,
    QUORUM_QUEUES,
    REPLY_TO,
    TAGS,
    VALUES,
    WEIGHTS,
)

#: A routing key that stands for the address in a message that asked for a direct reply: this and its body.
ADDRESS_IN = "address in "


class Operations:
    """Draws the next operation."""

    def __init__(self, seed: int | str, state: State) -> None:
        self.random = random.Random(seed)
        self.state = state
        self.bodies = 0
        #: The channel that asked for a direct reply, by the message's body.
        self.asked_by: dict[str, Channel] = {}
        self.weights = {
            self.publish: 60,
            self.get: 9,
            self.consume: 7,
            self.consume_replies: 1.5,
            self.ask: 6,
            self.reply: 8,
            self.bind_hash: 1,
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
            self.set_operator_policy: 0.8,
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
        if queue in QUORUM_QUEUES:
            return None  # RabbitMQ's answer to basic.get may overtake what was published before
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
        gets = self.random.randint(0, 2)
        calls += [("basic.get", {"queue": queue, "no_ack": no_ack})] * gets
        return "burst", {"queue": queue, "no_ack": no_ack, "calls": calls}

    def get(self, key: Channel) -> Drawn:
        return "basic.get", {"queue": self.queue(), "no_ack": self.chance(0.4)}

    def consume(self, key: Channel) -> Drawn:
        """A consumer, mostly beside others of its queue.

        All of a channel's consumers are of one queue: RabbitMQ's queues are processes, and whose delivery
        gets which tag is a race.
        """
        used = [queue for (other, _), queue in self.state.consumers.items() if other == key]
        used = [queue for queue in used if queue != REPLY_TO]
        others = [queue for queue in self.state.consumers.values() if queue != REPLY_TO]
        queue = self.random.choice(used or (others if others and self.chance(0.4) else ALL_QUEUES))
        busy = {self.state.sources[key, tag] for tag in self.state.unacked.get(key, [])}
        # RabbitMQ fails (541) when a tag is used again while messages of its last consumer are unsettled.
        free = [tag for tag in TAGS if (key, tag) not in self.state.consumers and (queue, tag) not in busy]
        if not free:
            return None
        fields: dict[str, Any] = {"queue": queue, "tag": self.random.choice(free)}
        fields |= {"no_ack": self.chance(0.3), "exclusive": self.chance(0.1), "nowait": self.chance(0.1)}
        if self.chance(0.3):
            fields["arguments"] = {"x-priority": self.random.choice(CONSUMER_PRIORITIES)}
        return "basic.consume", fields

    def consume_replies(self, key: Channel) -> Drawn:
        fields = {"no_ack": self.chance(0.95), "exclusive": self.chance(0.1)}
        return "basic.consume", {"queue": REPLY_TO, "tag": self.random.choice(TAGS), **fields}

    def ask(self, key: Channel) -> Drawn:
        if REPLY_TO not in [queue for (other, _), queue in self.state.consumers.items() if other == key]:
            return None
        drawn = self.publish(key)
        assert drawn is not None
        self.asked_by[drawn[1]["body"]] = key
        return "publish", {**drawn[1], "reply_to": REPLY_TO}

    def reply(self, key: Channel) -> Drawn:
        """To one that asked and may have gone; or look whether it is still there."""
        if not self.state.asking:
            return None
        body = self.random.choice(self.state.asking)
        address = ADDRESS_IN + body
        # That of the channel itself would be answered by 541, and end the walk's connection.
        if self.chance(0.1) and (self.asked_by.get(body, key) != key or self.chance(0.05)):
            return "queue.declare", {"queue": address, "passive": True}
        drawn = self.publish(key)
        assert drawn is not None
        return "publish", {**drawn[1], "exchange": "", "routing_key": address}

    def bind_hash(self, key: Channel) -> Drawn:
        """Bind one queue to the hash exchange, or unbind it: which of several gets a message differs."""
        if self.state.hashed is not None:
            queue, routing_key = self.state.hashed
            if self.chance(0.5):
                return None
            return "queue.unbind", {"queue": queue, "exchange": "x-hash", "routing_key": routing_key}
        fields = {"queue": self.random.choice(ALL_QUEUES), "routing_key": self.random.choice(WEIGHTS)}
        return "queue.bind", {**fields, "exchange": "x-hash"}

    def cancel(self, key: Channel) -> Drawn:
        return "basic.cancel", {"tag": self.random.choice(TAGS), "nowait": self.chance(0.1)}

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
        settled = [t for t in unacked if t == tag or (multiple and (t < tag or tag == 0))]
        if fields.get("requeue") and not self.state.has_one_order(key, settled):
            return None
        self.state.unacked[key] = [t for t in unacked if t not in settled]
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
        if not self.state.has_one_order(key, self.state.unacked.get(key, [])):
            return None
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
        is_hashed = fields["exchange"] == "x-hash"
        # Letters for a full queue that refuses are sent again later here.
        is_refusing = fields["queue"] in ("", "f2") and fields["exchange"] in EXCHANGES
        return None if is_sorted or is_hashed or is_refusing else (name, fields)

    def exchange_bind(self, key: Channel) -> Drawn:
        # RabbitMQ fails (541) when an exchange that looks at keys is bound to one with a history.
        sources = [name for name in EXCHANGES if name not in ("x-history", "x-hash")]
        # A publish in a transaction would be kept there before its commit.
        ends = {
            "destination": self.random.choice((*sources, "x-hash")),
            "source": self.random.choice(sources),
        }
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
        queue = self.queue()
        if queue in ("", *QUORUM_QUEUES):
            return "queue.delete", {"queue": queue}  # RabbitMQ refuses both conditions there
        return "queue.delete", {
            "queue": queue,
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

    def set_operator_policy(self, key: Channel) -> Drawn:
        number = self.random.randrange(len(OPERATOR_POLICIES))
        policy = OPERATOR_POLICIES[number] if self.chance(0.6) else None
        return "policy", {"name": f"o{number}", "policy": policy, "kind": "operator-policies"}

    def expire(self, key: Channel) -> Drawn:
        # RabbitMQ looks every five seconds at the time of its quorum queues.
        return "expire", {"queue": self.random.choice((*QUEUES, *FEATURE_QUEUES))}

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
            queues = QUORUM_QUEUES if arguments == {"x-queue-type": "quorum"} else (*QUEUES, "amq.q")
            fields = {"queue": self.random.choice(queues), "durable": self.chance(0.5)}
            return "queue.declare", {**fields, "arguments": arguments, "passive": self.chance(0.3)}
        name = self.random.choice((*EXCHANGES, "", "amq.direct", "amq.x"))
        kind = self.random.choice(
            ("direct", "direct", "topic", "nope", "x-recent-history", "x-consistent-hash")
        )
        fields = {"exchange": name, "type": kind, "durable": self.chance(0.5), "passive": self.chance(0.3)}
        return "exchange.declare", {**fields, "arguments": arguments}

    def call_oddly(self, key: Channel) -> Drawn:
        if self.chance(0.2):
            consumers = self.state.consumers.items()
            used = [tag for (other, tag), queue in consumers if other == key and queue != REPLY_TO]
            return ("basic.consume", {"queue": "q1", "tag": used[0]}) if used else None
        return self.random.choice(ODD_CALLS)

    def send_frame(self, key: Channel) -> Drawn:
        kind, payload = self.random.choice(ODD_FRAMES)
        return "frame", {"kind": kind, "payload": payload}

    def close_channel(self, key: Channel) -> Drawn:
        return "channel.close", {"code": 200}

    def close_connection(self, key: Channel) -> Drawn:
        used = {(other, queue) for (other, _), queue in self.state.consumers.items() if other[0] == key[0]}
        if len({queue for _, queue in used}) < len(used):
            return None  # which of two channels goes first, and what the other then gets, is a race
        self.state.close(lambda other: other[0] == key[0])
        return "close", {}
