"""Exchanges and queues that go with very many bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp_router.protocol.errors import ConnectionForced, InternalError
from amqp_router.protocol.fields import encode_table
from amqp_router.protocol.kept_table import KeptTable
from persistence.definitions.records import DeleteBindings
from persistence.errors import PersistenceError
from tests.vhosts.fakes import FakeDefinitions, new_vhost, publish_args
from vhosts.bindings import Pair
from vhosts.exchanges.router import Permits, RouteCache
from vhosts.removal import ROWS_MAX, SLICE, SOURCES_MAX
from vhosts.spread_map import FEW
from vhosts.vhost import VirtualHost

MANY = 3 * SLICE
#: Changes of one submission, and what leaves an exchange in one turn.
CHANGES_MAX = 2 * ROWS_MAX + 2
TYPES = ["direct", "fanout", "headers", "topic"]


class House:
    """A virtual host whose slices wait until ``turn``."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], bool]] = []
        self.definitions = FakeDefinitions()
        self.vhost: VirtualHost = new_vhost(self.definitions, in_slices=self.steps.append)

    def bind(self, queue: str, exchange: str, number: int) -> None:
        table: Any = {"number": ("I", number), "x-match": ("S", b"any"), "a": ("I", 1)}
        self.vhost.bind_queue(queue, exchange, f"k{number}.#", table, None)

    def queues(self, exchange: str, key: str = "k0.#") -> set[str]:
        cache = RouteCache(self.vhost.table, Permits())
        properties = b"\x20\0\0\0\0\x07\x01aI\0\0\0\x01"
        args = publish_args(exchange, key)
        route = cache.resolve(args, properties)
        while route is None:
            route = cache.resolve(args, properties, cache.unfinished)
        return {queue.name for queue in route.queues}

    def turn(self) -> None:
        self.steps = [step for step in self.steps if not step()]

    def finish(self) -> int:
        turns = 0
        while self.steps:
            self.turn()
            turns += 1
        return turns


@pytest.fixture
def house() -> House:
    return House()


def counted(house: House, exchange: str) -> Callable[[], int]:
    """How many bindings have left ``exchange`` since the last call."""
    count = 0
    source = house.vhost.exchanges[exchange]
    unbind = source.unbind

    def counting(binding: Any) -> None:
        nonlocal count
        count += 1
        unbind(binding)

    source.unbind = counting  # type: ignore[method-assign]

    def take() -> int:
        nonlocal count
        found, count = count, 0
        return found

    return take


@pytest.mark.parametrize("kind", TYPES)
def test_a_queue_goes_at_once_and_its_bindings_in_slices(house: House, kind: str) -> None:
    vhost = house.vhost
    vhost.declare_exchange("x", kind, durable=True)
    vhost.declare_queue("q", durable=True)
    vhost.declare_queue("other", durable=True)
    house.bind("other", "x", 0)
    for number in range(MANY):
        house.bind("q", "x", number)
    unbound = counted(house, "x")
    assert house.queues("x") == {"q", "other"}
    _, rev = vhost.delete_queue("q")
    assert rev == len(house.definitions.submitted)
    assert len(house.definitions.submitted[-1]) == 2
    assert DeleteBindings("/", "x", "q", "queue") in house.definitions.submitted[-1]
    assert [row.destination for row in house.definitions.of_kind("binding")] == ["other"]
    assert house.queues("x") == {"other"}
    assert [each.destination.name for each in vhost.bindings] == ["other"]
    assert len(vhost.bindings.of_source(vhost.exchanges["x"])) == 1
    assert 0 < unbound() <= SLICE
    while house.steps:
        house.turn()
        assert unbound() <= SLICE
    assert len(vhost.bindings) == vhost.exchanges["x"].binding_count == 1
    assert house.queues("x") == {"other"}
    assert len(house.definitions.submitted) == rev


def test_bindings_with_many_arguments_go_a_few_at_a_time(house: House) -> None:
    """A headers exchange forgets each argument: 200 bindings with 150 took 22 ms of a turn."""
    vhost = house.vhost
    vhost.declare_exchange("x", "headers")
    vhost.declare_queue("q")
    left = counted(house, "x")
    for number in range(100):
        names = {f"{number}-{index}": ("I", index) for index in range(150)}
        arguments = KeptTable(encode_table(names), None)
        vhost.bind_queue("q", "x", f"k{number}", arguments, None)
    octets = len(arguments.octets)
    vhost.delete_queue("q")
    turns = [left()]
    while house.steps:
        house.turn()
        turns.append(left())
    assert sum(turns) == 100
    assert max(turns) * (octets >> 8) < SLICE


