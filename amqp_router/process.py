"""What the broker asks of its process: file descriptors, allocator, thread switching, garbage collection.

Each setting has a measured reason. None changes what the broker does; a system that lacks one does without.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import resource
import sys
import time
from collections.abc import Callable

from amqp_router import arenas, logs
from amqp_router.heap import FreeHeap, glibc

#: glibc's mallopt(3) parameters.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
#: asyncio reads into fresh buffers of 256 KiB. glibc would map and unmap each one, with system calls and page
#: faults; below this threshold they stay on the heap (transient messages of 1 KiB: 1.4 to 0.65 µs each).
MMAP_THRESHOLD_BYTES = 4 << 20
#: free(3) never trims the heap. When a client left unfinished contents, the kernel took 25 ms within one
#: call to drop their pages. ``heap.FreeHeap`` gives them back, in portions.
TRIM_NEVER = -1
#: A thread that runs Python code keeps the event loop waiting that long, not the default 5 ms.
SWITCH_INTERVAL_S = 0.0005

#: Descriptors of the logs to write, and as many to read, whatever the system grants.
LOG_FILES_MIN = 16
LOG_FILES_MAX = 4096


def prepare(open_files: int, *, group_reads: bool = False) -> int:
    """Set up this process as a broker; returns how many file descriptors it may open.

    ``group_reads`` lets the group of the data directory read its logs.
    """
    os.umask(0o027 if group_reads else 0o077)  # logs and definitions hold other people's data
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    tune_allocator()
    arenas.install()
    return raise_open_files(open_files)


def log_files(open_files: int) -> int:
    """How many of ``open_files`` descriptors the logs keep open to write, and as many to read.

    Transient messages on disk have half as many.
    """
    return min(max(open_files // 8, LOG_FILES_MIN), LOG_FILES_MAX)


def raise_open_files(wish: int) -> int:
    """Raise the limit of open files towards `wish`; never lowers it. Returns what is granted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wish:
        return wish if soft == resource.RLIM_INFINITY else soft
    # The hard limit is tried too: root may raise it. Otherwise what the hard limit allows is taken.
    for new in ((wish, max(wish, hard)), (min(wish, hard), hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, new)
        except (OSError, ValueError):
            continue
        return new[0]
    return soft


def tune_allocator() -> bool:
    """Keep asyncio's receive buffers on glibc's heap; False where the C library is another one."""
    library = glibc()
    if library is None:
        return False
    mallopt = library.mallopt
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    mallopt.restype = ctypes.c_int
    return bool(mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES) and mallopt(M_TRIM_THRESHOLD, TRIM_NEVER))


