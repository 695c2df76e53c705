"""A virtual host and its definition store: what is stored, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from amqp_router.protocol.errors import InternalError
from persistence.definitions.records import Delete, Put
from persistence.errors import PersistenceError
from tests.vhosts.declaring import ME, bind, queue, typed
from tests.vhosts.fakes import FakeDefinitions, new_vhost
from vhosts.exchanges.router import UNNAMEABLE
from vhosts.vhost import VirtualHost


@pytest.fixture
def definitions() -> FakeDefinitions:
    return FakeDefinitions()


@pytest.fixture
def vhost(definitions: FakeDefinitions) -> VirtualHost:
    return new_vhost(definitions)


def shape(vhost: VirtualHost) -> Any:
    """What clients can see of a virtual host."""
    bindings = sorted(binding.key for binding in vhost.bindings)
    return list(vhost.exchanges), list(vhost.queues), sorted(vhost.table.default_routes), bindings


# -- a store that refuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.declare_queue("new", durable=True),
        lambda v: v.declare_exchange("new", "topic", durable=True),
        lambda v: v.delete_queue("q"),
        lambda v: v.delete_exchange("x"),
        lambda v: v.bind_queue("q", "amq.direct", "k", {}, ME),
        lambda v: v.unbind_queue("q", "x", "k", {}, ME),
        lambda v: v.unbind_queue("q", "auto", "k", {}, ME),
        lambda v: v.bind_exchange("x", "amq.direct", "k", {}),
        lambda v: v.unbind_exchange("auto", "x", "k", {}),
    ],
)
def test_what_the_store_refuses_leaves_memory_as_it_was(
    vhost: VirtualHost, definitions: FakeDefinitions, change: Callable[[VirtualHost], Any]
) -> None:
    q = queue(vhost, "q", durable=True)
    vhost.declare_exchange("x", "direct", durable=True)
    vhost.declare_exchange("auto", "direct", durable=True, auto_delete=True)
    bind(vhost, "q", "x", "k")
    bind(vhost, "q", "auto", "k")
    vhost.bind_exchange("auto", "x", "k", {})
    before, rows = shape(vhost), dict(definitions.rows)
    definitions.error = PersistenceError("full")
    with pytest.raises(InternalError, match="full"):
        change(vhost)
    assert shape(vhost) == before
    assert definitions.rows == rows
    assert not q.deleted
    definitions.error = None
    change(vhost)
    assert shape(vhost) != before


def test_what_had_to_go_when_the_store_refused_goes_when_it_recovers(
    vhost: VirtualHost, definitions: FakeDefinitions
) -> None:
    """Auto-delete queues and exchanges; those that are in use again stay."""
    used, unused = (queue(vhost, name, durable=True, auto_delete=True) for name in ("used", "unused"))
    for name in ("lonely", "bound"):
        vhost.declare_exchange(name, "direct", durable=True, auto_delete=True)
        queue(vhost, f"to {name}", exclusive=True, owner=ME)
        bind(vhost, f"to {name}", name, "k")
    definitions.error = PersistenceError("full")
    vhost.definitions_failed()
    assert not vhost.queue_unused(used)
    assert not vhost.queue_unused(unused)
    # What is not stored itself goes whatever the store says.
    assert not vhost.remove_exclusive_queues(ME, 10)
    assert list(vhost.queues) == ["used", "unused"]
    assert {"lonely", "bound"} <= vhost.exchanges.keys()
    definitions.error = None
    used.consumers[object()] = None
    vhost.bind_exchange("amq.direct", "bound", "k", {})
    vhost.definitions_recovered()
    assert list(vhost.queues) == ["used"]
    assert "bound" in vhost.exchanges
    assert "lonely" not in vhost.exchanges
    assert [row.name for row in definitions.of_kind("queue")] == ["used"]
    assert [row.name for row in definitions.of_kind("exchange")] == ["bound"]


def test_refused_again_while_it_catches_up(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    both = [queue(vhost, name, durable=True, auto_delete=True) for name in ("a", "b")]
    for _ in range(2):
        definitions.error = PersistenceError("full")
        assert [vhost.queue_unused(each) for each in both] == [False, False]
        vhost.definitions_recovered()
        assert list(vhost.queues) == ["a", "b"]
    definitions.error = None
    vhost.definitions_recovered()
    assert not vhost.queues


EXCHANGES = st.sampled_from(["x", "y", "amq.topic"])
QUEUES = st.sampled_from(["p", "q"])
KEYS = st.sampled_from(["", "k"])
TABLES = st.sampled_from([{}, {"a": 1}])


class StoredMachine(RuleBasedStateMachine):
    """After any changes, what is stored is what is durable here, and loading it gives the same again."""

    @initialize()
    def start(self) -> None:
        self.definitions = FakeDefinitions()
        self.vhost = new_vhost(self.definitions)

    @rule(name=st.sampled_from(["x", "y"]), durable=st.booleans(), auto_delete=st.booleans(), table=TABLES)
    def declare_exchange(self, name: str, durable: bool, auto_delete: bool, table: dict[str, Any]) -> None:
        if name not in self.vhost.exchanges:
            self.vhost.declare_exchange(
                name, "fanout", durable=durable, auto_delete=auto_delete, arguments=typed(**table)
            )

    @rule(name=QUEUES, durable=st.booleans(), exclusive=st.booleans(), table=TABLES)
    def declare_queue(self, name: str, durable: bool, exclusive: bool, table: dict[str, Any]) -> None:
        if name not in self.vhost.queues:
            self.vhost.declare_queue(
                name, durable=durable, exclusive=exclusive, arguments=typed(**table), owner=ME
            )

    @rule(name=st.sampled_from(["x", "y"]))
    def delete_exchange(self, name: str) -> None:
        self.vhost.delete_exchange(name)

    @rule(name=QUEUES)
    def delete_queue(self, name: str) -> None:
        self.vhost.delete_queue(name, owner=ME)

    @rule()
    def close(self) -> None:
        self.vhost.remove_exclusive_queues(ME, 100)

    @rule(name=QUEUES, exchange=EXCHANGES, key=KEYS, table=TABLES, undo=st.booleans())
    def bind_queue(self, name: str, exchange: str, key: str, table: dict[str, Any], undo: bool) -> None:
        if undo:
            self.vhost.unbind_queue(name, exchange, key, typed(**table), ME)
        elif name in self.vhost.queues and exchange in self.vhost.exchanges:
            self.vhost.bind_queue(name, exchange, key, typed(**table), ME)

    @rule(destination=EXCHANGES, source=EXCHANGES, key=KEYS, undo=st.booleans())
    def bind_exchange(self, destination: str, source: str, key: str, undo: bool) -> None:
        if undo:
            self.vhost.unbind_exchange(destination, source, key, {})
        elif {destination, source} <= self.vhost.exchanges.keys():
            self.vhost.bind_exchange(destination, source, key, {})

    @invariant()
    def what_is_durable_is_stored(self) -> None:
        stored = self.definitions
        durable = {
            name
            for name, each in self.vhost.exchanges.items()
            if each.durable and name[:3] not in ("", "amq")
        }
        assert {row.name for row in stored.of_kind("exchange")} == durable
        assert {row.name for row in stored.of_kind("queue")} == {
            name for name, each in self.vhost.queues.items() if each.durable
        }
        assert set(stored.of_kind("binding")) == {
            each.row("/") for each in self.vhost.bindings if each.is_durable()
        }

    @invariant()
    def ends_are_there(self) -> None:
        for binding in self.vhost.bindings:
            assert self.vhost.exchanges[binding.source.name] is binding.source
            ends: dict[str, Any] = (
                self.vhost.queues if binding.destination_type == "queue" else self.vhost.exchanges
            )
            assert ends[binding.destination.name] is binding.destination
        routes = self.vhost.table.default_routes.keys() - {*UNNAMEABLE}
        assert {name.encode() for name in self.vhost.queues} == routes

    @invariant()
    def loading_gives_the_same(self) -> None:
        again = new_vhost()
        stored = self.definitions
        lacking = again.load(stored.of_kind("exchange"), stored.of_kind("queue"), stored.of_kind("binding"))
        assert lacking == []
        assert {each.row("/") for each in again.bindings} == set(stored.of_kind("binding"))
        for row in stored.of_kind("queue"):
            found, here = again.queues[row.name], self.vhost.queues[row.name]
            assert (found.arguments, found.incarnation) == (here.arguments, here.incarnation)
            assert found.durable


# -- start --------------------------------------------------------------------------------------------


TestStored = StoredMachine.TestCase
TestStored.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_submissions_are_whole(vhost: VirtualHost, definitions: FakeDefinitions) -> None:
    """A binding's row comes before its end's row when they go: no order of loading meets half of it."""
    queue(vhost, durable=True)
    bind(vhost, "q", "amq.topic", "#")
    vhost.delete_queue("q", owner=ME)
    created, bound, deleted = definitions.submitted
    assert [type(change) for change in (*created, *bound)] == [Put, Put]
    assert [(type(change), change.kind) for change in deleted] == [(Delete, "binding"), (Delete, "queue")]
