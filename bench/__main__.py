"""``python -m bench [scenario ...]``: run the scenarios, print a Markdown table of medians."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import backlog, start
from bench.lives import LIVES
from bench.loadgen import BUILD, DEFAULT, LoadGenerator, NoLoadGenerator
from bench.tunnel import Tunnel
from tests.brokers import Broker, RabbitProcess, RouterProcess
from tests.ports import free_port
from tests.sockets.authority import Authority

BACKLOG = "backlog"
START = "start"
#: Scenarios of our own: a load far below what the broker can do, as in ordinary life.
STEADY = {
    "g-20k": "--size 16 --auto-ack --rate 20000",
    "g-20k-safe": "--size 1024 --durable --persistent --confirm 1000 --ack-every 100"
    " --prefetch 1000 --rate 20000",
}
#: Features of queues, where the load generator knows them; `lives` has the others.
FEATURES = {
    "h-ttl": "--size 1024 --auto-ack --max-backlog 20000 --queue-arg x-message-ttl=60000",
    "h-priority": "--size 1024 --auto-ack --max-backlog 20000 --priorities 10 --queue-arg x-max-priority=10",
    "h-drop-head": "--size 1024 --confirm 1000 --publish-only --no-verify --queue-arg x-max-length=1000",
    "h-drop-head-safe": "--size 1024 --confirm 1000 --publish-only --no-verify --queue-arg x-max-length=1000"
    " --durable --persistent",
}
#: What ``--routing`` compares in.
ROUTING = ["a16", "b1k", "d-fanout10", "e-topic1000-q10", *STEADY]
#: What ``--tls`` compares in.
TLS = ["a1k", "b1k"]
#: Scenarios of the load generator that need what is not there yet.
LEFT_OUT = ("b1k-quorum", "b1k-quorum-sync")
Row = dict[str, Any]


def main() -> int:
    """Run what was asked for; 0 if every check of the load generator passed."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("scenario", nargs="*", help="names; without them all, the backlog and the start")
    parser.add_argument("--rabbitmq", action="store_true", help="also Debian's RabbitMQ, taking turns")
    parser.add_argument(
        "--routing",
        action="store_true",
        help="what the routing log costs: our broker with and without it, taking turns, in those scenarios",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="each broker with TLS as well, through a tunnel that speaks it, in those scenarios",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="DIR",
        action="append",
        default=[],
        help="also an earlier checkout, compiled there, taking turns; given twice for one commit"
        " (in two directories) it shows the spread of that commit against itself",
    )
    parser.add_argument("--uncompiled", action="store_true", help="run our broker from source")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="for each run")
    parser.add_argument("--messages", type=int, default=backlog.MESSAGES, help="size of the backlog")
    parser.add_argument("--loadgen", type=Path, default=DEFAULT, help="directory of the load generator")
    parser.add_argument("--out", type=Path, help="write the table here as well")
    parser.add_argument("--list", action="store_true", help="names of the scenarios")
    args = parser.parse_args()
    try:
        loadgen = LoadGenerator(args.loadgen)
    except NoLoadGenerator as error:
        print(error, file=sys.stderr)
        return 2
    loadgen.scenarios.update(STEADY | FEATURES)
    names = [name for name in [*loadgen.scenarios, *LIVES] if name not in LEFT_OUT] + [BACKLOG, START]
    if args.list:
        print("\n".join(names))
        return 0
    unknown = set(args.scenario) - set(names)
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; --list names them")
    chosen = args.scenario or (ROUTING if args.routing else TLS if args.tls else names)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        encrypted = Encrypted(directory / "certificates") if args.tls else None
        router = RouterProcess(
            directory / "router",
            uncompiled=args.uncompiled,
            options=encrypted.options() if encrypted else [],
        )
        brokers: list[Broker] = [router]
        if encrypted:
            brokers.append(encrypted.tunnel_to_router(router))
        if args.routing:
            without = RouterProcess(
                directory / "without", uncompiled=args.uncompiled, options=["--routing-log", "false"]
            )
            without.name = "no routing log"
            brokers.append(without)
        for number, tree in enumerate(args.against, 1):
            earlier = RouterProcess(directory / f"earlier{number}", tree=tree.resolve())
            earlier.name = "earlier" if number == 1 else f"earlier {number}"
            brokers.append(earlier)
        if args.rabbitmq:
            rabbit = RabbitProcess(directory / "rabbitmq", settings=encrypted.settings() if encrypted else "")
            brokers.append(rabbit)
            if encrypted:
                brokers.append(encrypted.tunnel_to_rabbit(rabbit))
        for broker in brokers:
            broker.start()
            stack.callback(broker.stop)
        loads = [name for name in chosen if name not in (BACKLOG, START)]
        rows = measure(brokers, loadgen, loads, args.runs, args.seconds)
        table = scenario_table(rows, brokers) if rows else ""
        if BACKLOG in chosen:
            results = {broker.name: backlog.run(broker, loadgen, args.messages) for broker in brokers}
            table += "\n" + backlog_table(results)
            rows += [{"problem": result["problem"]} for result in results.values()]
        if START in chosen:
            ours = [broker for broker in brokers if isinstance(broker, RouterProcess)]
            table += "\n" + start.run(ours, loadgen, args.runs, args.messages)
    print(table)
    if args.out:
        args.out.write_text(table)
    return 1 if any(row["problem"] for row in rows) else 0


