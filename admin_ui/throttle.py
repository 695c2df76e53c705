"""Makes guessing passwords slow.

The first failures cost nothing, since people mistype. From then on each one doubles the wait until the next
attempt of that user from that address, and, at a higher number, of that address with any user. An attempt
before that is refused without looking at the password, so a right guess in between is not found out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Failures that cost nothing: of one user from one address, and of one address with any user.
FREE = 3
FREE_ADDRESS = 20
#: Longest wait (s), and how long a failure is remembered (s).
WAIT_MAX_S = 60.0
FORGET_S = 900.0
#: Entries kept; beyond, the oldest are forgotten.
ENTRIES_MAX = 10_000


class Throttle:
    """Counts failed logins by (address, user) and by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: (failures, time of the last one) by what failed; the one that failed last is last.
        self._failures: dict[tuple[str, str | None], tuple[int, float]] = {}

    def wait_s(self, address: str, user: str) -> float:
        """Seconds until the next attempt is looked at; 0 if now."""
        return max(self._wait((address, user), FREE), self._wait((address, None), FREE_ADDRESS))

    def failed(self, address: str, user: str) -> None:
        """An attempt was wrong."""
        now = self._clock()
        for key in ((address, user), (address, None)):
            count, last = self._failures.pop(key, (0, now))
            if now - last > FORGET_S:
                count = 0
            self._failures[key] = count + 1, now
        while len(self._failures) > ENTRIES_MAX:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, address: str, user: str) -> None:
        """An attempt was right: the user starts anew, the address does not (its own login would reset it)."""
        self._failures.pop((address, user), None)

    def _wait(self, key: tuple[str, str | None], free: int) -> float:
        known = self._failures.get(key)
        if known is None:
            return 0.0
        count, last = known
        if count < free:
            return 0.0
        wait = min(WAIT_MAX_S, 2.0 ** min(count - free, 10))
        return max(0.0, last + wait - self._clock())
