"""``amqp-router analytics``: routing statistics in the terminal, and a check whether Spark works here.

The packages of the extra ``analytics`` are imported only when a command runs, because the broker runs without
them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from .errors import AnalyticsError, MissingExtra, NoJava, OptionError
from .java import prepare
from .terminal import shown, shown_json, shown_lines, size_text

OK, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3
#: In a file or a pipe names are not broken, however long they are.
_WIDTH_OF_FILES = 10_000
TABLES = ("exchange", "key", "queue", "hour", "unroutable")
_TITLES = {
    "exchange": "Messages per exchange",
    "key": "Messages per routing key",
    "queue": "Messages routed to each queue",
    "unroutable": "Messages that went to no queue",
}
_HOUR_TITLES = {
    "broker": "Messages per hour (UTC)",
    "amqp": "Messages in queues' logs per hour of their own timestamps (UTC)",
}

EXAMPLES = """\
examples:
  amqp-router analytics stats                          all tables over ./data, of a running broker too
  amqp-router analytics stats --by queue --by hour --top 50
  amqp-router analytics stats --by hour --timestamp amqp --queue audit
                                                       hours by the messages' own timestamps
  amqp-router analytics stats --since 2026-01-31T12:00:00Z --json
  amqp-router analytics stats --by exchange --plot exchanges.png
  amqp-router analytics doctor --data-dir data         what is right or wrong with Java, Spark, the data
