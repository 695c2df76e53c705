"""Transient messages beyond the memory budget, alone and between the persistent ones of a log."""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol.flags import SPILLED
from persistence.options import LogOptions
from tests.nodes import SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.queues.local import Sink, drained, message, numbers, order, text_of
from vhosts.queues.contents import SPILL_UNITS
from vhosts.queues.destination import UNHEARD
from vhosts.queues.handle import REDELIVERY_UNITS
from vhosts.queues.queue import Queue
from vhosts.queues.state import WORKING

OPTIONS = LogOptions(batch_bytes_max=600, segment_bytes_max=3000, read_bytes=500)


def node_with(memory_bytes: int) -> SimNode:
    return SimNode(memory_bytes=memory_bytes, log_options=OPTIONS)


def declared(node: SimNode, name: str = "q", *, durable: bool = False) -> Queue:
    node.vhost.declare_queue(name, durable=durable)
    node.settle()
    return node.queue(name)


def pages(node: SimNode) -> list[str]:
    return [name for name in node.disk.names if name.startswith("data/paging/") and name.endswith(".page")]


def test_queue_beyond_the_budget_waits_in_a_file() -> None:
    node = node_with(2000)
    queue = declared(node)
    for number in range(200):
        queue.publish(message(number, size=50))
    assert queue.message_count() == 200
    assert queue.budget.used < 2300
    assert len(pages(node)) == 1
    assert drained(queue) == numbers(*range(200))
    assert queue.budget.used == 0
    assert pages(node) == []
    assert order(queue).pager is None


def test_without_a_budget_every_message_is_paged_and_comes_back() -> None:
    node = node_with(0)
    queue = declared(node)
    sink = Sink(queue)
    queue.add_consumer(sink)
    for number in range(50):
        queue.publish(message(number, size=number * 30))
    while queue.pump(7):
        pass
    assert sink.got == numbers(*range(50))
    assert [each.body_size for each in sink.messages[:3]] == [1, 30, 60]


def test_what_is_taken_while_more_is_paged() -> None:
    node = node_with(3000)
    queue = declared(node)
    published = taken = 0
    random = Random(3)
    got: list[str] = []
    while taken < 400:
        for _ in range(random.randint(0, 9)):
            queue.publish(message(published, size=40))
            published += 1
        for _ in range(random.randint(0, 9)):
            found = queue.take(True)
            if found is not None:
                got.append(text_of(found))
                taken += 1
    assert got == numbers(*range(taken))
    assert queue.message_count() == published - taken
    assert drained(queue) == numbers(*range(taken, published))


def test_returned_message_comes_before_what_is_paged() -> None:
    node = node_with(1000)
    queue = declared(node)
    sink = Sink(queue, 8)
    queue.add_consumer(sink)
    for number in range(60):
        queue.publish(message(number, size=40))
    queue.pump(10_000)
    for index in (5, 1, 2):
        sink.requeue(index)
    queue.cancel(sink, UNHEARD)
    assert drained(queue) == numbers(1, 3, 5, *range(8, 60))
    while sink.messages:
        sink.ack()
    assert queue.budget.used == 0


@pytest.mark.parametrize("size", [(1 << 20) + 1, 3 << 20])
def test_large_message_is_paged(size: int) -> None:
    node = node_with(0)
    queue = declared(node)
    for number in range(3):
        queue.publish(message(number, size=size))
        queue.publish(message(f"small{number}"))
    assert drained(queue) == ["0", "small0", "1", "small1", "2", "small2"]


def test_purge_and_delete_remove_the_file() -> None:
    node = node_with(0)
    queue = declared(node)
    for end in (queue.empty, lambda: queue.delete(0)):
        for number in range(30):
            queue.publish(message(number, size=100))
        assert pages(node)
        assert end() == 30
        assert pages(node) == []
        assert queue.budget.used == 0
        assert node.disk.open_files == 0


def test_paged_messages_do_not_outlive_the_node() -> None:
    node = node_with(0)
    queue = declared(node, durable=True)
    for number in range(20):
        queue.publish(message(number, persistent=number % 2 == 0, size=100))
    node.tick.wake()
    node.settle()
    assert pages(node)
    node.disk.forget_files()
    after = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    assert pages(after) == []
    assert drained(after.queue("q")) == numbers(*range(0, 20, 2))


# -- log and page log together ----------------------------------------------------------------------


def test_persistent_and_transient_messages_keep_their_order() -> None:
    node = node_with(1 << 20)
    queue = declared(node, durable=True)
    for number in range(300):
        queue.publish(message(number, persistent=number % 3 == 0, size=30))
    assert queue.message_count() == 300
    assert drained(queue) == numbers(*range(300))
    assert queue.budget.used == 0
    assert queue.log.batches.state.live == 0


def test_long_stretches_of_one_kind() -> None:
    """The one log's look ends far before the other's, both ways round."""
    node = node_with(5000)
    queue = declared(node, durable=True)
    number = 0
    for persistent, count in ((True, 1), (False, 200), (True, 200), (False, 1), (True, 90), (False, 90)):
        for _ in range(count):
            queue.publish(message(number, persistent=persistent, size=30))
            number += 1
    assert drained(queue) == numbers(*range(number))


