"""A suite is a program that tests a broker and tells the result of each of its tests.

Here is what all suites share: the broker as a suite sees it, and the program that is run and watched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.brokers import RabbitProcess, RouterProcess
from tests.interop.suites.results import Results

#: With this line a program asks for the broker to be killed and started again; the answer is a line of input.
KILL = "KILL\tbroker"


class Node(NamedTuple):
    """A broker that serves AMQP, RabbitMQ's HTTP API, and metrics."""

    process: RouterProcess | RabbitProcess
    metrics_port: int

    @property
    def host(self) -> str:
        return self.process.host

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def admin_port(self) -> int:
        return self.process.admin_port

    def arguments(self) -> list[str]:
        """What every program gets first."""
        return [self.host, str(self.port), str(self.admin_port), str(self.metrics_port)]


class Suite(Protocol):
    """A line of the table."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> tuple[str, ...]:
        """What our broker is started with."""
        ...

    @property
    def fails_on_rabbitmq(self) -> frozenset[str]:
        """Names of tests that RabbitMQ fails too, always or at random: not held against our broker."""
        ...

    def prepare(self) -> str:
        """Install what it needs; returns the client's version.

        Raises:
            Missing: Something is not to be had.
        """
        ...

    def run(self, node: Node, directory: Path) -> Results:
        """Run it, with an empty directory for its files."""
        ...


class Ended(NamedTuple):
    """How a program ended: ``problem`` is empty unless it hung."""

    code: int
    lines: list[str]
    errors: str
    problem: str


def watch(
    command: Sequence[str],
    node: Node,
    directory: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Ended:
    """Run a program to its end, or for ``seconds``; kill and restart the broker when it asks for that."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            cwd=cwd or directory,
            env={**os.environ, "TMPDIR": str(directory), **(environment or {})},
        )
        hung = threading.Event()

        def end() -> None:
            hung.set()
            _end_session(process)

        timer = threading.Timer(seconds, end)
        timer.start()
        lines: list[str] = []
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if lines[-1] == KILL:
                    node.process.kill9()
                    node.process.start()
                    process.stdin.write("started\n")
                    process.stdin.flush()
            code = process.wait()
        finally:
            timer.cancel()
            _end_session(process)
        errors.seek(0)
        problem = f"not done within {seconds:.0f} s" if hung.is_set() else ""
        return Ended(code, lines, errors.read(), problem)


def _end_session(process: subprocess.Popen[str]) -> None:
    """End what the program left running: its session, in which it may have made groups of processes."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, ProcessLookupError, PermissionError):
            if os.getsid(int(entry.name)) == process.pid:
                os.kill(int(entry.name), signal.SIGKILL)
    process.wait()
