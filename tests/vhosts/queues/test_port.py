"""What the port of a queue promises: credit by deltas, ranges, messages that come back unseen, and an answer
at once from a queue that is unavailable.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.flags import ACK, REDELIVERED, REJECT
from tests.nodes import SimNode
from tests.vhosts.queues.local import Sink, declared, drained, message, numbers, order, text_of
from vhosts.publishing.ports import Listener, Run
from vhosts.queues.destination import UNHEARD
from vhosts.queues.handle import UNLIMITED, QueueHandle
from vhosts.queues.queue import Queue


@pytest.fixture
def node() -> SimNode:
    return SimNode()


@pytest.fixture(params=[False, True], ids=["transient", "durable"])
def queue(node: SimNode, request: pytest.FixtureRequest) -> Queue:
    """Ten messages of ten octets."""
    queue = declared(node, durable=request.param)
    for number in range(10):
        queue.publish(message(number, persistent=True, size=10))
    node.tick.wake()
    node.settle()
    return queue


class Bounded(Sink):
    """Uses up credit of both kinds."""

    def deliver(self, message: object) -> None:
        super().deliver(message)
        self.octets -= message.body_size


def subscribed(queue: QueueHandle, messages: int = UNLIMITED, octets: int = UNLIMITED) -> Bounded:
    sink = Bounded(queue, messages)
    sink.octets = octets
    queue.add_consumer(sink)
    return sink


def test_credit_in_messages_comes_by_deltas(node: SimNode, queue: Queue) -> None:
    sink = subscribed(queue, messages=0)
    for credit in (2, 1, 0, 3):
        before = len(sink.got)
        queue.grant(sink, credit, 0)
        node.settle()
        assert len(sink.got) == before + credit
    queue.grant(sink, -2, 0)
    queue.grant(sink, 2, 0)
    node.settle()
    assert sink.got == numbers(*range(6))


def test_credit_in_octets_comes_by_deltas(node: SimNode, queue: Queue) -> None:
    sink = subscribed(queue, octets=25)
    node.settle()
    assert sink.got == numbers(0, 1, 2)  # the last one may have more
    queue.grant(sink, 0, 5)
    node.settle()
    assert len(sink.got) == 3
    queue.grant(sink, 0, 1)
    node.settle()
    assert len(sink.got) == 4


def test_a_consumer_needs_credit_of_both_kinds(node: SimNode, queue: Queue) -> None:
    sink = subscribed(queue, messages=1, octets=0)
    queue.grant(sink, 1, 0)
    node.settle()
    assert sink.got == []
    queue.grant(sink, 0, 1000)
    node.settle()
    assert sink.got == numbers(0, 1)


@pytest.mark.parametrize("kind", [ACK, REJECT])
def test_a_range_is_settled_as_its_messages_are(node: SimNode, queue: Queue, kind: int) -> None:
    sink = subscribed(queue)
    node.settle()
    queue.settle_range(sink.messages[2:9], kind)
    assert (queue.unacked_count, queue.ack_total) == (3, 7 if kind == ACK else 0)
    if queue.log is not None:
        assert queue.view().persistent_count() == 3
    for held in (*sink.messages[:2], sink.messages[9]):
        queue.requeue(held)
    queue.cancel(sink, UNHEARD)
    assert drained(queue) == numbers(0, 1, 9)


def test_what_nobody_has_seen_comes_back_as_it_was(node: SimNode, queue: Queue) -> None:
    taken = [queue.take(False) for _ in range(3)]
    for each in reversed(taken):
        queue.return_unsent(each)
    node.settle()
    assert (queue.message_count(), queue.unacked_count) == (10, 0)
    again = [queue.take(False) for _ in range(10)]
    assert [text_of(each) for each in again] == numbers(*range(10))
    assert not any(each.flags & REDELIVERED or each.delivery_count for each in again)


def test_it_comes_back_unseen_beside_what_was_seen(node: SimNode, queue: Queue) -> None:
    first, second = queue.take(False), queue.take(False)
    queue.requeue(first)
    queue.return_unsent(second)
    again = [queue.take(False) for _ in range(2)]
    assert [(text_of(each), each.flags & REDELIVERED != 0) for each in again] == [("0", True), ("1", False)]


def test_the_log_knows_nothing_of_what_came_back_unseen(node: SimNode) -> None:
    queue = declared(node)
    queue.publish(message("x", persistent=True))
    node.settle()
    queue.return_unsent(queue.take(False))
    assert not queue.log.batches.state.has_returns(0)
    queue.requeue(queue.take(False))
    assert queue.log.batches.state.has_returns(0)


def test_unseen_after_the_queue_is_deleted(node: SimNode) -> None:
    queue = declared(node, durable=False)
    used = node.budget.used
    queue.publish(message("x"))
    taken = queue.take(False)
    node.vhost.delete_queue("q")
    queue.return_unsent(taken)
    assert node.budget.used == used


class Ears(Listener):
    """Hears what becomes of publishes."""

    def __init__(self) -> None:
        self.failed: list[bool] = []

    def run_done(self, run: Run) -> None:
        self.failed.append(run.failed)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_unavailable_is_an_answer_at_once(node: SimNode, code: int) -> None:
    """Nothing here lets time pass: who uses such a queue never waits for it."""
    queue = declared(node)
    sink = subscribed(queue, messages=0)
    ears, run = Ears(), Run()
    run.listener = ears
    queue.publish(message("waits", persistent=True))
    queue.await_durable(run)
    queue.log.fail(OSError(code, "simulated"))
    assert ears.failed == [True]
    assert not queue.takes_messages()
    assert not queue.publish(message("x", persistent=True))
    late = Run()
    late.listener = ears
    queue.await_durable(late)
    assert ears.failed == [True, True]
    with pytest.raises(PreconditionFailed, match="simulated"):
        queue.empty()
    is_over = code == errno.EIO
    assert sink.is_cancelled == is_over
    asks: list[Callable[[], object]] = [queue.check_available, lambda: queue.add_consumer(Sink(queue))]
    for ask in asks:
        if is_over:
            with pytest.raises(PreconditionFailed, match="cannot be used"):
                ask()
        else:
            ask()  # a full disk stops publishers alone


def test_view(node: SimNode) -> None:
    queue = declared(node, max_length=50, single_active_consumer=True)
    for number in range(3):
        queue.publish(message(number, persistent=True, size=10))
    view = queue.view()
    assert (view.persistent_count(), view.body_bytes()) == (3, 30)
    assert view.settings().max_length == 50
    assert view.has_single_active()
    assert view.active_consumer() is None
    sink = subscribed(queue, messages=0)
    assert (view.active_consumer(), view.exclusive_consumer()) == (sink, None)
    assert view.in_memory() == order(queue).in_memory()
    assert (view.memory_bytes() > 0) == (view.in_memory() > 0)


def test_octets_of_the_unsettled(node: SimNode, queue: Queue) -> None:
    sink = subscribed(queue, messages=7)
    node.settle()
    assert queue.unacked_bytes == 70
    queue.settle(sink.messages[0], ACK)
    queue.requeue(sink.messages[1])
    queue.return_unsent(sink.messages[2])
    assert (queue.unacked_count, queue.unacked_bytes, queue.view().body_bytes()) == (4, 40, 50)


def test_capacity_forgets_half_in_a_second(node: SimNode, queue: Queue) -> None:
    """Figures as RabbitMQ's moving mean has them."""
    start = node.tick.now_us = 1_000_000_000

    def capacity(seconds: float) -> float:
        return round(queue.view().capacity(start + int(seconds * 1e6)), 3)

    assert capacity(0) == 0
    sink = subscribed(queue, messages=0)
    assert capacity(0) == 1
    node.settle()
    assert [capacity(seconds) for seconds in (0, 1, 2, 10)] == [1, 0.5, 0.25, 0.001]
    node.tick.now_us = start + 1_000_000
    queue.grant(sink, 100, 0)
    node.settle()
    assert [capacity(seconds) for seconds in (1, 2, 3, 11)] == [0.5, 0.75, 0.875, 1]
    node.tick.now_us = start - 5_000_000  # the clock is set back
    assert capacity(-5) == 0.5
    queue.cancel(sink, UNHEARD)
    assert capacity(-5) == 0


