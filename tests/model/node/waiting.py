"""Time goes by, and what runs beside the loop goes on."""

from __future__ import annotations

from tests.model.node import storing
from tests.model.node.world import World


def work(world: World) -> None:
    """One of the threads that write does a job; the loop has not heard of it."""
    if world.node.flusher.has_job:
        world.moves["flusher" if world.node.flusher.count == 1 else "flusher by the journal"] += 1
    elif world.node.worker.jobs:
        world.moves["worker"] += 1
    world.node.work()


def hear(world: World) -> None:
    """The loop hears of one thing that a thread has done."""
    if world.node.posted:
        world.moves["loop hears of the worker"] += 1
        world.node.hear()
        world.absorb()


def sleep(world: World, seconds: float) -> None:
    """Time goes by, and the timers that are due go off."""
    world.moves["time passes"] += 1
    world.node.sleep(seconds)
    world.absorb()


def settle_down(world: World) -> None:
    """Everything is synced and stored; nobody waits any more."""
    world.moves["settle down"] += 1
    storing.heal_definitions(world)
    let_all_happen(world)
    storing.compare_with_store(world)
    for peer in world.peers:
        for channel in peer.channels.values():
            assert not channel.unanswered, f"no confirm for {list(channel.unanswered)}"
            assert not channel.expected
    for queue in world.queues.values():
        queue.harden()


def let_all_happen(world: World) -> None:
    """Whatever is to be stored or synced is, unless the definition store fails."""
    if world.is_storing:
        storing.commit_all(world)
    world.node.settle()
    world.node.sleep(0.3)
    world.node.settle()
    assert world.node.sync.is_idle
    world.absorb()
