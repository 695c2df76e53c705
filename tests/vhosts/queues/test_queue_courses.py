"""A queue against lists, whatever happens to it, and long ones in slices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nodes import SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.queues.filled import MAKERS, durable_queue, fill, settle_log
from tests.vhosts.queues.local import (
    Sink,
    drained,
    message,
    numbers,
    order,
    reached,
    text_of,
    transient_queue,
)
from vhosts.queues.contents import OVERHEAD
from vhosts.queues.destination import UNHEARD
from vhosts.queues.queue import Queue
from vhosts.queues.services import DROP_SLICE


@pytest.fixture(params=MAKERS)
def queue(request: pytest.FixtureRequest) -> Queue:
    """One interface, one test: both kinds of queue; messages are persistent, as only the one cares."""
    return MAKERS[request.param]()


@settings(deadline=None, max_examples=120)
@given(
    is_durable=st.booleans(),
    steps=st.lists(
        st.tuples(
            st.sampled_from(
                ["publish"] * 3 + ["pump"] * 3 + ["ack", "return", "get", "leave", "join", "purge", "sync"]
            ),
            st.integers(0, 12),
        ),
        max_size=40,
    ),
)
def test_any_course_against_lists(is_durable: bool, steps: list[tuple[str, int]]) -> None:
    """``ready`` and ``out`` are all there is to a queue; persistent and transient messages alternate."""
    queue = durable_queue() if is_durable else transient_queue()
    sink = Sink(queue, 8)
    ready: list[int] = []
    returned: set[int] = set()
    serial = 0
    for step, number in steps:
        if step == "publish":
            for _ in range(number):
                queue.publish(message(serial, persistent=serial % 3 != 0))
                ready.append(serial)
                serial += 1
        elif step == "pump" and queue.consumers:
            before = len(sink.got)
            count, _ = reached(ready, returned, number, sink.credit)
            done = queue.pump(number)
            # Reading what is paged ends it early.
            assert len(sink.got) - before == count or done >= number
            count, units = reached(ready, returned, number, len(sink.got) - before)
            assert done >= units
            expected, ready = ready[:count], ready[count:]
            assert sink.got[before:] == numbers(*expected)
            assert sink.flags[before:] == [each in returned for each in expected]
        elif step in ("ack", "return") and sink.messages:
            index = number % len(sink.messages)
            offset_order = sink.messages[index].offset
            if step == "ack":
                sink.ack(index)
                continue
            text = sink_text(sink, index)
            sink.requeue(index)
            returned.add(text)
            ready = sorted([*ready, text])
            assert offset_order >= 0
        elif step == "get":
            found = queue.take(True)
            assert (found is None) == (not ready)
            if found is not None:
                assert text_of(found) == str(ready.pop(0))
        elif step == "leave":
            queue.cancel(sink, UNHEARD)
        elif step == "join" and not queue.consumers:
            queue.add_consumer(sink)
        elif step == "purge":
            assert queue.empty() == len(ready)
            ready = []
        elif step == "sync" and is_durable:
            settle_log(queue)
        assert queue.message_count() == len(ready)
        assert queue.unacked_count == len(sink.messages)
    assert drained(queue) == numbers(*ready)
    while sink.messages:
        sink.ack()
    assert queue.budget.used == 0


def sink_text(sink: Sink, index: int) -> int:
    """The number of an outstanding message, whose content may be in the log alone."""
    outstanding = sink.messages[index]
    content = outstanding.content
    if content is not None:
        return int(text_of(outstanding))
    return int(text_of(sink.queue.log.read_one(outstanding.offset)))


def test_consumers_come_and_go_without_a_look_at_the_others(queue: Queue) -> None:
    """Whichever goes, first, last or between; each look at another is counted."""
    looks = 0

    class Counting(Sink):
        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return self is other

        __hash__ = Sink.__hash__

        def ready(self) -> bool:
            nonlocal looks
            looks += 1
            return super().ready()

    sinks = [Counting(queue, 0) for _ in range(2000)]
    for sink in sinks:
        queue.add_consumer(sink)
    for sink in [*sinks[1000:0:-1], *sinks[1001:]]:
        queue.cancel(sink, UNHEARD)
    assert looks < 100
    assert list(queue.consumers) == [sinks[0]]
    for sink in sinks[1:]:
        queue.add_consumer(sink)
    fill(queue, 100)
    while queue.pump(50):
        pass
    assert looks < 2100, "each is passed over once"
    sinks[7].credit = 100
    sinks[7].wake()
    queue.pump(1000)
    assert sinks[7].got == numbers(*range(100))
    assert looks < 2300, "those that are not ready are not looked at again"


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("how", ["purge", "delete"])
def test_returned_messages_are_dropped_in_slices(how: str, kind: str) -> None:
    queue = MAKERS[kind]()
    is_durable = queue.log is not None
    each = message(10_000).size() + OVERHEAD
    sink = Sink(queue)
    queue.add_consumer(sink)
    count, kept = 3 * DROP_SLICE, 10
    for number in range(count + kept):
        queue.publish(message(10_000 + number, persistent=is_durable))
    while queue.pump(4096):
        pass
    queue.cancel(sink, UNHEARD)
    for _ in range(count):
        sink.requeue(kept // 2)
    for number in range(3):
        queue.publish(message(10_000 + number, persistent=is_durable))
    steps: list[Callable[[], bool]] = []
    queue.services.in_slices = steps.append
    assert (queue.empty() if how == "purge" else queue.delete(0)) == count + 3
    assert queue.message_count() == 0
    assert queue.unacked_count == kept

    def left() -> int:
        return queue.log.batches.state.live if is_durable else queue.budget.used // each

    (step,) = steps
    before = left()
    assert not step()
    between = left()
    assert not step()
    assert step(), "none is left"
    if is_durable and how == "delete":
        return  # its log is removed as a whole
    assert before - between == between - left() == DROP_SLICE
    if is_durable:
        assert unsettled(queue.log) == [out.offset for out in sink.messages]
    for _ in range(kept):
        sink.requeue(0)
    assert queue.message_count() == (kept if how == "purge" else 0)
    assert queue.budget.used == (kept * each if how == "purge" and not is_durable else 0)


def test_purge_looks_at_no_unacknowledged_message() -> None:
    """What a purge writes has the same size whatever is unacknowledged, also with holes between."""
    sizes = []
    for count in (4, 400):
        node = SimNode()
        queue = durable_queue(node)
        sink = Sink(queue)
        queue.add_consumer(sink)
        for number in range(count):
            queue.publish(message(number, persistent=True))
        queue.pump(count)
        for index in range(count // 2):
            sink.ack(index)
        queue.cancel(sink, UNHEARD)
        queue.publish(message("ready", persistent=True))
        node.settle()
        size = queue.log.partition.active.size
        assert queue.empty() == 1
        node.settle()
        sizes.append(queue.log.partition.active.size - size)
        assert unsettled(queue.log) == [out.offset for out in sink.messages]
    assert sizes[0] == sizes[1]


def test_messages_of_a_long_queue_are_freed_in_small_slices() -> None:
    """10,000 small objects may be the last ones in 64 MiB of the heap, which is then given back at once."""
    node = SimNode()
    node.vhost.declare_queue("q", durable=False)
    queue = node.queue("q")
    for number in range(10_000):
        queue.publish(message(number, size=0))
    ring = order(queue).ring.places
    left = len(ring)
    queue.empty()
    freed = []
    while ring:
        freed.append(left - len(ring))
        left = len(ring)
        node.turn()
    assert 0 < max(freed) <= 1000
