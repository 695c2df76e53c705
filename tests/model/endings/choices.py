"""Random arguments and policies that leave nothing open."""

from __future__ import annotations

from typing import Any

from tests.model.endings.queue import ModelQueue
from tests.model.endings.rules import KINDS, Rules, Told, choose, goes_round, refuses, rules, target
from tests.model.endings.world import World


def choose_for(world: World, name: str, *, is_policy: bool) -> dict[str, Any]:
    """Random arguments or a random policy for a queue.

    If letters of a queue with priorities come back to it while it still gives up messages, those with a
    high one are the next to leave; its limit may have had room for them later. In RabbitMQ, too, they may
    come before or after the rest of what is published; but after a policy all have left that must.
    """
    told = choose(
        world.random,
        KINDS[name],
        _targets_left(world, name),
        is_policy=is_policy,
        may_refuse=_may_refuse(world, name),
    )
    if _is_open(world, name, told, is_policy=is_policy) and name == "p":
        told.pop("max-length-bytes", None)
        told.pop("max-length", None)
    if _is_open(world, name, told, is_policy=is_policy):
        told.pop("dead-letter-exchange", None)
        told.pop("dead-letter-routing-key", None)
    return told


def _targets_left(world: World, name: str) -> list[str | None]:
    """Where the letters of a queue may go so that no two queues send to the same one.

    Nor to one that refuses them: the node sends those again for a long time (``test_waiting_letters``).
    """
    used = {target(each.kind, each.rules) for each in world.lists.queues.values() if each.name != name}
    used |= {each for each in KINDS if any(refuses(told) for told in _told(world, each))}
    return [each for each in ("c", "p", "q", "t", None) if (each or name) not in used]


def _may_refuse(world: World, name: str) -> bool:
    """Whether no queue sends its letters to this one, or may begin to."""
    told = [each for other in KINDS for each in _told(world, other)]
    own = [each for each in _told(world, name) if "dead-letter-exchange" in each]
    keys = {each.get("dead-letter-routing-key") for each in told}
    return name not in keys and all("dead-letter-routing-key" in each for each in own)


def _is_open(world: World, name: str, told: Told, *, is_policy: bool) -> bool:
    """Whether letters of the queue with priorities come back to it then, and it is limited."""
    found = _rules_with(world, name, told, is_policy=is_policy)
    return found["p"].is_limited and goes_round("p", found)


def drops_what_is_over(world: World, queue: ModelQueue, policy: Told) -> bool:
    """Whether a policy makes a queue drop messages of which some are over behind others, and letters may come
    back to it between two turns of that: then more are dropped, and fewer expire.
    """
    found = _rules_with(world, queue.name, policy, is_policy=True)
    told = found[queue.name]
    now_us = world.lists.now_us
    is_over = any(each.deadline_us is not None and each.deadline_us <= now_us for each in queue.ready)
    return is_over and told.is_limited and told.overflow == "drop-head" and goes_round(queue.name, found)


def _rules_with(world: World, name: str, told: Told, *, is_policy: bool) -> dict[str, Rules]:
    """What the queues obey once one of them is told so."""
    found: dict[str, Rules] = {}
    for each, kind in KINDS.items():
        policy, arguments = _told(world, each)
        if each == name and is_policy:
            policy = told
        elif each == name:
            arguments = told
        found[each] = rules(kind, arguments, policy)
    return found


def _told(world: World, name: str) -> list[Told]:
    """What a queue was told by arguments and policy; the policy may wait for the queue."""
    queue = world.lists.queues.get(name)
    return [world.policy_of(name), queue.arguments if queue is not None else {}]
