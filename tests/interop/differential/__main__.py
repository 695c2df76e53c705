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
from tests.interop.differential.comparing import COMMITS, CONSUMERS, LETTERS, Walk, compare
from tests.interop.differential.explaining import DIFFERENT, WORDS, Explaining, Verdict
from tests.interop.differential.sides import Place
from tests.interop.differential.vocabulary import PLUGINS

#: How often a walk that differed is repeated.
REPEATS = 5
#: RabbitMQ's schedulers sleep when they have nothing to do, so that several walks get more of the processor.
SLEEPY = {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none"}


def place(broker: RouterProcess | RabbitProcess) -> Place:
    return Place(broker.name, broker.port, broker.admin_port)


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


def note(path: Path | None, walk: Walk, verdict: Verdict) -> None:
    if path is not None:
        noted = {name: value for name, value in walk._asdict().items() if name != "trail"}
        with path.open("a") as file:
            file.write(json.dumps({**noted, "verdict": verdict.word, "reason": verdict.reason}) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="differential",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--only", type=int, nargs="+", metavar="SEED", help="these and no others")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--walkers", type=int, default=4, help="how many seeds walk at a time")
    parser.add_argument(
        "--repeats",
        type=int,
        default=REPEATS,
        help="how often a walk that differed is taken again to say why; 0: not at all",
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
    orders: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="differential-") as directory:
        router = RouterProcess(Path(directory, "router"))
        rabbit = RabbitProcess(Path(directory, "rabbitmq"), plugins=PLUGINS, extra=SLEEPY)
        for broker in (router, rabbit):
            broker.start()
        both = [place(router), place(rabbit)]
        given = {"steps": arguments.steps, "repeats": arguments.repeats}
        explaining = Explaining(Path(directory), *both, **given)
        try:
            for walk in take(both, seeds, arguments):
                orders.update(walk.restarts.values())
                verdict = explaining.of(walk)
                if verdict.word == DIFFERENT:
                    print("\n".join(walk.lines))
                places = ", ".join(f"{number} ({what})" for number, what in walk.restarts.items())
                order = f"; another order at {places}" if places else ""
                print(f"seed {walk.seed}: {walk.steps} steps, {verdict.told()}{order}", flush=True)
                note(arguments.done, walk, verdict)
                verdicts.append(verdict.word)
                used.update(walk.uses)
        finally:
            explaining.stop()
            for broker in (router, rabbit):
                broker.stop()
        log = router.log() + explaining.logs()
    print("\n".join(counting.lines(used)))
    counted = ", ".join(f"{verdicts.count(each)} {each}" for each in WORDS)
    order = ", ".join(f"{orders[what]} times {what}" for what in (LETTERS, CONSUMERS, COMMITS))
    print(f"{len(verdicts)} seeds: {counted}; in another order: {order}")
    if "Traceback" in log:
        print("Our broker's log has a traceback:\n" + log[log.index("Traceback") :][:4000])
        return 1
    return 1 if DIFFERENT in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
