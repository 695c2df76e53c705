"""A map that grows by small steps; what clients can make many of stands in such maps."""

from __future__ import annotations

import gc
from itertools import count, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from persistence.memory import MemoryBudget
from tests.vhosts.fakes import FakeQueue
from vhosts.bindings import Bindings
from vhosts.exchanges.exchange import Binding, Exchange, Routable
from vhosts.exchanges.types import exchange_type
from vhosts.spread_map import BUCKET_ENTRIES, FEW, SpreadMap, roomy, steady_keys

#: No plain dict may have more entries.
FULL = FEW + 1
MANY = 32 * BUCKET_ENTRIES


def largest_dict(root: Any) -> int:
    """Entries of the largest dict that ``root`` leads to."""
    seen: dict[int, Any] = {}
    to_visit = [root]
    while to_visit:
        each = to_visit.pop()
        if id(each) not in seen and not isinstance(each, type) and type(each).__name__ != "module":
            seen[id(each)] = each
            to_visit += gc.get_referents(each)
    return max(len(each) for each in seen.values() if isinstance(each, dict))


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["fill", "empty", "popitems", "set", "delete", "pop", "setdefault"]),
        st.integers(0, 6000),
        st.integers(0, 3000),
    ),
    max_size=12,
)


@given(OPERATIONS, st.integers(0, 45))
@settings(max_examples=60, deadline=None)
def test_is_like_a_dict(operations: list[tuple[str, int, int]], shift: int) -> None:
    like: dict[int, int] = {}
    spread = SpreadMap()
    values = count()
    for name, start, size in operations:
        key = start << shift
        if name == "fill":
            for each in range(start, start + size):
                like[each << shift] = spread[each << shift] = next(values)
        elif name == "empty":
            for each in list(like)[:size]:
                del like[each], spread[each]
        elif name == "popitems":
            for _ in range(min(size, len(like))):
                popped, value = spread.popitem()
                assert like.pop(popped) == value
        elif name == "set":
            like[key] = spread[key] = next(values)
        elif name == "delete":
            assert (key in like) == (key in spread)
            if key in like:
                del like[key], spread[key]
            else:
                with pytest.raises(KeyError):
                    del spread[key]
        elif name == "pop":
            assert like.pop(key, None) == spread.pop(key, None)
        else:
            assert like.setdefault(key, start) == spread.setdefault(key, start)
        assert len(spread) == len(like)
        assert bool(spread) == bool(like)
        assert like.get(key, -1) == spread.get(key, -1)
    assert dict(spread.items()) == like
    assert sorted(spread.values()) == sorted(like.values())
    assert sorted(spread) == sorted(like) == sorted(spread.steady_keys())
    for each, value in like.items():
        assert spread[each] == value
    if not like:
        with pytest.raises(KeyError):
            spread.popitem()


@given(st.integers(0, 10 * BUCKET_ENTRIES), st.data())
@settings(max_examples=30, deadline=None)
def test_a_reader_finds_all_that_stays_while_the_map_changes(size: int, data: st.DataObject) -> None:
    spread = SpreadMap()
    for key in range(size):
        spread[key] = None
    keys = iter(steady_keys(spread))
    found: list[int] = []
    gone = set()
    fresh = count(1 << 20)
    while data.draw(st.booleans()):
        found += islice(keys, data.draw(st.integers(0, 2000)))
        for _ in range(data.draw(st.integers(0, 3000))):
            spread[next(fresh)] = None
        for _ in range(data.draw(st.integers(0, min(3000, len(spread))))):
            gone.add(spread.popitem()[0])
    found += keys
    assert set(range(size)) - gone <= set(found)


def test_no_bucket_becomes_large() -> None:
    spread = SpreadMap()
    for key in range(MANY):
        spread[key] = None
        if key % 1000 == 0:
            # One that is not split yet holds twice the average, and chance adds some.
            assert largest_dict(spread) <= max(FULL, 3 * BUCKET_ENTRIES)
    assert largest_dict(spread) <= 3 * BUCKET_ENTRIES


@pytest.mark.parametrize("shift", [0, 10, 20, 32, 44])
def test_numbers_that_differ_in_few_bits_spread(shift: int) -> None:
    spread = SpreadMap()
    for number in range(MANY):
        spread[number << shift] = None
    assert largest_dict(spread) <= FULL


def test_few_entries_come_in_the_order_of_their_insertion() -> None:
    spread = SpreadMap()
    keys = [key * 7919 % 65_521 for key in range(FEW)]
    for key in keys:
        spread[key] = None
    assert list(spread) == keys
    assert spread.popitem()[0] == keys[-1]


def test_a_full_dict_is_taken_over_without_a_copy() -> None:
    entries: Any = dict.fromkeys(range(FEW))
    assert roomy(entries) is entries
    entries[-5] = None
    spread = roomy(entries)
    assert isinstance(spread, SpreadMap)
    assert spread.bucket_keys(1) is None
    spread["one more"] = None
    assert set(steady_keys(spread)) == {*range(FEW), -5, "one more"}
    assert largest_dict(spread) <= FULL


def patterns(number: int) -> tuple[str, dict[str, Any]]:
    return f"w{number}", {"x-match": ("S", b"any"), "a": ("I", 1), "n": ("I", number), "v": ("V", None)}


@pytest.mark.parametrize("type_name", ["direct", "fanout", "topic", "headers"])
@pytest.mark.parametrize("same_key", [False, True])
@pytest.mark.parametrize("same_queue", [False, True])
def test_very_many_bindings_are_in_no_large_dict(type_name: str, same_key: bool, same_queue: bool) -> None:
    bindings = Bindings(MemoryBudget())
    exchange: Exchange = exchange_type(type_name)("x", type_name)
    queues = [FakeQueue() for _ in range(1 if same_queue else 3 * FEW)]
    made = []
    for number in range(3 * FEW):
        key, arguments = patterns(number)
        if same_key:
            arguments["n"] = ("I", 1)
            key = key if same_queue else "same"
        binding = Binding(exchange, queues[number % len(queues)], key, arguments)
        exchange.bind(binding)
        bindings.add(binding)
        made.append(binding)
    assert largest_dict([exchange, bindings]) <= FULL
    message = Routable([made[5].routing_key], b"\x20\0\0\0\0\x07\1aI\0\0\0\1")
    found = {each for each in exchange.route(message) if not isinstance(each, int)}
    assert len(found) == (1 if type_name in ("direct", "topic") and key != "same" else len(made))
    assert made[5] in found
    assert sorted(map(id, bindings.of_source(exchange))) == sorted(map(id, made))
    assert exchange.binding_count == len(bindings) == len(made)
    assert all(bindings.find(each) is each for each in made[:10])
    for binding in made:
        exchange.unbind(binding)
        bindings.remove(binding)
    assert exchange.binding_count == 0
    assert [each for each in exchange.route(message) if not isinstance(each, int)] == []
    assert not bindings.has_source(exchange)
