"""Three nodes in one process, made of the product's own ``NodeCore``, that crash and start again.

Each node has its disk, its definitions and its clients; one clock goes on for all. They do not replicate yet:
what is published to a node is that node's alone. ``run`` plays a schedule of ``PUBLISHES`` messages from a
seed. After each start of a node, and at the end:

- a message that was confirmed and not acknowledged is there;
- what is there was published to this queue of this node, in the order of publishing, and is not what was
  acknowledged before a clean stop;
- the registry has a leader for each durable queue: this node, this boot, in a later epoch than before.

More schedules than the tests play: ``python -m tests.model.three_nodes FIRST LAST [--jobs N]``
(``schedules.py``). It also says how many it plays in a second.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Any, TypeVar

from amqp_router.cluster.ports import Create, Done, Entry, Outcome, QueueState, Replace, Unknown
from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import methods as m
from tests.model import schedules
from tests.nodes import PERSISTENT, Client, SimDefinitions, SimNode, before_body
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.sizes import OPTIONS
from tests.persistence.log.support import ManualClock

T = TypeVar("T")

PUBLISHES = 150
NAMES = ("a", "b", "c")
QUEUES = ("d", "e")
#: What clients send often, encoded once: the method of a publish to a queue, and consuming from all queues.
PUBLISH = {queue: m.frame(1, m.BasicPublish("", queue)) for queue in QUEUES}
CONFIRM = m.frame(1, m.ConfirmSelect())
CONSUME = m.frame(1, m.BasicQos(prefetch_count=10)) + b"".join(
    [m.frame(1, m.BasicConsume(queue, consumer_tag=queue)) for queue in QUEUES]
)


@lru_cache(maxsize=256)
def ack_up_to(tag: int) -> bytes:
    """The frame that acknowledges all deliveries up to this one."""
    return m.frame(1, m.BasicAck(tag, multiple=True))


def choose(random: Random, options: Sequence[T]) -> T:
    """As ``random.choice``, in one call."""
    count = len(options)
    bits = count.bit_length()
    number = random.getrandbits(bits)
    while number >= count:
        number = random.getrandbits(bits)
    return options[number]


class Host:
    """A machine that runs a node, or does not for now; and what clients know of its messages."""

    def __init__(self, name: str, now: float, moves: Counter[str]) -> None:
        self.name = name
        #: What each of its messages begins with.
        self.encoded_name = name.encode()
        self.moves = moves
        self.disk = SimDisk()
        self.definitions = SimDefinitions()
        self.boot = 0
        self.is_up = False
        self.serial = 0
        #: By queue: serials published, confirmed, acknowledged, and acknowledged before a clean stop.
        self.published: dict[str, set[int]] = {queue: set() for queue in QUEUES}
        self.confirmed: dict[str, set[int]] = {queue: set() for queue in QUEUES}
        self.acked: dict[str, set[int]] = {queue: set() for queue in QUEUES}
        self.gone: dict[str, set[int]] = {queue: set() for queue in QUEUES}
        self.epochs: dict[str, int] = {}
        self.start(now)
        for queue in QUEUES:
            self.client.declare(queue, durable=True)
        self._consume()

    # -- clients ---------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self.client = Client(self.node).open(1)
        self.client.answer(CONFIRM, m.ConfirmSelectOk)
        #: Publishes without an answer, by sequence number; deliveries without an ack, by delivery tag.
        self.unanswered: dict[int, tuple[str, int]] = {}
        self.sequence = 0
        self.out: dict[int, tuple[str, int]] = {}

    def _consume(self) -> None:
        self.client.feed(CONSUME)
        self.absorb()

    def publish(self, queue: str, count: int, size: int) -> None:
        frames = []
        method = PUBLISH[queue]
        name = self.encoded_name
        serials = range(self.serial + 1, self.serial + 1 + count)
        for serial in serials:
            self.sequence += 1
            self.unanswered[self.sequence] = queue, serial
            body = (b"%b:%d:" % (name, serial)).ljust(size, b"x")
            frames += [before_body(method, 1, PERSISTENT, len(body)), body, b"\xce"]
        self.serial += count
        self.published[queue].update(serials)
        self.client.feed(b"".join(frames))
        self.absorb()

    def ack(self, random: Random) -> None:
        """Acknowledge some of what was delivered, from the oldest on."""
        if self.out:
            tag = choose(random, [*self.out])
            for each in [each for each in self.out if each <= tag]:
                queue, serial = self.out.pop(each)
                self.acked[queue].add(serial)
            self.client.feed(ack_up_to(tag))
            self.absorb()

    def absorb(self) -> None:
        """Let the loop come to rest and hear what left it."""
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        for received in self.client.take():
            method = received.method
            if isinstance(method, m.BasicDeliver):
                self.out[method.delivery_tag] = method.consumer_tag, self._serial(received.body)
            elif isinstance(method, m.BasicAck):
                tag = method.delivery_tag
                done = [n for n in self.unanswered if n == tag or (method.multiple and n < tag)]
                assert done, f"{method} answers nothing"
                for number in done:
                    queue, serial = self.unanswered.pop(number)
                    self.confirmed[queue].add(serial)
                    self.moves["(confirmed)"] += 1
            else:
                assert isinstance(method, (m.BasicQosOk, m.BasicConsumeOk)), received

    def _serial(self, body: bytes) -> int:
        name, serial, _ = body.split(b":")  # what follows has no colon
        assert name == self.encoded_name, f"a message of node {name.decode()} at node {self.name}"
        return int(serial)

    # -- ends and starts -------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Start the node and compare what it recovered with what it must, may and must not have."""
        self.boot += 1
        self.is_up = True
        self.node = SimNode(
            self.disk,
            self.definitions,
            name=self.name,
            boot=self.boot,
            log_options=OPTIONS,
            clock=ManualClock(now),
        )
        self._connect()
        session = Create(f"/{self.name}", str(self.boot).encode(), ephemeral=True)
        assert self._ask(self.node.core.registry.write, [session]) == Done()
        if self.boot > 1:
            assert set(self.node.vhost.queues) == set(QUEUES), "declare-ok was answered"
            for queue in QUEUES:
                self.compare(queue)
            self.look_at_registry()
            self._consume()

    def compare(self, queue: str) -> None:
        """See whether the log of ``queue`` holds what it must, may and must not hold."""
        log: Any = self.node.queue(queue).log
        messages, _ = log.read(0, log.end, 1 << 20, 1 << 30)
        found = [self._serial(message.body()) for message in messages]
        serials = set(found)
        where = f"queue {queue} of node {self.name}"
        lost = self.confirmed[queue] - self.acked[queue] - serials
        assert not lost, f"{where}: {lost} confirmed and lost"
        assert found == sorted(serials), f"{where}: the order is lost"
        assert self.published[queue] >= serials, f"{where}: never published"
        assert self.gone[queue].isdisjoint(serials), f"{where}: acknowledged before a clean stop, and back"
        # What a crash took cannot come back; what it left, is durable from here on.
        self.published[queue] = serials
        self.confirmed[queue] = serials.copy()
        self.acked[queue] = set()

    def look_at_registry(self) -> None:
        """Each durable queue is led here, in this boot, and in a later epoch than ever before."""
        registry, identity = self.node.core.registry, self.node.core.identity
        names = self._ask(registry.children, "/queues")
        queues = {self.node.queue(queue).incarnation: self.node.queue(queue) for queue in QUEUES}
        assert names == sorted(queues)
        for incarnation in names:
            entry = self._ask(registry.read, f"/queues/{incarnation}")
            state = QueueState.decode(entry.data)
            assert (state.leader, state.leader_boot) == (identity.name, identity.boot_id)
            assert state.epoch == queues[incarnation].log.epoch > self.epochs.get(incarnation, 0)
            self.epochs[incarnation] = state.epoch

    def write_blindly(self, random: Random) -> None:
        """A write to the registry whose answer is lost: who reads knows whether it has happened."""
        registry = self.node.core.registry
        path = f"/queues/{self.node.queue(choose(random, QUEUES)).incarnation}"
        entry: Entry = self._ask(registry.read, path)
        applied = random.random() < 0.5
        registry.lose_answer(applied=applied)
        write = Replace(path, entry.data, entry.version)
        outcome: Outcome = self._ask(registry.write, [write])
        assert isinstance(outcome, Unknown)
        assert self._ask(registry.read, path) == Entry(entry.data, entry.version + applied)

    def _ask(self, ask: Callable[[Any, Callable[[Any], None]], None], what: Any) -> Any:
        answers: list[Any] = []
        ask(what, answers.append)
        assert not answers, "answered before the call has returned"
        while not answers:
            self.node.hear()
        self.absorb()
        return answers[0]

    def stop(self) -> None:
        """A clean stop."""
        self.client.drop()
        self.client.machine.state = ConnectionState.CLOSED
        registry = self.node.core.registry
        assert self._ask(registry.children, "/") == [self.name, "queues"]
        self.node.stop()
        assert isinstance(self._ask(registry.children, "/"), Unknown), "its session has ended"
        assert registry.get(f"/{self.name}") is None
        self.client.wire.clear()
        self.is_up = False
        for queue in QUEUES:
            self.gone[queue] |= self.acked[queue]

    def kill(self) -> None:
        """The process dies; the disk does not notice."""
        self.definitions.lose()
        self.disk.forget_files()
        self.client.wire.clear()
        self.is_up = False

    def crash(self, seed: int, steps: int) -> None:
        """The power fails, after so many operations of the disk at the latest."""
        self.disk.steps_left = steps
        with contextlib.suppress(PowerLoss):
            self.node.settle()
        self.definitions.lose()
        self.disk.power_loss(Random(seed))
        self.client.wire.clear()
        self.is_up = False


