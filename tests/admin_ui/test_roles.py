"""Who may call what: every endpoint with a user of each role, as measured with RabbitMQ 3.10.8."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from admin_ui.api import ENDPOINTS
from admin_ui.endpoints import Endpoint
from tests.admin_ui.world import NODE, World

#: Method, path, and for each user RabbitMQ's reason for a 401; empty if there was none, ? if it failed (500).
ROLES: list[dict[str, str]] = json.loads(Path(__file__).with_name("roles.json").read_text())
USERS = {"dave": "", "alice": "management", "bob": "monitoring", "carol": "policymaker"}
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
}


@pytest.fixture
async def roles(node: World) -> World:
    for name, tag in USERS.items():
        node.add_user(name, *([tag] if tag else []), vhosts=("/",))
    node.broker.vhosts["/"].declare_queue("orders")
    return node


async def test_every_endpoint_with_every_role(roles: World) -> None:
    wrong = []
    for row in ROLES:
        path = "/api" + row["path"].replace("NODE", NODE)
        body = "{}" if row["method"] in ("PUT", "POST") else None
        for user in (*USERS, "guest"):
            reply = await roles.call(row["method"], path, user, body=body)
            reason = reply.json["reason"] if reply.status == 401 else ""
            assert reply.status < 500 or reply.json.get("status") == "failed", (row, user, reply)
            if row[user] not in ("?", reason):
                wrong.append((row["method"], path, user, row[user], reason))
    assert wrong == []


def test_every_method_of_every_endpoint_is_in_the_table() -> None:
    assert [
        (method, endpoint.path)
        for endpoint in ENDPOINTS
        for method in endpoint.handlers
        if method != "HEAD" and endpoint.path not in OTHERS and not _is_in_table(endpoint, method)
    ] == []


def _is_in_table(endpoint: Endpoint, method: str) -> bool:
    form = re.compile(re.sub(r"\{\w+(:[^}]*)?\}", "[^/]+", endpoint.path))
    return any(row["method"] == method and form.fullmatch(row["path"]) for row in ROLES)
