"""The time of the node and of the lists beside it."""

from __future__ import annotations

from collections.abc import Callable

from tests.persistence.log.support import ManualClock, ManualTimer


class Clock(ManualClock):
    """A clock of whole microseconds, so that what is due in one goes off in it."""

    def wall_us(self) -> int:
        return round(self.now * 1_000_000)

    def call_later(self, delay: float, callback: Callable[[], None]) -> ManualTimer:
        timer = super().call_later(delay, callback)
        timer.due = round(timer.due, 6)
        return timer

    def advance(self, seconds: float) -> list[ManualTimer]:
        self.now = round(self.now + seconds, 6)
        return super().advance(0)

    def next_due(self, end: float) -> float:
        """When the next timer goes off, or ``end`` if that is sooner."""
        return min([end, *[timer.due for timer in self._timers if not timer.cancelled]])
