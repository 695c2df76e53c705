"""``make soak``: every load that could starve the others, a probe beside each, and what the broker measured.

Each load meets a fresh broker, which has one processor to itself; loads and probe share the others. A row of
the table has

- the resident set before and at most, in MiB;
- the longest hold: what a single callback kept the event loop, in milliseconds of CPU time and of wall time,
  the page faults of that callback, and the longest turn of the loop in CPU time, measured inside the broker.
  CPU time does not depend on what else the machine does;
- the probe: 200 transient messages a second on a connection of its own, from when each was due until it was
  delivered, in milliseconds, and how far its 99.9th percentile is above its idle value.

``--minutes 30`` runs all loads in turn against one broker for that long instead, with an honest client beside
them, and says at the end whether anything was lost and whether the resident set stayed flat.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.brokers import ROOT, Broker, BrokerDied, RabbitProcess, RouterProcess
from tests.faults.costly import COSTLY
from tests.faults.crowds import CROWDS
from tests.faults.features import FEATURES
from tests.faults.graphs import GRAPHS
from tests.faults.holds import LONG_S, TIMED_ENTRY, Hold, Holds
from tests.faults.honest import PATIENCE_S, Honest
from tests.faults.hungry import HUNGRY
from tests.faults.loads import LOADS, Load, Outcome
from tests.faults.odd import ODD
from tests.faults.operators import OPERATORS
from tests.faults.place import CaseLoad, Place
from tests.faults.probe import Latency, Probe, prompt
from tests.faults.together import TOGETHER

ABOVE_IDLE_MS = HOLD_MS = 10.0
WARMUP_S = 1.0
#: Seconds a load may take beyond those it was given: some have much to set up, and a frozen broker thaws.
LOAD_S = 900.0
#: What the resident set at rest may grow from the first round of an endurance run to the last.
FLAT_SHARE, FLAT_MIB = 0.10, 30
#: Seconds between a round's end and the look at the resident set. The broker gives free memory back to the
#: system when it has been idle for up to two minutes; before that one would see what is free in its heap.
REST_S = 130.0


def _plain(load: Load, place: Place, seconds: float) -> Outcome:
    return load(place.port, seconds)


ALL: dict[str, CaseLoad] = {
    **{name: partial(_plain, load) for name, load in LOADS.items()},
    **HUNGRY,
    **COSTLY,
    **CROWDS,
    **FEATURES,
    **GRAPHS,
    **OPERATORS,
    **ODD,
    **TOGETHER,
}


class Memory(threading.Thread):
    """Resident set of a process, ten times a second, in MiB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.samples: list[float] = []
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.wait(0.1):
            self.samples.append(resident(self.pid))

    def finish(self) -> None:
        self.ending.set()
        self.join()


