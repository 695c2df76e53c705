"""Moves that end before all is moved, and those that wait."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from amqp_router import queue_maker
from tests.nodes import SimNode, SimUser
from tests.toys.late_queue import LateQueue
from tests.vhosts.moving import OPTIONS, begun, failing, fill, kept, moved, target, tiny, void
from tests.vhosts.queues.local import Sink, declared, drained, numbers
from vhosts.move_target import Target
from vhosts.moves import BLOCKED, DONE, ENDING, FAILED, RUNNING, STOPPED


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


@pytest.fixture(params=["whole", "tiny"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, and with a slice of two messages and a window of three."""
    if request.param == "tiny":
        tiny(monkeypatch)


# -- ends ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
@pytest.mark.parametrize("limit", [{"max_length": 5}, {"max_length_bytes": 5}])
def test_a_full_target(node: SimNode, overflow: str, limit: dict[str, Any]) -> None:
    dead = declared(node, "dead")
    source = declared(node, "a")
    to = declared(
        node, "b", overflow=overflow, dead_letter_exchange="", dead_letter_routing_key="dead", **limit
    )
    fill(source, 10)
    failing(node, begun(node, source, to), "queue 'b' in vhost '/' is full")
    assert (to.message_count(), dead.message_count()) == (5, 0)
    assert (source.message_count(), source.unacked_count) == (5, 0)
    left = drained(source)
    assert [*drained(to), *left] == numbers(*range(10))


def test_a_ready_consumer_makes_room(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b", max_length=1)
    sink = Sink(to, no_ack=True)
    node.enter(to.add_consumer, sink)
    fill(source, 10)
    assert moved(node, source, to).state == DONE
    assert sink.got == numbers(*range(10))


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("turns", range(6))
def test_stopped(node: SimNode, turns: int) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 200)
    node.settle()
    move = begun(node, source, to)
    for _ in range(turns):
        node.turn()
    node.enter(move.stop)
    assert move.state == ENDING
    node.settle()
    assert (move.state, move.reason) == (STOPPED, "")
    kept(node, move, source, to, 200)


@pytest.mark.parametrize("turns", range(5))
def test_the_source_is_deleted(node: SimNode, monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 10)
    node.settle()
    move = begun(node, source, to)
    for _ in range(turns):
        node.turn()
    node.enter(lambda: void(node.vhost.delete_queue("a")))
    failing(node, move, "queue 'a' in vhost '/' was deleted")
    assert (source.unacked_count, node.budget.held) == (0, 0)
    assert drained(to) == numbers(*range(move.moved))
    assert not node.faults


@pytest.mark.parametrize("turns", range(5))
def test_the_target_is_deleted(node: SimNode, monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 10)
    node.settle()
    move = begun(node, source, to)
    for _ in range(turns):
        node.turn()
    node.enter(lambda: void(node.vhost.delete_queue("b")))
    declared(node, "b")  # another one of its name gets nothing
    failing(node, move, "queue 'b' in vhost '/' was deleted")
    assert node.queue("b").is_empty()
    assert drained(source) == numbers(*range(move.moved, 10))
    assert not node.faults


def test_the_exchange_is_deleted(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch)
    node.vhost.declare_exchange("x", "fanout", durable=True)
    source, to = declared(node, "a"), declared(node, "b")
    node.vhost.bind_queue("b", "x", "", {}, None)
    fill(source, 10)
    node.settle()
    move = begun(node, source, target(node, exchange="x"))
    node.turn()
    node.enter(lambda: void(node.vhost.delete_exchange("x")))
    failing(node, move, "no exchange 'x' in vhost '/'")
    kept(node, move, source, to, 10)


def test_a_route_back_to_the_source(node: SimNode) -> None:
    source = declared(node, "a")
    node.vhost.bind_queue("a", "amq.fanout", "", {}, None)
    fill(source, 3)
    move = begun(node, source, target(node, exchange="amq.fanout"))
    failing(node, move, "exchange 'amq.fanout' routes the key 'q' back to queue 'a' in vhost '/'")
    assert drained(source) == numbers(0, 1, 2)