@pytest.mark.parametrize("kind", TYPES)
def test_the_same_queue_declared_and_bound_meanwhile_stays(house: House, kind: str) -> None:
    vhost = house.vhost
    vhost.declare_exchange("x", kind, durable=True)
    for _ in range(2):
        vhost.declare_queue("q", durable=True)
        for number in range(MANY):
            house.bind("q", "x", number)
        vhost.delete_queue("q")
    vhost.declare_queue("q", durable=True)
    for number in range(10):
        house.bind("q", "x", number)
    assert house.finish() > 2
    assert house.queues("x") == {"q"}
    assert len(vhost.bindings) == 10
    assert len(house.definitions.of_kind("binding")) == 10
    vhost.unbind_queue("q", "x", "k0.#", next(iter(vhost.bindings)).arguments, None)
    assert len(vhost.bindings) == 9


def test_an_exchange_goes_in_both_directions(house: House) -> None:
    vhost = house.vhost
    for name in ("from", "x"):
        vhost.declare_exchange(name, "topic", durable=True)
    vhost.declare_queue("q", durable=True)
    for number in range(MANY):
        vhost.bind_exchange("x", "from", f"{number}", {})
        vhost.bind_exchange("x", "x", f"{number}", {})
        house.bind("q", "x", number)
    vhost.delete_exchange("x")
    assert house.definitions.of_kind("binding") == []
    assert list(vhost.bindings) == []
    assert vhost.bindings.of_destination(vhost.queues["q"]) == []
    vhost.delete_exchange("from", if_unused=True)
    vhost.declare_exchange("x", "topic", durable=True)
    house.bind("q", "x", 0)
    vhost.delete_queue("q")
    house.finish()
    assert len(vhost.bindings) == 0
    assert {row.name for row in house.definitions.rows.values()} == {"x"}  # type: ignore[union-attr]


def test_a_queue_of_many_exchanges(house: House) -> None:
    vhost = house.vhost
    vhost.declare_queue("q", durable=True)
    vhost.declare_queue("other", durable=True)
    for number in range(MANY):
        vhost.declare_exchange(f"x{number}", "fanout", durable=True, auto_delete=number % 2 == 0)
        house.bind("q", f"x{number}", number)
    house.bind("other", "x0", 0)
    assert MANY > SOURCES_MAX
    submitted = len(house.definitions.submitted)
    vhost.delete_queue("q")
    house.finish()
    assert all(len(each) <= CHANGES_MAX for each in house.definitions.submitted[submitted:])
    assert [row.source for row in house.definitions.of_kind("binding")] == ["x0"]
    names = {row.name for row in house.definitions.of_kind("exchange")}
    assert names == {"x0"} | {f"x{number}" for number in range(1, MANY, 2)}
    assert names <= vhost.exchanges.keys()
    assert len(vhost.exchanges) == len(names) + 7


def test_an_auto_delete_exchange_goes_together_with_its_last_queue(house: House) -> None:
    vhost = house.vhost
    vhost.declare_exchange("x", "fanout", durable=True, auto_delete=True)
    vhost.declare_queue("q", durable=True)
    for number in range(MANY):
        house.bind("q", "x", number)
    vhost.delete_queue("q")
    assert house.definitions.rows == {}
    assert "x" not in vhost.exchanges
    vhost.declare_exchange("x", "fanout", durable=True, auto_delete=True)
    assert house.finish() > 1
    assert "x" in vhost.exchanges


def test_what_the_store_refuses_stays_however_much_it_is(house: House) -> None:
    vhost = house.vhost
    vhost.declare_exchange("x", "topic", durable=True)
    vhost.declare_queue("q", durable=True)
    for number in range(MANY):
        house.bind("q", "x", number)
    house.definitions.error = PersistenceError("full")
    for remove in (lambda: vhost.delete_queue("q"), lambda: vhost.delete_exchange("x")):
        with pytest.raises(InternalError, match="full"):
            remove()
        assert not house.steps
        assert len(vhost.bindings) == len(list(vhost.bindings)) == MANY
        assert house.queues("x") == {"q"}