def test_purge_of_both() -> None:
    node = node_with(1000)
    queue = declared(node, durable=True)
    sink = Sink(queue, 7)
    queue.add_consumer(sink)
    for number in range(60):
        queue.publish(message(number, persistent=number % 2 == 0, size=60))
    queue.pump(10_000)
    queue.cancel(sink, UNHEARD)
    assert queue.empty() == 53
    assert queue.unacked_count == 7
    assert unsettled(queue.log) == [each.offset for each in sink.messages if each.flags & 4]
    sink.requeue(6)
    sink.requeue(1)
    assert drained(queue) == numbers(1, 6)
    while sink.messages:
        sink.ack()
    assert (queue.budget.used, queue.log.batches.state.live, queue.unacked_count) == (0, 0, 0)


@settings(deadline=None, max_examples=100)
@given(
    memory_bytes=st.sampled_from([0, 300, 1500, 6000]),
    is_durable=st.booleans(),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(1, 15), st.integers(0, 3)),
            st.tuples(st.just("pump"), st.integers(1, 20), st.just(0)),
            st.tuples(
                st.sampled_from(["ack", "return", "purge", "leave", "join"]), st.integers(0, 9), st.just(0)
            ),
        ),
        max_size=30,
    ),
)
def test_any_course_under_a_tiny_budget(
    memory_bytes: int, is_durable: bool, steps: list[tuple[str, int, int]]
) -> None:
    node = node_with(memory_bytes)
    queue = declared(node, durable=is_durable)
    sink = Sink(queue, 10)
    texts: dict[int, int] = {}
    ready: list[int] = []
    returned: set[int] = set()
    serial = 0
    for step, number, kind in steps:
        if step == "publish":
            for _ in range(number):
                # Kind 0 is transient, 3 persistent; those between are a mix.
                queue.publish(message(serial, persistent=serial % 3 < kind, size=(serial * 37) % 120))
                ready.append(serial)
                serial += 1
        elif step == "pump" and queue.consumers:
            before, credit = len(sink.got), sink.credit
            units = queue.pump(number)
            count = len(sink.got) - before
            assert sink.got[before:] == numbers(*ready[:count])
            costs = [
                1 + (each in returned) * (REDELIVERY_UNITS - 1) + bool(sent.flags & SPILLED) * SPILL_UNITS
                for each, sent in zip(ready[:count], sink.messages[len(sink.messages) - count :], strict=True)
            ]
            assert units >= sum(costs)  # and what it read from the page file
            assert sum(costs[:-1]) < number
            assert units >= number or count == min(credit, len(ready))
            for each, text in zip(sink.messages[len(sink.messages) - count :], ready[:count], strict=True):
                texts[each.offset] = text
            del ready[:count]
        elif step == "ack" and sink.messages:
            sink.ack(number % len(sink.messages))
        elif step == "return" and sink.messages:
            index = number % len(sink.messages)
            returned.add(texts[sink.messages[index].offset])
            ready = sorted([*ready, texts[sink.messages[index].offset]])
            sink.requeue(index)
        elif step == "purge" and number < 3:
            assert queue.empty() == len(ready)
            ready = []
        elif step == "leave":
            queue.cancel(sink, UNHEARD)
        elif step == "join" and not queue.consumers:
            queue.add_consumer(sink)
        assert queue.message_count() == len(ready)
        assert queue.unacked_count == len(sink.messages)
    assert drained(queue) == numbers(*ready)
    while sink.messages:
        sink.ack()
    assert queue.budget.used == 0
    assert pages(node) == []


# -- a disk that fails ------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("operation", ["write", "create"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_page_file_that_fails_for_a_while(operation: str, durable: bool, error: int) -> None:
    """What cannot be taken is refused; what was taken is delivered, meanwhile and after."""
    node = node_with(0)
    queue = declared(node, durable=durable)
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    node.disk.fail(operation, "/paging", error=error)
    taken = [number for number in range(30) if queue.publish(message(number, size=100))]
    assert 0 < len(taken) < 30
    assert queue.state == WORKING
    queue.pump(1000)
    assert sink.got == numbers(*taken[:2])
    assert not sink.is_cancelled
    node.disk.hook = None
    taken += [number for number in range(30, 60) if queue.publish(message(number, size=100))]
    assert len(taken) > 30
    sink.credit = 100
    sink.wake()
    queue.pump(10_000)
    assert sink.got == numbers(*taken)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("operation", ["write", "create", "read"])
def test_page_file_that_fails(operation: str, durable: bool) -> None:
    """The queue says so, publishers are told, and the node goes on."""
    node = node_with(0)
    queue = declared(node, durable=durable)
    sink = Sink(queue, 0)
    queue.add_consumer(sink)
    node.disk.fail(operation, "/paging", error=errno.EIO)
    taken = [queue.publish(message(number, size=100)) for number in range(30)]
    sink.credit = 1000
    sink.wake()
    assert queue.pump(100) == 0
    assert "simulated" in queue.reason
    assert sink.is_cancelled
    assert all(taken) == (operation == "read")
    assert not queue.publish(message("more"))
    node.disk.hook = None
    queue.delete(0)
    assert queue.budget.used == 0
    assert pages(node) == []
