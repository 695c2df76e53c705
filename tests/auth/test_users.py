"""The broker's own directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from amqp_router.auth.passwords import hash_password
from amqp_router.auth.users import Users, first_definitions
from amqp_router.protocol.errors import AccessRefused
from persistence.definitions import Change, Delete, PermissionRow, Put, Row, UserRow, VhostRow
from tests.auth.tags import give_tags


class Definitions:
    """Keeps rows as a store does."""

    def __init__(self) -> None:
        self.rows: dict[object, Row] = {}
        self.rev = 0
        self.error: Exception | None = None

    def submit(self, changes: Sequence[Change]) -> int:
        if self.error is not None:
            raise self.error
        for change in changes:
            if isinstance(change, Put):
                self.rows[change.kind, change.key] = change.row
            else:
                self.rows.pop((change.kind, change.key), None)
        self.rev += 1
        return self.rev


def salt(count: int) -> bytes:
    return b"salt"[:count]


@pytest.fixture
def definitions() -> Definitions:
    return Definitions()


@pytest.fixture
def users(definitions: Definitions) -> Users:
    return Users(definitions, salt)


def stored(definitions: Definitions, kind: type) -> list[Row]:
    return [row for row in definitions.rows.values() if isinstance(row, kind)]


def test_memory_and_store_hold_the_same(users: Users, definitions: Definitions) -> None:
    assert users.put_user("a", b"pw", ["monitoring"]) == 1
    users.put_user("b", b"pw")
    users.set_permission("a", "/", configure="", write="^w", read=".*")
    users.set_permission("a", "v", configure=".*", write=".*", read=".*")
    users.set_permission("b", "v", configure=".*", write=".*", read=".*")
    give_tags(users, "b", ["administrator"])
    users.clear_permission("a", "/")
    assert users.users["b"].tags == ("administrator",)
    for _ in range(2):
        assert stored(definitions, UserRow) == list(users.users.values())
        assert stored(definitions, PermissionRow) == list(users.permissions.values())
        for user, vhost in list(users.permissions):
            users.clear_permission(user, vhost)
        assert users.permissions == {}


def test_a_deleted_virtual_host_is_forgotten(users: Users, definitions: Definitions) -> None:
    users.put_user("a", b"pw")
    users.set_permission("a", "/", configure="", write="", read="")
    users.set_permission("a", "v", configure="", write="", read="")
    rev = definitions.rev
    users.forget_vhost("v")
    assert list(users.permissions) == [("a", "/")]
    assert definitions.rev == rev


def test_deleting_a_user_takes_its_permissions_along(users: Users, definitions: Definitions) -> None:
    users.put_user("a", b"pw")
    users.set_permission("a", "/", configure="", write="", read="")
    permissions = users.permissions_of("a", "/")
    assert permissions is not None
    rev = users.delete_user("a")
    assert rev == definitions.rev
    assert definitions.rows == {}
    assert users.permissions_of("a", "/") is None
    with pytest.raises(AccessRefused):
        permissions.check("read", "queue", "")
    with pytest.raises(KeyError):
        users.delete_user("a")


def test_verify(users: Users) -> None:
    users.put_user("a", b"pw")
    users.put_user("locked", b"")
    users.put_user_hash(
        "moved",
        hash_password(b"x", b"1234", "rabbit_password_hashing_sha512"),
        "rabbit_password_hashing_sha512",
    )
    assert users.verify("a", b"pw")
    assert users.verify("moved", b"x")
    assert not users.verify("a", b"")
    assert not users.verify("locked", b"")
    assert not users.verify("nobody", b"pw")


def test_what_cannot_be_is_refused_and_changes_nothing(users: Users, definitions: Definitions) -> None:
    users.put_user("a", b"pw")
    before = definitions.rev, users.generation
    for name, password_hash, algorithm in (("", "", "rabbit_password_hashing_sha256"), ("x", "?", "y")):
        with pytest.raises(ValueError):  # noqa: PT011  two texts
            users.put_user_hash(name, password_hash, algorithm)
    with pytest.raises(ValueError, match="regular expression"):
        users.set_permission("a", "/", configure="[", write="", read="")
    with pytest.raises(KeyError):
        users.set_permission("x", "/", configure="", write="", read="")
    with pytest.raises(KeyError):
        users.clear_permission("a", "/")
    assert (definitions.rev, users.generation) == before


def test_what_the_store_refuses_does_not_happen(users: Users, definitions: Definitions) -> None:
    users.put_user("a", b"pw")
    users.set_permission("a", "/", configure="", write="", read="")
    before = dict(users.users), dict(users.permissions)
    definitions.error = RuntimeError("no")
    acts: list[Callable[[], int]] = [
        lambda: users.put_user("b", b"pw"),
        lambda: users.delete_user("a"),
        lambda: give_tags(users, "a", ["x"]),
        lambda: users.set_permission("a", "v", configure="", write="", read=""),
        lambda: users.clear_permission("a", "/"),
    ]
    for act in acts:
        with pytest.raises(RuntimeError):
            act()
    assert (users.users, users.permissions) == before


def test_every_change_raises_the_generation_and_is_told(users: Users) -> None:
    seen: list[int] = []
    users.on_change = lambda: seen.append(users.generation)
    users.load([], [])
    users.put_user("a", b"pw")
    give_tags(users, "a", [])
    users.set_permission("a", "/", configure="", write="", read="")
    users.clear_permission("a", "/")
    users.forget_vhost("/")
    users.delete_user("a")
    assert seen == sorted(set(seen))
    assert len(seen) == 7


def test_first_definitions() -> None:
    first = first_definitions(salt)
    assert list(first.rows()) == [
        VhostRow("/", "Default virtual host"),
        UserRow(
            "guest", hash_password(b"guest", b"salt"), "rabbit_password_hashing_sha256", ("administrator",)
        ),
        PermissionRow("guest", "/", ".*", ".*", ".*"),
    ]


def test_deletion_is_one_change_set(users: Users) -> None:
    taken: list[Sequence[Change]] = []

    class Recorder:
        def submit(self, changes: Sequence[Change]) -> int:
            taken.append(changes)
            return 1

    first = first_definitions(salt)
    users = Users(Recorder(), salt)
    users.load(first.users, first.permissions)
    users.delete_user("guest")
    assert taken == [[Delete("permission", ("guest", "/")), Delete("user", ("guest",))]]
