"""Jumps of the system's clock."""

from __future__ import annotations

import logging
import time

import pytest

from persistence.clock import JUMP_US, LASTS_US, WallClock

START = 1_800_000_000_000_000
HOUR = 3_600_000_000


class System:
    """Both clocks of a machine."""

    def __init__(self) -> None:
        self.wall = START
        self.steady = 5_000_000
        self.clock = WallClock(lambda: self.wall * 1000, lambda: self.steady * 1000)

    def after(self, us: int) -> int:
        self.wall += us
        self.steady += us
        return self.clock.now_us() - START


@pytest.mark.parametrize("rest", [1, 500_000, 2_000_000, 5 * HOUR])
def test_time_passes(rest: int) -> None:
    system = System()
    assert [system.after(rest) for _ in range(3)] == [rest, 2 * rest, 3 * rest]


@pytest.mark.parametrize("set_by", [JUMP_US, -JUMP_US, 3_000_000, -1])
def test_a_clock_that_is_set_a_little_is_followed(set_by: int) -> None:
    system = System()
    system.wall += set_by
    assert system.after(0) == set_by
    assert system.after(10) == set_by + 10


@pytest.mark.parametrize("jump", [24 * HOUR, -24 * HOUR, JUMP_US + 1])
def test_a_jump_that_is_taken_back_was_never_there(jump: int, caplog: pytest.LogCaptureFixture) -> None:
    system = System()
    system.after(10)
    system.wall += jump
    with caplog.at_level(logging.WARNING):
        assert [system.after(2_000_000) for _ in range(3)] == [2_000_010, 4_000_010, 6_000_010]
    assert len(caplog.records) == 1
    assert f"jumped by {jump // 1_000_000} s" in caplog.text
    system.wall -= jump
    assert system.after(10) == 6_000_020
    assert system.after(2_000_000) == 8_000_020


def test_a_jump_that_lasts_is_believed() -> None:
    system = System()
    system.wall += HOUR
    for _ in range(LASTS_US // 1_000_000):
        assert system.after(1_000_000) < LASTS_US + 1
    assert system.after(1_000_000) == HOUR + LASTS_US + 1_000_000
    assert system.after(10) == HOUR + LASTS_US + 1_000_010


def test_a_second_jump_begins_anew() -> None:
    system = System()
    system.wall += HOUR
    system.after(LASTS_US - 1_000_000)
    system.wall += HOUR
    assert system.after(2_000_000) == LASTS_US + 1_000_000
    assert system.after(2_000_000) == LASTS_US + 3_000_000


def test_the_systems_own_clocks() -> None:
    assert abs(WallClock().now_us() - time.time_ns() // 1000) < JUMP_US
