"""Errors of the disk, and ends of the node: stops, kills and power losses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

from amqp_router.connection.states import ConnectionState
from tests.model.node import declaring, publishing, starts, waiting
from tests.model.node.setting import QUEUES
from tests.model.node.world import World
from tests.nodes import SimNode
from tests.persistence.log.simdisk import PowerLoss
from tests.persistence.log.sizes import OPTIONS

#: Where the power fails: the operation before which it does, and a part of the path.
CRASH_POINTS: dict[str, tuple[str, str]] = {
    "before a batch is written": ("write", ".log"),
    "between write and sync": ("sync", ".log"),
    "before a new segment is made": ("create", ".log"),
    "before a new segment's name is durable": ("sync_directory", "data/queues"),
    "before log.json is in place": ("rename", "log.json"),
    "before a checkpoint is in place": ("rename", "checkpoint"),
    "between checkpoint and removal of segments": ("unlink", ".log"),
    "before the commit journal is written": ("write", ".journal"),
    "before the commit journal is synced": ("sync", ".journal"),
    "before the commit journal is removed": ("unlink", ".journal"),
    "while a rewritten segment takes its place": ("rename", ".log"),
    "before a deleted log is renamed": ("rename", ".deleted"),
    "while a deleted log is removed": ("unlink", ".deleted"),
    "while transient messages are paged": ("write", ".page"),
}


def fail(world: World, operation: str, after: int) -> None:
    """The ``after``-th such operation of the disk fails, once."""
    world.moves[f"disk fails: {operation}"] += 1
    world.has_failed = True
    world.disk.fail(operation, after=after, once=True)
    waiting.let_all_happen(world)
    world.disk.hook = None


def restart(world: World) -> None:
    """A clean stop and a start."""
    world.moves["clean restart"] += 1
    leave(world)
    world.node.stop()
    starts.reopen(world, clean=True)


def leave(world: World) -> None:
    """All clients are gone at once: nothing that one gives back goes to another."""
    world.node.busy = True
    for peer in world.peers:
        for channel in peer.channels.values():
            channel.close()
        peer.client.drop()
        peer.client.machine.state = ConnectionState.CLOSED
    world.node.busy = False
    world.node.quiet()


def kill(world: World) -> None:
    """The process dies; what it wrote stays in the page cache, synced or not."""
    world.moves["kill -9"] += 1
    _die(world)
    world.disk.forget_files()
    starts.reopen(world, clean=False)


def crash(world: World, seed: int) -> None:
    """The power fails while nothing is being written."""
    world.moves["power fails"] += 1
    _lose_power(world, seed)
    starts.reopen(world, clean=False)


def crash_at(world: World, point: str, after: int, seed: int) -> bool:
    """The power fails at one of ``CRASH_POINTS``, if the node comes there; whether it did."""
    operation, part = CRASH_POINTS[point]
    if not _until_power_loss(
        world, lambda: _provoke(world, Random(seed)), _at(world, operation, part, after)
    ):
        world.moves[f"({point}: not reached)"] += 1
        return False
    world.moves[f"power fails {point}"] += 1
    _lose_power(world, seed)
    starts.reopen(world, clean=False)
    return True


def _provoke(world: World, random: Random) -> None:
    """Enough traffic to come by most of ``CRASH_POINTS``."""
    for _ in range(3):
        keys = [random.choice((*QUEUES, "*")) for _ in range(random.randint(1, 6))]
        publishing.publish(world, 1, keys, [random.random() < 0.7 for _ in keys], 900)
        waiting.let_all_happen(world)
        name = random.choice([*QUEUES])
        if random.random() < 0.3:
            declaring.delete(world, name)
        elif random.random() < 0.3:
            declaring.purge(world, name)
        waiting.work(world)
    for name in QUEUES:
        declaring.declare(world, name)
    for seconds in (61.0, 0.01, 0.01, 0.01):
        waiting.sleep(world, seconds)
        world.node.settle()
    waiting.let_all_happen(world)


def crash_in_stop(world: World, steps: int, seed: int) -> None:
    """The power fails ``steps`` operations into a clean stop, or right after it."""
    leave(world)
    world.disk.steps_left = steps
    with contextlib.suppress(PowerLoss):
        world.node.stop()
        # All that was to be durable is; the definitions were last.
        world.moves["power fails after a clean stop"] += 1
        world.disk.power_loss(Random(seed))
        starts.reopen(world, clean=True)
        return
    world.moves["power fails in a clean stop"] += 1
    _lose_power(world, seed)
    starts.reopen(world, clean=None)


def crash_at_start(world: World, steps: int, seed: int) -> None:
    """The power fails, and again while the next start recovers."""
    _lose_power(world, seed)
    world.disk.steps_left = steps
    try:
        SimNode(world.disk, world.definitions, boot=world.boot + 1, log_options=OPTIONS)
        world.moves["power fails after a start"] += 1
    except PowerLoss:
        world.moves["power fails in a start"] += 1
    world.boot += 1
    _lose_power(world, seed + 1)
    starts.reopen(world, clean=False)


def crash_unheard(world: World, seed: int) -> None:
    """A round is synced and definitions are stored, and the power fails before the loop hears of it."""
    world.moves["power fails before the loop hears"] += 1
    while world.node.work():
        pass
    if world.is_storing:
        world.definitions.commit(1)
    _lose_power(world, seed)
    starts.reopen(world, clean=False)


def _at(world: World, operation: str, part: str, after: int) -> Callable[[str, str], None]:
    left = after

    def hook(name: str, path: str) -> None:
        nonlocal left
        if left < 0:
            raise PowerLoss
        if name == operation and part in path:
            left -= 1
            if left < 0:
                raise PowerLoss

    return hook


def _until_power_loss(world: World, call: Callable[[], None], hook: Callable[[str, str], None]) -> bool:
    world.disk.hook = hook
    try:
        call()
    except PowerLoss:
        return True
    finally:
        world.disk.hook = None
    return False


def _die(world: World) -> None:
    world.disk.hook = None
    world.definitions.lose()


def _lose_power(world: World, seed: int) -> None:
    _die(world)
    world.disk.power_loss(Random(seed))
