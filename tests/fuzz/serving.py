"""Forks that start a broker or read its directory within a tenth of a second: all is imported already.

A fork runs what the command line runs, so a crash, a hang or a traceback is one of the product. Its output
goes into a file.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.patience import Patience

#: Seconds until a fork that does not come to an end is a finding, without those in which it waits for a
#: processor.
HANG_S = 120.0
PRELOAD = [
    "tests.fuzz.serving",
    "amqp_router.main",
    "amqp_router.broker",
    "amqp_router.serving",
    "amqp_router.metrics",
    "admin_ui.app",
    "amqp_router.log_command",
    "alembic",
    "spark_analytics.arrow",
    "pyarrow",
    "pyarrow.compute",
    "pandas",  # which pyarrow asks for
]


def context() -> Any:
    """Where forks come from."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOAD)
    return found


class Fork:
    """A function in a process of its own."""

    def __init__(self, function: Callable[..., Any], *args: Any, output: Path) -> None:
        self.output = output
        self.process = context().Process(target=_run, args=(function, args, str(output)), daemon=True)
        self.process.start()

    def wait(self, seconds: float = HANG_S) -> bool:
        """Wait for the end; False if it did not come, and then the fork is killed."""
        patience = Patience(self.process.pid)
        while self.process.exitcode is None and patience.look() < seconds:
            self.process.join(1.0)
        if self.process.exitcode is None:
            # SIGABRT: it writes where it stands
            os.kill(self.process.pid, 6)
            self.process.join(2)
            self.kill()
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    @property
    def exitcode(self) -> int | None:
        code: int | None = self.process.exitcode
        return code

    def text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""


def _run(function: Callable[..., Any], args: tuple[Any, ...], output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    faulthandler.enable(sys.stderr)
    code = 1
    try:
        code = function(*args)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    os._exit(code or 0)


def serve(data_dir: str, ready: str, options: tuple[str, ...]) -> int:
    """``amqp-router serve``."""
    from amqp_router.main import main

    ports = ["--amqp-port", "0", "--admin-port", "0"]
    return int(main(["serve", "--data-dir", data_dir, "--ready-file", ready, *ports, *options]) or 0)


def look(data_dir: str, answer: str) -> int:
    """``amqp-router log inspect`` and ``verify``, and both tables of the Arrow reader, into a file."""
    from amqp_router.main import main
    from spark_analytics.arrow import read_arrow
    from spark_analytics.errors import AnalyticsError

    found: dict[str, Any] = {}
    for command in ("inspect", "verify"):
        try:
            code = main(["log", command, data_dir])
        except SystemExit as ended:
            code = int(ended.code or 0)
        found[command] = {"code": code}
    path = Path(data_dir)
    for table in ("messages", "routing"):
        try:
            found[table] = {"rows": read_arrow(path, table=table).num_rows}
        except (AnalyticsError, OSError) as error:
            found[table] = {"error": f"{type(error).__name__}: {error}"}
    Path(answer).write_text(json.dumps(found))
    return 0


def ready(path: Path, fork: Fork, seconds: float = HANG_S) -> dict[str, Any] | None:
    """What the ready file says; None if the fork ended, or did not serve in time."""
    patience = Patience(fork.process.pid)
    while fork.exitcode is None and patience.look() < seconds:
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        fork.process.join(0.005)
    return None
