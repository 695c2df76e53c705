"""Regular expressions of callers: a search that takes too long is ended.

Some expressions take exponential time on short names (``(a+)+$``), and Python's engine holds the interpreter
lock meanwhile: no client would be served. It does look for signals, though, so that a timer of CPU time whose
handler raises ends it.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterable
from types import FrameType

#: CPU that searching a few names may take; a thousand ordinary searches take less.
LIMIT_S = 0.01


class TooSlow(Exception):
    """The search was ended."""


class Timer:
    """The handler of the signal. It stays in place for good: another thread may be handed the signal late."""

    def __init__(self) -> None:
        #: Whether a search is on; a signal after its end must not hit what came next.
        self.armed = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.armed:
            raise TooSlow


_timer = Timer()


def search(pattern: re.Pattern[str], texts: Iterable[str]) -> list[bool]:
    """Whether each of a few texts matches anywhere.

    Raises:
        TooSlow: that took more than ``LIMIT_S`` of CPU.
    """
    if threading.current_thread() is not threading.main_thread():
        return [pattern.search(text) is not None for text in texts]  # signals are for the main thread alone
    if signal.getsignal(signal.SIGVTALRM) is not _timer:
        signal.signal(signal.SIGVTALRM, _timer)
    try:
        _timer.armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        return [pattern.search(text) is not None for text in texts]
    finally:
        _timer.armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
