"""What a policy would apply to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admin_ui import previews
from tests.admin_ui.world import World

PREVIEW = "/admin/v1/previews/policy"


async def preview(node: World, user: str = "guest", **body: Any) -> Any:
    reply = await node.call("POST", PREVIEW, user, body=json.dumps(body))
    return reply.json if reply.status == 200 else (reply.status, reply.json["reason"])


def names(found: Any, section: str) -> list[tuple[str, str | None]]:
    return [(each["name"], each["instead"]) for each in found[section]["names"]]


async def test_what_matches_and_what_obeys_another(shop: World) -> None:
    here = shop.broker.vhosts["shop"]
    for name in ("eu.1", "eu.2", "us.1"):
        here.declare_queue(f"q.{name}", durable=True)
    here.declare_exchange("q.eu.x", "topic", durable=True)
    for name, pattern, priority in (("strong", r"^q\.eu\.1$", 5), ("weak", r"^q\.eu\.2$", -1)):
        value = {"pattern": pattern, "definition": {"max-length": 9}, "priority": priority}
        shop.broker.parameters.put(here, "policy", name, value)
    found = await preview(shop, vhost="shop", name="new", pattern=r"^q\.eu\.")
    assert names(found, "queues") == [("q.eu.1", "strong"), ("q.eu.2", None)]
    assert names(found, "exchanges") == [("q.eu.x", None)]
    assert found["complete"] is True
    # It is the policy itself that would be changed.
    found = await preview(shop, vhost="shop", name="strong", pattern=r"^q\.eu\.", **{"apply-to": "queues"})
    assert names(found, "queues") == [("q.eu.1", None), ("q.eu.2", None)]
    assert found["exchanges"]["total"] == 0
    # Of two with one priority the first by name applies.
    found = await preview(shop, vhost="shop", name="a", pattern="eu.1", priority=5)
    assert ("q.eu.1", None) in names(found, "queues")
    # Operator policies obey others of their kind, and apply to no exchange.
    found = await preview(shop, vhost="shop", name="new", pattern=r"^q\.eu\.", kind="operator_policy")
    assert names(found, "queues") == [("q.eu.1", None), ("q.eu.2", None)]
    assert found["exchanges"]["total"] == 0


async def test_half_a_pattern_is_no_error(shop: World) -> None:
    found = await preview(shop, vhost="shop", pattern="(eu")
    assert found == {"problem": 'pattern should be regular expression but is invalid: {"missing )",3}'}


@pytest.mark.parametrize(
    ("user", "body", "status"),
    [
        ("carol", {"vhost": "shop"}, None),
        ("alice", {"vhost": "shop"}, 401),
        ("carol", {"vhost": "staging"}, 401),
        ("guest", {"vhost": "nosuch"}, 404),
        ("guest", {"vhost": "shop", "kind": "law"}, 400),
    ],
)
async def test_who_may_ask_about_what(shop: World, user: str, body: Any, status: int | None) -> None:
    found = await preview(shop, user, pattern="x", **body)
    assert status is None or found[0] == status


async def test_a_slow_pattern_ends(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "MATCHING_S", 0.0)
    found = await preview(shop, vhost="shop", pattern=".*")
    assert found["complete"] is False
    assert found["queues"]["total"] <= 1


async def test_many_matches_are_counted_and_some_named(shop: World) -> None:
    here = shop.broker.vhosts["shop"]
    for number in range(70):
        here.declare_queue(f"many-{number}", durable=True)
    found = await preview(shop, vhost="shop", pattern="^many-")
    assert (found["queues"]["total"], len(found["queues"]["names"])) == (70, 50)
