"""Dead letters that go round: RabbitMQ ends a cycle in which nobody rejected the message.

Expectations are those measured with RabbitMQ 3.10.8.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.nodes import SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.dying import OPTIONS, TO_DEAD, deaths, letter, made, plain, publish, reject
from tests.vhosts.fakes import FakeQueue
from tests.vhosts.queues.local import declared, drained
from vhosts import dead_letters
from vhosts import letter as letters


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


def test_a_cycle_that_nobody_rejected_ends(node: SimNode) -> None:
    queue = declared(node, "cy", message_ttl=50, dead_letter_exchange="", dead_letter_routing_key="cy")
    publish(node, queue, made())
    for _ in range(3):
        node.sleep(0.1)
        node.settle()
    assert queue.is_empty()
    assert unsettled(queue.log) == []


def test_a_cycle_by_length_ends(node: SimNode) -> None:
    queue = declared(node, "cy", max_length=1, dead_letter_exchange="", dead_letter_routing_key="cy")
    publish(node, queue, made(b"1"), made(b"2"))
    assert drained(queue) == ["2"]


@pytest.mark.parametrize("count", [2, 10])
def test_of_many_queues_only_that_of_the_cycle_is_left_out(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(letters, "WIDE", 4)
    node.vhost.declare_exchange("all", "fanout")
    queue = declared(node, "src", max_length=1, dead_letter_exchange="all")
    others = [declared(node, f"q{number}") for number in range(count - 1)]
    for each in (queue, *others):
        node.vhost.bind_queue(each.name, "all", "", {}, None)
    for each_made in (made(b"1"), made(b"2")):
        each_made.route = b"\x00\x03src"
        node.enter(queue.publish, each_made)
    seen = looked_at(node)
    while node.ready or node.work() or node.posted:
        if node.posted:
            node.hear()
        node.turn()
        seen |= looked_at(node)
    assert drained(queue) == ["2"]
    assert [drained(each) for each in others] == [["1"]] * (count - 1)
    assert seen == (set() if count == 2 else {4, 8})


def looked_at(node: SimNode) -> set[int]:
    """How many queues of their routes letters have looked at so far, those that need more than one turn."""
    under_way = [each for each in node.vhost.dead_letters._letters if each is not None]
    return {each.sift.looked_at for each in under_way if each.sift is not None}


def test_a_retry_loop_with_rejections_goes_on(node: SimNode) -> None:
    work = declared(node, "work", dead_letter_exchange="", dead_letter_routing_key="retry")
    declared(node, "retry", message_ttl=60, dead_letter_exchange="", dead_letter_routing_key="work")
    publish(node, work, made(b"retry"))
    for _ in range(3):
        reject(node, work)
        node.sleep(0.1)
        node.settle()
    _, properties = letter(work)
    counts = [(plain(each)["queue"], plain(each)["count"]) for each in deaths(properties)]
    assert counts == [("retry", ("l", 3)), ("work", ("l", 3))]


def test_a_long_chain_of_queues_needs_no_stack(node: SimNode) -> None:
    count = 300
    for number in range(count):
        declared(
            node,
            f"q{number}",
            max_length=0,
            dead_letter_exchange="",
            dead_letter_routing_key=f"q{number + 1}",
        )
    last = declared(node, f"q{count}")
    publish(node, node.queue("q0"), made(b"far"))
    found, properties = letter(last)
    assert found.body() == b"far"
    assert len(deaths(properties)) == count


class Touched(FakeQueue):
    """Counts its turns."""

    turns = 0

    def touch(self) -> None:
        self.turns += 1


def test_very_many_queues_that_wait_for_room_have_their_turn_in_slices(node: SimNode) -> None:
    """100,000 of them all had it as soon as there was room for one letter."""
    dead, queue = declared(node, "dead"), declared(node, **TO_DEAD)
    publish(node, queue, made())
    waiting = [Touched() for _ in range(6 * dead_letters.WAKE_SLICE)]
    for each in waiting:
        node.vhost.dead_letters.wait(each)
    taken = queue.take(False)
    assert taken is not None
    node.enter(queue.settle, taken, 2)
    counts = [0]
    while node.ready or node.posted or node.work():
        if node.ready:
            node.ready.popleft()()
        elif node.posted:
            node.hear()
        counts.append(sum(each.turns for each in waiting))
    assert [each.turns for each in waiting] == [1] * len(waiting)
    assert max(after - before for before, after in pairwise(counts)) <= 2 * dead_letters.WAKE_SLICE
    assert letter(dead)
