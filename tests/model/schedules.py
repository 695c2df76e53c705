"""Plays many schedules of a simulation, each made from its seed, and says how many in a second.

``play`` does so in this process, ``play_apart`` in processes of its own: each plays up to ``PER_PROCESS``
schedules and ends, and several do so at a time. Each takes the next seed when it has played one, so that none
ends long before the others, however fast its processor is. The nodes of a schedule hold each other in cycles,
and finding the dead ones took the garbage collector an eighth of the CPU. A process that ends gives back its
memory as a whole, so there nothing is collected. The dead nodes of ``PER_PROCESS`` schedules take some 110 MB
until then.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import select
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple, NoReturn, TypeAlias

#: Plays one schedule from a seed; returns the histogram of its moves.
Run: TypeAlias = Callable[[int], Counter[str]]

#: Schedules that a process plays before it ends. A new one first copies what it changes of its parent's
#: memory, which takes as long as a schedule.
PER_PROCESS = 100
#: Schedules between two collections of garbage in a process that stays: some 20 MB of dead nodes.
_COLLECT_EVERY = 10
_SEED = Struct("<q")


class ScheduleFailed(Exception):
    """Schedules have failed; the text has the error and seed of each."""


class Played(NamedTuple):
    """What was done, and what it took."""

    moves: Counter[str]
    schedules: int
    #: CPU time in seconds of all processes together, user's and system's, starts and ends of processes too.
    cpu_s: float
    wall_s: float


def play(run: Run, seeds: Sequence[int]) -> Played:
    """Play ``seeds`` in this process.

    Raises:
        ScheduleFailed: the first that fails.
    """
    moves: Counter[str] = Counter()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    with _few_collections():
        for count, seed in enumerate(seeds):
            moves += _play_one(run, seed)
            if count % _COLLECT_EVERY == 0:
                gc.collect()
    return Played(moves, len(seeds), time.process_time() - cpu_s, time.perf_counter() - wall_s)


def play_apart(run: Run, seeds: Sequence[int], jobs: int = 1) -> Played:
    """Play ``seeds`` in processes that end after at most ``PER_PROCESS`` of them, ``jobs`` at a time.

    Raises:
        ScheduleFailed: some have failed. A process ends at the first that does; others play on.
    """
    cpu_s, wall_s = _cpu_s(), time.perf_counter()
    #: By the pipe on which it tells what it has done: the id of each process.
    playing: dict[int, int] = {}
    moves: Counter[str] = Counter()
    failures: list[str] = []
    with _few_collections(), tempfile.TemporaryFile() as file:
        file.write(b"".join([_SEED.pack(seed) for seed in seeds]))
        file.flush()
        left = file.fileno()
        os.lseek(left, 0, os.SEEK_SET)
        while playing or _is_one_left(left):
            while len(playing) < jobs and _is_one_left(left):
                pid, pipe = _begin(run, left)
                playing[pipe] = pid
            for pipe in select.select([*playing], [], [])[0]:
                with open(pipe, "rb") as answer:
                    told = json.loads(answer.read() or "{}")
                status = os.waitstatus_to_exitcode(os.waitpid(playing.pop(pipe), 0)[1])
                moves += Counter(told.get("moves", {}))
                if status:
                    failures.append(told.get("error", f"a process has ended with status {status}"))
    if failures:
        raise ScheduleFailed("\n".join(failures))
    return Played(moves, len(seeds), _cpu_s() - cpu_s, time.perf_counter() - wall_s)


def main(run: Run, what: str, arguments: Sequence[str] | None = None) -> int:
    """The command: play the seeds and tell what was done. ``what`` a schedule is, for the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("last", type=int, help="the seed behind the last one")
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="how many processes play at a time (default: one for each processor)",
    )
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    try:
        played = play_apart(run, range(chosen.first, chosen.last), chosen.jobs)
    except ScheduleFailed as error:
        print(error)
        return 1
    finally:
        logging.disable(logging.NOTSET)
    for move, count in sorted(played.moves.items()):
        print(f"{count:8} {move}")
    print(f"{played.schedules / played.cpu_s:.1f} {what} a second of CPU")
    processes = "one process" if chosen.jobs == 1 else f"{chosen.jobs} processes"
    print(f"{played.schedules / played.wall_s:.1f} a second of wall time, {processes} at a time")
    return 0


def _play_one(run: Run, seed: int) -> Counter[str]:
    try:
        return run(seed)
    except Exception as error:
        raise ScheduleFailed(f"seed {seed}: {type(error).__name__}: {error}") from error


def _is_one_left(left: int) -> bool:
    """Whether the file ``left`` has a seed that no process has taken."""
    return os.lseek(left, 0, os.SEEK_CUR) < os.fstat(left).st_size


def _taken(left: int) -> Iterator[int]:
    """Up to ``PER_PROCESS`` seeds of the file ``left``, of which each process takes others: they share its
    position.
    """
    for _ in range(PER_PROCESS):
        octets = os.read(left, _SEED.size)
        if not octets:
            return
        yield _SEED.unpack(octets)[0]


def _begin(run: Run, left: int) -> tuple[int, int]:
    """Start a process that plays seeds of the file ``left``; returns its id, and the pipe on which it tells
    ``moves`` or an ``error``, as JSON.

    That is small enough for the pipe to take it at once, so the process ends whether or not somebody reads.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _play_and_end(run, left, writing)
    os.close(writing)
    return pid, reading


def _play_and_end(run: Run, left: int, pipe: int) -> NoReturn:
    """The forked process. It must not go back to what its parent was doing, whatever happens."""
    status = 1
    try:
        moves: Counter[str] = Counter()
        try:
            for seed in _taken(left):
                moves += _play_one(run, seed)
        except ScheduleFailed as error:
            os.write(pipe, json.dumps({"error": str(error)[:4096]}).encode())
        else:
            os.write(pipe, json.dumps({"moves": moves}).encode())
            status = 0
    finally:
        os._exit(status)


def _cpu_s() -> float:
    """CPU time of this process and of those that it started and that have ended, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """What was imported stays, and the garbage collector looks only when it is told to.

    A node of its own process does the same with full collections (``amqp_router/process.py``).
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
