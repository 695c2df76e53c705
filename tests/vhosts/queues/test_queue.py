"""A queue by itself, without and with a log: order and counts, returns, consumers, purge and delete."""

from __future__ import annotations

from random import Random

import pytest

from amqp_router.protocol.errors import AccessRefused
from amqp_router.protocol.flags import REJECT
from amqp_router.protocol.message import JOINED_BYTES_MAX
from tests.vhosts.queues.filled import MAKERS, fill, settle_log
from tests.vhosts.queues.local import Sink, drained, message, numbers, order, text_of, transient_queue
from vhosts.queues.destination import UNHEARD
from vhosts.queues.queue import Queue
from vhosts.queues.ready.ring import RING_PLACES


@pytest.fixture(params=MAKERS)
def queue(request: pytest.FixtureRequest) -> Queue:
    """One interface, one test: both kinds of queue; messages are persistent, as only the one cares."""
    return MAKERS[request.param]()


# -- order and counts ---------------------------------------------------------------------------------


def test_messages_come_in_the_order_of_their_offsets(queue: Queue) -> None:
    fill(queue, 5)
    sink = Sink(queue, 3)
    queue.add_consumer(sink)
    assert queue.pump(10) == 3
    fill(queue, 5, 5)
    assert (queue.message_count(), queue.unacked_count) == (7, 3)
    sink.credit = 100
    sink.wake()
    assert queue.pump(100) == 7
    assert sink.got == numbers(*range(10))
    assert not any(sink.flags)
    assert queue.pump(100) == 0
    offsets = [each.offset for each in sink.messages]
    assert offsets == sorted(set(offsets))


def test_counts(queue: Queue) -> None:
    assert (queue.message_count(), queue.consumer_count(), queue.is_empty(), queue.is_unused()) == (
        0,
        0,
        True,
        True,
    )
    fill(queue, 3)
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    queue.pump(9)
    assert (queue.message_count(), queue.unacked_count, queue.consumer_count()) == (1, 2, 1)
    assert not queue.is_empty()
    assert not queue.is_unused()
    sink.ack()
    sink.ack(kind=REJECT)
    queue.pump(9)
    assert queue.is_empty()
    assert (queue.publish_total, queue.deliver_total, queue.ack_total, queue.redeliver_total) == (3, 3, 1, 0)


def test_pump_stops_at_its_budget(queue: Queue) -> None:
    fill(queue, 10)
    sink = Sink(queue)
    queue.add_consumer(sink)
    assert [queue.pump(4) for _ in range(4)] == [4, 4, 2, 0]


def test_consumers_take_turns_and_those_without_credit_are_passed_over(queue: Queue) -> None:
    sinks = [Sink(queue), Sink(queue, 1), Sink(queue)]
    for sink in sinks:
        queue.add_consumer(sink)
    fill(queue, 7)
    queue.pump(3)
    queue.pump(4)
    assert [sink.got for sink in sinks] == [numbers(0, 3, 5), numbers(1), numbers(2, 4, 6)]
    queue.cancel(sinks[2], UNHEARD)
    fill(queue, 2, 7)
    queue.pump(9)
    assert sinks[0].got[-2:] == numbers(7, 8)


def test_turns_go_on_when_consumers_come_and_go(queue: Queue) -> None:
    a, b, c = Sink(queue), Sink(queue), Sink(queue)
    queue.add_consumer(a)
    fill(queue, 1)
    queue.pump(10)
    queue.add_consumer(b)
    fill(queue, 2, 1)
    queue.pump(10)
    assert (a.got, b.got) == (numbers(0, 1), numbers(2)), "who comes later waits for a turn"
    queue.add_consumer(c)
    fill(queue, 1, 3)
    queue.pump(10)
    queue.cancel(a, UNHEARD)
    fill(queue, 1, 4)
    queue.pump(10)
    assert (a.got, b.got, c.got) == (numbers(0, 1, 3), numbers(2, 4), []), "nobody is passed over"


def test_get_and_consumer_see_each_message_once(queue: Queue) -> None:
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    fill(queue, 6)
    queue.pump(2)
    first = queue.take(True)
    second = queue.take(False)
    assert first is not None
    assert second is not None
    assert (text_of(first), text_of(second)) == ("2", "3")
    assert queue.unacked_count == 3
    sink.ack()
    queue.pump(9)
    assert sink.got == numbers(0, 1, 4)
    queue.settle(second, REJECT)
    assert queue.unacked_count == 2


