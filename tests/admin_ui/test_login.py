"""``POST /api/login``: a form opens a session."""

from __future__ import annotations

import pytest

from tests.admin_ui.world import World

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def test_a_session_as_of_the_pages(shop: World) -> None:
    reply = await shop.call("POST", "/api/login", None, body="username=alice&password=alice-pw", **FORM)
    assert (reply.status, reply.json) == (200, "ok")
    cookie = reply.headers["Set-Cookie"]
    assert "alice" not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    sent = {"Cookie": cookie.partition(";")[0]}
    assert (await shop.call("GET", "/api/whoami", None, **sent)).json["name"] == "alice"
    assert (await shop.call("PUT", "/api/queues/shop/mine", None, body="{}", **sent)).status == 403
    me = (await shop.call("GET", "/admin/v1/session", None, **sent)).json
    sent["X-CSRF-Token"] = me["csrf_token"]
    assert (await shop.call("PUT", "/api/queues/shop/mine", None, body="{}", **sent)).status == 201


@pytest.mark.parametrize(
    ("form", "status", "reason"),
    [
        ("username=alice&password=wrong", 401, "Login failed"),
        ("username=dave&password=dave-pw", 401, "Not management user"),
        ("username=alice", 400, "[{key_missing,password}]"),
        ("", 400, "[{key_missing,username},{key_missing,password}]"),
        ('{"username":"alice"}', 400, "[{key_missing,username},{key_missing,password}]"),
        ("&".join(["a=b"] * 20), 400, "not_a_form"),
    ],
)
async def test_what_is_refused(shop: World, form: str, status: int, reason: str) -> None:
    reply = await shop.call("POST", "/api/login", None, body=form, **FORM)
    assert (reply.status, reply.json["reason"]) == (status, reason)
    assert "Set-Cookie" not in reply.headers


async def test_pages_of_other_sites_cannot_log_in(shop: World) -> None:
    body = "username=alice&password=alice-pw"
    reply = await shop.call("POST", "/api/login", None, body=body, Origin="http://evil.example", **FORM)
    assert reply.status == 403


async def test_guessing_is_slowed_down(shop: World) -> None:
    for n in range(3):
        await shop.call("POST", "/api/login", None, body=f"username=alice&password={n}", **FORM)
    reply = await shop.call("POST", "/api/login", None, body="username=alice&password=4", **FORM)
    assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
