"""Moves while whatever else happens to both queues: each message is in one place."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.message import Message
from tests.nodes import Client, SimNode
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.vhosts.moving import OPTIONS, begun, fill, moved, tiny
from tests.vhosts.queues.local import Sink, declared, drained, numbers, text_of
from vhosts.moves import DONE, FAILED, Move
from vhosts.queues.queue import Queue


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


class Taker(Sink):
    """A consumer that says what it holds and what it has acknowledged."""

    def __init__(self, queue: Queue, credit: int) -> None:
        super().__init__(queue, credit)
        self.held: list[str] = []
        self.acked: list[str] = []
        self.has_requeued = False

    def deliver(self, message: Message) -> None:
        super().deliver(message)
        self.held.append(text_of(message))

    def settle_first(self, *, requeue: bool) -> None:
        if self.held:
            text = self.held.pop(0)
            if requeue:
                self.has_requeued = True
                self.requeue()
            else:
                self.acked.append(text)
                self.ack()


class World:
    """A move in the midst of random steps. The model: each of the ``sent`` messages is in one place."""

    def __init__(self, random: Random, disk: SimDisk | None = None) -> None:
        self.random = random
        self.node = node = SimNode(disk, log_options=OPTIONS)
        self.source, self.to = declared(node, "a"), declared(node, "b")
        self.sent = 0
        self.publish(random.randrange(1, 30))
        node.settle()
        self.taker = Taker(self.source, random.randrange(3))
        node.enter(self.source.add_consumer, self.taker)
        self.limit = random.choice([5, 1 << 60])
        self.most = min(self.limit, self.source.message_count())
        self.ended: list[Move] = []
        self.move = begun(node, self.source, self.to, self.limit, self.ended)

    def publish(self, count: int = 1) -> None:
        start = self.sent
        self.node.enter(lambda: fill(self.source, count, start=start))
        self.sent += count

    def step(self) -> None:
        node, random = self.node, self.random
        choice = random.randrange(14)
        if choice < 4:
            node.turn()
        elif choice < 6:
            node.work()
        elif choice < 8 and node.posted:
            node.hear()
        elif choice < 10:
            self.publish()
        elif choice == 10:
            node.enter(lambda: self.taker.settle_first(requeue=False))
        elif choice == 11:
            node.enter(lambda: self.taker.settle_first(requeue=True))
        elif choice == 12 and not random.randrange(4):
            self.to.obey({"max-length": random.randrange(1, 20), "overflow": "reject-publish"})
        elif choice == 13 and not random.randrange(8):
            node.enter(self.move.stop)


@pytest.mark.parametrize("seed", range(60))
def test_each_message_is_in_one_place(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    if random.randrange(3):
        tiny(monkeypatch)
    world = World(random)
    for _ in range(random.randrange(120)):
        world.step()
    world.node.settle()
    move, taker = world.move, world.taker
    assert world.ended == [move]
    assert move.is_over
    assert move.state != FAILED or move.reason == "queue 'b' in vhost '/' is full"
    assert move.state != DONE or move.moved <= world.most
    assert world.source.unacked_count == len(taker.held)
    came, left = drained(world.to), drained(world.source)
    assert len(came) == move.moved
    places = [*taker.acked, *taker.held, *came, *left]
    assert sorted(places, key=int) == numbers(*range(world.sent))
    if not taker.has_requeued:
        assert came == sorted(came, key=int)
    assert not world.node.faults
    assert world.node.budget.held == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_loses_none(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the power fails: each message is in the source or in the target, or in both."""
    tiny(monkeypatch)
    random = Random(seed)
    disk = SimDisk()
    world = World(random, disk)
    safe = world.sent
    disk.steps_left = random.randrange(60)
    with contextlib.suppress(PowerLoss):
        for _ in range(random.randrange(200)):
            world.step()
    disk.steps_left = -1
    disk.power_loss(random)
    node = SimNode(disk, world.node.definitions, boot=2, log_options=OPTIONS)
    left, came = drained(node.queue("a")), drained(node.queue("b"))
    assert set(numbers(*range(safe))) <= {*left, *came, *world.taker.acked}
    assert len(came) == len(set(came))
    assert len(left) == len(set(left))


def test_a_confirmed_publish_to_the_source_is_moved_once(node: SimNode) -> None:
    """Over AMQP: what a client published and got confirmed is what another one gets from the target."""
    source, to = declared(node, "a"), declared(node, "b")
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for number in range(5):
        client.publish(b"%d" % number, "a", properties=b"\x10\x00\x02")
    node.settle()
    assert moved(node, source, to).moved == 5
    client.take()
    client.send(m.BasicConsume(queue="b"))
    node.settle()
    assert [each.body for each in client.take() if isinstance(each.method, m.BasicDeliver)] == [
        b"%d" % number for number in range(5)
    ]
