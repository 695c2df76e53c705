"""Routing statistics by Spark, read from the broker's logs while it serves, beside those of the data set.

Nothing here touches a queue: Spark reads the files of the data directory, up to what is synced to disk.
"""

from __future__ import annotations

import calendar
import json
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo import topology
from demo.flights import Flight

#: The routing log is synced once a second; waiting longer than this is an error.
SYNC_SECONDS = 30

Counts = dict[Hashable, int]


@dataclass
class Figures:
    """Messages by exchange, routing key, queue and hour (seconds since 1970), and what went nowhere."""

    exchange: Counts
    key: Counts
    queue: Counts
    #: Of the AMQP timestamp, over the copies in all queues.
    hour: Counts
    unroutable: Counts

    def as_json(self) -> dict[str, dict[str, int]]:
        """With keys as JSON has them."""
        return {
            name: {str(key): count for key, count in counts.items()} for name, counts in vars(self).items()
        }


def of_data_set(flights: Sequence[Flight]) -> Figures:
    """What the figures must be: counted from the flights, without the broker."""
    queue: Counter[Hashable] = Counter()
    hour: Counter[Hashable] = Counter()
    unroutable: Counter[Hashable] = Counter()
    for flight in flights:
        copies = 0
        for expected in topology.QUEUES:
            if expected.wants(flight):
                queue[expected.queue] += 1
                copies += 1
        if copies:
            hour[flight.timestamp // 3600 * 3600] += copies
        else:
            unroutable[flight.routing_key] += 1
    return Figures(
        {topology.TOPIC: len(flights)},
        Counter(flight.routing_key for flight in flights),
        queue,
        hour,
        unroutable,
    )


def by_spark(
    data_dir: Path, since: datetime, count: int, step: Callable[[str], None], log_file: Path
) -> Figures:
    """The same by Spark, from the logs in ``data_dir``, of what was published after ``since``.

    ``step`` is told what is being done.

    Raises:
        TimeoutError: the routing log does not have ``count`` events.
        spark_analytics.AnalyticsError: Java is missing, or a log cannot be read.
    """
    import spark_analytics  # noqa: PLC0415 - only now is Spark needed

    step("waiting for the routing log's sync")
    began = since.isoformat()
    exchanges = [topology.TOPIC]
    deadline = time.monotonic() + SYNC_SECONDS
    while True:
        found = spark_analytics.read_arrow(
            data_dir, columns="offset", exchanges=exchanges, startingTimestamp=began
        ).num_rows
        if found >= count:
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"the routing log has {found} of {count} events after {SYNC_SECONDS} s")
        time.sleep(0.2)
    step("starting Spark")
    spark = spark_analytics.session("amqp-router demo", log_file=log_file, install_java=True)
    try:
        stats = spark_analytics.routing_stats(spark, data_dir, exchanges=exchanges, startingTimestamp=began)
        return collect(stats, step)
    finally:
        spark.stop()


def collect(stats: Any, step: Callable[[str], None] = str) -> Figures:
    """The figures of a ``spark_analytics.RoutingStats``."""
    step("Spark: per exchange")
    exchange = _counts(stats.per_exchange(), "exchange")
    step("Spark: per routing key")
    key = _counts(stats.per_routing_key(), "routing_key")
    step("Spark: per queue")
    queue = _counts(stats.per_queue(), "queue")
    step("Spark: unroutable")
    unroutable = _counts(stats.unroutable(), "routing_key")
    step("Spark: per hour of the messages' timestamp")
    queues = [expected.queue for expected in topology.QUEUES]
    hours = stats.per_hour(timestamp="amqp", queues=queues)
    hour = _counts(hours.selectExpr("unix_timestamp(hour) AS hour", "messages"), "hour")
    return Figures(exchange, key, queue, hour, unroutable)


def _counts(frame: Any, key: str) -> Counts:
    return {row[key]: row["messages"] for row in frame.select(key, "messages").collect()}


def differences(ours: Figures, spark: Figures) -> list[str]:
    """A line for each figure that is not the same, to the message."""
    lines = []
    for name, wanted in vars(ours).items():
        got = getattr(spark, name)
        lines += [
            f"{name} {key}: data set {wanted.get(key, 0)}, Spark {got.get(key, 0)}"
            for key in sorted({*wanted, *got}, key=str)
            if wanted.get(key, 0) != got.get(key, 0)
        ]
    return lines


def write_json(path: Path, figures: Figures) -> None:
    """For other programs to compare."""
    path.write_text(json.dumps(figures.as_json(), indent=1, sort_keys=True) + "\n")


def plot(path: Path, figures: Figures) -> None:
    """One page: copies by hour of day and month, queues, and the busiest routing keys with their fate."""
    import matplotlib  # noqa: PLC0415 - takes a second

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    grid = [[0] * 24 for _ in range(12)]
    for second, count in figures.hour.items():
        assert isinstance(second, int)
        moment = datetime.fromtimestamp(second, UTC)
        grid[moment.month - 1][moment.hour] += count
    figure, axes = plt.subplot_mosaic(
        [["hours", "hours"], ["queues", "keys"]], figsize=(10, 7.2), layout="constrained"
    )
    image = axes["hours"].imshow(grid, aspect="auto", cmap="viridis")
    axes["hours"].set_title("Messages in queues by month and hour of their AMQP timestamp (UTC)", loc="left")
    axes["hours"].set_xticks(range(0, 24, 2))
    axes["hours"].set_yticks(range(12), list(calendar.month_abbr)[1:])
    figure.colorbar(image, ax=axes["hours"], label="messages", pad=0.01)
    queues = sorted(figures.queue.items(), key=lambda item: item[1])
    bars = axes["queues"].barh(
        [str(name) for name, _ in queues], [count for _, count in queues], color="#3b6fb6"
    )
    axes["queues"].bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axes["queues"].set_title("Messages per queue", loc="left")
    axes["queues"].margins(x=0.18)
    axes["queues"].xaxis.set_major_formatter("{x:,.0f}")
    axes["queues"].locator_params(axis="x", nbins=5)
    keys = sorted(figures.key.items(), key=lambda item: item[1])[-12:]
    lost = [figures.unroutable.get(key, 0) for key, _ in keys]
    names = [str(key) for key, _ in keys]
    went = [count - gone for (_, count), gone in zip(keys, lost, strict=True)]
    axes["keys"].barh(names, went, color="#3b6fb6", label="to queues")
    axes["keys"].barh(names, lost, left=went, color="#d98032", label="unroutable")
    axes["keys"].set_title("Busiest routing keys", loc="left")
    axes["keys"].xaxis.set_major_formatter("{x:,.0f}")
    axes["keys"].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)
