"""What the scripts beside this file share, each of which runs in a client's own environment.

A script registers its checks with ``@check`` and calls ``main()``; it is started as ``SCRIPT HOST PORT
ADMIN_PORT METRICS_PORT [ARGUMENT ...]`` and prints one line per check, separated by tabs: PASS, the name and
the figures that the check returns, or FAIL, the name and the reason. If it prints ``KILL``, a tab and
``broker``, the broker is killed and started again, and then the script gets a line on its standard input
(``suite.py``).
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable

CHECK_SECONDS = 40
HOST = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 5672
#: Of the HTTP API; 0 if the broker has none.
ADMIN_PORT = int(sys.argv[3]) if len(sys.argv) > 3 else 0
#: Of the metrics for Prometheus.
METRICS_PORT = int(sys.argv[4]) if len(sys.argv) > 4 else 0
ARGUMENTS = sys.argv[5:]
#: More than two body frames at the usual frame_max of 131,072.
LARGE = bytes(range(256)) * 1200

_checks: list[Callable[[], str | None]] = []
_numbers = itertools.count(1)


def check(function: Callable[[], str | None]) -> Callable[[], str | None]:
    """Register a check: it passes if it returns, and fails if it raises or takes too long."""
    _checks.append(function)
    return function


def fresh(kind: str = "queue") -> str:
    """A name that no other check uses."""
    return f"interop-{os.getpid()}-{kind}-{next(_numbers)}"


def check_that(name: str, condition: Callable[[], object]) -> None:
    """Register a check by a name that is no Python: it passes if ``condition()`` is true."""

    def function() -> None:
        assert condition(), "it is not so"

    function.__name__ = name
    check(function)


def kill_broker() -> None:
    """Have the broker killed with ``kill -9`` and started again; returns when it serves."""
    print("KILL\tbroker", flush=True)
    assert sys.stdin.readline().strip() == "started"


def wait(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait until ``condition()`` is true.

    Raises:
        AssertionError: ``seconds`` passed.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)


def raises(kind: type[BaseException], text: str, call: Callable[[], object]) -> None:
    """See that ``call()`` raises ``kind``, and that it says ``text``."""
    try:
        call()
    except kind as error:
        _says(error, text)
        return
    raise AssertionError(f"no {kind.__name__}")


async def raises_later(kind: type[BaseException], text: str, awaited: Awaitable[object]) -> None:
    """As ``raises``, for something to await."""
    try:
        await awaited
    except kind as error:
        _says(error, text)
        return
    raise AssertionError(f"no {kind.__name__}")


def _says(error: BaseException, text: str) -> None:
    assert text in str(error) or text in repr(error), f"{error!r} does not say {text!r}"


def _overdue(number: int, frame: object) -> None:
    raise TimeoutError("not within the time for one check")


def main(seconds: int = CHECK_SECONDS) -> None:
    """Run what is registered, each for ``seconds`` at most; the exit code is 1 if anything failed."""
    signal.signal(signal.SIGALRM, _overdue)
    failed = False
    for function in _checks:
        signal.alarm(seconds)
        try:
            figures = function()
        except BaseException as error:  # whatever a client raises
            if isinstance(error, KeyboardInterrupt):
                raise
            failed = True
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"FAIL\t{function.__name__}\t{reason[:300]}", flush=True)
        else:
            print(f"PASS\t{function.__name__}\t{figures or ''}", flush=True)
        finally:
            signal.alarm(0)
    sys.stdout.flush()
    os._exit(1 if failed else 0)  # a client's thread that hangs must not keep the process
