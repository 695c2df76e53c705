"""Long requests take turns, one in each iteration of the loop."""

from __future__ import annotations

import asyncio
import gc

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from admin_ui import turns
from admin_ui.middlewares import errors
from admin_ui.turns import Turns


class Iterations:
    """Counts the iterations of the running loop."""

    def __init__(self) -> None:
        self.count = 0
        self._next()

    def _next(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._next)


async def test_one_request_begins_in_each_iteration() -> None:
    """A hundred requests may come at once, and each does some work before it first looks at the clock."""
    begun: list[int] = []
    iterations = Iterations()

    async def handler(request: web.Request) -> web.StreamResponse:
        begun.append(iterations.count)
        return web.Response()

    request = make_mocked_request("GET", "/api/queues")
    await asyncio.gather(*[errors(request, handler) for _ in range(100)])
    assert len(begun) == len(set(begun)) == 100


async def test_one_request_goes_on_in_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    worked: list[tuple[int, int]] = []

    async def work(number: int) -> None:
        mine = Turns()
        for _ in range(5):
            await mine.next()
            worked.append((counted.count, number))

    counted = Iterations()
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


async def test_the_collector_looks_at_what_one_turn_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not, once in a while, at what very many made: 7,000 objects took 2.6 ms."""
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    looked_at: list[int] = []

    def collected(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(each)) for each in range(about["generation"] + 1)))

    gc.collect(1)
    mine, made = Turns(), []
    gc.callbacks.append(collected)
    try:
        for _ in range(100):
            made += [{"arguments": {}, "number": number} for number in range(250)]
            await mine.next()
    finally:
        gc.callbacks.remove(collected)
    assert len(made) == 25_000
    assert max(looked_at) < 2000


async def test_what_a_client_sends_waits_for_two_milliseconds_of_long_work() -> None:
    """A turn that has begun, and the next one, which is ready before the client's socket is read."""
    assert 2 * turns.TURN_S <= 0.002