def test_exclusive_queues_with_many_bindings_go_a_few_at_a_time(house: House) -> None:
    vhost = house.vhost
    owner = object()
    for number in range(4):
        vhost.declare_queue(f"q{number}", exclusive=True, owner=owner)
        for key in range(SLICE - 100):
            vhost.bind_queue(f"q{number}", "amq.topic", str(key), {}, owner)
    unbound = counted(house, "amq.topic")
    calls = 1
    while vhost.remove_exclusive_queues(owner, 100):
        assert unbound() <= 2 * SLICE
        calls += 1
    assert calls > 1
    house.finish()
    assert len(vhost.bindings) == 0


def test_an_exchange_with_many_queues_looks_at_few(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn that deletes it takes its index of bindings over whole."""
    looks = 0
    plain = Pair.is_live

    def looking(pair: Pair) -> bool:
        nonlocal looks
        looks += 1
        return plain(pair)

    house.vhost.declare_exchange("x", "fanout")
    for number in range(MANY):
        house.vhost.declare_queue(f"q{number}")
        house.bind(f"q{number}", "x", number)
    monkeypatch.setattr(Pair, "is_live", looking)
    house.vhost.delete_exchange("x")
    assert looks <= ROWS_MAX + 1
    house.vhost.delete_queue("q0")  # while its binding waits for its turn
    assert house.finish() >= MANY // SLICE
    assert looks <= 3 * ROWS_MAX
    assert len(house.vhost.bindings) == 0
    house.bind("q1", "amq.fanout", 1)
    assert house.queues("amq.fanout") == {"q1"}


def test_very_many_exclusive_queues_of_one_connection(house: House) -> None:
    """They are kept in no plain dict, which would be rebuilt as a whole when it has doubled."""
    owner, vhost = object(), house.vhost
    for number in range(FEW + 1):
        vhost.declare_queue(f"q{number}", exclusive=True, owner=owner)
    assert not isinstance(vhost.topology.owned[owner], dict)
    slices = 1
    while vhost.remove_exclusive_queues(owner, 100):
        slices += 1
    assert slices == FEW // 100 + 1
    assert not vhost.queues
    assert not vhost.topology.owned


def test_few_queues_of_a_virtual_host_go_in_one_turn() -> None:
    """Each takes some 20 microseconds, and what a client sends meanwhile waits for two turns."""
    vhost = new_vhost(FakeDefinitions())
    for number in range(500):
        vhost.declare_queue(f"q{number}")
        vhost.bind_queue(f"q{number}", "amq.fanout", "", {}, None)
    left, turns = len(vhost.queues), 0
    while vhost.queues:
        vhost.remove_some()
        assert left - len(vhost.queues) <= 60
        left = len(vhost.queues)
        turns += 1
    assert turns >= 9


class Listed(dict[str, int]):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()

    def __reversed__(self) -> Iterator[str]:
        self.times += 1
        return super().__reversed__()


def test_what_a_virtual_host_has_goes_without_a_look_at_what_is_gone() -> None:
    """To find its last entry a dict passes all that were removed behind it: with 100,000, 10 ms a slice."""
    removals = new_vhost(FakeDefinitions())._removals
    listed = Listed({f"q{number}": number for number in range(100)})
    gone = []
    while listed:
        gone.append(removals.next_of(listed))
        del listed[f"q{gone[-1]}"]
        listed.pop(f"q{gone[-1] - 50}", None)  # another one goes with it
    assert len(gone) == 50
    assert listed.times == 1


def test_exchanges_of_a_virtual_host_that_take_others_with_them() -> None:
    vhost = new_vhost(FakeDefinitions())
    for number in range(300):
        vhost.declare_exchange(f"x{number}", "fanout", auto_delete=number % 2 == 0)
        if number:
            vhost.bind_exchange(f"x{number}", f"x{number - 1}", "", {})
    vhost.begin_deletion(ConnectionForced("gone"), 1)
    turns = 1
    while not vhost.remove_some():
        turns += 1
    assert not vhost.exchanges
    assert turns > 2
