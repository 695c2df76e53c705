"""The effective settings of a queue: its arguments and policies, put together.

A number that several of them set counts with its smallest value; everything else is the argument's before the
policy's. A queue gets them as one object, at first and whenever one of them changes (``Queue.apply``), and
copies what its hot path reads into plain slots.

Source: RabbitMQ, "Policies"; the precedence of arguments as measured with 3.10.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amqp_router.protocol.kept_table import Arguments
from vhosts.policies import Definition, is_integer

#: The key of a policy for each argument of a queue, and the field of ``QueueSettings``.
_NUMBERS = {
    "message-ttl": "message_ttl_ms",
    "expires": "expires_ms",
    "max-length": "max_length",
    "max-length-bytes": "max_length_bytes",
    "consumer-timeout": "consumer_timeout_ms",
}
#: As ``_NUMBERS``, obeyed by quorum queues only. A negative number sets no limit.
_OF_QUORUM = {"delivery-limit": "delivery_limit"}
_TEXTS = {
    "overflow": "overflow",
    "dead-letter-exchange": "dead_letter_exchange",
    "dead-letter-routing-key": "dead_letter_routing_key",
}
#: What only an argument can set.
_ARGUMENTS = {
    "max-priority": "max_priority",
    "single-active-consumer": "single_active_consumer",
}
#: All of them; the argument has "x-" before it.
KEYS = frozenset(_NUMBERS) | frozenset(_OF_QUORUM) | frozenset(_TEXTS) | frozenset(_ARGUMENTS)


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What a queue obeys. None: not set."""

    #: Longest time that a message waits, in ms; 0: it is delivered at once or not at all.
    message_ttl_ms: int | None = None
    #: The queue is deleted when it was not used for so many ms.
    expires_ms: int | None = None
    #: Longest queue, in messages and in octets of their bodies, ready ones only.
    max_length: int | None = None
    max_length_bytes: int | None = None
    #: "drop-head", "reject-publish" or "reject-publish-dlx".
    overflow: str = "drop-head"
    #: Where messages go that expire, are rejected or are too many; with the key they had if there is none
    #: here.
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    #: Highest priority of a message; 0: messages come in the order in which they were published.
    max_priority: int = 0
    #: Only one of the consumers gets messages.
    single_active_consumer: bool = False
    #: Longest time that a delivery may be unacknowledged, in ms; 0: as None.
    consumer_timeout_ms: int | None = None
    #: The queue is a quorum queue: every message is logged, and consumers see how often it came back.
    is_quorum: bool = False
    #: How often a message of a quorum queue may come back to it.
    delivery_limit: int | None = None
    #: It is the internal queue of a delayed-message exchange; neither arguments nor policies say so.
    is_delayed: bool = False


#: Of a queue without arguments and policies.
NO_SETTINGS = QueueSettings()


def effective_settings(arguments: Arguments, *policies: Definition) -> QueueSettings:
    """The settings by the queue's typed ``arguments`` and by ``policies``, the most important one first.

    A policy has RabbitMQ's keys ("message-ttl") and values as in JSON. Both are checked already, but for the
    arguments x-consumer-timeout and x-delivery-limit: RabbitMQ takes any value, and one that is no number has
    no effect.
    """
    if not arguments and not any(policies):
        return NO_SETTINGS
    found: dict[str, Any] = {}  # each field of QueueSettings has a type of its own
    numbers = _NUMBERS
    if queue_type(arguments) == "quorum":
        found["is_quorum"] = True
        numbers = {**_NUMBERS, **_OF_QUORUM}
    for key, field in numbers.items():
        given = [limit for policy in policies if is_integer(limit := policy.get(key))]
        argument = arguments.get(f"x-{key}")
        if argument is not None and is_integer(argument[1]):
            given.append(argument[1])
        given = [number for number in given if number >= 0]
        if given:
            found[field] = min(given)
    for key, field in _TEXTS.items():
        argument = arguments.get(f"x-{key}")
        if argument is not None:
            found[field] = argument[1].decode("utf-8", "surrogateescape")
        else:
            found |= next(({field: policy[key]} for policy in policies if key in policy), {})
    for key, field in _ARGUMENTS.items():
        argument = arguments.get(f"x-{key}")
        if argument is not None:
            found[field] = argument[1]
    return QueueSettings(**found) if found else NO_SETTINGS


def queue_type(arguments: Arguments) -> str:
    """The type of a queue with these arguments: classic, quorum or stream."""
    given = arguments.get("x-queue-type")
    return "classic" if given is None else given[1].decode("utf-8", "surrogateescape")
