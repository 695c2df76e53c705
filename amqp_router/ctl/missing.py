"""Says which name of a refused call is not there, and the nearest name that is."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import unquote

from amqp_router.ctl.client import Client, CtlError, Refused
from amqp_router.nearest import did_you_mean

#: The first part of a path below ``/api`` or ``/admin/v1``, and what its further parts name. A part after
#: these is an act on the object (``contents``, ``get``).
NAMED = {
    "queues": ("vhost", "queue"),
    "exchanges": ("vhost", "exchange"),
    "bindings": ("vhost",),
    "consumers": ("vhost",),
    "policies": ("vhost", "policy"),
    "operator-policies": ("vhost", "operator policy"),
    "permissions": ("vhost", "user"),
    "topic-permissions": ("vhost", "user"),
    "vhosts": ("vhost",),
    "vhost-limits": ("vhost",),
    "users": ("user",),
    "user-limits": ("user",),
    "connections": ("connection",),
    "definitions": ("vhost",),
}
#: Where the names of each kind are listed; {} is the virtual host.
LISTS = {
    "vhost": "/api/vhosts",
    "queue": "/api/queues/{}",
    "exchange": "/api/exchanges/{}",
    "policy": "/api/policies/{}",
    "operator policy": "/api/operator-policies/{}",
    "user": "/api/users",
    "connection": "/api/connections",
}
WORDS = {"vhost": "virtual host"}
#: RabbitMQ's word for both.
EITHER = "vhost_or_user_not_found"


def explained(client: Client, refusal: Refused) -> CtlError:
    """The error to show: with the missing name, where the broker tells which names there are."""
    if refusal.status != 404 and refusal.reason != EITHER and "NOT_FOUND" not in refusal.reason:
        return refusal
    with contextlib.suppress(CtlError):  # a user who may not list them
        said = _missing(client, refusal.path)
        if said:
            return CtlError(f"{said} ({refusal.status})", refusal.code)
    return refusal


def _missing(client: Client, path: str) -> str:
    parts = path.removeprefix("/admin/v1/").removeprefix("/api/").split("/")
    kinds = NAMED.get(parts[0], ())
    vhost = ""
    for kind, given in zip(kinds, parts[1:], strict=False):
        name = unquote(given)
        if path.startswith("/admin/v1/") and re.fullmatch(r"~+\.\.?", name):  # see `own_part`
            name = name[1:]
        names = [each["name"] for each in client.get(LISTS[kind].format(vhost), columns="name")]
        if kind == "exchange" and name == "amq.default":
            continue
        if name not in names:
            inside = f" in virtual host {unquote(vhost)!r}" if "{}" in LISTS[kind] else ""
            hint = did_you_mean(name, names, repr)
            return f"there is no {WORDS.get(kind, kind)} {name!r}{inside}" + (f"; {hint}" if hint else "")
        if kind == "vhost":
            vhost = given
    return ""
