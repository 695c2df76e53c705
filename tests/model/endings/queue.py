"""The model of one queue: its messages, its consumers, and what it was told."""

from __future__ import annotations

from typing import TypeAlias

from tests.model.endings.rules import Kind, Rules, Told, rules, target
from tests.model.endings.says import Death, Says

#: Of a message: its number and deaths.
Shown: TypeAlias = tuple[int, tuple[Death, ...]]
#: And how many like it were in its queue before.
Key: TypeAlias = tuple[int, tuple[Death, ...], int]
#: And of which life of which queue it was.
Origin: TypeAlias = tuple[str, int, tuple[Death, ...], int]


class Entry:
    """One message in one queue, or on its way to one."""

    def __init__(self, serial: int, body: bytes, says: Says, marks: set[str]) -> None:
        self.serial = serial
        self.body = body
        self.says = says
        #: How many of its like came to its queue before it. An earlier process may have sent the letter of a
        #: letter in a queue without a log, which cannot say of which message it was.
        self.copy = 0
        #: The features that took part in its life, also before it was a dead letter.
        self.marks = marks
        #: Its place in the queue: by priority, then by arrival.
        self.place = (0, 0)
        #: Its turn among all that its queue has given.
        self.turn = 0
        self.deadline_us: int | None = None
        self.redelivered = False
        #: How often it came back; and its place after each return to a quorum queue, as the log has it.
        self.returns = 0
        self.places: dict[int, tuple[int, int]] = {}
        self.logged = False
        #: The publisher was told, or everything was synced since: it must survive.
        self.safe = False
        #: It is settled; a crash may undo that.
        self.ended = False
        #: It may have been sent as a letter by an earlier process; and where in its log it is.
        self.is_old = False
        self.epoch = self.offset = 0
        #: It is over, but stays in the log until the removal of a queue is stored that would have its letter.
        self.may_stay = False
        #: The letters that were made of it: one, or none if it went nowhere.
        self.letters: list[tuple[ModelQueue, Entry]] = []
        #: What it was before it was a letter, and of which life of which queue.
        self.origin: Origin | None = None

    def __lt__(self, other: Entry) -> bool:
        return self.place < other.place

    @property
    def shown(self) -> Shown:
        """What a consumer can know it by."""
        return self.serial, self.says.deaths

    @property
    def key(self) -> Key:
        """No other message of a queue has it."""
        return self.serial, self.says.deaths, self.copy


class ModelConsumer:
    def __init__(self, queue: ModelQueue, tag: str, *, no_ack: bool, prefetch: int, timeout: int) -> None:
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.prefetch = prefetch
        #: Its own timeout in ms; 0 for none.
        self.timeout = timeout
        self.out = 0
        #: The turn of the last message that it was given.
        self.last_turn = 0

    def credit(self) -> int:
        if self.no_ack or not self.prefetch:
            return 1 << 30
        return max(self.prefetch - self.out, 0)


class ModelQueue:
    """What a queue must hold."""

    def __init__(self, kind: Kind, incarnation: str, arguments: Told, policy: Told, now_us: int) -> None:
        self.kind = kind
        self.name = kind.name
        self.incarnation = incarnation
        self.arguments = arguments
        self.policy = policy
        self.rules: Rules = rules(kind, arguments, policy)
        self.ready: list[Entry] = []
        self.out = 0
        self.consumers: list[ModelConsumer] = []
        #: Taken by consumers in this move; which one has which is seen later.
        self.given: list[Entry] = []
        #: What leaves with others that are dropped, whose letters come first: and why.
        self.later: list[tuple[Entry, str]] = []
        self.turns = 0
        #: How many came in this move, and how many came back.
        self.arrived = 0
        self.returned = 0
        #: In this move its consumers got something else than its head.
        self.is_out_of_order = False
        #: All messages that a crash may bring back.
        self.entries: dict[Key, Entry] = {}
        self.number = 0
        #: How many have ever come back.
        self.line = 0
        self.used_us = now_us
        self.deleted = False
        #: To the exchange that sends to all queues.
        self.is_bound = True
        self.was_declared = False
        self.was_removed = not kind.durable
        #: Letters that the log has, or has had, from before a crash: by what they were.
        self.letters: set[Origin] = set()

    def obey(self, policy: Told) -> None:
        self.policy = policy
        self.rules = rules(self.kind, self.arguments, policy)

    def in_force(self) -> set[str]:
        """The features of ``pairs`` that are rules of this queue."""
        found = self.rules
        features = {
            "TTL": found.ttl is not None,
            "priority": self.kind.priorities is not None,
            "max-length": found.is_limited,
            "overflow": found.is_limited and found.overflow != "drop-head",
            "delivery limit": found.returns is not None,
            "consumer timeout": found.timeout is not None,
            "dead-letter cycle": target(self.kind, found) == self.name,
        }
        return {feature for feature, is_told in features.items() if is_told}

    def credit(self) -> int:
        taken = len(self.given)
        if any(consumer.credit() >= 1 << 30 for consumer in self.consumers):
            return 1 << 30
        return sum(consumer.credit() for consumer in self.consumers) - taken

    def insert(self, entry: Entry) -> None:
        highest = self.kind.priorities
        level = 0 if highest is None else min(entry.says.priority or 0, highest)
        entry.place = (-level, self.number)
        self.number += 1
        self.ready.append(entry)
        if highest is not None:
            self.ready.sort()

    def recover(self, entry: Entry) -> None:
        """Add ``entry``, which the log gave back: what had returned keeps its order, before all others."""
        self.insert(entry)
        entry.place = entry.places.get(entry.returns, entry.place)
        self.line = max(self.line, *[number for _, number in entry.places.values()], 0)
        self.ready.sort()

    def serves_first(self) -> bool:
        """Whether its consumers get what comes back before it drops any, as those of a quorum queue do."""
        return self.kind.quorum and bool(self.consumers)

    def gathers(self) -> bool:
        """Whether letters of what it drops come before those of what leaves with that."""
        return self.kind.quorum and self.rules.exchange is not None and self.rules.is_limited

    def octets(self) -> int:
        return sum(len(entry.body) for entry in self.ready)

    def is_too_long(self, *, more: int = 0, octets: int = 0) -> bool:
        """Whether there are too many messages, with ``more`` of ``octets`` in all."""
        found = self.rules
        if found.length is not None and len(self.ready) + more > found.length:
            return True
        return found.octets is not None and self.octets() + octets > found.octets
