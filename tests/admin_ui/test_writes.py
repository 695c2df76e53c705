"""What the HTTP API changes: answers as recorded of RabbitMQ 3.10.8, the callers' rights, what is stored."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.admin_ui.world import World

REFUSED = {"error": "not_authorised", "reason": "Access refused."}
NO_OBJECT = {"error": "Object Not Found", "reason": "Not Found"}


def bad(reason: Any) -> dict[str, Any]:
    return {"error": "bad_request", "reason": reason}


#: Method, path below /api, body, status, and the JSON of the reply; in this order.
CALLS: list[tuple[str, str, str | None, int, Any]] = [
    ("PUT", "/queues/shop/x1", "{bad", 400, bad("not_json")),
    ("PUT", "/queues/shop/x1", "[]", 400, bad("not_json")),
    ("PUT", "/queues/shop/x1", "5", 400, bad("not_json")),
    ("PUT", "/queues/shop/x1", '{"durable":"maybe"}', 400, bad(["not_boolean", "maybe"])),
    ("PUT", "/queues/shop/x1", '{"durable":1}', 400, bad(["not_boolean", 1])),
    ("PUT", "/queues/shop/x1", '{"durable":null}', 400, bad(["not_boolean", None])),
    ("PUT", "/queues/shop/x1", '{"durable":"true","auto_delete":"false"}', 201, None),
    (
        "PUT",
        "/queues/shop/x1",
        '{"durable":false}',
        400,
        bad(
            "inequivalent arg 'durable' for queue 'x1' in vhost 'shop': "
            "received 'false' but current is 'true'"
        ),
    ),
    (
        "PUT",
        "/queues/shop/x2",
        '{"durable":true,"arguments":{"x-expires":-1}}',
        400,
        bad("invalid arg 'x-expires' for queue 'x2' in vhost 'shop': {value_negative,-1}"),
    ),
    ("PUT", "/queues/shop/x2", '{"arguments":{"a":null}}', 400, bad("null_not_allowed")),
    ("PUT", "/queues/shop/x2", '{"durable":true,"arguments":[]}', 201, None),
    ("PUT", "/queues/shop/x3", "", 201, None),
    ("PUT", "/queues/shop/x3", "{}", 204, None),
    ("PUT", "/queues/shop/amq.foo", "{}", 401, REFUSED),
    ("PUT", "/queues/nope/x1", "{}", 404, {"error": "not_found", "reason": "vhost_not_found"}),
    (
        "PUT",
        "/queues/shop/x4",
        '{"durable":true,"node":"rabbit@nope"}',
        400,
        bad("Node rabbit@nope could not be contacted"),
    ),
    ("PUT", "/exchanges/shop/e1", "{}", 201, None),
    ("PUT", "/exchanges/shop/e1", "{}", 204, None),
    ("PUT", "/exchanges/shop/e1", '{"type":"bogus"}', 400, bad("unknown exchange type 'bogus'")),
    ("PUT", "/exchanges/shop/e1", '{"type":5}', 400, bad("type is not a string")),
    (
        "PUT",
        "/exchanges/shop/orders",
        '{"type":"fanout"}',
        400,
        bad(
            "inequivalent arg 'type' for exchange 'orders' in vhost 'shop': received 'fanout' but current is "
            "'topic'"
        ),
    ),
    ("PUT", "/exchanges/shop/amq.fred", '{"type":"fanout"}', 401, REFUSED),
    ("PUT", "/exchanges/shop/amq.default", "{}", 401, REFUSED),
    ("PUT", "/exchanges/nope/e7", "{}", 404, {"error": "not_found", "reason": "vhost_not_found"}),
    ("DELETE", "/exchanges/shop/amq.direct", None, 401, REFUSED),
    ("DELETE", "/exchanges/shop/amq.default", None, 401, REFUSED),
    (
        "DELETE",
        "/exchanges/shop/orders?if-unused=true",
        None,
        400,
        bad("exchange 'orders' in vhost 'shop' in use"),
    ),
    (
        "DELETE",
        "/exchanges/shop/e1?if-unused=maybe",
        None,
        400,
        bad("if-unused is true or false, not 'maybe'"),
    ),
    ("DELETE", "/exchanges/shop/e1", None, 204, None),
    ("DELETE", "/exchanges/shop/e1", None, 404, NO_OBJECT),
    ("POST", "/bindings/shop/e/amq.topic/q/emails", '{"routing_key":"k","arguments":{"x-a":"b"}}', 201, None),
    ("POST", "/bindings/shop/e/amq.topic/q/emails", '{"routing_key":"k","arguments":{"x-a":"b"}}', 201, None),
    ("POST", "/bindings/shop/e/amq.topic/q/emails", "", 201, None),
    ("POST", "/bindings/shop/e/amq.topic/e/orders", '{"routing_key":"k"}', 201, None),
    (
        "POST",
        "/bindings/shop/e/nosuch/q/emails",
        "{}",
        404,
        {"error": "not_found", "reason": "no exchange 'nosuch' in vhost 'shop'"},
    ),
    (
        "POST",
        "/bindings/shop/e/amq.topic/q/nosuch",
        "{}",
        404,
        {"error": "not_found", "reason": "no queue 'nosuch' in vhost 'shop'"},
    ),
    ("POST", "/bindings/shop/e//q/emails", "{}", 401, REFUSED),
    ("POST", "/bindings/shop/e/amq.default/q/emails", "{}", 401, REFUSED),
    (
        "POST",
        "/bindings/shop/e/amq.topic/x/emails",
        "{}",
        400,
        bad("a destination is a queue, q, or an exchange, e, not 'x'"),
    ),
    ("POST", "/bindings/nope/e/amq.topic/q/emails", "{}", 404, NO_OBJECT),
    ("DELETE", "/bindings/shop/e/amq.topic/q/emails/~", None, 204, None),
    ("DELETE", "/bindings/shop/e/amq.topic/q/emails/~", None, 404, NO_OBJECT),
    ("DELETE", "/bindings/shop/e/amq.topic/q/emails/nope", None, 404, NO_OBJECT),
    ("DELETE", "/bindings/shop/e/amq.topic/e/orders/k", None, 204, None),
    ("DELETE", "/bindings/shop/e/amq.default/q/emails/emails", None, 401, REFUSED),
    ("DELETE", "/queues/shop/emails/contents", None, 204, None),
    ("DELETE", "/queues/shop/nope/contents", None, 404, NO_OBJECT),
    ("DELETE", "/queues/shop/emails?if-empty=true", None, 204, None),
    ("DELETE", "/queues/shop/emails?if-unused=true", None, 404, NO_OBJECT),
    ("DELETE", "/queues/nope/x", None, 404, NO_OBJECT),
    ("PATCH", "/queues/shop/x1", None, 405, None),
    ("GET", "/queues/shop/x1/contents", None, 405, None),
]


async def test_recorded_answers(shop: World) -> None:
    for method, path, body, status, expected in CALLS:
        reply = await shop.call(method, "/api" + path, body=body)
        assert reply.status == status, (method, path, body, reply)
        if status < 300:
            assert reply.body == b""
        elif expected is not None:
            assert reply.json == expected, (method, path, body)


async def test_methods_of_a_path(shop: World) -> None:
    async def allowed(path: str) -> str:
        return str((await shop.call("OPTIONS", "/api" + path)).headers["allow"])

    assert await allowed("/queues/shop/emails") == "HEAD, GET, PUT, DELETE, OPTIONS"
    assert await allowed("/queues/shop/emails/contents") == "DELETE, OPTIONS"
    assert await allowed("/bindings/shop/e/orders/q/emails") == "HEAD, GET, POST, OPTIONS"
    assert await allowed("/bindings/shop/e/orders/q/emails/~") == "HEAD, GET, DELETE, OPTIONS"


async def test_what_is_declared_is_as_over_amqp(shop: World) -> None:
    """The same arguments, declared again by a client of AMQP, are equivalent; another type is not."""
    wanted = {"durable": True, "arguments": {"x-a": 5, "s": "text", "deep": {"list": [1, True, 1.5]}}}
    assert (await shop.call("PUT", "/api/queues/shop/q", body=json.dumps(wanted))).status == 201
    found = await shop.get("/queues/shop/q")
    assert (found["durable"], found["arguments"]) == (True, wanted["arguments"])
    assert (await shop.call("PUT", "/api/queues/shop/q", body=json.dumps(wanted))).status == 204
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True, arguments={**wanted["arguments"]})
        assert queue.declaration_result.message_count == 0
    finally:
        await connection.close()


async def test_binding_routes_and_its_location_names_it(shop: World) -> None:
    table = {"routing_key": "de.# /ä~", "arguments": {"n": 1}}
    reply = await shop.call(
        "POST", "/api/bindings/shop/e/orders/q/orders.eu", body=json.dumps(table), Origin=shop.base
    )
    queue, _, key = reply.headers["Location"].partition("/")
    assert queue == "orders.eu"
    found = await shop.get(f"/bindings/shop/e/orders/q/orders.eu/{key}")
    assert (found["routing_key"], found["arguments"]) == ("de.# /ä~", {"n": 1})
    assert (await shop.call("DELETE", f"/api/bindings/shop/e/orders/q/orders.eu/{key}")).status == 204
    assert len(await shop.get("/bindings/shop/e/orders/q/orders.eu")) == 1


async def test_purge_takes_what_is_ready(shop: World) -> None:
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        for _ in range(3):
            await channel.default_exchange.publish(_message(), "orders.eu")
        queue = await channel.get_queue("orders.eu")
        assert await queue.get() is not None
        assert (await shop.call("DELETE", "/api/queues/shop/orders.eu/contents")).status == 204
        found = await shop.get("/queues/shop/orders.eu")
        assert (found["messages_ready"], found["messages_unacknowledged"]) == (0, 1)
    finally:
        await connection.close()


def _message() -> Any:
    import aio_pika

    return aio_pika.Message(b"x", delivery_mode=2)


async def test_exclusive_queue_of_a_connection_is_locked(shop: World) -> None:
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        await channel.declare_queue("mine", exclusive=True)
        for method, path in (("DELETE", ""), ("DELETE", "/contents"), ("PUT", "")):
            reply = await shop.call(method, f"/api/queues/shop/mine{path}")
            assert reply.status == 400
            assert reply.json["reason"].startswith("cannot obtain exclusive access to locked queue 'mine'")
    finally:
        await connection.close()


async def test_rights(shop: World) -> None:
    """The caller's permissions hold as over AMQP; a tag alone opens no virtual host."""
    shop.broker.users.set_permission("alice", "shop", configure="^a", write="", read="")
    assert (await shop.call("PUT", "/api/queues/shop/a", "alice")).status == 201
    for method, path, body in (
        ("PUT", "/queues/shop/b", None),
        ("PUT", "/exchanges/shop/b", None),
        ("DELETE", "/queues/shop/emails", None),
        ("DELETE", "/queues/shop/emails/contents", None),
        ("DELETE", "/exchanges/shop/orders", None),
        ("POST", "/bindings/shop/e/orders/q/emails", "{}"),
        ("POST", "/bindings/shop/e/orders/e/amq.fanout", "{}"),
        ("DELETE", "/bindings/shop/e/orders/q/orders.eu/eu.%2523", None),
    ):
        reply = await shop.call(method, "/api" + path, "alice", body=body)
        assert (reply.status, reply.json) == (401, REFUSED), (method, path)
    entry = {"error": "not_authorised", "reason": "User not authorised to access virtual host"}
    for user in ("alice", "bob"):
        reply = await shop.call("PUT", "/api/queues/staging/a", user)
        assert (reply.status, reply.json) == (401, entry)
    assert (await shop.call("PUT", "/api/queues/shop/a", "dave")).json["reason"] == "Not management user"
    assert (await shop.call("PUT", "/api/queues/shop/a", None)).status == 401
    assert "emails" in shop.broker.vhosts["shop"].queues


