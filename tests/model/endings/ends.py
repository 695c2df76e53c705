"""Ends of the node: stops, kills and power losses."""

from __future__ import annotations

import contextlib
from random import Random

from amqp_router.connection.states import ConnectionState
from tests.model.endings import closing, hearing, publishing, starts, waiting
from tests.model.endings.queue import ModelQueue
from tests.model.endings.says import Says
from tests.model.endings.world import World
from tests.persistence.log.simdisk import PowerLoss

#: Where the power fails: the operation before which it does, whether it is at the log of a queue whose
#: messages die (or of a queue that gets letters), and whether letters are under way then.
CRASH_POINTS: dict[str, tuple[str, str, bool]] = {
    "before a letter is written": ("write", "target", True),
    "between write and sync of a letter": ("sync", "target", True),
    "before a letter's place in the journal": ("write", ".journal", True),
    "between write and sync of the journal with a letter": ("sync", ".journal", True),
    "before the end of a dead message is written": ("write", "source", False),
    "between write and sync of the end of a dead message": ("sync", "source", False),
    "before a segment in which messages expired is removed": ("unlink", "source", False),
    "before a checkpoint of expired messages is in place": ("rename", "source", False),
}


def leave(world: World) -> None:
    """All clients are gone at once: nothing that one gives back goes to another."""
    closing.close_all_but_one(world, *world.peers)
    world.node.busy = True
    for peer in world.peers:
        peer.client.drop()
        peer.client.machine.state = ConnectionState.CLOSED
    world.node.busy = False
    world.node.quiet()
    assert not world.node.faults, world.node.faults
    world.received = []
    for peer in world.peers:
        for channel in peer.channels.values():
            hearing.give_back(world, channel)
    world.lists.rest()


def restart(world: World) -> None:
    """A clean stop and a start."""
    world.moves["clean restart"] += 1
    leave(world)
    world.node.stop()
    starts.reopen(world, clean=True)


def kill(world: World) -> None:
    """The process dies; what it wrote stays in the page cache, synced or not."""
    world.moves["kill -9"] += 1
    world.definitions.lose()
    world.disk.forget_files()
    starts.reopen(world, clean=False)


def crash(world: World, seed: int) -> None:
    """The power fails while nothing is being written."""
    world.moves["power fails"] += 1
    _lose_power(world, seed)


def crash_unheard(world: World, seed: int) -> None:
    """A round is synced and definitions are stored, and the power fails before the loop hears of it."""
    world.moves["power fails before the loop hears"] += 1
    while world.node.work():
        pass
    world.definitions.commit(1)
    _lose_power(world, seed)


def crash_in_stop(world: World, steps: int, seed: int) -> None:
    """The power fails ``steps`` operations into a clean stop, or right after it."""
    leave(world)
    world.disk.steps_left = steps
    with contextlib.suppress(PowerLoss):
        world.node.stop()
        world.moves["power fails after a clean stop"] += 1
        world.disk.power_loss(Random(seed))
        starts.reopen(world, clean=True)
        return
    world.moves["power fails in a clean stop"] += 1
    _lose_power(world, seed, clean=None)


def crash_at(world: World, point: str, after: int, seed: int) -> bool:
    """The power fails at one of ``CRASH_POINTS``, if the node comes there; whether it did."""
    operation, where, is_under_way = CRASH_POINTS[point]
    left = after

    def hook(name: str, path: str) -> None:
        nonlocal left
        if name != operation or left < 0:
            if left < 0:
                raise PowerLoss
            return
        letters = world.node.vhost.dead_letters
        if _is_at(world, where, path) and bool(letters._unsafe) is is_under_way:
            left -= 1
            if left < 0:
                raise PowerLoss

    world.disk.hook = hook
    try:
        _provoke(world, Random(seed))
    except PowerLoss:
        world.moves[f"power fails {point}"] += 1
        world.disk.hook = None
        _lose_power(world, seed)
        return True
    finally:
        world.disk.hook = None
    world.moves[f"({point}: not reached)"] += 1
    return False


def _is_at(world: World, where: str, path: str) -> bool:
    """Whether a file is a place of ``CRASH_POINTS``."""
    if where.startswith("."):
        return path.endswith(where)
    gives_up = [each for each in world.lists.queues.values() if each.kind.durable and _dies(each)]
    targets = [world.lists.queues.get(each.rules.key or "") for each in gives_up]
    queues = gives_up if where == "source" else [each for each in targets if each is not None]
    return any(f"/{each.incarnation}/" in f"{path}/" for each in queues)


def _provoke(world: World, random: Random) -> None:
    """Messages that expire and are dropped, with letters, while others are published."""
    for _ in range(4):
        for name in ("c", "q"):
            if random.random() < 0.7:
                count = random.randint(1, 6)
                says = [
                    Says.published("", name, persistent=True, priority=None, ms=random.choice((None, 100)))
                    for _ in range(count)
                ]
                publishing.publish(world, says, [random.choice((10, 60))] * count)
        if random.random() < 0.7:
            waiting.settle_down(world)
        waiting.sleep(world, random.choice((0.2, 0.7, 1.6)))
        waiting.work(world)
    waiting.settle_down(world)
    for _ in range(3):
        waiting.sleep(world, 0.5)
        world.node.settle()
    waiting.settle_down(world)


def _lose_power(world: World, seed: int, *, clean: bool | None = False) -> None:
    """The process is gone, and of what was not synced the disk keeps what the seed says."""
    world.definitions.lose()
    world.disk.power_loss(Random(seed))
    starts.reopen(world, clean=clean)


def _dies(queue: ModelQueue) -> bool:
    """Whether messages of a queue end by themselves."""
    return queue.rules.ttl is not None or queue.rules.is_limited