"""


def add_commands(commands: Any) -> None:
    """Add ``analytics`` and its commands to an argparse subparsers object; each sets ``run``."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        "analytics",
        help="routing statistics, in this process or by Spark",
        description="Routing statistics of a data directory. Programs read the same data with spark.read and "
        'spark.readStream, whose format is "amqp_router" (docs/analytics.md).',
        epilog=EXAMPLES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    inner = parser.add_subparsers(
        title="commands", metavar="command", parser_class=type(parser), required=True
    )
    stats = inner.add_parser(
        "stats",
        help="messages per exchange, routing key, queue and hour",
        description="Count what was routed where. The broker may run; it is not disturbed.",
        epilog=EXAMPLES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    stats.add_argument("--data-dir", metavar="D", default="data", help="data directory (default: data)")
    stats.add_argument(
        "--by", action="append", choices=TABLES, help="show only this table (repeatable; default: all)"
    )
    stats.add_argument(
        "--timestamp",
        choices=("broker", "amqp"),
        default="broker",
        help="the time that decides a message's hour: when the broker took it, or the property timestamp of "
        "the messages that the queues' logs still hold (amqp)",
    )
    stats.add_argument(
        "--queue", action="append", metavar="Q", help="with --timestamp amqp: only messages in this queue"
    )
    stats.add_argument("--vhost", action="append", metavar="V", help="only this virtual host")
    stats.add_argument("--since", metavar="T", help="only from this time on, as 2026-01-31T12:00:00Z")
    stats.add_argument("--until", metavar="T", help="only before this time")
    stats.add_argument("--top", metavar="N", type=_positive, default=20, help="rows per table (default: 20)")
    stats.add_argument(
        "--engine",
        choices=("auto", "arrow", "spark"),
        default="auto",
        help="count in this process (arrow) or by Spark; auto: Spark above 64 MiB of log (default: auto)",
    )
    stats.add_argument("--json", action="store_true", help="JSON instead of tables")
    stats.add_argument("--plot", metavar="FILE.png", help="draw the tables into a picture too (matplotlib)")
    stats.set_defaults(run=run_stats)
    doctor = inner.add_parser(
        "doctor",
        help="check whether everything is there that Spark needs",
        description="Look at Python, Java, the packages and the data, and run a one-row job.",
        epilog=EXAMPLES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    doctor.add_argument("--data-dir", metavar="D", help="look into this data directory too")
    doctor.add_argument("--no-install", action="store_true", help="do not install Java where there is none")
    doctor.set_defaults(run=run_doctor)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def require(*modules: str) -> None:
    """Check that all of these packages are installed.

    Raises:
        MissingExtra: one is not; the text says what to install.
    """
    from .doctor import requirement  # noqa: PLC0415

    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return
    wanted = " ".join(f"'{requirement(name)}'" for name in missing)
    raise MissingExtra(
        f"{', '.join(missing)} not installed (the extra `analytics` has what Spark needs); "
        f"run: {sys.executable} -m pip install {wanted}"
    )


def run_stats(args: argparse.Namespace) -> int:
    """Print the tables; exit code."""
    return _reported(lambda: _stats(args))


def run_doctor(args: argparse.Namespace) -> int:
    """Print the findings; exit code 1 if one is bad."""
    return _reported(lambda: _doctor(args))


def _reported(act: Any) -> int:
    """Run ``act``. Errors that a user can correct become one line on standard error."""
    try:
        return int(act())
    except (MissingExtra, NoJava) as error:
        return _complain(str(error), UNAVAILABLE)
    except AnalyticsError as error:
        return _complain(str(error), USAGE)


def _complain(text: str, code: int) -> int:
    print(f"amqp-router analytics: {shown_lines(text)}", file=sys.stderr)
    return code


def _doctor(args: argparse.Namespace) -> int:
    from .doctor import examine  # noqa: PLC0415

    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # without rich, which may be missing
    green, red, plain = ("\x1b[32m", "\x1b[1;31m", "\x1b[0m") if is_coloured else ("", "", "")
    bad = 0
    for finding in examine(args.data_dir, install_java=not args.no_install):
        mark = f"{green}ok   " if finding.right else f"{red}WRONG"
        print(f"{mark}{plain} {finding.what:<10} {shown(finding.text)}", flush=True)
        if not finding.right:
            bad += 1
            for line in finding.advice.splitlines():
                print(f"{'':<17}{shown(line)}")
    print("Spark can read the logs." if not bad else f"{bad} thing{'s' * (bad > 1)} to set right.")
    return FAILED if bad else OK


def _stats(args: argparse.Namespace) -> int:
    require("numpy", "pyarrow", "rich", *(["matplotlib"] if args.plot else []))
    size = _check(args)
    from .small import SMALL_BYTES  # noqa: PLC0415 - of the extra, like all below

    is_small = args.engine == "arrow" or (args.engine == "auto" and size <= SMALL_BYTES)
    engine = "arrow" if is_small else "spark"
    try:
        figures = {"engine": engine, **(_by_arrow(args) if is_small else _by_spark(args))}
    except _SparkFailed as error:
        return _complain(str(error), FAILED)
    titles = {**_TITLES, "hour": _HOUR_TITLES[args.timestamp]}
    if args.json:
        print(shown_json(json.dumps(figures, default=_as_json, indent=2, ensure_ascii=False)))
    else:
        _print(figures, titles, args.top)
        where = "by Arrow in this process" if is_small else "by Spark"
        print(f"counted {where}: {size_text(size)} of log", file=sys.stderr)
    if args.plot:
        _plot(figures, titles, args.plot)
        print(f"drawn into {args.plot}", file=sys.stderr)
    return OK


class _SparkFailed(Exception):
    """Spark failed, not this package. The text has the end of Java's log."""


def _by_spark(args: argparse.Namespace) -> dict[str, Any]:
    require("pyspark")
    from rich.console import Console  # noqa: PLC0415

    prepare(install=True)
    errors = Console(stderr=True)
    is_shown = errors.is_terminal and not args.json
    with tempfile.NamedTemporaryFile(prefix="amqp-router-spark-", suffix=".log") as log:
        status: AbstractContextManager[Any] = errors.status("Spark counts ...") if is_shown else nullcontext()
        with status:
            try:
                return _figures_of_spark(args, log.name)
            except AnalyticsError:
                raise
            except Exception as error:
                from .doctor import first_line  # noqa: PLC0415

                log.seek(0)
                tail = log.read().decode(errors="replace").strip().splitlines()[-5:]
                raise _SparkFailed("\n".join([f"Spark failed: {first_line(error)}", *tail])) from error


def _by_arrow(args: argparse.Namespace) -> dict[str, Any]:
    from .small import SmallStats  # noqa: PLC0415

    # One more, to know whether there are more.
    stats = SmallStats(args.data_dir, args.top + 1, **_options(args))
    return _figures(args, stats, stats.totals(), lambda rows: rows)


def _check(args: argparse.Namespace) -> int:
    """Check the arguments and the data before Spark is started; returns the bytes of log to read.

    Raises:
        AnalyticsError: something is wrong with them.
    """
    from .small import log_bytes  # noqa: PLC0415

    if args.queue and args.timestamp != "amqp":
        raise AnalyticsError("--queue belongs to --timestamp amqp")
    try:
        size = log_bytes(args.data_dir, "routing", **_options(args))
        if args.timestamp == "amqp":
            size += log_bytes(args.data_dir, "messages", **_options(args), queues=args.queue)
    except OptionError as error:
        text = str(error)
        for name, flag in _FLAGS.items():
            text = text.replace(f"option '{name}'", flag)
        raise AnalyticsError(text) from None
    if args.plot:
        from matplotlib.backend_bases import FigureCanvasBase  # noqa: PLC0415

        kind = os.path.splitext(args.plot)[1].removeprefix(".").lower()
        if kind not in FigureCanvasBase.get_supported_filetypes():
            raise AnalyticsError(f"--plot {args.plot}: a picture ends in .png, .svg or .pdf")
        directory = os.path.dirname(os.path.abspath(args.plot))
        if not os.access(directory, os.W_OK):
            raise AnalyticsError(f"--plot {args.plot}: the folder {directory} is not there or not writable")
    return size


#: Options of the data source by the flags that set them.
_FLAGS = {
    "vhosts": "--vhost",
    "queues": "--queue",
    "startingTimestamp": "--since",
    "endingTimestamp": "--until",
}


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """The data source's options that the flags set."""
    given = {"vhosts": args.vhost, "startingTimestamp": args.since, "endingTimestamp": args.until}
    return {name: value for name, value in given.items() if value is not None}


def _figures_of_spark(args: argparse.Namespace, log_file: str) -> dict[str, Any]:
    from .spark_session import session  # noqa: PLC0415
    from .statistics import routing_stats  # noqa: PLC0415

    spark = session("amqp-router analytics stats", log_file=log_file)
    try:
        stats = routing_stats(spark, args.data_dir, **_options(args))
        totals = _plain(stats.totals().collect()[0])
        # One more, to know whether there are more.
        return _figures(
            args, stats, totals, lambda rows: [_plain(row) for row in rows.limit(args.top + 1).collect()]
        )
    finally:
        spark.stop()


def _figures(args: argparse.Namespace, stats: Any, totals: Any, rows_of: Any) -> dict[str, Any]:
    """The totals and the wanted tables as plain lists of rows."""
    tables = {
        "exchange": stats.per_exchange,
        "key": stats.per_routing_key,
        "queue": stats.per_queue,
        "hour": lambda: stats.per_hour(timestamp=args.timestamp, queues=args.queue),
        "unroutable": stats.unroutable,
    }
    figures: dict[str, Any] = {"data": os.path.abspath(args.data_dir), "totals": totals, "cut": []}
    for name in args.by or TABLES:
        rows = rows_of(tables[name]())
        figures[name] = rows[: args.top]
        if len(rows) > args.top:
            figures["cut"].append(name)
    return figures


def _plain(row: Any) -> dict[str, Any]:
    """A row as a dict, with its times in UTC. Spark gives them in this machine's zone without a mark."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in row.asDict().items()
    }


def _as_json(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is no figure")


def _print(figures: dict[str, Any], titles: dict[str, str], top: int) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    window = console.width if console.is_terminal else _WIDTH_OF_FILES
    totals = figures["totals"]
    console.print(
        f"{totals['messages']:,} messages published, {totals['copies']:,} copies routed to queues, "
        f"{totals['unroutable']:,} unroutable ({totals['returned']:,} returned), {totals['bytes']:,} bytes",
        highlight=False,
        soft_wrap=True,
    )
    if totals["first"] is not None:
        first, last = _cell("", totals["first"]), _cell("", totals["last"])
        console.print(f"from {first} to {last} UTC", highlight=False, soft_wrap=True)
    for name in TABLES:
        if name not in figures:
            continue
        rows = figures[name]
        cut = f", the first {top}" if name in figures["cut"] else ""
        console.print()
        if not rows:
            console.print(f"{titles[name]}: none")
            continue
        table = Table(title=titles[name] + cut, title_justify="left")
        least = 1
        for column in rows[0]:
            values = [row[column] for row in rows]
            is_figure = isinstance(values[0], int | datetime)
            # In a narrow window names are broken, but never figures and headings.
            shown = [column, *(_cell(column, value) for value in values if is_figure)]
            width = max(map(len, shown))
            justify: Any = "right" if isinstance(values[0], int) else "left"
            table.add_column(column, justify=justify, overflow="fold", min_width=width)
            least += width + 3
        for row in rows:
            table.add_row(*[Text(_cell(column, value)) for column, value in row.items()])
        console.width = max(window, least)
        console.print(table, crop=False)


def _cell(column: str, value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None))
    if column == "exchange" and value == "":
        return "(default)"
    return "-" if value is None else shown(str(value))


def _plot(figures: dict[str, Any], titles: dict[str, str], path: str) -> None:
    """Bars of the messages of each table, one below the other."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    shown = [name for name in TABLES if figures.get(name)]
    heights = [1.2 + 0.28 * len(figures[name]) for name in shown] or [1.2]
    figure, axes = pyplot.subplots(
        len(shown) or 1,
        1,
        figsize=(9, sum(heights)),
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    for axis, name in zip(axes[:, 0], shown, strict=False):
        rows = figures[name]
        labels = [" ".join(_label(row, name)) for row in rows]
        axis.barh(range(len(rows)), [row["messages"] for row in rows], color="#2b7a9b")
        axis.set_yticks(range(len(rows)), labels, fontsize=8)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_title(titles[name], loc="left", fontsize=10)
        axis.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.0f}"))
        axis.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise AnalyticsError(f"the picture cannot be written: {error}") from None
    finally:
        pyplot.close(figure)


def _label(row: dict[str, Any], name: str) -> list[str]:
    columns = {
        "exchange": ["exchange"],
        "key": ["exchange", "routing_key"],
        "queue": ["queue"],
        "hour": ["hour"],
        "unroutable": ["exchange", "routing_key"],
    }
    parts = [_cell(column, row[column]) for column in columns[name]]
    return parts if row["vhost"] == "/" else [_cell("vhost", row["vhost"]), *parts]
