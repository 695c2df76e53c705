"""A way out for text that never holds the event loop: a thread of its own writes what is handed over.

Whoever reads the other end may be slow or gone for good (a pipe of a supervisor that hangs, a terminal that
was stopped with Ctrl-S). What is handed over waits up to a number of octets; beyond, it is dropped and
counted, and the count is told once the way is free again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

#: Octets that wait to be written; beyond, text is dropped.
WAITING_BYTES_MAX = 4 << 20
#: Octets written at once.
WRITE_BYTES = 64 << 10


class Outlet:
    """Writes texts in the order in which they were handed over. One thread hands over at a time.

    ``write`` writes octets and may take its time. ``dropped`` makes the text that tells how many were lost.
    """

    def __init__(self, write: Callable[[bytes], object], dropped: Callable[[int], str], name: str) -> None:
        self._write = write
        self._dropped_text = dropped
        self._queue: SimpleQueue[bytes | threading.Event] = SimpleQueue()
        #: Octets handed over, and those of them that left the queue. One thread raises each of the two.
        self._given = self._taken = 0
        #: Texts that were too many, texts that could not be written, and how many of both were told. The
        #: thread raises all but the first.
        self._dropped = self._lost = self._told = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, text: str) -> None:
        """Have ``text`` written, or drop it."""
        data = text.encode(errors="backslashreplace")
        if self._given - self._taken + len(data) > WAITING_BYTES_MAX:
            self._dropped += 1
            return
        self._given += len(data)
        self._queue.put(data)

    def flush(self, seconds: float) -> bool:
        """Wait until all is written that was handed over, but no longer than ``seconds``; whether it is."""
        written = threading.Event()
        self._queue.put(written)
        return written.wait(seconds)

    def _run(self) -> None:
        while True:
            pieces: list[bytes] = []
            size = 0
            mark: bytes | threading.Event | None = self._queue.get()
            while isinstance(mark, bytes):
                pieces.append(mark)
                size += len(mark)
                mark = self._next() if size < WRITE_BYTES else None
            if pieces and not self._write_out(b"".join(pieces)):
                self._lost += len(pieces)
            self._taken += size
            missing = self._dropped + self._lost - self._told
            if missing and self._queue.empty() and self._write_out(self._dropped_text(missing).encode()):
                self._told += missing
            if mark is not None:
                mark.set()

    def _next(self) -> bytes | threading.Event | None:
        try:
            return self._queue.get_nowait()
        except Empty:
            return None

    def _write_out(self, data: bytes) -> bool:
        try:
            self._write(data)
        except OSError:  # nobody reads any more, or the disk is full: the next text may get through
            return False
        return True


def descriptor(number: int) -> Callable[[bytes], None]:
    """What writes all of its octets to a file descriptor."""

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(number, view) :]

    return write
