"""A queue in use that gets mirrors, and loses them again: what is out, waits or is not confirmed then."""

from __future__ import annotations

from random import Random

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.flags import LOGGED
from persistence.log.queue.queue_log import QueueLog
from persistence.log.replica.follower import Follower
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode
from tests.vhosts.queues.local import declared
from vhosts.queues.queue import Queue


def client_of(node: SimNode) -> Client:
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    return client


class Walk:
    """Random moves of a publisher and a consumer, of the high watermark, and of the switch; and crashes."""

    def __init__(self, seed: int, *, highest: int = 0) -> None:
        self.random = Random(seed)
        self.node = SimNode()
        self.highest = highest
        self.client = client_of(self.node)
        arguments = {"x-max-priority": ("l", highest)} if highest else {}
        self.client.declare("q", durable=True, arguments=arguments)
        #: By serial: its offset, if the log has it.
        self.offsets: dict[int, int] = {}
        self.published = 0
        #: The publish number 1 of this connection has this serial.
        self.first = 1
        self.confirmed: set[int] = set()
        self.came: set[int] = set()
        self.acked: set[int] = set()
        #: Tags that are out.
        self.out: dict[int, int] = {}

    @property
    def queue(self) -> Queue:
        return self.node.queue("q")

    @property
    def log(self) -> QueueLog:
        log = self.queue.log
        assert log is not None
        return log

    def publish(self) -> None:
        self.published += 1
        transient = self.random.random() < 0.3
        end = self.queue.receipts.end
        properties = b"\x18\x00" + bytes([1 if transient else 2, self.random.randint(0, self.highest)])
        self.client.publish(b"%d" % self.published, "q", properties=properties)
        if self.queue.receipts.end != end:
            self.offsets[self.published] = self.queue.receipts.end - 1
        assert (self.published in self.offsets) == (not transient or self.queue.logs_all)
        self.hear()

    def consume(self) -> None:
        if not self.queue.consumers:
            self.client.send(m.BasicQos(prefetch_count=3), m.BasicConsume("q", consumer_tag="c"))
            self.hear()

    def cancel(self) -> None:
        if self.queue.consumers:
            self.client.send(m.BasicCancel("c"))
            self.hear()

    def get(self) -> None:
        self.client.send(m.BasicGet("q"))
        self.hear()

    def settle(self) -> None:
        if self.out:
            tag = self.random.choice([*self.out])
            serial = self.out.pop(tag)
            if self.random.random() < 0.5:
                self.client.send(m.BasicNack(tag, requeue=True))
            else:
                self.acked.add(serial)
                self.client.send(m.BasicAck(tag))
            self.hear()

    def sync(self) -> None:
        self.node.sync_once()
        self.hear()

    def begin_round(self) -> None:
        """The next round is under way."""
        self.node.quiet()
        self.hear()

    def advance(self) -> None:
        log = self.log
        if log.copies.mirrored and log.durable > log.high_watermark:
            to = self.random.randint(log.high_watermark + 1, log.durable)
            self.node.enter(log.advance_high_watermark, to)
            self.hear()

    def switch(self) -> None:
        self.node.enter(self.queue.mirror, not self.log.copies.mirrored)
        self.hear()

    def crash(self) -> None:
        disk, definitions = self.node.disk, self.node.definitions
        self.hear()
        disk.power_loss(self.random)
        definitions.lose()
        self.node = SimNode(disk, definitions, boot=self.node.boot + 1)
        self.client = client_of(self.node)
        self.first = self.published + 1
        self.out.clear()
        # What was not confirmed may be lost, and what was not in the log is.
        state = self.log.batches.state
        for serial, offset in self.offsets.items():
            if serial in self.confirmed and serial not in self.acked:
                assert offset < self.log.end, "a confirmed message is lost"
                assert not state.is_settled(offset), "a confirmed message is lost"
        self.offsets = {
            serial: offset
            for serial, offset in self.offsets.items()
            if serial in self.confirmed and serial not in self.acked
        }

    def hear(self) -> None:
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        limit = self.log.high_watermark if self.log.copies.mirrored else self.log.durable
        for received in self.client.take():
            method = received.method
            if isinstance(method, (m.BasicDeliver, m.BasicGetOk)):
                serial = int(received.body)
                self.came.add(serial)
                self.out[method.delivery_tag] = serial
                if self.log.copies.mirrored:
                    assert self.offsets.get(serial, -1) < limit, "delivered above the high watermark"
            elif isinstance(method, m.BasicAck):
                tag = method.delivery_tag + self.first - 1
                waiting = [
                    each for each in range(self.first, self.published + 1) if each not in self.confirmed
                ]
                done = [each for each in waiting if each == tag or (method.multiple and each < tag)]
                assert tag in done, "confirmed twice"
                for serial in done:
                    assert self.offsets.get(serial, -1) < limit, "confirmed too early"
                self.confirmed.update(done)
            else:
                assert not isinstance(method, m.BasicNack)

    def finish(self) -> None:
        if self.random.random() < 0.5 and self.log.copies.mirrored:
            self.switch()
        self.consume()
        for _ in range(300):
            self.sync()
            self.advance()
            while self.out:
                tag, serial = self.out.popitem()
                self.acked.add(serial)
                self.client.send(m.BasicAck(tag))
            self.hear()
            if not (self.queue.message_count() or self.queue.receipts.runs or self.out):
                break
        assert self.queue.message_count() == self.queue.unacked_count == 0
        missing = set(self.offsets) - self.came
        assert not missing, "a message is not delivered"
        assert set(range(self.first, self.published + 1)) <= self.confirmed


