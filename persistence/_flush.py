"""The flusher of the real disk: carries out small plans; the plain Python twin of ``_flush.pyx``.

A lone publisher that waits for each confirm pays for two thread switches per message. With a Python thread
each switch also waits for the interpreter lock. The compiled twin writes and syncs in a C thread that never
takes the lock, and signals the event loop through a descriptor. This twin has the same interface over a
Python thread. See ``plan.Flusher``.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from .plan import Plan


def _sync(fd: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def write_and_sync(
    plan: Plan,
    pwrite: Callable[[int, memoryview, int], int] = os.pwrite,
    sync: Callable[[int], None] = _sync,
) -> int:
    """Carry out ``plan`` by descriptors, with the system's calls or those of a simulated disk.

    Returns the error number or 0; ``plan.done`` counts the writes that were done.
    """
    fd = -1
    try:
        for write in plan.writes:
            fd = write.target.file().fileno()
            data = memoryview(b"".join(write.pieces))
            done = 0
            while done < len(data):
                done += pwrite(fd, data[done:], write.position + done)
            plan.done += 1
        sync(fd)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


class Flusher:
    """One thread that writes and syncs; ``fileno`` is readable when the plan is carried out."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._plans: SimpleQueue[Plan | None] = SimpleQueue()
        self._error = 0
        #: Whether a plan is under way.
        self.busy = False
        self._thread = threading.Thread(target=self._run, name="log-flush", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """The descriptor that the event loop watches."""
        return self._read_end

    def submit(self, plan: Plan) -> None:
        """Begin with ``plan``."""
        assert not self.busy, "one plan at a time"
        assert plan.writes, "nothing to write"
        self.busy = True
        self._plans.put(plan)

    def finish(self) -> int:
        """-1 while the plan is carried out; afterwards, once, its error number or 0."""
        try:
            os.read(self._read_end, 8)
        except BlockingIOError:
            return -1
        self.busy = False
        return self._error

    def wait(self) -> int:
        """Block until the plan is carried out; its error number or 0."""
        assert self.busy, "no plan is under way"
        os.set_blocking(self._read_end, True)
        try:
            return self.finish()
        finally:
            os.set_blocking(self._read_end, False)

    def stop(self) -> None:
        """End the thread; no plan may be under way."""
        self._plans.put(None)
        self._thread.join()
        os.close(self._read_end)
        os.close(self._write_end)

    def _run(self) -> None:
        while (plan := self._plans.get()) is not None:
            self._error = write_and_sync(plan)
            os.write(self._write_end, b"\x00" * 8)
