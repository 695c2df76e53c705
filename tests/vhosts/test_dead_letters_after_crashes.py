"""Stops and crashes lose no dead letter, and send none twice."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from tests.nodes import SimNode
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.support import unsettled
from tests.vhosts.dying import OPTIONS, TO_DEAD, made, publish
from tests.vhosts.queues.local import declared, drained, text_of
from vhosts import dead_letters


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


@pytest.mark.parametrize("seed", range(100))
def test_a_crash_loses_no_letter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the power fails: each message is in the source or in the target, or in both."""
    monkeypatch.setattr(dead_letters, "SLICE", 3)
    random = Random(seed)
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue = declared(node, "src", message_ttl=1000, **TO_DEAD)
    declared(node, "dead")
    publish(node, queue, *[made(b"%d" % number) for number in range(20)])
    timers = node.clock.advance(2)
    node.tick.now_us = node.clock.wall_us()
    disk.steps_left = random.randrange(30)
    with contextlib.suppress(PowerLoss):
        for timer in timers:
            node.enter(timer.go_off)
        for _ in range(200):
            choice = random.randrange(4)
            if choice == 0:
                node.turn()
            elif choice == 1:
                node.work()
            elif choice == 2 and node.posted:
                node.hear()
            elif choice == 3:
                # Then the source's log may be durable before the target's.
                node.enter(queue.publish, made(b"later"))
    disk.steps_left = -1
    disk.power_loss(random)
    node = SimNode(disk, node.definitions, boot=2, log_options=OPTIONS)
    node.clock.now = 1000.0
    node.tick.now_us = 0
    left = [text_of(found) for found in iter(lambda: node.queue("src").take(False), None)]
    came = drained(node.queue("dead"))
    assert {*left, *came} - {"later"} == {str(number) for number in range(20)}
    assert came == sorted(set(came), key=int)


@pytest.mark.parametrize("is_cut_again", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_letter_that_came_before_a_crash_does_not_come_again(seed: int, is_cut_again: bool) -> None:
    """Whenever the power fails: the next start sends what may be lost, and each target takes it once."""
    random = Random(seed)
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue = declared(node, "src", message_ttl=1000, **TO_DEAD)
    declared(node, "dead")
    publish(node, queue, *[made(b"%d" % number) for number in range(20)])
    for boot in range(2, 4 if is_cut_again else 3):
        timers = node.clock.advance(2)
        node.tick.now_us = node.clock.wall_us()
        disk.steps_left = random.randrange(30)
        with contextlib.suppress(PowerLoss):
            for timer in timers:
                node.enter(timer.go_off)
            for _ in range(200):
                random.choice([node.turn, node.work, node.hear if node.posted else node.turn])()
        disk.steps_left = -1
        disk.power_loss(random)
        node = SimNode(disk, node.definitions, boot=boot, log_options=OPTIONS)
    for _ in range(5):
        timers = node.clock.advance(2)
        node.tick.now_us = node.clock.wall_us()
        for timer in timers:
            node.enter(timer.go_off)
        node.settle()
    assert node.queue("src").message_count() == 0
    came = drained(node.queue("dead"))
    assert sorted(came, key=int) == [str(number) for number in range(20)]


def test_a_letter_is_not_taken_for_that_of_a_message_which_a_crash_took_back() -> None:
    """The target has the letter of a message that its own log lost, and the next message gets its offset."""
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue, dead = declared(node, "src", message_ttl=1000, **TO_DEAD), declared(node, "dead")
    big = b"x" * 200_000  # their logs are synced one by one, in the second round the target's first
    node.enter(dead.publish, made(big))
    node.enter(dead.publish, made(big))
    node.enter(queue.publish, made(big, expiration="0"))
    node.quiet()
    assert queue.log is not None
    lost = queue.log.end - 1

    def fail(operation: str, path: str) -> None:
        if operation == "sync" and f"/{queue.incarnation}/0/" in path and path.endswith(".log"):
            raise PowerLoss

    disk.hook = fail
    with pytest.raises(PowerLoss):
        node.settle()
    disk.hook = None
    disk.power_loss(Random(4))
    node = SimNode(disk, node.definitions, boot=2, log_options=OPTIONS)
    queue, dead = node.queue("src"), node.queue("dead")
    assert (queue.message_count(), dead.message_count()) == (0, 3)
    publish(node, queue, made(b"next"))
    assert queue.log is not None
    assert unsettled(queue.log) == [lost]
    disk.power_loss(Random(4))
    node = SimNode(disk, node.definitions, boot=3, log_options=OPTIONS)
    node.sleep(2)
    node.settle()
    assert node.queue("src").message_count() == 0
    assert drained(node.queue("dead"))[3:] == ["next"]


def test_a_letter_whose_queue_was_stored_by_the_stop_does_not_come_again() -> None:
    """The stop stores definitions last, so the letter is safe when its queue's log is closed."""
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue = declared(node, "src", max_length=1, **TO_DEAD)
    node.vhost.declare_queue("dead", durable=True)
    node.quiet()
    assert node.definitions.pending
    for number in range(3):
        node.enter(queue.publish, made(b"%d" % number))
    node.quiet()
    node.stop()
    node = SimNode(disk, node.definitions, boot=2, log_options=OPTIONS)
    node.settle()
    assert drained(node.queue("src")) == ["2"]
    assert drained(node.queue("dead")) == ["0", "1"]
