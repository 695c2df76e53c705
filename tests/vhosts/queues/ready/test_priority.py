"""Priority queues. Expectations are those measured with RabbitMQ 3.10.8."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol.message import Message
from persistence.options import LogOptions
from tests.nodes import SimNode
from tests.persistence.log.support import ManualClock, unsettled
from tests.vhosts.queues.local import Sink, declared, drained, message, numbers, text_of
from vhosts.queues.destination import UNHEARD
from vhosts.queues.queue import Queue
from vhosts.queues.ready import priority
from vhosts.queues.ready.priority import PriorityOrder

OPTIONS = LogOptions(batch_bytes_max=600, segment_bytes_max=3000, read_bytes=500)


def node_with(memory_bytes: int = 64 << 20) -> SimNode:
    return SimNode(log_options=OPTIONS, memory_bytes=memory_bytes)


def made(text: object, level: int, *, persistent: bool = True, size: int = 0) -> Message:
    built = message(text, persistent=persistent, size=size)
    built.priority = level
    return built


def publish(node: SimNode, queue: Queue, *levels: tuple[object, int], persistent: bool = True) -> None:
    for text, level in levels:
        node.enter(queue.publish, made(text, level, persistent=persistent))
    node.settle()


@pytest.mark.parametrize("durable", [False, True])
def test_the_highest_comes_first(durable: bool) -> None:
    node = node_with()
    queue = declared(node, durable=durable, max_priority=5)
    assert isinstance(queue.ready, PriorityOrder)
    publish(node, queue, ("a", 1), ("b", 5), ("c", 9), ("d", 0), ("e", 0), ("f", 5), ("g", 1))
    assert drained(queue) == ["b", "c", "f", "a", "g", "d", "e"], "9 counts as 5"
    assert queue.budget.used == 0
    node.settle()
    if durable:
        assert unsettled(queue.log) == []


def test_zero_is_no_priority() -> None:
    queue = declared(node_with(), max_priority=0)
    assert not isinstance(queue.ready, PriorityOrder)


def test_a_returned_message_has_its_place() -> None:
    node = node_with()
    queue = declared(node, max_priority=5)
    publish(node, queue, ("x", 3), ("y", 3), ("z", 1))
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    node.quiet()
    queue.cancel(sink, UNHEARD)
    publish(node, queue, ("w", 3))
    node.enter(sink.requeue, 1)
    node.enter(sink.requeue, 0)
    assert drained(queue) == ["x", "y", "w", "z"]


def test_drop_head_drops_the_highest() -> None:
    node = node_with()
    queue = declared(node, max_priority=5, max_length=2)
    publish(node, queue, ("a", 1), ("b", 5), ("c", 1))
    assert drained(queue) == ["a", "c"]


@pytest.mark.parametrize("how", ["clean", "kill"])
def test_order_stays_over_a_restart(how: str) -> None:
    node = node_with()
    queue = declared(node, max_priority=3)
    levels = [(number, number * 7 % 5) for number in range(60)]
    publish(node, queue, *levels)
    queue.take(True)
    node.sleep(1)
    node.settle()
    if how == "clean":
        node.stop()
    node = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    queue = node.queue("q")
    expected = sorted(levels, key=lambda pair: -min(pair[1], 3))[1:]
    assert drained(queue) == numbers(*[number for number, _ in expected])
    assert queue.ready.body_bytes == 0


@pytest.mark.parametrize("unacked", [False, True])
def test_purge_leaves_what_is_unacknowledged(unacked: bool) -> None:
    node = node_with()
    queue = declared(node, max_priority=3)
    publish(node, queue, ("low", 0), ("high", 3), ("mid", 1))
    taken = queue.take(False) if unacked else None
    assert queue.empty() == (2 if unacked else 3)
    node.settle()
    assert len(unsettled(queue.log)) == unacked
    if taken is not None:
        assert text_of(taken) == "high"
        node.enter(queue.requeue, taken)
        assert drained(queue) == ["high"]
    assert queue.budget.used == 0


def test_time_of_the_head() -> None:
    node = node_with()
    queue = declared(node, max_priority=3)
    for text, level, ms in (("low", 0, 100), ("high", 3, 300)):
        one = made(text, level)
        one.expire_ms = ms
        node.enter(queue.publish, one)
    node.settle()
    node.sleep(0.2)
    assert queue.message_count() == 2, "the head is the high one"
    node.sleep(0.2)
    assert queue.message_count() == 0


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"dead_letter_exchange": "", "dead_letter_routing_key": "other"}])
def test_what_comes_while_very_many_expire_does_not_keep_them(
    durable: bool, arguments: dict[str, str]
) -> None:
    """RabbitMQ lets all expire whose time is over before it looks at the next message that comes."""
    node = SimNode()
    declared(node, "other")
    queue = declared(node, durable=durable, max_priority=3, max_length=6000, **arguments)
    for number in range(6000):
        one = made(number, 2 if number < 3000 else 0)
        one.expire_ms = 100
        queue.publish(one)
    node.settle()
    timers = node.clock.advance(0.2)
    node.tick.now_us = node.clock.wall_us()
    for timer in timers:
        node.enter(timer.go_off)
    assert 3000 < queue.message_count() < 6000, "they expire in slices"

    def call() -> None:
        for number in range(1500):
            queue.publish(made(number, 1))
        queue.publish(made("high", 3))

    node.enter(call)
    node.settle()
    assert (queue.expired_total, queue.dropped_total, queue.message_count()) == (6000, 0, 1501)
    found = queue.take(True)
    assert found is not None
    assert text_of(found) == "high"


def test_what_comes_while_very_many_expire_after_a_start_does_not_keep_them() -> None:
    node = SimNode()
    queue = declared(node, max_priority=3)
    for number in range(6000):
        one = made(number, 0)
        one.expire_ms = 100
        queue.publish(one)
    node.settle()
    node.stop()
    node = SimNode(node.disk, node.definitions, boot=2, clock=ManualClock(node.clock.now + 1))
    queue = node.queue("q")
    node.turn()
    assert 0 < queue.message_count() < 6000, "they expire in slices"
    node.enter(queue.publish, made("high", 3))
    node.settle()
    assert (queue.expired_total, drained(queue)) == (6000, ["high"])


def test_what_comes_while_very_many_expire_behind_one_that_was_got_does_not_keep_them() -> None:
    node = node_with()
    queue = declared(node, max_priority=3)
    queue.publish(made("first", 1))
    for number in range(6000):
        one = made(number, 0)
        one.expire_ms = 100
        queue.publish(one)
    node.settle()
    node.sleep(0.2)
    assert queue.message_count() == 6001, "they are behind another one"
    first = queue.take(True)
    assert first is not None
    assert text_of(first) == "first"
    assert 0 < queue.message_count() < 6000, "they expire in slices"
    node.enter(queue.publish, made("high", 3))
    node.settle()
    assert (queue.expired_total, drained(queue)) == (6000, ["high"])


def test_what_comes_before_the_timer_does_not_keep_what_is_over() -> None:
    """The loop reads a client's frames before it lets timers go off."""
    node = node_with()
    queue = declared(node, max_priority=3)
    for text, level in (("a", 1), ("b", 0), ("c", 0)):
        one = made(text, level)
        one.expire_ms = 100 if text != "c" else 1000
        node.enter(queue.publish, one)
    node.settle()
    node.clock.now += 0.2
    node.tick.now_us = node.clock.wall_us()
    node.enter(queue.publish, made("high", 3))
    node.sleep(0)
    assert (queue.expired_total, queue.message_count()) == (2, 2)
    node.sleep(1)
    assert queue.message_count() == 2, "now it is behind another one"
    assert drained(queue) == ["high"]


