"""How long one waits after failed logins."""

from __future__ import annotations

import itertools

import pytest

from amqp_router.auth.throttle import (
    ENTRIES_MAX,
    FORGET_S,
    FREE,
    FREE_ADDRESS,
    NAME_MAX,
    WAIT_MAX_S,
    Throttle,
    TooManyFailures,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


guesses = itertools.count()


def guess(throttle: Throttle, address: str, user: bytes) -> None:
    """A wrong password, another each time."""
    throttle.failed(address, user, b"%d" % next(guesses))


def wait_s(throttle: Throttle, address: str, user: bytes) -> float:
    try:
        throttle.check(address, user)
    except TooManyFailures as error:
        return error.wait_s
    return 0


def test_first_failures_are_free_then_waits_double() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    waits = []
    for _ in range(FREE + 8):
        waits.append(wait_s(throttle, "10.0.0.1", b"guest"))
        clock.now += waits[-1]
        guess(throttle, "10.0.0.1", b"guest")
    assert waits[:FREE] == [0, 0, 0]
    assert waits[FREE:] == [1, 2, 4, 8, 16, 32, WAIT_MAX_S, WAIT_MAX_S]


def test_only_that_user_from_that_address_waits() -> None:
    throttle = Throttle(Clock())
    for _ in range(FREE):
        guess(throttle, "10.0.0.1", b"guest")
    assert wait_s(throttle, "10.0.0.1", b"guest") == 1
    assert wait_s(throttle, "10.0.0.1", b"alice") == 0
    assert wait_s(throttle, "10.0.0.2", b"guest") == 0


def test_an_address_that_tries_many_users_waits_with_each() -> None:
    throttle = Throttle(Clock())
    for number in range(FREE_ADDRESS):
        guess(throttle, "10.0.0.1", b"user%d" % number)
    assert wait_s(throttle, "10.0.0.1", b"another") == 1
    assert wait_s(throttle, "10.0.0.2", b"another") == 0


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        ("2001:db8::ffff", True),
        ("2001:db8:0:0:a:b:c:d", True),
        ("2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_a_network_of_ipv6_is_one_address(other: str, waits: bool) -> None:
    throttle = Throttle(Clock())
    for _ in range(FREE):
        guess(throttle, "2001:db8::1", b"guest")
    assert (wait_s(throttle, other, b"guest") > 0) == waits


def test_addresses_of_ipv4_stay_apart_on_a_listener_of_ipv6() -> None:
    throttle = Throttle(Clock())
    for _ in range(FREE):
        guess(throttle, "::ffff:10.0.0.1", b"guest")
    assert wait_s(throttle, "::ffff:10.0.0.1", b"guest") == 1
    assert wait_s(throttle, "::ffff:10.0.0.2", b"guest") == 0


def test_the_same_wrong_password_again_is_no_new_guess() -> None:
    throttle = Throttle(Clock())
    for _ in range(100):
        throttle.failed("10.0.0.1", b"guest", b"old password")
        throttle.failed("10.0.0.1", b"guest", b"older password")
    assert wait_s(throttle, "10.0.0.1", b"guest") == 0


def test_the_same_wrong_password_is_told_once_a_minute() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    told = []
    for _ in range(130):
        told.append(throttle.failed("10.0.0.1", b"guest", b"old password"))
        clock.now += 1
    assert [second for second, each in enumerate(told) if each] == [0, 60, 120]
    assert throttle.failed("10.0.0.1", b"guest", b"another")


def test_success_forgives_the_user_not_the_address() -> None:
    throttle = Throttle(Clock())
    for _ in range(FREE_ADDRESS):
        guess(throttle, "10.0.0.1", b"guest")
    throttle.succeeded("10.0.0.1", b"guest")
    assert wait_s(throttle, "10.0.0.1", b"guest") == 1


def test_failures_are_forgotten() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    for _ in range(FREE + 3):
        guess(throttle, "10.0.0.1", b"guest")
    clock.now += FORGET_S + 1
    guess(throttle, "10.0.0.1", b"guest")
    assert wait_s(throttle, "10.0.0.1", b"guest") == 0


def test_memory_is_bounded() -> None:
    throttle = Throttle(Clock())
    for number in range(ENTRIES_MAX + 100):
        guess(throttle, f"address {number}", b"x" * 8000)
    assert len(throttle._failures) == ENTRIES_MAX
    assert len(throttle._wrong) == ENTRIES_MAX
    assert max(len(user or b"") for _, user in throttle._failures) == NAME_MAX
