"""Counts wrong passwords, and says how long each client has to wait.

The first failures cost nothing, since people mistype. From then on each one doubles the wait until the next
attempt of that user from that address, and, at a higher number, of that address with any user. Over AMQP the
second is no wait, but a delay of answers to wrong passwords. An attempt before its wait is over is refused
without a look at the password, so a right guess in between is not found out.

The same wrong password again is no new guess and is not counted: a program that was given an old password and
asks every few seconds does not lock out its neighbours.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

#: Failures that cost nothing: of one user from one address, and of one address with any user.
FREE = 3
FREE_ADDRESS = 20
#: Longest time that an answer is held back (s): less than clients wait for one.
DELAY_MAX_S = 5.0
#: Longest wait (s), and how long a failure is remembered (s).
WAIT_MAX_S = 60.0
FORGET_S = 900.0
#: The same wrong password again is logged once in this time (s).
TELL_S = 60.0
#: Entries kept, of failures and of wrong guesses each; beyond, the oldest are forgotten.
ENTRIES_MAX = 10_000
#: Characters of a name that are told apart: longer ones are no user's, and could fill the memory.
NAME_MAX = 255


class TooManyFailures(Exception):
    """The attempt was not looked at; ``wait_s`` seconds later one will be."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"the next attempt is looked at in {wait_s:.1f} s")
        self.wait_s = wait_s


class Throttle:
    """Counts failed logins by (address, user) and by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: (failures, time of the last one) by what failed; the one that failed last is last.
        self._failures: dict[tuple[str, bytes | None], tuple[int, float]] = {}
        #: When each wrong guess, and each refusal without a look, was told; the newest is last.
        self._wrong: dict[bytes, float] = {}

    def check(self, address: str, user: bytes) -> None:
        """Let an attempt pass if there is nothing to wait for.

        Raises:
            TooManyFailures: there is.
        """
        self.check_user(address, user)
        wait_s = self._wait_s((network(address), None), FREE_ADDRESS)
        if wait_s > 0:
            raise TooManyFailures(wait_s)

    def check_user(self, address: str, user: bytes) -> None:
        """As ``check``, whatever other users from that address did.

        Raises:
            TooManyFailures: there is something to wait for.
        """
        wait_s = self._wait_s((network(address), user[:NAME_MAX]), FREE)
        if wait_s > 0:
            raise TooManyFailures(wait_s)

    def delay_s(self, address: str) -> float:
        """Seconds by which the answer to a wrong password from that address is delayed."""
        count, last = self._failures.get((network(address), None), (0, 0.0))
        if count <= FREE_ADDRESS or self._clock() - last > FORGET_S:
            return 0.0
        return min(DELAY_MAX_S, 2.0 ** min(count - FREE_ADDRESS - 2, 10))

    def is_news(self, address: str, user: bytes) -> bool:
        """Whether to log that this user's attempt was refused unchecked: once a minute."""
        return self._tells(f"{network(address)}\0".encode() + user[:NAME_MAX], self._clock())

    def failed(self, address: str, user: bytes, guess: bytes) -> bool:
        """An attempt was wrong; ``guess`` is a digest of its address, name and password.

        Returns whether the log should tell: thousands a second would fill a disk.
        """
        now = self._clock()
        known = guess in self._wrong
        news = self._tells(guess, now)
        if known:
            return news
        where = network(address)
        for key in ((where, user[:NAME_MAX]), (where, None)):
            count, last = self._failures.pop(key, (0, now))
            if now - last > FORGET_S:
                count = 0
            self._failures[key] = count + 1, now
        _shorten(self._failures)
        return True

    def succeeded(self, address: str, user: bytes) -> None:
        """An attempt was right: the user starts anew, the address does not (its own login would reset it)."""
        self._failures.pop((network(address), user[:NAME_MAX]), None)

    def _tells(self, what: bytes, now: float) -> bool:
        told = self._wrong.get(what)
        if told is not None and now - told < TELL_S:
            return False
        self._wrong[what] = now
        _shorten(self._wrong)
        return True

    def _wait_s(self, key: tuple[str, bytes | None], free: int) -> float:
        known = self._failures.get(key)
        if known is None:
            return 0.0
        count, last = known
        if count < free:
            return 0.0
        wait = min(WAIT_MAX_S, 2.0 ** min(count - free, 10))
        return max(0.0, last + wait - self._clock())


def _shorten(entries: dict[Any, Any]) -> None:
    while len(entries) > ENTRIES_MAX:
        del entries[next(iter(entries))]


@lru_cache(maxsize=1024)
def network(address: str) -> str:
    """The addresses of one client: an IPv4 address, or an IPv6 network of 64 bits.

    Remembered, because 500 handshakes of a client may begin or end at once, and each asks several times.
    """
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
