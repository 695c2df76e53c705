"""Removes the files of deleted logs, a few logs at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .committer import Committer
from .jobs import Jobs
from .writer import PartitionWriter


class Removals:
    """The queue of deleted logs. Runs on the event loop; the worker removes."""

    def __init__(
        self, committer: Committer, jobs: Jobs, post: Callable[[Callable[[], None]], object], at_once: int
    ) -> None:
        self._committer = committer
        self._jobs = jobs
        self._post = post
        self._at_once = at_once
        #: Writers of deleted logs whose files still exist, and whether the worker is removing some of them.
        self._waiting: list[PartitionWriter] = []
        self._is_removing = False

    def add(self, writer: PartitionWriter) -> None:
        """Remove a log's directory after the current round."""
        self._waiting.append(writer)
        if not self._is_removing:
            self._next()

    def _next(self) -> None:
        """Remove a few, because the next round and its confirms wait for it."""
        writers, self._waiting = self._waiting[: self._at_once], self._waiting[self._at_once :]
        self._is_removing = bool(writers)
        if writers:
            self._jobs.beside(partial(self._remove, writers))

    def _remove(self, writers: list[PartitionWriter]) -> None:
        """Runs in the worker."""
        self._committer.remove(writers)
        self._post(self._next)

    def finish(self) -> None:
        """Let the worker remove all that wait; no round is running."""
        writers, self._waiting = self._waiting, []
        if writers:
            self._jobs.beside(partial(self._committer.remove, writers))
