"""The order of return, beside a list."""

from __future__ import annotations

from random import Random

import pytest

from persistence.log.format.returns import MESSAGES_MAX, RETURNS_MAX, RUNS_MAX, ReturnRuns, next_fresh
from persistence.log.format.settles import SettleState


def offsets(runs: ReturnRuns, state: SettleState) -> list[int]:
    return [offset for run in runs.runs(state) for offset in range(run.first, run.first + run.count)]


def give_back(runs: ReturnRuns, state: SettleState, offset: int) -> None:
    state.set_returned(offset, min(state.returned(offset) + 1, RETURNS_MAX))
    runs.note(offset, 1, state.returned(offset), state)


@pytest.mark.parametrize("seed", range(6))
def test_any_returns_and_settles(seed: int) -> None:
    random = Random(seed)
    state, runs = SettleState(), ReturnRuns()
    end = random.choice((40, 3000, 200_000))
    state.live = end
    order: dict[int, None] = {}
    for _ in range(3000):
        first = random.randrange(end)
        for offset in range(first, min(first + random.randrange(1, 5), end)):
            if state.is_settled(offset):
                continue
            order.pop(offset, None)
            if random.random() < 0.2:
                state.settle(offset)
            else:
                give_back(runs, state, offset)
                order[offset] = None
    assert offsets(runs, state) == list(order)
    fresh = []
    at = next_fresh(state, 0, end)
    while at < end:
        fresh.append(at)
        at = next_fresh(state, at + 1, end)
    assert fresh == [offset for offset in range(end) if offset not in order and not state.is_settled(offset)]


def test_a_message_that_returns_for_ever() -> None:
    """Also when its returns are not counted any more; it is there once, behind the others."""
    state, runs = SettleState(), ReturnRuns()
    state.live = 3
    for _ in range(RETURNS_MAX - 1):
        give_back(runs, state, 1)
    for offset in (1, 2, 0, 1, 0, 1, 1):
        give_back(runs, state, offset)
    assert offsets(runs, state) == [2, 0, 1]


@pytest.mark.parametrize("count", [MESSAGES_MAX, 1_000_000])
def test_very_many_that_return_together_are_one_run(count: int) -> None:
    """If they are too many for the order to be known, they have one all the same: that of their offsets."""
    state, runs = SettleState(), ReturnRuns()
    state.live = count
    for offset in range(count):
        state.set_returned(offset, 1)
    runs.note(0, count, 1, state)
    assert runs.pack(state) == state.pack_returns()
    assert runs.is_lost == (count > MESSAGES_MAX)


def test_the_order_of_many_runs_is_lost_until_none_of_them_waits() -> None:
    """Looking through them takes a slice's time at most: no more runs are ever kept."""
    state, runs = SettleState(), ReturnRuns()
    state.live = 100_000
    for offset in reversed(range(0, 2 * RUNS_MAX, 2)):
        give_back(runs, state, offset)
    assert not runs.is_lost
    assert offsets(runs, state) == [*reversed(range(0, 2 * RUNS_MAX, 2))]
    for offset in reversed(range(20_000, 20_000 + 4 * RUNS_MAX)):
        give_back(runs, state, offset)
        assert len(runs.kept_runs()) <= 2 * RUNS_MAX + 32
    assert runs.is_lost
    assert runs.pack(state) == state.pack_returns()
    assert runs.is_lost
    for offset in range(20_000 + 4 * RUNS_MAX):
        if not state.is_settled(offset):
            state.settle(offset)
    assert runs.pack(state) == (0, b"")
    give_back(runs, state, 90_001)
    give_back(runs, state, 90_000)
    assert offsets(runs, state) == [90_001, 90_000]


def test_settled_messages_that_had_returned_leave_few_runs_behind() -> None:
    state, runs = SettleState(), ReturnRuns()
    state.live = 100_000
    for offset in range(0, 100_000, 2):
        give_back(runs, state, offset)
        state.settle(offset)
        assert len(runs.kept_runs()) <= 40
    assert not runs.is_lost


def test_a_queue_that_does_not_ask_for_the_order() -> None:
    state, runs = SettleState(), ReturnRuns()
    state.live = 3
    give_back(runs, state, 1)
    runs.keep(False)
    give_back(runs, state, 0)
    assert runs.runs(state) == []
