"""Where the letters of a queue may come to."""

from __future__ import annotations

from tests.model.endings.rules import KINDS, goes_round, target
from tests.model.endings.world import World


def letters_go_to(world: World, name: str) -> set[str]:
    """The queues that letters of a queue may come to, but for itself."""
    found: set[str] = set()
    into = name
    for _ in KINDS:
        queue = world.lists.queues.get(into)
        into = (target(queue.kind, queue.rules) if queue is not None else None) or name
        found.add(into)
    return found - {name}


def comes_round(world: World, name: str) -> bool:
    """Whether letters of a queue may come back to it."""
    return goes_round(name, {each.name: each.rules for each in world.lists.queues.values()})
