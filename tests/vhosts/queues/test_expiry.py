"""Messages and queues whose time is over. Expectations are those measured with RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.message import JOINED_BYTES_MAX, Message, build_message
from persistence.definitions import StoreFailed
from persistence.options import LogOptions
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.queues.local import Sink, declared, drained, message, numbers, order, text_of, typed
from vhosts.queues.destination import UNHEARD
from vhosts.queues.queue import Queue
from vhosts.queues.services import at_once
from vhosts.queues.settings import NO_SETTINGS, QueueSettings, effective_settings
from vhosts.queues.timers import QueueTimers

OPTIONS = LogOptions(batch_bytes_max=4000)


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


def timed(node: SimNode, text: Any, ttl_s: float, *, persistent: bool = True) -> Message:
    """A message with a time to live of its own."""
    made = message(text, persistent=persistent)
    made.expire_ms = int(ttl_s * 1000)
    return made


def publish(node: SimNode, queue: Queue, *messages: Message) -> None:
    for each in messages:
        node.enter(queue.publish, each)
    node.settle()


# -- messages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
def test_queue_with_a_ttl(node: SimNode, durable: bool) -> None:
    queue = declared(node, durable=durable, message_ttl=100)
    for number in range(3):
        publish(node, queue, message(number, persistent=True))
        node.sleep(0.04)
    node.sleep(0.03)
    assert queue.message_count() == 1
    assert drained(queue) == numbers(2)
    publish(node, queue, message(3, persistent=True))
    node.sleep(0.2)
    node.settle()
    assert (queue.message_count(), queue.expired_total, queue.budget.used) == (0, 3, 0)
    assert not queue.expiry.timer
    if durable:
        assert unsettled(queue.log) == []


def test_only_the_head_expires(node: SimNode) -> None:
    queue = declared(node)
    publish(node, queue, timed(node, "long", 60), timed(node, "short", 0.1))
    node.sleep(1)
    assert queue.message_count() == 2
    found = queue.take(True)
    assert found is not None
    assert text_of(found) == "long"
    assert queue.take(True) is None
    assert queue.expired_total == 1


def test_the_shorter_of_two_times_counts(node: SimNode) -> None:
    queue = declared(node, message_ttl=1000)
    publish(node, queue, timed(node, "own", 0.1))
    publish(node, queue, timed(node, "queue's", 60))
    node.sleep(0.5)
    assert queue.message_count() == 1
    node.sleep(0.6)
    assert queue.message_count() == 0


def test_a_message_without_time_is_delivered_at_once_or_not_at_all(node: SimNode) -> None:
    queue = declared(node)
    node.enter(queue.publish, timed(node, "nobody", 0))
    assert queue.message_count() == 0
    sink = Sink(queue)
    queue.add_consumer(sink)
    publish(node, queue, timed(node, "zero", 0))
    assert sink.got == ["zero"]
    sink.credit = 0
    publish(node, queue, timed(node, "no credit", 0))
    assert (sink.got, queue.message_count(), queue.expired_total) == (["zero"], 0, 2)


def test_no_expired_message_is_delivered(node: SimNode) -> None:
    """Whatever the timer does: the consumer comes before it."""
    queue = declared(node, message_ttl=100)
    for number in range(5):
        queue.publish(message(number, persistent=True))
    node.clock.now += 0.2
    node.tick.now_us = node.clock.wall_us()
    queue.publish(message("new", persistent=True))
    sink = Sink(queue)
    queue.add_consumer(sink)
    queue.pump(100)
    assert sink.got == ["new"]
    assert queue.expired_total == 5


def test_time_goes_on_while_a_message_is_unacknowledged(node: SimNode) -> None:
    queue = declared(node, message_ttl=100)
    publish(node, queue, message("a", persistent=True), message("b", persistent=True))
    sink = Sink(queue, 1)
    queue.add_consumer(sink)
    node.quiet()
    queue.cancel(sink, UNHEARD)
    node.sleep(0.2)
    assert (queue.message_count(), queue.unacked_count) == (0, 1)
    node.enter(sink.requeue)
    node.quiet()
    assert (queue.message_count(), queue.unacked_count, queue.expired_total) == (0, 0, 2)
    node.settle()
    assert unsettled(queue.log) == []


@pytest.mark.parametrize("how", ["clean", "kill"])
def test_deadlines_stay_over_a_restart(node: SimNode, how: str) -> None:
    queue = declared(node, message_ttl=5000)
    declared(node, "plain")
    publish(node, queue, message("a", persistent=True))
    publish(node, node.queue("plain"), timed(node, "b", 2.5), timed(node, "c", 60))
    node.sleep(1)
    node.settle()
    if how == "clean":
        node.stop()
    started = node.clock.now
    node = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    node.clock.now = started
    node.tick.now_us = node.clock.wall_us()
    node.quiet()
    queue, plain = node.queue("q"), node.queue("plain")
    assert (queue.message_count(), plain.message_count()) == (1, 2)
    assert order(plain).ring.count == 1, "no more is read than the head"
    node.sleep(2)
    assert (queue.message_count(), plain.message_count()) == (1, 1)
    node.sleep(1.9)
    assert queue.message_count() == 1
    node.sleep(0.2)
    assert (queue.message_count(), plain.message_count()) == (0, 1)


def test_after_a_start_what_is_over_does_not_wait_behind_what_is_published_first(node: SimNode) -> None:
    """A dead letter or a client may be quicker than the first turn of a queue with priorities."""
    queue = declared(node, max_priority=3)
    publish(node, queue, timed(node, "over", 1), timed(node, "kept", 60))
    started = node.clock.now + 2
    node = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    node.clock.now = started
    node.tick.now_us = node.clock.wall_us()
    queue = node.queue("q")
    first = message("first", persistent=True)
    first.priority = 3
    assert queue.message_count() == 2, "it has not looked yet"
    queue.publish(first)
    node.quiet()
    assert (queue.message_count(), queue.expired_total) == (2, 1)
    assert drained(queue) == ["first", "kept"]


def test_deadline_of_a_large_message_comes_back_from_the_log(node: SimNode) -> None:
    queue = declared(node, durable=True)
    made = build_message(b"\x00\x01q", PERSISTENT, bytes(JOINED_BYTES_MAX + 1))
    made.deadline_us = node.clock.wall_us() + 5_000_000
    deadline_us = made.deadline_us
    publish(node, queue, made)
    (found,), _ = queue.log.read(0, queue.log.end, 1, 1)
    assert found.deadline_us == pytest.approx(deadline_us, abs=1000)


def test_paged_messages_expire() -> None:
    node = SimNode(memory_bytes=1000, log_options=OPTIONS)
    queue = declared(node, durable=False)
    for number in range(40):
        publish(node, queue, timed(node, number, 1 + number / 10, persistent=False))
    assert order(queue).pager is not None
    node.sleep(2.05)
    assert queue.message_count() == 29
    node.sleep(10)
    assert (queue.message_count(), queue.budget.used) == (0, 0)


def test_very_many_expire_in_slices_and_methods_wait_for_that(node: SimNode) -> None:
    client = Client(node).open(1)
    count = 20_000
    queue = declared(node, message_ttl=1000)
    for number in range(count):
        queue.publish(message(number, persistent=True))
    node.settle()
    node.sleep(0.9)
    client.publish(b"new", "q", properties=PERSISTENT)
    node.clock.now += 0.2
    node.tick.now_us = node.clock.wall_us()
    longest = 0
    client.send(m.BasicGet("q", True), m.QueueDeclare("q", passive=True))
    while node.ready:
        before = queue.message_count()
        node.turn()
        longest = max(longest, before - queue.message_count())
    assert longest < 5000
    got, told = client.take()
    assert got.body == b"new"
    assert told.method == m.QueueDeclareOk("q", 0, 0)
    assert queue.expired_total == count
    node.settle()
    assert unsettled(queue.log) == []


def test_messages_keep_their_deadlines_when_the_settings_change(node: SimNode) -> None:
    queue = declared(node)
    publish(node, queue, message("old", persistent=True))
    queue.apply_settings(QueueSettings(message_ttl_ms=100))
    publish(node, queue, message("new", persistent=True))
    queue.apply_settings(NO_SETTINGS)
    node.sleep(1)
    assert queue.message_count() == 2
    assert drained(queue) == ["old"]


# -- queues -----------------------------------------------------------------------------------------


def test_a_queue_that_nobody_uses_expires(node: SimNode) -> None:
    declared(node, expires=400)
    declared(node, "other", expires=1000)
    node.sleep(0.3)
    assert len(node.vhost.queues) == 2
    node.sleep(0.11)
    assert list(node.vhost.queues) == ["other"]
    node.sleep(1)
    node.settle()
    assert not node.vhost.queues
    assert not node.definitions.of_kind("queue")


@pytest.mark.parametrize("use", ["get", "declare", "passive"])
def test_uses_of_a_queue(node: SimNode, use: str) -> None:
    client = Client(node).open(1)
    arguments = typed(expires=400)
    declare = m.QueueDeclare("q", arguments=arguments)
    client.call(declare, m.QueueDeclareOk)
    method: m.Method = {
        "get": m.BasicGet("q"), "declare": declare, "passive": m.QueueDeclare("q", passive=True)
    }[use]  # fmt: skip
    for _ in range(4):
        node.sleep(0.3)
        client.send(method)
    assert "q" in node.vhost.queues
    node.sleep(0.3)
    assert "q" in node.vhost.queues
    client.publish(b"a publish is no use", "q", properties=TRANSIENT)
    node.sleep(0.2)
    assert "q" not in node.vhost.queues


def test_a_queue_with_a_consumer_does_not_expire(node: SimNode) -> None:
    client = Client(node).open(1)
    client.call(m.QueueDeclare("q", arguments=typed(expires=400)), m.QueueDeclareOk)
    client.call(m.BasicConsume("q", "c"), m.BasicConsumeOk)
    node.sleep(2)
    client.publish(b"m", "q")
    node.quiet()
    assert "q" in node.vhost.queues
    client.take()
    client.call(m.BasicCancel("c"), m.BasicCancelOk)
    node.sleep(0.3)
    assert "q" in node.vhost.queues
    node.sleep(0.2)
    assert "q" not in node.vhost.queues


def test_time_begins_anew_with_a_start(node: SimNode) -> None:
    declared(node, expires=400)
    node.sleep(0.3)
    node.settle()
    node = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    node.sleep(0.3)
    assert "q" in node.vhost.queues
    node.sleep(0.2)
    assert "q" not in node.vhost.queues


def test_a_queue_that_cannot_be_removed_goes_when_the_store_works_again(node: SimNode) -> None:
    declared(node, expires=400)
    node.fail_definitions(StoreFailed("s", "disk full"))
    node.sleep(0.5)
    assert "q" in node.vhost.queues
    node.heal_definitions()
    node.settle()
    assert "q" not in node.vhost.queues


# -- settings and timers ----------------------------------------------------------------------------


def test_the_smallest_of_argument_and_policies_counts() -> None:
    arguments = typed(message_ttl=50, foo=1)
    assert effective_settings({}) is NO_SETTINGS
    assert effective_settings(arguments) == QueueSettings(message_ttl_ms=50)
    found = effective_settings(arguments, {"message-ttl": 40, "expires": 9}, {"expires": 7})
    assert found == QueueSettings(message_ttl_ms=40, expires_ms=7)
    assert effective_settings(arguments, {"message-ttl": 60}).message_ttl_ms == 50


def test_one_timer_of_the_loop_for_all_queues() -> None:
    pending: list[tuple[float, Any]] = []
    now = 1_000_000

    class Handle:
        def cancel(self) -> None:
            pending.clear()

    def call_later(seconds: float, call: Any) -> Handle:
        pending.append((seconds, call))
        return Handle()

    class Called:
        def __init__(self) -> None:
            self.calls: list[int] = []

        def timer_due(self, now_us: int) -> None:
            self.calls.append(now_us)

    timers = QueueTimers(call_later, lambda: now, at_once)
    queues = [Called() for _ in range(4)]
    set_ones = [timers.set(queues[number], 1_000_000 * (5 - number)) for number in range(4)]
    assert [seconds for seconds, _ in pending] == [1.0]
    timers.cancel(set_ones[3])
    timers.cancel(set_ones[3])
    now = 3_500_000
    pending.pop()[1]()
    assert [queue.calls for queue in queues] == [[], [], [now], []]
    assert [seconds for seconds, _ in pending] == [0.5]
    now = 10_000_000
    pending.pop()[1]()
    assert [len(queue.calls) for queue in queues] == [1, 1, 1, 0]
    assert not pending
    for _ in range(500):
        timers.cancel(timers.set(queues[0], now + 3_600_000_000))
    assert len(timers._heap) < 250
    assert pending[0][0] == 60.0, "the wall clock may be set while it sleeps"


@pytest.mark.parametrize(
    "method",
    [m.BasicNack(1, False, True), m.BasicNack(1, True, True), m.BasicReject(1, True), m.BasicRecover(True)],
    ids=["nack", "nack multiple", "reject", "recover"],
)
def test_what_returns_before_the_timer_does_not_keep_what_is_over(node: SimNode, method: m.Method) -> None:
    """The loop reads a client's frames before it lets timers go off."""
    queue = declared(node)
    client = Client(node).open(1)
    publish(node, queue, message("old"), timed(node, "short", 0.1))
    client.send(m.BasicGet("q", False))
    node.clock.now += 0.2
    node.tick.now_us = node.clock.wall_us()
    client.send(method)
    node.sleep(0)
    assert (queue.expired_total, drained(queue)) == (1, ["old"])


@pytest.mark.parametrize("durable", [False, True])
def test_get_does_not_count_a_next_one_whose_time_is_over(node: SimNode, durable: bool) -> None:
    client = Client(node).open(1)
    queue = declared(node, durable=durable)
    publish(node, queue, message("0", persistent=True), timed(node, "1", 1.0), message("2", persistent=True))
    node.sleep(2.0)
    assert queue.message_count() == 3  # it is not the head
    assert client.call(m.BasicGet("q"), m.BasicGetOk).message_count == 1
    node.settle()
    assert drained(queue) == numbers(2)
