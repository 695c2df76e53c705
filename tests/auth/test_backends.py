"""Login, and the backends that decide about it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from amqp_router.auth import backends
from amqp_router.auth.backends import BACKENDS, Authenticator, AuthOptions, LoginFailed, register_backend
from amqp_router.auth.mechanisms import Credentials
from amqp_router.auth.permissions import Permissions
from amqp_router.auth.users import Users, first_definitions
from amqp_router.protocol.errors import NotAllowed, SyntaxInvalid
from persistence.definitions import Change, PermissionRow

GUEST = b"\x00guest\x00guest"


class Definitions:
    def submit(self, changes: Sequence[Change]) -> int:
        return 1


@pytest.fixture
def users() -> Users:
    users = Users(Definitions(), lambda count: b"salt"[:count])
    first = first_definitions(lambda count: b"salt"[:count])
    users.load(first.users, first.permissions)
    return users


def authenticator(users: Users, **options: object) -> Authenticator:
    return Authenticator(users, AuthOptions(**options))  # type: ignore[arg-type]  # the test's own options


def test_guest_logs_in_from_this_machine(users: Users) -> None:
    user = authenticator(users).login("PLAIN", GUEST, is_loopback=True)
    assert (user.name, user.tags) == ("guest", ("administrator",))
    user.enter("/").check("configure", "queue", "q")
    amqplain = b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"
    assert authenticator(users).login("AMQPLAIN", amqplain, is_loopback=True).name == "guest"


def test_guest_is_refused_from_elsewhere_unless_an_option_says_otherwise(users: Users) -> None:
    with pytest.raises(LoginFailed) as caught:
        authenticator(users).login("PLAIN", GUEST, is_loopback=False)
    assert caught.value.reason == "user 'guest' can only connect via localhost"
    everywhere = authenticator(users, loopback_users=frozenset())
    assert everywhere.login("PLAIN", GUEST, is_loopback=False).name == "guest"
    users.put_user("other", b"pw")
    assert authenticator(users).login("PLAIN", b"\x00other\x00pw", is_loopback=False).name == "other"


@pytest.mark.parametrize(
    "response", [b"\x00guest\x00wrong", b"\x00guest\x00", b"\x00nobody\x00guest", b"\x00\x00"]
)
def test_refusals_look_alike_to_the_peer(users: Users, response: bytes) -> None:
    with pytest.raises(LoginFailed) as caught:
        authenticator(users).login("PLAIN", response, is_loopback=True)
    assert caught.value.reply_code == 403
    assert caught.value.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
    assert caught.value.reason


def test_a_blank_password_never_logs_in(users: Users) -> None:
    users.put_user("open", b"")
    with pytest.raises(LoginFailed, match="Login was refused"):
        authenticator(users).login("PLAIN", b"\x00open\x00", is_loopback=True)


def test_what_is_not_offered_or_malformed(users: Users) -> None:
    with pytest.raises(KeyError):
        authenticator(users).login("EXTERNAL", b"", is_loopback=True)
    with pytest.raises(SyntaxInvalid):
        authenticator(users).login("PLAIN", b"guest", is_loopback=True)
    with pytest.raises(KeyError):
        authenticator(users, backends=("ldap",))


def test_entering_a_virtual_host_without_permission(users: Users) -> None:
    user = authenticator(users).login("PLAIN", GUEST, is_loopback=True)
    users.clear_permission("guest", "/")
    with pytest.raises(NotAllowed) as caught:
        user.enter("/")
    assert caught.value.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'guest'"


def test_backends_are_asked_in_order(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    class Robots:
        def __init__(self, _users: Users) -> None: ...

        def login(self, credentials: Credentials) -> tuple[str, ...] | str:
            return ("robot",) if credentials.password == b"beep" else "not a robot"

        def known(self, name: str) -> tuple[str, ...] | str:
            return "not I"

        def permissions(self, user: str, vhost: str) -> Permissions | None:
            row = PermissionRow(user, vhost, "^robot", "", "")
            return Permissions(user, vhost, find=lambda: row, generation=lambda: 0)

    monkeypatch.setattr(backends, "BACKENDS", dict(BACKENDS))
    register_backend("robots", Robots)
    with pytest.raises(ValueError, match="already"):
        register_backend("robots", Robots)
    both = authenticator(users, backends=("internal", "robots"))
    assert both.login("PLAIN", GUEST, is_loopback=True).tags == ("administrator",)
    robot = both.login("PLAIN", b"\x00r2\x00beep", is_loopback=True)
    assert robot.tags == ("robot",)
    robot.enter("any").check("configure", "queue", "robot.1")
    with pytest.raises(LoginFailed) as caught:
        both.login("PLAIN", b"\x00r2\x00boop", is_loopback=True)
    assert caught.value.reason == "user 'r2' - invalid credentials: no such user; not a robot"
