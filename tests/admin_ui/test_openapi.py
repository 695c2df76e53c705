"""The OpenAPI document: it has every path, and every body."""

from __future__ import annotations

import re

from admin_ui.api import ENDPOINTS
from admin_ui.openapi import BODIES, plain
from tests.admin_ui.world import World


async def test_document(node: World) -> None:
    reply = await node.call("GET", "/admin/v1/openapi.json", None)
    assert reply.status == 200
    document = reply.json
    assert document["openapi"] == "3.1.0"
    assert {f"/api{plain(each.path)}" for each in ENDPOINTS if each.handlers} <= document["paths"].keys()
    names = [
        each["operationId"]
        for path in document["paths"].values()
        for each in path.values()
        if "operationId" in each
    ]
    assert len(names) == len(set(names))
    described = set()
    for path, operations in document["paths"].items():
        parts = set(re.findall(r"\{(\w+)\}", path))
        assert {each["name"] for each in operations.get("parameters", [])} == parts
        for method, operation in operations.items():
            if method in ("put", "post"):
                assert "requestBody" in operation, (method, path)
                described.add((method.upper(), re.sub("^(/api|/admin/v1)", "", path)))
            if method != "parameters":
                assert operation["summary"], (method, path)
    assert described == BODIES.keys()
