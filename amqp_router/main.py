"""The command ``amqp-router``: its parser, and what each of its commands does.

Exit codes are documented in `EXIT_CODES` and printed by ``amqp-router --help``.
"""

from __future__ import annotations

import argparse
import difflib
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from amqp_router import (
    compiled,
    config,
    config_text,
    ctl,
    log_adopt,
    log_command,
    log_inspect,
    log_salvage,
)
from amqp_router.datadir import DataDirError
from amqp_router.exit_codes import EXIT_CODES, FAILED, INTERRUPTED, OK, UNAVAILABLE, USAGE
from amqp_router.log_text import LogDirectoryError
from amqp_router.server import ListenError
from amqp_router.serving import serve
from amqp_router.version import VERSION
from persistence.errors import PersistenceError
from spark_analytics import cli as analytics

EXAMPLES = """\
examples:
  amqp-router serve                              clients on 127.0.0.1:5672, pages on 15672, data in ./data
  amqp-router serve --amqp-port 0 --admin-port 0 --metrics-port 0 --ready-file /tmp/ready.json
  amqp-router serve --config /etc/amqp-router.toml --log-format json
  amqp-router options                            every option with type, default and meaning
  amqp-router ctl doctor                         what needs attention on the broker of ./data
  amqp-router log inspect                        what each log of ./data holds
  amqp-router log verify --data-dir /var/lib/amqp-router
                                                 check every byte of the logs
  amqp-router analytics stats                    how many messages went where
"""

SERVE_EXAMPLES = """\
examples:
  amqp-router serve                              clients on 127.0.0.1:5672, pages on 15672, data in ./data
  amqp-router serve --amqp-port 5673 --admin-port 15673 --metrics-port 0 --data-dir second
                                                 a second broker on this machine
  amqp-router serve --bind 0.0.0.0 --data-dir /var/lib/amqp-router
                                                 for clients on other machines (not as guest)
  amqp-router serve --config /etc/amqp-router.toml

An option can also stand in the file (amqp_port = 5673) or in the environment (AMQP_ROUTER_AMQP_PORT=5673).
"""

