"""Who carries out plans: the worker thread, and the disk's flusher for small rounds.

Only one of the two has work at a time, because the worker may close the descriptors that the flusher uses.

Compiled, as the sync is: see ``jobs.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable

from ...plan import Flusher, Plan
from ...worker import Worker


class Jobs:
    """Gives rounds and other work to the worker and the flusher; used on the event loop."""

    def __init__(self, worker: Worker, flusher: Flusher | None) -> None:
        self.worker = worker
        self.flusher = flusher
        #: Whether the flusher does the current round, and the jobs that the worker must not do before its
        #: end.
        self.is_flushing = False
        self._deferred: list[Callable[[], None]] = []

    def can_flush(self) -> bool:
        """Whether there is a flusher, and the worker has nothing to do."""
        return self.flusher is not None and self.worker.is_idle

    def flush(self, plan: Plan) -> None:
        """Let the flusher carry out a round's plan; ``can_flush`` must be True."""
        assert self.flusher is not None
        self.is_flushing = True
        self.flusher.submit(plan)

    def flushed(self, wait: bool = False) -> int:
        """The error number or 0 of the flusher's plan, once; -1 if it is not done, or has none.

        The caller then ends the round, and calls ``resume``.
        """
        if not self.is_flushing or self.flusher is None:
            return -1
        error = self.flusher.wait() if wait else self.flusher.finish()
        if error >= 0:
            self.is_flushing = False
        return error

    def resume(self) -> None:
        """The flusher's round is over: go on with the jobs that have waited for it."""
        deferred, self._deferred = self._deferred, []
        for job in deferred:
            self.beside(job)

    def beside(self, job: Callable[[], None]) -> None:
        """A job for the worker beside the rounds."""
        if self.is_flushing:
            self._deferred.append(job)
        else:
            self.worker.submit(job)

    def stop(self) -> None:
        """End both threads, once the worker has nothing to do."""
        self.worker.wait_idle()
        self.worker.stop()
        if self.flusher is not None:
            self.flusher.stop()
            self.flusher = None
