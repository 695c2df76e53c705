"""The publishes that wait for tx.commit, of which there may be very many."""

from __future__ import annotations

import itertools

import pytest

from amqp_router.channel.committing import BLOCK, MESSAGE_BYTES, Gathering, Waiting
from amqp_router.channel.intake import Intake
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.message import Message
from persistence.memory import ARRIVING_SHARE_ONE, MemoryBudget
from vhosts.counters import ExchangeCounters
from vhosts.exchanges.route import Route


def new_route() -> Route:
    route = Route()
    route.counters = ExchangeCounters()
    return route


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7])
def test_publishes_are_taken_in_their_order(count: int) -> None:
    waiting, route = Waiting(), Route()
    for flags in range(count):
        waiting.add((route, Message(), flags))
    taken: list[int] = []
    for some in itertools.cycle([1, 7, BLOCK, 3]):
        if len(waiting) == 0:
            break
        taken += [waiting.take()[2] for _ in range(min(some, len(waiting)))]
        assert len(waiting) == waiting.count == count - len(taken)
    assert taken == list(range(count))


def test_a_taken_message_is_freed_while_others_wait() -> None:
    """A transaction of a million would hold all of them until its last one is published."""
    waiting, freed = Waiting(), []

    class Told(bytes):
        def __del__(self) -> None:
            freed.append(self)

    for number in range(3):
        message = Message()
        message.content = Told(b"%d" % number)
        waiting.add((Route(), message, 0))
    del message
    waiting.take()
    assert freed == [b"0"]
    assert len(waiting) == 2


def test_what_waits_is_in_the_account_and_has_a_limit() -> None:
    budget = MemoryBudget(0, 100 * MESSAGE_BYTES)
    gathering = Gathering(Intake(budget))
    route = new_route()
    room = 100 // ARRIVING_SHARE_ONE
    for _ in range(room):
        gathering.publish(route, Message(), 0)
    with pytest.raises(
        PreconditionFailed, match=f"message size {MESSAGE_BYTES} is larger than the memory left"
    ):
        gathering.publish(route, Message(), 0)
    assert len(gathering.publishes) == room
    assert gathering.size == budget.arriving == budget.held == room * MESSAGE_BYTES


def test_a_route_is_copied_once_for_messages_in_a_row() -> None:
    """The route of a publish may change before the commit."""
    gathering = Gathering(Intake(MemoryBudget()))
    one, other = new_route(), new_route()
    for route in (one, one, other, one):
        gathering.publish(route, Message(), 0)
    routes = [gathering.publishes.take()[0] for _ in range(4)]
    assert routes[0] is routes[1]
    assert len({id(route) for route in routes}) == 3
    assert one not in routes
    assert other not in routes
