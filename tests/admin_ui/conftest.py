"""A node for the tests of the admin server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin_ui.turns import Turns
from tests.admin_ui.world import World, world


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as found:
        yield found


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry whenever others could have their turn."""
    plain = Turns.next
    found: list[int] = []

    async def counted(self: Turns) -> None:
        found.append(1)
        await plain(self)

    monkeypatch.setattr(Turns, "next", counted)
    return found


@pytest.fixture
async def shop(node: World) -> World:
    """A node with the users and virtual hosts of the recorded calls."""
    node.add_vhost("shop")
    node.add_vhost("staging")
    node.add_user("alice", "management", vhosts=("shop",))
    node.add_user("bob", "monitoring", vhosts=("shop",))
    node.add_user("carol", "policymaker", vhosts=("shop",))
    node.add_user("dave", vhosts=("shop",))
    vhost = node.broker.vhosts["shop"]
    vhost.declare_queue("emails")
    vhost.declare_queue("orders.eu", durable=True)
    vhost.declare_exchange("orders", "topic", durable=True)
    vhost.bind_queue("orders.eu", "orders", "eu.#", {}, None)
    return node
