"""Status, headers and bodies of refusals, and rabbitmqadmin's calls, as recorded of RabbitMQ 3.10.8."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from admin_ui.api import whole
from admin_ui.middlewares import HEADERS
from tests.admin_ui.world import World, basic

MALFORMED = {"error": "bad_request", "reason": "malformed Authorization header"}
REPLAYS: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("replays.json").read_text())


@pytest.mark.parametrize("pair", REPLAYS["errors"], ids=lambda pair: f"{pair['method']} {pair['path']}")
async def test_recorded_reply(shop: World, pair: dict[str, Any]) -> None:
    password = "wrong" if pair.get("wrong_password") else None
    reply = await shop.call(pair["method"], pair["path"], pair.get("user"), password)
    assert reply.status == pair["status"]
    expected = {name: value for name, value in pair.get("headers", {}).items() if name != "allow"}
    assert {name: reply.headers.get(name) for name in expected} == expected
    if "allow" in pair.get("headers", {}):
        assert reply.headers["allow"] == pair["headers"]["allow"]
    if "www-authenticate" not in pair.get("headers", {}):
        assert "www-authenticate" not in reply.headers
    if "body" in pair:
        assert reply.json == pair["body"]
    elif pair["status"] == 405:
        assert reply.json["error"] == "method_not_allowed"  # RabbitMQ's is empty, which looks like success
    elif pair["status"] >= 400:
        assert reply.json.keys() == {"error", "reason"}  # RabbitMQ's is empty


@pytest.mark.parametrize("call", REPLAYS["rabbitmqadmin"], ids=lambda call: call["path"])
async def test_call_of_rabbitmqadmin(shop: World, call: dict[str, Any]) -> None:
    reply = await shop.call("GET", call["path"])
    assert reply.status == call["status"]
    assert reply.json is not None


@pytest.mark.parametrize(
    ("header", "status", "body"),
    [
        ("Basic !!!", 400, MALFORMED),
        ("Basic " + "bm9jb2xvbg==", 400, MALFORMED),
        ("Bearer abc", 401, {"error": "not_authorized", "reason": "Login failed"}),
        (basic("nobody", "x"), 401, {"error": "not_authorized", "reason": "Login failed"}),
        (basic("guest", ""), 401, {"error": "not_authorized", "reason": "Login failed"}),
        (basic("gu\0est", "guest"), 401, {"error": "not_authorized", "reason": "Login failed"}),
        (basic("guest", "guest"), 200, {"name": "guest", "tags": ["administrator"]}),
        ("basic " + basic("guest", "guest").split()[1], 200, {"name": "guest", "tags": ["administrator"]}),
    ],
)
async def test_authorization_header(node: World, header: str, status: int, body: Any) -> None:
    reply = await node.call("GET", "/api/whoami", None, Authorization=header)
    assert (reply.status, reply.json) == (status, body)
    assert ("www-authenticate" in reply.headers) == (status == 401)


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("text/html", 406),
        ("application/xml, text/plain;q=0.5", 406),
        ("application/json", 200),
        ("text/html, application/json;q=0.9", 200),
        ("text/html, */*;q=0.1", 200),
        ("application/*", 200),
        ("", 200),
    ],
)
async def test_accept(node: World, accept: str, status: int) -> None:
    reply = await node.call("GET", "/api/overview", Accept=accept)
    assert reply.status == status
    if status == 406:
        assert reply.json["error"] == "not_acceptable"


async def test_method_is_looked_at_before_the_login(node: World) -> None:
    assert (await node.call("DELETE", "/api/overview", None)).status == 405
    reply = await node.call("OPTIONS", "/api/login", None)
    assert (reply.status, reply.headers["allow"]) == (200, "POST, OPTIONS")
    assert (await node.call("GET", "/api/login")).status == 405


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/queues/%2F"),
        ("GET", "/api/login"),
        ("PUT", "/api/nothing/here"),
        ("PUT", "/admin/v1/session"),
    ],
)
async def test_a_refused_method_does_not_look_like_success(node: World, method: str, path: str) -> None:
    """Scripts look for a body that says what happened."""
    reply = await node.call(method, path)
    assert reply.status == 405
    assert reply.json["error"] == "method_not_allowed"
    assert reply.json["reason"].startswith(f"{method} is not served here, nothing was changed; allowed: ")
    assert reply.headers["allow"] in reply.json["reason"]


async def test_an_error_in_the_middle_of_an_answer_closes_the_connection(
    node: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from admin_ui.documents import queues

    for number in range(500):
        node.broker.vhosts["/"].declare_queue(f"q{number}")
    document = queues.document

    def failing(queue: Any, *more: Any) -> Any:
        if queue.name == "q99":  # the last by name
            raise RuntimeError("ours")
        return document(queue, *more)

    monkeypatch.setattr(queues, "document", failing)
    with pytest.raises(aiohttp.ClientPayloadError):
        await node.call("GET", "/api/queues", **{"Accept-Encoding": "identity"})
    assert "RuntimeError: ours" in caplog.text
    assert (await node.call("GET", "/api/whoami")).status == 200


async def test_method_on_an_unknown_path(node: World) -> None:
    for method, status in (("GET", 404), ("HEAD", 404), ("OPTIONS", 200), ("POST", 405), ("PATCH", 405)):
        reply = await node.call(method, "/api/nothing/here")
        assert reply.status == status
        assert reply.headers.get("allow") == (None if status == 404 else "HEAD, GET, OPTIONS")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("port-listener/abc", "Invalid port"),
        (
            "certificate-expiration/1/centuries",
            "Time unit not recognised. Supported units: days, weeks, months, years.",
        ),
    ],
)
async def test_wrong_health_check(node: World, path: str, reason: str) -> None:
    reply = await node.call("GET", f"/api/health/checks/{path}")
    assert (reply.status, reply.json) == (400, {"error": "bad_request", "reason": reason})


async def test_health_check_of_definitions(node: World) -> None:
    path = "/api/health/checks/metadata-store/initialized"
    assert (await node.call("GET", path)).json == {"status": "ok"}
    node.broker.commits.fail(RuntimeError("the disk is full"))
    reply = await node.call("GET", path)
    assert (reply.status, reply.json) == (503, {"status": "failed", "reason": "the disk is full"})
    node.broker.commits.recover()
    assert (await node.call("GET", path)).status == 200


@pytest.mark.parametrize(("path", "place"), [("alarms", "in the cluster"), ("local-alarms", "on the node")])
async def test_health_check_of_alarms(node: World, path: str, place: str) -> None:
    path = f"/api/health/checks/{path}"
    assert (await node.call("GET", path)).json == {"status": "ok"}
    node.broker.alarms.set("disk")
    reply = await node.call("GET", path)
    alarms = [{"node": node.broker.settings.node, "resource": "disk space"}]
    assert reply.status == 503
    assert reply.json == {
        "status": "failed",
        "reason": f"There are alarms in effect {place}",
        "alarms": alarms,
    }
    name = (await node.call("GET", "/api/nodes")).json[0]
    assert (name["mem_alarm"], name["disk_free_alarm"]) == (False, True)
    node.broker.alarms.clear("disk")
    assert (await node.call("GET", path)).status == 200


async def test_index_lists_what_there_is_without_a_login(node: World) -> None:
    page = await node.call("GET", "/api/index.html", None)
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    assert b"/api/health/checks/alarms" in page.body
    assert (await node.call("GET", "/api/auth", None)).json["enable_uaa"] is False


@pytest.mark.parametrize("path", ["/api/whoami", "/api/nope", "/nothing/here", "/api/index.html"])
async def test_every_reply_has_the_security_headers(node: World, path: str) -> None:
    reply = await node.call("GET", path, None)
    assert {name: reply.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["server"] == "amqp-router"


async def test_unexpected_exception_is_a_500_and_the_node_lives_on(
    node: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*args: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(whole.node, "document", fails)
    with caplog.at_level(logging.ERROR):
        reply = await node.call("GET", "/api/nodes")
    assert reply.status == 500
    assert reply.json == {"error": "internal_error", "reason": "an error of the server, see its log"}
    assert "planted" in caplog.text
    assert "GET /api/nodes" in caplog.text
    assert await node.get("/whoami")
