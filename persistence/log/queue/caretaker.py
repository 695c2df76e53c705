"""Looks after logs between rounds: drops segments of idle logs, rewrites those with few live messages."""

from __future__ import annotations

from ...files import Disk
from ...options import LogOptions
from ..sync.log_sync import LogSync
from .cleaning import Cleaning
from .idle import IdleLogs
from .queue_log import Caretaker, QueueLog


class LogCaretaker(Caretaker):
    """The ``queue_log.Caretaker`` of all logs of a node."""

    def __init__(self, disk: Disk, sync: LogSync, options: LogOptions) -> None:
        self.cleaning = Cleaning(disk, sync, options)
        self._idle = IdleLogs(options, sync.loop, sync.start_round)
        sync.on_round = self.cleaning.swap

    def on_open(self, log: QueueLog) -> None:
        """``log`` was recovered at start: look for segments to drop or clean."""
        self._idle.note(log)
        if log.partition.cleanable() is not None:
            self.cleaning.note(log)

    def on_written(self, log: QueueLog) -> None:
        self.cleaning.note(log)
        if log.is_idle():
            self._idle.note(log)

    def on_checkpoint(self, log: QueueLog) -> None:
        self.cleaning.begin(log)

    def on_delete(self, log: QueueLog) -> None:
        self._idle.forget(log)

    def stop(self) -> None:
        """Begin nothing more."""
        self.cleaning.stop()
        self._idle.stop()
