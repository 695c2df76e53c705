"""Random moves of the toy from a seed: ``python -m tests.persistence.log.replica.walk FIRST LAST``."""

from __future__ import annotations

import sys
from collections import Counter

from tests.persistence.log.replica import comparing, faults
from tests.persistence.log.replica.toy import Toy
from tests.planting import walk_seeds

MOVES = {
    "publish": 30,
    "settle": 24,
    "round": 24,
    "follow": 30,
    "timers": 8,
    "purge": 1,
    "elect": 2,
    "elect_uncleanly": 3,
    "crash": 5,
    "restart": 1,
    "shrink": 2,
    "compare": 1,
}


def walk(seed: int, moves: int = 120) -> Counter[str]:
    """Random moves from a seed, and a comparison."""
    toy = Toy(seed)
    random = toy.random
    for _ in range(moves):
        move = random.choices(list(MOVES), list(MOVES.values()))[0]
        toy.moves[move] += 1
        match move:
            case "timers":
                side = random.choice(toy.sides)
                side.node.run_timers()
                assert side.log.failed is None or side.is_busy
            case "crash":
                faults.crash(toy, random.choice(toy.sides), random.randrange(30))
            case "restart":
                faults.restart(toy, random.choice(toy.sides))
            case "compare":
                comparing.compare(toy)
            case _:
                getattr(toy, move)()
    comparing.compare(toy)
    return toy.moves


def main(first: int, last: int) -> int:
    """Walk the seeds ``[first, last)``."""
    return walk_seeds(first, last, walk)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
