"""The order of quorum queues. Expectations are those measured with RabbitMQ 3.10.8."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from amqp_router.protocol.message import Message
from persistence.options import LogOptions
from tests.nodes import SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.queues.local import Sink, declared, drained, message, numbers, text_of
from vhosts.queues import state as states
from vhosts.queues.destination import UNHEARD
from vhosts.queues.queue import Queue
from vhosts.queues.ready.quorum import QuorumOrder

#: A batch takes a handful of messages, a segment some of those.
OPTIONS = LogOptions(batch_bytes_max=600, segment_bytes_max=3000, read_bytes=500)


def quorum_queue(count: int = 0, *, size: int = 0, options: LogOptions = OPTIONS) -> tuple[SimNode, Queue]:
    node = SimNode(log_options=options)
    queue = declared(node, queue_type="quorum")
    for number in range(count):
        node.enter(queue.publish, message(number, size=size))
    node.settle()
    return node, queue


def line_of(queue: Queue) -> QuorumOrder:
    assert isinstance(queue.ready, QuorumOrder)
    return queue.ready


def taken(queue: Queue, count: int) -> list[Message]:
    """``count`` messages as a consumer has them: without their contents."""
    sink = Sink(queue, count)
    queue.add_consumer(sink)
    queue.pump(10 * count)
    assert len(sink.messages) == count
    queue.cancel(sink, UNHEARD)
    return sink.messages


def started_again(node: SimNode, how: str = "") -> tuple[SimNode, Queue]:
    """The node after its end, which what has happened to the queue is written before."""
    node.sleep(1)
    node.settle()
    if how == "stop":
        node.stop()
    again = SimNode(node.disk, node.definitions, boot=node.boot + 1, log_options=OPTIONS)
    return again, again.queue("q")


def test_what_returns_comes_first_in_the_order_of_its_return() -> None:
    node, queue = quorum_queue(8)
    out = taken(queue, 6)
    for number in (3, 1, 2, 0, 5, 4):
        queue.requeue(out[number])
    assert drained(queue) == numbers(3, 1, 2, 0, 5, 4, 6, 7)
    assert queue.budget.used == queue.unacked_count == 0
    node.settle()
    assert unsettled(queue.log) == []


def test_what_returns_again_goes_to_the_end_of_the_line() -> None:
    _, queue = quorum_queue(4)
    out = taken(queue, 3)
    queue.requeue(out[2])
    queue.requeue(out[0])
    queue.requeue(taken(queue, 1)[0])
    queue.requeue(out[1])
    assert drained(queue) == numbers(0, 2, 1, 3)


def test_what_nobody_has_seen_has_its_turn_as_before() -> None:
    _, queue = quorum_queue(5)
    out = taken(queue, 3)
    queue.requeue(out[2])
    queue.requeue(out[0])
    unseen = [found for found in (queue.take(False) for _ in range(3)) if found is not None]
    assert [text_of(each) for each in unseen] == numbers(2, 0, 3)
    queue.requeue(out[1])
    for each in reversed(unseen[2:]):
        queue.return_unsent(each)
    assert drained(queue) == numbers(3, 1, 4), "it was before what has returned since"


def test_while_messages_return_nothing_is_given() -> None:
    _, queue = quorum_queue(4)
    out = taken(queue, 3)
    queue.begin_return()
    for number in (1, 0):
        queue.requeue(out[number])
        assert queue.ready.pop() is queue.ready.peek(False) is None
    queue.requeue(out[2])
    queue.end_return()
    head = queue.ready.peek(False)
    assert head is not None
    assert head.offset == out[1].offset
    assert drained(queue) == numbers(1, 0, 2, 3)


@pytest.mark.parametrize("removed", [False, True])
def test_a_purge_and_a_removal_take_the_line_too(removed: bool) -> None:
    node, queue = quorum_queue(9)
    out = taken(queue, 7)
    for number in (4, 2, 0, 5):
        queue.requeue(out[number])
    first = queue.take(False)
    assert first is not None
    assert text_of(first) == "4"
    queue.return_unsent(first)
    if removed:
        assert queue.delete(0) == 6
    else:
        assert queue.empty() == 6
        queue.requeue(out[6])
        assert drained(queue) == ["6"]
        node.settle()
        assert unsettled(queue.log) == [out[1].offset, out[3].offset]
    assert queue.budget.used == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_start_keeps_the_order_of_return(how: str) -> None:
    """What was out comes behind it: it was never counted as returned."""
    node, queue = quorum_queue(6)
    out = taken(queue, 4)
    for number in (2, 0, 1):
        queue.requeue(out[number])
    _, queue = started_again(node, how)
    assert line_of(queue).count == 6
    got = [queue.take(True) for _ in range(6)]
    assert [text_of(each) for each in got if each is not None] == numbers(2, 0, 1, 3, 4, 5)
    assert [each.delivery_count for each in got if each is not None] == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_returned_at_the_end_of_the_log_is_given_once(how: str) -> None:
    """Its places among the others, which are read later, are passed over; and all are counted."""
    node, queue = quorum_queue(40, size=30)
    size = queue.ready.body_bytes
    out = taken(queue, 40)
    for number in (35, 20, 39, 21, 22):
        queue.requeue(out[number])
    node, queue = started_again(node, how)
    order = line_of(queue)
    assert order.line is not None
    assert (order.count, order.line.count, order.backlog) == (40, 5, 35)
    while not order.count_bytes():
        pass
    assert order.body_bytes == size
    rest = [number for number in range(40) if number not in (35, 20, 39, 21, 22)]
    assert drained(queue) == numbers(35, 20, 39, 21, 22, *rest)
    assert (order.count, order.body_bytes, queue.budget.used) == (0, 0, 0)
    node.settle()
    assert unsettled(queue.log) == []


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_purge_after_a_start_leaves_what_is_out(how: str) -> None:
    """It may have any offsets then."""
    node, queue = quorum_queue(40, size=30)
    out = taken(queue, 40)
    for number in (35, 20, 39, 21, 22):
        queue.requeue(out[number])
    node, queue = started_again(node, how)
    first = taken(queue, 2)
    assert queue.empty() == 38
    queue.requeue(first[1])
    queue.requeue(first[0])
    node.enter(queue.publish, message(40))
    _, queue = started_again(node, how)
    assert drained(queue) == numbers(20, 35, 40)


def test_a_line_that_cannot_be_read_at_a_start_fails_its_queue_alone() -> None:
    node, queue = quorum_queue(6)
    out = taken(queue, 4)
    for number in (2, 0, 1):
        queue.requeue(out[number])
    node.sleep(1)
    node.settle()
    node.stop()
    file = node.disk.open(f"data/queues/{queue.incarnation}/0/{0:020d}.log", write=True)
    file.write([b"?" * 100], 80)
    file.close()
    node, queue = started_again(node)
    assert queue.state == states.FAILED
    assert "no good batch" in queue.reason


@pytest.mark.parametrize("seed", range(8))
def test_any_order_is_read_again(seed: int) -> None:
    """Contents of a line in any order, from many batches; beside a list that does the same."""
    random = Random(seed)
    _, queue = quorum_queue(60, size=40)
    assert queue.log is not None
    offsets = unsettled(queue.log)
    fresh = deque(range(60))
    line: deque[int] = deque()
    out: dict[int, Message] = {}
    for _ in range(600):
        if out and random.random() < 0.5:
            for number in random.sample(sorted(out), min(len(out), random.randrange(1, 12))):
                queue.requeue(out.pop(number))
                line.append(number)
        else:
            for found in taken(queue, min(random.randrange(1, 9), queue.ready.count)):
                expected = line.popleft() if line else fresh.popleft()
                assert found.content is None
                assert found.offset == offsets[expected]
                out[expected] = found
        assert queue.ready.count == len(line) + len(fresh)
    assert drained(queue) == numbers(*line, *fresh)


def test_the_line_gives_back_its_memory() -> None:
    _, queue = quorum_queue(20_000, options=LogOptions())
    out = taken(queue, 20_000)
    for each in reversed(out):
        queue.requeue(each)
    order = line_of(queue)
    for left in range(20_000, 0, -1):
        assert order.line is not None
        assert order.line.count == left
        found = queue.take(True)
        assert found is not None
        assert text_of(found) == str(left - 1)
    assert order.line is None
    assert not order.reread


def test_a_log_that_cannot_be_read_fails_the_queue() -> None:
    _, queue = quorum_queue(4)
    out = taken(queue, 3)
    for number in (2, 0):
        queue.requeue(out[number])
    assert queue.log is not None
    queue.log.settle(out[2].offset, 0, 1)  # as if it were lost
    assert queue.take(False) is None
    assert queue.ready.count == 3
    assert "offset" in queue.reason
