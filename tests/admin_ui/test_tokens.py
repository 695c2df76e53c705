"""API tokens: what they may do, when they end, what is kept of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from admin_ui.app import Admin, AdminOptions
from admin_ui.auth import VERIFIER
from admin_ui.token_store import FILE, TOKENS, TOKENS_OF_USER_MAX, Tokens, shared_tags
from amqp_router.auth import LoopbackOnly
from amqp_router.auth.throttle import FREE
from tests.admin_ui.world import LOGGER, Reply, World
from tests.auth.tags import give_tags

PATH = "/admin/v1/tokens"


async def make(shop: World, by: str = "guest", **body: Any) -> Any:
    reply = await shop.call("POST", PATH, by, body=json.dumps(body))
    assert reply.status == 200, reply
    assert reply.headers["Cache-Control"] == "no-store"
    return reply.json


async def call(shop: World, token: str, path: str, method: str = "GET", body: str | None = None) -> Reply:
    return await shop.call(method, path, None, body=body, Authorization=f"Bearer {token}")


async def test_it_may_do_what_its_tags_say(shop: World) -> None:
    made = await make(shop, user="bob", name="prometheus", tags=["monitoring"], read_only=True)
    assert (made["user"], made["tags"], made["expired"], made["used"]) == ("bob", ["monitoring"], False, None)
    assert made["expires"] - made["created"] == 90 * 86_400_000
    token = made["token"]
    assert (await call(shop, token, "/api/whoami")).json["tags"] == ["monitoring"]
    for path in ("/api/nodes", "/api/queues/shop", "/metrics", "/admin/v1/attention"):
        assert (await call(shop, token, path)).status == 200, path
    assert (await call(shop, token, "/api/users")).json["reason"] == "Not administrator user"
    refused = await call(shop, token, "/api/queues/shop/emails/contents", "DELETE")
    assert (refused.status, refused.json["reason"]) == (401, "this token may only read")
    [listed] = (await shop.call("GET", PATH, "bob")).json
    assert listed["used"] is not None
    assert "token" not in listed


async def test_a_smaller_role_than_its_users(shop: World) -> None:
    token = (await make(shop, tags=["management"], valid_days=1))["token"]
    assert (await call(shop, token, "/api/overview")).status == 200
    assert (await call(shop, token, "/api/nodes")).json["reason"] == "Not monitor user"
    assert (await call(shop, token, "/api/queues/%2F/mine", "PUT", "{}")).status == 201
    # The user loses the tag, and the token with it.
    give_tags(shop.broker.users, "guest", ())
    assert (await call(shop, token, "/api/overview")).json["reason"] == "Not management user"


@pytest.mark.parametrize(
    ("has", "wanted", "shared"),
    [
        ("administrator", "monitoring policymaker", "monitoring policymaker"),
        ("monitoring", "management monitoring administrator", "management monitoring"),
        ("policymaker", "management monitoring", "management"),
        ("management", "policymaker", ""),
        ("", "management", ""),
    ],
)
def test_roles(has: str, wanted: str, shared: str) -> None:
    assert " ".join(shared_tags(has.split(), wanted.split())) == shared


@pytest.mark.parametrize(
    ("by", "body", "status", "reason"),
    [
        ("alice", {"user": "bob"}, 401, "Not administrator user"),
        ("alice", {"tags": ["monitoring"]}, 400, "tags: user 'alice' does not have the tag monitoring"),
        ("alice", {"tags": ["boss"]}, 400, "tags: 'boss' is none of"),
        ("alice", {"tags": []}, 400, "tags: without a tag"),
        ("alice", {"tags": 5}, 400, "tags is neither"),
        ("alice", {"name": "a\nb"}, 400, "name is a text"),
        ("alice", {"valid_days": 0}, 400, "valid_days is a number from 1 to 3650"),
        ("alice", {"valid_days": True}, 400, "valid_days is a number"),
        ("alice", {"user": 5}, 400, "user is not a string"),
        ("dave", {}, 401, "Not management user"),
        ("guest", {"user": "dave"}, 400, "tags: without a tag"),
        ("guest", {"user": "nobody"}, 400, ["no_such_user", "nobody"]),
    ],
)
async def test_what_cannot_be_made(shop: World, by: str, body: Any, status: int, reason: Any) -> None:
    reply = await shop.call("POST", PATH, by, body=json.dumps(body))
    assert reply.status == status
    given = reply.json["reason"]
    assert given.startswith(reason) if isinstance(reason, str) else given == reason
    assert (await shop.call("GET", PATH)).json == []


async def test_a_token_makes_no_tokens_and_may_end_itself(shop: World) -> None:
    made = await make(shop, by="alice")
    token = made["token"]
    refused = await call(shop, token, PATH, "POST", "{}")
    assert (refused.status, refused.json["reason"][:26]) == (401, "a token cannot make tokens")
    assert (await call(shop, token, f"{PATH}/{made['id']}", "DELETE")).status == 204
    assert (await call(shop, token, "/api/whoami")).status == 401


async def test_revoked_by_whom(shop: World) -> None:
    made = await make(shop, by="alice")
    assert (await shop.call("DELETE", f"{PATH}/{made['id']}", "bob")).status == 401
    assert (await shop.call("GET", PATH, "bob")).json == []
    assert [each["id"] for each in (await shop.call("GET", PATH)).json] == [made["id"]]
    assert (await shop.call("DELETE", f"{PATH}/{made['id']}")).status == 204
    assert (await shop.call("DELETE", f"{PATH}/{made['id']}")).status == 404
    assert (await call(shop, made["token"], "/api/whoami")).status == 401


async def test_it_ends_with_its_time_its_user_and_the_users_password(shop: World) -> None:
    now = [1000.0]
    tokens = Tokens(shop.admin._state, clock=lambda: now[0])
    shown, token = await tokens.make("alice", "", ["management"], read_only=False, valid_s=60.0)
    forever, _ = await tokens.make("alice", "", ["management"], read_only=False, valid_s=None)
    now[0] += 59.9
    assert tokens.find(shown) is token
    now[0] += 0.1
    assert tokens.find(shown) is None
    assert tokens.find(forever) is not None
    shop.broker.users.put_user("alice", b"other", ("management",))
    assert tokens.find(forever) is None
    shown, _ = await tokens.make("alice", "", ["management"], read_only=False, valid_s=None)
    shop.broker.users.delete_user("alice")
    assert (tokens.find(shown), tokens.every()) == (None, [])
    shop.broker.users.put_user("alice", b"other", ("management",))
    assert tokens.find(shown) is None


async def test_only_a_hash_is_kept_and_it_survives_a_restart(
    shop: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    made = await make(shop, by="alice", name="ci")
    secret = made["token"][-43:]  # it may have a _ of its own
    file = Path(shop.broker.settings.data_dir) / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    for each in file.parent.glob("admin-*"):
        assert secret not in each.read_text()
    assert secret not in "".join(str(vars(record)) for record in caplog.records)
    again = Admin(AdminOptions("127.0.0.1", 0, shop.amqp, 1000), shop.broker, shop.metrics, LOGGER)
    await again.start()
    shop.admin, before = again, shop.admin
    try:
        assert (await call(shop, made["token"], "/api/whoami")).json["name"] == "alice"
        assert [each["name"] for each in (await shop.call("GET", PATH)).json] == ["ci"]
    finally:
        shop.admin = before
        await again.stop()


async def test_a_damaged_file_is_put_aside(shop: World, caplog: pytest.LogCaptureFixture) -> None:
    file = Path(shop.broker.settings.data_dir) / FILE
    file.write_text("{")
    tokens = Tokens(shop.admin._state)
    await tokens.load(None)  # type: ignore[arg-type]  # the application is not looked at
    assert "API tokens cannot be read, all are refused" in caplog.messages
    assert (file.exists(), file.with_suffix(".damaged").read_text()) == (False, "{")


async def test_wrong_tokens_must_wait_and_a_right_one_never(shop: World) -> None:
    right = (await make(shop, by="alice"))["token"]
    wrong = [right[:-1] + ("A" if right[-1] != "A" else "B"), "amqpr_0123456789ab_" + "x" * 43, "é", "", "x"]
    statuses = [(await call(shop, token, "/api/whoami")).status for token in wrong[:FREE]]
    assert statuses == [401] * FREE
    waits = await call(shop, wrong[FREE], "/api/whoami")
    assert (waits.status, waits.headers["Retry-After"]) == (429, "1")
    assert (await call(shop, right, "/api/whoami")).status == 200
    assert (await shop.call("GET", "/api/whoami", "alice")).status == 200
    # Only the header counts.
    for query in ("token", "access_token", "authorization"):
        assert (await shop.call("GET", f"/api/whoami?{query}={right}", None)).status == 401


async def test_a_guest_from_elsewhere(shop: World) -> None:
    token = (await make(shop))["token"]
    app = shop.admin._runner.app  # type: ignore[union-attr]
    with pytest.raises(LoopbackOnly):
        app[VERIFIER].verify_token(token, app[TOKENS], "192.0.2.1")


async def test_not_more_than_there_may_be(shop: World) -> None:
    tokens = Tokens(shop.admin._state)
    for _ in range(TOKENS_OF_USER_MAX):
        await tokens.make("alice", "", ["management"], read_only=False, valid_s=None)
    assert len(tokens.every()) == TOKENS_OF_USER_MAX
    served = shop.admin._runner.app  # type: ignore[union-attr]
    await served[TOKENS].load(served)
    reply = await shop.call("POST", PATH, "alice", body="{}")
    assert (reply.status, reply.json["reason"]) == (400, "user 'alice' has 50 tokens, the most that may be")


async def test_a_token_that_cannot_be_stored_does_not_exist(shop: World) -> None:
    file = Path(shop.broker.settings.data_dir) / FILE
    file.with_suffix(".tmp").mkdir()
    reply = await shop.call("POST", PATH, "alice", body="{}")
    assert (reply.status, reply.json["error"]) == (500, "internal_error")
    assert (await shop.call("GET", PATH)).json == []
    file.with_suffix(".tmp").rmdir()
    made = await asyncio.gather(*[make(shop, by="alice", name=f"{n}") for n in range(5)])
    assert len({each["id"] for each in made}) == 5
    assert len(json.loads(file.read_text())["tokens"]) == 5
