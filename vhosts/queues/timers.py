"""The timers of a node's queues, one for each queue at most, behind one timer of the event loop.

A queue whose time has come is put on the agenda (``Queue.touch``), so the work is done in slices, between the
deliveries of others. The time is the wall clock in µs, because deadlines outlive the process.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from persistence.memory import MemoryBudget

#: What the node's account has for a timer, also for a cancelled one that is still in the heap.
TIMER_BYTES = 120
#: Queues put on the agenda in one turn of the loop, or channels that look at what they hold, which take up to
#: 15 µs each; and timers looked at to drop the cancelled ones.
TOUCH_SLICE = 250
SIFT_SLICE = 1000
#: The timer of the loop is set for no longer than this, as the wall clock may be set meanwhile.
SLEEP_S_MAX = 60.0


class Handle(Protocol):
    """A timer of the event loop."""

    def cancel(self) -> None:
        """It does not go off."""


class Due(Protocol):
    """An object with a deadline: a queue, or a channel that waits for acknowledgements."""

    def timer_due(self, now_us: int) -> None:
        """The timer has gone off."""


class Timer:
    """When a queue wants to be called."""

    __slots__ = ("due_us", "queue")

    def __init__(self, due_us: int, queue: Due) -> None:
        self.due_us = due_us
        #: None if the timer was cancelled or has gone off.
        self.queue: Due | None = queue

    def __lt__(self, other: Timer) -> bool:
        return self.due_us < other.due_us


class QueueTimers:
    """``call_later`` is the event loop's, ``wall_us`` the time of day; ``in_slices`` takes long work;
    ``account`` is the node's account of memory.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], Handle],
        wall_us: Callable[[], int],
        in_slices: Callable[[Callable[[], bool]], None],
        account: MemoryBudget | None = None,
    ) -> None:
        self._account = account or MemoryBudget()
        self.in_slices = in_slices
        self.now_us = wall_us
        self._call_later = call_later
        self._wall_us = wall_us
        self._heap: list[Timer] = []
        #: What the heap was when it had too many cancelled ones. It is a heap as well, and stays one while
        #: its last timers leave: those that were not cancelled move to the other, a slice in each turn.
        self._sifted: list[Timer] = []
        self._cancelled = 0
        self._handle: Handle | None = None
        self._set_for = 0

    def set(self, queue: Due, due_us: int) -> Timer:
        """Touch ``queue`` at ``due_us``."""
        timer = Timer(due_us, queue)
        heappush(self._heap, timer)
        self._account.kept += TIMER_BYTES
        if self._handle is None or due_us < self._set_for:
            self._sleep()
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget the timer; nothing happens if it has gone off."""
        if timer.queue is None:
            return
        timer.queue = None
        self._cancelled += 1
        if self._cancelled > 100 and self._cancelled * 2 > len(self._heap) and not self._sifted:
            self._sifted, self._heap = self._heap, []
            if not self._sift():
                self.in_slices(self._sift)

    def _sift(self) -> bool:
        """Drop the cancelled ones among some of the timers; True when none is left to look at."""
        sifted = self._sifted
        for _ in range(min(len(sifted), SIFT_SLICE)):
            timer = sifted.pop()
            if timer.queue is None:
                self._drop()
            else:
                heappush(self._heap, timer)
        return not sifted

    def _drop(self) -> None:
        """A cancelled timer has left its heap."""
        self._cancelled -= 1
        self._account.kept -= TIMER_BYTES

    def go_off(self) -> None:
        """The loop's timer has gone off."""
        self._handle = None
        now = self._wall_us()
        for _ in range(TOUCH_SLICE):
            heap = self._earlier()
            if not heap or (heap[0].queue is not None and heap[0].due_us > now):
                break
            timer = heappop(heap)
            queue = timer.queue
            if queue is None:
                self._drop()
                continue
            self._account.kept -= TIMER_BYTES
            timer.queue = None
            queue.timer_due(now)
        if self._earlier():
            self._sleep()

    def _earlier(self) -> list[Timer]:
        """The heap with the next timer; an empty one if there is none."""
        if not self._sifted or (self._heap and self._heap[0] < self._sifted[0]):
            return self._heap
        return self._sifted

    def _sleep(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._set_for = self._earlier()[0].due_us
        seconds = min(max(self._set_for - self._wall_us(), 0) / 1e6, SLEEP_S_MAX)
        self._handle = self._call_later(seconds, self.go_off)