def test_the_user_may_no_longer_publish(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 10)
    node.settle()
    cache = node.route_cache(SimUser("guest", node.permissions), node.vhost, node.permissions)
    move = begun(node, source, Target(node.vhost.table, cache, to, routing_key="b"))
    node.turn()
    node.permissions.refused.add(("write", "exchange", ""))
    node.vhost.table.changed()
    failing(node, move, "access to exchange '' in vhost '/' refused for user 'guest'")
    kept(node, move, source, to, 10)


@pytest.mark.parametrize(
    ("error", "reason"), [(errno.EIO, "its log failed"), (errno.ENOSPC, "its log cannot be written for now")]
)
@pytest.mark.parametrize("after", range(3))
def test_the_disk_of_the_target_fails(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, error: int, reason: str, after: int
) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 20)
    node.settle()
    node.disk.fail("write", to.incarnation, error=error, after=after)
    move = begun(node, source, to)
    node.settle()
    assert move.state == FAILED
    assert move.reason.startswith(f"queue 'b' in vhost '/' takes no messages: {reason}")
    assert source.unacked_count == 0
    assert drained(source) == numbers(*range(move.moved, 20))
    assert not node.faults


def test_the_source_has_failed(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 10)
    node.settle()
    source.set_failed("its log failed: on purpose")
    move = begun(node, source, to)
    failing(node, move, "queue 'a' in vhost '/' cannot be used: its log failed: on purpose")


def test_the_source_cannot_be_read_for_now(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 500)
    node.settle()
    node.disk.fail("read", source.incarnation, error=errno.ENOMEM)
    move = begun(node, source, to)
    node.settle()
    assert move.state == FAILED
    assert "messages" in move.reason or "cannot be used" in move.reason
    node.disk.hook = None
    assert move.moved == to.message_count() < 500


def test_an_alarm_makes_it_wait(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a", durable=False), declared(node, "b", durable=False)
    fill(source, 10, persistent=False)
    move = begun(node, source, to)
    node.turn()
    node.alarms.set("disk")
    node.settle()
    assert (move.state, move.moved) == (BLOCKED, 2)
    node.enter(move.go_on)
    node.settle()
    assert (move.state, move.moved) == (BLOCKED, 2)
    node.alarms.clear("disk")
    node.enter(move.go_on)
    assert move.state in (RUNNING, BLOCKED)
    node.settle()
    assert (move.state, move.moved) == (DONE, 10)


def test_one_that_waits_for_an_alarm_can_be_stopped(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 10)
    node.alarms.set("disk")
    move = begun(node, source, to)
    node.settle()
    assert move.state == BLOCKED
    node.enter(move.stop)
    node.settle()
    assert (move.state, source.message_count()) == (STOPPED, 10)


@pytest.fixture
def late(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> LateQueue:
    monkeypatch.setattr(queue_maker, "Queue", LateQueue)
    found = declared(node, "late")
    assert isinstance(found, LateQueue)
    monkeypatch.undo()
    fill(found, 3)
    return found


def answer(node: SimNode, late: LateQueue) -> None:
    node.enter(late.questions.pop(0).arrive)
    node.settle()


# -- a source whose answers come later ----------------------------------------------------------------


def test_late_answers(node: SimNode, late: LateQueue) -> None:
    to = declared(node, "b")
    move = begun(node, late, to)
    node.settle()
    for count in range(3):
        assert (move.waits_for_answer, move.moved) == (True, count)
        answer(node, late)
    assert (move.state, move.moved) == (DONE, 3)
    assert drained(to) == numbers(0, 1, 2)


def test_an_answer_after_the_end_goes_back(node: SimNode, late: LateQueue) -> None:
    move = begun(node, late, declared(node, "b"))
    node.settle()
    node.enter(move.stop)
    node.settle()
    assert move.state == STOPPED
    answer(node, late)
    assert (late.message_count(), late.unacked_count) == (3, 0)
