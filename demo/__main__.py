"""Starts a broker, sends all flights through it, lets Spark read its logs, checks every queue and figure."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pika
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo import flights as data
from demo import statistics, topology
from demo.consuming import Consumer
from demo.flights import Flight
from demo.publishing import Publisher
from tests.brokers import RouterProcess

console = Console(highlight=False)


def main() -> int:
    """Run the demonstration; 0 if nothing was lost and every count is right."""
    parser = argparse.ArgumentParser(
        prog="demo",
        description=__doc__,
        epilog="examples:\n  make demo\n  make demo ARGS='--limit 20000 --output /tmp'\n"
        "  make demo ARGS='--port 5672 --data-dir data'    through the broker that `make run` started",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="where the broker's logs are, for Spark to read (default: a temporary directory)",
    )
    parser.add_argument("--port", type=int, help="use the broker on this local port instead of starting one")
    parser.add_argument("--limit", type=_positive, default=data.COUNT, help="only so many flights")
    parser.add_argument("--no-spark", action="store_true", help="leave the statistics out")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build"),
        help="folder for demo.png and demo.json, the statistics (default: build)",
    )
    args = parser.parse_args()
    if args.port is not None and args.data_dir is None and not args.no_spark:
        parser.error("with --port also say where that broker's logs are (--data-dir), or --no-spark")
    try:
        return demonstrate(args)
    except KeyboardInterrupt:
        say("Interrupted; nothing was compared.")
        return 130


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def demonstrate(args: argparse.Namespace) -> int:
    """All of it; 0 if nothing was lost and every count is right."""
    with ExitStack() as stack:
        directory, port, admin = args.data_dir, args.port, ""
        if port is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demo-")))
            options = ["--data-dir", str(directory)] if directory else []
            broker = RouterProcess(home, options=options)
            stack.callback(broker.stop)
            broker.start()
            port = broker.port
            directory = directory or broker.data_dir
            admin = f"http://127.0.0.1:{broker.admin_port}/"
            build = "compiled" if broker.compiled else "not compiled"
            say(f"A broker ({build}) serves on 127.0.0.1:{port}, its data in {directory}.")
            say(f"Watch it: {admin} (guest, guest)")
        parameters = pika.ConnectionParameters("127.0.0.1", port)
        # Without heartbeats, which nobody would answer while flights are published, counted and consumed.
        quiet = pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)
        try:
            blocking = pika.BlockingConnection(quiet)
        except pika.exceptions.AMQPConnectionError:
            say(f"[red]No broker answers on 127.0.0.1:{port}; `make run` starts one.")
            return 1
        stack.callback(lambda: blocking.is_open and blocking.close())
        channel = blocking.channel()
        topology.declare(channel)
        ok = run(parameters, read(args.limit), None if args.no_spark else Analysis(directory, args.output))
        left = {
            e.queue: channel.queue_declare(e.queue, passive=True).method.message_count
            for e in topology.QUEUES
        }
        if any(left.values()):
            say(f"[red]still in the queues: {left}")
        if admin and sys.stdin.isatty() and console.is_terminal:
            say(f"The broker goes on: look at {admin} (guest, guest). Enter ends it.")
            wait()
        elif admin:
            say(f"The admin page was {admin}; on a terminal it would stay until Enter.")
        topology.remove(channel)
        return 0 if ok and not any(left.values()) else 1


def wait() -> None:
    """Until the user has seen enough."""
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.readline()


class Analysis:
    """Spark's part: what it found, and where it goes."""

    def __init__(self, data_dir: Path, output: Path) -> None:
        self.data_dir = data_dir
        self.output = output
        self.since = datetime.now(UTC)
        self.found: statistics.Figures | None = None
        self.problem = ""

    def read(self, count: int) -> None:
        """Read the logs, while the messages wait in their queues."""
        self.output.mkdir(parents=True, exist_ok=True)
        with console.status("Spark ...") as status:
            try:
                self.found = statistics.by_spark(
                    self.data_dir, self.since, count, status.update, self.output / "demo-spark.log"
                )
            except Exception as error:
                self.problem = f"no statistics: {error}"

    def report(self, flights: Sequence[Flight]) -> bool:
        """Spark's figures beside those of the data set. True if they are the same, to the message."""
        if self.found is None:
            say(f"[red]{self.problem}")
            return False
        ours = statistics.of_data_set(flights)
        wrong = statistics.differences(ours, self.found)
        table = Table("messages", "", title="What Spark read from the logs", title_justify="left")
        for heading in ("data set", "Spark", "same"):
            table.add_column(heading, justify="right")
        for title, name, shown in (
            ("per exchange", "exchange", 3),
            ("per routing key", "key", 4),
            ("per queue", "queue", 10),
            ("per hour of timestamp", "hour", 4),
            ("unroutable, per key", "unroutable", 4),
        ):
            wanted, got = getattr(ours, name), getattr(self.found, name)
            for index, key in enumerate(sorted(wanted, key=lambda key: (-wanted[key], str(key)))[:shown]):
                label = f"{datetime.fromtimestamp(key, UTC):%Y-%m-%d %H:00}" if name == "hour" else str(key)
                add(table, title if not index else "", label, wanted[key], got.get(key, 0))
            count = f"all {len(wanted):,} together" if len(wanted) > 1 else "nothing else"
            add(table, "", count, sum(wanted.values()), sum(got.values()), wanted == got)
            table.add_section()
        console.print(table)
        for line in wrong[:10]:
            say(f"[red]{line}")
        statistics.write_json(self.output / "demo.json", self.found)
        statistics.plot(self.output / "demo.png", self.found)
        figures = sum(map(len, vars(ours).values()))
        verdict = "every one the same" if not wrong else f"[red]{len(wrong)} differ"
        say(
            f"{figures:,} figures of Spark compared with the data set: {verdict}."
            f" Plot: {self.output / 'demo.png'}, figures: {self.output / 'demo.json'}",
            style="bold",
        )
        return not wrong


