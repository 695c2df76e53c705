"""Random moves from a seed.

``python -m tests.model.endings.walk --steps 100000`` prints what was done and which features met; with
``--planted`` also which of the bugs that it must find (``tests.model.planted``) it does find.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from amqp_router import compiled
from tests.model.endings import choices, closing, consuming, ends, late, publishing, queues, settling, waiting
from tests.model.endings.ends import CRASH_POINTS
from tests.model.endings.pairs import PAIRS, shown
from tests.model.endings.rules import KINDS, target
from tests.model.endings.says import Says
from tests.model.endings.setting import FANOUT
from tests.model.endings.sizes import small
from tests.model.endings.world import World
from tests.model.planted import ENDINGS as MODULE
from tests.model.planted import PLANTED
from tests.planting import check_is_found, plots

#: Moves of one seed.
MOVES = 120
#: Of so many steps, in one at least each pair of features meets, or a long walk has failed.
RARE = 100
LONG = 100_000
CHANNELS = ((0, 1), (0, 2), (1, 1), (1, 2))
PUBLISHED = ("c", "c", "p", "p", "p", "q", "q", "t", "t", "x")


def walk(seed: int, moves: int = MOVES) -> World:
    """Random moves; raises what the node did wrong."""
    with small():
        return _walk(Random(seed), moves)


def _walk(random: Random, moves: int) -> World:
    world = World(random, random.choice((0, 0, 1500, 1 << 20)))
    world.connect()
    for name in KINDS:
        queues.declare(world, name)
    for _ in range(moves):
        world.node.busy = random.random() < 0.3
        step(world, random)
        world.lists.pairs.end_step()
    world.node.busy = False
    close(world)
    return world


def step(world: World, random: Random) -> None:
    """One random move."""
    for each in KINDS:
        if each not in world.lists.queues and random.random() < 0.3:
            queues.declare(world, each)
    (move,) = random.choices([*STEPS], [*STEPS.values()])
    move(world, random, random.choice(PUBLISHED))


def publish(world: World, random: Random, name: str) -> None:
    if random.random() < 0.15:
        # One message to all queues at once.
        says = Says.published(
            FANOUT, "", persistent=random.random() < 0.7, priority=random.choice((None, 2)), ms=None
        )
        publishing.publish(world, [says], [20])
        return
    count = random.choice((1, 1, 2, 5, 9))
    priority = random.choice((None, 0, 1, 2, 3, 9))
    priorities = [priority] * count
    if name == "p" and world.lists.queues.get("p") and world.lists.queues["p"].credit() <= 0:
        # Which of them a consumer gets would be open.
        priorities = [random.choice((None, 0, 1, 2, 3, 9)) for _ in range(count)]
    share = random.choice((0.0, 0.6, 1.0, 1.0))
    messages = [
        Says.published(
            "",
            name,
            persistent=random.random() < share,
            priority=each,
            ms=random.choice((None, None, None, None, 0, 310, 1010)),
        )
        for each in priorities
    ]
    publishing.publish(world, messages, [random.choice((10, 10, 60, 200)) for _ in messages])


def frame_among_slices(world: World, random: Random, name: str) -> None:
    """Very many expire together, and before the last of them has, a client's frame comes."""
    frame = random.choice(("declare", "get", "publish", "publish", "requeue", "requeue"))
    who, number = _channel(random)
    roomy = [queue.name for queue in world.lists.queues.values() if not queue.rules.is_limited]
    if frame == "requeue":
        holding = [(i, n, world.channel(i, n)[1].queues()) for i, n in CHANNELS]
        holding = [each for each in holding if len(each[2]) == 1]
        if holding:
            who, number, (name,) = random.choice(holding)
    elif roomy and random.random() < 0.8:
        name = random.choice(roomy)
    if name not in world.lists.queues:
        return
    priority = random.choice((None, 2))
    messages = [
        Says.published("", name, persistent=random.random() < 0.6, priority=priority, ms=30)
        for _ in range(random.choice((0, 6, 9, 9)))
    ]
    if messages:
        publishing.publish(world, messages, [10] * len(messages))
    seconds = random.choice((0.031, 0.031, 0.4))
    late.frame_among_slices(world, who, number, name, seconds, frame=frame, turns=random.randrange(3))