def test_what_comes_after_a_turn_that_ends_with_a_delivery_does_not_keep_what_is_over() -> None:
    """As much as one turn may do was done before the queue looked at the next head."""
    node = node_with()
    queue = declared(node, max_priority=3)
    short = made("short", 0)
    short.expire_ms = 100
    for one in (made("first", 1), short):
        node.enter(queue.publish, one)
    node.settle()
    node.sleep(0.2)
    assert queue.message_count() == 2, "it is behind another one"
    sink = Sink(queue, 1)
    queue.add_consumer(sink)
    queue.pump(1)
    node.enter(queue.publish, made("high", 3))
    node.settle()
    assert (sink.got, queue.expired_total) == (["first"], 1)
    assert drained(queue) == ["high"]


def test_a_window_in_memory_for_consumers() -> None:
    node = node_with()
    queue = declared(node, max_priority=2)
    sink = Sink(queue, 0)
    queue.add_consumer(sink)
    publish(node, queue, *[(number, number % 3) for number in range(50)])
    assert queue.ready.in_memory() == 50
    queue.cancel(sink, UNHEARD)
    assert (queue.ready.in_memory(), queue.budget.used) == (0, 0)
    queue.add_consumer(sink)
    sink.credit = 100
    sink.wake()
    node.quiet()
    assert sink.got == numbers(*range(2, 50, 3), *range(1, 50, 3), *range(0, 50, 3))


def test_places_that_are_taken_are_given_back() -> None:
    node = node_with()
    queue = declared(node, max_priority=1)
    count = 3 * priority.PLACES
    for number in range(count):
        queue.publish(made(number, 0))
    node.settle()
    for number in range(count):
        found = queue.take(True)
        assert found is not None
        assert text_of(found) == str(number)


