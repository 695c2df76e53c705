"""The timers of many queues: what one call and one turn of the loop look at, however many there are."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from persistence.memory import MemoryBudget
from vhosts.queues.timers import SIFT_SLICE, TIMER_BYTES, TOUCH_SLICE, QueueTimers, Timer


class Loop:
    """An event loop: one timer, and steps of long work."""

    def __init__(self) -> None:
        self.now_us = 0
        self.steps: list[Callable[[], bool]] = []
        self.call: Callable[[], None] | None = None
        self.due: list[int] = []
        self.account = MemoryBudget()
        self.timers = QueueTimers(self.call_later, lambda: self.now_us, self.steps.append, self.account)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Loop:
        self.call = call
        return self

    def cancel(self) -> None:
        self.call = None

    def timer_due(self, now_us: int) -> None:
        self.due.append(now_us)

    def set(self, count: int) -> list[Timer]:
        return [self.timers.set(self, due_us) for due_us in Random(1).sample(range(1, count + 1), count)]

    def go_off(self) -> None:
        call, self.call = self.call, None
        assert call is not None
        call()

    def held(self) -> int:
        assert self.account.kept == TIMER_BYTES * (len(self.timers._heap) + len(self.timers._sifted))
        return self.account.kept // TIMER_BYTES


def test_cancelled_timers_leave_in_slices() -> None:
    loop, count = Loop(), 10 * SIFT_SLICE
    timers = loop.set(count)
    for timer in timers[: count // 2 + 1]:
        before = loop.held()
        loop.timers.cancel(timer)
        assert before - loop.held() <= SIFT_SLICE
    (step,) = loop.steps
    turns = 1
    loop.now_us = 100
    loop.go_off()  # also while they leave
    expected = sum(timer.due_us <= 100 for timer in timers[count // 2 + 1 :])
    assert len(loop.due) == expected > 0
    is_done = False
    while not is_done:
        before = loop.held()
        is_done = step()
        assert before - loop.held() <= SIFT_SLICE
        turns += 1
    assert turns >= 9
    assert loop.held() == count // 2 - 1 - expected
    loop.now_us = count
    while loop.call is not None:
        loop.go_off()
    assert (loop.held(), len(loop.due)) == (0, count // 2 - 1)


def test_a_turn_passes_over_no_more_cancelled_timers_than_others() -> None:
    loop, count = Loop(), 3 * TOUCH_SLICE
    timers = loop.set(2 * count)
    for timer in timers:
        if timer.due_us < count:
            loop.timers.cancel(timer)
    before = loop.held()
    loop.now_us = count
    for _ in range(3):
        loop.go_off()
        assert 0 < before - loop.held() <= TOUCH_SLICE
        before = loop.held()
