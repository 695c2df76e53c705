"""Parameters and global parameters over HTTP: answers as recorded of RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin_ui.world import World

NO_OBJECT = {"error": "Object Not Found", "reason": "Not Found"}
KEY_MISSING = {"error": "bad_request", "reason": "[{key_missing,value}]"}


def failed(problem: str) -> dict[str, Any]:
    return {"error": "bad_request", "reason": f"Validation failed\n\n{problem}\n"}


async def test_global_parameters(shop: World) -> None:
    own = {"name": "internal_cluster_id", "value": shop.broker.identity.store_id}
    assert await shop.get("/global-parameters") == [own]
    reply = await shop.call("PUT", "/api/global-parameters/gp1", body="{}")
    assert (reply.status, reply.json) == (400, KEY_MISSING)
    for status in (201, 204):
        reply = await shop.call("PUT", "/api/global-parameters/gp1", body='{"value":{"a":[1]}}')
        assert (reply.status, reply.body) == (status, b"")
    made = {"name": "gp1", "value": {"a": [1]}}
    assert await shop.get("/global-parameters") == [made, own]
    assert await shop.get("/global-parameters/gp1") == made
    assert (await shop.get("/definitions"))["global_parameters"] == [made]
    assert (await shop.call("DELETE", "/api/global-parameters/gp1")).status == 204
    gone = await shop.call("DELETE", "/api/global-parameters/gp1")
    assert (gone.status, gone.json) == (404, NO_OBJECT)
    for method in ("PUT", "DELETE"):
        reply = await shop.call(method, "/api/global-parameters/internal_cluster_id", body='{"value":1}')
        assert reply.status in (400, 404)


@pytest.mark.parametrize("component", ["federation-upstream", "nocomp"])
async def test_an_unknown_component(shop: World, component: str) -> None:
    reply = await shop.call("PUT", f"/api/parameters/{component}/shop/a", body='{"value":"x"}')
    assert (reply.status, reply.json) == (400, failed(f"component {component} not found"))
    assert await shop.get(f"/parameters/{component}") == []


async def test_an_operator_policy_is_a_parameter(shop: World) -> None:
    value = '{"value":{"apply-to":"queues","definition":{"max-length":1000000},"pattern":".*","priority":0}}'
    reply = await shop.call("PUT", "/api/parameters/operator_policy/shop/cap", body=value)
    assert (reply.status, reply.body) == (201, b"")
    found = {
        "value": {
            "apply-to": "queues",
            "definition": {"max-length": 1000000},
            "pattern": ".*",
            "priority": 0,
        },
        "vhost": "shop",
        "component": "operator_policy",
        "name": "cap",
    }
    for path in ("/parameters", "/parameters/operator_policy", "/parameters/operator_policy/shop"):
        assert await shop.get(path) == [found]
    assert await shop.get("/parameters/operator_policy/shop/cap") == found
    assert await shop.get("/parameters/operator_policy/staging") == []
    assert [each["name"] for each in await shop.get("/operator-policies")] == ["cap"]
    assert (await shop.get("/queues/shop/emails"))["operator_policy"] == "cap"
    assert (await shop.call("DELETE", "/api/parameters/operator_policy/shop/cap")).status == 204
    gone = await shop.call("GET", "/api/parameters/operator_policy/shop/cap")
    assert (gone.status, gone.json) == (404, NO_OBJECT)
    assert (await shop.get("/queues/shop/emails"))["operator_policy"] is None


async def test_policies_have_paths_of_their_own(shop: World) -> None:
    policy = '{"pattern":"x","definition":{"max-length":5}}'
    await shop.call("PUT", "/api/policies/shop/p", body=policy)
    assert await shop.get("/parameters") == []
    reply = await shop.call("PUT", "/api/parameters/policy/shop/p", body=f'{{"value":{policy}}}')
    assert (reply.status, reply.json["reason"]) == (400, "policies may not be set using this method")
    assert (await shop.call("DELETE", "/api/parameters/policy/shop/p")).status == 400


async def test_who_may(shop: World) -> None:
    refused = {"error": "not_authorised", "reason": "User not authorised to access object"}
    for user in ("alice", "bob"):
        for method, path in (
            ("GET", "/global-parameters"),
            ("PUT", "/global-parameters/a"),
            ("GET", "/parameters"),
            ("PUT", "/parameters/operator_policy/shop/a"),
        ):
            reply = await shop.call(
                method, "/api" + path, user, body='{"value":1}' if method == "PUT" else None
            )
            assert (reply.status, reply.json) == (401, refused)
    assert (await shop.call("GET", "/api/global-parameters", "carol")).status == 200