class Encrypted:
    """Certificates for brokers that speak TLS, and the tunnels to them."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        self._certificate, self._key = authority.make("server", "/CN=localhost")
        self._ca = authority.certificate
        self._rabbit_port = free_port()

    def options(self) -> list[str]:
        """Options of our broker."""
        files = ["--amqps-certificate", str(self._certificate), "--amqps-key", str(self._key)]
        return ["--amqps-port", "0", *files]

    def settings(self) -> str:
        """Lines for RabbitMQ's configuration file."""
        return (
            f"listeners.ssl.default = 127.0.0.1:{self._rabbit_port}\n"
            f"ssl_options.cacertfile = {self._ca}\n"
            f"ssl_options.certfile = {self._certificate}\n"
            f"ssl_options.keyfile = {self._key}\n"
        )

    def tunnel_to_router(self, broker: RouterProcess) -> Tunnel:
        """A tunnel to our broker, which has chosen its port when it has started."""
        return Tunnel(broker, lambda: json.loads(broker.ready_file.read_text())["amqps"]["port"], self._ca)

    def tunnel_to_rabbit(self, broker: RabbitProcess) -> Tunnel:
        """A tunnel to RabbitMQ."""
        return Tunnel(broker, lambda: self._rabbit_port, self._ca)


def measure(
    brokers: list[Broker], loadgen: LoadGenerator, names: list[str], runs: int, seconds: float
) -> list[Row]:
    """All runs; for each scenario the brokers take turns, so that both see the same machine."""
    rows = []
    for run in range(runs):
        for name in names:
            for broker in brokers:
                if name in LIVES:
                    row = LIVES[name](broker, seconds)
                else:
                    options = loadgen.scenarios[name].split()
                    row = loadgen.run(broker.port, broker.pid, "--duration", str(seconds), *options)
                row["scenario"], row["broker"] = name, broker.name
                rows.append(row)
                with (BUILD / "results.jsonl").open("a") as results:
                    results.write(json.dumps(row) + "\n")
                cost = f"{row.get('broker_us_per_msg', 0):8.2f} us/msg {row.get('overall_rate', 0):12,.0f}/s"
                print(
                    f"{run + 1} {name:18} {broker.name:12} {cost} {row['problem']}",
                    file=sys.stderr,
                    flush=True,
                )
    return rows


COLUMNS: list[tuple[str, Callable[[Row], Any]]] = [
    ("µs/message", lambda row: row.get("broker_us_per_msg")),
    ("messages/s", lambda row: row.get("overall_rate")),
    ("p50 ms", lambda row: _ms(row, "latency_us", "p50")),
    ("p99 ms", lambda row: _ms(row, "latency_us", "p99")),
    ("confirm p50 ms", lambda row: _ms(row, "confirm_latency_us", "p50")),
    ("RSS MB", lambda row: row.get("broker_rss_mb_peak")),
]


def _ms(row: Row, group: str, name: str) -> float | None:
    value = (row.get(group) or {}).get(name)
    return None if value is None else value / 1000


def scenario_table(rows: list[Row], brokers: list[Broker]) -> str:
    """Medians, one line per scenario and broker, with the ratio to the last broker's cost."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["scenario"], row["broker"]].append(row)
    lines = [
        f"{platform.platform()}, Python {platform.python_version()}; "
        + ", ".join(f"{broker.name}{_build(broker)}" for broker in brokers),
        "",
        "| scenario | broker | " + " | ".join(name for name, _ in COLUMNS) + " | ratio | checks |",
        "|---" * (len(COLUMNS) + 4) + "|",
    ]
    reference = brokers[-1].name if len(brokers) > 1 else ""
    for (scenario, broker), group in groups.items():
        cells = [_median([pick(row) for row in group]) for _, pick in COLUMNS]
        ratio = ""
        if reference and broker != reference:
            theirs, ours = _cost(groups[scenario, reference]), _cost(group)
            ratio = f"{theirs / ours:.2f}x" if theirs and ours else ""
        good = sum(not row["problem"] for row in group)
        lines.append(
            f"| {scenario} | {broker} | " + " | ".join(cells) + f" | {ratio} | {good}/{len(group)} |"
        )
    return "\n".join(lines) + "\n"


def _build(broker: Broker) -> str:
    if isinstance(broker, RouterProcess):
        return " (compiled)" if broker.compiled else " (not compiled)"
    return ""


def _cost(rows: list[Row]) -> float:
    return statistics.median([float(row.get("broker_us_per_msg") or 0) for row in rows])


def _median(values: list[Any]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    median = statistics.median(known)
    return f"{median:,.0f}" if median >= 1000 else f"{median:.2f}"


def backlog_table(results: dict[str, Row]) -> str:
    """One column per broker."""
    shown: list[tuple[str, Callable[[Row], str]]] = [
        ("messages of 1 KiB, persistent", lambda row: f"{row['messages']:,}"),
        ("fill", lambda row: f"{row['fill_rate']:,.0f}/s, {row['fill_us']:.2f} µs each"),
        ("RSS before", lambda row: f"{row['rss_before_mib']:.0f} MiB"),
        ("RSS with all waiting", lambda row: f"{row['rss_waiting_mib']:.0f} MiB"),
        ("SIGTERM to exit", lambda row: f"{row['stop_s']:.2f} s"),
        ("start to serving", lambda row: f"{row['start_s']:.2f} s"),
        ("start to first delivery", lambda row: f"{row['first_delivery_s']:.2f} s"),
        ("drain, in order", lambda row: f"{row['drain_rate']:,.0f}/s"),
        ("RSS after", lambda row: f"{row['rss_after_mib']:.0f} MiB"),
        ("checks", lambda row: row["problem"] or "passed"),
    ]
    lines = ["| backlog | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    lines += [
        f"| {name} | " + " | ".join(show(row) for row in results.values()) + " |" for name, show in shown
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
