"""What becomes of messages that nobody consumes, and transactions: scenarios that the load generator lacks.

Each fills a queue, measures the broker's CPU while it does what the scenario is about, and then counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.brokers import Broker
from tests.interop.wire import Wire, encode_frame, encode_method, encode_publish

SIZE = 1024
#: Messages that expire, and how long each lives: longer than either broker takes to get them all.
COUNT = 50_000
TTL_MS = 12_000
#: Seconds before the first one's deadline at which the measurement begins.
EARLY_S = 0.3
LIMIT_S = 120.0
TX = 100
QUEUE, LETTERS = "bench-lives", "bench-letters"


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants so far, the kernel's for them included."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    # Nanoseconds of each thread; the sums of a process count in hundredths of a second.
    tasks = [task for member in family for task in Path(f"/proc/{member}/task").glob("*/schedstat")]
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def expire(broker: Broker, seconds: float) -> dict[str, Any]:
    """Transient messages reach their deadline, and are gone."""
    del seconds
    return _expire(broker, durable=False, letters=False)


def dead_letter(broker: Broker, seconds: float) -> dict[str, Any]:
    """Transient messages reach their deadline, and go to another queue."""
    del seconds
    return _expire(broker, durable=False, letters=True)


def dead_letter_safe(broker: Broker, seconds: float) -> dict[str, Any]:
    """Persistent messages reach their deadline in a durable queue, and go to another one."""
    del seconds
    return _expire(broker, durable=True, letters=True)


def _expire(broker: Broker, *, durable: bool, letters: bool) -> dict[str, Any]:
    with Wire(broker.port) as wire:
        wire.open_channel(1)
        arguments: dict[str, Any] = {"x-message-ttl": TTL_MS}
        if letters:
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": LETTERS}
            wire.ok(1, "queue.declare", queue=LETTERS, durable=durable)
        wire.ok(1, "queue.declare", queue=QUEUE, durable=durable, arguments=arguments)
        wire.socket.settimeout(LIMIT_S)
        begun = time.monotonic()
        block = encode_publish(1, "", QUEUE, bytes(SIZE), delivery_mode=2 if durable else 1) * 1000
        for _ in range(COUNT // 1000):
            wire.send_bytes(block)
        # RabbitMQ counts before it has taken everything.
        while (filled := _ready(wire, QUEUE)) != COUNT and time.monotonic() - begun < TTL_MS / 1000:
            time.sleep(0.02)
        wait = begun + TTL_MS / 1000 - EARLY_S - time.monotonic()
        if wait < 0 or filled != COUNT:
            _forget(wire)
            return {"problem": f"the queue held {filled} of {COUNT} messages, {wait:.1f} s before the end"}
        time.sleep(wait)
        cpu, begun = cpu_seconds(broker.pid), time.monotonic() + EARLY_S
        watched, wanted = (LETTERS, COUNT) if letters else (QUEUE, 0)
        while _ready(wire, watched) != wanted and time.monotonic() - begun < LIMIT_S:
            time.sleep(0.02)
        took, cpu = time.monotonic() - begun, cpu_seconds(broker.pid) - cpu
        left, arrived = _ready(wire, QUEUE), _ready(wire, LETTERS) if letters else 0
        problem = "" if (left, arrived) == (0, COUNT if letters else 0) else f"{left} left, {arrived} letters"
        if letters and not problem:
            death = wire.get(LETTERS)
            entry = None if death is None else death.properties["headers"]["x-death"][0]
            if entry is None or entry["reason"] != "expired":
                problem = f"a letter says {entry}"
        _forget(wire)
    return _row(cpu, took, COUNT, problem)


def transactions(broker: Broker, seconds: float) -> dict[str, Any]:
    """Persistent messages in transactions of a hundred, each waiting for its commit."""
    with Wire(broker.port) as wire:
        wire.open_channel(1)
        wire.ok(1, "queue.declare", queue=QUEUE, durable=True)
        wire.ok(1, "tx.select")
        publish = encode_publish(1, "", QUEUE, bytes(SIZE), delivery_mode=2)
        block = publish * TX + encode_frame(1, 1, encode_method("tx.commit"))
        commits = 0
        cpu, begun = cpu_seconds(broker.pid), time.monotonic()
        while time.monotonic() - begun < seconds:
            wire.send_bytes(block)
            reply = wire.receive(LIMIT_S)
            assert reply.name == "tx.commit-ok", reply
            commits += 1
        took, cpu = time.monotonic() - begun, cpu_seconds(broker.pid) - cpu
        there = _ready(wire, QUEUE)
        _forget(wire)
    problem = "" if there == commits * TX else f"{there} messages after {commits} commits"
    return _row(cpu, took, commits * TX, problem)


def _ready(wire: Wire, queue: str) -> int:
    wire.send(1, "queue.declare", queue=queue, passive=True)
    return int(wire.receive(LIMIT_S).messages)


def _forget(wire: Wire) -> None:
    for queue in (QUEUE, LETTERS):
        wire.send(1, "queue.delete", queue=queue)
        wire.receive(LIMIT_S)


def _row(cpu_s: float, took_s: float, messages: int, problem: str) -> dict[str, Any]:
    return {
        "broker_us_per_msg": cpu_s / messages * 1e6,
        "overall_rate": messages / took_s,
        "problem": problem,
    }


#: By name, as the load generator's scenarios are.
LIVES: dict[str, Callable[[Broker, float], dict[str, Any]]] = {
    "h-expire": expire,
    "h-dead-letter": dead_letter,
    "h-dead-letter-safe": dead_letter_safe,
    "h-tx100": transactions,
}