@settings(deadline=None, max_examples=120)
@given(
    durable=st.booleans(),
    memory_bytes=st.sampled_from([0, 1000, 1 << 20]),
    seed=st.integers(0, 1 << 20),
)
def test_any_course_against_lists(durable: bool, memory_bytes: int, seed: int) -> None:
    random = Random(seed)
    node = node_with(memory_bytes)
    queue = declared(node, durable=durable, max_priority=3)
    sink = Sink(queue, 4)
    ready: list[tuple[int, int]] = []
    out: dict[int, int] = {}
    serial = 0

    def head() -> tuple[int, int]:
        return min(ready, key=lambda pair: (-min(pair[1], 3), pair[0]))

    for _ in range(40):
        step = random.choice(
            ["publish", "publish", "get", "pump", "ack", "return", "join", "leave", "purge", "sync"]
        )
        if step == "publish":
            for _ in range(random.randrange(1, 5)):
                level = random.randrange(6)
                persistent = random.random() < 0.6
                queue.publish(made(serial, level, persistent=persistent, size=random.choice((4, 300))))
                ready.append((serial, level))
                serial += 1
        elif step == "get":
            found = queue.take(True)
            assert (found is None) == (not ready)
            if found is not None:
                assert text_of(found) == str(head()[0])
                ready.remove(head())
        elif step == "pump" and queue.consumers:
            before = len(sink.got)
            while queue.pump(100) >= 100:
                pass
            for text in sink.got[before:]:
                assert text == str(head()[0])
                out[head()[0]] = head()[1]
                ready.remove(head())
            assert not ready or sink.credit == 0
        elif step in ("ack", "return") and sink.messages:
            index = random.randrange(len(sink.messages))
            offsets = sorted(each.offset for each in sink.messages)
            number = sorted(out)[offsets.index(sink.messages[index].offset)]
            level = out.pop(number)
            if step == "ack":
                sink.ack(index)
            else:
                sink.requeue(index)
                ready.append((number, level))
        elif step == "join" and not queue.consumers:
            queue.add_consumer(sink)
        elif step == "leave":
            queue.cancel(sink, UNHEARD)
        elif step == "purge" and random.random() < 0.2:
            assert queue.empty() == len(ready)
            ready = []
        elif step == "sync" and not queue.consumers:
            node.sync_once()
            node.tick.queues.clear()
            queue.dirty = False
        assert queue.message_count() == len(ready)
        assert queue.unacked_count == len(out)
    texts = drained(queue)
    assert texts == [str(number) for number, _ in sorted(ready, key=lambda pair: (-min(pair[1], 3), pair[0]))]
    while sink.messages:
        sink.ack()
    assert queue.budget.used == 0


# -- very many --------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("settle", [False, True])
def test_very_many_are_dropped_without_a_list_of_them(settle: bool, durable: bool) -> None:
    """They are taken one by one, in slices. To make a list of a million would hold the event loop."""
    node = node_with()
    queue = declared(node, durable=durable, max_priority=9)
    publish(node, queue, *[(number, number % 10) for number in range(20_000)], persistent=False)
    returned = queue.take(False)
    assert returned is not None
    queue.requeue(returned)
    tracemalloc.start()
    dropped = queue.ready.drop_all(settle)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100_000
    offsets = [message.offset for message in dropped]
    assert len(offsets) == len(set(offsets)) == 20_000
    assert queue.ready.in_memory() == queue.ready.count == 0


def test_no_container_of_transient_messages_grows_with_their_number() -> None:
    """A dict that doubles is rebuilt as a whole: 50 ms with a million entries."""
    node = node_with()
    queue = declared(node, durable=False, max_priority=255)
    publish(node, queue, *[(number, number % 256) for number in range(2000)], persistent=False)
    growths: list[int] = []
    for count in range(2000, 20_000):
        tracemalloc.start()
        node.enter(queue.publish, made(count, count % 256, persistent=False))
        growths.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(growths) < 400_000


def test_a_level_that_never_had_a_message_takes_no_memory() -> None:
    node = node_with()
    tracemalloc.start()
    queues = [declared(node, f"q{number}", durable=False, max_priority=255) for number in range(20)]
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert before / len(queues) < 12_000


@pytest.mark.parametrize("kind", ["published", "returned"])
def test_no_container_of_a_level_grows_with_its_messages(kind: str) -> None:
    """An array or list of a million moves to a larger place whenever it is full, 8 MB at once."""
    node = node_with()
    queue = declared(node, durable=False, max_priority=1)
    growths: list[int] = []
    count = 150_000 if kind == "published" else 30_000
    publish(node, queue, *[(number, 0) for number in range(count)], persistent=False)
    if kind == "published":
        for number in range(20_000):
            tracemalloc.start()
            node.enter(queue.publish, made(number, 0, persistent=False))
            growths.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    else:
        out = [queue.take(False) for _ in range(count)]
        for message in reversed(out):
            assert message is not None
            tracemalloc.start()
            queue.requeue(message)
            growths.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert max(growths) < 400_000
