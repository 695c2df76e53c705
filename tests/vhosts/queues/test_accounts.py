"""What queues keep beside contents of messages is in the node's account, and leaves it in the end."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol.message import Extras, Message
from persistence.log.queue.taken import PRODUCER_BYTES, RUN_BYTES
from persistence.options import LogOptions
from tests.nodes import SimNode
from tests.vhosts.queues.local import declared, drained, message
from vhosts.exchanges.exchange import Binding
from vhosts.exchanges.topic import WORD_BYTES
from vhosts.queues.ready.priority import ENTRY_BYTES, LEVEL_BYTES
from vhosts.queues.timers import TIMER_BYTES

OPTIONS = LogOptions(batch_bytes_max=4000)


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


class Sleeper:
    def timer_due(self, now_us: int) -> None:
        raise AssertionError("it was cancelled")


def with_priority(number: int, *, durable: bool) -> Message:
    made = message(number, persistent=durable)
    made.priority = number % 5
    return made


def publish(node: SimNode, queue: Any, *messages: Message) -> None:
    for each in messages:
        node.enter(queue.publish, each)
    node.settle()


@pytest.mark.parametrize("way", ["taken", "purged", "deleted"])
@pytest.mark.parametrize("durable", [False, True])
def test_places_of_a_priority_queue(node: SimNode, way: str, *, durable: bool) -> None:
    before = node.budget.kept
    queue = declared(node, "q", durable=durable, max_priority=4)
    empty = node.budget.kept
    publish(node, queue, *[with_priority(number, durable=durable) for number in range(10_000)])
    assert node.budget.kept - empty == 10_000 * ENTRY_BYTES + 5 * LEVEL_BYTES
    if way == "taken":
        assert len(drained(queue)) == 10_000
    elif way == "purged":
        assert queue.empty() == 10_000
    node.settle()
    left = {"taken": 5 * LEVEL_BYTES, "purged": 0}
    assert way == "deleted" or node.budget.kept - empty == left[way]
    node.vhost.delete_queue("q")
    node.settle()
    assert node.budget.kept == before
    assert node.budget.used == 0


def test_places_of_a_priority_queue_after_a_start(node: SimNode) -> None:
    queue = declared(node, "q", max_priority=4)
    publish(node, queue, *[with_priority(number, durable=True) for number in range(1000)])
    node.stop()
    again = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    kept = again.budget.kept
    assert len(drained(again.queue("q"))) == 1000
    assert kept - again.budget.kept == 1000 * ENTRY_BYTES


def test_timers_of_queues(node: SimNode) -> None:
    queue = declared(node, "q", message_ttl=60_000)
    empty = node.budget.kept
    publish(node, queue, message(1))
    assert node.budget.kept - empty == TIMER_BYTES
    drained(queue)
    node.settle()
    node.sleep(61)
    node.settle()
    assert node.budget.kept == empty


def test_cancelled_timers_count_until_they_are_gone(node: SimNode) -> None:
    timers = declared(node, "any").timers_of_node()
    assert timers is not None
    before = node.budget.kept
    made = [timers.set(Sleeper(), 10_000_000_000 + number) for number in range(1000)]
    assert node.budget.kept - before == 1000 * TIMER_BYTES
    for timer in made:
        timers.cancel(timer)
    assert node.budget.kept - before <= 101 * TIMER_BYTES
    node.sleep(20_000)
    node.settle()
    assert node.budget.kept == before


def test_remembered_letters_and_producers(node: SimNode) -> None:
    before = node.budget.kept
    queue = declared(node, "q")
    empty = node.budget.kept
    for number in range(20):
        extras = Extras()
        extras.source = b"%016d" % number
        extras.source_offset = 7
        extras.session, extras.channel, extras.sequence = 3, number, 1
        made = message(number, persistent=True)
        made.extras = extras
        publish(node, queue, made)
    remembered = 20 * (RUN_BYTES + PRODUCER_BYTES)
    assert node.budget.kept - empty == remembered
    node.stop()
    again = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    assert again.budget.kept - empty == remembered
    drained(again.queue("q"))
    again.vhost.delete_queue("q")
    again.settle()
    assert again.budget.kept == before


def test_patterns_of_many_words(node: SimNode) -> None:
    node.vhost.declare_queue("q")
    queue, topic = node.queue("q"), node.vhost.exchanges["amq.topic"]
    one, four = (Binding(topic, queue, key, {}).memory_bytes() for key in ("aaaaaaa", "a.b.c.d"))
    assert four - one == 3 * WORD_BYTES
