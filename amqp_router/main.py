"""The command ``amqp-router``: its parser, and what each of its commands does.

Exit codes are documented in `EXIT_CODES` and printed by ``amqp-router --help``.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from amqp_router import compiled, config, config_text
from amqp_router.datadir import DataDirError
from amqp_router.exit_codes import (
    EXIT_CODES,
    INTERRUPTED,
    OK,
    UNAVAILABLE,
    USAGE,
    ListenError,
    LogDirectoryError,
)
from amqp_router.nearest import did_you_mean
from amqp_router.version import VERSION

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

OPTIONS_EXAMPLES = """\
examples:
  amqp-router options                            a table
  amqp-router options --toml > amqp-router.toml  a configuration file to edit
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser(only_serve=given[:1] == ["serve"])
    args = parser.parse_args(given)
    if args.run is None:
        parser.print_help()
        return USAGE
    del parser  # a broker would keep it for as long as it runs
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
            hint = did_you_mean(name, known.split(", ")) or f"there are {known}"
            message = f"unknown command: {name} ({hint})"
        elif message == "the following arguments are required: command":
            message = "a command is missing"
        self.exit(USAGE, f"amqp-router: {message}; see `{self.prog} --help`\n")

    def parse_known_args(self, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
        """Report unknown arguments here, because the parent parser would point to a help text without these
        options.
        """
        self._look_at_order(args[0] if args else kwargs.get("args"))
        namespace, left = super().parse_known_args(*args, **kwargs)
        if left:
            options = (each.lstrip("-") for each in self._option_string_actions)
            hint = did_you_mean(left[0].partition("=")[0].lstrip("-"), options, "--{}".format)
            self.error(f"unknown argument: {left[0]}" + (f" ({hint})" if hint else ""))
        return namespace, left

    def _look_at_order(self, given: Sequence[str] | None) -> None:
        """An option before the command would be unknown, and its value be taken for the command."""
        if self._subparsers is None or not given:
            return
        option = given[0].partition("=")[0]
        is_ours = option in self._option_string_actions
        if option.startswith("--") and not is_ours and any(not each.startswith("-") for each in given[1:]):
            self.error(f"{option} stands before the command; options come behind it")


def _parser(*, only_serve: bool = False) -> argparse.ArgumentParser:
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

    options_parser = commands.add_parser(
        "options",
        help="list every option with type, default and meaning",
        description="List every option with type, default and meaning.",
        epilog=OPTIONS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options_parser.add_argument(
        "--markdown", action="store_true", help="print the text of docs/configuration.md"
    )
    options_parser.add_argument(
        "--toml", action="store_true", help="print a configuration file with every option commented out"
    )
    options_parser.set_defaults(run=list_options)

    if not only_serve:
        _add_others(commands, parser)
    return parser


def _add_others(commands: Any, parser: argparse.ArgumentParser) -> None:
    # Imported here, as a broker would keep in memory what it never runs (3 MiB).
    from amqp_router import ctl, log_cli  # noqa: PLC0415
    from spark_analytics import cli as analytics  # noqa: PLC0415

    log_cli.add_commands(commands, _Parser)
    analytics.add_commands(commands)
    ctl.add_commands(commands, _Parser, parser)


def serve(args: argparse.Namespace) -> int:
    """Run the broker until a signal ends it."""
    # What a start makes stays, so the garbage collector finds nothing. `Collector.start` turns it on again.
    gc.disable()
    try:
        # SQLAlchemy takes a fifth of a second to import: other commands do not wait for it.
        from amqp_router import serving  # noqa: PLC0415

        return serving.serve(args)
    finally:
        gc.enable()


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
