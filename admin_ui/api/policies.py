"""Policies and operator policies: listed, set and removed."""

from __future__ import annotations

from typing import Any

from admin_ui.auth import ADMINISTRATOR, POLICYMAKER
from admin_ui.documents import policies
from admin_ui.endpoints import Call, Endpoint, Rows
from admin_ui.replies import Done, not_found
from admin_ui.writing import DELETED, change, created, entered_vhost, new_name, read_object, required
from amqp_router.parameters import OPERATOR_POLICY, POLICY


def endpoints(
    path: str, component: str, one_tags: frozenset[str], write_tags: frozenset[str]
) -> list[Endpoint]:
    """The endpoints of one of the two kinds."""

    def rows(call: Call, vhost: str | None) -> Rows:
        visible = {each.name for each in call.vhosts()}
        found = [
            each
            for each in call.state.broker.parameters.of(component, vhost)
            if vhost is not None or each[0] in visible
        ]
        return Rows(found, policies.document, name=lambda each: str(each[1]))

    def every(call: Call) -> Rows:
        """The policies of all virtual hosts."""
        return rows(call, None)

    def of_vhost(call: Call) -> Rows:
        """The policies of one virtual host."""
        return rows(call, call.vhost().name)

    def one(call: Call) -> dict[str, Any]:
        """One policy."""
        key = (call.vhost().name, component, call.part("name"))
        value = call.state.broker.parameters.values.get(key)
        if value is None:
            raise not_found()
        return policies.document((key[0], key[2], value))

    async def put(call: Call) -> Done:
        """Set the policy: ``pattern``, ``definition``, ``priority``, ``apply-to``."""
        content = await read_object(call)
        vhost, name, parameters = entered_vhost(call), new_name(call, "name"), call.state.broker.parameters
        required(content, "pattern", "definition")
        value = {
            "pattern": content["pattern"],
            "definition": content["definition"],
            "priority": content.get("priority", 0),
            "apply-to": content.get("apply-to", "all"),
        }

        def act() -> tuple[bool, int]:
            before = (vhost.name, component, name) in parameters.values
            return not before, parameters.put(vhost, component, name, value)

        return created(await change(call, act))

    async def delete(call: Call) -> Done:
        """Remove the policy."""
        vhost, name, parameters = call.vhost(), call.part("name"), call.state.broker.parameters
        if (vhost.name, component, name) not in parameters.values:
            raise not_found()
        await change(call, lambda: (None, parameters.delete(vhost, component, name)))
        return DELETED

    return [
        Endpoint(path, every),
        Endpoint(path + "/{vhost}", of_vhost),
        Endpoint(path + "/{vhost}/{name}", one, one_tags, put=put, delete=delete, write_tags=write_tags),
    ]


ENDPOINTS = [
    *endpoints("/policies", POLICY, POLICYMAKER, POLICYMAKER),
    *endpoints("/operator-policies", OPERATOR_POLICY, ADMINISTRATOR, ADMINISTRATOR),
]