def test_ring_grows_and_wraps(queue: Queue) -> None:
    sink = Sink(queue, no_ack=True)
    queue.add_consumer(sink)
    published = 0
    ring = order(queue).ring.places
    for count, taken in ((10, 7), (12, 3), (30, 40), (100, 1), (5, 200)):
        fill(queue, count, published)
        published += count
        queue.pump(taken)
    assert sink.got == numbers(*range(published))
    assert order(queue).ring.places is ring, (
        "a new one is looked through by the next collection of young objects"
    )
    assert len(ring) == 128


@pytest.mark.parametrize("taken", [0, RING_PLACES // 2])
def test_rings_grow_to_a_bound_and_stand_in_line(taken: int) -> None:
    """A ring of a million would move to a larger place with 8 MB at once."""
    queue = transient_queue()
    sink = Sink(queue, no_ack=True)
    queue.add_consumer(sink)
    published = 0
    for count in (10, RING_PLACES + 70, 1, RING_PLACES, RING_PLACES // 4, 3):
        fill(queue, count, published)
        published += count
        assert all(len(each) <= RING_PLACES for each in order(queue).ring.lists())
        assert order(queue).ring.count == queue.ready.count == published - len(sink.got)
        queue.pump(taken)
    while queue.pump(5000):
        assert order(queue).ring.count == queue.ready.count == published - len(sink.got)
    assert sink.got == numbers(*range(published))
    assert order(queue).ring.behind is None
    assert queue.budget.used == 0


def test_a_purge_empties_all_rings() -> None:
    queue = transient_queue()
    fill(queue, 2 * RING_PLACES + 100)
    assert len(order(queue).ring.lists()) == 3
    assert queue.empty() == 2 * RING_PLACES + 100
    assert queue.budget.used == 0
    fill(queue, 40)
    assert drained(queue) == numbers(*range(40))


# -- returns ------------------------------------------------------------------------------------------


def test_returned_message_comes_first_and_is_marked(queue: Queue) -> None:
    sink = Sink(queue, 3)
    queue.add_consumer(sink)
    fill(queue, 5)
    queue.pump(9)
    sink.requeue(1)
    assert (queue.message_count(), queue.unacked_count) == (3, 2)
    queue.pump(9)
    assert (sink.got, sink.flags) == (numbers(0, 1, 2, 1), [False, False, False, True])
    assert queue.redeliver_total == 1


def test_returned_messages_keep_their_order_whatever_the_order_of_return(queue: Queue) -> None:
    sink = Sink(queue)
    queue.add_consumer(sink)
    fill(queue, 30)
    queue.pump(20)
    random = Random(1)
    while sink.messages:
        sink.requeue(random.randrange(len(sink.messages)))
    assert queue.message_count() == 30
    sink.got.clear()
    queue.pump(100)
    assert sink.got == numbers(*range(30))
    assert sink.flags[-30:] == [True] * 20 + [False] * 10


def test_returned_message_goes_on_being_marked(queue: Queue) -> None:
    fill(queue, 1)
    for marked in (False, True, True):
        found = queue.take(False)
        assert found is not None
        assert bool(found.flags & 2) == marked
        queue.requeue(found)


def test_returns_are_counted_with_and_without_a_log(queue: Queue) -> None:
    fill(queue, 1)
    for count in range(4):
        found = queue.take(False)
        assert found is not None
        assert found.delivery_count == count
        queue.requeue(found)


def test_content_of_a_returned_message_is_whole(queue: Queue) -> None:
    sink = Sink(queue)
    queue.add_consumer(sink)
    published = message("body", persistent=True, size=300_000)
    frames = published.content
    queue.publish(published)
    queue.pump(1)
    sink.requeue()
    found = queue.take(False)
    assert found is not None
    assert text_of(found) == "body"
    assert found.body() == b"body".ljust(300_000)
    assert (found.header_size, found.body_size) == (22, 300_000)
    assert found.size() == len(found.content or b"") == len(frames or b"")


@pytest.mark.parametrize("synced", [False, True])
def test_large_message_returned(queue: Queue, synced: bool) -> None:
    """Its content is referenced by the open batch until it is written, and read again after that."""
    sink = Sink(queue)
    queue.add_consumer(sink)
    size = JOINED_BYTES_MAX + 5
    for number in range(2):
        queue.publish(message(number, persistent=True, size=size))
    queue.pump(2)
    if synced and queue.durable:
        settle_log(queue)
    sink.requeue(1)
    sink.requeue(0)
    queue.pump(9)
    assert sink.got == numbers(0, 1, 0, 1)
    assert [each.body_size for each in sink.messages] == [size, size]


# -- consumers ----------------------------------------------------------------------------------------


def test_exclusive_consumer_is_alone(queue: Queue) -> None:
    first, second = Sink(queue), Sink(queue)
    first.exclusive = True
    queue.add_consumer(first)
    with pytest.raises(AccessRefused, match="in exclusive use"):
        queue.add_consumer(second)
    queue.cancel(first, UNHEARD)
    queue.add_consumer(second)
    with pytest.raises(AccessRefused):
        queue.add_consumer(first)


def test_last_consumer_is_told_from_others(queue: Queue) -> None:
    first, second = Sink(queue), Sink(queue)
    queue.add_consumer(first)
    queue.add_consumer(second)
    for _ in range(2):
        queue.cancel(first, UNHEARD)
        assert list(queue.consumers) == [second]
    queue.cancel(second, UNHEARD)
    assert queue.is_unused()


def test_consumer_that_comes_back_goes_on_where_the_other_ended(queue: Queue) -> None:
    first = Sink(queue, 2)
    queue.add_consumer(first)
    fill(queue, 10)
    queue.pump(9)
    queue.cancel(first, UNHEARD)
    fill(queue, 2, 10)
    assert queue.message_count() == 10
    first.requeue(0)
    second = Sink(queue)
    queue.add_consumer(second)
    queue.pump(99)
    assert second.got == numbers(0, *range(2, 12))


# -- purge and delete ---------------------------------------------------------------------------------


def test_purge_drops_what_is_ready_and_leaves_what_is_out(queue: Queue) -> None:
    sink = Sink(queue, 4)
    queue.add_consumer(sink)
    fill(queue, 10)
    queue.pump(9)
    sink.requeue(1)
    queue.cancel(sink, UNHEARD)
    assert queue.empty() == 7
    assert (queue.message_count(), queue.unacked_count) == (0, 3)
    assert queue.take(True) is None
    fill(queue, 1, 10)
    sink.requeue(2)
    sink.requeue(0)
    assert drained(queue) == numbers(0, 3, 10)
    sink.ack()
    assert queue.unacked_count == 0
    assert queue.budget.used == 0


def test_purge_of_nothing(queue: Queue) -> None:
    assert queue.empty() == 0
    fill(queue, 1)
    assert queue.empty() == 1
    assert queue.empty() == 0


def test_an_empty_queue_is_deleted_without_new_containers(queue: Queue) -> None:
    """Those of 100,000 queues would be all at once for the garbage collector: 100 ms."""
    before = order(queue).requeued, order(queue).reread, queue.consumers
    queue.delete(0)
    after = order(queue).requeued, order(queue).reread, queue.consumers
    assert all(one is other for one, other in zip(before, after, strict=True))


def test_delete(queue: Queue) -> None:
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    fill(queue, 5)
    queue.pump(9)
    assert queue.delete(0) == 3
    assert queue.deleted
    assert sink.is_cancelled
    assert not queue.consumers
    assert queue.message_count() == 0
    sink.ack()
    sink.requeue()
    assert (queue.message_count(), queue.unacked_count, queue.budget.used) == (0, 0, 0)


# -- touching -----------------------------------------------------------------------------------------


def test_queue_is_put_on_the_agenda_once(queue: Queue) -> None:
    queue.dirty = False
    queue.tick.queues.clear()
    fill(queue, 3)
    assert queue.tick.queues == []
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    fill(queue, 2)
    assert queue.tick.queues == [queue]
    queue.tick.queues.clear()
    queue.dirty = False
    queue.pump(9)
    sink.requeue()
    assert queue.tick.queues == [queue]
