"""A probe: some messages a second on a connection of its own, each timed from when it was due.

``python -m tests.faults.probe PORT SECONDS RATE [--persistent]`` prints a line of JSON: percentiles in
milliseconds of the delivery, or, if persistent, of the confirm.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import struct
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.brokers import ROOT
from tests.interop.wire import Wire, encode_publish

QUEUE = "probe"


@dataclass
class Latency:
    """Milliseconds."""

    count: int
    p50: float
    p99: float
    p999: float
    longest: float


def measure(port: int, seconds: float, rate: int, persistent: bool) -> Latency:
    """Publish for ``seconds``, wait for the last answer, 30 s at most."""
    queue = f"{QUEUE}-persistent" if persistent else QUEUE
    with Wire(port) as wire:
        wire.open_channel(1)
        wire.ok(1, "queue.delete", queue=queue)
        wire.ok(1, "queue.declare", queue=queue, durable=persistent, exclusive=not persistent)
        wire.ok(1, "basic.consume", queue=queue, no_ack=True)
        wire.open_channel(2, confirm=True)
        latencies = _run(wire, queue, int(seconds * rate), rate, persistent)
        wire.send(1, "queue.delete", queue=queue)
    latencies.sort()
    if not latencies:
        return Latency(0, *[float("inf")] * 4)

    def percentile(share: float) -> float:
        return round(latencies[min(len(latencies) - 1, int(share * len(latencies)))], 3)

    return Latency(
        len(latencies), percentile(0.5), percentile(0.99), percentile(0.999), round(latencies[-1], 3)
    )


def _run(wire: Wire, queue: str, count: int, rate: int, persistent: bool) -> list[float]:
    """Milliseconds from due to delivered, or to confirmed."""
    latencies: list[float] = []
    dues: list[float] = []
    confirmed = delivered = 0
    start = time.perf_counter() + 0.01
    end = start + count / rate + 30
    while (confirmed < count or delivered < count) and time.perf_counter() < end:
        due = start + len(dues) / rate
        now = time.perf_counter()
        if len(dues) < count and now >= due:
            body = struct.pack(">d", due) + bytes(1016)
            wire.send_bytes(encode_publish(2, "", queue, body, delivery_mode=2 if persistent else 1))
            dues.append(due)
            continue
        wait = due - now if len(dues) < count else 0.05
        if not wire.buffer and not select.select([wire.socket], [], [], max(0.0, wait))[0]:
            continue
        received = wire.receive_within(0.001)
        now = time.perf_counter()
        if received is None:
            continue
        if received.name == "basic.deliver":
            delivered += 1
            if not persistent:
                latencies.append((now - struct.unpack_from(">d", received.body)[0]) * 1000)
        elif received.name == "basic.ack":
            last = received.delivery_tag if received.multiple else confirmed + 1
            if persistent:
                latencies += [(now - dues[index]) * 1000 for index in range(confirmed, last)]
            confirmed = last
        else:
            raise AssertionError(f"the probe got {received}")
    # what never came counts as late as it can
    missing = count - len(latencies)
    return latencies + [float("inf")] * missing


def prompt() -> list[str]:
    """What to put before a command that must not wait for the kernel; only root may."""
    return ["nice", "-n", "-10"] if os.geteuid() == 0 else []


class Probe:
    """The probe in a process of its own."""

    def __init__(self, port: int, seconds: float, persistent: bool, rate: int) -> None:
        command = [*prompt(), sys.executable, "-m", "tests.faults.probe"]
        command += [str(port), str(seconds), str(rate)]
        self.process = subprocess.Popen(
            command + ["--persistent"] * persistent, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )

    def result(self) -> Latency:
        """Wait for its end."""
        output, _ = self.process.communicate(timeout=600)
        if self.process.returncode:
            raise RuntimeError("the probe failed")
        return Latency(**json.loads(output))


def main() -> int:
    parser = argparse.ArgumentParser(prog="probe", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("rate", type=int)
    parser.add_argument("--persistent", action="store_true")
    args = parser.parse_args()
    print(json.dumps(vars(measure(args.port, args.seconds, args.rate, args.persistent))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
