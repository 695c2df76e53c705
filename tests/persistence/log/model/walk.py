"""Random moves from a seed: ``python -m tests.persistence.log.model.walk FIRST LAST [MIX]``."""

from __future__ import annotations

import errno
import sys
from random import Random

from amqp_router.protocol.flags import ACK, REJECT, RETURN
from tests.persistence.log.model import ends, writing
from tests.persistence.log.model.ends import FAULTS, OFF_US
from tests.persistence.log.model.world import LOGS, World
from tests.persistence.log.sizes import OPTIONS, ROOMY
from tests.planting import walk_seeds

#: Weights of the moves; the others are mixes of faults that one mix for all would reach rarely.
USUAL = {
    "append": 28,
    "reserve": 4,
    "settle": 16,
    "settle_some": 5,
    "tick": 14,
    "work": 10,
    "hear": 10,
    "settle_down": 3,
    "wait": 3,
    "read": 1.5,
    "purge": 1,
    "delete": 0.3,
    "truncate": 0.2,
    "fail": 0.7,
    "lack": 0.5,
    "restart": 1,
    "crash": 1,
    "kill": 1,
    "jump": 0.6,
    "crash_in_worker": 1,
    "crash_at_start": 0.5,
    "open_badly": 0.3,
}
MIXES = [
    USUAL,
    USUAL | {"fail": 6, "restart": 1, "kill": 2, "crash": 4, "settle_down": 6},
    USUAL
    | {
        "append": 1,
        "append_small": 20,
        "settle": 1,
        "settle_some": 40,
        "tick": 10,
        "work": 16,
        "hear": 16,
        "wait": 16,
    }
    | {"reserve": 1, "settle_down": 1, "crash": 3, "purge": 0, "delete": 0, "fail": 0.1, "restart": 0.1}
    | {"crash_in_worker": 0.2, "crash_at_start": 0, "truncate": 0, "kill": 0.1},
    USUAL | {"reserve": 15, "append": 15, "restart": 4},
    USUAL | {"truncate": 5, "lack": 5, "delete": 0, "crash": 3},
    USUAL | {"lack": 8, "crash": 3, "kill": 3, "restart": 2},
    {
        "append_small": 30,
        "settle_some": 6,
        "tick": 25,
        "work": 30,
        "hear": 30,
        "settle_down": 2,
        "wait": 4,
        "delete": 1,
        "purge": 0.3,
        "fail": 0.5,
        "lack": 0.3,
        "crash_failing": 1,
        "crash": 1,
        "crash_in_worker": 1,
        "kill": 0.3,
        "truncate": 0.3,
        "restart": 0.2,
        "open_badly": 0.3,
    },
]
#: The number of the mix whose rounds are mostly small enough for the flusher.
SMALL_ROUNDS = len(MIXES) - 1


def walk(seed: int, moves: int, mix_number: int = -1) -> World:
    """Random moves from a seed, which also chooses the mix unless one is given."""
    random = Random(seed)
    mix_number = mix_number if mix_number >= 0 else seed % len(MIXES)
    world = World(ROOMY if mix_number == SMALL_ROUNDS else OPTIONS)
    mix = MIXES[mix_number]
    names, weights = list(mix), list(mix.values())
    busy = random.randrange(LOGS)
    for _ in range(moves):
        number = busy if random.random() < 0.4 else random.randrange(LOGS)
        make_move(world, random.choices(names, weights)[0], number, random)
    for number in range(LOGS):
        world.read(number)
    world.close()
    return world


def make_move(world: World, name: str, number: int, random: Random) -> None:
    """One move on a log, its details from ``random``."""
    match name:
        case "append":
            writing.append(world, number, random.randint(1, 5), random.choice((1, 30, 200, 800)))
        case "append_small":
            writing.append(world, number, random.randint(2, 8), random.choice((1, 30, 60)))
        case "reserve":
            writing.reserve(world, number)
        case "settle":
            writing.settle(world, number, random.choice((0, random.randrange(50))), random.randint(1, 8), ACK)
        case "settle_some":
            kind = random.choice((ACK, REJECT, RETURN))
            writing.settle(world, number, random.randrange(50), 1 + random.randrange(3), kind)
        case "wait":
            world.wait(random.choice((0.02, 0.02, 0.3, 1.5, 61.0)))
        case "read":
            world.read(number)
        case "purge":
            writing.purge(world, number, random.randrange(3))
        case "delete":
            writing.delete(world, number)
        case "truncate":
            writing.truncate(world, number, random.random())
        case "fail":
            operation = random.choice(("sync", "sync", *FAULTS))
            ends.fail(world, operation, random.randrange(4), random.choice((errno.EIO, errno.ENOSPC)))
        case "lack":
            operation = random.choice(FAULTS)
            lack(world, operation, random.choice((errno.ENOSPC, errno.EMFILE)), random)
        case "crash_failing":
            operation = random.choice(("sync", "sync", "write"))
            ends.crash_failing(world, operation, random.randrange(4), errno.EIO, random.getrandbits(30))
        case "crash":
            ends.crash(world, random.getrandbits(30))
        case "crash_in_worker":
            ends.crash(world, random.getrandbits(30), random.randrange(25))
        case "jump":
            ends.jump(world, random.choice(OFF_US), clean=random.random() < 0.5)
        case "open_badly":
            ends.open_badly(world, number, random)
        case "crash_at_start":
            ends.crash_at_start(world, random.getrandbits(30), random.randrange(24))
        case "restart":
            ends.restart(world)
        case "kill":
            ends.kill(world)
        case _:
            getattr(world, name)()  # the sync, a thread or the loop goes on


def lack(world: World, operation: str, error: int, random: Random) -> None:
    """Such operations fail for a while, and everything else goes on; then every log heals by itself."""
    world.moves[f"lack {operation}"] += 1
    world.has_failed = True
    world.disk.fail(operation, error=error, after=random.randrange(4))
    for _ in range(random.randint(1, 12)):
        name = random.choice(("append", "settle_some", "settle", "tick", "settle_down", "wait", "read"))
        make_move(world, name, random.randrange(LOGS), random)
    if random.random() < 0.2:
        return  # whatever comes next comes while it lasts
    world.disk.hook = None
    for _ in range(6):
        world.wait(5.0)
        world.settle_down()
    assert not [shadow.name for shadow in world.shadows if shadow.passing]


def main(first: int, last: int, mix_number: int = -1, moves: int = 150) -> int:
    """Walk the seeds ``[first, last)``."""
    return walk_seeds(first, last, lambda seed: walk(seed, moves, mix_number).moves)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
