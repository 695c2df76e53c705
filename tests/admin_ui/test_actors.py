"""For whom a handler acts, from its first step to its last, while others have their turn between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from admin_ui.actors import acting
from vhosts.feed import INTERNAL, Feed


def listened() -> Feed:
    feed = Feed()
    feed.on = True
    return feed


def test_a_plain_handler() -> None:
    feed = listened()
    assert acting(feed, "bob", lambda call: (call, feed.actor), 1) == (1, "bob")
    assert feed.actor == INTERNAL


def test_a_handler_that_fails() -> None:
    feed = listened()

    def handler(call: int) -> int:
        raise ValueError(feed.actor)

    with pytest.raises(ValueError, match="bob"):
        acting(feed, "bob", handler, 1)
    assert feed.actor == INTERNAL


async def test_each_step_of_a_coroutine_is_for_its_user() -> None:
    feed = listened()
    seen: list[tuple[str, str]] = []

    async def handler(name: str) -> str:
        for _ in range(3):
            seen.append((name, feed.actor))
            await asyncio.sleep(0)
            seen.append((name, feed.actor))
        return name

    async def between() -> None:
        for _ in range(6):
            seen.append((INTERNAL, feed.actor))
            await asyncio.sleep(0)

    async def waited(name: str) -> str:
        result = acting(feed, name, handler, name)
        assert isinstance(result, Awaitable)
        return await result

    answers = await asyncio.gather(waited("bob"), between(), waited("eve"))
    assert answers == ["bob", None, "eve"]
    assert {name for name, _ in seen} == {"bob", "eve", INTERNAL}
    assert all(name == actor for name, actor in seen)


async def test_a_cancelled_coroutine_hears_of_it() -> None:
    feed = listened()
    ended: list[str] = []

    async def handler(call: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(feed.actor)

    async def waited() -> None:
        result = acting(feed, "bob", handler, 1)
        assert isinstance(result, Awaitable)
        await result

    task = asyncio.ensure_future(waited())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["bob"]
    assert feed.actor == INTERNAL


def test_nobody_listens() -> None:
    feed = Feed()
    assert acting(feed, "bob", lambda call: feed.actor, 1) == INTERNAL
