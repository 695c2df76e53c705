"""Queues that became too long. Expectations are those measured with RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.metrics.recovered import RecoveredBytes
from amqp_router.protocol import methods as m
from amqp_router.protocol.message import Message
from amqp_router.protocol.properties import encode_properties
from persistence.options import LogOptions
from tests.nodes import PERSISTENT, Client, Received, SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.queues.local import Sink, declared, drained, message, numbers, text_of, typed
from vhosts.queues.destination import UNHEARD
from vhosts.queues.queue import Queue
from vhosts.queues.settings import QueueSettings, effective_settings

OPTIONS = LogOptions(batch_bytes_max=4000)


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


def publish(node: SimNode, queue: Queue, *texts: object) -> list[bool]:
    taken: list[bool] = []

    def call() -> None:
        taken.extend([queue.publish(message(text, persistent=True)) for text in texts])

    node.enter(call)
    node.settle()
    return taken


def confirms(client: Client) -> list[tuple[str, int, bool]]:
    found = [each.method for each in client.take()]
    return [
        ("ack" if isinstance(each, m.BasicAck) else "nack", each.delivery_tag, each.multiple)
        for each in found
        if isinstance(each, (m.BasicAck, m.BasicNack))
    ]


def confirming(node: SimNode) -> Client:
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    return client


@pytest.mark.parametrize("durable", [False, True])
def test_drop_head(node: SimNode, durable: bool) -> None:
    client = confirming(node)
    queue = declared(node, durable=durable, max_length=2)
    for text in (b"0", b"1", b"2", b"3"):
        client.publish(text, "q", properties=PERSISTENT)
    assert queue.message_count() == 2
    node.settle()
    assert {kind for kind, _, _ in confirms(client)} == {"ack"}
    assert drained(queue) == numbers(2, 3)
    assert (queue.dropped_total, queue.budget.used) == (2, 0)
    node.settle()
    if durable:
        assert unsettled(queue.log) == []


def test_reject_publish(node: SimNode) -> None:
    client = confirming(node)
    queue = declared(node, max_length=2, overflow="reject-publish")
    for text in (b"0", b"1", b"2", b"3"):
        client.publish(text, "q", properties=PERSISTENT)
    node.settle()
    answers = dict.fromkeys(kind for kind, _, _ in confirms(client))
    assert list(answers) == ["nack", "ack"] or list(answers) == ["ack", "nack"]
    assert drained(queue) == numbers(0, 1)
    assert (queue.rejected_total, queue.log.batches.state.live) == (2, 0)


def test_bytes_of_bodies(node: SimNode) -> None:
    queue = declared(node, max_length_bytes=10)
    publish(node, queue, "0234", "1234", "2234", "3234")
    assert drained(queue) == ["2234", "3234"]
    publish(node, queue, "x" * 11)
    assert queue.is_empty()


def test_no_message_may_stay_unless_a_consumer_takes_it(node: SimNode) -> None:
    client = confirming(node)
    queue = declared(node, max_length=0)
    client.publish(b"nobody", "q", properties=PERSISTENT)
    node.settle()
    assert confirms(client) == [("ack", 1, False)]
    client.call(m.BasicConsume("q", "c", no_ack=True), m.BasicConsumeOk)
    client.publish(b"taken", "q", properties=PERSISTENT)
    node.settle()
    found = client.take()
    assert [each.body for each in found if isinstance(each.method, m.BasicDeliver)] == [b"taken"]
    assert queue.dropped_total == 1


def test_consumers_that_take_no_more_do_not_change_which_priority_is_dropped(node: SimNode) -> None:
    """Each message that comes drops the head at once, also if nobody knows yet that no consumer is ready."""
    queue = declared(node, max_length=1, max_priority=3)
    sinks = [Sink(queue, 1), Sink(queue, 1)]
    for sink in sinks:
        queue.add_consumer(sink)
    publish(node, queue, 0, 1)
    made = [message(text) for text in ("low", "high", "highest")]
    made[1].priority, made[2].priority = 2, 3

    def call() -> None:
        for each in made:
            queue.publish(each)
        sinks[0].ack()

    node.enter(call)
    # RabbitMQ drops "high" when it comes, and "highest"; a consumer that is ready later gets what is left.
    assert (sinks[0].got, queue.dropped_total, queue.message_count()) == (["0", "low"], 2, 0)


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_only_ready_messages_count(node: SimNode, overflow: str) -> None:
    queue = declared(node, max_length=2, overflow=overflow)
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    assert publish(node, queue, 0, 1, 2, 3) == [True] * 4
    assert (queue.message_count(), queue.unacked_count) == (2, 2)
    queue.cancel(sink, UNHEARD)
    for _ in range(2):
        node.enter(sink.requeue)
        node.quiet()
    # The head goes: those that came back. Under "reject-publish" nothing that is in goes.
    left = numbers(2, 3) if overflow == "drop-head" else numbers(0, 1, 2, 3)
    assert drained(queue) == left


def test_many_that_come_back_at_once_leave_the_newest(node: SimNode) -> None:
    queue = declared(node)
    client = Client(node).open(1)
    client.call(m.BasicConsume("q", "c"), m.BasicConsumeOk)
    publish(node, queue, 0, 1, 2, 3)
    queue.apply_settings(QueueSettings(max_length=1))
    client.take()
    client.call(m.BasicCancel("c"), m.BasicCancelOk)
    client.send(m.BasicNack(0, True, True))
    assert drained(queue) == numbers(3)


def test_one_full_queue_of_two_refuses(node: SimNode) -> None:
    client = confirming(node)
    full = declared(node, "full", max_length=1, overflow="reject-publish")
    other = declared(node, "other")
    for name in ("full", "other"):
        node.vhost.bind_queue(name, "amq.fanout", "", {}, None)
    node.settle()
    for _ in range(2):
        client.publish(b"m", exchange="amq.fanout", properties=PERSISTENT)
        node.settle()
    assert [kind for kind, _, _ in confirms(client)] == ["ack", "nack"]
    assert (full.message_count(), other.message_count()) == (1, 2)


def test_limits_that_change_apply_to_what_waits(node: SimNode) -> None:
    queue = declared(node, max_length=100, overflow="reject-publish")
    publish(node, queue, *range(20))
    queue.apply_settings(QueueSettings(max_length=5, overflow="reject-publish"))
    node.quiet()
    assert queue.message_count() == 20, "nothing that is in is dropped"
    queue.apply_settings(QueueSettings(max_length=5))
    node.quiet()
    assert drained(queue) == numbers(*range(15, 20))


def test_very_many_are_dropped_in_slices_and_methods_wait_for_that(node: SimNode) -> None:
    count = 20_000
    client = Client(node).open(1)
    queue = declared(node)
    publish(node, queue, *range(count))

    def lower() -> None:
        queue.apply_settings(QueueSettings(max_length=3))

    node.enter(lower)
    client.send(m.BasicGet("q", True))
    longest = 0
    while node.ready:
        before = queue.message_count()
        node.turn()
        longest = max(longest, before - queue.message_count())
    assert 0 < longest < 5000
    [got] = client.take()
    assert isinstance(got, Received)
    assert got.body == str(count - 3).encode()
    assert queue.dropped_total == count - 3


def test_bytes_are_counted_anew_after_a_start(node: SimNode) -> None:
    queue = declared(node, max_length_bytes=10_000)
    for number in range(3000):
        queue.publish(message(number % 10, persistent=True))
    publish(node, queue, *["x" * 70] * 100)
    assert queue.message_count() == 3100
    node.stop()
    node = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    queue = node.queue("q")
    gone = [queue.take(False) for _ in range(1500)]  # some before they are counted
    taken = gone[-1]
    assert taken is not None
    turns = 0
    while node.ready:
        node.turn()
        turns += 1
    assert turns >= 2, "in slices"
    assert queue.ready.body_bytes == 1500 + 7000
    node.enter(queue.requeue, taken)
    node.quiet()
    assert queue.ready.body_bytes == 1501 + 7000
    publish(node, queue, "y" * 7000)
    assert queue.message_count() == 1 + 42
    assert drained(queue)[-1] == "y" * 7000
    assert queue.ready.body_bytes == 0


def test_octets_that_a_start_found_are_counted_with_the_ticks() -> None:
    """Nobody needs them of a queue without a limit, so no start waits for them."""
    node = SimNode(log_options=OPTIONS)
    queue = declared(node)
    publish(node, queue, *["x" * 3] * 3000)
    node.stop()
    node = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    queue = node.queue("q")
    view = queue.view()
    recovered = RecoveredBytes()
    recovered.find([queue])
    node.settle()
    assert view.body_bytes() is None
    queue.take(True)  # before it is counted
    steps = 0
    while view.body_bytes() is None:  # a tick counts for so long, which may be one slice
        counted = sum(1 for _ in recovered.count())
        assert counted > 0
        steps += counted
    assert steps > 1, "in slices"
    assert (view.body_bytes(), view.transient_bytes()) == (2999 * 3, 0)
    assert list(recovered.count()) == []
    assert drained(queue)[0] == "xxx"
    assert view.body_bytes() == 0


def test_the_argument_decides_what_overflow_does() -> None:
    arguments = typed(max_length=4, overflow="drop-head")
    found = effective_settings(arguments, {"max-length": 5, "overflow": "reject-publish"}, {"max-length": 3})
    assert (found.max_length, found.overflow) == (3, "drop-head")
    assert (
        effective_settings({}, {"max-length": 5, "overflow": "reject-publish"}).overflow == "reject-publish"
    )


@settings(deadline=None, max_examples=80)
@given(
    length=st.integers(0, 4),
    octets=st.none() | st.integers(0, 12),
    overflow=st.sampled_from(["drop-head", "reject-publish"]),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["publish"] * 3 + ["get", "return", "ack", "purge", "start"]), st.integers(1, 5)
        ),
        max_size=30,
    ),
)
def test_any_course_against_a_list(
    length: int, octets: int | None, overflow: str, steps: list[tuple[str, int]]
) -> None:
    node = SimNode(log_options=OPTIONS)
    arguments = {"max_length": length, "overflow": overflow}
    if octets is not None:
        arguments["max_length_bytes"] = octets
    queue = declared(node, **arguments)
    ready: list[str] = []
    out: dict[str, object] = {}
    serial = 0

    def is_over(texts: list[str]) -> bool:
        return len(texts) > length or (octets is not None and sum(map(len, texts)) > octets)

    for step, number in steps:
        if step == "publish":
            text = f"{serial:03}".ljust(3 + number % 3, "x")
            serial += 1
            fits = not is_over([*ready, text])
            assert publish(node, queue, text) == [overflow == "drop-head" or fits]
            if overflow == "drop-head" or fits:
                ready.append(text)
        elif step == "get":
            found = queue.take(False)
            assert (found is None) == (not ready)
            if found is not None:
                text = ready.pop(0)
                assert text_of(found) == text
                out[text] = found
        elif step in ("return", "ack") and out:
            text = sorted(out)[number % len(out)]
            found = out.pop(text)
            if step == "ack":
                queue.settle(found, 1)  # type: ignore[arg-type]
            else:
                node.enter(queue.requeue, found)
                ready = sorted([*ready, text])
        elif step == "purge":
            assert queue.empty() == len(ready)
            ready = []
        elif step == "start" and not out:
            node.settle()
            node.stop()
            node = SimNode(node.disk, node.definitions, boot=node.boot + 1, log_options=OPTIONS)
            queue = node.queue("q")
        if overflow == "drop-head":
            while is_over(ready):
                ready.pop(0)
        node.settle()
        assert queue.message_count() == len(ready)
        assert queue.ready.body_bytes == sum(map(len, ready)) or octets is None
    assert drained(queue) == ready


@pytest.mark.parametrize("durable", [False, True])
def test_the_next_head_expires_when_the_head_was_dropped(node: SimNode, durable: bool) -> None:
    queue = declared(node, durable=durable, max_length=2)
    timed = message("timed", persistent=True)
    timed.expire_ms = 1000
    publish(node, queue, "0")
    node.enter(queue.publish, timed)
    publish(node, queue, "1")  # drops "0"
    assert queue.message_count() == 2
    node.sleep(1.0)
    assert (queue.message_count(), queue.expired_total) == (1, 1)
    assert drained(queue) == ["1"]


def test_what_is_over_when_a_policy_drops_the_head_expires_at_once(node: SimNode) -> None:
    queue = declared(node)
    timed = message("timed", persistent=True)
    timed.expire_ms = 1000
    publish(node, queue, "0")
    node.enter(queue.publish, timed)
    publish(node, queue, "1")
    node.sleep(2.0)
    assert queue.message_count() == 3  # it is not the head
    node.enter(queue.apply_settings, QueueSettings(max_length=2))
    assert (queue.dropped_total, queue.expired_total) == (1, 1)
    assert drained(queue) == ["1"]


def test_a_policy_drops_what_is_over_behind_others_with_them(node: SimNode) -> None:
    queue = declared(node)
    timed = message("timed", persistent=True)
    timed.expire_ms = 1000
    publish(node, queue, "0")
    node.enter(queue.publish, timed)
    publish(node, queue, "1")
    node.sleep(2.0)
    node.enter(queue.apply_settings, QueueSettings(max_length=1))
    assert (queue.dropped_total, queue.expired_total) == (2, 0)
    assert drained(queue) == ["1"]


def test_what_is_over_has_expired_and_was_not_dropped(node: SimNode) -> None:
    """A message comes after the head's time, and before the timer that tells of it."""
    queue = declared(node, max_length=1, message_ttl=1000)
    publish(node, queue, "0")
    node.clock.now += 1.0
    node.tick.now_us = node.clock.wall_us()
    publish(node, queue, "1")
    assert (queue.dropped_total, queue.expired_total) == (0, 1)
    assert drained(queue) == ["1"]


