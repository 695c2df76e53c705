"""Virtual hosts, users and permissions; and empty lists of what this broker does not have."""

from __future__ import annotations

from typing import Any

from admin_ui.auth import ADMINISTRATOR, MANAGEMENT, POLICYMAKER
from admin_ui.documents import vhosts
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call, Endpoint, Handler, Rows
from admin_ui.replies import not_found
from vhosts.vhost import VirtualHost


def every_vhost(call: Call) -> Rows:
    """The virtual hosts that the caller may name."""
    broker = call.state.broker
    names = [name for name in sorted(broker.vhosts) if call.identity.sees(name)]
    return _vhosts(call, [broker.vhosts[name] for name in names])


def _vhosts(call: Call, found: list[VirtualHost]) -> Rows:
    rows, node = call.state.metrics.now(), call.state.node
    stats = Stats(call.state.metrics, call.query.spans)
    return Rows(found, lambda vhost: vhosts.document(vhost, node, stats, rows[vhost]))


def one_vhost(call: Call) -> Any:
    """One virtual host."""
    rows = _vhosts(call, [call.vhost()])
    return rows.document(rows.things[0])


def every_user(call: Call) -> Rows:
    """All users."""
    users = call.state.broker.users.users
    return Rows([users[name] for name in sorted(users)], vhosts.user)


def without_permissions(call: Call) -> Rows:
    """Users without a permission in any virtual host."""
    users = call.state.broker.users
    entering = {user for user, _ in users.permissions}
    return Rows([users.users[name] for name in sorted(users.users) if name not in entering], vhosts.user)


def _user(call: Call) -> str:
    name = call.part("user")
    if name not in call.state.broker.users.users:
        raise not_found()
    return name


def one_user(call: Call) -> dict[str, Any]:
    """One user."""
    return vhosts.user(call.state.broker.users.users[_user(call)])


def every_permission(call: Call) -> Rows:
    """All permissions."""
    return _permissions(call, "", "")


def permissions_of_user(call: Call) -> Rows:
    """The permissions of one user."""
    return _permissions(call, _user(call), "")


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
    row = call.state.broker.users.permissions.get((_user(call), call.vhost().name))
    if row is None:
        raise not_found()
    return vhosts.permission(row)


# -- objects that only RabbitMQ has -----------------------------------------------------------------


def none(call: Call) -> list[Any]:
    """An empty list: this broker has none."""
    return []


def none_of_vhost(call: Call) -> list[Any]:
    """An empty list: this broker has none, in any virtual host."""
    call.vhost()
    return []


def none_of_user(call: Call) -> list[Any]:
    """An empty list: this broker has none, of any user."""
    _user(call)
    return []


def none_of_user_in_vhost(call: Call) -> list[Any]:
    """An empty list: this broker has none, of any user in any virtual host."""
    call.vhost()
    _user(call)
    return []


def no_such(call: Call) -> Any:
    """Not found: this broker has none."""
    raise not_found()


def global_parameters(call: Call) -> list[dict[str, Any]]:
    """The only global parameter: the unique name of the cluster."""
    return [{"name": "internal_cluster_id", "value": call.state.broker.identity.store_id}]


def one_global_parameter(call: Call) -> dict[str, Any]:
    """One global parameter."""
    for parameter in global_parameters(call):
        if parameter["name"] == call.part("name"):
            return parameter
    raise not_found()


def _policies(path: str, tags: frozenset[str]) -> list[Endpoint]:
    return [
        Endpoint(path, none),
        Endpoint(path + "/{vhost}", none_of_vhost),
        Endpoint(path + "/{vhost}/{name}", no_such, tags),
    ]


def _admin(path: str, handler: Handler | None) -> Endpoint:
    return Endpoint(path, handler, ADMINISTRATOR)


ENDPOINTS = [
    Endpoint("/vhosts", every_vhost),
    _admin("/vhosts/{vhost}", one_vhost),
    _admin("/vhosts/{vhost}/permissions", permissions_of_vhost),
    _admin("/vhosts/{vhost}/topic-permissions", none_of_vhost),
    _admin("/vhosts/{vhost}/start/{node}", None),
    _admin("/users", every_user),
    _admin("/users/without-permissions", without_permissions),
    _admin("/users/bulk-delete", None),
    _admin("/users/{user}", one_user),
    _admin("/users/{user}/permissions", permissions_of_user),
    _admin("/users/{user}/topic-permissions", none_of_user),
    _admin("/permissions", every_permission),
    _admin("/permissions/{vhost}/{user}", one_permission),
    _admin("/topic-permissions", none),
    _admin("/topic-permissions/{vhost}/{user}", none_of_user_in_vhost),
    Endpoint("/user-limits", none),
    Endpoint("/user-limits/{user}", none_of_user),
    _admin("/user-limits/{user}/{name}", None),
    Endpoint("/vhost-limits", none),
    Endpoint("/vhost-limits/{vhost}", none_of_vhost),
    _admin("/vhost-limits/{vhost}/{name}", None),
    *_policies("/policies", MANAGEMENT),
    *_policies("/operator-policies", ADMINISTRATOR),
    Endpoint("/parameters", none, POLICYMAKER),
    Endpoint("/parameters/{component}", none, POLICYMAKER),
    Endpoint("/parameters/{component}/{vhost}", none_of_vhost, POLICYMAKER),
    Endpoint("/parameters/{component}/{vhost}/{name}", no_such, POLICYMAKER),
    Endpoint("/global-parameters", global_parameters, POLICYMAKER),
    Endpoint("/global-parameters/{name}", one_global_parameter, POLICYMAKER),
]
