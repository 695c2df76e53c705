"""Very many dead letters go in slices, and large ones whole."""

from __future__ import annotations

import pytest

from tests.nodes import SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.dying import OPTIONS, TO_DEAD, letter, made, publish, reject
from tests.vhosts.queues.local import declared, drained, message
from vhosts import dead_letters
from vhosts.waiting_letters import ENTRY_BYTES, LINE_BYTES


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


def test_very_many_die_in_slices_in_their_order(node: SimNode) -> None:
    count = 3 * dead_letters.ROOM
    queue, dead = declared(node, "src", message_ttl=1000, **TO_DEAD), declared(node, "dead")
    for number in range(count):
        queue.publish(message(number, persistent=True))
    node.settle()
    longest = most = 0
    timers = node.clock.advance(1.5)
    node.tick.now_us = node.clock.wall_us()
    for timer in timers:
        node.enter(timer.go_off)
    for _ in range(100_000):
        if not node.ready and not node.work() and not node.posted:
            break
        if node.posted:
            node.hear()
        before = dead.message_count()
        node.turn()
        longest = max(longest, dead.message_count() - before)
        under_way = node.vhost.dead_letters
        most = max(most, under_way.count())
    assert longest <= 3 * dead_letters.SLICE
    assert most <= dead_letters.ROOM
    assert drained(dead) == [str(number) for number in range(count)]
    assert unsettled(queue.log) == []


@pytest.mark.parametrize("persistent", [True, False])
def test_very_many_rejected_together_are_sent_in_turn(node: SimNode, *, persistent: bool) -> None:
    """Those that the log has take 8 bytes each until their turn comes; few are on their way at a time."""
    count = 5 * dead_letters.ROOM
    queue, dead = declared(node, "src", **TO_DEAD), declared(node, "dead")
    for number in range(count):
        node.enter(queue.publish, made(str(number).encode(), persistent=persistent))
    node.settle()
    kept, held = node.budget.kept, node.budget.held
    taken = list(iter(lambda: queue.take(False), None))
    for each in taken:
        if persistent:
            each.content = None
        queue.settle(each, 2)
    under_way = node.vhost.dead_letters
    waiting = count - dead_letters.ROOM
    if persistent:
        assert len(under_way._letters) == dead_letters.ROOM
        assert node.budget.kept - kept == ENTRY_BYTES * waiting + LINE_BYTES
        assert node.budget.held - held == dead_letters.ROOM * dead_letters.LETTER_BYTES
    else:
        assert node.budget.held - held == count * dead_letters.LETTER_BYTES
    most = 0
    for _ in range(100_000):
        if not node.ready and not node.work() and not node.posted:
            break
        if node.posted:
            node.hear()
        node.turn()
        most = max(most, len(under_way._unsafe))
    assert most <= dead_letters.ROOM + dead_letters.SLICE
    assert drained(dead) == [str(number) for number in range(count)]
    node.settle()
    assert unsettled(queue.log) == []
    assert (node.budget.used, node.budget.held) == (0, held)
    assert node.budget.kept == kept + dead.remembered


def test_large_contents_are_dead_lettered(node: SimNode) -> None:
    queue, dead = declared(node, "src", **TO_DEAD), declared(node, "dead")
    bodies = [b"x" * 20_000, b"y" * 300_000, b"z" * 1_500_000]
    publish(node, queue, *[made(body) for body in bodies])
    for _ in bodies:
        reject(node, queue)
    assert [letter(dead)[0].body() for _ in bodies] == bodies
