"""The command ``amqp-router``: reads the options, puts the parts together, runs.

Exit codes are documented in `EXIT_CODES` and printed by ``amqp-router --help``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import difflib
import logging
import os
import platform
import re
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from amqp_router import (
    compiled,
    config,
    config_text,
    ctl,
    log_adopt,
    log_command,
    log_inspect,
    log_salvage,
    logs,
    process,
    tls_settings,
)
from amqp_router.auth.users import FirstStart
from amqp_router.datadir import DataDirectory, DataDirError
from amqp_router.log_text import LogDirectoryError
from amqp_router.outlet import descriptor
from amqp_router.server import (
    ListenError,
    Server,
    ServerOptions,
    clear_ready_file,
    connections_allowed,
    peer_text,
    signals,
    write_ready_file,
)
from amqp_router.sockets import Certificates
from amqp_router.version import VERSION
from persistence.errors import PersistenceError
from spark_analytics import cli as analytics

if TYPE_CHECKING:
    from amqp_router.broker import Broker

OK, FAILED, USAGE, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 130
EXIT_CODES = {
    OK: "done, or stopped as asked (SIGTERM, SIGINT)",
    FAILED: "an error that the broker's log describes, or `log` found a damaged file",
    USAGE: "an unknown command or option, or an invalid configuration value",
    UNAVAILABLE: "the broker cannot use the data directory or the port, or a package or Java is missing",
    INTERRUPTED: "interrupted (Ctrl-C) before it was done",
}

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

#: Connections to the HTTP API and the pages: a page holds one and uses up to six.
HTTP_CONNECTIONS_MAX = 512

#: Seconds that the start waits for somebody to read the banner.
BANNER_S = 1.0
#: Shown when the broker serves, except with ``log_format`` json.
BANNER = """\
amqp-router {version} is ready.

  AMQP    amqp://guest:guest@{amqp}/      {who}
  amqps   {amqps}
  admin   {admin}
  data    {data_dir}
  build   {build}

To try in another terminal:
  README.md, "Five minutes"        a first publisher and consumer in Python
  .venv/bin/amqp-router log inspect --data-dir {data_dir}
                                   what the durable queues hold
  make demo                        336,776 real flights; every count is checked

