"""``amqp-router serve``: puts the broker, its listeners and its pages together, and runs until a signal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from amqp_router import (
    compiled,
    config,
    logs,
    process,
    tls_settings,
)
from amqp_router.auth.users import FirstStart
from amqp_router.broker import Broker
from amqp_router.connection.turn import make_loop
from amqp_router.datadir import DataDirectory, DataDirError
from amqp_router.exit_codes import FAILED, OK, ListenError
from amqp_router.metrics import Metrics
from amqp_router.outlet import descriptor
from amqp_router.server import (
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
from persistence.definitions.errors import StoreFailed
from persistence.errors import PersistenceError

#: Connections to the HTTP API and the pages: a page holds one and uses up to six.
HTTP_CONNECTIONS_MAX = 512

#: Seconds that the start waits for somebody to read the banner.
BANNER_S = 1.0
#: Shown when the broker serves at a terminal; elsewhere the log says the same in a line.
BANNER = """\
amqp-router {version} is ready.

  AMQP    {amqp}
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


def serve(args: argparse.Namespace) -> int:
    """Run the broker until a signal ends it."""
    flags = {name: value for name, value in vars(args).items() if name in config.Settings.model_fields}
    settings = config.load(flags, args.config)
    logger = logs.setup(settings.log_level, settings.log_format)
    tls_settings.check_listeners(settings)
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
        with asyncio.Runner(loop_factory=make_loop) as runner:
            return runner.run(_serve(settings, directory, open_files, logger, certificates, reload))
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
    if settings.admin or settings.metrics_port:
        from admin_ui.app import Admin, AdminOptions  # noqa: PLC0415  a broker without both needs no aiohttp
    gc.freeze()  # the modules stay: `Collector.start` need not look through 140,000 objects
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
            await server.start(partial(_import_definitions, broker, settings))
        except StoreFailed as error:  # a broker that does not start tries nothing again
            raise DataDirError(str(StoreFailed(error.path, error.reason))) from error
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
            amqp="off" if server.address is None else peer_text(server.address),
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
        if settings.log_format == "text" and sys.stdout.isatty():
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


async def _import_definitions(broker: Broker, settings: config.Settings) -> None:
    """Import the file of the option ``definitions``.

    Raises:
        ConfigError: it cannot be imported.
    """
    path = settings.definitions
    if path is None:
        return
    from admin_ui import definitions_file  # noqa: PLC0415

    try:
        await definitions_file.load(broker, path, strict=settings.definitions_strict)
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
    who = "      (guest only from this machine)" if settings.guest_loopback_only else ""
    return BANNER.format(
        version=VERSION,
        amqp="off" if server.address is None else f"amqp://guest:guest@{peer_text(server.address)}/{who}",
        amqps="off" if server.tls_address is None else f"amqps://{peer_text(server.tls_address)}/",
        admin="off" if admin is None else f"{scheme}://{peer_text(admin)}/",
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
    }
    if server.address is not None:
        ready["amqp"] = {"host": server.address[0], "port": server.address[1]}
    if server.tls_address is not None:
        ready["amqps"] = {"host": server.tls_address[0], "port": server.tls_address[1]}
    if admin is not None:
        ready["admin"] = {"host": admin[0], "port": admin[1]}
    if metrics is not None:
        ready["metrics"] = {"host": metrics[0], "port": metrics[1]}
    return ready
