"""Long requests take turns, one in each iteration of the loop."""

from __future__ import annotations

import asyncio

import pytest

from admin_ui import turns
from admin_ui.turns import Turns


async def test_one_request_goes_on_in_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    loop = asyncio.get_running_loop()
    iteration = 0
    worked: list[tuple[int, int]] = []

    def count() -> None:
        nonlocal iteration
        iteration += 1
        loop.call_soon(count)

    async def work(number: int) -> None:
        mine = Turns()
        for _ in range(5):
            await mine.next()
            worked.append((iteration, number))

    count()
    await asyncio.gather(*[work(number) for number in range(20)])
    iterations = [when for when, _ in worked]
    assert len(set(iterations)) == len(worked) == 100
    assert [number for _, number in worked] == [*range(20)] * 5, "in the order in which they came"


async def test_a_request_that_is_given_up_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    first, second = asyncio.ensure_future(Turns().next()), asyncio.ensure_future(Turns().next())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 60)
    assert first.cancelled()
    await asyncio.wait_for(Turns().next(), 60)


async def test_a_turn_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 1000.0)
    mine = Turns()
    await mine.next()
    standing = asyncio.ensure_future(mine.next())
    await asyncio.sleep(0)
    assert standing.done(), "it need not stand in line again"
