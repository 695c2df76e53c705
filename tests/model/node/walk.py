"""Random moves from a seed: ``python -m tests.model.node.walk FIRST LAST``."""

from __future__ import annotations

import sys
from random import Random

from amqp_router.protocol.message import JOINED_BYTES_MAX
from tests.model.node import closing, consuming, declaring, ends, publishing, settling, storing, waiting
from tests.model.node.ends import CRASH_POINTS
from tests.model.node.setting import MEMORY_BYTES, QUEUES
from tests.model.node.world import World
from tests.planting import walk_seeds

#: Of a message that is never joined into one piece.
LARGE = JOINED_BYTES_MAX + 10


def walk(seed: int, moves: int) -> World:
    """Random moves from a seed."""
    random = Random(seed)
    world = World(random.choice((0, MEMORY_BYTES, 1 << 20)))
    if random.random() < 0.2:
        world.sizes[-1] = LARGE
    for name in QUEUES:
        declaring.declare(world, name)
    busy = random.choice([*QUEUES])
    for _ in range(moves):
        world.node.busy = random.random() < 0.3
        step(world, random, busy)
    world.node.busy = False
    close(world)
    return world


def step(world: World, random: Random, busy: str) -> None:
    """One random move; ``busy`` is the queue with most of the traffic."""
    name = busy if random.random() < 0.5 else random.choice([*QUEUES])
    who, number = random.randrange(2), random.randint(1, 2)
    choice = random.random()
    if choice < 0.24:
        count = random.choice((1, 1, 2, 5, 9))
        keys = [
            random.choice((name, name, name, "*", random.choice([*QUEUES]), "nobody")) for _ in range(count)
        ]
        share = random.choice((0.0, 0.7, 0.7, 1.0, 1.0))
        persistent = [random.random() < share for _ in keys]
        size = world.sizes[-1] if random.random() < 0.02 else random.choice(world.sizes[:-1])
        publishing.publish(world, random.choice((1, 1, 2)), keys, persistent, size)
    elif choice < 0.30:
        if random.random() < 0.5:
            consuming.qos(world, who, number, random.choice((1, 2, 7)), is_global=random.random() < 0.5)
        consuming.consume(world, who, number, name, random.choice("xyz"), no_ack=random.random() < 0.15)
    elif choice < 0.32:
        found = [(i, n, t) for i in (0, 1) for n in (1, 2) for t in world.consumers[i].channels[n].consumers]
        consuming.cancel(world, *random.choice(found or [(0, 1, "x")]))
    elif choice < 0.335:
        consuming.qos(world, who, number, random.choice((0, 1, 2, 7)), is_global=random.random() < 0.5)
    elif choice < 0.38:
        consuming.get(world, who, number, name, no_ack=random.random() < 0.3)
    elif choice < 0.60:
        holding = [(i, n) for i in (0, 1) for n in (1, 2) if world.consumers[i].channels[n].out]
        how = random.choice(("ack",) * 6 + ("nack", "nack and requeue", "nack and requeue", "reject"))
        which = random.choice((0, random.randrange(20)))
        settling.settle(world, *random.choice(holding or [(0, 1)]), which, random.random() < 0.3, how)
    elif choice < 0.615:
        settling.recover(world, who, number)
    elif choice < 0.625:
        channels = [(world.consumers[i].channels[n].next_tag, i, n) for i in (0, 1) for n in (1, 2)]
        _, who, number = max(channels)
        settling.ack_unknown_tag(world, who, number, random.randrange(-2, 20), random.random() < 0.5)
    elif choice < 0.63:
        closing.close_channel(world, who, number)
    elif choice < 0.635:
        closing.lose_connection(world, random.randrange(3))
    elif choice < 0.65:
        declaring.purge(world, name)
    elif choice < 0.66:
        declaring.delete(world, name)
    elif choice < 0.68:
        declaring.declare(world, name)
    elif choice < 0.70:
        storing.commit(world, random.randint(1, 3))
    elif choice < 0.71:
        if world.is_storing:
            storing.fail_definitions(world, lasting=random.random() < 0.7)
        else:
            storing.heal_definitions(world)
    elif choice < 0.715:
        publishing.select_confirms(world)
    elif choice < 0.80:
        waiting.work(world)
    elif choice < 0.90:
        waiting.hear(world)
    elif choice < 0.92:
        waiting.settle_down(world)
    elif choice < 0.945:
        waiting.sleep(world, random.choice((0.05, 0.3, 0.3, 1.5, 61.0)))
    elif choice < 0.95:
        operations = ["sync", "write", "create", "rename", "sync_directory", "read"]
        if world.sizes[-1] == LARGE:
            # A large message is read while it is sent: its receiver loses the connection in its midst.
            operations.remove("read")
        ends.fail(world, random.choice(operations), random.randrange(4))
    else:
        end(world, random)


def end(world: World, random: Random) -> None:
    """The node ends, one way or another, and starts again."""
    seed = random.randrange(1 << 30)
    choice = random.randrange(10)
    if choice < 2:
        ends.restart(world)
    elif choice == 2:
        ends.crash(world, seed)
    elif choice == 3:
        ends.kill(world)
    elif choice == 4:
        ends.crash_unheard(world, seed)
    elif choice == 5:
        ends.crash_in_stop(world, random.randrange(20), seed)
    elif choice == 6:
        ends.crash_at_start(world, random.randrange(12), seed)
    else:
        ends.crash_at(world, random.choice([*CRASH_POINTS]), random.choice((0, 0, 1, 3)), seed)


def close(world: World) -> None:
    """Consume all that is left: nothing stays behind in memory."""
    world.moves["the end"] += 1
    for peer in world.consumers:
        for number in peer.channels:
            closing.close_channel(world, world.consumers.index(peer), number)
    waiting.settle_down(world)
    for name, queue in list(world.queues.items()):
        if not queue.failed:
            while queue.ready:
                consuming.get(world, 0, 1, name, no_ack=len(queue.ready) % 2 == 0)
            settling.settle(world, 0, 1, 0, True, "ack")
    for name in list(world.queues):
        declaring.delete(world, name)
    waiting.settle_down(world)
    assert world.node.budget.used == 0, "memory that nothing accounts for"
    ends.leave(world)
    world.node.stop()
    for event, count in world.disk.events.items():
        if not event[-1].isdigit():
            world.moves[f"({event})"] += count


def main(first: int, last: int, moves: int = 120) -> int:
    """Walk the seeds ``[first, last)``."""
    return walk_seeds(first, last, lambda seed: walk(seed, moves).moves)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
