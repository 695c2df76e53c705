"""Connections closed over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.admin_ui.world import World


async def opened(node: World, vhost: str = "/", **options: Any) -> tuple[Any, asyncio.Future[Any]]:
    """A connection, and what ends it."""
    connection = await node.connect(vhost, **options)
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.close_callbacks.add(lambda _, error: ended.done() or ended.set_result(error))
    return connection, ended


async def name_of(node: World, user: str = "guest") -> str:
    found = [each["name"] for each in await node.get("/connections") if each["user"] == user]
    assert len(found) == 1
    return quote(str(found[0]), safe="")


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({}, "CONNECTION_FORCED - Closed via management plugin"),
        ({"X-Reason": "maintenance window"}, "CONNECTION_FORCED - maintenance window"),
        ({"X-Reason": "ä" * 300}, "CONNECTION_FORCED - ää"),
    ],
)
async def test_with_a_reason(node: World, headers: dict[str, str], text: str) -> None:
    _, ended = await opened(node)
    path = f"/api/connections/{await name_of(node)}"
    reply = await node.call("DELETE", path, **headers)
    assert (reply.status, reply.body) == (204, b"")
    assert text in str(await asyncio.wait_for(ended, 60))
    gone = await node.call("DELETE", path)
    assert (gone.status, gone.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})


async def test_who_may(shop: World) -> None:
    _, ended = await opened(shop, "shop", login="alice", password="alice-pw")
    path = f"/api/connections/{await name_of(shop, 'alice')}"
    refused = {"error": "not_authorised", "reason": "User not authorised to access object"}
    for user in ("bob", "carol"):  # bob may see it
        reply = await shop.call("DELETE", path, user)
        assert (reply.status, reply.json) == (401, refused)
    assert not ended.done()
    assert (await shop.call("DELETE", path, "alice")).status == 204
    await asyncio.wait_for(ended, 60)


async def test_all_of_a_user(shop: World) -> None:
    theirs = [await opened(shop, "shop", login="alice", password="alice-pw") for _ in range(3)]
    mine, _ = await opened(shop)
    assert (await shop.call("DELETE", "/api/connections/username/alice", "bob")).status == 401
    assert (await shop.call("DELETE", "/api/connections/username/alice")).status == 204
    for _, ended in theirs:
        assert "Closed via management plugin" in str(await asyncio.wait_for(ended, 60))
    assert not mine.is_closed
    await mine.close()
