"""Who may call what: every endpoint with a user of each role, and with an API token for each role.

What `/api` answers is as measured with RabbitMQ 3.10.8; what `/admin/v1` shares with it follows that table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admin_ui.api import ENDPOINTS, OBJECTS
from admin_ui.app import OURS
from admin_ui.endpoints import API, PAGES
from admin_ui.openapi import plain
from tests.admin_ui.world import NODE, World

#: Method, path, and for each user RabbitMQ's reason for a 401; empty if there was none, ? if it failed (500).
ROLES: list[dict[str, str]] = json.loads(Path(__file__).with_name("roles.json").read_text())
USERS = {"dave": "", "alice": "management", "bob": "monitoring", "carol": "policymaker"}
TAGS = {**USERS, "guest": "administrator"}
#: Endpoints that RabbitMQ 3.10 does not have, or that differ from it only in their path.
OTHERS = {
    "/all-configuration",
    "/nodes/{node}/memory/relative",
    "/topic-permissions/{vhost}/{user}/{exchange}",
    "/channels/{channel}",
    "/health/checks/is-in-service",
    "/health/checks/ready-to-serve-clients",
    "/health/checks/below-node-connection-limit",
    "/health/checks/reached-target-cluster-size",
    "/health/checks/metadata-store/initialized",
    "/login",
}
#: Paths of `/api` that need no login.
OPEN = {"/auth"}

NO_MONITOR = "Not monitor user"
NO_TAG, ADMIN, OBJECT = (
    "Not management user",
    "Not administrator user",
    "User not authorised to access object",
)


def row(method: str, path: str, alice: str, bob: str, carol: str, guest: str = "") -> dict[str, str]:
    """Who may call one of our own paths. Nobody may without one of the tags."""
    reasons = {"dave": NO_TAG, "alice": alice, "bob": bob, "carol": carol, "guest": guest}
    return {"method": method, "path": path, **reasons}


def everybody(method: str, path: str) -> dict[str, str]:
    return row(method, path, "", "", "")


def administrators(method: str, path: str) -> dict[str, str]:
    return row(method, path, ADMIN, ADMIN, ADMIN)


#: The paths that `/admin/v1` has of its own. Who may look for what is not there gets a 404.
OWN = [
    everybody("GET", "/attention"),
    everybody("POST", "/sparklines"),
    everybody("GET", "/events"),
    everybody("GET", "/incidents"),
    everybody("GET", "/channels"),
    everybody("GET", "/connections"),
    everybody("GET", "/tokens"),
    everybody("POST", "/tokens"),
    everybody("DELETE", "/tokens/0123456789ab"),
    everybody("DELETE", "/queues/%2F/orders/consumers/nosuch"),
    everybody("GET", "/queues/%2F/orders/moves"),
    everybody("POST", "/queues/%2F/orders/moves"),
    everybody("GET", "/moves"),
    everybody("GET", "/moves/1"),
    everybody("DELETE", "/moves/1"),
    everybody("GET", "/exchanges/%2F/amq.topic/delayed"),
    everybody("DELETE", "/exchanges/%2F/amq.topic/delayed"),
    everybody("DELETE", "/exchanges/%2F/amq.topic/delayed/1-1"),
    row("POST", "/previews/policy", OBJECT, OBJECT, ""),
    administrators("POST", "/previews/definitions"),
    administrators("POST", "/previews/definitions/%2F"),
    administrators("GET", "/environment"),
    everybody("GET", "/vhosts/%2F"),
    administrators("PUT", "/vhosts/%2F"),
    administrators("DELETE", "/vhosts/nosuch"),
]
#: Those that need no login: the document about all paths, and what the login is made of.
OWN_OPEN = {("GET", "/openapi.json"), ("GET", "/session"), ("POST", "/session"), ("DELETE", "/session")}
#: For those who watch the node, on the admin port too.
SCRAPES = [
    {**row("GET", f"/metrics{more}", NO_MONITOR, "", NO_MONITOR), "dave": NO_MONITOR}
    for more in ("", "/per-object", "/detailed")
]


def _is_in(rows: list[dict[str, str]], path: str, method: str) -> bool:
    form = re.compile(re.sub(r"\{\w+\}", "[^/]+", plain(path)))
    return any(each["method"] == method and form.fullmatch(each["path"]) for each in rows)


def shared() -> list[dict[str, str]]:
    """The rows of RabbitMQ's table for what `/admin/v1` shares with `/api`."""
    own = {plain(each.path) for each in OBJECTS if each not in ENDPOINTS}
    served = [
        (each.path, method) for each in OBJECTS if plain(each.path) not in own for method in each.handlers
    ]
    return [each for each in ROLES if any(_is_in([each], path, method) for path, method in served)]


