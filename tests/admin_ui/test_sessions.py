"""Login, logout, and what a session does not let through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from admin_ui import sessions
from admin_ui.sessions import CSRF_HEADER, FILE, IDLE_S, LIFETIME_S, SESSIONS_MAX, Sessions
from admin_ui.state import STATE
from amqp_router.auth.throttle import FREE
from tests.admin_ui.world import Reply, World, world
from tests.auth.tags import give_tags

SESSION = "/admin/v1/session"
SPARKLINES = "/admin/v1/sparklines"
JSON = {"Content-Type": "application/json"}


async def log_in(node: World, name: str = "guest", password: str | None = None, **headers: str) -> Reply:
    known = "guest" if name == "guest" else f"{name}-pw"
    body = json.dumps({"username": name, "password": password or known})
    return await node.call("POST", SESSION, None, body=body, **{**JSON, **headers})


def app_of(node: World) -> web.Application:
    return node.admin._runner.app


def cookie_of(reply: Reply) -> str:
    return str(reply.headers["Set-Cookie"]).partition(";")[0]


async def test_nobody_is_an_answer(node: World) -> None:
    reply = await node.call("GET", SESSION, None)
    assert (reply.status, reply.json) == (200, {"name": None})


async def test_login_gives_a_cookie_that_scripts_and_other_sites_cannot_use(node: World) -> None:
    reply = await log_in(node)
    assert reply.status == 200
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "guest" not in cookie
    me = (await node.call("GET", SESSION, None, Cookie=cookie_of(reply))).json
    assert me == reply.json
    assert me["name"] == "guest"
    assert me["vhosts"] == ["/"]
    assert me["amqp_port"] == node.amqp[1]


async def test_the_session_opens_the_api(node: World) -> None:
    cookie = cookie_of(await log_in(node))
    assert (await node.call("GET", "/api/whoami", None, Cookie=cookie)).json["name"] == "guest"
    assert (await node.call("GET", "/api/whoami", None, Cookie=cookie + "x")).status == 401


async def test_logout_ends_it(node: World) -> None:
    reply = await log_in(node)
    cookie, token = cookie_of(reply), reply.json["csrf_token"]
    out = await node.call("DELETE", SESSION, None, Cookie=cookie, **{"X-CSRF-Token": token})
    assert out.status == 204
    assert (await node.call("GET", SESSION, None, Cookie=cookie)).json == {"name": None}
    assert (await node.call("GET", "/api/whoami", None, Cookie=cookie)).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"X-CSRF-Token": "wrong"}, 403),
        ({"X-CSRF-Token": "TOKEN"}, 200),
        ({"X-CSRF-Token": "TOKEN", "Origin": "http://evil.example"}, 403),
        ({"X-CSRF-Token": "TOKEN", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-CSRF-Token": "TOKEN", "Sec-Fetch-Site": "same-site"}, 403),
        ({"X-CSRF-Token": "TOKEN", "Origin": "HERE", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"X-CSRF-Token": "TOKEN", "Origin": "null"}, 403),
    ],
)
async def test_what_may_change_something_needs_the_token_and_our_page(
    node: World, headers: dict[str, str], status: int
) -> None:
    reply = await log_in(node)
    real = {"TOKEN": reply.json["csrf_token"], "HERE": node.base}
    sent = {name: real.get(value, value) for name, value in headers.items()}
    asked = await node.call(
        "POST", SPARKLINES, None, body='{"queues": []}', Cookie=cookie_of(reply), **sent, **JSON
    )
    assert asked.status == status


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_another_sites_page_cannot_log_in(node: World, headers: dict[str, str]) -> None:
    assert (await log_in(node, **headers)).status == 403


async def test_guest_is_refused_under_a_foreign_name(node: World) -> None:
    """DNS rebinding: the page's own name leads here, so that all looks like the same site."""
    reply = await log_in(node, Host="evil.example:15672", Origin="http://evil.example:15672")
    assert (reply.status, reply.json["reason"]) == (401, "User can only log in via localhost")
    node.add_user("alice", "management", vhosts=("/",))
    proxied = await log_in(node, "alice", Host="broker.example", Origin="http://broker.example")
    assert proxied.status == 200


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("{", JSON, 400),
        ("[]", JSON, 400),
        ('{"username": "guest"}', JSON, 400),
        ('{"username": 1, "password": "x"}', JSON, 400),
        ('{"username": "", "password": "x"}', JSON, 400),
        ('{"username": "guest", "password": "guest", "extra": 1}', JSON, 400),
        ('{"username": "\\ud800", "password": "x"}', JSON, 400),
        ('{"username": "guest", "password": "%s"}' % ("x" * 5000), JSON, 400),
        ('{"username": "guest", "password": "guest"}', {"Content-Type": "text/plain"}, 415),
    ],
)
async def test_bad_bodies(node: World, body: str, kind: dict[str, str], status: int) -> None:
    reply = await node.call("POST", SESSION, None, body=body, **kind)
    assert reply.status == status
    assert reply.json["error"] == "bad_request"
    assert "Set-Cookie" not in reply.headers


