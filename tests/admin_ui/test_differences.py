"""What an import of definitions would do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admin_ui.differences import NAMES_MAX
from tests.admin_ui.world import World

PATH = "/admin/v1/previews/definitions"


async def preview(shop: World, file: Any, where: str = "") -> dict[str, Any]:
    reply = await shop.call("POST", PATH + where, body=json.dumps(file))
    assert reply.status == 200, reply
    return {row.pop("section"): row for row in reply.json}


async def test_its_own_export_brings_nothing(shop: World) -> None:
    await shop.call("PUT", "/api/policies/shop/short", body='{"pattern":"x","definition":{"max-length":5}}')
    file = await shop.get("/definitions")
    rows = await preview(shop, file)
    assert {"users", "vhosts", "permissions", "policies", "queues", "exchanges", "bindings"} <= rows.keys()
    for section, row in rows.items():
        assert row["same"] == len(file[section]), section
        assert [row[kind]["total"] for kind in ("added", "changed", "kept")] == [0, 0, 0], section
    rows = await preview(shop, await shop.get("/definitions/shop"), "/shop")
    assert all(
        row["added"]["total"] == row["changed"]["total"] == row["kept"]["total"] == 0 for row in rows.values()
    )


async def test_other_ways_to_say_the_same(shop: World) -> None:
    file = await shop.get("/definitions")
    alice = next(user for user in file["users"] if user["name"] == "alice")
    del alice["limits"], alice["hashing_algorithm"]
    alice["tags"] = "management"
    rows = await preview(
        shop,
        {
            "users": [alice],
            "vhosts": [{"name": "shop", "metadata": {"description": "", "tags": []}}],
            "exchanges": [{"vhost": "/", "name": "amq.topic", "type": "direct"}],
            "global_parameters": [{"name": "internal_cluster_id", "value": "x"}],
        },
    )
    assert [row["same"] for row in rows.values()] == [1, 1, 1, 1]


async def test_what_is_new_changes_and_stays(shop: World) -> None:
    before = await shop.get("/definitions")
    queue = {"vhost": "shop", "name": "orders.eu", "durable": False, "auto_delete": False, "arguments": {}}
    binding = {"vhost": "shop", "source": "orders", "destination": "orders.eu", "destination_type": "queue"}
    rows = await preview(
        shop,
        {
            "users": [
                {"name": "alice", "tags": "administrator"},
                {"name": "ada", "tags": [], "password": "secret"},
            ],
            "queues": [queue, {**queue, "name": "new"}, {**queue, "vhost": "/", "name": "new"}],
            "bindings": [
                {**binding, "routing_key": "eu.#", "arguments": {}},
                {**binding, "routing_key": "eu.#", "arguments": {"x": 1}},
            ],
        },
    )
    assert (rows["users"]["added"]["names"], rows["users"]["changed"]["names"]) == (["ada"], ["alice"])
    assert (rows["queues"]["kept"]["total"], rows["queues"]["kept"]["names"]) == (1, ["shop · orders.eu"])
    assert rows["queues"]["added"]["names"] == ["shop · new", "new"]
    assert rows["bindings"]["same"] == 1
    assert rows["bindings"]["added"]["names"] == ["shop · orders · queue · orders.eu · eu.#"]
    assert await shop.get("/definitions") == before


async def test_what_this_broker_cannot_have_is_named_before_an_import(shop: World) -> None:
    """And an import leaves out just that."""
    queue = {"vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}}
    file = {
        "parameters": [
            {"vhost": "shop", "component": "shovel", "name": "s", "value": {}},
            {"vhost": "shop", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 90}},
        ],
        "policies": [
            {"vhost": "shop", "name": "long", "pattern": "x", "definition": {"max-length": "long"}},
            {"vhost": "shop", "name": "short", "pattern": "x", "definition": {"max-length": 5}},
        ],
        "queues": [
            {**queue, "name": "stream", "arguments": {"x-queue-type": "stream"}},
            {**queue, "name": "quorum", "arguments": {"x-queue-type": "quorum"}},
        ],
        "exchanges": [
            {
                "vhost": "shop",
                "name": name,
                "type": name,
                "durable": True,
                "auto_delete": False,
                "arguments": {},
            }
            for name in ("x-jms-topic", "x-random")
        ],
    }
    rows = await preview(shop, file)
    left_out = {section: row["left_out"]["names"] for section, row in rows.items()}
    assert left_out == {
        "parameters": ["shovel · shop · s"],
        "policies": ["shop · long"],
        "queues": ["shop · stream"],
        "exchanges": ["shop · x-jms-topic"],
    }
    assert {(row["added"]["total"], row["left_out"]["total"]) for row in rows.values()} == {(1, 1)}
    assert rows["parameters"]["left_out"]["reasons"] == ["component shovel not found"]
    assert rows["exchanges"]["left_out"]["reasons"] == ["unknown exchange type 'x-jms-topic'"]
    reply = await shop.call("POST", "/api/definitions", body=json.dumps(file))
    assert [each["name"] for each in reply.json["left_out"]] == ["s", "long", "stream", "x-jms-topic"]


async def test_what_of_a_user_changes(shop: World) -> None:
    """Above all its password: guest's own may be another in the file."""
    users = {user["name"]: user for user in (await shop.get("/definitions"))["users"]}
    guest, alice, bob = users["guest"], users["alice"], users["bob"]
    rows = await preview(
        shop,
        {
            "users": [
                {**guest, "password_hash": alice["password_hash"], "tags": ["management"]},
                {"name": "alice", "tags": alice["tags"]},
                {"name": "bob", "tags": bob["tags"], "password": "secret", "limits": {"max-channels": 5}},
            ]
        },
    )
    changed = rows["users"]["changed"]
    assert changed["names"] == ["guest", "alice", "bob"]
    assert changed["differs"] == [["password", "tags"], ["password removed"], ["password", "limits"]]


async def test_what_of_other_things_differs(shop: World) -> None:
    queue = {"vhost": "shop", "name": "orders.eu", "durable": False, "auto_delete": True, "arguments": {}}
    vhost = {"name": "shop", "metadata": {"description": "sells"}}
    rows = await preview(shop, {"vhosts": [vhost], "queues": [queue]})
    assert rows["vhosts"]["changed"]["differs"] == [["description"]]
    assert set(rows["queues"]["kept"]["differs"][0]) >= {"auto_delete"}


async def test_a_long_file(shop: World) -> None:
    queues = [{"name": f"q{n}", "durable": True, "auto_delete": False, "arguments": {}} for n in range(5000)]
    rows = await preview(shop, {"queues": queues}, "/shop")
    assert rows["queues"]["added"]["total"] == 5000
    assert len(rows["queues"]["added"]["names"]) == NAMES_MAX


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{}", "the file has no definitions"),
        ("", "the file has no definitions"),
        ("[]", "failed_to_parse_json"),
        ('{"queues":{}}', "queues is not a list of objects"),
        ('{"queues":[5]}', "queues is not a list of objects"),
    ],
)
async def test_what_is_no_file_of_definitions(shop: World, body: str, reason: str) -> None:
    reply = await shop.call("POST", PATH, body=body)
    assert (reply.status, reply.json["reason"]) == (400, reason)
    assert (await shop.call("POST", f"{PATH}/nosuch", body="{}")).status == 404
    assert (await shop.call("POST", PATH, "alice", body="{}")).status == 401
