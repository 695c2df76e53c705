"""The event loop and the clocks, as far as persistence needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Loop(NamedTuple):
    """How to reach the event loop."""

    #: Puts a call onto the loop from another thread.
    post: Callable[[Callable[[], None]], object]
    #: Calls back after so many seconds.
    call_later: Callable[[float, Callable[[], None]], Timer]
    #: Monotone, in seconds.
    clock: Callable[[], float]
    #: The time of day in µs.
    wall_us: Callable[[], int]
