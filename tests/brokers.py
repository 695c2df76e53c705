"""Brokers as processes: ours, started as a user starts it, and Debian's RabbitMQ as the one to compare with.

Both have the same face, so that any test or measurement runs against either.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.patience import Patience
from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: what the console script does, but for the tree given in PYTHONPATH
ENTRY = "import sys; from amqp_router.__main__ import main; sys.exit(main())"


class Broker(Protocol):
    """What tests, demo and measurements need of a broker."""

    name: str
    host: str
    port: int
    pid: int

    def start(self) -> None: ...
    def stop(self) -> int: ...
    def kill9(self) -> None: ...
    def restart(self) -> None: ...
    def log(self) -> str: ...


class BrokerDied(RuntimeError):
    """The broker process ended, or did not serve in time; the text is the end of its output."""


def logged(broker: Broker, text: str, times: int = 1) -> str:
    """The broker's log once ``text`` stands in it ``times`` times.

    A thread of its own writes the log, so a line comes a moment after what it tells of.

    Raises:
        AssertionError: It is not there within a minute.
    """
    end = time.monotonic() + 60
    while (log := broker.log()).count(text) < times:
        assert time.monotonic() < end, f"{text!r} is not {times} times in the log:\n{log}"
        time.sleep(0.01)
    return log


class RouterProcess:
    """`amqp-router serve` on a free port of the loopback interface.

    It keeps its ports over restarts: clients may reconnect.
    ``prefix`` goes before the command (a tracer); ``tree`` is the source tree to run, by default this one;
    ``entry`` is the Python text that runs the command line.
    """

    name = "amqp-router"
    host = "127.0.0.1"

    def __init__(
        self,
        directory: Path,
        *,
        uncompiled: bool = False,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        tree: Path = ROOT,
        port: int = 0,
        entry: str = ENTRY,
        start_seconds: float = 200,
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.ready_file = directory / "ready.json"
        self.log_file = directory / "broker.log"
        self.options = list(options)
        self.prefix = list(prefix)
        self.tree = tree
        self.entry = entry
        self.port = port or free_port(self)
        self.admin_port = free_port(self)
        self.pid = 0
        self.start_seconds = start_seconds
        self.compiled = False
        self.environment = {**os.environ, **(environment or {}), "PYTHONPATH": str(tree)}
        # The broker's modules are then compiled anew at each of very many starts: a third of the time of one.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # Several brokers at a time would want the same port for Prometheus. An earlier commit has none.
        if "metrics_port" in (tree / "amqp_router" / "config.py").read_text():
            self.environment.setdefault("AMQP_ROUTER_METRICS_PORT", "0")
        if uncompiled:
            self.environment["AMQP_ROUTER_UNCOMPILED"] = "1"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        serve = [sys.executable, "-c", self.entry, "serve"]
        serve += ["--data-dir", str(self.data_dir), "--amqp-port", str(self.port)]
        serve += ["--admin-port", str(self.admin_port)]
        return [*self.prefix, *serve, "--ready-file", str(self.ready_file), *self.options]

    def start(self) -> None:
        """Start and wait until it serves.

        Raises:
            BrokerDied: it ended instead, or ``start_seconds`` passed.
        """
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start without waiting."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.ready_file.unlink(missing_ok=True)
        self.pid = 0
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.tree,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Wait until it serves, as `start` does."""
        assert self.process is not None, "it was not launched"
        patience = Patience(self.process.pid)
        while not self.ready_file.exists():
            if self.process.poll() is not None or patience.look() > self.start_seconds:
                self.kill9()
                raise BrokerDied(f"the broker did not serve:\n{self.log()[-4000:]}")
            time.sleep(0.01)
        ready = json.loads(self.ready_file.read_text())
        self.port = ready.get("amqp", {"port": 0})["port"]
        self.admin_port = ready.get("admin", {"port": 0})["port"]
        self.pid = ready["pid"]
        self.compiled = bool(ready.get("compiled"))

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        try:
            code = self.process.wait(self.start_seconds)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise BrokerDied(f"SIGTERM did not end the broker:\n{self.log()[-4000:]}") from None
        self.process = None
        return code

    def kill9(self) -> None:
        if self.process is None:
            return
        if self.pid and self.prefix and self.process.poll() is None:
            # under a tracer the broker is a grandchild
            os.kill(self.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()
        self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


class RabbitProcess:
    """A throw-away RabbitMQ node of Debian's package, on free ports, with its own home, data and logs.

    ``settings`` are further lines of its configuration file, ``extra`` further variables of its environment.
    """

    name = "rabbitmq"
    host = "127.0.0.1"

    def __init__(
        self,
        directory: Path,
        *,
        settings: str = "",
        start_seconds: float = 200,
        plugins: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.extra = extra or {}
        self.plugins = plugins
        #: Serves if ``plugins`` has rabbitmq_management.
        self.admin_port = free_port(self)
        self.pid_file = directory / "pid"
        self.log_file = directory / "rabbitmq.log"
        self.port = free_port(self)
        self.distribution_port = free_port(self)
        self.pid = 0
        self.start_seconds = start_seconds
        self.node = f"compare{self.port}@localhost"
        self.process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def available() -> bool:
        return RABBITMQ_SERVER.exists()

    def environment(self) -> dict[str, str]:
        own = self.directory
        return {
            **os.environ,
            "HOME": str(own / "home"),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": self.host,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_MNESIA_BASE": str(own / "mnesia"),
            "RABBITMQ_LOG_BASE": str(own / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(own / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(own / "environment"),
            "RABBITMQ_CONFIG_FILE": str(own / "rabbitmq"),
            "RABBITMQ_PID_FILE": str(self.pid_file),
            **self.extra,
        }

    def start(self) -> None:
        (self.directory / "home").mkdir(parents=True, exist_ok=True)
        (self.directory / "environment").touch()
        (self.directory / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")
        settings = self.settings
        if "rabbitmq_management" in self.plugins:
            settings += f"management.tcp.port = {self.admin_port}\nmanagement.tcp.ip = {self.host}\n"
        (self.directory / "rabbitmq.conf").write_text(f"vm_memory_high_watermark.relative = 0.5\n{settings}")
        self.pid_file.unlink(missing_ok=True)
        seen = self.log().count("Starting broker... completed")
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [str(RABBITMQ_SERVER)],
                cwd=self.directory,
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        patience = Patience(self.process.pid)
        while self.log().count("Starting broker... completed") == seen:
            if self.process.poll() is not None or patience.look() > self.start_seconds:
                raise BrokerDied(f"RabbitMQ did not serve:\n{self.log()[-4000:]}")
            time.sleep(0.1)
        self.pid = int(self.pid_file.read_text())

    def stop(self) -> int:
        return self.end(signal.SIGTERM)

    def kill9(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        os.kill(self.pid, number)
        code = self.process.wait(self.start_seconds)
        self.process = None
        return code

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