class Hosts:
    """The nodes, and the clock."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.moves: Counter[str] = Counter()
        self.now = 1000.0
        self.hosts = [Host(name, self.now, self.moves) for name in NAMES]

    def sleep(self, seconds: float) -> None:
        """Time goes by on all nodes."""
        self.now += seconds
        for host in self.hosts:
            if host.is_up:
                host.node.sleep(seconds)
                host.absorb()

    def step(self, left: int) -> int:
        """One random move; returns how many messages of ``left`` it published."""
        random = self.random
        host = choose(random, self.hosts)
        choice = random.random()
        if not host.is_up:
            self._count("start")
            host.start(self.now)
        elif choice < 0.40:
            self._count("publish")
            count = min(choose(random, (1, 2, 5, 9)), left)
            host.publish(choose(random, QUEUES), count, choose(random, (10, 60, 200)))
            return count
        elif choice < 0.55:
            self._count("ack")
            host.ack(random)
        elif choice < 0.73:
            self._count("work")
            host.node.work()
        elif choice < 0.88:
            if host.node.posted:
                self._count("hear")
                host.node.hear()
                host.absorb()
        elif choice < 0.94:
            self._count("time passes")
            self.sleep(choose(random, (0.05, 0.3, 1.5)))
        elif choice < 0.95:
            self._count("the registry's answer is lost")
            host.write_blindly(random)
        else:
            self._end(host)
        return 0

    def _end(self, host: Host) -> None:
        random = self.random
        choice = random.random()
        if choice < 0.25:
            self._count("clean stop")
            host.stop()
        elif choice < 0.5:
            self._count("kill -9")
            host.kill()
        else:
            self._count("power fails")
            host.crash(random.randrange(1 << 30), random.randrange(20))

    def finish(self) -> None:
        """All nodes come to rest, and one starts once more."""
        for host in self.hosts:
            if not host.is_up:
                host.start(self.now)
            host.node.settle()
            host.absorb()
            assert not host.unanswered, f"no confirm for {host.unanswered}"
            for queue in QUEUES:
                host.compare(queue)
        host = choose(self.random, self.hosts)
        host.stop()
        host.start(self.now)
        for host in self.hosts:
            host.client.wire.clear()
            host.disk.scrap()

    def _count(self, move: str) -> None:
        self.moves[f"three nodes: {move}"] += 1


def run(seed: int, publishes: int = PUBLISHES) -> Counter[str]:
    """Play one schedule; returns the histogram of its moves."""
    hosts = Hosts(seed)
    while publishes:
        publishes -= hosts.step(publishes)
    hosts.finish()
    return hosts.moves


if __name__ == "__main__":
    sys.exit(schedules.main(run, f"schedules of {PUBLISHES} publishes"))
