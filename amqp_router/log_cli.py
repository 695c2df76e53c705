"""``amqp-router log``: the commands that look into the logs of a data directory.

Each imports what it needs when it runs. Some read definitions, and SQLAlchemy takes longer to import than any
other command of ``amqp-router`` to do its work.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amqp_router.datadir import DataDirError
from amqp_router.exit_codes import FAILED, OK, LogDirectoryError

#: By what `inspect` sorts.
ORDERS = ("name", "size", "waiting")
EXAMPLES = {
    "inspect": """\
examples:
  amqp-router log inspect                               every durable queue and routing log of ./data
  amqp-router log inspect --data-dir /var/lib/amqp-router --filter orders --sort size
  amqp-router log inspect --format json | jq '.logs[] | select(.waiting > 1000) | .name'

exit code 0 if a broker could open every log, otherwise 1""",
    "verify": """\
example:
  amqp-router log verify --data-dir /var/lib/amqp-router

exit code 0 if every log is intact, 1 if one is damaged""",
    "salvage": """\
examples:
  amqp-router log salvage orders orders.jsonl
  amqp-router log salvage orders orders.jsonl --data-dir /var/lib/amqp-router --vhost tenant
  amqp-router log salvage 1b9d6bcdbbfd4b2d9b5dab8dfbbd4bed orders.jsonl

exit code 0 if every message is there, 1 if some are missing, 2 if there is no such log, or FILE exists""",
    "adopt": """\
example:
  amqp-router log adopt --data-dir /var/lib/amqp-router

exit code 0 if every log belongs to a queue afterwards, 1 if some are left, 3 if a broker runs on it""",
}


def add_commands(commands: Any, parser_class: type[argparse.ArgumentParser]) -> None:
    """Add ``log`` to the commands of ``amqp-router``; each of its commands sets ``run``."""
    log_parser = commands.add_parser(
        "log",
        help="look into the logs of a data directory; `adopt` alone writes, and only definitions",
        description="Look into the logs of a data directory. No log is changed, and the broker may run. Only "
        "`adopt` writes something, the definitions of a stopped broker.",
        epilog="examples:\n  amqp-router log inspect\n  amqp-router log verify --data-dir DIR",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    log_commands = log_parser.add_subparsers(
        title="commands", metavar="command", parser_class=parser_class, required=True
    )
    for name, text in (
        ("inspect", "show what each queue log and routing log holds, as a broker would find it at its start"),
        ("verify", "read every batch and compare its checksums"),
    ):
        sub_parser = log_commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add_data_dir(sub_parser)
        sub_parser.set_defaults(run=verify_logs if name == "verify" else inspect_logs)
        if name == "inspect":
            sub_parser.add_argument(
                "--filter",
                metavar="TEXT",
                default="",
                help="only logs whose virtual host or queue contains TEXT",
            )
            sub_parser.add_argument(
                "--sort",
                choices=ORDERS,
                default="name",
                help="sort by this column, size and waiting from large to small (default: name)",
            )
            sub_parser.add_argument(
                "--format",
                choices=("table", "json"),
                default="table",
                help="form of the output (default: table)",
            )

    _add_salvage(log_commands)
    _add_adopt(log_commands)


def _add_data_dir(parser: argparse.ArgumentParser) -> None:
    """The option, and the directory as the first argument, which is how older versions took it."""
    parser.add_argument("directory", type=Path, nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data directory (default: data)")


def _data_dir(args: argparse.Namespace) -> Path:
    """The data directory that a ``log`` command was given.

    Raises:
        LogDirectoryError: it was given twice.
    """
    if args.directory is not None and args.data_dir is not None:
        raise LogDirectoryError(f"unknown argument: {args.directory}; --data-dir names the data directory")
    given: Path = args.directory or args.data_dir or Path("data")
    return given


def _add_salvage(log_commands: Any) -> None:
    text = "write the waiting messages of a damaged queue that can be read to a file, as JSON lines"
    parser = log_commands.add_parser(
        "salvage",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Say which offsets are missing. No log is changed.",
        epilog=EXAMPLES["salvage"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data_dir(parser)
    parser.add_argument("queue", help="the queue's name, or that of its folder in queues or quarantine")
    parser.add_argument("out", metavar="FILE", type=Path, help="a new file")
    parser.add_argument("--vhost", metavar="NAME", default="/", help="the queue's virtual host (default: /)")
    parser.set_defaults(run=salvage_log)


def _add_adopt(log_commands: Any) -> None:
    text = "define the queues of logs that no definition names, from what each log says of itself"
    parser = log_commands.add_parser(
        "adopt",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. For a lost definitions.sqlite, or one that names a wrong "
        "folder. The broker must be stopped. Writes definitions.sqlite alone; no log is changed.",
        epilog=EXAMPLES["adopt"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data_dir(parser)
    parser.set_defaults(run=adopt_logs)


def inspect_logs(args: argparse.Namespace) -> int:
    """Print what each log holds; 1 if one cannot be opened."""
    from amqp_router import log_inspect  # noqa: PLC0415

    inspection = log_inspect.inspect(_data_dir(args))
    found = log_inspect.selected(inspection.found, args.filter, args.sort)
    if args.format == "json":
        print(log_inspect.json_text(inspection, found))
    else:
        print(*log_inspect.table_lines(inspection, found), sep="\n")
    return OK if inspection.whole else FAILED


def verify_logs(args: argparse.Namespace) -> int:
    """Print whether each log is intact; 1 if something is damaged."""
    from amqp_router import log_command  # noqa: PLC0415

    with _progress() as tell:
        lines, whole = log_command.check(_data_dir(args), tell)
    print(*lines, sep="\n")
    return OK if whole else FAILED


def salvage_log(args: argparse.Namespace) -> int:
    """Write what is readable of a log, print what is missing; 1 if something is."""
    from amqp_router import log_salvage  # noqa: PLC0415

    with _progress() as tell:
        lines, whole = log_salvage.salvage(_data_dir(args), args.queue, args.vhost, args.out, tell)
    print(*lines, sep="\n")
    return OK if whole else FAILED


def adopt_logs(args: argparse.Namespace) -> int:
    """Define queues for the logs without one, print which; 1 if some logs are left."""
    from amqp_router import log_adopt  # noqa: PLC0415
    from persistence.errors import PersistenceError  # noqa: PLC0415

    try:
        lines, whole = log_adopt.adopt(_data_dir(args))
    except PersistenceError as error:
        raise DataDirError(str(error)) from error
    print(*lines, sep="\n")
    return OK if whole else FAILED


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A function that shows how far a command is, on one line of a terminal. The line goes at the end."""
    is_terminal = sys.stderr.isatty()

    def tell(text: str) -> None:
        if is_terminal:
            fitting = text[: max(1, shutil.get_terminal_size().columns - 1)]
            print(f"\r{fitting}\x1b[K", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        tell("")