def publish_in_transaction(world: World, random: Random, name: str) -> None:
    priority = random.choice((None, 1))
    messages = [
        Says.published("", name, persistent=random.random() < 0.7, priority=priority, ms=None)
        for _ in range(random.randint(1, 3))
    ]
    publishing.publish_in_transaction(world, messages, [20] * len(messages))


def change_policy(world: World, random: Random, name: str) -> None:
    name = random.choice([*KINDS])
    if random.random() < 0.15:
        queues.set_policy(world, name, None)
        return
    queues.set_policy(world, name, choices.choose_for(world, name, is_policy=True))


def consume(world: World, random: Random, name: str) -> None:
    who, number = _channel(random)
    prefetch, no_ack = random.choice((1, 2, 5, 5, 9)), random.random() < 0.08
    consuming.consume(world, who, number, name, random.choice("yz"), no_ack=no_ack, prefetch=prefetch)


def cancel(world: World, random: Random, name: str) -> None:
    found = [(i, n, tag) for i, n in CHANNELS for tag in world.channel(i, n)[1].consumers]
    if found:
        consuming.cancel(world, *random.choice(found))


def get(world: World, random: Random, name: str) -> None:
    consuming.get(world, *_channel(random), name, no_ack=random.random() < 0.3)


def settle(world: World, random: Random, name: str) -> None:
    holding = [(i, n) for i, n in CHANNELS if world.channel(i, n)[1].out]
    if holding:
        how = random.choice(("ack", "nack", "reject", "requeue", "requeue", "requeue"))
        multiple, follow = random.random() < 0.5, random.random() < 0.5
        who, number = random.choice(holding)
        settling.settle(world, who, number, random.randrange(12), how, multiple=multiple, follow=follow)


def return_again(world: World, random: Random, name: str) -> None:
    """A client cannot do with a message of the quorum queue, mostly one that something else has happened to,
    and returns it once or more often.
    """
    who, number = random.choice(((0, 1), (0, 2), (1, 1)))  # not in a transaction
    feature = random.choice(("priority",) * 4 + ("paging", "paging", "dead-letter cycle"))
    queue, source = world.lists.queues.get("q"), world.lists.queues.get("p")
    if feature == "priority" and source is not None and target(source.kind, source.rules) == "q":
        # Mostly nobody takes them, and they are letters at once.
        says = [Says.published("", "p", persistent=random.random() < 0.5, priority=2, ms=0) for _ in range(2)]
        publishing.publish(world, says, [10] * len(says))
    if queue is not None and any(feature in entry.marks for entry in queue.ready[:6]):
        while queue.ready and feature not in queue.ready[0].marks:
            consuming.get(world, who, number, "q", no_ack=True)
    for _ in range(random.randint(1, 4)):
        if "q" not in world.channel(who, number)[1].queues():
            consuming.get(world, who, number, "q", no_ack=False)
        if world.channel(who, number)[1].out:
            settling.settle(world, who, number, -1, "requeue", multiple=random.random() < 0.3, follow=False)


def end_settles(world: World, random: Random, name: str) -> None:
    settling.end_settles(world, commit=random.random() < 0.7)


def end_publishes(world: World, random: Random, name: str) -> None:
    publishing.end_publishes(world, commit=random.random() < 0.7)


def late_frame(world: World, random: Random, name: str) -> None:
    late.late_frame(world, *_channel(random), name, random.choice((0.1, 0.4, 1.6)), get=random.random() < 0.5)


def _channel(random: Random) -> tuple[int, int]:
    return random.choice(CHANNELS)


