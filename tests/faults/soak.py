"""``make soak``: one load after the other, a probe beside each, and what probe and memory said.

The probe's 99.9th percentile must be at most 10 ms above its idle value in the same run. On a machine with
few cores load, probe and broker share them, and the kernel's scheduling alone costs more than that. So the
load takes only what the others leave (SCHED_IDLE), broker and probe get a higher priority where that is
allowed (root), and the idle value is taken twice, the second time with every core kept busy by SCHED_IDLE
loops: what is above the first and not above the second cannot be told from the kernel's doing. The column
"callback" does not depend on what else runs: the longest that a single callback held the broker's event loop,
in milliseconds of CPU time.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.brokers import ENTRY, ROOT, Broker, RabbitProcess, RouterProcess
from tests.faults.loads import LOADS, Load, Outcome
from tests.faults.probe import Latency, Probe, prompt

ABOVE_IDLE_MS = 10
WARMUP_S = 1.0
#: Callbacks that take longer are written down, in seconds of CPU time.
LONG_S = 0.002
#: Runs the broker with every callback of its loop timed; lines of milliseconds go into a file.
TIMED_ENTRY = f"""
import asyncio.events, os, time
plain, clock, out = asyncio.events.Handle._run, time.thread_time, open(os.environ["TIMES"], "a", buffering=1)
def timed(self):
    began = clock()
    plain(self)
    took = clock() - began
    if took > {LONG_S}:
        out.write(f"{{took * 1000:.2f}}\\n")
asyncio.events.Handle._run = timed
""" + ENTRY.replace("; ", "\n")


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

    def quarter(self, number: int) -> float:
        """The median of the first to fourth quarter (1 to 4)."""
        size = max(1, len(self.samples) // 4)
        return statistics.median(self.samples[(number - 1) * size :][:size] or [0.0])


def resident(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def in_process(load: Load, port: int, seconds: float) -> tuple[Any, Any]:
    """Start a load in a process of its own, at a lower priority; the queue gets its outcome."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_run_load, args=(load, port, seconds, results))
    process.start()
    return process, results


def step_back() -> None:
    """Take only the processor time that nobody else wants."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Every core runs an endless loop that steps back."""
    text = "from tests.faults.soak import step_back; step_back()\nwhile True: pass"
    loops = [subprocess.Popen([sys.executable, "-c", text], cwd=ROOT) for _ in range(os.cpu_count() or 1)]
    time.sleep(1)
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class Callbacks:
    """Reads what the timed broker writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = 0

    def longest(self) -> str:
        """Since the last call: milliseconds of CPU time, or an empty text if the broker is not timed."""
        if not self.path.exists():
            return ""
        text = self.path.read_text()
        new = [float(line) for line in text[self.position :].split()]
        self.position = len(text)
        return f"{max(new):.1f}" if new else f"< {LONG_S * 1000:.0f}"


def _run_load(load: Load, port: int, seconds: float, results: Any) -> None:
    step_back()
    try:
        results.put(load(port, seconds))
    except Exception as error:
        results.put(Outcome(0, 0, f"{type(error).__name__}: {error}"))


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def shown(latency: Latency) -> str:
    return f"{latency.p50:.2f} / {latency.p99:.2f} / {latency.p999:.2f} / {latency.longest:.1f}"


def idle(broker: Broker, seconds: float, persistent: bool) -> Latency:
    return Probe(broker.port, seconds, persistent).result()


def soak(broker: Broker, names: list[str], seconds: float, persistent: bool, callbacks: Callbacks) -> int:
    """Run the loads; returns the number of failures."""
    kind = "persistent, confirm" if persistent else "transient, delivery"
    headings = (
        "load, published, delivered, probe, p99.9 above idle, RSS MiB by quarter, peak, callback, outcome"
    )
    print(f"\nProbe: 1,000/s, {kind}; milliseconds p50 / p99 / p99.9 / longest\n")
    print(row(*headings.split(", ")))
    print(row(*["---"] * 9))
    quiet = idle(broker, min(seconds, 20), persistent)
    with busy_cores():
        busy = idle(broker, min(seconds, 20), persistent)
    callbacks.longest()
    memory_now = f"{resident(broker.pid):.0f}"
    print(row("(idle)", "", "", shown(quiet), "", "", memory_now, "", ""))
    print(row("(idle, cores busy)", "", "", shown(busy), "", "", memory_now, "", ""), flush=True)
    failures = 0
    for name in names:
        memory = Memory(broker.pid)
        memory.start()
        process, results = in_process(LOADS[name], broker.port, seconds)
        time.sleep(WARMUP_S)
        during = Probe(broker.port, seconds, persistent).result()
        outcome = results.get(timeout=600)
        process.join()
        memory.finish()
        above = during.p999 - quiet.p999
        if above <= ABOVE_IDLE_MS:
            verdict = "as it must"
        elif during.p999 - busy.p999 <= ABOVE_IDLE_MS:
            verdict = "the kernel's doing, or not told from it"
        else:
            verdict = "**late**"
        failures += bool(outcome.problem) or verdict == "**late**"
        quarters = " ".join(f"{memory.quarter(number):.0f}" for number in (1, 2, 3, 4))
        print(
            row(
                name,
                f"{outcome.published:,}",
                f"{outcome.delivered:,}",
                shown(during),
                f"{above:+.2f}",
                quarters,
                f"{max(memory.samples):.0f}",
                callbacks.longest(),
                outcome.problem or verdict,
            ),
            flush=True,
        )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for each load")
    parser.add_argument("--only", choices=list(LOADS), action="append", help="this load, may be repeated")
    parser.add_argument("--probe", choices=["transient", "persistent", "both"], default="both")
    parser.add_argument("--rabbitmq", action="store_true", help="load Debian's RabbitMQ instead, to compare")
    args = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        times = Path(directory) / "callbacks"
        broker: Broker = (
            RabbitProcess(Path(directory))
            if args.rabbitmq
            else RouterProcess(
                Path(directory), prefix=prompt(), entry=TIMED_ENTRY, environment={"TIMES": str(times)}
            )
        )
        broker.start()
        try:
            for kind in ("transient", "persistent"):
                if args.probe in (kind, "both"):
                    names = args.only or list(LOADS)
                    failures += soak(broker, names, args.seconds, kind == "persistent", Callbacks(times))
        finally:
            broker.stop()
        if "Traceback" in broker.log():
            print(broker.log()[-4000:])
            failures += 1
    print(f"\n{failures} loads with a problem")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
