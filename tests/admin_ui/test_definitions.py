"""Definitions imported over HTTP: answers as recorded of RabbitMQ 3.10.8, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.admin_ui.world import World, basic, world

SECTIONS = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)


def bad(reason: Any) -> dict[str, Any]:
    return {"error": "bad_request", "reason": reason}


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """The sections, each as a set of texts."""
    return {
        section: sorted(json.dumps(each, sort_keys=True) for each in found[section]) for section in SECTIONS
    }


@pytest.mark.parametrize(
    ("path", "body", "status", "answer"),
    [
        ("/definitions", "{}", 204, None),
        ("/definitions", "", 204, None),
        ("/definitions", "{bad", 400, bad("failed_to_parse_json")),
        ("/definitions", "[]", 400, bad("failed_to_parse_json")),
        (
            "/definitions",
            '{"queues":[{"name":"qq","vhost":"nosuch","durable":true,"auto_delete":false,"arguments":{}}]}',
            400,
            bad(["no_such_vhost", "nosuch"]),
        ),
        (
            "/definitions/shop",
            '{"queues":[{"name":"qq"}]}',
            400,
            bad("[{key_missing,durable},{key_missing,auto_delete},{key_missing,arguments}]"),
        ),
        (
            "/definitions/shop",
            '{"queues":[{"name":"qq","durable":true,"auto_delete":false,"arguments":{}}],"exchanges":[],'
            '"bindings":[],"policies":[]}',
            204,
            None,
        ),
        ("/definitions", '{"queues":{}}', 400, bad("queues is not a list of objects")),
        (
            "/definitions",
            '{"permissions":[{"user":"x","vhost":"shop","configure":"","write":"","read":""}]}',
            400,
            bad(["no_such_user", "x"]),
        ),
        ("/definitions/nosuch", "{}", 404, {"error": "not_found", "reason": "vhost_not_found"}),
    ],
)
async def test_answers(shop: World, path: str, body: str, status: int, answer: Any) -> None:
    reply = await shop.call("POST", "/api" + path, body=body)
    assert (reply.status, reply.json) == (status, answer)


async def test_only_administrators(shop: World) -> None:
    for user in ("alice", "bob", "carol"):
        assert (await shop.call("POST", "/api/definitions", user, body="{}")).status == 401


async def test_a_round_trip(shop: World, tmp_path: Path) -> None:
    """What one broker exports another one imports, and exports in the same form."""
    body = {"description": "Online shop", "tags": ["a"]}
    await shop.call("PUT", "/api/vhosts/shop", body=json.dumps(body))
    await shop.call("PUT", "/api/policies/shop/p", body='{"pattern":"x","definition":{"max-length":5}}')
    limits = '{"pattern":"x","definition":{"expires":5000}}'
    await shop.call("PUT", "/api/operator-policies/shop/o", body=limits)
    topic = '{"exchange":"orders","write":"^eu","read":".*"}'
    await shop.call("PUT", "/api/topic-permissions/shop/alice", body=topic)
    await shop.call("PUT", "/api/user-limits/alice/max-channels", body='{"value":9}')
    await shop.call("PUT", "/api/vhost-limits/shop/max-queues", body='{"value":900}')
    await shop.call("PUT", "/api/global-parameters/owner", body='{"value":{"team":"checkout"}}')
    exported = await shop.get("/definitions")
    (tmp_path / "other").mkdir()
    async with world(tmp_path / "other") as other:
        for _ in range(2):
            reply = await other.call("POST", "/api/definitions", body=json.dumps(exported))
            assert (reply.status, reply.json) == (204, None)
            assert comparable(await other.get("/definitions")) == comparable(exported)
        # Users log in with the passwords they had.
        assert (await other.call("GET", "/api/whoami", "alice")).json["name"] == "alice"


async def test_a_file_of_rabbitmq(node: World) -> None:
    """As exported from RabbitMQ 3.10.8: what this broker does not have is named, all else is there."""
    exported = json.loads(Path(__file__).with_name("rabbitmq_definitions.json").read_text())
    reply = await node.call("POST", "/api/definitions", body=json.dumps(exported))
    left_out = [] if reply.status == 204 else reply.json["left_out"]
    assert {each["section"] for each in left_out} <= {"queues", "bindings", "exchanges", "parameters"}
    names = {each["name"] for each in left_out if each["section"] == "queues"}
    # An administrator of the file; guest has the password of the file, too.
    found = await node.get("/definitions", "erin")
    for section in ("policies", "exchanges"):
        assert len(found[section]) == len(exported[section])
    assert {each["name"] for each in exported["queues"]} - names == {each["name"] for each in found["queues"]}
    strict = await node.call("POST", "/api/definitions?strict=true", "erin", body=json.dumps(exported))
    assert strict.status == (400 if left_out else 204)


#: As ``rabbitmqctl export_definitions`` of RabbitMQ 3.10.8 writes them; the HTTP API writes objects.
OF_RABBITMQCTL = {
    "vhosts": [
        {"limits": [["max-queues", 100]], "metadata": {"description": "", "tags": ""}, "name": "shop"},
        {"limits": [], "metadata": {"description": "Default virtual host", "tags": []}, "name": "/"},
    ],
    "parameters": [
        {
            "component": "operator_policy",
            "name": "cap",
            "value": {
                "apply-to": "all",
                "definition": [["max-length", 100000]],
                "pattern": "^orders",
                "priority": 0,
            },
            "vhost": "shop",
        },
        {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 100}, "vhost": "shop"},
    ],
}


async def test_a_file_of_rabbitmqctl(shop: World) -> None:
    reply = await shop.call("POST", "/api/definitions?strict=true", body=json.dumps(OF_RABBITMQCTL))
    assert reply.status == 204, reply
    [policy] = await shop.get("/operator-policies/shop")
    assert policy["definition"] == {"max-length": 100000}
    assert (await shop.get("/vhost-limits/shop"))[0]["value"] == {"max-queues": 100}
    again = await shop.call("POST", "/admin/v1/previews/definitions", body=json.dumps(OF_RABBITMQCTL))
    assert [(row["section"], row["same"]) for row in again.json] == [("vhosts", 2), ("parameters", 2)]
    for wrong in ([["max-length"]], [[1, 2]], [], "x"):
        OF_RABBITMQCTL["parameters"][0]["value"]["definition"] = wrong  # type: ignore[index]
        reply = await shop.call("POST", "/api/definitions", body=json.dumps(OF_RABBITMQCTL))
        assert [each["name"] for each in reply.json["left_out"]] == ["cap"], wrong


async def test_what_is_left_out_is_named(shop: World) -> None:
    content = {
        "parameters": [
            {"vhost": "shop", "component": "shovel", "name": "s", "value": {}},
        ],
        "exchanges": [
            {
                "name": "odd",
                "vhost": "shop",
                "type": "x-odd",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
        ],
        "queues": [
            {"name": "new", "vhost": "shop", "durable": True, "auto_delete": False, "arguments": {}},
        ],
    }
    reply = await shop.call("POST", "/api/definitions", body=json.dumps(content))
    assert reply.status == 200
    assert reply.json == {
        "left_out": [
            {
                "section": "parameters",
                "vhost": "shop",
                "component": "shovel",
                "name": "s",
                "reason": "Validation failed\n\ncomponent shovel not found\n",
            },
            {
                "section": "exchanges",
                "vhost": "shop",
                "name": "odd",
                "reason": "unknown exchange type 'x-odd'",
            },
        ]
    }
    assert "new" in shop.broker.vhosts["shop"].queues
    del content["queues"]
    reply = await shop.call("POST", "/api/definitions?strict=true", body=json.dumps(content))
    assert reply.status == 400
    assert "component shovel not found" in reply.json["reason"]


async def test_what_exists_stays(shop: World) -> None:
    """Queues and exchanges cannot change; RabbitMQ passes over them, too."""
    await shop.call("PUT", "/api/queues/shop/kept", body='{"durable":true}')
    queue = {"name": "kept", "durable": False, "auto_delete": True, "arguments": {"x-max-length": 1}}
    reply = await shop.call("POST", "/api/definitions/shop", body=json.dumps({"queues": [queue]}))
    assert reply.status == 204
    assert bool(shop.broker.vhosts["shop"].queues["kept"].durable)


async def test_a_form_with_a_file(node: World) -> None:
    form = aiohttp.FormData()
    content = {"vhosts": [{"name": "v"}]}
    form.add_field("file", json.dumps(content), filename="d.json", content_type="application/json")
    headers = {"Authorization": basic("guest", "guest")}
    async with node.http.post(node.base + "/api/definitions", data=form, headers=headers) as response:
        assert response.status == 204
    assert "v" in node.broker.vhosts
    form = aiohttp.FormData()
    form.add_field("other", "x", filename="x")
    async with node.http.post(node.base + "/api/definitions", data=form, headers=headers) as response:
        assert response.status == 400
