"""Errors of the disk, ends of the node, and the starts after them."""

from __future__ import annotations

import contextlib
from random import Random

from persistence.clock import JUMP_US
from persistence.log.queue.times import is_crumbled
from tests.persistence.log.model.reading import check_times, last_time
from tests.persistence.log.model.world import LOGS, World
from tests.persistence.log.model.writing import append
from tests.persistence.log.simdisk import PowerLoss

#: How far the clock may be off: a step that is levelled out, hours, a year, back and forth.
OFF_US = (0, 0, 30_000_000, -30_000_000, 7_200_000_000, -7_200_000_000, 365 * 86_400_000_000)
#: Operations that may fail.
FAULTS = ("sync", "write", "create", "rename", "unlink", "sync_directory", "sync_file_system")


def fail(world: World, operation: str, after: int, error: int) -> None:
    """The ``after``-th such operation of the worker fails, once."""
    world.moves[f"fail {operation}"] += 1
    world.has_failed = True
    world.disk.fail(operation, error=error, after=after, once=True)
    world.settle_down()
    # An idle journal syncs its logs.
    world.wait(1.5)
    world.settle_down()
    world.disk.hook = None


def crash_failing(world: World, operation: str, after: int, error: int, seed: int) -> None:
    """As ``fail``, and the power is lost before an idle journal syncs its logs."""
    world.moves[f"crash after failed {operation}"] += 1
    world.disk.fail(operation, error=error, after=after, once=True)
    world.has_failed = True
    world.settle_down()
    world.lose_power(seed)
    world.reopen(clean=False)


def restart(world: World) -> None:
    """A clean stop and a start."""
    world.moves["clean restart"] += 1
    world.disk.hook = None
    world.catalog.stop()
    for shadow in world.shadows:
        shadow.note_sealed()
    assert world.disk.open_files == 0
    world.reopen(clean=True)
    assert world.catalog.was_clean


def kill(world: World) -> None:
    """The process dies; what it wrote stays in the page cache, synced or not."""
    world.moves["kill"] += 1
    for shadow in world.shadows:
        shadow.log = None
    world.disk.forget_files()
    world.disk.hook = None
    world.reopen(clean=False)


def crash(world: World, seed: int, steps: int = -1) -> None:
    """Power loss, at once or ``steps`` disk operations into what the worker does next."""
    world.moves["crash" if steps < 0 else "crash in the worker"] += 1
    if steps >= 0:
        world.disk.steps_left = steps
        with contextlib.suppress(PowerLoss):
            world.settle_down()
    world.lose_power(seed)
    world.reopen(clean=False)


def crash_at_start(world: World, seed: int, steps: int) -> None:
    """Power loss, and again while the next start recovers."""
    world.moves["crash at start"] += 1
    world.lose_power(seed)
    world.disk.steps_left = steps
    try:
        world.start()
        for shadow in world.shadows:
            world.catalog.open(shadow.name, "/", shadow.name, {})
        world.catalog.quarantine_unknown([shadow.name for shadow in world.shadows])
    except PowerLoss:
        pass
    world.lose_power(seed + 1)
    world.reopen(clean=False)


def jump(world: World, off_us: int, *, clean: bool) -> None:
    """The next start finds the clock elsewhere; what comes then has its time."""
    last = [last_time(world.log(number)) for number in range(LOGS)]
    world.off_us = off_us
    world.moves["jump back" if max(last) > world.wall_us() + JUMP_US else "jump forth"] += 1
    if clean:
        restart(world)
    else:
        kill(world)
    now_us = world.wall_us()
    for number, shadow in enumerate(world.shadows):
        log = world.log(number)
        last_us = log.batches.last_us
        assert last_us - now_us <= JUMP_US or is_crumbled(log.partition), "the clock's time is not taken"
        append(world, number, 1, 30)
        world.settle_down()
        check_times(log)
        if not shadow.failed:
            assert last_time(log) == max(last_us, now_us)


def open_badly(world: World, number: int, random: Random) -> None:
    """After a crash one log cannot be read, and the others go on without it; later all is well again."""
    world.lose_power(random.randrange(1 << 30))
    world.start()
    bad = world.shadows[number]
    world.disk.fail("read", bad.name)
    with contextlib.suppress(OSError):
        world.catalog.open(bad.name, "/", bad.name, {})
    world.disk.hook = None
    is_missing = bad.name not in world.catalog.logs
    world.moves["a log cannot be opened" if is_missing else "(a log has nothing to read)"] += 1
    for shadow in world.shadows:
        if shadow is not bad or not is_missing:
            world.open_log(shadow, clean=False)
    world.catalog.quarantine_unknown([shadow.name for shadow in world.shadows])
    others = [n for n in range(LOGS) if n != number]
    for _ in range(random.randint(0, 3)):
        for other in others:
            append(world, other, 1, 30)
        world.tick()
        world.settle_down()
    world.lose_power(random.randrange(1 << 30))
    world.reopen(clean=False)
