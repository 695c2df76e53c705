"""Topic permissions: listed, set and removed."""

from __future__ import annotations

from typing import Any

from admin_ui.api.users import existing_user
from admin_ui.documents import vhosts
from admin_ui.endpoints import Call, Rows, administered
from admin_ui.replies import Done, bad_request, not_found
from admin_ui.writing import DELETED, change, created, read_object, required, text
from persistence.definitions import TopicPermissionRow

PATTERNS = ("write", "read")


def every(call: Call) -> Rows:
    """All topic permissions."""
    return _rows(call)


def of_vhost(call: Call) -> Rows:
    """The topic permissions in one virtual host."""
    return _rows(call, vhost=call.vhost().name)


def of_user(call: Call) -> Rows:
    """The topic permissions of one user."""
    return _rows(call, user=existing_user(call))


def of_user_in_vhost(call: Call) -> Rows:
    """The topic permissions of one user in one virtual host."""
    rows = _rows(call, user=existing_user(call), vhost=call.vhost().name)
    if not rows.things:
        raise not_found()
    return rows


def _rows(call: Call, *, user: str | None = None, vhost: str | None = None) -> Rows:
    rows = call.state.broker.users.topic_permissions
    found = [rows[key] for key in sorted(rows) if user in (None, key[0]) and vhost in (None, key[1])]
    return Rows(found, vhosts.topic_permission, name=_user)


def _user(row: TopicPermissionRow) -> str:
    return row.user


async def put(call: Call) -> Done:
    """Set what the user may do with the keys of a topic exchange: ``exchange``, ``write``, ``read``."""
    content = await read_object(call)
    broker, user, vhost = call.state.broker, call.part("user"), call.part("vhost")
    if user not in broker.users.users or vhost not in broker.vhosts:
        raise bad_request("vhost_or_user_not_found")
    required(content, "exchange", *PATTERNS)
    exchange, patterns = text(content, "exchange"), {name: _pattern(content, name) for name in PATTERNS}

    def act() -> tuple[bool, int]:
        before = (user, vhost, exchange) in broker.users.topic_permissions
        return not before, broker.users.set_topic_permission(user, vhost, exchange, **patterns)

    return created(await change(call, act))


def _pattern(content: dict[str, Any], name: str) -> str:
    found = content[name]
    if not isinstance(found, str):
        raise bad_request(f"{name} is not a string")
    return found


async def delete(call: Call) -> Done:
    """Remove the topic permissions of the user in the virtual host."""
    return await _clear(call, None)


async def delete_one(call: Call) -> Done:
    """Remove the topic permission of the user for one exchange."""
    return await _clear(call, call.part("exchange"))


async def _clear(call: Call, exchange: str | None) -> Done:
    users, user, vhost = call.state.broker.users, existing_user(call), call.vhost().name
    if not any(key[:2] == (user, vhost) and exchange in (None, key[2]) for key in users.topic_permissions):
        raise not_found()
    await change(call, lambda: (None, users.clear_topic_permissions(user, vhost, exchange)))
    return DELETED


ENDPOINTS = [
    administered("/vhosts/{vhost}/topic-permissions", of_vhost),
    administered("/users/{user}/topic-permissions", of_user),
    administered("/topic-permissions", every),
    administered("/topic-permissions/{vhost}/{user}", of_user_in_vhost, put=put, delete=delete),
    administered("/topic-permissions/{vhost}/{user}/{exchange}", delete=delete_one),
]
