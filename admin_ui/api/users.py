"""Users and permissions: listed, made and removed."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from admin_ui import sessions
from admin_ui.documents import vhosts
from admin_ui.endpoints import Call, Rows, administered
from admin_ui.replies import Done, bad_request, not_found
from admin_ui.writing import DELETED, change, created, new_name, read_object, required, stored, tags_of
from amqp_router.auth.passwords import DEFAULT_ALGORITHM
from amqp_router.broker import Broker
from persistence.definitions import PermissionRow

T = TypeVar("T")

ACTIONS = ("configure", "write", "read")


def every_user(call: Call) -> Rows:
    """All users."""
    users = call.state.broker.users.users
    return Rows([users[name] for name in sorted(users)], vhosts.user)


def without_permissions(call: Call) -> Rows:
    """Users without a permission in any virtual host."""
    users = call.state.broker.users
    entering = {user for user, _ in users.permissions}
    return Rows([users.users[name] for name in sorted(users.users) if name not in entering], vhosts.user)


def existing_user(call: Call) -> str:
    """The user that the path names.

    Raises:
        ApiError: there is none (404).
    """
    name = call.part("user")
    if name not in call.state.broker.users.users:
        raise not_found()
    return name


def one_user(call: Call) -> dict[str, Any]:
    """One user."""
    return vhosts.user(call.state.broker.users.users[existing_user(call)])


def every_permission(call: Call) -> Rows:
    """All permissions."""
    return _permissions(call, "", "")


def permissions_of_user(call: Call) -> Rows:
    """The permissions of one user."""
    return _permissions(call, existing_user(call), "")


def permissions_of_vhost(call: Call) -> Rows:
    """The permissions in one virtual host."""
    return _permissions(call, "", call.vhost().name)


def _permissions(call: Call, user: str, vhost: str) -> Rows:
    permissions = call.state.broker.users.permissions
    found = [
        permissions[key]
        for key in sorted(permissions)
        if (not user or key[0] == user) and (not vhost or key[1] == vhost)
    ]
    return Rows(found, vhosts.permission, name=lambda row: str(row.user))


def one_permission(call: Call) -> dict[str, Any]:
    """What a user may do in a virtual host."""
    return vhosts.permission(_permission(call))


def _permission(call: Call) -> PermissionRow:
    row = call.state.broker.users.permissions.get((existing_user(call), call.vhost().name))
    if row is None:
        raise not_found()
    return row


# -- changes -----------------------------------------------------------------------------------------


async def put_user(call: Call) -> Done:
    """Add or change a user: ``tags``, and ``password`` or ``password_hash`` with ``hashing_algorithm``.

    A user with neither cannot log in with a password.
    """
    content = await read_object(call)
    name = new_name(call, "user")
    if "tags" not in content:
        raise bad_request("tags_not_present")
    tags = tags_of(content["tags"])
    if "password" in content and "password_hash" in content:
        raise bad_request("both_password_and_password_hash_are_provided")
    if content.get("password_hash", "") is None:
        raise bad_request(["not_base64", None])
    if content.get("password", "") is None:
        raise bad_request("password is not a string")
    password, password_hash = _secret(content, "password"), _secret(content, "password_hash")
    algorithm = _secret(content, "hashing_algorithm") or DEFAULT_ALGORITHM
    users = call.state.broker.users

    def act() -> tuple[bool, int]:
        before = name in users.users
        if password:
            rev = users.put_user(name, password.encode(), tags)
        else:
            rev = users.put_user_hash(name, password_hash or "", algorithm, tags)
        sessions.follow(call.request, name)
        return not before, rev

    return created(await change(call, act))


async def delete_user(call: Call) -> Done:
    """Delete a user with its permissions; its connections are closed."""
    name = existing_user(call)
    await change(call, lambda: (None, call.state.broker.delete_user(name)))
    return DELETED


async def bulk_delete(call: Call) -> Done:
    """Delete the ``users``, all or none; their connections are closed."""
    content = await read_object(call)
    names = content.get("users")
    if names is None:
        raise bad_request("[{key_missing,users}]")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("users is not a list of names")
    broker = call.state.broker
    for name in names:
        if name not in broker.users.users:
            raise bad_request(["no_such_user", name])
    revs = [0]
    for name in dict.fromkeys(names):
        await change(call, partial(_delete, broker, name, revs), wait=False)
        await call.turns.next()
    await stored(call, revs[-1])
    return DELETED


def _delete(broker: Broker, name: str, revs: list[int]) -> tuple[None, int]:
    if name in broker.users.users:
        revs.append(broker.delete_user(name))
    return None, revs[-1]


async def put_permission(call: Call) -> Done:
    """Let a user into a virtual host: ``configure``, ``write`` and ``read``, regular expressions."""
    content = await read_object(call)
    broker, user, vhost = call.state.broker, call.part("user"), call.part("vhost")
    if user not in broker.users.users or vhost not in broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    required(content, *ACTIONS)
    patterns = {name: content[name] for name in ACTIONS}
    for name, pattern in patterns.items():
        if not isinstance(pattern, str):
            raise bad_request(f"{name} is not a string")

    def act() -> tuple[bool, int]:
        before = (user, vhost) in broker.users.permissions
        return not before, broker.users.set_permission(user, vhost, **patterns)

    return created(await change(call, act))


async def delete_permission(call: Call) -> Done:
    """Keep a user out of a virtual host."""
    row = _permission(call)
    users = call.state.broker.users
    await change(call, lambda: (None, users.clear_permission(row.user, row.vhost)))
    return DELETED


def _secret(content: dict[str, Any], name: str) -> str | None:
    found = content.get(name)
    if found is not None and not isinstance(found, str):
        raise bad_request(f"{name} is not a string")
    return found


ENDPOINTS = [
    administered("/vhosts/{vhost}/permissions", permissions_of_vhost),
    administered("/users", every_user),
    administered("/users/without-permissions", without_permissions),
    administered("/users/bulk-delete", post=bulk_delete),
    administered("/users/{user}", one_user, put=put_user, delete=delete_user),
    administered("/users/{user}/permissions", permissions_of_user),
    administered("/permissions", every_permission),
    administered("/permissions/{vhost}/{user}", one_permission, put=put_permission, delete=delete_permission),
]
