"""The time of day for logs: the system's clock, without short jumps.

The routing log removes segments by age, and a log whose times would fall begins a new segment. A clock that
is wrong for a moment should do neither. So a jump (compared with the monotonic clock) is ignored at first. If
it lasts, the new time is adopted, as when a machine that started with a wrong clock corrects it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

#: A change of the clock by more than this is a jump ...
JUMP_US = 60_000_000
#: ... and is adopted when it has lasted this long.
LASTS_US = 600_000_000
#: Steps below this, between two calls, are not compared with the other clock.
_STEP_US = 1_000_000


def _steady_ns() -> int:
    # The monotonic clock stands still while the machine sleeps, the time of day does not.
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot is None else time.clock_gettime_ns(boot)


class WallClock:
    """One per node. ``wall_ns`` and ``steady_ns`` are the system's clocks in nanoseconds."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = _steady_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._last = wall_ns() // 1000
        self._offset = self._last - steady_ns() // 1000
        # A jump that is not adopted yet: its distance from our time, and since when (steady clock); 0 if
        # there is none.
        self._ahead = 0
        self._since = 0

    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC; read once per chunk of input."""
        wall = self._wall_ns() // 1000
        if 0 <= wall - self._last < _STEP_US:
            self._last = wall
            return wall
        steady = self._steady_ns() // 1000
        ahead = wall - steady - self._offset
        if abs(ahead) > JUMP_US and not self._lasts(ahead, steady):
            return steady + self._offset
        if self._ahead and abs(ahead) > JUMP_US:
            logger.warning(
                "the system's clock is followed, which has been %d s off; logs with later times go on in new "
                "segments",
                ahead // 1_000_000,
            )
        self._offset = wall - steady
        self._ahead = self._since = 0
        self._last = wall
        return wall

    def _lasts(self, ahead: int, steady: int) -> bool:
        """Whether the clock has been this far off for ``LASTS_US``."""
        if not self._ahead or abs(ahead - self._ahead) > JUMP_US:
            self._ahead, self._since = ahead, steady
            logger.warning(
                "the system's clock has jumped by %d s; logs go on with their own time, and follow it if it "
                "stays so for %d minutes",
                ahead // 1_000_000,
                LASTS_US // 60_000_000,
            )
        return steady - self._since >= LASTS_US
