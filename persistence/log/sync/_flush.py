"""Writes and syncs a few small batches; the plain Python twin of ``_flush.pyx``.

A lone publisher that waits for each confirm pays for two thread switches per message. With a Python thread
each switch also waits for the interpreter lock. The compiled twin writes and syncs in a C thread that never
takes the lock, and signals the event loop through a descriptor. This twin has the same interface over a
Python thread.

There is one job at a time. The caller keeps the file open until ``finish`` has returned its result.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, TypeAlias

#: A write: descriptor, position, and the pieces to write there.
Write: TypeAlias = tuple[int, int, list[bytes]]


def write_and_sync(writes: Sequence[Write], system: Any = os) -> int:  # a module, or a simulated disk
    """Do a job; its error number or 0. ``system`` has ``pwrite`` and ``fdatasync``, or ``fsync``."""
    try:
        for fd, position, pieces in writes:
            data = memoryview(b"".join(pieces))
            done = 0
            while done < len(data):
                done += system.pwrite(fd, data[done:], position + done)
        system.fdatasync(fd) if hasattr(system, "fdatasync") else system.fsync(fd)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


class Flusher:
    """One thread that writes and syncs; ``fileno`` is readable when the job is done."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._jobs: SimpleQueue[Sequence[Write] | None] = SimpleQueue()
        self._error = 0
        #: Whether a job is under way.
        self.busy = False
        self._thread = threading.Thread(target=self._run, name="log-flush", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """The descriptor that the event loop watches."""
        return self._read_end

    def submit(self, writes: Sequence[Write]) -> None:
        """Do the writes in order, then fdatasync the descriptor of the last one. The first error ends the
        job.
        """
        assert not self.busy, "one job at a time"
        self.busy = True
        self._jobs.put(writes)

    def finish(self) -> int:
        """-1 while the job is running; afterwards, once, its error number or 0."""
        try:
            os.read(self._read_end, 8)
        except BlockingIOError:
            return -1
        self.busy = False
        return self._error

    def wait(self) -> int:
        """Block until the job is done; its error number or 0."""
        os.set_blocking(self._read_end, True)
        try:
            return self.finish()
        finally:
            os.set_blocking(self._read_end, False)

    def stop(self) -> None:
        """End the thread; no job may be under way."""
        self._jobs.put(None)
        self._thread.join()
        os.close(self._read_end)
        os.close(self._write_end)

    def _run(self) -> None:
        while (writes := self._jobs.get()) is not None:
            self._error = write_and_sync(writes)
            os.write(self._write_end, b"\x00" * 8)
