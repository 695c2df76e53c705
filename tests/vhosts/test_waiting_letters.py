"""Dead letters that a target refuses, through a whole node: they come by themselves, once."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from amqp_router.protocol.flags import PERSISTENT as PERSISTENT_FLAG
from amqp_router.protocol.message import Message, build_message
from persistence.options import LogOptions
from tests.nodes import PERSISTENT, TRANSIENT, SimNode
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import unsettled
from tests.vhosts.queues.local import declared, drained
from vhosts.queues.queue import Queue
from vhosts.queues.state import REFUSING, WORKING
from vhosts.queues.timers import TIMER_BYTES
from vhosts.waiting_letters import ENTRY_BYTES, LINE_BYTES, LONGEST_US, WaitingRoom

OPTIONS = LogOptions(batch_bytes_max=4000)
FULL: dict[str, Any] = {"max_length": 1, "overflow": "reject-publish"}


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


def source(node: SimNode, target: str = "dead", exchange: str = "", name: str = "src") -> Queue:
    return declared(
        node, name, message_ttl=1000, dead_letter_exchange=exchange, dead_letter_routing_key=target
    )


def made(text: Any, *, persistent: bool = True) -> Message:
    built = build_message(b"\x00\x03src", PERSISTENT if persistent else TRANSIENT, str(text).encode())
    built.flags = PERSISTENT_FLAG if persistent else 0
    return built


def expire(node: SimNode, queue: Queue, *texts: Any, persistent: bool = True) -> None:
    """Messages are published and die."""
    for text in texts:
        node.enter(queue.publish, made(text, persistent=persistent))
    node.settle()
    wait(node, 1.5)


def wait(node: SimNode, seconds: float) -> None:
    node.sleep(seconds)
    node.settle()


def waiting(node: SimNode) -> WaitingRoom:
    return node.vhost.dead_letters.waiting


def test_letters_for_a_full_queue_come_when_it_has_room_in_their_order(node: SimNode) -> None:
    queue, dead = source(node), declared(node, "dead", **FULL)
    kept = node.budget.kept
    expire(node, queue, *range(5))
    assert waiting(node).count == 4
    assert len(unsettled(queue.log)) == 4
    assert [tuple(each) for each in waiting(node).lines()] == [("src", "dead", 4, "it is full")]
    came = []
    for _ in range(5):
        came += drained(dead)
        wait(node, LONGEST_US / 1e6)
    assert came == ["0", "1", "2", "3", "4"]
    assert waiting(node).count == 0
    assert list(waiting(node).lines()) == []
    assert unsettled(queue.log) == []
    assert node.budget.used == 0
    assert node.budget.kept == kept + dead.remembered


def test_many_letters_come_in_slices_as_soon_as_there_is_room(node: SimNode) -> None:
    count = 1500
    queue, dead = source(node), declared(node, "dead", max_length=0, overflow="reject-publish")
    before = node.budget.kept
    expire(node, queue, *range(count))
    assert waiting(node).count == count
    assert node.budget.kept - before == ENTRY_BYTES * count + LINE_BYTES + TIMER_BYTES
    assert node.budget.used == 0
    dead.obey({"max-length": count + 10})
    dead.arguments = {}
    dead.obey({})
    wait(node, LONGEST_US / 1e6)
    assert drained(dead) == [str(number) for number in range(count)]
    assert unsettled(queue.log) == []
    assert node.budget.kept == before + dead.remembered


def test_the_pause_grows_and_a_line_costs_one_attempt(node: SimNode) -> None:
    queue, dead = source(node), declared(node, "dead", max_length=0, overflow="reject-publish")
    expire(node, queue, *range(20))
    before = dead.rejected_total
    for _ in range(400):
        wait(node, 0.25)
    # After 1, 2, 4, 8, 16, 30 and 30 seconds.
    assert dead.rejected_total - before in (6, 7)


def test_a_new_letter_does_not_overtake_those_that_wait(node: SimNode) -> None:
    queue, dead = source(node), declared(node, "dead", **FULL)
    expire(node, queue, "1", "2")
    assert drained(dead) == ["1"]
    node.enter(queue.publish, made("3"))
    node.settle()
    came = []
    for _ in range(4):
        wait(node, LONGEST_US / 1e6)
        came += drained(dead)
    assert came == ["2", "3"]


def test_another_target_does_not_wait(node: SimNode) -> None:
    declared(node, "full", max_length=0, overflow="reject-publish")
    free = declared(node, "free")
    expire(node, source(node, "full"), "1")
    expire(node, source(node, "free", name="other"), "2")
    assert drained(free) == ["2"]
    assert waiting(node).count == 1


def test_a_target_that_took_the_letter_does_not_get_it_again(node: SimNode) -> None:
    node.vhost.declare_exchange("dlx", "fanout")
    queue = source(node, exchange="dlx")
    free, plain, dead = (
        declared(node, "free"),
        declared(node, "plain", durable=False),
        declared(node, "dead", **FULL),
    )
    for name in ("free", "plain", "dead"):
        node.vhost.bind_queue(name, "dlx", "", {}, None)
    expire(node, queue, "1", "2", "3")
    assert drained(dead) == ["1"]
    came = []
    for _ in range(5):
        wait(node, 2 * LONGEST_US / 1e6)
        came += drained(dead)
    assert came == ["2", "3"]
    assert drained(free) == drained(plain) == ["1", "2", "3"]
    assert unsettled(queue.log) == unsettled(free.log) == []


def test_a_letter_that_is_sent_again_goes_to_what_was_bound_meanwhile(node: SimNode) -> None:
    """As RabbitMQ's letters that are sent at least once. Those that the full queue took do not."""
    node.vhost.declare_exchange("dlx", "fanout")
    queue, dead, new = source(node, exchange="dlx"), declared(node, "dead", **FULL), declared(node, "new")
    node.vhost.bind_queue("dead", "dlx", "", {}, None)
    expire(node, queue, "1", "2")
    node.vhost.bind_queue("new", "dlx", "", {}, None)
    for _ in range(3):
        wait(node, 2 * LONGEST_US / 1e6)
    assert drained(new) == ["2"]
    assert drained(dead) == ["1"]


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_target_whose_disk_is_full_for_a_while(node: SimNode, operation: str) -> None:
    """Its log gets what it had, later; the letter must not come twice, nor be settled before."""
    queue, dead = source(node), declared(node, "dead")
    node.enter(queue.publish, made("1"))
    node.settle()
    node.disk.fail(operation, dead.incarnation, error=errno.ENOSPC)
    wait(node, 1.5)
    assert dead.state == REFUSING
    assert len(unsettled(queue.log)) == 1
    assert waiting(node).count == 1
    for _ in range(3):
        wait(node, 40)
        assert len(unsettled(queue.log)) == 1
    node.disk.hook = None
    for _ in range(3):
        wait(node, 40)
    assert dead.state == WORKING
    assert unsettled(queue.log) == []
    assert waiting(node).count == 0
    assert drained(dead) == ["1"]


