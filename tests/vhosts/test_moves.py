"""Messages moved from one queue to another, on a whole node without sockets and clocks."""

from __future__ import annotations

import contextlib
import errno
from random import Random
from typing import Any

import pytest

from amqp_router import queue_maker
from amqp_router.protocol import methods as m
from amqp_router.protocol.flags import BLIND, PERSISTENT, REDELIVERED
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import decode_properties, encode_properties
from persistence.options import LogOptions
from tests.nodes import Client, SimNode, SimUser
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.support import unsettled
from tests.toys.late_queue import LateQueue
from tests.vhosts.queues.local import Sink, declared, drained, numbers, text_of
from vhosts import moves
from vhosts.exchanges.router import RouteCache
from vhosts.move_target import Target
from vhosts.moves import BLOCKED, DONE, ENDING, FAILED, RUNNING, STOPPED, Move, Surroundings
from vhosts.queues.queue import Queue

OPTIONS = LogOptions(batch_bytes_max=4000)


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


@pytest.fixture(params=["whole", "tiny"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, and with a slice of two messages and a window of three."""
    if request.param == "tiny":
        tiny(monkeypatch)


def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "SLICE", 2)
    monkeypatch.setattr(moves, "WINDOW", 3)
    monkeypatch.setattr(moves, "RETURN_SLICE", 1)


def target(node: SimNode, to: Queue | None = None, **options: Any) -> Target:
    cache = RouteCache(node.vhost.table, None)
    if to is None:
        return Target(node.vhost.table, cache, **options)
    return Target(node.vhost.table, cache, to, routing_key=to.name)


def begun(
    node: SimNode, source: Queue, to: Queue | Target, count: int = 1 << 60, ended: list[Move] | None = None
) -> Move:
    """A move that has begun; nothing has happened yet."""
    surroundings = Surroundings(
        node.in_slices, node.budget, node.tick, node.wall_us, lambda: bool(node.alarms.on)
    )
    if not isinstance(to, Target):
        to = target(node, to)
    limit = min(count, source.message_count())
    move = Move(source, to, limit, surroundings, (ended if ended is not None else []).append)
    node.enter(move.go_on)
    return move


def moved(node: SimNode, source: Queue, to: Queue | Target, count: int = 1 << 60) -> Move:
    """A move that has ended."""
    ended: list[Move] = []
    move = begun(node, source, to, count, ended)
    node.settle()
    assert ended == [move]
    assert move.is_over
    assert not node.faults
    assert node.budget.held == 0
    return move


def void(result: object) -> None:
    """What a turn of the loop makes of a result."""


def message(text: object, *, persistent: bool = False, size: int = 0) -> Message:
    """A message whose properties say whether it is persistent, too."""
    properties = encode_properties({"delivery_mode": 2} if persistent else {})
    return build_message(b"\x00\x01q", properties, str(text).encode().ljust(size, b" "))


def fill(queue: Queue, count: int, *, persistent: bool = True, start: int = 0) -> None:
    for number in range(start, start + count):
        queue.publish(message(number, persistent=persistent))
    queue.tick.wake()


def made(body: bytes = b"m", **properties: Any) -> Message:
    return build_message(b"\x05x.old\x05k.old", encode_properties(properties), body)


def logged(queue: Queue) -> list[int]:
    """Offsets of the messages in its log."""
    assert queue.log is not None
    return unsettled(queue.log)


def only(queue: Queue) -> tuple[Message, dict[str, Any]]:
    found = queue.take(True)
    assert found is not None
    assert queue.is_empty()
    return found, decode_properties(found.properties())


# -- all, some, none ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("durable", [True, False])
def test_all(node: SimNode, durable: bool, persistent: bool) -> None:
    source, to = declared(node, "a", durable=durable), declared(node, "b", durable=durable)
    fill(source, 50, persistent=persistent)
    move = moved(node, source, to)
    assert (move.state, move.reason, move.moved) == (DONE, "", 50)
    assert (source.message_count(), source.unacked_count, source.ack_total) == (0, 0, 50)
    if durable:
        assert logged(source) == []
    assert drained(to) == numbers(*range(50))
    assert node.budget.used == 0


@pytest.mark.usefixtures("_sizes")
def test_the_first_ones(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 10)
    assert moved(node, source, to, 4).moved == 4
    assert drained(to) == numbers(*range(4))
    assert drained(source) == numbers(*range(4, 10))


def test_none(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    assert (moved(node, source, to).state, to.is_empty()) == (DONE, True)


def test_what_is_published_meanwhile_stays(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a", durable=False), declared(node, "b", durable=False)
    fill(source, 10, persistent=False)
    move = begun(node, source, to)
    for number in range(100, 130):
        node.turn()
        node.enter(lambda number=number: void(source.publish(message(number))))
    node.settle()
    assert (move.state, move.moved) == (DONE, 10)
    assert drained(to) == numbers(*range(10))
    assert drained(source) == numbers(*range(100, 130))


def test_consumers_of_the_source_go_on(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 20)
    move = begun(node, source, to)
    sink = Sink(source, no_ack=True)
    node.turn()
    node.enter(source.add_consumer, sink)
    node.settle()
    assert (move.state, source.message_count(), source.unacked_count) == (DONE, 0, 0)
    assert 0 < move.moved < 20
    assert sorted([*sink.got, *drained(to)], key=int) == numbers(*range(20))


# -- bounds ------------------------------------------------------------------------------------------


def test_no_more_than_a_window_is_on_its_way(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a"), declared(node, "b")
    fill(source, 20)
    node.settle()
    move = begun(node, source, to)
    node.quiet()  # nothing is synced
    assert (source.unacked_count, to.message_count(), move.moved) == (3, 3, 0)
    assert len(logged(source)) == 20
    node.quiet()
    assert source.unacked_count == 3
    node.settle()
    assert (move.state, move.moved) == (DONE, 20)


def test_nor_more_than_so_many_octets(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "WINDOW_BYTES", 2000)
    source, to = declared(node, "a"), declared(node, "b")
    for number in range(10):
        source.publish(message(number, persistent=True, size=900))
    node.settle()
    move = begun(node, source, to)
    node.quiet()
    assert source.unacked_count == 3
    node.settle()
    assert move.moved == 10


def test_a_slice_ends_by_number_and_by_octets(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    source, to = declared(node, "a", durable=False), declared(node, "b", durable=False)
    fill(source, 100, persistent=False)
    begun(node, source, to)
    node.turn()
    assert to.message_count() == moves.SLICE
    monkeypatch.setattr(moves, "SLICE_BYTES", 2)
    node.turn()
    assert to.message_count() == moves.SLICE + 1  # "32" has two octets
    node.settle()
    assert to.message_count() == 100


def test_very_many_queues_take_their_time_and_keep_the_order(node: SimNode) -> None:
    node.vhost.declare_exchange("x", "fanout", durable=False)
    names = [f"t{number}" for number in range(2100)]
    for name in names:
        node.vhost.declare_queue(name)
        node.vhost.bind_queue(name, "x", "", {}, None)
    source = declared(node, "a")
    fill(source, 3)
    node.settle()
    move = moved(node, source, target(node, exchange="x"))
    assert (move.state, move.moved) == (DONE, 3)
    assert all(drained(node.queue(name)) == numbers(0, 1, 2) for name in (names[0], names[-1]))


# -- what arrives ------------------------------------------------------------------------------------


def test_properties_are_kept_and_nothing_is_added(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    properties: dict[str, Any] = {
        "content_type": "text/plain",
        "headers": {"h": ("I", 1), "x-death": ("A", [])},
        "delivery_mode": 2,
        "priority": 3,
        "expiration": "60000",
        "message_id": "m",
        "user_id": "somebody",
    }
    source.publish(made(b"body", **properties))
    moved(node, source, to)
    found, arrived = only(to)
    assert (found.body(), arrived) == (b"body", properties)
    assert (found.route, found.priority, found.delivery_count) == (b"\x00\x01b", 3, 0)
    assert found.flags & PERSISTENT
    assert not found.flags & REDELIVERED


@pytest.mark.parametrize("size", [0, 1, 200_000, 1_500_000])
@pytest.mark.parametrize("durable", [True, False])
def test_bodies_of_any_size(node: SimNode, size: int, durable: bool) -> None:
    source, to = declared(node, "a"), declared(node, "b", durable=durable)
    for number in range(70):  # the last ones are read from the log
        source.publish(made(b"%c" % number * (size if number in (0, 69) else 1), delivery_mode=2))
    node.settle()
    moved(node, source, to)
    node.vhost.delete_queue("a")
    node.settle()
    bodies = []
    while (found := to.take(True)) is not None:
        bodies.append(found.body())
    assert (bodies[0], bodies[-1], len(bodies)) == (b"\0" * size, b"E" * size, 70)


def test_what_was_redelivered_and_counted_is_new(node: SimNode) -> None:
    source, to = declared(node, "a", queue_type="quorum"), declared(node, "b", queue_type="quorum")
    source.publish(made())
    for _ in range(3):
        taken = source.take(False)
        assert taken is not None
        source.requeue(taken)
    moved(node, source, to)
    found, _ = only(to)
    assert (found.delivery_count, found.flags & REDELIVERED) == (0, 0)


def test_a_transient_message_of_a_quorum_queue_is_transient_again(node: SimNode) -> None:
    source, to = declared(node, "a", queue_type="quorum"), declared(node, "b")
    source.publish(made())
    moved(node, source, to)
    found, _ = only(to)
    assert not found.flags & PERSISTENT


@pytest.mark.parametrize("expiration", ["5000", "+5000"])
def test_the_time_to_live_begins_anew(node: SimNode, expiration: str) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    one = made(delivery_mode=2, expiration=expiration)
    one.expire_ms = 5000
    node.tick.now_us = node.clock.wall_us()
    source.publish(one)
    node.settle()
    node.clock.advance(3)  # nobody else tells the agenda what time it is
    moved(node, source, to)
    node.sleep(4)
    assert (source.message_count(), to.message_count()) == (0, 1)
    node.sleep(2)
    assert to.message_count() == 0


def test_what_is_over_is_not_moved(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch)
    source, to = declared(node, "a", message_ttl=1000), declared(node, "b")
    dead = declared(node, "dead")
    source.obey({"dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    node.tick.now_us = node.clock.wall_us()
    fill(source, 10)
    node.settle()
    node.clock.advance(2)
    move = moved(node, source, to)
    assert (move.state, move.moved, source.expired_total) == (DONE, 0, 10)
    assert (to.message_count(), dead.message_count()) == (0, 10)


def test_priorities_of_both_queues_hold(node: SimNode) -> None:
    source, to = declared(node, "a", max_priority=5), declared(node, "b", max_priority=5)
    for body, priority in ((b"0", 1), (b"1", 5), (b"2", 1), (b"3", 5)):
        source.publish(made(body, priority=priority))
    plain = declared(node, "c")
    moved(node, source, plain)
    assert drained(plain) == ["1", "3", "0", "2"]
    source.publish(made(b"low", priority=0))
    to.publish(made(b"middle", priority=2))
    source.publish(made(b"high", priority=4))
    moved(node, source, to)
    assert drained(to) == ["high", "middle", "low"]


def test_to_a_queue_means_to_that_one_alone(node: SimNode) -> None:
    source, to, other = declared(node, "a"), declared(node, "b"), declared(node, "other")
    headers = {"CC": ("A", [("S", b"other")]), "BCC": ("A", [("S", b"other")])}
    one = made(headers=headers)
    one.flags |= BLIND
    source.publish(one)
    moved(node, source, to)
    _, properties = only(to)
    assert properties["headers"] == {"CC": headers["CC"]}  # who consumes and publishes sees no BCC
    assert other.is_empty()


# -- to exchanges ------------------------------------------------------------------------------------


def test_to_an_exchange_with_the_own_keys(node: SimNode) -> None:
    source = declared(node, "a")
    old, cc = declared(node, "old"), declared(node, "cc")
    node.vhost.bind_queue("old", "amq.topic", "k.*", {}, None)
    node.vhost.bind_queue("cc", "amq.topic", "c.c", {}, None)
    source.publish(made(headers={"CC": ("A", [("S", b"c.c")])}))
    moved(node, source, target(node, exchange="amq.topic"))
    for queue in (old, cc):
        found, _ = only(queue)
        assert found.route == b"\x09amq.topic\x05k.old"


def test_to_an_exchange_with_another_key(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    node.vhost.bind_queue("b", "amq.direct", "new", {}, None)
    source.publish(made())
    moved(node, source, target(node, exchange="amq.direct", routing_key="new"))
    assert only(to)[0].route == b"\x0aamq.direct\x03new"


def test_a_route_that_takes_several_turns_to_find(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    for number in range(9000):
        arguments = {"x-match": ("S", b"any"), "n": ("I", 7), "m": ("I", number)}
        node.vhost.bind_queue("b", "amq.headers", "", arguments, None)
    for body in (b"0", b"1"):
        source.publish(made(body, headers={"n": ("I", 7)}))
    node.settle()
    move = begun(node, source, target(node, exchange="amq.headers"))
    turns = 0
    while not move._end:
        turns += move._search is not None
        node.turn()
        node.work()
    node.settle()
    assert turns >= 1
    assert (move.state, move.moved) == (DONE, 2)
    assert drained(to) == ["0", "1"]


def test_stopped_while_its_route_is_looked_for(node: SimNode) -> None:
    source, to = declared(node, "a"), declared(node, "b")
    for number in range(9000):
        arguments = {"x-match": ("S", b"any"), "n": ("I", 7), "m": ("I", number)}
        node.vhost.bind_queue("b", "amq.headers", "", arguments, None)
    source.publish(made(b"0", headers={"n": ("I", 7)}))
    node.settle()
    move = begun(node, source, target(node, exchange="amq.headers"))
    for _ in range(3):
        if move._search is None:
            node.turn()
    assert move._search is not None
    node.enter(move.stop)
    node.settle()
    assert move.state == STOPPED
    kept(node, move, source, to, 1)


def test_no_queue_would_take_it(node: SimNode) -> None:
    source = declared(node, "a")
    fill(source, 2)
    reason = "no queue takes messages of exchange 'amq.headers' with the routing key 'q'"
    failing(node, begun(node, source, target(node, exchange="amq.headers")), reason)
    assert drained(source) == numbers(0, 1)


# -- ends --------------------------------------------------------------------------------------------


def kept(node: SimNode, move: Move, source: Queue, to: Queue, count: int) -> None:
    """Each of ``count`` messages is in the source or in the target, in order; those left are as before."""
    assert move.moved == to.message_count()
    left = []
    while (found := source.take(False)) is not None:
        assert not found.flags & REDELIVERED
        assert not found.delivery_count
        left.append(text_of(found))
    assert drained(to) + left == numbers(*range(count))
    assert not node.faults


def failing(node: SimNode, move: Move, reason: str) -> None:
    node.settle()
    assert (move.state, move.reason) == (FAILED, reason)


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


# -- a source whose answers come later ---------------------------------------------------------------


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


# -- whatever happens meanwhile ----------------------------------------------------------------------


class Taker(Sink):
    """A consumer that says what it holds and what it has acknowledged."""

    def __init__(self, queue: Queue, credit: int) -> None:
        super().__init__(queue, credit)
        self.held: list[str] = []
        self.acked: list[str] = []
        self.has_requeued = False

    def deliver(self, message: Message) -> None:
        super().deliver(message)
        self.held.append(text_of(message))

    def settle_first(self, *, requeue: bool) -> None:
        if self.held:
            text = self.held.pop(0)
            if requeue:
                self.has_requeued = True
                self.requeue()
            else:
                self.acked.append(text)
                self.ack()


class World:
    """A move in the midst of random steps. The model: each of the ``sent`` messages is in one place."""

    def __init__(self, random: Random, disk: SimDisk | None = None) -> None:
        self.random = random
        self.node = node = SimNode(disk, log_options=OPTIONS)
        self.source, self.to = declared(node, "a"), declared(node, "b")
        self.sent = 0
        self.publish(random.randrange(1, 30))
        node.settle()
        self.taker = Taker(self.source, random.randrange(3))
        node.enter(self.source.add_consumer, self.taker)
        self.limit = random.choice([5, 1 << 60])
        self.most = min(self.limit, self.source.message_count())
        self.ended: list[Move] = []
        self.move = begun(node, self.source, self.to, self.limit, self.ended)

    def publish(self, count: int = 1) -> None:
        start = self.sent
        self.node.enter(lambda: fill(self.source, count, start=start))
        self.sent += count

    def step(self) -> None:
        node, random = self.node, self.random
        choice = random.randrange(14)
        if choice < 4:
            node.turn()
        elif choice < 6:
            node.work()
        elif choice < 8 and node.posted:
            node.hear()
        elif choice < 10:
            self.publish()
        elif choice == 10:
            node.enter(lambda: self.taker.settle_first(requeue=False))
        elif choice == 11:
            node.enter(lambda: self.taker.settle_first(requeue=True))
        elif choice == 12 and not random.randrange(4):
            self.to.obey({"max-length": random.randrange(1, 20), "overflow": "reject-publish"})
        elif choice == 13 and not random.randrange(8):
            node.enter(self.move.stop)


@pytest.mark.parametrize("seed", range(60))
def test_each_message_is_in_one_place(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    if random.randrange(3):
        tiny(monkeypatch)
    world = World(random)
    for _ in range(random.randrange(120)):
        world.step()
    world.node.settle()
    move, taker = world.move, world.taker
    assert world.ended == [move]
    assert move.is_over
    assert move.state != FAILED or move.reason == "queue 'b' in vhost '/' is full"
    assert move.state != DONE or move.moved <= world.most
    assert world.source.unacked_count == len(taker.held)
    came, left = drained(world.to), drained(world.source)
    assert len(came) == move.moved
    places = [*taker.acked, *taker.held, *came, *left]
    assert sorted(places, key=int) == numbers(*range(world.sent))
    if not taker.has_requeued:
        assert came == sorted(came, key=int)
    assert not world.node.faults
    assert world.node.budget.held == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_loses_none(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the power fails: each message is in the source or in the target, or in both."""
    tiny(monkeypatch)
    random = Random(seed)
    disk = SimDisk()
    world = World(random, disk)
    safe = world.sent
    disk.steps_left = random.randrange(60)
    with contextlib.suppress(PowerLoss):
        for _ in range(random.randrange(200)):
            world.step()
    disk.steps_left = -1
    disk.power_loss(random)
    node = SimNode(disk, world.node.definitions, boot=2, log_options=OPTIONS)
    left, came = drained(node.queue("a")), drained(node.queue("b"))
    assert set(numbers(*range(safe))) <= {*left, *came, *world.taker.acked}
    assert len(came) == len(set(came))
    assert len(left) == len(set(left))


def test_a_confirmed_publish_to_the_source_is_moved_once(node: SimNode) -> None:
    """Over AMQP: what a client published and got confirmed is what another one gets from the target."""
    source, to = declared(node, "a"), declared(node, "b")
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for number in range(5):
        client.publish(b"%d" % number, "a", properties=b"\x10\x00\x02")
    node.settle()
    assert moved(node, source, to).moved == 5
    client.take()
    client.send(m.BasicConsume(queue="b"))
    node.settle()
    assert [each.body for each in client.take() if isinstance(each.method, m.BasicDeliver)] == [
        b"%d" % number for number in range(5)
    ]