def test_time_makes_room_for_a_message_that_would_be_refused(node: SimNode) -> None:
    queue = declared(node, max_length=1, message_ttl=1000, overflow="reject-publish")
    publish(node, queue, "0")
    node.clock.now += 1.0
    node.tick.now_us = node.clock.wall_us()
    assert publish(node, queue, "1", "2") == [True, False]
    assert (queue.rejected_total, queue.expired_total) == (1, 1)
    assert drained(queue) == ["1"]


def test_of_what_comes_back_the_oldest_leave_before_a_consumer_gets_them(node: SimNode) -> None:
    """As in RabbitMQ: a queue that gets messages back looks at its limits first, then at its consumers."""
    queue = declared(node, max_length=2)
    sink = Sink(queue)
    node.enter(lambda: queue.add_consumer(sink))
    publish(node, queue, 0, 1, 2)
    assert sink.got == numbers(0, 1, 2)

    def give_back() -> None:
        while sink.messages:
            sink.requeue()

    node.enter(give_back)
    node.settle()
    assert sink.got == numbers(0, 1, 2, 1, 2)
    assert (queue.dropped_total, queue.message_count(), queue.unacked_count) == (1, 0, 2)


@pytest.mark.parametrize("durable", [False, True])
def test_head_behind_a_dropped_one_dies_if_its_time_is_over(node: SimNode, durable: bool) -> None:
    client = Client(node).open(1)
    queue = declared(node, durable=durable, max_length=2)
    client.publish(b"0", "q", properties=PERSISTENT)
    client.publish(b"1", "q", properties=encode_properties({"delivery_mode": 2, "expiration": "0"}))
    node.settle()
    assert queue.message_count() == 2  # only the head dies
    client.publish(b"2", "q", properties=PERSISTENT)
    node.settle()
    assert (queue.dropped_total, queue.expired_total) == (1, 1)
    assert drained(queue) == numbers(2)


