"""Confirmed publishers and checking consumers that outlive their broker, and the account of each message.

A message is ``<publisher>:<number>:<padding>``. The account of a queue knows which messages were published
to it persistently and confirmed (they must come out, until an acknowledgement of them is sent), which came
out, and which are settled for good (they must not come back).

A consumer learns that acknowledgements are settled for good from a confirm: it publishes to its own queue
after them, on the same channel, and the round of the sync that makes this message durable takes the settles
before it along. Such a message is one of publisher ``CONSUMER``.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.interop.wire import Received, Wire, encode_publish

Id = tuple[int, int]
#: The publisher that consumers are, each to its own queue.
CONSUMER = 1000


@dataclass
class Account:
    """What is known about one queue. ``must`` and ``seen`` hold (publisher, number)."""

    must: set[Id] = field(default_factory=set)
    seen: set[Id] = field(default_factory=set)
    #: An acknowledgement was sent; and it is durable.
    acked: set[Id] = field(default_factory=set)
    settled: set[Id] = field(default_factory=set)
    #: Settled for good, and came out once more.
    returned: list[Id] = field(default_factory=list)
    #: Published by its consumers.
    by_consumers: int = 0
    deliveries: int = 0
    redelivered: int = 0
    unflagged: list[Id] = field(default_factory=list)
    disordered: list[Id] = field(default_factory=list)

    @property
    def lost(self) -> set[Id]:
        """Confirmed, and never acknowledged, at the end; seen or not."""
        return self.must - self.acked

    def take(self, message: Id, redelivered: bool, last: dict[int, int]) -> None:
        """Enter a delivery; ``last`` is each publisher's highest number on this consumer's connection."""
        publisher, number = message
        self.deliveries += 1
        self.redelivered += redelivered
        if message in self.seen and not redelivered:
            self.unflagged.append(message)
        if message in self.settled:
            self.returned.append(message)
        if number <= last.get(publisher, -1):
            self.disordered.append(message)
        last[publisher] = number
        self.seen.add(message)


class Worker(threading.Thread):
    """Runs ``work`` on one connection until `finish`, or until the broker goes."""

    def __init__(self, port: int, work: Callable[[Worker, Wire], None]) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.work = work
        self.ending = threading.Event()
        #: Set when the broker is dead: what is sent from now on reaches nobody.
        self.bereft = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            wire = Wire(self.port)
        except (OSError, AssertionError):
            return
        try:
            self.work(self, wire)
        except (OSError, Gone):
            pass
        except BaseException as error:
            self.problem = error
        finally:
            wire.socket.close()

    def finish(self) -> None:
        """End, and raise what went wrong in the thread."""
        self.ending.set()
        self.join(60)
        if self.problem is not None:
            raise self.problem


class Gone(Exception):
    """The broker closed the connection."""


def next_of(wire: Wire, timeout: float) -> Received | None:
    received = wire.receive_within(timeout)
    if received is not None and received.name in ("eof", "reset"):
        raise Gone
    return received


class Publisher:
    """Publishes with confirms to ``exchange``, whose messages reach all of ``accounts``.

    It rests for ``pace_s`` seconds after each batch of at most ``window`` messages.
    """

    def __init__(
        self,
        number: int,
        exchange: str,
        key: str,
        accounts: list[Account],
        seed: int,
        *,
        window: int = 500,
        size_max: int = 2000,
        pace_s: float = 0.0,
    ) -> None:
        self.number = number
        self.exchange = exchange
        self.key = key
        self.accounts = accounts
        self.random = random.Random(seed)
        self.window = window
        self.size_max = size_max
        self.pace_s = pace_s
        self.published = 0
        self.confirmed = 0
        self.nacked = 0
        #: published when the broker went, never answered
        self.unknown = 0

    def work(self, worker: Worker, wire: Wire) -> None:
        wire.open_channel(1, confirm=True)
        tag = 0
        outstanding: dict[int, tuple[Id, bool]] = {}
        try:
            while not worker.ending.is_set() or outstanding:
                batch = bytearray()
                while len(outstanding) < self.window and len(batch) < 100_000 and not worker.ending.is_set():
                    tag += 1
                    persistent = self.random.random() > 0.1
                    outstanding[tag] = ((self.number, self.published), persistent)
                    batch += self.message(persistent)
                wire.send_bytes(bytes(batch))
                answer = next_of(wire, 0.05)
                while answer is not None:
                    self.settle(answer, outstanding)
                    answer = next_of(wire, 0.0001) if wire.buffer else None
                worker.ending.wait(self.pace_s)
        finally:
            self.unknown += len(outstanding)

    def message(self, persistent: bool) -> bytes:
        size = self.random.randrange(self.size_max)
        if self.random.random() < 0.002:
            size = 300_000
        body = b"%d:%d:%s" % (self.number, self.published, b"x" * size)
        self.published += 1
        return encode_publish(1, self.exchange, self.key, body, delivery_mode=2 if persistent else 1)

    def settle(self, answer: Received, outstanding: dict[int, tuple[Id, bool]]) -> None:
        if answer.name == "connection.close":
            raise Gone
        assert answer.name in ("basic.ack", "basic.nack"), f"a publisher got {answer}"
        first = next(iter(outstanding), 0)
        tags = range(first, answer.delivery_tag + 1) if answer.multiple else (answer.delivery_tag,)
        for tag in tags:
            if tag not in outstanding:
                assert answer.multiple, f"{answer} answers what is not outstanding"
                continue
            message, persistent = outstanding.pop(tag)
            if answer.name == "basic.nack":
                self.refused(message)
                continue
            self.confirmed += 1
            if persistent:
                self.kept(message)

    def refused(self, message: Id) -> None:
        """The broker did not take it."""
        self.nacked += 1

    def kept(self, message: Id) -> None:
        """It was persistent, and is confirmed."""
        for account in self.accounts:
            account.must.add(message)


class Consumer:
    """Consumes ``queue`` into ``account``; acks every ``ack_every`` with multiple.

    The first ``hold`` deliveries stay unacknowledged, for the next connection to get again; then the others
    are acked one by one. After ``mark_every`` acks it publishes, to learn that they are durable.
    """

    def __init__(
        self,
        queue: str,
        account: Account,
        *,
        ack_every: int = 10,
        prefetch: int = 200,
        hold: int = 0,
        mark_every: int = sys.maxsize,
    ) -> None:
        self.queue = queue
        self.account = account
        self.ack_every = ack_every
        self.prefetch = prefetch
        self.hold = hold
        self.mark_every = mark_every
        self.last_delivery = 0.0

    def work(self, worker: Worker, wire: Wire) -> None:
        wire.open_channel(1, confirm=True)
        wire.ok(1, "basic.qos", count=self.prefetch)
        wire.ok(1, "basic.consume", queue=self.queue)
        last: dict[int, int] = defaultdict(lambda: -1)
        account = self.account
        waiting: list[tuple[int, Id]] = []
        acked: set[Id] = set()
        #: What the unanswered publish of ours comes after.
        covered: set[Id] = set()
        held = 0
        while not worker.ending.is_set():
            message = next_of(wire, 0.1)
            if message is not None:
                if message.name == "connection.close":
                    return
                if message.name == "basic.ack":
                    account.must.add((CONSUMER, account.by_consumers - 1))
                    account.settled |= covered
                    covered = set()
                    continue
                assert message.name == "basic.deliver", f"a consumer got {message}"
                self.last_delivery = time.monotonic()
                publisher, number, _ = message.body.split(b":", 2)
                each = int(publisher), int(number)
                account.take(each, message.redelivered, last)
                if held < self.hold:
                    held += 1
                else:
                    waiting.append((message.delivery_tag, each))
            is_due = len(waiting) >= self.ack_every or (waiting and message is None)
            if is_due and not worker.bereft.is_set():
                done = [each for _, each in waiting]
                account.acked.update(done)
                acked.update(done)
                tags = [tag for tag, _ in waiting]
                for tag in tags if self.hold else tags[-1:]:
                    wire.send(1, "basic.ack", delivery_tag=tag, multiple=not self.hold)
                waiting = []
            if not covered and len(acked) >= self.mark_every:
                covered, acked = acked, set()
                body = b"%d:%d:" % (CONSUMER, account.by_consumers)
                account.by_consumers += 1
                wire.send_bytes(encode_publish(1, "", self.queue, body, delivery_mode=2))
