"""A start: wall time and CPU until both ports answer, memory, and what the first client waits for.

Three kinds: on an empty directory (`fresh`), again on the same one (`restart`), and with the backlog in one
durable queue (`waiting`). The brokers take turns, and the one that begins changes with every round.

Work that a start puts off must not fall on the first client. So its login with a first confirmed publish and
its first request over HTTP are measured too, each with the broker's CPU for it.

Bytecode is kept between the starts, as it is for users. With PYTHONDONTWRITEBYTECODE in the environment, each
start would compile all modules of the tree, and that would be a quarter of what is measured.
"""

from __future__ import annotations

import base64
import http.client
import shutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.backlog import QUEUE, memory_mib
from bench.loadgen import LoadGenerator
from tests.brokers import BrokerDied, RouterProcess
from tests.interop.wire import Wire, encode_publish

KINDS = ("fresh", "restart", "waiting")
CLIENT_QUEUE = "bench-start"
#: Seconds between two looks for the ready file.
LOOK_S = 0.001
#: Seconds that a broker rests before its memory is read.
REST_S = 0.3
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


class Start(NamedTuple):
    """One start. Times are milliseconds."""

    wall: float
    cpu: float
    rss_mib: float
    publish: float
    publish_cpu: float
    api: float
    api_cpu: float


def run(brokers: Sequence[RouterProcess], loadgen: LoadGenerator, runs: int, messages: int) -> str:
    """Start each broker ``runs`` times in every way, and tell the medians in a table."""
    starts: dict[tuple[str, str], list[Start]] = defaultdict(list)
    for broker in brokers:
        bytecode = str(broker.directory / "bytecode")
        broker.environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
        broker.restart()  # fills it
    for kind in KINDS:
        for broker in brokers:
            _prepare(broker, kind, loadgen, messages)
        for number in range(runs):
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                broker.stop()
                if kind == "fresh":
                    shutil.rmtree(broker.data_dir)
                start = _start(broker)
                starts[kind, broker.name].append(start)
                line = f"{start.wall:.0f} ms, CPU {start.cpu:.0f} ms"
                print(f"{number + 1} {kind:8} {broker.name:12} {line}", file=sys.stderr, flush=True)
    return _table(starts)


def _prepare(broker: RouterProcess, kind: str, loadgen: LoadGenerator, messages: int) -> None:
    """Bring a running broker to where the first start of this kind stops it."""
    if kind != "waiting":
        return
    options = (*QUEUE, "--persistent", "--confirm", "1000", "--publish-only", "--messages", str(messages))
    fill = loadgen.run(broker.port, broker.pid, *options)
    if fill["problem"]:
        raise BrokerDied(f"{broker.name} was not filled: {fill['problem']}")


def _start(broker: RouterProcess) -> Start:
    begun = time.perf_counter()
    broker.launch()
    assert broker.process is not None
    clock = _cpu_clock(broker.process.pid)
    while not broker.ready_file.exists() and broker.process.poll() is None:
        time.sleep(LOOK_S)
    wall = time.perf_counter() - begun
    cpu = clock() if broker.process.poll() is None else 0.0
    broker.wait_until_ready()
    time.sleep(REST_S)
    rss = memory_mib(broker.pid)
    publish = _timed(clock, lambda: _publish(broker.port))
    api = _timed(clock, lambda: _ask(broker.admin_port))
    return Start(wall * 1e3, cpu * 1e3, rss, *publish, *api)


def _cpu_clock(pid: int) -> Callable[[], float]:
    """CPU seconds of a process with all its threads, also those that have ended.

    The number is clock_getcpuclockid(3)'s on Linux. The counts in /proc are hundredths of a second.
    """
    number = (~pid << 3) | 2
    return lambda: time.clock_gettime(number)


def _timed(clock: Callable[[], float], act: Callable[[], None]) -> tuple[float, float]:
    cpu, begun = clock(), time.perf_counter()
    act()
    wall = time.perf_counter() - begun
    return wall * 1e3, (clock() - cpu) * 1e3


def _publish(port: int) -> None:
    with Wire(port) as wire:
        wire.open_channel(1)
        wire.ok(1, "queue.declare", queue=CLIENT_QUEUE, durable=True)
        wire.ok(1, "confirm.select")
        wire.send_bytes(encode_publish(1, "", CLIENT_QUEUE, bytes(1024), delivery_mode=2))
        reply = wire.receive(60)
        assert reply.name == "basic.ack", reply


def _ask(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/overview", headers={"Authorization": LOGIN})
    reply = connection.getresponse()
    reply.read()
    assert reply.status == http.client.OK, reply.status
    connection.close()


COLUMNS: list[tuple[str, Callable[[Start], float]]] = [
    ("ready, ms", lambda start: start.wall),
    ("CPU until ready, ms", lambda start: start.cpu),
    ("RSS, MiB", lambda start: start.rss_mib),
    ("first publish, ms", lambda start: start.publish),
    ("its CPU, ms", lambda start: start.publish_cpu),
    ("first request, ms", lambda start: start.api),
    ("its CPU, ms", lambda start: start.api_cpu),
]


def _table(starts: dict[tuple[str, str], list[Start]]) -> str:
    """Medians, with the quartiles where three or more starts have some."""
    lines = ["| start | broker | " + " | ".join(name for name, _ in COLUMNS) + " | starts |"]
    lines.append("|---" * (len(COLUMNS) + 3) + "|")
    for (kind, broker), group in starts.items():
        cells = [_spread([pick(start) for start in group]) for _, pick in COLUMNS]
        lines.append(f"| {kind} | {broker} | " + " | ".join(cells) + f" | {len(group)} |")
    return "\n".join(lines) + "\n"


def _spread(values: list[float]) -> str:
    def show(value: float) -> str:
        return f"{value:.0f}" if value >= 100 else f"{value:.1f}"

    if len(values) < 3:
        return show(statistics.median(values))
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{show(middle)} ({show(low)} to {show(high)})"
