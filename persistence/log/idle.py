"""Which logs hold segments without a live message, and when those are dropped.

A closed segment goes with the next checkpoint of its log, the active one once a new one is begun. A log that
nobody writes to has neither, so both are done for it here: soon if there is much to free, and a few logs at a
time, since each costs a checkpoint and the next round waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..options import LogOptions

if TYPE_CHECKING:
    from .queue_log import QueueLog

#: So many logs at once, and seconds until the next ones.
_LOGS_AT_ONCE = 8
_PAUSE_S = 0.1


class IdleLogs:
    """Used on the event loop; ``clock`` is in seconds, ``start_round`` begins a round of the sync."""

    def __init__(
        self,
        options: LogOptions,
        call_later: Callable[[float, Callable[[], None]], Any],
        clock: Callable[[], float],
        start_round: Callable[[], None],
    ) -> None:
        self._options = options
        self._call_later = call_later
        self._clock = clock
        self._start_round = start_round
        #: When it is each log's turn, if nothing happens to it until then.
        self._due: dict[QueueLog, float] = {}
        self._timer: Any = None
        self._timer_due = 0.0
        self._stopped = False

    def note(self, log: QueueLog) -> None:
        """``log`` was recovered, or a round has left nothing live in it."""
        size = log.dead_bytes()
        if not size:
            return
        options = self._options
        wait = options.idle_roll_s if size < options.clean_bytes_min else options.idle_roll_large_s
        self._due[log] = due = self._clock() + wait
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
        self._timer = self._call_later(max(due - self._clock(), 0.0), self._drop)

    def _drop(self) -> None:
        self._timer = None
        now = self._clock()
        due = [log for log, when in self._due.items() if when <= now]
        for log in due[:_LOGS_AT_ONCE]:
            del self._due[log]
            if not log.dirty:
                log.drop_dead()
        if self._due:
            self._wake(max(min(self._due.values()), now + _PAUSE_S))
        self._start_round()
