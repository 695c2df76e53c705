"""Messages by due time, against a sorted list: published, released, cancelled, purged, over restarts."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import decode_table, encode_plain
from amqp_router.protocol.properties import encode_properties
from tests.nodes import Client, SimNode
from vhosts.queues.delayed import PREFIX, DelayQueue
from vhosts.queues.ready import due as due_order
from vhosts.queues.ready.heaps import HEAP_NUMBERS, Heaps
from vhosts.queues.ready.order import logged_message

QUEUE = PREFIX + "x"
TYPE = decode_table(encode_plain({"x-delayed-type": "fanout"}), 0)[0]


class DelayedModel(RuleBasedStateMachine):
    """What waits, as (due time in microseconds, number of the message)."""

    def __init__(self) -> None:
        super().__init__()
        self.node = SimNode()
        self.client = Client(self.node).open(1)
        self.waiting: list[tuple[int, int]] = []
        self.released: list[int] = []
        self.number = 0

    @initialize()
    def declare(self) -> None:
        self.client.send(
            m.ExchangeDeclare("x", "x-delayed-message", durable=True, arguments=TYPE),
            m.QueueDeclare("q", durable=True),
            m.QueueBind("q", "x", ""),
        )
        self.node.settle()
        self.publish(5, True)

    @property
    def queue(self) -> DelayQueue:
        queue = self.node.vhost.queues[QUEUE]
        assert isinstance(queue, DelayQueue)
        return queue

    @rule(seconds=st.integers(1, 20), persistent=st.booleans())
    def publish(self, seconds: int, persistent: bool) -> None:
        self.number += 1
        properties = {"headers": {"x-delay": ("I", 1000 * seconds)}, "delivery_mode": 1 + persistent}
        # A transient message does not survive a restart, and has an even number.
        self.number += self.number % 2 != persistent
        now_us = self.node.tick.now_us = self.node.clock.wall_us()
        self.client.publish(b"%d" % self.number, "", "x", encode_properties(properties))
        self.node.settle()
        self.waiting.append((now_us + 1_000_000 * seconds, self.number))

    @rule(seconds=st.floats(0.5, 10))
    def time_passes(self, seconds: float) -> None:
        self.node.sleep(seconds)
        self.node.settle()
        self._release()

    def _release(self) -> None:
        now = self.node.clock.wall_us()
        due = sorted(each for each in self.waiting if each[0] <= now)
        self.waiting = [each for each in self.waiting if each[0] > now]
        self.released += [number for _, number in due]

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        ordered = sorted(self.waiting)
        place = data.draw(st.integers(0, len(ordered) - 1))
        delayed = list(self.queue.order.first(place + 1))[place]
        assert self.queue.drop(delayed)
        assert not self.queue.drop(delayed)
        self.waiting.remove(ordered[place])
        self.node.sleep(0.3)  # so that the log has it
        self.node.settle()
        self._release()

    @rule()
    def purge(self) -> None:
        assert self.queue.empty() == len(self.waiting)
        self.waiting = []
        self.node.sleep(0.3)
        self.node.settle()

    @rule()
    def kill_and_start(self) -> None:
        self.client.drop()
        self.node.settle()
        self.node = SimNode(
            self.node.disk, self.node.definitions, boot=self.node.boot + 1, clock=self.node.clock
        )
        self.client = Client(self.node).open(1)
        self.waiting = [each for each in self.waiting if each[1] % 2]
        self.released = [number for number in self.released if number % 2]
        self.node.sleep(0.01)
        self.node.settle()
        self._release()

    @invariant()
    def waits_as_told(self) -> None:
        if QUEUE not in self.node.vhost.queues:
            return
        order = self.queue.order
        found = []
        for delayed in order.first(1000):
            message = order.read(delayed.offset)
            assert message is not None
            found.append((delayed.due_us, int(message.body())))
        assert found == sorted(self.waiting)
        assert order.count == len(found)
        assert order.body_bytes == sum(len(str(number)) for _, number in found)

    def teardown(self) -> None:
        if QUEUE not in self.node.vhost.queues:
            return
        self.node.sleep(100)
        self.node.settle()
        self._release()
        found = []
        while True:
            self.client.take()
            self.client.send(m.BasicGet("q", no_ack=True))
            self.node.quiet()
            (received,) = self.client.take()
            if isinstance(received.method, m.BasicGetEmpty):
                break
            found.append(int(received.body))
        assert found == self.released
        assert not self.node.faults


TestDelayed = DelayedModel.TestCase
TestDelayed.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


def test_order_within_a_millisecond() -> None:
    model = DelayedModel()
    model.declare()
    model.time_passes(0.0005)
    model.publish(2, True)
    model.time_passes(0.9997)
    model.publish(1, True)
    model.waits_as_told()
    model.teardown()


def test_a_look_past_removed_ones_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client can cancel a million that are not the first: they stay until their time comes."""
    model = DelayedModel()
    model.declare()
    for seconds in range(6, 36):
        model.publish(seconds, False)
    order = model.queue.order
    both = list(order.first(31))[::30]
    for delayed in list(order.first(30))[1:]:
        assert model.queue.drop(delayed)
    assert list(order.first(5)) == both
    monkeypatch.setattr(due_order, "LOOKS_MAX", 10)
    assert list(order.first(5)) == both[:1]


def test_no_list_grows_with_their_number() -> None:
    """One heap of a million entries moves to a larger place whenever it is full: 8 MB at once."""
    model = DelayedModel()
    model.declare()
    order = model.queue.order
    for offset in range(30_000):
        order.push(logged_message(offset), True)
    sizes, left, seen = [0], [order._heap], set[int]()
    while left:
        inner = left.pop()
        if isinstance(inner, (list, tuple, Heaps)) and id(inner) not in seen:
            seen.add(id(inner))
            left += gc.get_referents(inner)
            if isinstance(inner, list):
                sizes.append(len(inner))
    assert sum(sizes) > 30_000
    assert max(sizes) <= HEAP_NUMBERS