class Collector:
    """Runs full garbage collections when the broker is idle, and seldom when it never is. Gives memory back.

    A full collection visits every object and holds the loop for as long. It can wait, as neither messages
    nor AMQP connections nor queues leave reference cycles. But not for ever: a connection to the HTTP server
    does, in asyncio's transport. Young collections go on as usual.
    """

    #: Less CPU of the loop's thread than this share since the last look counts as idle. Clients do not wait
    #: for the threads that write logs and definitions.
    IDLE_SHARE = 0.05
    #: Less than this: nobody waits. Otherwise some do, if few.
    ASLEEP_SHARE = 0.005
    #: Share of time that full collections of a busy broker may take, 100 ms in an hour, and the seconds that
    #: one waits that may take longer than ``SHORT_S``.
    BUSY_SHARE = 1 / 36_000
    LONG_WAIT_S = 3600.0
    #: The same of an idle one, as long as one takes no longer than ``SHORT_S``, and of one that sleeps: 0.1 s
    #: in a minute, 1 s in eight.
    QUIET_SHARE = 1 / 500
    SHORT_S = 0.01
    #: One may take that much longer than estimated: the objects may have left the processor's caches, and
    #: those that came may be larger than those before.
    MARGIN = 3
    #: Estimated time for each block of Python's allocator that came since the last collection, at least.
    BLOCK_S = 1e-7
    INTERVAL_S = 60.0

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        cpu_s: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
        blocks: Callable[[], int] = sys.getallocatedblocks,
        heap: FreeHeap | None = None,
    ) -> None:
        self._loop = loop
        self._heap = heap or FreeHeap(loop)
        self._cpu_s = cpu_s
        self._clock = clock
        self._blocks = blocks
        self._timer: asyncio.TimerHandle | None = None
        #: CPU time and time of the last look; when the last collection ended.
        self._cpu = self._wall = self._collected_at = 0.0
        #: What the last collection took, and the blocks that were left.
        self._last_s = 0.0
        self._last_blocks = 0

    def start(self) -> None:
        """Take what is there now out of the collector's sight and stop automatic full collections.

        Until then a starting broker has no automatic collection at all.
        """
        gc.collect()
        gc.freeze()
        gc.enable()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, 1_000_000_000)
        # How long one takes is not known yet: the first may come after a look.
        self._collected_at = self._clock()
        self._last_blocks = self._blocks()
        self._next()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._heap.stop()

    def _look(self) -> None:
        wall = self._clock()
        used, passed = self._cpu_s() - self._cpu, wall - self._wall
        is_idle, sleeps = used < self.IDLE_SHARE * passed, used < self.ASLEEP_SHARE * passed
        expected_s = self._expected_s()
        is_short = self.MARGIN * expected_s <= self.SHORT_S
        share = self.QUIET_SHARE if sleeps or (is_idle and is_short) else self.BUSY_SHARE
        waited_s = wall - self._collected_at
        if expected_s <= share * waited_s and (sleeps or is_short or waited_s >= self.LONG_WAIT_S):
            self._collect()
        # A broker that always has a little to do gives memory back as well.
        self._heap.give_back(all_of_it=is_idle)
        self._next()

    def _expected_s(self) -> float:
        """What a collection would take: a hundred thousand queues may have come since the last one."""
        block_s = max(self.BLOCK_S, self._last_s / max(1, self._last_blocks))
        return self._last_s + block_s * max(0, self._blocks() - self._last_blocks)

    def _collect(self) -> None:
        began = self._clock()
        gc.collect()
        self._collected_at = self._clock()
        self._last_s = self._collected_at - began
        self._last_blocks = self._blocks()

    def _next(self) -> None:
        self._cpu, self._wall = self._cpu_s(), self._clock()
        self._timer = self._loop.call_later(self.INTERVAL_S, self._look)


class LoopLag:
    """Gauge: how late the event loop runs what is due.

    `last_s` is the newest sample, `highest_s` the worst of the last one to two minutes. A lag of more than a
    second is logged, as clients notice it.
    """

    INTERVAL_S = 0.25
    WINDOW_SAMPLES = 240
    WARN_S = 1.0

    def __init__(self, loop: asyncio.AbstractEventLoop, logger: logging.Logger) -> None:
        self._loop = loop
        self._logger = logger
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._samples = 0
        self._window_highest = self._previous_highest = 0.0
        self.last_s = 0.0

    @property
    def highest_s(self) -> float:
        """Worst lag of this window and the one before."""
        return max(self._window_highest, self._previous_highest)

    def start(self) -> None:
        """Begin to measure."""
        self._due = self._loop.time() + self.INTERVAL_S
        self._timer = self._loop.call_at(self._due, self._sample)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self) -> None:
        self.last_s = max(0.0, self._loop.time() - self._due)
        self._window_highest = max(self._window_highest, self.last_s)
        self._samples += 1
        if self._samples % self.WINDOW_SAMPLES == 0:
            self._previous_highest, self._window_highest = self._window_highest, 0.0
        if self.last_s > self.WARN_S:
            logs.event(self._logger, logging.WARNING, "event loop was late", seconds=round(self.last_s, 3))
        self.start()
