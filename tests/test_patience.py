"""Waiting for a processor is not hanging."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.patience import Patience, queued_s

SPIN = "import os, time; os.sched_setaffinity(0, {%d})\nwhile True: pass"
#: Others on the same processor have 99 of 100 shares of it, or more.
LOW = 19


def test_time_in_line_for_a_processor_does_not_count() -> None:
    cpu = min(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", SPIN % cpu]) for _ in range(2)]
    low = subprocess.Popen([sys.executable, "-c", SPIN % cpu])
    os.setpriority(os.PRIO_PROCESS, low.pid, LOW)
    try:
        patience = Patience(low.pid)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < 3 or patience.elapsed_s > passed / 2:
            assert passed < 60, f"it was given {queued_s(low.pid):.1f} s of {passed:.0f}"
            time.sleep(0.1)
            patience.look()
    finally:
        for each in [low, *others]:
            each.kill()
            each.wait()


def test_time_asleep_counts() -> None:
    asleep = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        time.sleep(0.5)
        patience = Patience(asleep.pid)
        waited = queued_s(os.getpid())
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            time.sleep(0.1)
            patience.look()
        in_line = queued_s(os.getpid()) - waited
        assert patience.elapsed_s > 0.5 - in_line
    finally:
        asleep.kill()
        asleep.wait()


def test_a_process_that_has_gone_waits_for_nothing() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert queued_s(gone.pid) == 0.0
