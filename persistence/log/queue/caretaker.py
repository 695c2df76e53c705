"""Looks after logs between rounds: drops segments of idle logs, rewrites those with few live messages, and
tells how far mirrored logs are durable.
"""

from __future__ import annotations

from typing import Protocol

from ...files import Disk
from ...options import LogOptions
from ..sync.log_sync import LogSync
from .cleaning import Cleaning
from .idle import IdleLogs, is_idle
from .queue_log import Caretaker, QueueLog


class CopiesListener(Protocol):
    """Who knows how far the copies of a node's logs reach, and calls ``QueueLog.advance_high_watermark``."""

    def on_durable(self, log: QueueLog) -> None:
        """``log.durable`` has risen."""


class LogCaretaker(Caretaker):
    """The ``queue_log.Caretaker`` of all logs of a node."""

    def __init__(self, disk: Disk, sync: LogSync, options: LogOptions) -> None:
        self.cleaning = Cleaning(disk, sync, options)
        self.copies: CopiesListener | None = None
        self._idle = IdleLogs(options, sync.loop, sync.start_round)
        sync.on_round = self.cleaning.swap

    def on_open(self, log: QueueLog) -> None:
        """``log`` was recovered at start: look for segments to drop or clean."""
        self._idle.note(log)
        if log.partition.cleanable() is not None:
            self.cleaning.note(log)

    def on_written(self, log: QueueLog) -> None:
        self.cleaning.note(log)
        if is_idle(log):
            self._idle.note(log)

    def on_durable(self, log: QueueLog) -> None:
        if self.copies is not None:
            self.copies.on_durable(log)

    def on_checkpoint(self, log: QueueLog) -> None:
        self.cleaning.begin(log)

    def on_delete(self, log: QueueLog) -> None:
        self._idle.forget(log)

    def stop(self) -> None:
        """Begin nothing more."""
        self.cleaning.stop()
        self._idle.stop()
