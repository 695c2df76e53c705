"""The resources of the machine that this process uses.

They are read from ``/proc`` and two system calls. psutil has most of these figures, but counts descriptors
by listing them all, which holds the loop when there are tens of thousands.
"""

from __future__ import annotations

import os
import resource

from amqp_router.machine_memory import memory_total
from amqp_router.metrics.history import Row


class Usage:
    """What this process takes of the machine, read from ``/proc`` and the file system of the data."""

    def __init__(self, data_dir: str) -> None:
        self._data_dir = data_dir
        self._page = resource.getpagesize()
        #: Descriptors that may be open.
        self.fd_total = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        #: Threads that this user may have.
        self.threads_total = _threads_limit()
        #: Memory of the machine, or what the control group leaves of it.
        self.mem_total = memory_total()

    def read(self, sockets: int, lag_s: float) -> Row:
        """The columns of `NODE` that the machine knows; a few system calls."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        io = self._io()
        return (
            self._resident(),
            _open_files(),
            sockets,
            self.disk_free(),
            used.ru_nvcsw + used.ru_nivcsw,
            io.get("syscr", 0),
            io.get("rchar", 0),
            io.get("syscw", 0),
            io.get("wchar", 0),
            int((used.ru_utime + used.ru_stime) * 1e6),
            int(lag_s * 1e6),
        )

    def disk_free(self) -> int:
        """Bytes that may still be written where the data is."""
        try:
            found = os.statvfs(self._data_dir)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize

    def _resident(self) -> int:
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * self._page
        except (OSError, IndexError, ValueError):
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @staticmethod
    def _io() -> dict[str, int]:
        try:
            with open("/proc/self/io") as file:
                return {name: int(value) for name, value in (line.split(": ") for line in file)}
        except (OSError, ValueError):
            return {}


def _open_files() -> int:
    try:
        # Linux 6.2 and later say it as the size; counting tens of thousands of names would hold the loop.
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _threads_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit != resource.RLIM_INFINITY:
        return limit
    try:
        with open("/proc/sys/kernel/threads-max") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 1 << 22  # the kernel's own limit