async def test_a_page_of_another_site_changes_nothing(shop: World) -> None:
    """A browser may have the password of HTTP Basic and send it along."""
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        reply = await shop.call("DELETE", "/api/queues/shop/emails", **headers)
        assert reply.status == 403
    assert "emails" in shop.broker.vhosts["shop"].queues


async def test_body_is_bounded(shop: World) -> None:
    body = json.dumps({"arguments": {"a": "x" * (1 << 20)}})
    assert (await shop.call("PUT", "/api/queues/shop/big", body=body)).status == 400
    deep = '{"arguments":' + '{"a":' * 100_000 + "1" + "}" * 100_001
    assert (await shop.call("PUT", "/api/queues/shop/deep", body=deep)).status == 400
    for field in ("durable", "node"):
        deep = json.dumps({field: 0}).replace("0", "[" * 900 + "]" * 900)
        assert (await shop.call("PUT", "/api/queues/shop/deep", body=deep)).status == 400
    name = "n" * 256
    assert (await shop.call("PUT", f"/api/queues/shop/{name}")).status == 400
    half = json.dumps({"arguments": {"a": "\ud800"}})
    assert (await shop.call("PUT", "/api/queues/shop/half", body=half)).status == 400


async def test_reply_waits_until_the_change_is_stored(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = shop.broker.commits
    monkeypatch.setattr(shop.broker.definitions, "on_committed", lambda rev: None)
    declaring = asyncio.ensure_future(shop.call("PUT", "/api/queues/shop/d", body='{"durable":true}'))
    await asyncio.sleep(0.3)
    assert not declaring.done()
    monkeypatch.undo()
    commits.advance(1 << 40)
    assert (await declaring).status == 201


async def test_a_store_that_fails_is_told(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = shop.broker.commits
    monkeypatch.setattr(shop.broker.definitions, "on_committed", lambda rev: None)
    declaring = asyncio.ensure_future(shop.call("PUT", "/api/queues/shop/d", body='{"durable":true}'))
    await asyncio.sleep(0.1)
    commits.failed = OSError("no space left")
    reply = await declaring
    assert (reply.status, reply.json["reason"]) == (500, "no space left")


# -- users and permissions -----------------------------------------------------------------------------

ALL = '{"configure":".*","write":".*","read":".*"}'
USER_CALLS: list[tuple[str, str, str | None, int, Any]] = [
    ("PUT", "/users/zed", '{"password":"x"}', 400, bad("tags_not_present")),
    ("PUT", "/users/zed", '{"tags":"management"}', 201, None),
    ("PUT", "/users/zed", '{"tags":["management","custom"],"password":"p1"}', 204, None),
    ("PUT", "/users/zed", '{"tags":"","password_hash":""}', 204, None),
    (
        "PUT",
        "/users/zed",
        '{"tags":"","password":"a","password_hash":"abcd"}',
        400,
        bad("both_password_and_password_hash_are_provided"),
    ),
    (
        "PUT",
        "/users/zed",
        '{"tags":"","password":null,"password_hash":null}',
        400,
        bad("both_password_and_password_hash_are_provided"),
    ),
    ("PUT", "/users/zed", '{"tags":"","password_hash":null}', 400, bad(["not_base64", None])),
    # RabbitMQ: 500.
    ("PUT", "/users/zed", '{"tags":"","password":null}', 400, bad("password is not a string")),
    ("PUT", "/users/zed", '{"tags":5}', 400, bad("tags is neither a text nor a list of texts")),
    ("PUT", "/users/zed", '{"tags":["a",5]}', 400, bad("tags is neither a text nor a list of texts")),
    ("PUT", "/users/zed", '{"tags":"","password":5}', 400, bad("password is not a string")),
    ("PUT", "/users/zed2", '{"tags":"","password":""}', 201, None),
    ("POST", "/users/bulk-delete", '{"users":["zed","zed2","nosuch"]}', 400, bad(["no_such_user", "nosuch"])),
    ("POST", "/users/bulk-delete", "{}", 400, bad("[{key_missing,users}]")),
    ("POST", "/users/bulk-delete", '{"users":"zed"}', 400, bad("users is not a list of names")),
    ("POST", "/users/bulk-delete", '{"users":["zed","zed2","zed"]}', 204, None),
    ("DELETE", "/users/zed", None, 404, NO_OBJECT),
    ("PUT", "/permissions/shop/alice", '{"configure":".*","write":".*"}', 400, bad("[{key_missing,read}]")),
    (
        "PUT",
        "/permissions/shop/alice",
        "{}",
        400,
        bad("[{key_missing,configure},{key_missing,write},{key_missing,read}]"),
    ),
    (
        "PUT",
        "/permissions/shop/alice",
        '{"configure":1,"write":"","read":""}',
        400,
        bad("configure is not a string"),
    ),
    ("PUT", "/permissions/shop/nosuch", ALL, 400, bad("vhost_or_user_not_found")),
    ("PUT", "/permissions/nosuch/alice", ALL, 400, bad("vhost_or_user_not_found")),
    ("PUT", "/permissions/shop/alice", ALL, 204, None),
    ("DELETE", "/permissions/staging/alice", None, 404, NO_OBJECT),
    ("PUT", "/permissions/staging/alice", ALL, 201, None),
    ("DELETE", "/permissions/staging/alice", None, 204, None),
]


async def test_recorded_answers_about_users(shop: World) -> None:
    for method, path, body, status, expected in USER_CALLS:
        reply = await shop.call(method, "/api" + path, body=body)
        assert (reply.status, reply.json) == (status, expected), (method, path, body)


async def test_a_new_user_logs_in_and_passwords_change(shop: World) -> None:
    assert (
        await shop.call("PUT", "/api/users/eve", body='{"tags":" monitoring , x","password":"one"}')
    ).status == 201
    assert (await shop.call("PUT", "/api/permissions/shop/eve", body=ALL)).status == 201
    assert (await shop.call("GET", "/api/whoami", "eve", "one")).json == {
        "name": "eve",
        "tags": ["monitoring", "x"],
    }
    connection = await shop.connect("shop", login="eve", password="one")
    await connection.close()
    assert (
        await shop.call("PUT", "/api/users/eve", body='{"tags":"management","password":"two"}')
    ).status == 204
    assert (await shop.call("GET", "/api/whoami", "eve", "one")).status == 401
    assert (await shop.call("GET", "/api/whoami", "eve", "two")).status == 200
    hashed = (await shop.get("/users/eve"))["password_hash"]
    copy = json.dumps({"tags": "management", "password_hash": hashed})
    assert (await shop.call("PUT", "/api/users/twin", body=copy)).status == 201
    assert (await shop.call("GET", "/api/whoami", "twin", "two")).status == 200
    assert (await shop.call("PUT", "/api/users/eve", body='{"tags":"management"}')).status == 204
    assert (await shop.call("GET", "/api/whoami", "eve", "")).status == 401


@pytest.mark.parametrize(
    "body",
    [
        '{"tags":"","password_hash":"@@@notb64"}',
        '{"tags":"","password_hash":"abcd"}',
        '{"tags":"","password_hash":"","hashing_algorithm":"nope"}',
    ],
)
async def test_hashes_that_no_password_fits_are_refused(shop: World, body: str) -> None:
    reply = await shop.call("PUT", "/api/users/zed", body=body)
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert "zed" not in shop.broker.users.users


async def test_a_pattern_that_is_none_is_refused(shop: World) -> None:
    body = '{"configure":"(","write":"","read":""}'
    reply = await shop.call("PUT", "/api/permissions/shop/alice", body=body)
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert shop.broker.users.permissions["alice", "shop"].configure == ".*"


async def test_connections_of_a_deleted_user_are_closed(shop: World) -> None:
    shop.add_user("eve", vhosts=("shop",))
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    theirs = await shop.connect("shop", login="eve", password="eve-pw")
    theirs.close_callbacks.add(lambda connection, error: ended.done() or ended.set_result(error))
    mine = await shop.connect("shop")
    assert (await shop.call("DELETE", "/api/users/eve")).status == 204
    assert "user 'eve' is deleted" in str(await asyncio.wait_for(ended, 60))
    assert not mine.is_closed
    await mine.close()
    assert ("eve", "shop") not in shop.broker.users.permissions


@pytest.mark.parametrize("user", ["alice", "bob", "carol"])
async def test_only_administrators_change_users(shop: World, user: str) -> None:
    for method, path, body in (
        ("PUT", "/users/zed", '{"tags":"administrator"}'),
        ("DELETE", "/users/dave", None),
        ("POST", "/users/bulk-delete", '{"users":["dave"]}'),
        ("PUT", f"/permissions/staging/{user}", ALL),
        ("DELETE", "/permissions/shop/dave", None),
    ):
        reply = await shop.call(method, "/api" + path, user, body=body)
        assert (reply.status, reply.json["reason"]) == (401, "Not administrator user"), path
    assert "dave" in shop.broker.users.users
