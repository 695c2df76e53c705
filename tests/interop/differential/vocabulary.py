"""What a walk has: queues, exchanges, policies, and the names and values that it uses, right and wrong."""

from __future__ import annotations

import struct
from typing import Any

PLUGINS = ("rabbitmq_management", "rabbitmq_recent_history_exchange", "rabbitmq_consistent_hash_exchange")
QUEUES = ("q1", "q2", "q3", "q4")
EXCHANGES = {
    "x-direct": "direct",
    "x-fanout": "fanout",
    "x-topic": "topic",
    "x-headers": "headers",
    "x-history": "x-recent-history",
    "x-hash": "x-consistent-hash",
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
#: Arguments of the quorum queues g1, g2 ...
QUORUM_FEATURES: tuple[dict[str, Any], ...] = (
    {"x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
    {"x-max-length": 2, "x-dead-letter-exchange": "x-direct"},
    {"x-single-active-consumer": True},
    {"x-max-length": 2, "x-queue-leader-locator": "balanced"},
    {"x-message-ttl": 600_000, "x-max-length-bytes": 5},
)
#: The letters of RabbitMQ's lazy queues have no "original-expiration".
LAZY = "f9"
FEATURE_QUEUES = tuple(f"f{number}" for number in range(1, len(FEATURES) + 1))
QUORUM_QUEUES = tuple(f"g{number}" for number in range(1, len(QUORUM_FEATURES) + 1))
ALL_QUEUES = QUEUES + FEATURE_QUEUES + QUORUM_QUEUES
PRIORITIES = ("f5", "f10")
#: Answers to this pseudo queue go to the channel that consumes from it.
REPLY_TO = "amq.rabbitmq.reply-to"
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
    {"pattern": "^g1$", "definition": {"delivery-limit": 1}},
    {"pattern": "^g3$", "definition": {"dead-letter-exchange": "", "dead-letter-routing-key": "q2"}},
    {"pattern": "^g4$", "definition": {"max-length": 1}},
)
#: The same for the operator's policies.
OPERATOR_POLICIES: tuple[dict[str, Any], ...] = (
    {"pattern": "^f1$", "definition": {"max-length": 1, "expires": 600_000}},
    {"pattern": "^q4$", "definition": {"max-length-bytes": 6}},
    {"pattern": "^[fg]5$", "definition": {"max-length": 3}},
    {"pattern": "^f7$", "definition": {"message-ttl": 0}},
    {"pattern": "^g1$", "definition": {"delivery-limit": 0}},
    {"pattern": "^q2$", "definition": {"max-length": 2}},
    {"pattern": "^q2$", "definition": {"max-length": 3, "message-ttl": 500_000}, "priority": 1},
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
#: Priorities of consumers; none is 0.
CONSUMER_PRIORITIES = (-1, 1, 1, 10)
#: Keys of bindings of a hash exchange.
WEIGHTS = ("1", "2", "10", "1", "0", "-1", "a", "")

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
    {"reply_to": REPLY_TO},
    {"exchange": "", "routing_key": REPLY_TO},
    {"exchange": "", "routing_key": REPLY_TO + ".nobody"},
)
ODD_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"x-queue-type": "classic"},
    {"x-queue-type": "quorum"},
    {"x-queue-type": "quorum", "x-max-priority": 3},
    {"x-delivery-limit": 2},
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
    ("basic.get", {"queue": REPLY_TO, "no_ack": True}),
    ("basic.consume", {"queue": REPLY_TO, "tag": "t3"}),
    ("queue.declare", {"queue": REPLY_TO, "passive": True}),
    ("queue.declare", {"queue": REPLY_TO}),
    ("queue.delete", {"queue": REPLY_TO}),
    ("queue.bind", {"queue": REPLY_TO, "exchange": "x-direct"}),
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
