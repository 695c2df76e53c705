"""The memory that a queue counts and bounds."""

from __future__ import annotations

import pytest

from amqp_router.protocol.flags import REJECT
from tests.vhosts.queues.filled import MAKERS, durable_queue, fill
from tests.vhosts.queues.local import Sink, drained, message, numbers, order, transient_queue
from vhosts.queues.contents import OVERHEAD
from vhosts.queues.destination import UNHEARD
from vhosts.queues.queue import Queue
from vhosts.queues.ready.order import WINDOW_MESSAGES


@pytest.fixture(params=MAKERS)
def queue(request: pytest.FixtureRequest) -> Queue:
    """One interface, one test: both kinds of queue; messages are persistent, as only the one cares."""
    return MAKERS[request.param]()


def test_transient_messages_are_counted_until_they_are_settled() -> None:
    queue = transient_queue()
    each = message(0).size() + OVERHEAD
    fill(queue, 10)
    assert queue.budget.used == 10 * each
    sink = Sink(queue, 6)
    queue.add_consumer(sink)
    queue.pump(9)
    assert queue.budget.used == 10 * each
    sink.ack()
    sink.requeue()
    sink.ack(kind=REJECT)
    assert queue.budget.used == 8 * each
    queue.take(True)
    assert queue.budget.used == 7 * each
    queue.empty()
    assert queue.budget.used == 3 * each
    for _ in range(3):
        sink.ack()
    assert queue.budget.used == 0


def test_logged_messages_are_counted_while_their_content_is_in_memory() -> None:
    queue = durable_queue()
    each = message(10, persistent=True).size() + OVERHEAD
    fill(queue, 10, 10)
    assert queue.budget.used == 0
    sink = Sink(queue, 4)
    queue.add_consumer(sink)
    queue.pump(9)
    assert queue.budget.used == 6 * each
    assert all(kept.content is None for kept in sink.messages)
    fill(queue, 5, 20)
    assert queue.budget.used == 11 * each
    queue.cancel(sink, UNHEARD)
    assert queue.budget.used == 0
    assert queue.message_count() == 11


def test_logged_queue_that_is_read_slowly_keeps_a_window() -> None:
    queue = durable_queue()
    sink = Sink(queue, 10)
    queue.add_consumer(sink)
    count = WINDOW_MESSAGES + 500
    fill(queue, count)
    assert order(queue).ring.count == WINDOW_MESSAGES
    queue.pump(count)
    sink.credit = 1 << 30
    sink.wake()
    while queue.pump(1000):
        assert order(queue).ring.count <= WINDOW_MESSAGES
    assert sink.got == numbers(*range(count))
    assert queue.budget.used == 0


def test_window_is_bounded_in_bytes() -> None:
    queue = durable_queue(memory_bytes=1 << 30)
    sink = Sink(queue, 0)
    queue.add_consumer(sink)
    for number in range(20):
        queue.publish(message(number, persistent=True, size=1 << 20))
    assert order(queue).ring_bytes < 10 << 20
    sink.credit = 20
    sink.wake()
    queue.pump(20)
    assert sink.got == numbers(*range(20))


def test_window_is_kept_for_what_the_log_does_not_have() -> None:
    queue = durable_queue()
    sink = Sink(queue, 0)
    queue.add_consumer(sink)
    queue.publish(message("a", persistent=True))
    queue.publish(message("b"))
    queue.cancel(sink, UNHEARD)
    assert drained(queue) == ["a", "b"]
    assert queue.budget.used == 0
