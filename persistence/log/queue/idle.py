"""Drops segments without live messages in idle logs.

A closed segment is removed by the next checkpoint of its log, the active one after a new one is begun.
Without writes neither happens, so both are done here. They are done soon if there is much to free, and for a
few logs at a time, because each costs a checkpoint for which the next round waits.
"""

from __future__ import annotations

from collections.abc import Callable

from ...loop import Loop, Timer
from ...options import LogOptions
from .queue_log import QueueLog

#: Number of logs at a time, and seconds until the next ones.
_LOGS_AT_ONCE = 8
_PAUSE_S = 0.1


class IdleLogs:
    """Runs on the event loop; ``start_round`` begins a round of the sync."""

    def __init__(self, options: LogOptions, loop: Loop, start_round: Callable[[], None]) -> None:
        self._options = options
        self._loop = loop
        self._start_round = start_round
        #: The time at which each log's segments are dropped, if nothing is written to it until then.
        self._due: dict[QueueLog, float] = {}
        self._timer: Timer | None = None
        self._timer_due = 0.0
        self._stopped = False

    def note(self, log: QueueLog) -> None:
        """Schedule ``log``, which was recovered, or in which a round has left no live message."""
        size = dead_bytes(log)
        if not size:
            return
        options = self._options
        wait = options.idle_roll_s if size < options.clean_bytes_min else options.idle_roll_large_s
        self._due[log] = due = self._loop.clock() + wait
        self._wake(due)

    def forget(self, log: QueueLog) -> None:
        self._due.pop(log, None)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self, due: float) -> None:
        if self._stopped or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._loop.call_later(max(due - self._loop.clock(), 0.0), self._drop)

    def _drop(self) -> None:
        self._timer = None
        now = self._loop.clock()
        due = [log for log, when in self._due.items() if when <= now]
        for log in due[:_LOGS_AT_ONCE]:
            del self._due[log]
            if not log.due.messages:
                drop_dead(log)
        if self._due:
            self._wake(max(min(self._due.values()), now + _PAUSE_S))
        self._start_round()


def is_idle(log: QueueLog) -> bool:
    """Whether the active segment can be dropped: it has bytes on disk, and nothing is live or open."""
    batches, partition = log.batches, log.partition
    return (
        partition.gone.all_gone(batches.state)
        and not batches.has_messages
        and not batches.has_settles
        and log.failed is None
        and partition.active.size > 0
    )


def dead_bytes(log: QueueLog) -> int:
    """Bytes of segments without a live message that ``drop_dead`` would free."""
    size = log.partition.dead_bytes() if log.failed is None else 0
    return size + log.partition.active.size if is_idle(log) else size


def drop_dead(log: QueueLog) -> None:
    """Let the next round remove the segments without live messages."""
    if is_idle(log):
        roll_idle(log)
    elif log.partition.dead_bytes() and log.failed is None:
        log.request_checkpoint()


def roll_idle(log: QueueLog) -> None:
    """Begin a new segment, so that the next round removes the one without live messages."""
    if is_idle(log):
        end = log.batches.closed.end
        log.partition.roll(end)
        log.partition.active.end = end
        log.request_checkpoint()
