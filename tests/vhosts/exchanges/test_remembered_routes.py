"""Routes that are remembered, and those that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.vhosts.exchanges.houses import NO_PROPERTIES, House, carrying, typed
from tests.vhosts.fakes import publish_args
from vhosts.exchanges.exchange import NOT_REPEATABLE, Exchange
from vhosts.exchanges.router import HEADERS_BYTES_MAX, ROUTES_MAX
from vhosts.exchanges.types import EXCHANGE_TYPES, register_exchange_type


@pytest.fixture
def house() -> House:
    return House()


def test_headers_exchange_is_remembered_by_its_headers(house: House) -> None:
    house.bind("q", "amq.headers", a=1)
    one, other = carrying(a=1), carrying(a=2)
    args = publish_args("amq.headers", "k")
    first = house.cache.resolve(args, one)
    assert [queue.name for queue in first.queues] == ["q"]
    assert not first.cacheable
    assert house.cache.find(args) is None
    assert house.cache.resolve(args, one) is first
    assert house.queues("amq.headers", "k", other) == []
    assert house.queues("amq.headers", "k") == []
    house.bind("r", "amq.headers", a=1)
    assert house.queues("amq.headers", "k", one) == ["q", "r"]


def test_headers_on_the_way_decide_all_the_way(house: House) -> None:
    """The last exchange visited looks at the key alone, but whether it is reached depends on headers."""
    house.exchange("h", "headers")
    house.vhost.bind_exchange("amq.direct", "h", "", typed(a=1))
    house.bind("q", "amq.direct", "k")
    assert house.queues("h", "k", carrying(a=1)) == ["q"]
    assert house.queues("h", "k", carrying(a=2)) == []


def test_large_headers_are_not_remembered(house: House) -> None:
    house.bind("q", "amq.headers", a=1)
    properties = carrying(a=1, filler="x" * HEADERS_BYTES_MAX)
    args = publish_args("amq.headers", "k")
    first = house.cache.resolve(args, properties)
    second = house.cache.resolve(args, properties)
    assert first is not second
    assert list(first.queues) == list(second.queues)


def test_headers_that_do_not_decide_are_not_looked_at(house: House) -> None:
    house.bind("q", "amq.direct", "k")
    assert house.queues("amq.direct", "k", b"\x20\0\0\0\0\x01\xff") == ["q"]


def test_cache_is_bounded(house: House) -> None:
    house.exchange("x", "fanout")
    first = publish_args("x", "first")
    house.cache.resolve(first, NO_PROPERTIES)
    for number in range(ROUTES_MAX - 1):
        house.cache.resolve(publish_args("x", str(number)), NO_PROPERTIES)
    assert house.cache.find(first) is not None
    house.cache.resolve(publish_args("x", "one too many"), NO_PROPERTIES)
    assert house.cache.find(first) is None


def test_third_party_type() -> None:
    class Alternating(Exchange):
        """Each message to the next binding."""

        decided_by = NOT_REPEATABLE

        def __init__(self, name: str, type_name: str, **options: Any) -> None:
            super().__init__(name, type_name, **options)
            self.held: list[Any] = []

        def bind(self, binding: Any) -> None:
            self.held.append(binding)

        def unbind(self, binding: Any) -> None:
            self.held.remove(binding)

        def route(self, message: Any) -> list[Any]:
            self.held.append(self.held.pop(0))
            return self.held[-1:]

    register_exchange_type("x-alternating", Alternating)
    try:
        with pytest.raises(ValueError, match="registered already"):
            register_exchange_type("x-alternating", Alternating)
        house = House()
        house.exchange("x", "x-alternating")
        house.vhost.bind_exchange("x", "amq.fanout", "", {})
        house.bind("q", "x")
        house.bind("r", "x")
        assert [house.queues("amq.fanout", "k") for _ in range(4)] == [["q"], ["r"], ["q"], ["r"]]
    finally:
        del EXCHANGE_TYPES["x-alternating"]
