"""Random moves from a seed.

``python -m tests.model.endings.walk --steps 100000 --seed 0`` prints what was done and which features met.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from random import Random

from amqp_router import compiled
from tests.model.endings.pairs import PAIRS, shown
from tests.model.endings.rules import KINDS, choose
from tests.model.endings.sizes import small
from tests.model.endings.starts import CRASH_POINTS, FANOUT, Walker

#: Moves of one seed.
MOVES = 120
PUBLISHED = ("c", "c", "p", "p", "q", "q", "t", "t", "x")


def walk(seed: int, moves: int = MOVES) -> Walker:
    """Random moves; raises what the node did wrong."""
    with small():
        return _walk(Random(seed), moves)


def _walk(random: Random, moves: int) -> Walker:
    world = Walker(random, random.choice((0, 0, 1500, 1 << 20)))
    world.connect()
    for name in KINDS:
        world.declare(name)
    for _ in range(moves):
        world.node.busy = random.random() < 0.3
        step(world, random)
        world.lists.pairs.end_step()
    world.node.busy = False
    close(world)
    return world


def step(world: Walker, random: Random) -> None:
    """One random move."""
    name = random.choice(PUBLISHED)
    who, number = random.randrange(2), random.randint(1, 2)
    for each in KINDS:
        if each not in world.lists.queues and random.random() < 0.3:
            world.declare(each)
    choice = random.random()
    if choice < 0.24:
        publish(world, random, name)
    elif choice < 0.31:
        prefetch = random.choice((1, 2, 5, 5, 9))
        world.consume(
            who, number, name, random.choice("yz"), no_ack=random.random() < 0.08, prefetch=prefetch
        )
    elif choice < 0.34:
        consuming = [(i, n, t) for i in (0, 1) for n in (1, 2) for t in world.channel(i, n)[1].consumers]
        if consuming:
            world.cancel(*random.choice(consuming))
    elif choice < 0.38:
        world.get(who, number, name, no_ack=random.random() < 0.3)
    elif choice < 0.58:
        holding = [(i, n) for i in (0, 1) for n in (1, 2) if world.channel(i, n)[1].out]
        if holding:
            who, number = random.choice(holding)
            how = random.choice(("ack", "nack", "reject", "requeue", "requeue", "requeue"))
            multiple, follow = random.random() < 0.5, random.random() < 0.5
            world.settle(who, number, random.randrange(12), how, multiple=multiple, follow=follow)
    elif choice < 0.59:
        world.end_settles(commit=random.random() < 0.7)
    elif choice < 0.60:
        world.close_channel(who, number)
    elif choice < 0.605:
        world.lose_connection(who)
    elif choice < 0.61:
        world.purge(name)
    elif choice < 0.62:
        world.delete(name)
    elif choice < 0.70:
        change_policy(world, random, random.choice([*KINDS]))
    elif choice < 0.78:
        world.sleep(random.choice((0.1, 0.4, 0.7, 1.0, 2.0)))
    elif choice < 0.81:
        world.late_frame(who, number, name, random.choice((0.1, 0.4, 1.6)), get=random.random() < 0.5)
    elif choice < 0.83:
        publish_in_transaction(world, random, name)
    elif choice < 0.85:
        world.end_publishes(commit=random.random() < 0.7)
    elif choice < 0.88:
        world.work()
    elif choice < 0.92:
        world.hear()
    elif choice < 0.93:
        world.commit()
    elif choice < 0.95:
        world.settle_down()
    else:
        end(world, random)


def publish(world: Walker, random: Random, name: str) -> None:
    if random.random() < 0.15:
        # One message to all queues at once.
        says = world.says(
            FANOUT, "", persistent=random.random() < 0.7, priority=random.choice((None, 2)), ms=None
        )
        world.publish([says], [20])
        return
    count = random.choice((1, 1, 2, 5, 9))
    priority = random.choice((None, 0, 1, 2, 3, 9))
    priorities = [priority] * count
    if name == "p" and world.lists.queues.get("p") and world.lists.queues["p"].credit() <= 0:
        # Which of them a consumer gets would be open.
        priorities = [random.choice((None, 0, 1, 2, 3, 9)) for _ in range(count)]
    share = random.choice((0.0, 0.6, 1.0, 1.0))
    messages = [
        world.says(
            "",
            name,
            persistent=random.random() < share,
            priority=each,
            ms=random.choice((None, None, None, None, 0, 310, 1010)),
        )
        for each in priorities
    ]
    world.publish(messages, [random.choice((10, 10, 60, 200)) for _ in messages])


def publish_in_transaction(world: Walker, random: Random, name: str) -> None:
    priority = random.choice((None, 1))
    messages = [
        world.says("", name, persistent=random.random() < 0.7, priority=priority, ms=None)
        for _ in range(random.randint(1, 3))
    ]
    world.publish_in_transaction(messages, [20] * len(messages))


def change_policy(world: Walker, random: Random, name: str) -> None:
    if random.random() < 0.15:
        world.set_policy(name, None)
        return
    definition = choose(
        random,
        KINDS[name],
        world.targets_left(name),
        is_policy=True,
        may_refuse=world.may_refuse(name),
    )
    world.set_policy(name, definition)


def end(world: Walker, random: Random) -> None:
    """The node ends, one way or another, and starts again."""
    seed = random.randrange(1 << 30)
    choice = random.randrange(10)
    if choice < 4:
        world.restart()
    elif choice < 6:
        world.kill()
    elif choice == 6:
        world.crash(seed)
    elif choice == 7:
        world.crash_unheard(seed)
    elif choice == 8:
        world.crash_in_stop(random.randrange(20), seed)
    else:
        world.crash_at(random.choice([*CRASH_POINTS]), random.choice((0, 0, 1, 3)), seed)


def close(world: Walker) -> None:
    """Take all that is left: nothing stays behind in memory."""
    world.moves["the end"] += 1
    for who in (0, 1):
        for number in (1, 2):
            world.close_channel(who, number)
    world.settle_down()
    for name in list(world.lists.queues):
        world.set_policy(name, None)
    world.settle_down()
    for name in list(world.lists.queues):
        if name in world.lists.queues:
            world.delete(name)
    world.settle_down()
    assert world.node.budget.used == 0, "memory that nothing accounts for"
    world.leave()
    world.node.stop()


def report(
    seeds: int, steps: int, seconds: float, moves: Counter[str], total: Counter[tuple[str, str]]
) -> str:
    rare = min(PAIRS, key=lambda pair: total[pair])
    lines = [f"{count:8} {move}" for move, count in sorted(moves.items())]
    lines += ["", shown(total), ""]
    lines.append(f"{steps} steps of {seeds} seeds in {seconds:.0f} s, {compiled.build.summary()}")
    lines.append(f"rarest pair: {rare[0]} and {rare[1]}, {total[rare]} steps")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.endings.walk", description=__doc__)
    parser.add_argument("first", nargs="?", type=int, default=0, help="the first seed")
    parser.add_argument("last", nargs="?", type=int, default=None, help="walk the seeds below this one")
    parser.add_argument("--steps", type=int, default=100_000, help="walk until so many steps are done")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    moves: Counter[str] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    steps, seed, begun = 0, options.first, time.monotonic()
    while seed < options.last if options.last is not None else steps < options.steps:
        try:
            world = walk(seed)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}")
            return 1
        moves.update(world.moves)
        moves.update({f"({what})": count for what, count in world.lists.counts.items()})
        total.update(world.lists.pairs.total)
        steps += world.lists.pairs.steps
        seed += 1
    print(report(seed - options.first, steps, time.monotonic() - begun, moves, total))
    return 0


if __name__ == "__main__":
    sys.exit(main())
