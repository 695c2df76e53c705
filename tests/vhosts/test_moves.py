"""Messages moved from one queue to another: which ones, in which order, and what arrives.

They move on a whole node without sockets and clocks.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol.flags import BLIND, PERSISTENT, REDELIVERED
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import decode_properties, encode_properties
from tests.nodes import SimNode
from tests.persistence.log.support import unsettled
from tests.vhosts.moving import OPTIONS, begun, failing, fill, kept, message, moved, target, tiny, void
from tests.vhosts.queues.local import Sink, declared, drained, numbers
from vhosts import moves
from vhosts.moves import DONE, STOPPED
from vhosts.queues.queue import Queue


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


@pytest.fixture(params=["whole", "tiny"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, and with a slice of two messages and a window of three."""
    if request.param == "tiny":
        tiny(monkeypatch)


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


# -- all, some, none ----------------------------------------------------------------------------------


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


# -- bounds -------------------------------------------------------------------------------------------


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


# -- what arrives -------------------------------------------------------------------------------------


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


# -- to exchanges -------------------------------------------------------------------------------------


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