def test_capacity_of_short_turns_is_added_up(node: SimNode, queue: Queue) -> None:
    """A consumer that may have one message at a time, and takes a quarter of each millisecond."""
    start = node.tick.now_us = 1_000_000_000
    queue.empty()
    sink = subscribed(queue, messages=0)
    for number in range(8000):
        node.tick.now_us = start + number * 1000 + 750
        queue.grant(sink, 1, 0)
        queue.publish(message(number, size=10))
        node.settle()
        node.tick.now_us = start + number * 1000 + 1000
        queue.publish(message(number, size=10))
        node.settle()
        queue.take(True)
    assert round(queue.view().capacity(node.tick.now_us), 2) == 0.25


def test_octets_of_the_transient(node: SimNode) -> None:
    queue = declared(node, durable=True)
    for number in range(12):
        queue.publish(message(number, persistent=number % 3 == 0, size=10 + number))
    node.settle()
    view = queue.view()
    assert view.transient_bytes() == 8 * 10 + 1 + 2 + 4 + 5 + 7 + 8 + 10 + 11
    sink = subscribed(queue, messages=6)
    node.settle()
    assert view.transient_bytes() == 128
    queue.settle(sink.messages[1], ACK)
    queue.settle(sink.messages[3], ACK)
    assert view.transient_bytes() == 117
    queue.requeue(sink.messages[2])
    queue.empty()  # what comes back is gone, and so is what was never taken
    node.settle()
    assert view.transient_bytes() == 14 + 15
    for number in (4, 5, 0):
        queue.settle(sink.messages[number], REJECT)
    assert (view.transient_bytes(), queue.unacked_bytes, view.body_bytes()) == (0, 0, 0)
