"""How long a process has had to answer, without the time that it waited for a processor.

On a machine that many share, a process of low priority may stand in line for minutes. Who waits for it then
must not say that it hangs. What really hangs stands in no line: it sleeps, or it has the processor.
"""

from __future__ import annotations

import os
import time
from pathlib import Path


def queued_s(pid: int, *, children: bool = True) -> float:
    """Seconds that the threads of a process, and of its children, waited for a processor, all together.

    0.0 if it has gone. It is the second figure of ``/proc/PID/task/TID/schedstat``, see "Scheduler
    Statistics" in the documentation of the Linux kernel.
    """
    waited = 0.0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            waited += int((task / "schedstat").read_text().split()[1]) / 1e9
            below = (task / "children").read_text().split() if children else []
        except OSError:
            continue
        waited += sum(queued_s(int(child)) for child in below)
    return waited


#: Seconds between two looks: a look reads a file for each thread.
BETWEEN_S = 0.5


class Patience:
    """A stop watch that stands while a process, or this one, waits for a processor.

    The kernel writes down what a thread waited when the wait is over. So the watch may run for a while and
    then go back.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        #: Seconds since the beginning, without what they waited.
        self.elapsed_s = 0.0
        self._begun = self._last = time.monotonic()
        self._queued = self._all_queued()
        self._waited = 0.0

    def _all_queued(self) -> float:
        return queued_s(self.pid) + queued_s(os.getpid(), children=False)

    def look(self) -> float:
        """``elapsed_s`` as of the last ``BETWEEN_S`` seconds."""
        now = time.monotonic()
        if now < self._last + BETWEEN_S:
            return self.elapsed_s
        queued = self._all_queued()
        # A thread that ends takes its figure with it, and several may wait at a time.
        self._waited = min(self._waited + max(0.0, queued - self._queued), now - self._begun)
        self._last, self._queued = now, queued
        self.elapsed_s = now - self._begun - self._waited
        return self.elapsed_s