def test_letters_that_no_log_has_are_dropped_and_counted(node: SimNode) -> None:
    declared(node, "dead", max_length=0, overflow="reject-publish")
    expire(node, source(node), "1", "2", persistent=False)
    assert waiting(node).count == 0
    assert node.vhost.dead_letters.dropped_total == 2
    assert node.budget.used == 0


def test_without_an_exchange_they_go(node: SimNode) -> None:
    """That is how an operator gets rid of them."""
    queue = source(node)
    declared(node, "dead", max_length=0, overflow="reject-publish")
    expire(node, queue, "1", "2")
    queue.arguments = {}
    queue.obey({})
    wait(node, 60)
    assert waiting(node).count == 0
    assert unsettled(queue.log) == []


@pytest.mark.parametrize("which", ["src", "dead"])
def test_a_queue_that_is_deleted_ends_its_lines(node: SimNode, which: str) -> None:
    before = node.budget.kept
    queue = source(node)
    declared(node, "dead", max_length=0, overflow="reject-publish")
    kept = node.budget.kept
    expire(node, queue, "1", "2")
    assert node.budget.kept > kept
    node.vhost.delete_queue(which)
    node.settle()
    wait(node, 60)
    assert list(waiting(node).lines()) == []
    node.vhost.delete_queue("src" if which == "dead" else "dead")
    node.settle()
    assert node.budget.kept == before


def test_without_room_in_memory_they_wait_for_the_next_start() -> None:
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS, memory_limit=1 << 20)
    queue = source(node)
    declared(node, "dead", max_length=0, overflow="reject-publish")
    node.budget.kept += 1 << 18
    expire(node, queue, "1", "2")
    node.budget.kept -= 1 << 18
    assert waiting(node).count == 0
    assert waiting(node).left_total == 2
    assert len(unsettled(queue.log)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_loses_none_that_wait(seed: int) -> None:
    """Whenever the power fails, the next start has each in its queue or in the target, once."""
    random = Random(seed)
    disk = SimDisk()
    node = SimNode(disk, log_options=OPTIONS)
    queue, dead = source(node), declared(node, "dead")
    dead.obey({"max-length": 2, "overflow": "reject-publish"})
    expire(node, queue, *range(12))
    for length in range(3, random.randrange(4, 9)):
        dead.obey({"max-length": length, "overflow": "reject-publish"})
        node.settle()
        timers = node.clock.advance(random.randrange(40))
        node.tick.now_us = node.clock.wall_us()
        for timer in timers:
            node.enter(timer.go_off)
        for _ in range(random.randrange(20)):
            random.choice([node.turn, node.work, node.hear if node.posted else node.turn])()
    disk.power_loss(random)
    node = SimNode(disk, node.definitions, boot=2, log_options=OPTIONS)
    node.settle()
    wait(node, 40)
    assert waiting(node).count == 0
    assert drained(node.queue("dead")) == [str(number) for number in range(12)]
