"""How long one waits after failed logins."""

from __future__ import annotations

from admin_ui.throttle import ENTRIES_MAX, FORGET_S, FREE, FREE_ADDRESS, WAIT_MAX_S, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_first_failures_are_free_then_waits_double() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    waits = []
    for _ in range(FREE + 8):
        waits.append(throttle.wait_s("10.0.0.1", "guest"))
        clock.now += waits[-1]
        throttle.failed("10.0.0.1", "guest")
    assert waits[:FREE] == [0, 0, 0]
    assert waits[FREE:] == [1, 2, 4, 8, 16, 32, WAIT_MAX_S, WAIT_MAX_S]


def test_only_that_user_from_that_address_waits() -> None:
    throttle = Throttle(Clock())
    for _ in range(FREE):
        throttle.failed("10.0.0.1", "guest")
    assert throttle.wait_s("10.0.0.1", "guest") == 1
    assert throttle.wait_s("10.0.0.1", "alice") == 0
    assert throttle.wait_s("10.0.0.2", "guest") == 0


def test_an_address_that_tries_many_users_waits_with_each() -> None:
    throttle = Throttle(Clock())
    for number in range(FREE_ADDRESS):
        throttle.failed("10.0.0.1", f"user{number}")
    assert throttle.wait_s("10.0.0.1", "another") == 1
    assert throttle.wait_s("10.0.0.2", "another") == 0


def test_success_forgives_the_user_not_the_address() -> None:
    throttle = Throttle(Clock())
    for _ in range(FREE_ADDRESS):
        throttle.failed("10.0.0.1", "guest")
    throttle.succeeded("10.0.0.1", "guest")
    assert throttle.wait_s("10.0.0.1", "guest") == 1


def test_failures_are_forgotten() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    for _ in range(FREE + 3):
        throttle.failed("10.0.0.1", "guest")
    clock.now += FORGET_S + 1
    throttle.failed("10.0.0.1", "guest")
    assert throttle.wait_s("10.0.0.1", "guest") == 0


def test_memory_is_bounded() -> None:
    throttle = Throttle(Clock())
    for number in range(ENTRIES_MAX + 100):
        throttle.failed(f"address {number}", "guest")
    assert len(throttle._failures) == ENTRIES_MAX
