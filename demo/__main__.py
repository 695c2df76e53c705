"""``python -m demo``: starts a broker, sends all flights through it, checks every queue."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pika
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo import flights as data
from demo import topology
from demo.consuming import Consumer
from demo.flights import Flight
from demo.publishing import Publisher
from tests.brokers import RouterProcess

console = Console(highlight=False)


def main() -> int:
    """Run the demonstration; 0 if nothing was lost and every count is right."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument(
        "--data-dir", type=Path, help="keep the broker's data here (default: a temporary directory)"
    )
    parser.add_argument("--port", type=int, help="use the broker on this local port instead of starting one")
    parser.add_argument("--limit", type=int, default=data.COUNT, help="only so many flights")
    args = parser.parse_args()
    with ExitStack() as stack:
        port = args.port
        if port is None:
            directory = args.data_dir or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="demo-"))
            )
            broker = RouterProcess(directory)
            stack.callback(broker.stop)
            broker.start()
            port = broker.port
            build = "compiled" if broker.compiled else "not compiled"
            console.print(f"A broker ({build}) serves on 127.0.0.1:{port}, its data in {broker.data_dir}.")
        parameters = pika.ConnectionParameters("127.0.0.1", port)
        blocking = pika.BlockingConnection(parameters)
        stack.callback(lambda: blocking.is_open and blocking.close())
        channel = blocking.channel()
        topology.declare(channel)
        ok = run(parameters, read(args.limit))
        blocking.process_data_events()
        left = {
            e.queue: channel.queue_declare(e.queue, passive=True).method.message_count
            for e in topology.QUEUES
        }
        if any(left.values()):
            console.print(f"[red]still in the queues: {left}")
        topology.remove(channel)
        return 0 if ok and not any(left.values()) else 1


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


def run(parameters: pika.ConnectionParameters, flights: Sequence[Flight]) -> bool:
    """Publish, consume, report. True if all is as the data set says."""
    started = time.monotonic()
    publisher = publish(parameters, flights)
    published = time.monotonic()
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
    report.add_row(
        "(unroutable)", "returned to the publisher", f"{len(unroutable):,}", got, "yes" if same else "[red]no"
    )
    console.print(report)
    for problem in (publisher.problem, consumer.problem):
        if problem:
            console.print(f"[red]{problem}")
    deliveries = sum(len(received.rows) for received in consumer.received.values())
    console.print(
        f"published at {len(flights) / (published - started):,.0f}/s,"
        f" {deliveries:,} deliveries at {deliveries / (consumed - published):,.0f}/s;"
        " same: the very flights, in order, byte for byte, with headers and timestamp"
    )
    lost = sum(
        max(0, consumer.received[queue].expected - len(set(consumer.received[queue].rows)))
        for queue in expected
    )
    lost += len(flights) - publisher.confirmed
    nacked = f", {publisher.nacked} refused" if publisher.nacked else ""
    console.print(
        f"{publisher.published} published, {publisher.confirmed} confirmed{nacked}, {lost} lost", style="bold"
    )
    return not (wrong or lost or publisher.unexpected or publisher.problem or consumer.problem)


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
