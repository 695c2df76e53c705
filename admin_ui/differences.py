"""``POST /admin/v1/previews/definitions``: what an import of a file would do, without doing it.

The body is that of ``POST /api/definitions``; below ``/{vhost}`` it is a file of one virtual host. For each
section of the file the answer says how many items are new, differ and would change, differ and would stay
(queues and exchanges that exist are never changed), cannot be here and would be left out, and are the same,
with the first names of each. Of those that differ it also says in what (``differs``, a list for each name): a
user's password is one of its fields; of those that would be left out, why (``reasons``). Bindings to what
would be left out are not among these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from admin_ui.api.definitions import let_go, read_file
from admin_ui.documents import definitions
from admin_ui.documents.arguments import LargeTable
from admin_ui.endpoints import Call, administered
from admin_ui.importing import CLUSTER_ID, SECTIONS, VHOST_SECTIONS, as_over_http, not_objects, refusal
from admin_ui.replies import bad_request, dumps
from admin_ui.writing import entered_vhost
from amqp_router.auth.passwords import DEFAULT_ALGORITHM
from vhosts.vhost import RESERVED_PREFIX

#: Names in an answer, of each section and kind of difference.
NAMES_MAX = 100
#: What names an item of each section.
KEYS = {
    "users": ("name",),
    "vhosts": ("name",),
    "permissions": ("user", "vhost"),
    "topic_permissions": ("user", "vhost", "exchange"),
    "parameters": ("component", "vhost", "name"),
    "global_parameters": ("name",),
    "policies": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "exchanges": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"),
}
#: An import leaves those that exist as they are.
KEPT = frozenset({"queues", "exchanges"})
#: What an item has if it does not say it.
USUAL: dict[str, Any] = {
    "priority": 0,
    "apply-to": "all",
    "description": "",
    "tags": [],
    "tracing": False,
    "default_queue_type": "undefined",
    "limits": {},
    "arguments": {},
    "internal": False,
    "hashing_algorithm": DEFAULT_ALGORITHM,
}


#: How a user has a password. An import without any takes it away.
SECRETS = ("password", "password_hash", "hashing_algorithm")
PASSWORD, NO_PASSWORD = "password", "password removed"


async def preview(call: Call) -> list[dict[str, Any]]:
    """What an import of these definitions would do."""
    return await _compared(call, None)


async def preview_vhost(call: Call) -> list[dict[str, Any]]:
    """What an import of these definitions into one virtual host would do."""
    return await _compared(call, entered_vhost(call).name)


async def _compared(call: Call, vhost: str | None) -> list[dict[str, Any]]:
    state = call.state
    file = await read_file(call)
    known = SECTIONS if vhost is None else VHOST_SECTIONS
    if not any(section in file for section in known):
        raise bad_request("the file has no definitions")
    if vhost is None:
        present = definitions.document(state)
    else:
        present = definitions.of_vhost(state.broker.vhosts[vhost], state.broker.parameters)
    found = []
    try:
        for section in known:
            items = file.get(section, [])
            if not isinstance(items, list):
                raise not_objects(section)
            if items:
                row = _Row(section, [key for key in KEYS[section] if vhost is None or key != "vhost"])
                await row.compare(call, present.get(section, ()), items)
                found.append(row.document())
    finally:
        await let_go(file, call.turns)
    return found


class _Row:
    """One section of the file."""

    def __init__(self, section: str, keys: list[str]) -> None:
        self._section = section
        self._keys = keys
        self._names: dict[str, list[str]] = {"added": [], "changed": [], "kept": [], "left_out": []}
        self._differs: dict[str, list[list[str]]] = {"changed": [], "kept": []}
        self._reasons: list[str] = []
        self._totals = dict.fromkeys(self._names, 0)
        self._same = 0

    async def compare(self, call: Call, present: Iterable[Any], items: list[dict[str, Any]]) -> None:
        """Compare the items of the file with those that there are."""
        before: dict[bytes, dict[str, Any]] = {}
        for item in present:
            before[self._id(item)] = item
            await call.turns.next()
        try:
            for item in items:
                if not isinstance(item, dict):
                    raise not_objects(self._section)
                given = as_over_http(self._section, item)
                self._note(before.get(self._id(given)), given)
                await call.turns.next()
        finally:
            while before:
                before.popitem()
                await call.turns.next()

    def _id(self, item: dict[str, Any]) -> bytes:
        return _plain([item.get(key, USUAL.get(key)) for key in self._keys])

    def _note(self, now: dict[str, Any] | None, item: dict[str, Any]) -> None:
        name = item.get("name")
        is_own = self._section == "exchanges" and str(name).startswith(RESERVED_PREFIX)
        is_own |= self._section == "global_parameters" and name == CLUSTER_ID
        differs = [] if now is None or is_own else _differing(now, item)
        if now is not None and self._section == "users":
            differs = _of_user(now, item, differs)
        if is_own or (now is not None and not differs):
            self._same += 1
            return
        kind = "added" if now is None else "kept" if self._section in KEPT else "changed"
        reason = refusal(self._section, item) if kind != "kept" else ""
        if reason:
            kind = "left_out"
        self._totals[kind] += 1
        if len(self._names[kind]) < NAMES_MAX:
            self._names[kind].append(self._name(item))
            if reason:
                self._reasons.append(reason)
            elif kind in self._differs:
                self._differs[kind].append(differs)

    def _name(self, item: dict[str, Any]) -> str:
        parts = [
            item.get(key)
            for key in self._keys
            if key != "arguments" and not (key == "vhost" and item.get(key) == "/")
        ]
        return " · ".join([str(part) for part in parts if part not in (None, "")])

    def document(self) -> dict[str, Any]:
        """The row of the answer."""
        found: dict[str, Any] = {"section": self._section, "same": self._same}
        for kind, names in self._names.items():
            found[kind] = {"total": self._totals[kind], "names": names}
            if kind in self._differs:
                found[kind]["differs"] = self._differs[kind]
        found["left_out"]["reasons"] = self._reasons
        return found


def _differing(now: dict[str, Any], item: dict[str, Any]) -> list[str]:
    """What the file says of the item and does not hold already: names of fields."""
    found: list[str] = []
    for key, value in item.items():
        if key == "vhost":
            continue
        if key == "metadata":
            if isinstance(value, dict):
                found += [each for each in _differing(now, value) if each not in found]
        elif _plain(_listed(key, value)) != _plain(_listed(key, now.get(key))) and key not in found:
            found.append(key)
    return found


def _of_user(now: dict[str, Any], item: dict[str, Any], differs: list[str]) -> list[str]:
    """The fields of a user that differ, with its password as one of them."""
    found = [each for each in differs if each not in SECRETS]
    if not item.get("password") and not item.get("password_hash"):
        return [NO_PASSWORD, *found] if now.get("password_hash") else found
    return [PASSWORD, *found] if len(found) < len(differs) else found


def _listed(key: str, value: Any) -> Any:
    if value is None:
        return USUAL.get(key)
    if key == "tags" and isinstance(value, str):
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    return value


def _plain(value: Any) -> bytes:
    """A value as a text in which the order of keys does not matter."""
    if isinstance(value, LargeTable):
        value = value.table()
    if isinstance(value, dict):
        return b"{%b}" % b",".join(
            sorted(_plain(str(key)) + b":" + _plain(each) for key, each in value.items())
        )
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(_plain, value))
    return dumps(value)


ENDPOINTS = [
    administered("/previews/definitions", post=preview),
    administered("/previews/definitions/{vhost}", post=preview_vhost),
]