LOG_EXAMPLES = {
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.run is None:
        parser.print_help()
        return USAGE
    try:
        return int(args.run(args))
    except (config.ConfigError, LogDirectoryError) as error:
        return _complain(str(error), USAGE)
    except (DataDirError, ListenError) as error:
        return _complain(str(error), UNAVAILABLE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it (`| head`)
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # otherwise Python prints an error at its end
        return OK


def _complain(text: str, code: int) -> int:
    print(f"amqp-router: {text}", file=sys.stderr)
    return code


class _Parser(argparse.ArgumentParser):
    """Prints one line that says what is wrong, without argparse's long usage text."""

    def error(self, message: str) -> NoReturn:
        """Leave with exit code 2."""
        unknown = re.match(r"argument command: invalid choice: '(.*)' \(choose from (.*)\)", message)
        if unknown:
            name, known = unknown[1], unknown[2].replace("'", "")
            close = difflib.get_close_matches(name, known.split(", "), 1)
            message = f"unknown command: {name} (" + (
                f"did you mean {close[0]}?)" if close else f"there are {known})"
            )
        elif message == "the following arguments are required: command":
            message = "a command is missing"
        self.exit(USAGE, f"amqp-router: {message}; see `{self.prog} --help`\n")

    def parse_known_args(self, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
        """Report unknown arguments here, because the parent parser would point to a help text without these
        options.
        """
        namespace, left = super().parse_known_args(*args, **kwargs)
        if left:
            close = difflib.get_close_matches(left[0].partition("=")[0], self._option_string_actions, 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            self.error(f"unknown argument: {left[0]}{hint}")
        return namespace, left


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    codes = "\n".join(f"  {code}  {meaning}" for code, meaning in EXIT_CODES.items())
    parser = _Parser(
        prog="amqp-router",
        description="An AMQP 0-9-1 broker, compatible with RabbitMQ. Each durable queue is a log on disk.",
        epilog=f"{EXAMPLES}\nexit codes:\n{codes}\n",
        formatter_class=raw,
        allow_abbrev=False,
    )
    parser.set_defaults(run=None)
    parser.add_argument("--version", action="version", version=version_text())
    commands = parser.add_subparsers(title="commands", metavar="command", parser_class=_Parser)

    serve_parser = commands.add_parser(
        "serve",
        help="run the broker",
        description="Run the broker until Ctrl-C or SIGTERM. The defaults serve this machine only.",
        epilog=SERVE_EXAMPLES,
        formatter_class=raw,
        allow_abbrev=False,
    )
    serve_parser.add_argument(
        "--config", metavar="FILE", type=Path, help="TOML file with options (default: none)"
    )
    config_text.add_flags(serve_parser)
    serve_parser.set_defaults(run=serve)

    options_parser = commands.add_parser("options", help="list every option with type, default and meaning")
    options_parser.add_argument(
        "--markdown", action="store_true", help="print the text of docs/configuration.md"
    )
    options_parser.add_argument(
        "--toml", action="store_true", help="print a configuration file with every option commented out"
    )
    options_parser.set_defaults(run=list_options)

    log_help = "look into the logs of a data directory; only adopt changes anything, the definitions"
    log_parser = commands.add_parser(
        "log",
        help=log_help,
        description="Look into the logs of a data directory. No log is changed, and the broker may run. Only "
        "`adopt` writes something, the definitions of a stopped broker.",
        epilog="examples:\n  amqp-router log inspect\n  amqp-router log verify --data-dir DIR",
        formatter_class=raw,
    )
    log_commands = log_parser.add_subparsers(
        title="commands", metavar="command", parser_class=_Parser, required=True
    )
    for name, text in (
        ("inspect", "show what each queue log and routing log holds, as a broker would find it at its start"),
        ("verify", "read every batch and compare its checksums"),
    ):
        sub_parser = log_commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=LOG_EXAMPLES[name],
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
                choices=sorted(log_inspect.ORDERS),
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
    analytics.add_commands(commands)
    ctl.add_commands(commands, _Parser, parser)
    return parser


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
        epilog=LOG_EXAMPLES["salvage"],
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
        epilog=LOG_EXAMPLES["adopt"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data_dir(parser)
    parser.set_defaults(run=adopt_logs)


def version_text() -> str:
    """``amqp-router 0.1.0, Python 3.11.7, compiled (12 modules)``."""
    return f"amqp-router {VERSION}, Python {platform.python_version()}, {compiled.build.summary()}"


def list_options(args: argparse.Namespace) -> int:
    """Print every option."""
    if args.markdown:
        print(config_text.markdown(), end="")
        return OK
    if args.toml:
        print(config_text.sample_toml(), end="")
        return OK
    last = ""
    for section, name, info in config_text.options():
        if section != last:
            print(f"{'' if not last else chr(10)}{section}")
            last = section
        default = config_text.default_text(info) + config_text.unit_text(info)
        print(f"  {name:<21}{config_text.type_name(info)}, default {default}\n{'':<23}{info.description}")
    return OK


def inspect_logs(args: argparse.Namespace) -> int:
    """Print what each log holds; 1 if one cannot be opened."""
    inspection = log_inspect.inspect(_data_dir(args))
    found = log_inspect.selected(inspection.found, args.filter, args.sort)
    if args.format == "json":
        print(log_inspect.json_text(inspection, found))
    else:
        print(*log_inspect.table_lines(inspection, found), sep="\n")
    return OK if inspection.whole else FAILED


def verify_logs(args: argparse.Namespace) -> int:
    """Print whether each log is intact; 1 if something is damaged."""
    lines, whole = log_command.check(_data_dir(args))
    print(*lines, sep="\n")
    return OK if whole else FAILED


def salvage_log(args: argparse.Namespace) -> int:
    """Write what is readable of a log, print what is missing; 1 if something is."""
    lines, whole = log_salvage.salvage(_data_dir(args), args.queue, args.vhost, args.out, _progress)
    print(*lines, sep="\n")
    return OK if whole else FAILED


def adopt_logs(args: argparse.Namespace) -> int:
    """Define queues for the logs without one, print which; 1 if some logs are left."""
    try:
        lines, whole = log_adopt.adopt(_data_dir(args))
    except PersistenceError as error:
        raise DataDirError(str(error)) from error
    print(*lines, sep="\n")
    return OK if whole else FAILED


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
