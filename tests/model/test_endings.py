"""The node against lists that say how messages end, and whether the walk still does what it is for."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.model.endings import ends, queues, waiting
from tests.model.endings.ends import CRASH_POINTS
from tests.model.endings.pairs import PAIRS
from tests.model.endings.rules import KINDS
from tests.model.endings.walk import close, walk
from tests.model.endings.world import World


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Logs that fail say so."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_walks(moves: Counter[str]) -> None:
    """Some seeds; ``make walk`` makes very many steps. Nearly all features meet already here."""
    met: Counter[tuple[str, str]] = Counter()
    for seed in range(12):
        world = walk(seed)
        moves.update({f"endings: {move}": count for move, count in world.moves.items()})
        moves.update({f"endings: ({what})": count for what, count in world.lists.counts.items()})
        met.update(world.lists.pairs.total)
    assert len(PAIRS) == 66
    assert len([pair for pair in PAIRS if met[pair]]) > 60


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_power_fails(point: str, moves: Counter[str]) -> None:
    """Each point of ``CRASH_POINTS`` is reached and survived."""
    for seed in range(40):
        random = Random(seed)
        world = World(random, 1 << 20)
        world.connect()
        for name in KINDS:
            queues.declare(world, name)
        letters = {"dead-letter-exchange": "", "dead-letter-routing-key": "q"}
        queues.set_policy(world, "c", {"message-ttl": 399, "max-length": 3, **letters})
        waiting.settle_down(world)
        if ends.crash_at(world, point, random.randrange(2), seed):
            close(world)
            moves.update({f"endings: {move}": count for move, count in world.moves.items()})
            return
    raise AssertionError("it is never reached")
