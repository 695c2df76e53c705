"""Guessing over AMQP is slow, and nobody who knows the password is held up by it."""

from __future__ import annotations

import pytest

from amqp_router.auth.backends import Authenticator, AuthOptions, LoginFailed
from amqp_router.auth.guard import TRUST_MAX, TRUST_S, Guard
from amqp_router.auth.throttle import DELAY_MAX_S, FREE, FREE_ADDRESS, WAIT_MAX_S
from amqp_router.auth.users import Users
from amqp_router.protocol.errors import SyntaxInvalid
from tests.auth.test_backends import Definitions
from tests.auth.test_throttle import Clock

HERE, THERE = "192.0.2.7", "192.0.2.8"


class World:
    def __init__(self) -> None:
        self.users = Users(Definitions(), lambda count: b"salt"[:count])
        for name in ("alice", "bob"):
            self.users.put_user(name, b"right")
        self.clock = Clock()
        self.guard = Guard(Authenticator(self.users, AuthOptions()), self.clock)

    def login(self, name: str, password: bytes = b"right", host: str = HERE) -> str:
        response = b"\0%b\0%b" % (name.encode(errors="surrogateescape"), password)
        return self.guard.login("PLAIN", response, host, is_loopback=False).name

    def fails(self, name: str, password: bytes, host: str = HERE) -> LoginFailed:
        with pytest.raises(LoginFailed) as caught:
            self.login(name, password, host)
        return caught.value


@pytest.fixture
def world() -> World:
    return World()


def test_user_who_failed_too_often_is_not_looked_at_for_a_while(world: World) -> None:
    for number in range(FREE):
        assert "invalid credentials" in world.fails("alice", b"%d" % number).reason
    refused = world.fails("alice", b"right")
    assert refused.reason == (
        "user 'alice' failed too often from this address; the next attempt is looked at in 1.0 s"
    )
    assert "Login was refused using authentication mechanism PLAIN" in refused.reply_text
    assert world.login("bob") == "bob"
    assert world.login("alice", host=THERE) == "alice"
    world.clock.now += 1
    assert world.login("alice") == "alice"
    assert "invalid credentials" in world.fails("alice", b"again").reason


def test_failures_with_any_users_delay_wrong_answers_only(world: World) -> None:
    """A proxy, or a translation of addresses: 30 programs with wrong passwords must not lock others out."""
    delays = [world.fails(f"user{number}", b"x").delay_s for number in range(FREE_ADDRESS + 10)]
    assert delays[:FREE_ADDRESS] == [0] * FREE_ADDRESS
    assert delays[FREE_ADDRESS:] == sorted(delays[FREE_ADDRESS:])
    assert delays[-1] == DELAY_MAX_S
    for _ in range(100):
        assert world.login("alice") == "alice"
        assert world.fails("user0", b"x").delay_s == DELAY_MAX_S
    assert world.fails("bob", b"x", THERE).delay_s == 0


def test_who_was_right_from_there_is_always_looked_at(world: World) -> None:
    world.login("alice")
    for number in range(100):
        world.fails("alice", b"guess %d" % number)
        assert world.login("alice") == "alice"
        world.clock.now += TRUST_S / 2
    world.clock.now += TRUST_S + 1
    for number in range(FREE):
        world.fails("alice", b"later %d" % number)
    world.fails("alice", b"right")


def test_guesses_are_few_whatever_is_tried(world: World) -> None:
    looked_at = 0
    for number in range(10_000):
        world.clock.now += 0.1
        looked_at += "invalid credentials" in world.fails("alice", b"guess %d" % number).reason
    assert looked_at < FREE + 8 + 1000 / WAIT_MAX_S


def test_program_with_an_old_password_locks_nobody_out(world: World) -> None:
    for _ in range(1000):
        world.clock.now += 1
        world.fails("alice", b"old")
    assert world.login("alice") == "alice"


def test_the_log_tells_a_guess_once_a_minute(world: World) -> None:
    assert [world.fails("alice", b"old").is_news for _ in range(3)] == [True, False, False]
    world.fails("alice", b"older")
    world.fails("alice", b"oldest")
    refused = [world.fails("alice", b"guess %d" % number) for number in range(3)]
    assert all("too often" in each.reason for each in refused)
    assert [each.is_news for each in refused] == [True, False, False]


def test_memory_is_bounded(world: World) -> None:
    for number in range(TRUST_MAX + 10):
        world.login("alice", host=f"host{number}")
    assert len(world.guard._right) == TRUST_MAX


def test_what_is_no_login(world: World) -> None:
    with pytest.raises(SyntaxInvalid):
        world.guard.login("PLAIN", b"x", HERE, is_loopback=True)


def test_name_that_is_not_utf8(world: World) -> None:
    for number in range(FREE):
        world.fails("\udcff", b"%d" % number)
    assert world.fails("\udcff", b"x").reason.startswith("user '\\xff' failed too often")
