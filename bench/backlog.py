"""A million waiting messages: their memory, how soon the first comes after a restart, how fast they go."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from bench.loadgen import LoadGenerator
from tests.brokers import Broker

MESSAGES = 1_000_000
QUEUE = ("--queue-prefix", "backlog", "--size", "1024", "--durable")


def run(broker: Broker, loadgen: LoadGenerator, messages: int) -> dict[str, Any]:
    """Fill, look, restart, drain in order; every message is checked by the load generator."""
    count = ("--messages", str(messages))
    before = memory_mib(broker.pid)
    fill = loadgen.run(
        broker.port, broker.pid, *QUEUE, "--persistent", "--confirm", "1000", "--publish-only", *count
    )
    time.sleep(2)
    waiting = memory_mib(broker.pid)
    stopping = time.monotonic()
    broker.stop()
    stopped = time.monotonic()
    drain_options = (*QUEUE, "--consume-only", "--ack-every", "100", "--prefetch", "1000", *count)
    with subprocess.Popen(
        loadgen.command(broker.port, 0, *drain_options, "--connect-retry", "120", "--drain-timeout", "300"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as draining:
        broker.start()
        started = time.monotonic()
        stdout, stderr = draining.communicate()
    drain = loadgen.result(draining.returncode, stdout, stderr)
    return {
        "messages": messages,
        "fill_rate": fill.get("overall_rate", 0),
        "fill_us": fill.get("broker_us_per_msg", 0),
        "rss_before_mib": before,
        "rss_waiting_mib": waiting,
        "stop_s": stopped - stopping,
        "start_s": started - stopped,
        "first_delivery_s": drain.get("first_delivery_ms", 0) / 1000,
        "drain_rate": drain.get("consume_rate_overall", drain.get("overall_rate", 0)),
        "rss_after_mib": memory_mib(broker.pid),
        "problem": fill["problem"] or drain["problem"],
    }


def memory_mib(pid: int) -> float:
    """Resident set of a process, in MiB."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0
