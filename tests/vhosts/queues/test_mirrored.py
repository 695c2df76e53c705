"""A queue whose log has copies on other nodes: confirms and deliveries wait for the high watermark."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amqp_router.protocol import methods as m
from persistence.log.queue.queue_log import QueueLog
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode
from vhosts.queues.queue import Queue

#: Flags word and values: delivery mode 2, priority.
WITH_PRIORITY = b"\x18\x00\x02"


def mirrored(node: SimNode, name: str, **arguments: Any) -> tuple[Client, Queue, QueueLog]:
    """A client in confirm mode, and a queue with a log that another node has a copy of."""
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    queue = client.declare(name, durable=True, arguments=arguments)
    log = queue.log
    assert log is not None
    log.copies.mirrored = True
    log.copies.visible_end = log.high_watermark
    return client, queue, log


def bodies(client: Client) -> list[bytes]:
    return [each.body for each in client.take() if isinstance(each.method, m.BasicDeliver)]


class Walk:
    """Random moves of one publisher and one consumer, and of the high watermark."""

    def __init__(self, seed: int, *, highest: int = 0) -> None:
        self.random = Random(seed)
        self.node = SimNode()
        arguments = {"x-max-priority": ("l", highest)} if highest else {}
        self.client, self.queue, self.log = mirrored(self.node, "q", **arguments)
        self.highest = highest
        #: By serial, from 1 on as publishes are numbered: the offset; what was confirmed, and what came.
        self.offsets: dict[int, int] = {}
        self.confirmed: set[int] = set()
        self.came: list[int] = []
        self.out: dict[int, int] = {}

    def publish(self) -> None:
        serial = len(self.offsets) + 1
        properties = PERSISTENT
        if self.highest:
            properties = WITH_PRIORITY + bytes([self.random.randint(0, self.highest)])
        self.client.publish(b"%d" % serial, "q", properties=properties)
        self.offsets[serial] = self.queue.receipts.end - 1
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
            if self.random.random() < 0.3:
                self.came.remove(serial)
                self.client.send(m.BasicNack(tag, requeue=True))
            else:
                self.client.send(m.BasicAck(tag))
            self.hear()

    def sync(self) -> None:
        self.node.sync_once()
        self.hear()

    def advance(self) -> None:
        log = self.log
        if log.durable > log.high_watermark:
            to = self.random.randint(log.high_watermark + 1, log.durable)
            self.node.enter(log.advance_high_watermark, to)
            self.hear()

    def hear(self) -> None:
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        for received in self.client.take():
            method = received.method
            if isinstance(method, (m.BasicDeliver, m.BasicGetOk)):
                serial = int(received.body)
                self.came.append(serial)
                self.out[method.delivery_tag] = serial
                assert self.offsets[serial] < self.log.high_watermark, "delivered above the high watermark"
            elif isinstance(method, m.BasicAck):
                tag = method.delivery_tag
                waiting = [each for each in self.offsets if each not in self.confirmed]
                done = [each for each in waiting if each == tag or (method.multiple and each < tag)]
                assert done
                for serial in done:
                    assert self.offsets[serial] < self.log.high_watermark, "confirmed above it"
                self.confirmed.update(done)
            else:
                assert not isinstance(method, m.BasicNack)

    def finish(self) -> None:
        self.consume()
        for _ in range(200):
            self.sync()
            self.node.enter(self.log.advance_high_watermark, self.log.durable)
            self.hear()
            while self.out:
                tag, _ = self.out.popitem()
                self.client.send(m.BasicAck(tag))
            self.hear()
            if len(self.came) == len(self.offsets) == len(self.confirmed):
                break
        assert sorted(self.came) == sorted(self.offsets), "a message is not delivered"
        assert self.confirmed == set(self.offsets)


@pytest.mark.parametrize("highest", [0, 2])
@pytest.mark.parametrize("seed", range(15))
def test_nothing_leaves_above_the_high_watermark(seed: int, highest: int) -> None:
    walk = Walk(seed, highest=highest)
    moves = {"publish": 8, "sync": 4, "advance": 4, "get": 2, "settle": 5, "consume": 1, "cancel": 0.3}
    for _ in range(150):
        getattr(walk, walk.random.choices(list(moves), list(moves.values()))[0])()
    walk.finish()


def test_what_is_cut_is_refused_and_the_rest_goes_on() -> None:
    node = SimNode()
    client, queue, log = mirrored(node, "q")
    offsets = []
    for number in range(4):
        client.publish(b"%d" % number, "q", properties=PERSISTENT)
        offsets.append(queue.receipts.end - 1)
    node.sync_once()
    assert client.take() == []
    node.enter(log.refuse_from, offsets[2])
    node.quiet()
    assert [each.method for each in client.take()] == [
        m.BasicNack(3, requeue=True),
        m.BasicNack(4, requeue=True),
    ]
    node.enter(log.advance_high_watermark, offsets[1] + 1)
    node.quiet()
    (acked,) = client.take()
    assert acked.method == m.BasicAck(2, multiple=True)


def test_an_offset_that_is_given_again_is_another_message() -> None:
    """After a cut the log gives its offsets again: the publisher of the first message waits no more."""
    node = SimNode()
    client, queue, log = mirrored(node, "q")
    client.publish(b"old", "q", properties=PERSISTENT)
    end = queue.receipts.end
    node.enter(log.refuse_from, end - 1)
    assert queue.receipts.end == end - 1
    assert not queue.receipts.runs


def test_a_transient_message_has_no_copy_to_wait_for() -> None:
    node = SimNode()
    client, _, _ = mirrored(node, "q")
    client.send(m.BasicConsume("q", no_ack=True))
    node.quiet()
    client.take()
    client.publish(b"t", "q", properties=TRANSIENT)
    node.quiet()
    assert bodies(client) == [b"t"]
