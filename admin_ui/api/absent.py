"""Objects that RabbitMQ has and this broker does not: policies, parameters, limits. Their lists are empty."""

from __future__ import annotations

from typing import Any

from admin_ui.api.users import existing_user
from admin_ui.auth import ADMINISTRATOR
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import not_found


def none(call: Call) -> list[Any]:
    """An empty list: this broker has none."""
    return []


def none_of_vhost(call: Call) -> list[Any]:
    """An empty list: this broker has none, in any virtual host."""
    call.vhost()
    return []


def none_of_user(call: Call) -> list[Any]:
    """An empty list: this broker has none, of any user."""
    existing_user(call)
    return []


def none_of_user_in_vhost(call: Call) -> list[Any]:
    """An empty list: this broker has none, of any user in any virtual host."""
    call.vhost()
    existing_user(call)
    return []


def no_such(call: Call) -> Any:
    """Not found: this broker has none."""
    raise not_found()


ENDPOINTS = [
    Endpoint("/vhosts/{vhost}/topic-permissions", none_of_vhost, ADMINISTRATOR),
    Endpoint("/users/{user}/topic-permissions", none_of_user, ADMINISTRATOR),
    Endpoint("/topic-permissions", none, ADMINISTRATOR),
    Endpoint("/topic-permissions/{vhost}/{user}", none_of_user_in_vhost, ADMINISTRATOR),
]
