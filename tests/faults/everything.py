"""``make chaos ARGS=--everything``: kill -9 while every feature that decides about messages is in use.

`lanes` has the features. What must hold for each message that was persistent and confirmed, or committed:
it ends in one of the outcomes that its lane allows; a second outcome needs a crash after the first one, which
must not have been durable; what is delivered again says so; lanes that promise an order keep it; a
transaction that was rolled back leaves nothing; a queue that keeps its newest messages has just these.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.brokers import ROOT, Broker, RouterProcess
from tests.faults.lanes import (
    ACK,
    GRAVE,
    LANES,
    LENGTH,
    NUMBERS,
    QUEUES,
    RETURN,
    SINGLE,
    SLOW,
    TRANSACTED,
    TRANSACTION,
    UNREAD,
    Lane,
    decide,
    declare,
    outcome,
)
from tests.faults.load import Gone, Id, Publisher, Worker, next_of
from tests.interop.wire import Received, Wire, encode_publish

#: An acknowledgement that was sent so long before a kill is on disk: 200 ms, and a disk that others use.
SETTLED_S = 2.5
#: Seconds without any delivery after which the queues are looked at.
QUIET_S = 2.0
#: Seconds that it may take until all queues are empty.
DRAIN_S = 240.0


@dataclass
class Ending:
    """One outcome of a message: which, when it was acknowledged, and in which life of the broker."""

    what: str
    at: float
    life: int


@dataclass
class Ledger:
    """What is known about every message of all lanes. The lock is for the consumers' threads."""

    must: set[Id] = field(default_factory=set)
    never: set[Id] = field(default_factory=set)
    delivered: set[tuple[str, Id]] = field(default_factory=set)
    endings: dict[Id, list[Ending]] = field(default_factory=lambda: defaultdict(list))
    #: When each life of the broker ended, and what was published until then: by lane, the number of messages.
    ends: list[float] = field(default_factory=list)
    published: list[dict[int, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, queue: str, each: Id, redelivered: bool) -> None:
        """A delivery, whatever its consumer does with it."""
        with self.lock:
            lane = LANES[each[0]]
            if each in self.never:
                self.problems.append(f"{lane.name} {each} from {queue} was rolled back")
            again = (queue, each) in self.delivered
            if again and lane.flagged and queue != GRAVE and not redelivered:
                self.problems.append(f"{lane.name} {each} came again from {queue} without its flag")
            self.delivered.add((queue, each))

    def end(self, each: Id, what: str, life: int) -> None:
        """An acknowledgement that is about to be sent to the broker in its ``life``, which may be over."""
        with self.lock:
            for before in self.endings[each]:
                self.second(each, before, what, life)
            self.endings[each].append(Ending(what, time.monotonic(), life))

    def second(self, each: Id, before: Ending, what: str, life: int) -> None:
        name = LANES[each[0]].name
        if before.life == life and what != before.what and self.is_older(each, life):
            # The crash came between the letter's way into its queue and the end of the message in its own. So
            # both are there after it, and end in the same life.
            self.repeated[f"{before.what} and {what} in one life"] += 1
        elif before.life == life:
            self.problems.append(f"{name} {each}: {what} after {before.what}, without a crash between")
        elif before.at < self.ends[before.life] - SETTLED_S:
            held = self.ends[before.life] - before.at
            self.problems.append(f"{name} {each}: {what} after {before.what} {held:.1f} s before the crash")
        else:
            self.repeated[f"{before.what} and {what}" if before.what != what else what] += 1

    def is_older(self, each: Id, life: int) -> bool:
        """Whether a message was published before ``life`` of the broker began."""
        lane, number = each
        return life > 0 and number < self.published[life - 1].get(lane, 0)

    def misplaced(self) -> list[str]:
        """At the end: what was confirmed and has no outcome, or one that its lane does not allow."""
        found = []
        for each in sorted(self.must):
            lane = LANES[each[0]]
            whats = {ending.what for ending in self.endings.get(each, [])}
            if not whats:
                found.append(f"{lane.name} {each} is lost")
            elif not whats <= lane.outcomes:
                found.append(f"{lane.name} {each} ended as {', '.join(sorted(whats))}")
        return found


class LanePublisher(Publisher):
    """Publishes on one lane."""

    def __init__(self, lane: Lane, ledger: Ledger, seed: int) -> None:
        super().__init__(NUMBERS[lane.name], "", "", [], seed, window=40, size_max=600, pace_s=0.05)
        self.lane = lane
        self.ledger = ledger

    def message(self, persistent: bool) -> bytes:
        if self.lane.keeps_all:
            return self.encoded(self.random.choice((1, 2)))
        return self.encoded(2 if persistent or self.lane.persistent else 1)

    def encoded(self, mode: int) -> bytes:
        exchange, key, properties = self.lane.address(self.published, self.random)
        body = b"%d:%d:%s" % (self.number, self.published, b"x" * self.random.randrange(self.size_max))
        self.published += 1
        return encode_publish(1, exchange, key, body, delivery_mode=mode, **properties)

    def kept(self, message: Id) -> None:
        with self.ledger.lock:
            self.ledger.must.add(message)

    def settle(self, answer: Received, outstanding: dict[int, tuple[Id, bool]]) -> None:
        if self.lane.keeps_all or self.lane.persistent:
            outstanding.update({tag: (each, True) for tag, (each, _) in outstanding.items()})
        super().settle(answer, outstanding)


class Committer(LanePublisher):
    """Publishes in transactions, of which one in five is rolled back."""

    def work(self, worker: Worker, wire: Wire) -> None:
        wire.open_channel(1)
        wire.ok(1, "tx.select")
        while not worker.ending.is_set():
            first = self.published
            wire.send_bytes(b"".join(self.encoded(2) for _ in range(TRANSACTION)))
            these = {(self.number, number) for number in range(first, self.published)}
            rolls_back = self.random.random() < 0.2
            if rolls_back:
                with self.ledger.lock:
                    self.ledger.never |= these
            wire.send(1, "tx.rollback" if rolls_back else "tx.commit")
            answer = next_of(wire, 30)
            if answer is None or answer.name == "connection.close":
                raise Gone
            assert answer.name in ("tx.commit-ok", "tx.rollback-ok"), answer
            if not rolls_back:
                self.confirmed += TRANSACTION
                with self.ledger.lock:
                    self.ledger.must |= these
            worker.ending.wait(0.2)


class LaneConsumer:
    """Consumes a queue as `lanes.decide` says, and enters what it acknowledges."""

    def __init__(self, queue: str, ledger: Ledger, *, slow: bool) -> None:
        self.queue = queue
        self.ledger = ledger
        self.rest_s = 0.01 if slow else 0.0
        #: The life of the broker that it belongs to: a kill may come between a delivery and its entry.
        self.life = len(ledger.ends)
        self.last_delivery = 0.0

    def work(self, worker: Worker, wire: Wire) -> None:
        wire.open_channel(1)
        if self.queue in TRANSACTED:
            wire.ok(1, "tx.select")
        wire.ok(1, "basic.qos", count=20)
        wire.ok(1, "basic.consume", queue=self.queue)
        last: dict[int, int] = defaultdict(lambda: -1)
        taken = 0
        while not worker.ending.is_set():
            message = next_of(wire, 0.1)
            if message is not None and message.name == "connection.close":
                return
            if message is None or message.name == "tx.commit-ok" or worker.bereft.is_set():
                continue
            assert message.name == "basic.deliver", f"a consumer of {self.queue} got {message}"
            self.last_delivery = time.monotonic()
            self.one(wire, message, last)
            taken += 1
            if self.queue in TRANSACTED and taken % 10 == 0:
                wire.send(1, "tx.commit")
            worker.ending.wait(self.rest_s)

    def one(self, wire: Wire, message: Received, last: dict[int, int]) -> None:
        publisher, number = map(int, message.body.split(b":", 2)[:2])
        each = publisher, number
        self.ledger.take(self.queue, each, message.redelivered)
        if LANES[publisher].ordered and self.queue != GRAVE and number <= last[publisher]:
            self.ledger.problems.append(f"{each} from {self.queue} came after {last[publisher]}")
        last[publisher] = number
        act = decide(self.queue, number, message)
        if act == ACK:
            self.ledger.end(each, outcome(self.queue, message), self.life)
            wire.send(1, "basic.ack", delivery_tag=message.delivery_tag)
        else:
            wire.send(1, "basic.reject", delivery_tag=message.delivery_tag, requeue=act == RETURN)


class Everything:
    """Rounds of load and kill with all lanes on one broker; ``report`` says what came of it."""

    def __init__(self, broker: Broker, seed: int, tell: Callable[[str], None]) -> None:
        self.broker = broker
        self.random = random.Random(seed)
        self.tell = tell
        self.ledger = Ledger()
        self.publishers = [
            (Committer if lane.name == "transaction" else LanePublisher)(lane, self.ledger, seed + number)
            for number, lane in enumerate(LANES)
        ]
        self.problems: list[str] = []
        self.starts: list[float] = []

    def start(self) -> None:
        """Start, and see that all logs are intact."""
        started = time.monotonic()
        self.broker.start()
        self.starts.append(time.monotonic() - started)
        if isinstance(self.broker, RouterProcess):
            verify = [sys.executable, "-m", "amqp_router", "log", "verify"]
            command = [*verify, "--data-dir", str(self.broker.data_dir)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                self.problems.append(f"log verify after start {len(self.starts)}: {done.stdout[-2000:]}")

    def consumers(self, *, slow: bool) -> list[LaneConsumer]:
        names = [queue for queue in QUEUES if queue not in UNREAD]
        names += [queue for queue in names if queue in SINGLE]
        return [LaneConsumer(queue, self.ledger, slow=slow and queue in SLOW) for queue in names]

    def round(self, number: int) -> None:
        """Load for some seconds, kill; one time in five the next start is killed as well."""
        works = [publisher.work for publisher in self.publishers]
        workers = [Worker(self.broker.port, work) for work in works]
        workers += [Worker(self.broker.port, each.work) for each in self.consumers(slow=True)]
        for worker in workers:
            worker.start()
        time.sleep(self.random.choice((self.random.uniform(0.1, 1.0), self.random.uniform(2.0, 6.0))))
        self.broker.kill9()
        for worker in workers:
            worker.bereft.set()
        # An acknowledgement that is sent from here on reaches nobody: `bereft` was looked at before it.
        self.ledger.published.append({each.number: each.published for each in self.publishers})
        self.ledger.ends.append(time.monotonic())
        for worker in workers:
            worker.finish()
        if isinstance(self.broker, RouterProcess) and self.random.random() < 0.2:
            self.broker.launch()
            time.sleep(self.random.uniform(0, 0.8))
            self.broker.kill9()
        self.start()
        self.tell(f"round {number:3}: {self.summary()}; started in {self.starts[-1]:.2f} s")

    def drain(self) -> None:
        """Take all that is left, but what stays in the queue that keeps its newest messages."""
        consumers = self.consumers(slow=False)
        workers = [Worker(self.broker.port, each.work) for each in consumers]
        for worker in workers:
            worker.start()
        left = {"": 1}
        end = time.monotonic() + DRAIN_S
        with Wire(self.broker.port) as wire:
            wire.open_channel(1)
            while left or any(time.monotonic() - each.last_delivery < QUIET_S for each in consumers):
                time.sleep(0.2)
                counts = {queue: wire.ready(queue) for queue in QUEUES if queue != "newest"}
                left = {queue: count for queue, count in counts.items() if count}
                if time.monotonic() > end or any(not worker.is_alive() for worker in workers):
                    self.problems.append(f"the queues did not become empty: {left}")
                    break
            self.newest([message.body for message in wire.get_all("newest")])
        for worker in workers:
            worker.finish()

    def newest(self, bodies: list[bytes]) -> None:
        """The queue that drops the oldest without a letter: what is there and what was dropped."""
        lane = NUMBERS["newest"]
        numbers = [int(body.split(b":", 2)[1]) for body in bodies]
        confirmed = sorted(number for publisher, number in self.ledger.must if publisher == lane)
        if numbers != sorted(set(numbers)) or len(numbers) > LENGTH:
            self.problems.append(f"the newest are not in order: {numbers}")
        if len(numbers) < min(LENGTH, len(confirmed)):
            self.problems.append(f"of the newest {LENGTH} {len(numbers)} are there")
        dropped_to = min(numbers, default=0)
        for number in confirmed:
            if number < dropped_to or number in numbers:
                self.ledger.end((lane, number), "newest", len(self.ledger.ends))

    def summary(self) -> str:
        published = sum(publisher.published for publisher in self.publishers)
        return f"{published} published, {len(self.ledger.must)} confirmed and persistent"

    def found(self) -> list[str]:
        """All that is wrong."""
        log = ["a traceback in the log"] if "Traceback" in self.broker.log() else []
        return [*self.problems, *self.ledger.problems, *self.ledger.misplaced(), *log]

    def report(self) -> str:
        ledger = self.ledger
        of_must: Counter[str] = Counter()
        for each in ledger.must:
            of_must[ledger.endings[each][0].what if ledger.endings.get(each) else "lost"] += 1
        found = self.found()
        return "\n".join(
            [
                f"{len(ledger.ends)} times kill -9; {self.summary()},"
                f" {sum(publisher.nacked for publisher in self.publishers)} refused,"
                f" {sum(publisher.unknown for publisher in self.publishers)} unanswered,"
                f" {len(ledger.never)} rolled back",
                "what was confirmed ended as: "
                + ", ".join(f"{what} {count}" for what, count in sorted(of_must.items())),
                "again after a crash: "
                + (", ".join(f"{what} {count}" for what, count in sorted(ledger.repeated.items())) or "none"),
                f"start to serving: longest {max(self.starts):.2f} s",
                f"{len(found)} problems",
                *found[:40],
            ]
        )

    def run(self, rounds: int) -> bool:
        """All rounds and the drain; True if nothing is wrong."""
        self.start()
        with Wire(self.broker.port) as wire:
            wire.open_channel(1)
            declare(wire)
        for number in range(1, rounds + 1):
            self.round(number)
        self.drain()
        return not self.found()
