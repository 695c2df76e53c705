"""``make soak``: one load after the other, a probe beside each, and what probe and memory said.

The probe's 99.9th percentile must be at most 10 ms above its idle value in the same run. On a machine with
few cores load, probe and broker share them: the load runs at a lower priority, so that it is the broker's
scheduling that is measured and not the kernel's. As root, broker and probe run at a higher one as well.
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
from pathlib import Path
from typing import Any

from tests.brokers import Broker, RabbitProcess, RouterProcess
from tests.faults.loads import LOADS, Load, Outcome
from tests.faults.probe import Latency, Probe, prompt

ABOVE_IDLE_MS = 10
WARMUP_S = 1.0


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


def _run_load(load: Load, port: int, seconds: float, results: Any) -> None:
    os.nice(10)
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


def soak(broker: Broker, names: list[str], seconds: float, persistent: bool) -> int:
    """Run the loads; returns the number of failures."""
    kind = "persistent, confirm" if persistent else "transient, delivery"
    before = idle(broker, min(seconds, 20), persistent)
    print(f"\nProbe: 1,000/s, {kind}; milliseconds p50 / p99 / p99.9 / longest\n")
    print(
        row(
            "load",
            "published",
            "delivered",
            "probe",
            "p99.9 above idle",
            "RSS MiB by quarter",
            "peak",
            "outcome",
        )
    )
    print(row(*["---"] * 8))
    print(row("(idle)", "", "", shown(before), "", "", f"{resident(broker.pid):.0f}", ""), flush=True)
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
        above = during.p999 - before.p999
        ok = not outcome.problem and above <= ABOVE_IDLE_MS
        failures += not ok
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
                outcome.problem or ("as it must" if ok else "**late**"),
            ),
            flush=True,
        )
    after = idle(broker, min(seconds, 10), persistent)
    print(
        row(
            "(idle again)",
            "",
            "",
            shown(after),
            f"{after.p999 - before.p999:+.2f}",
            "",
            f"{resident(broker.pid):.0f}",
            "",
        )
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
        broker: Broker = (
            RabbitProcess(Path(directory))
            if args.rabbitmq
            else RouterProcess(Path(directory), prefix=prompt())
        )
        broker.start()
        try:
            for kind in ("transient", "persistent"):
                if args.probe in (kind, "both"):
                    failures += soak(broker, args.only or list(LOADS), args.seconds, kind == "persistent")
        finally:
            broker.stop()
        if "Traceback" in broker.log():
            print(broker.log()[-4000:])
            failures += 1
    print(f"\n{failures} loads with a problem")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