Ctrl-C stops the broker; the data stays."""


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


def serve(args: argparse.Namespace) -> int:
    """Run the broker until a signal ends it."""
    flags = {name: value for name, value in vars(args).items() if name in config.Settings.model_fields}
    settings = config.load(flags, args.config)
    logger = logs.setup(settings.log_level, settings.log_format)
    certificates = {
        prefix: tls_settings.certificates(settings, prefix, partial(logs.event, logger))
        for prefix in ("amqps", "admin")
    }
    open_files = process.prepare(settings.open_files, group_reads=settings.data_group_reads)
    directory = DataDirectory.open(settings.data_dir, group_reads=settings.data_group_reads)
    for warning in directory.warnings:
        logs.event(logger, logging.WARNING, "data directory", path=directory.path, reason=warning)

    def reload() -> None:
        """Read the options again. The log level changes now; the log names what needs a restart."""
        try:
            new = config.load(flags, args.config)
        except config.ConfigError as error:
            logs.event(logger, logging.ERROR, "configuration not reloaded", reason=error)
            return
        logs.set_level(new.log_level)
        for each in certificates.values():
            if each is not None:
                each.reload()
        waiting = [name for name in config.changed(settings, new) if name != "log_level"]
        logs.event(
            logger,
            logging.WARNING,
            "configuration reloaded",
            log_level=new.log_level,
            not_taken_before_a_restart=", ".join(waiting) or None,
        )

    try:
        if settings.ready_file is not None:
            _clear_ready_file(settings.ready_file)
        return asyncio.run(_serve(settings, directory, open_files, logger, certificates, reload))
    except (config.ConfigError, DataDirError, ListenError):
        raise
    except Exception:
        logger.exception("the broker failed")
        return FAILED
    finally:
        directory.close()
        logs.flush()


async def _serve(
    settings: config.Settings,
    directory: DataDirectory,
    open_files: int,
    logger: logging.Logger,
    certificates: dict[str, Certificates | None],
    reload: Callable[[], None],
) -> int:
    # SQLAlchemy takes a third of a second to import, aiohttp (below) less: other commands do not wait.
    from amqp_router.broker import Broker  # noqa: PLC0415
    from amqp_router.metrics import Metrics  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    http_connections = min(HTTP_CONNECTIONS_MAX, open_files // 8) if settings.admin else 0
    options = ServerOptions(
        bind=settings.bind,
        amqp_port=settings.amqp_port,
        connections_max=connections_allowed(settings.connections_max, open_files - http_connections),
        amqps_port=settings.amqps_port,
        handshake_timeout_s=settings.handshake_timeout_s,
        proxies=settings.amqp_proxies,
    )
    broker = Broker(settings, loop, logger, store_id=directory.store_id, first=_first(settings))
    server = Server(options, broker, logger, certificates["amqps"])
    lag, collector = process.LoopLag(loop, logger), process.Collector(loop)
    metrics = Metrics(broker, loop, lag)
    admin = None
    if settings.admin or settings.metrics_port:
        from admin_ui.app import Admin, AdminOptions  # noqa: PLC0415

        admin_options = AdminOptions(
            bind=settings.admin_bind or settings.bind,
            port=settings.admin_port,
            amqp_address=server.address,
            amqps_address=server.tls_address,
            amqps_certificates=certificates["amqps"],
            certificates=certificates["admin"],
            handshake_timeout_s=settings.handshake_timeout_s,
            connections_max=options.connections_max,
            http_connections_max=http_connections,
            trusted_proxies=settings.proxies,
            serves=settings.admin,
            metrics_bind=settings.metrics_bind,
            metrics_port=settings.metrics_port,
        )
        admin = Admin(admin_options, broker, metrics, logger)
    stop = asyncio.Event()

    def on_stop(name: str) -> None:
        if stop.is_set() and name != "SIGINT":
            return
        if stop.is_set():
            logs.event(logger, logging.WARNING, "stopping at once", signal=name)
            logs.flush()
            os._exit(FAILED)  # as safe as kill -9, and as quick
        logs.event(logger, logging.INFO, "stopping", signal=name)
        stop.set()

    with signals(loop, stop=on_stop, reload=reload):
        try:
            await server.start(partial(_import_definitions, broker, settings.definitions))
        except PersistenceError as error:  # its text names the file and the way out
            raise DataDirError(str(error)) from error
        except OSError as error:  # full, read-only, broken
            raise DataDirError(
                f"data directory {directory.path}: {error}; repair that and start again"
            ) from error
        except config.ConfigError:  # definitions that cannot be imported
            await server.stop()
            raise
        if admin is not None:
            metrics.start()
            try:
                await admin.start()
            except ListenError:
                metrics.stop()
                await server.stop()
                raise
        collector.start()
        lag.start()
        admin_address = admin.address if admin is not None and settings.admin else None
        metrics_address = admin.metrics_address if admin is not None else None
        logs.event(
            logger,
            logging.INFO,
            "serving",
            amqp=peer_text(server.address),
            amqps="off" if server.tls_address is None else peer_text(server.tls_address),
            admin="off" if admin_address is None else peer_text(admin_address),
            metrics="off" if metrics_address is None else peer_text(metrics_address),
            node=settings.node,
            data_dir=directory.path,
            version=VERSION,
            build=compiled.build.summary(),
            open_files=open_files,
            connections_max=options.connections_max,
            pid=os.getpid(),
        )
        if settings.log_format == "text":
            _show(_banner(settings, directory, server, admin_address))
        if settings.ready_file is not None:
            write_ready_file(
                settings.ready_file,
                _ready(settings, directory, server, admin_address, metrics_address),
            )
        await stop.wait()
        if settings.ready_file is not None:
            settings.ready_file.unlink(missing_ok=True)
        lag.stop()
        collector.stop()
        if admin is not None:
            await admin.stop()
            metrics.stop()
        await server.stop()
    logs.event(logger, logging.INFO, "stopped")
    return OK


def _first(settings: config.Settings) -> FirstStart:
    """What a start on an empty data directory makes.

    Raises:
        ConfigError: the password is missing, or its file cannot be read.
    """
    path, user = settings.default_password_file, settings.default_user
    if path is None:
        if user != FirstStart.user:
            raise config.ConfigError(
                f"default_user: {user!r} needs a password; name its file with default_password_file"
            )
        return FirstStart(vhost=settings.default_vhost)
    try:
        password = path.read_bytes().partition(b"\n")[0].rstrip(b"\r")
    except OSError as error:
        raise config.ConfigError(f"default_password_file: {path} cannot be read ({error.strerror})") from None
    if not password:
        raise config.ConfigError(f"default_password_file: {path} begins with an empty line")
    return FirstStart(user, password, settings.default_vhost)


async def _import_definitions(broker: Broker, path: Path | None) -> None:
    """Import the file of the option ``definitions``.

    Raises:
        ConfigError: it cannot be imported.
    """
    if path is None:
        return
    from admin_ui import definitions_file  # noqa: PLC0415

    try:
        await definitions_file.load(broker, path)
    except definitions_file.DefinitionsError as error:
        raise config.ConfigError(str(error)) from None


def _show(text: str) -> None:
    """Print ``text``, but do not wait for ever for a reader."""
    logs.flush()  # the lines before it may go to the same terminal

    def write() -> None:
        with contextlib.suppress(OSError):
            descriptor(sys.stdout.fileno())(f"{text}\n".encode())

    thread = threading.Thread(target=write, name="banner", daemon=True)
    thread.start()
    thread.join(BANNER_S)


def _clear_ready_file(path: Path) -> None:
    try:
        clear_ready_file(path)
    except OSError as error:
        raise config.ConfigError(
            f"ready_file: {path} cannot be written ({error.strerror}); name another with --ready-file"
        ) from None


def _banner(
    settings: config.Settings,
    directory: DataDirectory,
    server: Server,
    admin: tuple[str, int] | None,
) -> str:
    scheme = "http" if settings.admin_certificate is None else "https"
    return BANNER.format(
        version=VERSION,
        amqp=peer_text(server.address),
        amqps="off" if server.tls_address is None else f"amqps://{peer_text(server.tls_address)}/",
        admin="off" if admin is None else f"{scheme}://{peer_text(admin)}/",
        who="(guest only from this machine)" if settings.guest_loopback_only else "",
        data_dir=directory.path,
        build=compiled.build.summary(),
    )


def _ready(
    settings: config.Settings,
    directory: DataDirectory,
    server: Server,
    admin: tuple[str, int] | None,
    metrics: tuple[str, int] | None,
) -> dict[str, Any]:
    """The content of the ready file. A key is missing if the broker does not have what it names."""
    ready = {
        "pid": os.getpid(),
        "node": settings.node,
        "data_dir": str(directory.path),
        "compiled": compiled.build.whole,
        "amqp": {"host": server.address[0], "port": server.address[1]},
    }
    if server.tls_address is not None:
        ready["amqps"] = {"host": server.tls_address[0], "port": server.tls_address[1]}
    if admin is not None:
        ready["admin"] = {"host": admin[0], "port": admin[1]}
    if metrics is not None:
        ready["metrics"] = {"host": metrics[0], "port": metrics[1]}
    return ready
