"""What a log calls of the sync. A class and not a protocol, so that compiled code can hold nothing else.

Compiled: see ``ports.pxd``.
"""

from __future__ import annotations

from .round import SyncedLog


class Rounds:
    """Takes logs into its next round of writing and syncing. ``log_sync.LogSync`` overrides all of it."""

    def commit(self, log: SyncedLog) -> None:
        """``log`` has messages for the next round. It calls this once until it is sealed."""
        raise AssertionError("a log must be written")

    def commit_settles(self, log: SyncedLog) -> None:
        """``log`` has settles for the next round, which may begin later."""
        raise AssertionError("settles must be written")

    def retry_later(self, log: SyncedLog) -> None:
        """``log`` is fenced by an error that passes: try again after a while."""
        raise AssertionError("a log must go on after a passing error")

    def show(self, log: SyncedLog) -> None:
        """The high watermark of ``log`` has risen: readers in other processes may read up to it."""
        raise AssertionError("others must see a log")

    def delete(self, log: SyncedLog) -> None:
        """Remove the files of ``log``, which is deleted, in the worker."""
        raise AssertionError("the files of a log must go")