@pytest.mark.parametrize("dead_letters", [False, True])
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("priorities", [False, True])
@pytest.mark.parametrize("count", [3, 60, 1200])
def test_what_a_channel_gives_back_is_trimmed_before_others_get_it(
    node: SimNode, count: int, priorities: bool, durable: bool, dead_letters: bool
) -> None:
    """In one slice or in several, and with more dead letters than there is room for at once."""
    more: dict[str, Any] = {"max_priority": 3} if priorities else {}
    if dead_letters:
        declared(node, "dead")
        more |= {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    queue = declared(node, durable=durable, max_length=2, **more)
    first, second = Client(node).open(1), Client(node).open(1)
    first.call(m.BasicConsume("q", "first"), m.BasicConsumeOk)
    for number in range(count):
        made = message(number, persistent=durable)
        made.priority = 1 + number % 2
        node.enter(queue.publish, made)
    node.settle()
    assert queue.unacked_count == count
    first.take()
    second.call(m.BasicConsume("q", "second"), m.BasicConsumeOk)
    first.send(m.ChannelClose())
    node.settle()
    got = [int(found.body) for found in second.take() if isinstance(found.method, m.BasicDeliver)]
    # The head goes first: the oldest, or the oldest of the highest priority.
    left = [count - 2, count - 1]
    if priorities:
        left = [number - number % 2 for number in (count - 3, count - 1)]
    assert got == left
    assert queue.message_count() == 0
    if dead_letters:
        assert node.queue("dead").message_count() == count - 2


@pytest.mark.parametrize("how", ["return", "policy", "with a consumer"])
@pytest.mark.parametrize("count", [3, 60, 70, 1200, 5000])
def test_letters_of_what_a_quorum_queue_drops_at_once_come_the_newest_first(
    node: SimNode, count: int, how: str
) -> None:
    """In one turn or in several, and with more of them than there is room for at once."""
    dead = declared(node, "dead", durable=True)
    more: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    if how != "policy":
        more["max_length"] = 2
    queue = declared(node, durable=True, queue_type="quorum", **more)
    client, other = Client(node).open(1), Client(node).open(1)
    if how != "policy":
        client.call(m.BasicConsume("q", "c"), m.BasicConsumeOk)
    for number in range(count):
        node.enter(queue.publish, message(number))
    node.settle()
    kept = node.budget.kept
    if how == "policy":
        queue.obey({"max-length": 2})
    else:
        if how == "with a consumer":
            other.send(m.BasicQos(0, 1, False), m.BasicConsume("q", "d"))
            node.settle()
        client.send(m.ChannelClose())
    node.quiet()
    assert queue.message_count() == 2
    first = 1 if how == "with a consumer" else 0
    assert drained(dead) == numbers(*range(count - 3, first - 1, -1))
    assert node.budget.kept == kept
    assert not node.faults


def test_letters_of_what_returned_too_often_come_behind_those_of_what_is_dropped_with_it(
    node: SimNode,
) -> None:
    dead = declared(node, "dead", durable=True)
    queue = declared(
        node,
        durable=True,
        queue_type="quorum",
        delivery_limit=1,
        max_length=2,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    client = Client(node).open(1)
    client.call(m.BasicConsume("q", "c"), m.BasicConsumeOk)
    for number in range(2):
        node.enter(queue.publish, message(number))
    node.settle()
    client.send(m.BasicNack(0, True, True))
    node.settle()  # once more they may not return
    for number in range(2, 6):
        node.enter(queue.publish, message(number))
    node.settle()
    client.send(m.ChannelClose())
    node.quiet()
    assert queue.message_count() == 2
    assert drained(dead) == numbers(3, 2, 0, 1)


@pytest.mark.parametrize(("how", "bodies"), [("publish", "abcdef"), ("publish", "abecdf"), ("get", "abcedf")])
def test_a_quorum_queue_that_drops_in_turns_lets_nothing_expire_meanwhile(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, bodies: str, how: str
) -> None:
    """What is over behind what is dropped leaves with it, whatever comes between two turns."""
    monkeypatch.setattr("vhosts.queues.queue.TRIM_UNITS", 4)
    dead = declared(node, "dead", durable=True)
    queue = declared(
        node,
        durable=True,
        queue_type="quorum",
        max_length_bytes=6,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    for body in bodies:
        each = message(body)
        if body == "e":
            each.expire_ms = 100
        node.enter(queue.publish, each)
    node.settle()
    node.sleep(0.2)
    short = message("")
    short.expire_ms = 0

    def call() -> None:
        queue.publish(message("123456"))
        if how == "publish":
            queue.publish(short)
        else:
            got.append(queue.take(True))

    got: list[Message | None] = []
    node.enter(call)
    node.settle()
    taken = [text_of(each) for each in got if each is not None]
    assert taken == ([] if how == "publish" else ["c"])
    left = [body for body in bodies if body not in taken]
    assert (queue.expired_total, queue.dropped_total) == (0, len(left))
    assert drained(dead) == [*reversed(left)]
