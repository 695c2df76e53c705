"""Very long lists are let go piece by piece, and the garbage collector does not look at them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tests.nodes import Client, SimNode
from vhosts.exchanges.walk import LOOKS_MAX
from vhosts.long_lists import passing, unwatched


class Thing:
    pass


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_unwatched_list_is_a_list_like_any_other() -> None:
    items = unwatched([3, 1, 2])
    assert not gc.is_tracked(items)
    items.sort()
    items += [5] * 100
    items.reverse()
    assert items[-3:] == [3, 2, 1]
    thing = Thing()
    known = weakref.ref(thing)
    items.append(thing)  # type: ignore[arg-type]
    assert not gc.is_tracked(items)
    del thing, items
    assert known() is None
    gc.collect()


@pytest.mark.usefixtures("no_collections")
def test_item_that_is_passed_is_let_go() -> None:
    things = {number: Thing() for number in range(10)}
    known = {number: weakref.ref(thing) for number, thing in things.items()}
    found = passing(things.values())
    first = next(found)
    things.clear()
    assert first is known[0]()
    assert known[9]() is not None
    del first
    for number in range(1, 10):
        assert known[number]() is next(found)
        assert known[number - 1]() is None, "it went with the list"
    assert list(found) == []


def test_collector_does_not_look_at_the_queues_of_a_wide_route() -> None:
    client = Client(SimNode()).open(1)
    vhost = client.node.vhost
    for number in range(LOOKS_MAX + 10):
        vhost.declare_queue(f"q{number}")
        vhost.bind_queue(f"q{number}", "amq.fanout", "", {}, None)
    for _ in range(2):  # the second finds the route that the first has left
        client.publish(b"x", "", exchange="amq.fanout")
        client.node.settle()
    route = client.machine.channels[1].publishing.last_route
    assert route is not None
    assert len(route.queues) == LOOKS_MAX + 10
    assert not gc.is_tracked(route.queues)


def test_collector_sees_what_is_made_while_much_is_freed() -> None:
    """It would come when more was made than freed, and find all of it at once."""
    node = SimNode()
    old: list[list[int]] = [[number] for number in range(60_000)]
    gc.collect()
    made: list[list[int]] = []
    looked_at: list[int] = []

    def step() -> bool:
        for _ in range(600):
            old.pop()
            made.append([len(old)])
        return not old

    def before(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] < 2:
            looked_at.append(sum(len(gc.get_objects(number)) for number in range(info["generation"] + 1)))

    gc.callbacks.append(before)
    try:
        node.in_slices(step)
        node.settle()
        made += [[0] for _ in range(2000)]
    finally:
        gc.callbacks.remove(before)
    assert not old
    assert max(looked_at) < 20_000