MOVES = {
    "publish": 8,
    "sync": 4,
    "begin_round": 2,
    "advance": 3,
    "get": 2,
    "settle": 5,
    "consume": 1,
    "cancel": 0.3,
    "switch": 1.5,
    "crash": 0.4,
}


@pytest.mark.parametrize("highest", [0, 2])
@pytest.mark.parametrize("seed", range(25))
def test_whatever_is_under_way(seed: int, highest: int) -> None:
    walk = Walk(seed, highest=highest)
    for _ in range(150):
        getattr(walk, walk.random.choices(list(MOVES), list(MOVES.values()))[0])()
    walk.finish()


def confirms(client: Client) -> list[m.Method]:
    return [each.method for each in client.take() if isinstance(each.method, (m.BasicAck, m.BasicNack))]


def test_what_is_durable_but_not_copied_counts_when_the_mirrors_are_gone() -> None:
    node = SimNode()
    client = client_of(node)
    queue = client.declare("q", durable=True)
    client.publish(b"before", "q", properties=PERSISTENT)
    node.settle()
    assert confirms(client) == [m.BasicAck(1, multiple=False)]
    queue.mirror(True)
    client.publish(b"x", "q", properties=PERSISTENT)
    client.publish(b"y", "q", properties=PERSISTENT)
    node.settle()
    assert confirms(client) == []
    node.enter(queue.mirror, False)
    node.settle()
    assert confirms(client) == [m.BasicAck(3, multiple=True)]
    node.enter(queue.mirror, False)
    node.settle()
    assert confirms(client) == []


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": ("l", 3)}])
def test_what_was_out_above_the_watermark_waits_when_it_comes_back(arguments: dict[str, object]) -> None:
    node = SimNode()
    client = client_of(node)
    queue = client.declare("q", durable=True, arguments=arguments)
    client.publish(b"x", "q", properties=PERSISTENT)
    client.send(m.BasicGet("q"))
    node.enter(queue.mirror, True)
    client.send(m.BasicNack(1, requeue=True), m.BasicConsume("q"))
    node.settle()
    delivered = [each.body for each in client.take() if isinstance(each.method, m.BasicDeliver)]
    assert delivered == []
    node.enter(queue.log.advance_high_watermark, queue.log.durable)
    node.settle()
    assert [each.body for each in client.take() if isinstance(each.method, m.BasicDeliver)] == [b"x"]


def test_transient_messages_are_written_while_there_are_mirrors() -> None:
    """Their publisher waits, although it has published by the same route before."""
    node = SimNode()
    client = client_of(node)
    queue = client.declare("q", durable=True)
    client.publish(b"0", "q", properties=TRANSIENT)
    node.settle()
    assert len(confirms(client)) == 1
    node.enter(queue.mirror, True)
    client.publish(b"1", "q", properties=TRANSIENT)
    node.settle()
    assert confirms(client) == []
    node.enter(queue.log.advance_high_watermark, queue.log.durable)
    node.settle()
    assert len(confirms(client)) == 1
    node.enter(queue.mirror, False)
    client.publish(b"2", "q", properties=TRANSIENT)
    node.settle()
    assert len(confirms(client)) == 1
    taken = [queue.take(False) for _ in range(3)]
    assert [each.flags & LOGGED != 0 for each in taken] == [False, True, False]


def test_a_quorum_queue_goes_on_writing_all() -> None:
    node = SimNode()
    queue = Client(node).open(1).declare("q", durable=True, arguments={"x-queue-type": ("S", b"quorum")})
    queue.mirror(True)
    queue.mirror(False)
    assert queue.logs_all


def test_what_cannot_be_switched() -> None:
    node = SimNode()
    with pytest.raises(ValueError, match="queue 't' in vhost '/' has no log to be copied"):
        declared(node, durable=False, name="t").mirror(True)
    queue = Client(node).open(1).declare("q", durable=True)
    queue.mirror(True)
    Follower(queue.log)
    with pytest.raises(ValueError, match="is a copy of another node's"):
        queue.mirror(False)
    assert queue.log.copies.mirrored
