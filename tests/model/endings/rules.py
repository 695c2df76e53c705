"""The queues of the walk, what they may be told, and what comes of arguments and policies together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True)
class Kind:
    """What a queue is for its whole life."""

    name: str
    durable: bool = True
    quorum: bool = False
    #: The highest priority; None for a queue without priorities.
    priorities: int | None = None
    #: It may expire itself.
    is_mortal: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("c"),
        Kind("p", priorities=3),
        Kind("q", quorum=True),
        Kind("t", durable=False),
        Kind("x", durable=False, is_mortal=True),
    )
}

#: Where letters of a queue often go. So what only one kind of queue has meets what only another one has:
#: priorities and delivery limits, delivery limits and page files; and some queues are their own target.
LIKELY = {"c": ("c",), "p": ("q", "q", "p"), "q": ("p", "p", "t", "q")}

#: Told by number, in an argument or a policy; the smallest one counts.
NUMBERS = ("message-ttl", "expires", "max-length", "max-length-bytes", "consumer-timeout", "delivery-limit")
#: Told by text; the argument counts before the policy.
TEXTS = ("overflow", "dead-letter-exchange", "dead-letter-routing-key")

Told = Mapping[str, Any]


@dataclass(frozen=True)
class Rules:
    """What a queue must obey. Times are in ms; None: no rule."""

    ttl: int | None = None
    expires: int | None = None
    length: int | None = None
    octets: int | None = None
    timeout: int | None = None
    returns: int | None = None
    overflow: str = "drop-head"
    exchange: str | None = None
    key: str | None = None

    @property
    def is_limited(self) -> bool:
        return self.length is not None or self.octets is not None


def rules(kind: Kind, arguments: Told, policy: Told) -> Rules:
    """Semantics 2.12 of RabbitMQ as measured: the smaller number, and the argument's text."""
    told: dict[str, Any] = {}
    for key in NUMBERS:
        values = [each[key] for each in (arguments, policy) if key in each]
        told[key] = min(values) if values else None
    for key in TEXTS:
        told[key] = arguments.get(key, policy.get(key))
    return Rules(
        told["message-ttl"],
        told["expires"],
        told["max-length"],
        told["max-length-bytes"],
        told["consumer-timeout"] or None,
        told["delivery-limit"] if kind.quorum else None,
        told["overflow"] or "drop-head",
        told["dead-letter-exchange"],
        told["dead-letter-routing-key"],
    )


def target(kind: Kind, found: Rules) -> str | None:
    """The queue to which the letters of a queue go. Without a key of their own they come back to it."""
    if found.exchange != "":  # also without one
        return None
    return kind.name if found.key is None else found.key


def goes_round(name: str, found: Mapping[str, Rules]) -> bool:
    """Whether letters of a queue come back to it, if the queues obey ``found``."""
    into: str | None = name
    for _ in KINDS:
        into = target(KINDS[into], found[into]) if into in found else None
        if into == name:
            return True
    return False


def refuses(told: Told) -> bool:
    """Whether a queue that is told so may refuse messages."""
    return str(told.get("overflow", "")).startswith("reject")


def choose(
    random: Random, kind: Kind, targets: list[str | None], *, is_policy: bool, may_refuse: bool
) -> dict[str, Any]:
    """Random arguments or a random policy for a queue; its letters go to one of ``targets``."""
    told: dict[str, Any] = {}
    if random.random() < 0.5:
        # In no two queues do messages expire at the same time: which of them is first would be open.
        told["message-ttl"] = random.choice((300, 700, 1500, 2500)) + ord(kind.name)
    # A queue with priorities that is limited must not get its own letters (``choices.choose_for``).
    is_often_limited = kind.priorities is None
    if random.random() < (0.5 if is_often_limited else 0.3):
        told["max-length"] = random.choice((0, 1, 2, 3, 5))
    if random.random() < (0.2 if is_often_limited else 0.1):
        told["max-length-bytes"] = random.choice((30, 100, 400))
    if "max-length" in told or "max-length-bytes" in told:
        modes = ["drop-head", "drop-head"]
        if may_refuse:
            modes += ["reject-publish", "reject-publish-dlx"]
        told["overflow"] = random.choice(modes)
        if is_policy and random.random() < 0.3:
            del told["overflow"]
    if random.random() < (0.5 if kind.quorum else 0.3):
        told["consumer-timeout"] = random.choice((400, 900))
    if kind.quorum and random.random() < 0.8:
        told["delivery-limit"] = random.choice((0, 0, 1, 1, 2))
    if refuses(told):
        targets = [each for each in targets if each not in (kind.name, None)]
    if targets and random.random() < 0.8:
        name = random.choice(targets)
        likely = [each for each in LIKELY.get(kind.name, ()) if each in targets]
        if likely and random.random() < 0.7:
            name = random.choice(likely)
        told["dead-letter-exchange"] = "" if name is not None or random.random() < 0.8 else "nobody's"
        if name is not None:
            told["dead-letter-routing-key"] = name
    if kind.is_mortal:
        told["expires"] = random.choice((600, 1100))
    return told
