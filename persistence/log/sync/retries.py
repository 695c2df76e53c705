"""Further attempts after errors that pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...loop import Loop
from .round import SyncedLog

#: Seconds before the first attempt, and the longest wait before a further one.
_FIRST_S = 0.25
_LAST_S = 5.0


class Retries:
    """Calls ``due`` for each log after 0.25 s, then after twice as long each time, up to 5 s."""

    def __init__(self, loop: Loop, due: Callable[[SyncedLog], None]) -> None:
        self._loop = loop
        self._due = due
        #: The seconds before each log's next attempt.
        self._delays: dict[SyncedLog, float] = {}
        self._stopped = False

    def __contains__(self, log: SyncedLog) -> bool:
        return log in self._delays

    def waiting(self) -> list[SyncedLog]:
        """The logs that wait for an attempt."""
        return list(self._delays)

    def later(self, log: SyncedLog) -> None:
        """An attempt of ``log`` has failed."""
        delay = self._delays.get(log, _FIRST_S)
        self._delays[log] = min(delay * 2, _LAST_S)
        if not self._stopped:
            self._loop.call_later(delay, partial(self._go, log))

    def over(self, log: SyncedLog) -> None:
        """``log`` needs no further attempt."""
        self._delays.pop(log, None)

    def stop(self) -> list[SyncedLog]:
        """Call back no more; returns the logs that wait."""
        self._stopped = True
        return self.waiting()

    def _go(self, log: SyncedLog) -> None:
        if self._stopped:
            self._delays.pop(log, None)
        else:
            self._due(log)
