from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.errors import AMQPError
from persistence.definitions.records import DeleteBindings, ExchangeRow, Put
from tests.vhosts.fakes import FakeDefinitions, new_vhost
from vhosts.following import LoadError
from vhosts.removal import ROWS_MAX
from vhosts.vhost import VirtualHost

NAMES = ("a", "b", "c")


def durable_shape(vhost: VirtualHost) -> Any:
    """What the store should hold, as memory has it."""
    exchanges = {name: each.row("/") for name, each in vhost.exchanges.items() if each.durable}
    queues = {name: queue.incarnation for name, queue in vhost.queues.items() if queue.durable}
    return exchanges, queues, sorted(each.key for each in vhost.bindings if each.is_durable())


def routes(vhost: VirtualHost) -> Any:
    """By exchange and key: the queues that a message reaches."""
    found = {}
    for exchange in [each for each in vhost.exchanges.values() if each.durable]:
        for key in NAMES:
            bindings = [each for each in vhost.bindings.of_source(exchange) if each.routing_key == key]
            found[exchange.name, key] = sorted(
                each.destination.name for each in bindings if each.is_durable()
            )
    return found


def act(rng: random.Random, vhost: VirtualHost) -> None:
    """One random declaration, which may be refused."""
    name, other, key = rng.choice(NAMES), rng.choice(NAMES), rng.choice(NAMES)
    is_durable, is_auto_delete = rng.random() < 0.8, rng.random() < 0.3
    kind = rng.choice(["direct", "fanout", "topic"])
    acts = [
        lambda: vhost.declare_exchange(name, kind, durable=is_durable, auto_delete=is_auto_delete),
        lambda: vhost.declare_queue(name, durable=is_durable),
        lambda: vhost.bind_queue(name, other, key, {}, None),
        lambda: vhost.bind_queue(name, other, key, {}, None),
        lambda: vhost.bind_exchange(name, other, key, {}),
        lambda: vhost.unbind_queue(name, other, key, {}, None),
        lambda: vhost.unbind_exchange(name, other, key, {}),
        lambda: vhost.delete_queue(name),
        lambda: vhost.delete_exchange(name),
    ]
    with contextlib.suppress(AMQPError):
        rng.choice(acts)()


@given(st.integers(0, 10_000), st.booleans())
def test_a_follower_has_what_the_leader_stored(seed: int, twice: bool) -> None:
    rng = random.Random(seed)
    stored = FakeDefinitions()
    leader, follower = new_vhost(stored), new_vhost()
    for _ in range(60):
        before = len(stored.submitted)
        act(rng, leader)
        for rev, changes in enumerate(stored.submitted[before:], before + 1):
            for _ in range(1 + twice):
                follower.apply(changes, rev)
    assert durable_shape(follower) == durable_shape(leader)
    assert routes(follower) == routes(leader)
    loaded = new_vhost()
    assert loaded.load(*map(stored.of_kind, ("exchange", "queue", "binding"))) == []
    assert durable_shape(loaded) == durable_shape(follower)


def test_many_bindings_go_in_one_change() -> None:
    stored = FakeDefinitions()
    leader, follower = new_vhost(stored), new_vhost()
    leader.declare_exchange("x", "direct", durable=True)
    leader.declare_exchange("stays", "direct", durable=True)
    leader.declare_queue("q", durable=True)
    for number in range(ROWS_MAX + 10):
        leader.bind_queue("q", "x", str(number), {}, None)
    leader.bind_queue("q", "stays", "k", {}, None)
    leader.delete_exchange("x")
    assert any(isinstance(change, DeleteBindings) for change in stored.submitted[-1])
    for rev, changes in enumerate(stored.submitted, 1):
        follower.apply(changes, rev)
    assert durable_shape(follower) == durable_shape(leader)
    assert len(follower.bindings) == 1


def test_bindings_alone_are_removed() -> None:
    follower = new_vhost()
    follower.declare_exchange("x", "direct", durable=True)
    follower.declare_exchange("y", "direct", durable=True)
    follower.declare_queue("q", durable=True)
    follower.declare_queue("r", durable=True)
    for queue, exchange in (("q", "x"), ("r", "x"), ("q", "y")):
        follower.bind_queue(queue, exchange, "k", {}, None)
    follower.apply([DeleteBindings("/", "x", "q")], 1)
    assert sorted(each.key[:2] for each in follower.bindings) == [("x", "r"), ("y", "q")]
    follower.apply([DeleteBindings("/", destination="q")], 2)
    assert [each.key[:2] for each in follower.bindings] == [("x", "r")]
    follower.apply([DeleteBindings("/", "x")], 3)
    assert not list(follower.bindings)


def test_an_unknown_type_changes_nothing() -> None:
    follower = new_vhost()
    rows = [ExchangeRow("/", "good", "direct"), ExchangeRow("/", "odd", "x-odd")]
    with pytest.raises(LoadError):
        follower.apply([Put(row) for row in rows], 1)
    assert "good" not in follower.exchanges


def test_a_transient_end_gives_way_to_a_stored_one() -> None:
    follower = new_vhost()
    follower.declare_exchange("x", "fanout")
    follower.declare_queue("q", exclusive=True, owner=object())
    stored = FakeDefinitions()
    leader = new_vhost(stored)
    leader.declare_exchange("x", "direct", durable=True)
    leader.declare_queue("q", durable=True)
    for rev, changes in enumerate(stored.submitted, 1):
        follower.apply(changes, rev)
    assert durable_shape(follower) == durable_shape(leader)
    assert not follower.topology.owned
