"""The thread that runs jobs that wait for the disk, one after the other."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)


class Worker(Protocol):
    """Runs jobs one after the other, outside of the event loop."""

    def submit(self, job: Callable[[], None]) -> None: ...

    @property
    def is_idle(self) -> bool:
        """Whether no job waits or runs."""

    def wait_idle(self) -> None:
        """Return once every job submitted so far has run."""

    def stop(self) -> None: ...


class ThreadWorker:
    """One daemon thread; started by the first job."""

    def __init__(self, name: str = "log-sync") -> None:
        self._name = name
        self._submitted = 0
        self._done = 0
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._submitted += 1
        self._jobs.put(job)

    @property
    def is_idle(self) -> bool:
        """Whether no job waits or runs."""
        return self._submitted == self._done

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                # A bug of ours. The thread continues, because without it no later round would end.
                logger.exception("a job of the thread %s failed", self._name)
            self._done += 1

    def wait_idle(self) -> None:
        if self._thread is not None:
            done = threading.Event()
            self.submit(done.set)
            done.wait()

    def stop(self) -> None:
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