def say(text: str, style: str = "") -> None:
    """A line, left whole: a path that is broken in two can neither be clicked nor copied."""
    console.print(text, style=style, soft_wrap=True)


def add(table: Table, title: str, label: str, wanted: int, got: int, same: bool | None = None) -> None:
    """One row of the comparison."""
    same = wanted == got if same is None else same
    table.add_row(title, label, f"{wanted:,}", f"{got:,}", "yes" if same else "[red]no")


def read(limit: int) -> list[Flight]:
    """The flights, with a progress bar."""
    with bars() as progress:
        task = progress.add_task("reading the data set", total=min(limit, data.COUNT))
        flights = []
        for flight in data.read(limit):
            flights.append(flight)
            if len(flights) % 5000 == 0:
                progress.update(task, completed=len(flights))
        progress.update(task, completed=len(flights))
    return flights


def run(parameters: pika.ConnectionParameters, flights: Sequence[Flight], analysis: Analysis | None) -> bool:
    """Publish, let Spark read, consume, report. True if all is as the data set says."""
    if analysis is not None:
        analysis.since = datetime.now(UTC)
    started = time.monotonic()
    publisher = publish(parameters, flights)
    published = time.monotonic()
    if analysis is not None:
        analysis.read(publisher.published)
    consuming = time.monotonic()
    expected = {e.queue: sum(map(e.wants, flights)) for e in topology.QUEUES}
    consumer = consume(parameters, flights, expected)
    consumed = time.monotonic()
    unroutable = [index for index, flight in enumerate(flights) if not topology.wanted(flight)]
    report = Table("queue", "bound by")
    for heading in ("data set", "got", "same"):
        report.add_column(heading, justify="right")
    wrong = 0
    for e in topology.QUEUES:
        received = consumer.received[e.queue]
        rows = [index for index, flight in enumerate(flights) if e.wants(flight)]
        same = received.rows == rows and not received.changed and not received.redelivered
        wrong += not same
        report.add_row(
            e.queue, e.binding, f"{len(rows):,}", f"{len(received.rows):,}", "yes" if same else "[red]no"
        )
    same = publisher.returned == unroutable
    wrong += not same
    got = f"{len(publisher.returned):,}"
    report.add_row("(unroutable)", "returned", f"{len(unroutable):,}", got, "yes" if same else "[red]no")
    console.print(report)
    for problem in (publisher.problem, consumer.problem):
        if problem:
            say(f"[red]{problem}")
    deliveries = sum(len(received.rows) for received in consumer.received.values())
    say(
        f"published at {len(flights) / (published - started):,.0f}/s,"
        f" {deliveries:,} deliveries at {deliveries / (consumed - consuming):,.0f}/s;"
        " same: the very flights, in order, byte for byte, with headers and timestamp"
    )
    lost = sum(
        max(0, consumer.received[queue].expected - len(set(consumer.received[queue].rows)))
        for queue in expected
    )
    lost += len(flights) - publisher.confirmed
    nacked = f", {publisher.nacked} refused" if publisher.nacked else ""
    say(
        f"{publisher.published} published, {publisher.confirmed} confirmed{nacked}, {lost} lost", style="bold"
    )
    agreed = analysis.report(flights) if analysis is not None else True
    return agreed and not (wrong or lost or publisher.unexpected or publisher.problem or consumer.problem)


def publish(parameters: pika.ConnectionParameters, flights: Sequence[Flight]) -> Publisher:
    """Publish with two bars, sent and confirmed."""
    with bars() as progress:
        sent = progress.add_task("published", total=len(flights))
        confirmed = progress.add_task("confirmed", total=len(flights))

        def show(published_count: int, confirmed_count: int) -> None:
            progress.update(sent, completed=published_count)
            progress.update(confirmed, completed=confirmed_count)

        publisher = Publisher(parameters, flights, show)
        publisher.run()
    return publisher


def consume(
    parameters: pika.ConnectionParameters, flights: Sequence[Flight], expected: dict[str, int]
) -> Consumer:
    """Consume with one bar per queue."""
    with bars() as progress:
        tasks = {queue: progress.add_task(queue, total=count) for queue, count in expected.items()}
        consumer = Consumer(
            parameters, flights, expected, lambda queue, count: progress.update(tasks[queue], completed=count)
        )
        consumer.run()
    return consumer


def bars() -> Progress:
    """The look of every progress bar here."""
    return Progress(
        TextColumn("{task.description:>22}"),
        BarColumn(40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=8,
    )


if __name__ == "__main__":
    sys.exit(main())