def end(world: World, random: Random, name: str) -> None:
    """The node ends, one way or another, and starts again."""
    seed = random.randrange(1 << 30)
    choice = random.randrange(10)
    if choice < 4:
        ends.restart(world)
    elif choice < 6:
        ends.kill(world)
    elif choice == 6:
        ends.crash(world, seed)
    elif choice == 7:
        ends.crash_unheard(world, seed)
    elif choice == 8:
        ends.crash_in_stop(world, random.randrange(20), seed)
    else:
        ends.crash_at(world, random.choice([*CRASH_POINTS]), random.choice((0, 0, 1, 3)), seed)


def close(world: World) -> None:
    """Take all that is left: nothing stays behind in memory."""
    world.moves["the end"] += 1
    for who in (0, 1):
        for number in (1, 2):
            closing.close_channel(world, who, number)
    waiting.settle_down(world)
    for name in list(world.lists.queues):
        queues.set_policy(world, name, None)
    waiting.settle_down(world)
    for name in list(world.lists.queues):
        if name in world.lists.queues:
            queues.delete(world, name)
    waiting.settle_down(world)
    assert world.node.budget.used == 0, "memory that nothing accounts for"
    ends.leave(world)
    world.node.stop()


#: What a step may be, and how often it is.
STEPS: dict[Callable[[World, Random, str], None], float] = {
    publish: 20,
    consume: 7,
    cancel: 3,
    get: 3,
    settle: 18,
    return_again: 10,
    end_settles: 1,
    lambda world, random, name: closing.close_channel(world, *_channel(random)): 1,
    lambda world, random, name: closing.lose_connection(world, random.randrange(2)): 0.5,
    lambda world, random, name: queues.purge(world, name): 0.5,
    lambda world, random, name: queues.delete(world, name): 1,
    change_policy: 12,
    lambda world, random, name: waiting.sleep(world, random.choice((0.1, 0.4, 0.7, 1.0, 2.0))): 7,
    late_frame: 2,
    frame_among_slices: 4,
    publish_in_transaction: 2,
    end_publishes: 1.5,
    lambda world, random, name: waiting.work(world): 3,
    lambda world, random, name: waiting.hear(world): 3,
    lambda world, random, name: waiting.commit(world): 1,
    lambda world, random, name: waiting.settle_down(world): 2,
    end: 7,
}


def report(
    seeds: int, steps: int, seconds: float, moves: Counter[str], total: Counter[tuple[str, str]]
) -> str:
    rare = min(PAIRS, key=lambda pair: total[pair])
    lines = [f"{count:8} {move}" for move, count in sorted(moves.items())]
    lines += ["", shown(total), ""]
    lines.append(f"{steps} steps of {seeds} seeds in {seconds:.0f} s, {compiled.build.summary()}")
    lines.append(f"rarest pair: {rare[0]} and {rare[1]}, {total[rare]} steps")
    return "\n".join(lines)


def look_for_planted() -> int:
    """Print for each planted bug that this walk must find whether it does; returns how many it does not."""
    bugs = [bug for bug in PLANTED if bug.walk == MODULE]
    survivors = 0
    with TemporaryDirectory() as directory, plots(Path(directory), 1) as (plot,):
        for bug in bugs:
            try:
                check_is_found(plot, bug, [MODULE, str(bug.first), str(bug.first + (bug.seeds or 60))])
            except AssertionError as error:
                survivors += 1
                print(error)
            else:
                print(f"found: {bug.name}", flush=True)
    print(f"{len(bugs) - survivors} of {len(bugs)} planted bugs are found")
    return survivors


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.endings.walk", description=__doc__)
    parser.add_argument("first", nargs="?", type=int, default=0, help="the first seed")
    parser.add_argument("last", nargs="?", type=int, default=None, help="walk the seeds below this one")
    parser.add_argument("--steps", type=int, default=100_000, help="walk until so many steps are done")
    parser.add_argument("--planted", action="store_true", help="then look for planted bugs as well")
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
    if steps >= LONG and min(total[pair] for pair in PAIRS) * RARE < steps:
        print(f"that is less than one of {RARE}")
        return 1
    return int(options.planted and look_for_planted() > 0)


if __name__ == "__main__":
    sys.exit(main())