def resident(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def in_process(name: str, place: Place, seconds: float) -> tuple[Any, Any]:
    """Start a load in a process of its own, at the lowest priority; the queue gets its outcome."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_run_load, args=(name, place, seconds, results), daemon=True)
    process.start()
    return process, results


def _run_load(name: str, place: Place, seconds: float, results: Any) -> None:
    os.nice(19)
    try:
        results.put(ALL[name](place, seconds))
    except Exception as error:
        results.put(Outcome(0, 0, f"{type(error).__name__}: {error}"))


class Soak:
    """Brokers and what is measured of them."""

    def __init__(self, directory: Path, args: argparse.Namespace) -> None:
        self.directory = directory
        self.args = args
        self.holds = Holds(directory / "holds")
        self.count = 0
        self.failures = 0
        self.processors = sorted(os.sched_getaffinity(0))

    def broker(self) -> Broker:
        """A fresh one, started, on the first processor; everybody else keeps off that."""
        self.count += 1
        directory = self.directory / str(self.count)
        directory.mkdir()
        prefix = prompt()
        if len(self.processors) > 1:
            os.sched_setaffinity(0, self.processors[1:])
            prefix = ["taskset", "-c", str(self.processors[0]), *prefix]
        broker: Broker = (
            RabbitProcess(directory)
            if self.args.rabbitmq
            else RouterProcess(
                directory,
                prefix=prefix,
                entry=TIMED_ENTRY,
                environment=self.holds.environment,
                tree=self.args.tree.resolve(),
                options=self.args.option,
            )
        )
        broker.start()
        self.holds.new()  # nobody is served while it starts
        return broker

    def end(self, broker: Broker) -> str:
        """Stop it; what was wrong with it."""
        try:
            broker.stop()
        except BrokerDied:
            return "SIGTERM did not end it"
        return "a traceback in its log" if "Traceback" in broker.log() else ""

    def idle(self) -> Latency:
        broker = self.broker()
        try:
            return self.probe(broker, max(5.0, min(self.args.seconds, 20.0))).result()
        finally:
            self.end(broker)

    def probe(self, broker: Broker, seconds: float) -> Probe:
        return Probe(broker.port, seconds, self.args.probe == "persistent", self.args.rate)

    def table(self, names: Sequence[str]) -> None:
        """One row for each load."""
        print(f"Probe: {self.args.rate}/s, {self.args.probe}; tree {self.args.tree}\n")
        say(
            "load",
            "sent",
            "RSS MiB",
            "hold CPU / wall ms, faults; turn CPU ms",
            "probe p50 / p99.9 ms",
            "above idle",
            "outcome",
        )
        say(*["---"] * 7)
        idle = self.idle()
        say("(idle)", "", "", shown_hold(self.holds.longest(), self.args.rabbitmq), shown(idle), "", "")
        for name in names:
            self.row(name, idle)

    def row(self, name: str, idle: Latency) -> None:
        broker = self.broker()
        before = resident(broker.pid)
        outcome, latency, peak = self.load(name, broker, self.args.seconds)
        hold = self.holds.longest()
        problem = self.end(broker) or outcome.problem
        above = latency.p999 - idle.p999
        verdict = problem or ("as it must" if above <= ABOVE_IDLE_MS else "**late**")
        if not problem and hold.cpu_ms > HOLD_MS:
            verdict = f"**held** by {hold.callback[:70]}"
        elif not problem and hold.turn_ms > HOLD_MS:
            verdict = f"**held** by a turn of {hold.turn_ms:.1f} ms"
        self.failures += verdict != "as it must"
        say(
            name,
            f"{outcome.published:,}",
            f"{before:.0f} -> {peak:.0f}",
            shown_hold(hold, self.args.rabbitmq),
            shown(latency),
            f"{above:+.1f}",
            "; ".join(text for text in (verdict, outcome.note) if text),
        )

    def load(self, name: str, broker: Broker, seconds: float) -> tuple[Outcome, Latency, float]:
        """Run one with the probe beside it; also the highest resident set."""
        memory = Memory(broker.pid)
        memory.start()
        data_dir = str(getattr(broker, "data_dir", ""))
        place = Place(broker.port, getattr(broker, "admin_port", 0), data_dir, self.args.scale)
        process, results = in_process(name, place, seconds)
        time.sleep(WARMUP_S)
        try:
            latency = self.probe(broker, seconds).result()
        except RuntimeError:
            latency = Latency(0, *[float("inf")] * 4)
        try:
            outcome = results.get(timeout=LOAD_S)
        except Exception:  # queue.Empty
            outcome = Outcome(0, 0, f"the load did not end within {LOAD_S:.0f} s")
            process.kill()
        process.join()
        memory.finish()
        return outcome, latency, max(memory.samples, default=0.0)

    def endurance(self, names: Sequence[str], minutes: float) -> None:
        """All loads in turn, again and again, against one broker."""
        broker = self.broker()
        honest = Honest(broker.port, PATIENCE_S)
        honest.start()
        rests: list[float] = []
        end = time.monotonic() + minutes * 60
        say(
            "round",
            "load",
            "sent",
            "RSS peak MiB",
            "hold CPU / wall ms, faults; turn CPU ms",
            "probe p50 / p99.9 ms",
            "outcome",
        )
        say(*["---"] * 7)
        while time.monotonic() < end:
            for name in names:
                if time.monotonic() >= end:
                    break
                outcome, latency, peak = self.load(name, broker, self.args.seconds)
                problem = outcome.problem or honest.problem
                self.failures += bool(problem)
                hold = self.holds.longest()
                figures = (f"{outcome.published:,}", f"{peak:.0f}", shown_hold(hold, self.args.rabbitmq))
                verdict = problem or outcome.note or "as it must"
                if hold.cpu_ms > HOLD_MS:
                    verdict += f"; held by {hold.callback[:70]}"
                say(len(rests) + 1, name, *figures, shown(latency), verdict)
            time.sleep(REST_S)
            rests.append(resident(broker.pid))
            hold = self.holds.longest()
            callback = hold.callback[:70]
            say(
                len(rests),
                "(rest)",
                "",
                f"{rests[-1]:.0f}",
                shown_hold(hold, self.args.rabbitmq),
                "",
                callback,
            )
        lost = honest.finish()
        ended = self.end(broker)
        self.failures += bool(lost) + bool(ended)
        print(
            f"\nhonest client: {honest.sent:,} sent, {honest.delivered:,} delivered; "
            f"{lost or 'nothing lost'}; longest wait {honest.longest_s:.1f} s"
        )
        print(f"broker: {ended or 'ended as it must'}")
        print(flatness(rests, self.fail))

    def fail(self) -> None:
        self.failures += 1


def flatness(rests: Sequence[float], fail: Callable[[], None]) -> str:
    """What the resident set at the end of each round says."""
    texts = " ".join(f"{rest:.0f}" for rest in rests)
    if len(rests) < 2:
        return f"RSS at rest: {texts} MiB; a single round does not tell whether that is flat"
    if statistics.median(rests[-2:]) <= rests[0] * (1 + FLAT_SHARE) + FLAT_MIB:
        return f"RSS at rest: {texts} MiB after each round: flat"
    fail()
    return f"RSS at rest: {texts} MiB after each round: **not flat**"


def say(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def shown(latency: Latency) -> str:
    return f"{latency.p50:.2f} / {latency.p999:.1f}"


def shown_hold(hold: Hold, unknown: bool) -> str:
    if unknown:
        return "?"
    held = f"{hold.cpu_ms:.1f} / {hold.wall_ms:.1f}, {hold.faults}"
    return f"{held if hold.wall_ms else f'< {LONG_S * 1000:.0f}'}; {hold.turn_ms:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20, help="for each load; default 20")
    parser.add_argument("--minutes", type=float, help="all loads in turn against one broker, for that long")
    parser.add_argument(
        "--only", action="append", metavar="LOAD", help=f"begins like one of: {', '.join(ALL)}"
    )
    parser.add_argument("--probe", choices=["transient", "persistent"], default="transient")
    parser.add_argument("--rate", type=int, default=200, help="probe's messages a second; default 200")
    parser.add_argument("--scale", type=float, default=1.0, help="share of a load's counts; default 1")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout to run, compiled there")
    parser.add_argument("--option", action="append", default=[], help="of amqp-router serve: --option=--x=y")
    parser.add_argument("--rabbitmq", action="store_true", help="load Debian's RabbitMQ instead, to compare")
    args = parser.parse_args()
    names = [name for name in ALL if not args.only or any(name.startswith(only) for only in args.only)]
    if not names:
        parser.error(f"no load begins like {' or '.join(args.only)}")
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        soak = Soak(Path(directory), args)
        if args.minutes is not None:
            soak.endurance(names, args.minutes)
        else:
            soak.table(names)
    print(f"\n{soak.failures} loads with a problem")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
