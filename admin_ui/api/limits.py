"""Limits of virtual hosts and users: listed, set and removed. A negative number removes one."""

from __future__ import annotations

from typing import Any

from admin_ui.api.users import existing_user
from admin_ui.auth import ADMINISTRATOR
from admin_ui.documents import vhosts
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import Done, bad_request
from admin_ui.writing import DELETED, change, entered_vhost, read_object, required
from amqp_router.parameters import VHOST_LIMITS
from vhosts.limits import NO_LIMITS, USER_LIMITS, limit_problems, parse_vhost_limits
from vhosts.vhost import VirtualHost

#: The name of the one parameter that has all limits of a virtual host.
LIMITS = "limits"


def every_vhost(call: Call) -> list[dict[str, Any]]:
    """The limits of all virtual hosts that have any."""
    return _of_vhosts(call.vhosts())


def one_vhost(call: Call) -> list[dict[str, Any]]:
    """The limits of one virtual host, also for who watches the node."""
    found = call.state.broker.vhosts.get(call.part("vhost"))
    if found is None or not call.identity.sees(found.name):
        found = call.vhost()
    return _of_vhosts([found])


def _of_vhosts(found: list[VirtualHost]) -> list[dict[str, Any]]:
    return [{"vhost": vhost.name, "value": vhost.limits.value} for vhost in found if vhost.limits.value]


async def put_vhost(call: Call) -> Done:
    """Set the limit: ``value``."""
    content = await read_object(call)
    vhost = entered_vhost(call)
    required(content, "value")
    return await _set_vhost(call, vhost, {call.part("name"): content["value"]})


async def delete_vhost(call: Call) -> Done:
    """Remove the limit."""
    return await _set_vhost(call, call.vhost(), {call.part("name"): -1})


async def _set_vhost(call: Call, vhost: VirtualHost, limit: dict[str, Any]) -> Done:
    parameters = call.state.broker.parameters

    def act() -> tuple[None, int]:
        value = {**vhost.limits.value, **limit}
        if parse_vhost_limits(value) != NO_LIMITS:
            return None, parameters.put(vhost, VHOST_LIMITS, LIMITS, value)
        is_set = (vhost.name, VHOST_LIMITS, LIMITS) in parameters.values
        return None, parameters.delete(vhost, VHOST_LIMITS, LIMITS) if is_set else 0

    await change(call, act)
    return DELETED


def every_user(call: Call) -> list[dict[str, Any]]:
    """The limits of all users that have any."""
    return _of_users(call, sorted(call.state.broker.users.users))


def one_user(call: Call) -> list[dict[str, Any]]:
    """The limits of one user."""
    return _of_users(call, [existing_user(call)])


def _of_users(call: Call, names: list[str]) -> list[dict[str, Any]]:
    users = call.state.broker.users.users
    found = {name: vhosts.limits(users[name]) for name in names}
    return [{"user": name, "value": value} for name, value in found.items() if value]


async def put_user(call: Call) -> Done:
    """Set the limit: ``value``."""
    content = await read_object(call)
    required(content, "value")
    return await _set_user(call, content["value"])


async def delete_user(call: Call) -> Done:
    """Remove the limit."""
    return await _set_user(call, -1)


async def _set_user(call: Call, value: Any) -> Done:
    user, name, users = existing_user(call), call.part("name"), call.state.broker.users
    problems = limit_problems({name: value}, USER_LIMITS, "user-limits")
    if problems:
        raise bad_request(problems[0])
    field = name.replace("-", "_")
    await change(call, lambda: (None, users.set_limits(user, **{field: max(value, -1)})))
    return DELETED


ENDPOINTS = [
    Endpoint("/vhost-limits", every_vhost),
    Endpoint("/vhost-limits/{vhost}", one_vhost),
    Endpoint("/vhost-limits/{vhost}/{name}", put=put_vhost, delete=delete_vhost, write_tags=ADMINISTRATOR),
    Endpoint("/user-limits", every_user),
    Endpoint("/user-limits/{user}", one_user),
    Endpoint("/user-limits/{user}/{name}", put=put_user, delete=delete_user, write_tags=ADMINISTRATOR),
]
