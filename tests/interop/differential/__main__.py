"""``python -m tests.interop.differential``: starts the brokers and takes the walks."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.brokers import RabbitProcess, RouterProcess
from tests.interop.differential import __doc__ as DESCRIPTION
from tests.interop.differential import counting
from tests.interop.differential.comparing import Walk, compare
from tests.interop.differential.sides import Place
from tests.interop.differential.vocabulary import PLUGINS

#: How often two RabbitMQs repeat a seed that differed.
RACE_RUNS = 3
#: RabbitMQ's schedulers sleep when they have nothing to do, so that several walks get more of the processor.
SLEEPY = {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none"}
ALIKE, RACE, DIFFERENT = "alike", "race", "different"


def place(broker: RouterProcess | RabbitProcess) -> Place:
    return Place(broker.name, broker.port, broker.admin_port)


class Races:
    """A second RabbitMQ, started when it is first needed, beside which the first one repeats a seed."""

    def __init__(self, directory: Path, rabbit: RabbitProcess) -> None:
        self._first = rabbit
        self._second = RabbitProcess(directory, plugins=PLUGINS, extra=SLEEPY)
        self._is_started = False

    def has(self, walk: Walk, steps: int, runs: int) -> bool:
        """Whether RabbitMQ differs from itself where ``walk`` says that we differ from it."""
        if runs and not self._is_started:
            self._second.start()
            self._is_started = True
        pair = [place(self._second), place(self._first)]
        for _ in range(runs):
            again = compare(pair, walk.seed, steps, restarts=walk.restarts)
            if again.differs_at == walk.differs_at:
                return True
        return False

    def stop(self) -> None:
        if self._is_started:
            self._second.stop()


def take(places: list[Place], seeds: list[int], arguments: argparse.Namespace) -> Iterator[Walk]:
    """The walks of all seeds, in the order in which they end."""
    with ProcessPoolExecutor(arguments.walkers) as pool:
        walks = [pool.submit(compare, places, seed, arguments.steps, arguments.history) for seed in seeds]
        for walk in as_completed(walks):
            yield walk.result()


def read_done(path: Path | None) -> dict[int, dict[str, Any]]:
    """What an earlier run noted, by seed."""
    if path is None or not path.exists():
        return {}
    return {noted["seed"]: noted for noted in map(json.loads, path.read_text().splitlines())}


def note(path: Path | None, walk: Walk, verdict: str) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps({**walk._asdict(), "verdict": verdict}) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="differential", description=DESCRIPTION)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--only", type=int, nargs="+", metavar="SEED", help="these and no others")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--walkers", type=int, default=4, help="how many seeds walk at a time")
    parser.add_argument(
        "--repeats", type=int, default=RACE_RUNS, help="how often two RabbitMQs take a seed that differed"
    )
    parser.add_argument("--history", type=int, default=15, help="steps that are shown before a difference")
    parser.add_argument(
        "--done", type=Path, metavar="FILE", help="note each seed there, and skip those that it has"
    )
    arguments = parser.parse_args()
    if not RabbitProcess.available():
        print("RabbitMQ is not installed here", file=sys.stderr)
        return 2
    verdicts = [noted["verdict"] for noted in read_done(arguments.done).values()]
    used: Counter[str] = Counter()
    for noted in read_done(arguments.done).values():
        used.update(noted["uses"])
    seeds = [
        seed
        for seed in arguments.only or range(arguments.first, arguments.first + arguments.seeds)
        if seed not in read_done(arguments.done)
    ]
    restarts = 0
    with tempfile.TemporaryDirectory(prefix="differential-") as directory:
        router = RouterProcess(Path(directory, "router"))
        rabbit = RabbitProcess(Path(directory, "rabbitmq"), plugins=PLUGINS, extra=SLEEPY)
        for broker in (router, rabbit):
            broker.start()
        races = Races(Path(directory, "second"), rabbit)
        try:
            for walk in take([place(router), place(rabbit)], seeds, arguments):
                restarts += len(walk.restarts)
                verdict = ALIKE
                if walk.lines:
                    verdict = RACE if races.has(walk, arguments.steps, arguments.repeats) else DIFFERENT
                    print("\n".join(walk.lines))
                letters = f", another order at {walk.restarts}" if walk.restarts else ""
                print(f"seed {walk.seed}: {walk.steps} steps, {verdict}{letters}", flush=True)
                note(arguments.done, walk, verdict)
                verdicts.append(verdict)
                used.update(walk.uses)
        finally:
            races.stop()
            for broker in (router, rabbit):
                broker.stop()
        log = router.log()
    print("\n".join(counting.lines(used)))
    counted = ", ".join(f"{verdicts.count(each)} {each}" for each in (ALIKE, RACE, DIFFERENT))
    print(f"{len(verdicts)} seeds: {counted}; {restarts} times letters of several queues in another order")
    if "Traceback" in log:
        print("Our broker's log has a traceback:\n" + log[log.index("Traceback") :][:4000])
        return 1
    return 1 if DIFFERENT in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