TABLE = [
    *[{**each, "path": API + each["path"]} for each in ROLES],
    *[{**each, "path": PAGES + each["path"]} for each in (*shared(), *OWN)],
    *SCRAPES,
]


@pytest.fixture
async def roles(node: World) -> World:
    for name, tag in USERS.items():
        node.add_user(name, *([tag] if tag else []), vhosts=("/",))
    node.broker.vhosts["/"].declare_queue("orders")
    return node


async def ask(node: World, each: dict[str, str], user: str | None, **headers: str) -> tuple[int, Any]:
    """Status of a call, and the reason of a 401."""
    path = each["path"].replace("NODE", NODE)
    body = "{}" if each["method"] in ("PUT", "POST") else None
    reply = await node.call(each["method"], path, user, body=body, **headers)
    said = reply.json if reply.headers.get("Content-Type", "").startswith("application/json") else {}
    assert reply.status < 500 or said.get("status") == "failed", (each, user, reply)
    return reply.status, said["reason"] if reply.status == 401 else ""


async def test_every_endpoint_with_every_role(roles: World) -> None:
    wrong = []
    for each in TABLE:
        for user in TAGS:
            _, reason = await ask(roles, each, user)
            if each[user] not in ("?", reason):
                wrong.append((each["method"], each["path"], user, each[user], reason))
    assert wrong == []


async def test_every_endpoint_with_a_token_of_every_role(roles: World) -> None:
    """An administrator's token with a smaller role may as much as a user with that role, and no more."""
    tokens = {}
    for user, tag in TAGS.items():
        if tag:
            body = json.dumps({"user": "guest", "tags": [tag]})
            tokens[user] = (await roles.call("POST", f"{PAGES}/tokens", body=body)).json["token"]
    wrong = []
    for each in TABLE:
        if each["path"].startswith(f"{PAGES}/tokens") or "/username/guest" in each["path"]:
            continue  # the user's own: a token for them is of another kind, or it is guest's
        for user, token in tokens.items():
            _, reason = await ask(roles, each, None, Authorization=f"Bearer {token}")
            if each[user] not in ("?", reason):
                wrong.append((each["method"], each["path"], user, each[user], reason))
    assert wrong == []


async def test_every_endpoint_without_a_login_and_with_a_token_that_only_reads(roles: World) -> None:
    made = await roles.call("POST", f"{PAGES}/tokens", body='{"read_only":true}')
    token = made.json["token"]
    wrong = []
    for each in TABLE:
        status, _ = await ask(roles, each, None)
        if (status == 401) == (each["path"] in {API + path for path in OPEN}):
            wrong.append((each["method"], each["path"], status))
        _, reason = await ask(roles, each, None, Authorization=f"Bearer {token}")
        if each["method"] != "GET" and reason != "this token may only read":
            wrong.append((each["method"], each["path"], reason))
    assert wrong == []


def test_every_method_of_every_endpoint_is_in_the_table() -> None:
    assert [
        (method, endpoint.path)
        for endpoint in ENDPOINTS
        for method in endpoint.handlers
        if method != "HEAD" and endpoint.path not in OTHERS and not _is_in(ROLES, endpoint.path, method)
    ] == []


async def test_every_route_of_our_own_is_in_the_table(node: World) -> None:
    runner = node.admin._runner
    assert runner is not None
    rows = [*shared(), *OWN]
    missing = []
    for method, path in _routes(runner.app):
        known = path in OTHERS or (method, path) in OWN_OPEN or _is_in(rows, path, method)
        if not known:
            missing.append((method, path))
    assert missing == []


def _routes(app: Any) -> Iterator[tuple[str, str]]:
    """Methods and paths below `/admin/v1`; of a path with several methods that of each."""
    methods = {plain(each.path): [*each.handlers] for each in (*OBJECTS, *OURS)}
    methods["/openapi.json"] = ["GET"]
    for route in app.router.routes():
        path = plain(route.resource.canonical)
        if path.startswith(PAGES):
            path = path.removeprefix(PAGES).rstrip("/")
            found = [route.method] if route.method != "*" else methods[path]
            yield from ((method, path) for method in found if method != "HEAD")


async def test_monitoring_alone_opens_no_virtual_host(shop: World) -> None:
    """As in RabbitMQ: the tag shows the node and names of virtual hosts. Bob has no permission in one."""
    assert "staging" in [each["name"] for each in await shop.get("/vhosts", "bob")]
    for path in ("/queues/staging", "/exchanges/staging", "/bindings/staging", "/vhosts/staging/connections"):
        reply = await shop.call("GET", f"/api{path}", "bob")
        assert (reply.status, reply.json["reason"]) == (401, "User not authorised to access virtual host")
    assert (await shop.call("GET", "/api/vhost-limits/staging", "bob")).status == 200
    assert (await shop.call("GET", "/api/consumers/staging", "bob")).json == []
