"""Who may see what: tags, permission entries, guest from elsewhere; and how long a password is remembered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from admin_ui.auth import REMEMBER_MAX, REMEMBER_S, TRUST_S, Verifier, is_local_name
from admin_ui.state import STATE
from amqp_router.auth import LoginFailed, LoopbackOnly
from amqp_router.auth.throttle import FREE, FREE_ADDRESS, TooManyFailures
from amqp_router.sockets import Proxies
from tests.admin_ui.world import World, basic
from tests.auth.tags import give_tags

USERS = ("alice", "bob", "carol", "dave", "guest")


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/overview", "alice bob carol guest"),
        ("/whoami", "alice bob carol guest"),
        ("/nodes", "bob guest"),
        ("/nodes/router@test", "bob guest"),
        ("/vhosts", "alice bob carol guest"),
        ("/vhosts/shop", "guest"),
        ("/users", "guest"),
        ("/users/alice", "guest"),
        ("/users/without-permissions", "guest"),
        ("/permissions", "guest"),
        ("/permissions/shop/alice", "guest"),
        ("/users/alice/permissions", "guest"),
        ("/vhosts/shop/permissions", "guest"),
        ("/topic-permissions", "guest"),
        ("/definitions", "guest"),
        ("/definitions/shop", "guest"),
        ("/queues/shop", "alice bob carol guest"),
        ("/queues/staging", "guest"),
        ("/queues/shop/emails", "alice bob carol guest"),
        ("/policies", "alice bob carol guest"),
        ("/parameters", "carol guest"),
        ("/global-parameters", "carol guest"),
        ("/feature-flags", "guest"),
        ("/vhost-limits", "alice bob carol guest"),
        ("/aliveness-test/shop", "alice bob carol guest"),
    ],
)
async def test_tags(shop: World, path: str, may: str) -> None:
    allowed = []
    for user in USERS:
        reply = await shop.call("GET", "/api" + path, user)
        if reply.status == 200:
            allowed.append(user)
        else:
            assert reply.status == 401
            assert reply.json["error"] == "not_authorised"
            assert "www-authenticate" not in reply.headers
    assert " ".join(allowed) == may


async def test_lists_show_what_the_caller_may_enter(shop: World) -> None:
    async def vhosts(path: str, user: str) -> set[str]:
        return {each["vhost"] for each in await shop.get(path, user)}

    assert await vhosts("/exchanges", "alice") == {"shop"}
    assert await vhosts("/exchanges", "guest") == {"/", "shop", "staging"}
    assert [each["name"] for each in await shop.get("/vhosts", "alice")] == ["shop"]
    assert len(await shop.get("/vhosts", "bob")) == 3
    assert (await shop.get("/overview", "alice"))["object_totals"]["queues"] == 2
    overview = await shop.get("/overview", "alice")
    assert not {"node", "listeners", "contexts"} & overview.keys()
    assert "consumers" not in overview["object_totals"]


async def test_own_connections_below_monitoring(shop: World) -> None:
    guests = await shop.connect("shop")
    own = await shop.connect("shop", login="alice", password="alice-pw")
    await guests.channel()
    channel = await own.channel()
    queue = await channel.declare_queue("mine")
    await queue.consume(asyncio.Queue().put)
    everything = await shop.get("/connections", "bob")
    assert [each["user"] for each in everything] == ["guest", "alice"]
    for path in ("/connections", "/channels", "/vhosts/shop/connections", "/vhosts/shop/channels"):
        assert [each["user"] for each in await shop.get(path, "alice")] == ["alice"], path
    assert await shop.get("/consumers", "carol") == []
    assert len(await shop.get("/consumers/shop", "alice")) == 1
    assert await shop.get("/connections/username/guest", "alice") == []
    [brief] = await shop.get("/connections/username/guest", "bob")
    assert sorted(brief) == ["name", "node", "user", "vhost"]
    name = everything[0]["name"].replace(" ", "%20")
    reply = await shop.call("GET", f"/api/connections/{name}", "alice")
    assert (reply.status, reply.json["reason"]) == (401, "User not authorised to access object")
    assert (await shop.get(f"/connections/{name}/channels", "bob"))[0]["user"] == "guest"
    for path in (f"/connections/{name}x", "/connections/nosuch", f"/channels/{name}%20(9)", "/channels/x"):
        assert (await shop.call("GET", "/api" + path)).status == 404, path


async def test_password_or_tags_changed(shop: World) -> None:
    assert (await shop.call("GET", "/api/nodes", "alice")).status == 401
    give_tags(shop.broker.users, "alice", ["monitoring"])
    assert (await shop.call("GET", "/api/nodes", "alice")).status == 200
    shop.broker.users.put_user("alice", b"other", ["monitoring"])
    reply = await shop.call("GET", "/api/nodes", "alice")
    assert (reply.status, reply.json["reason"]) == (401, "Login failed")
    shop.broker.users.delete_user("alice")
    assert (await shop.call("GET", "/api/nodes", "alice", "other")).status == 401


async def test_a_page_is_not_asked_for_a_password(node: World) -> None:
    """A browser would show its own dialog, and keep what is typed there for every call."""
    for mode, asked in (("cors", False), ("same-origin", False), ("navigate", True)):
        for header in ({}, {"Authorization": basic("guest", "wrong")}):
            reply = await node.call("GET", "/api/whoami", None, **{"Sec-Fetch-Mode": mode}, **header)
            assert reply.status == 401
            assert ("www-authenticate" in reply.headers) == asked


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Counting:
    """A broker that counts the logins it is asked for."""

    def __init__(self, broker: Any) -> None:
        self.users = broker.users
        self.logins = broker.logins
        self.asked = 0
        self._broker = broker

    def authenticate(self, *args: Any) -> Any:
        self.asked += 1
        return self._broker.authenticate(*args)

    def event(self, *args: Any, **fields: Any) -> None:
        self._broker.event(*args, **fields)


class Counted:
    def __init__(self, broker: Any) -> None:
        self.broker = Counting(broker)


async def test_success_is_remembered_for_a_minute_and_failure_never(node: World) -> None:
    state, clock = Counted(node.broker), Clock()
    verifier = Verifier(state, clock)  # type: ignore[arg-type]
    for _ in range(3):
        assert verifier.verify(b"guest", b"guest", "127.0.0.1").name == "guest"
    assert state.broker.asked == 1
    for _ in range(2):
        with pytest.raises(LoginFailed):
            verifier.verify(b"guest", b"wrong", "127.0.0.1")
    assert state.broker.asked == 3
    clock.now = REMEMBER_S - 1
    verifier.verify(b"guest", b"guest", "127.0.0.1")
    assert state.broker.asked == 3
    clock.now = REMEMBER_S + 1
    verifier.verify(b"guest", b"guest", "127.0.0.1")
    assert state.broker.asked == 4
    node.add_user("zoe")
    verifier.verify(b"guest", b"guest", "127.0.0.1")
    assert state.broker.asked == 5


async def test_guest_from_elsewhere(node: World) -> None:
    verifier = Verifier(Counted(node.broker))  # type: ignore[arg-type]
    verifier.verify(b"guest", b"guest", "127.0.0.1")
    verifier.verify(b"guest", b"guest", "::1")
    with pytest.raises(LoopbackOnly):
        verifier.verify(b"guest", b"guest", "192.0.2.7")
    with pytest.raises(LoginFailed, match="Login was refused"):
        verifier.verify(b"guest", b"wrong", "192.0.2.7")


async def test_remembered_logins_are_bounded(node: World) -> None:
    verifier = Verifier(Counted(node.broker))  # type: ignore[arg-type]
    for number in range(REMEMBER_MAX + 10):
        verifier.verify(b"guest", b"guest", f"127.0.0.{number}")
    assert len(verifier._known) <= REMEMBER_MAX


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def verifier(shop: World, clock: Clock) -> Verifier:
    return Verifier(Counted(shop.broker), clock)  # type: ignore[arg-type]


def guess(verifier: Verifier, times: int, user: bytes = b"bob", host: str = "192.0.2.7") -> None:
    for number in range(times):
        with pytest.raises(LoginFailed):
            verifier.verify(user, b"guess %d" % number, host)


def asked(verifier: Verifier) -> int:
    return verifier._state.broker.asked  # type: ignore[attr-defined,no-any-return]


async def test_guessing_gets_slow(verifier: Verifier, clock: Clock) -> None:
    guess(verifier, FREE)
    for password in (b"another guess", b"bob-pw"):  # not even a right one is found out
        with pytest.raises(TooManyFailures):
            verifier.verify(b"bob", password, "192.0.2.7")
    assert asked(verifier) == FREE
    clock.now += 1
    assert verifier.verify(b"bob", b"bob-pw", "192.0.2.7").name == "bob"
    guess(verifier, FREE)  # as after a first login


async def test_the_right_password_from_elsewhere_is_not_held_up(verifier: Verifier) -> None:
    guess(verifier, FREE)
    assert verifier.verify(b"bob", b"bob-pw", "192.0.2.8").name == "bob"
    assert verifier.verify(b"alice", b"alice-pw", "192.0.2.7").name == "alice"


async def test_who_was_right_from_there_is_not_held_up(verifier: Verifier, clock: Clock) -> None:
    """A monitor asks every 40 s; somebody on the same machine tries password after password."""
    number = 0
    for _ in range(200):
        clock.now += 40
        assert verifier.verify(b"bob", b"bob-pw", "192.0.2.7").name == "bob"
        for user in (b"bob", b"carol"):
            number += 1
            with pytest.raises((LoginFailed, TooManyFailures)):
                verifier.verify(user, b"guess %d" % number, "192.0.2.7")
    with pytest.raises(TooManyFailures):
        verifier.verify(b"carol", b"carol-pw", "192.0.2.7")


async def test_who_was_right_long_ago_waits_as_others_do(verifier: Verifier, clock: Clock) -> None:
    verifier.verify(b"bob", b"bob-pw", "192.0.2.7")
    guess(verifier, FREE)
    clock.now = TRUST_S
    verifier.verify(b"bob", b"bob-pw", "192.0.2.7")
    clock.now += TRUST_S + 1
    for number in range(FREE):
        with pytest.raises(LoginFailed):
            verifier.verify(b"bob", b"later guess %d" % number, "192.0.2.7")
    with pytest.raises(TooManyFailures):
        verifier.verify(b"bob", b"bob-pw", "192.0.2.7")


async def test_a_program_with_an_old_password_locks_nobody_out(verifier: Verifier, clock: Clock) -> None:
    for _ in range(100):
        clock.now += 5
        with pytest.raises(LoginFailed):
            verifier.verify(b"bob", b"old", "192.0.2.7")
    assert verifier.verify(b"bob", b"bob-pw", "192.0.2.7").name == "bob"


async def test_a_changed_password_is_no_longer_trusted(shop: World, verifier: Verifier) -> None:
    verifier.verify(b"bob", b"bob-pw", "192.0.2.7")
    shop.broker.users.put_user("bob", b"new", ["monitoring"])
    with pytest.raises(LoginFailed):
        verifier.verify(b"bob", b"bob-pw", "192.0.2.7")
    guess(verifier, FREE - 1)
    with pytest.raises(TooManyFailures):
        verifier.verify(b"bob", b"bob-pw", "192.0.2.7")


async def test_a_failed_call_says_when_to_come_back(shop: World) -> None:
    for number in range(FREE):
        reply = await shop.call("GET", "/api/whoami", "bob", f"guess {number}")
        assert (reply.status, reply.json["reason"]) == (401, "Login failed")
    for password in (None, "another"):
        reply = await shop.call("GET", "/api/whoami", "bob", password)
        assert reply.status == 429
        assert reply.json == {"error": "too_many_requests", "reason": "too many failed logins"}
        assert reply.headers["Retry-After"] == "1"
        assert "www-authenticate" not in reply.headers
    assert (await shop.call("GET", "/api/whoami", "alice")).status == 200


@pytest.mark.parametrize("value", ["Basic gü:x", "Basic \udcff\udcfe", "Basic Z3Vlc3Q6Z3Vlc3Q=é"])
async def test_a_login_that_is_not_ascii_is_wrong(node: World, value: str) -> None:
    reader, writer = await asyncio.open_connection(*node.admin.address)
    head = f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: {value}\r\n\r\n"
    writer.write(head.encode(errors="surrogateescape"))
    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    assert b"Login failed" in await reader.readuntil(b"}")
    writer.close()


async def test_failures_over_http_do_not_count_for_amqp(shop: World) -> None:
    for number in range(FREE_ADDRESS + 10):
        await shop.call("GET", "/api/whoami", f"user{number}", "wrong")
    assert (await shop.call("GET", "/api/whoami", "bob")).status == 429
    await (await shop.connect()).close()


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.1.2.3", ["192.0.2.7"], "192.0.2.7"),
        ("::ffff:10.1.2.3", ["192.0.2.7"], "192.0.2.7"),
        ("10.1.2.3", ["198.51.100.1, 192.0.2.7"], "192.0.2.7"),
        ("10.1.2.3", ["198.51.100.1", "192.0.2.7 , 10.9.9.9"], "192.0.2.7"),
        ("10.1.2.3", ["2001:db8::7"], "2001:db8::7"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["unknown"], "10.1.2.3"),
        ("10.1.2.3", ["192.0.2.7, unknown"], "10.1.2.3"),
        ("10.1.2.3", ["10.9.9.9"], "10.1.2.3"),
        ("192.0.2.1", ["127.0.0.1"], "192.0.2.1"),
        ("?", ["127.0.0.1"], "?"),
    ],
)
def test_who_calls_behind_a_proxy(peer: str, forwarded: list[str], client: str) -> None:
    assert Proxies(["10.0.0.0/8"]).client(peer, forwarded) == client
    assert Proxies().client(peer, forwarded) == peer


async def test_failures_behind_a_proxy_are_those_of_its_clients(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = shop.admin._runner.app[STATE]
    monkeypatch.setattr(state, "proxies", Proxies(["127.0.0.1"]))
    for number in range(FREE):
        here = {"X-Forwarded-For": "198.51.100.1, 192.0.2.7"}
        assert (await shop.call("GET", "/api/whoami", "bob", f"{number}", **here)).status == 401
    assert (await shop.call("GET", "/api/whoami", "bob", None, **here)).status == 429
    there = {"X-Forwarded-For": "192.0.2.8"}
    assert (await shop.call("GET", "/api/whoami", "bob", None, **there)).status == 200


async def test_guest_under_a_foreign_name(node: World) -> None:
    """DNS rebinding: a page of another site, whose name was made to lead here, may call us as its own."""
    for name, status in (("localhost:15672", 200), ("[::1]:15672", 200), ("evil.example:15672", 401)):
        reply = await node.call("GET", "/api/whoami", Host=name)
        assert reply.status == status
    assert reply.json == {"error": "not_authorised", "reason": "User can only log in via localhost"}
    node.add_user("alice", "management")
    assert (await node.call("GET", "/api/whoami", "alice", Host="broker.example")).status == 200


async def test_guest_from_elsewhere_is_told_so(node: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp.web import Request

    monkeypatch.setattr(Request, "remote", "192.0.2.7")
    reply = await node.call("GET", "/api/whoami")
    assert reply.status == 401
    assert reply.json == {"error": "not_authorised", "reason": "User can only log in via localhost"}


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("localhost:15672", True),
        ("mq.localhost", True),
        ("evillocalhost", False),
        ("127.0.0.1:15672", True),
        ("[::1]:15672", True),
        ("[::1]", True),
        ("evil.example", False),
        ("localhost.evil.example:15672", False),
        ("", False),
    ],
)
def test_local_names(host: str, local: bool) -> None:
    assert is_local_name(host) is local