async def test_guessing_gets_slow(node: World) -> None:
    for number in range(FREE):
        reply = await log_in(node, password=f"wrong {number}")
        assert (reply.status, reply.json["reason"]) == (401, "Login failed")
        assert "WWW-Authenticate" not in reply.headers or reply.headers["WWW-Authenticate"]
    held = await log_in(node)
    assert held.status == 429
    assert 1 <= int(held.headers["Retry-After"]) <= 2
    assert "Set-Cookie" not in held.headers
    # One wait for both doors: the API is no way around it.
    assert (await node.call("GET", "/api/whoami")).status == 429


async def test_users_without_a_tag_of_the_management_are_refused(shop: World) -> None:
    assert (await log_in(shop, "dave")).json["reason"] == "Not management user"
    me = (await log_in(shop, "alice")).json
    assert (me["vhosts"], me["acts"]) == (["shop"], ["shop"])


async def test_changed_password_tags_or_user_end_it(shop: World) -> None:
    users = shop.broker.users

    async def still_in(cookie: str) -> bool:
        found = await shop.call("GET", SESSION, None, Cookie=cookie)
        return bool(found.json["name"])

    changes: list[Any] = [
        lambda: users.put_user("alice", b"alice-pw", ("management",)),
        lambda: give_tags(users, "alice", ("monitoring",)),
        lambda: users.delete_user("alice"),
    ]
    for change in changes:
        cookie = cookie_of(await log_in(shop, "alice"))
        assert await still_in(cookie)
        change()
        assert not await still_in(cookie)


async def test_who_changes_the_own_password_stays_and_other_sessions_end(shop: World) -> None:
    """By hand, by an import of definitions, and not by a call without the session."""
    mine, other = [cookie_of(await log_in(shop)) for _ in range(2)]

    async def is_in(cookie: str) -> bool:
        return bool((await shop.call("GET", SESSION, None, Cookie=cookie)).json["name"])

    async def call(method: str, path: str, body: Any, cookie: str) -> Reply:
        token = (await shop.call("GET", SESSION, None, Cookie=cookie)).json["csrf_token"]
        return await shop.call(
            method, path, None, body=json.dumps(body), Cookie=cookie, **{CSRF_HEADER: token}
        )

    body = {"password": "guest", "tags": "administrator"}
    assert (await call("PUT", "/api/users/guest", body, mine)).status == 204
    assert (await is_in(mine), await is_in(other)) == (True, False)
    other = cookie_of(await log_in(shop))
    user = {"name": "guest", "password": "guest", "tags": ["administrator"]}
    assert (await call("POST", "/api/definitions", {"users": [user]}, mine)).status == 204
    assert (await is_in(mine), await is_in(other)) == (True, False)
    # Fewer tags hold at once.
    assert (await call("PUT", "/api/users/guest", {**body, "tags": "management"}, mine)).status == 204
    assert (await shop.call("GET", "/api/whoami", None, Cookie=mine)).json["tags"] == ["management"]
    assert (await shop.call("GET", "/api/users", None, Cookie=mine)).status == 401
    # Of others nothing is known, whatever cookie comes along.
    shop.broker.users.put_user("guest", b"guest", ("administrator",))
    assert not await is_in(mine)
    kept = cookie_of(await log_in(shop))
    assert (await shop.call("PUT", "/api/users/guest", body=json.dumps(body), Cookie=kept)).status == 204
    assert not await is_in(kept)


class Clock:
    def __init__(self) -> None:
        self.now = 1.7e9

    def __call__(self) -> float:
        return self.now


async def test_idle_and_old_sessions_end(node: World) -> None:
    clock = Clock()
    kept = Sessions(app_of(node)[STATE], clock)
    user = kept._own_user("guest")
    assert user is not None
    number, _ = kept.open(user)
    clock.now += IDLE_S - 1
    assert kept.find(number)
    clock.now += IDLE_S + 1
    assert kept.find(number) is None
    number, _ = kept.open(user)
    for _ in range(int(LIFETIME_S // (IDLE_S - 1))):
        clock.now += IDLE_S - 1
        assert kept.find(number)
    clock.now += IDLE_S - 1
    assert kept.find(number) is None


async def test_sessions_are_bounded(node: World) -> None:
    clock = Clock()
    kept = Sessions(app_of(node)[STATE], clock)
    kept._store = lambda: None  # type: ignore[method-assign]  # a thousand files take their time
    user = kept._own_user("guest")
    assert user is not None
    first, _ = kept.open(user)
    clock.now += 1
    for _ in range(SESSIONS_MAX):
        kept.open(user)
    assert len(kept._sessions) == SESSIONS_MAX
    assert kept.find(first) is None


async def test_sessions_outlive_the_broker(tmp_path: Path) -> None:
    async with world(tmp_path) as node:
        kept = app_of(node)[sessions.SESSIONS]
        user = kept._own_user("guest")
        assert user is not None
        number, session = kept.open(user)
        path = tmp_path / "data" / FILE
        assert path.stat().st_mode & 0o777 == 0o600
        assert number not in path.read_text()
    async with world(tmp_path) as node:
        found = app_of(node)[sessions.SESSIONS].find(number)
        assert found is not None
        assert found.csrf_token == session.csrf_token


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sessions": [{}]}', '{"sessions": 3}'])
async def test_a_damaged_file_costs_the_sessions_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).write_text(text)
    async with world(tmp_path) as node:
        assert (await log_in(node)).status == 200
