"""Parameters of virtual hosts and global parameters: listed, set and removed."""

from __future__ import annotations

from typing import Any

from admin_ui.auth import POLICYMAKER
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import Done, bad_request, not_found
from admin_ui.writing import DELETED, change, created, entered_vhost, new_name, read_object, required
from amqp_router.parameters import COMPONENTS, GLOBAL, POLICY

#: A global parameter that nobody sets: the name of the data directory.
CLUSTER_ID = "internal_cluster_id"


def every(call: Call) -> list[dict[str, Any]]:
    """The parameters of all virtual hosts, without policies."""
    return _found(call, [component for component in COMPONENTS if component != POLICY], None)


def of_component(call: Call) -> list[dict[str, Any]]:
    """The parameters of one component; as in RabbitMQ, one that does not exist has none."""
    return _found(call, _component(call), None)


def of_vhost(call: Call) -> list[dict[str, Any]]:
    """The parameters of one component in one virtual host."""
    return _found(call, _component(call), call.vhost().name)


def _found(call: Call, components: list[str], vhost: str | None) -> list[dict[str, Any]]:
    visible = {each.name for each in call.vhosts()} if vhost is None else {vhost}
    parameters = call.state.broker.parameters
    return [
        {"value": value, "vhost": found, "component": component, "name": name}
        for component in components
        for found, name, value in parameters.of(component, vhost)
        if found in visible
    ]


def _component(call: Call) -> list[str]:
    component = call.part("component")
    return [component] if component in COMPONENTS else []


def _key(call: Call) -> tuple[str, str, str]:
    """The parameter that the path names.

    Raises:
        ApiError: there is none (404).
    """
    key = (call.vhost().name, call.part("component"), call.part("name"))
    if key not in call.state.broker.parameters.values:
        raise not_found()
    return key


def one(call: Call) -> dict[str, Any]:
    """One parameter."""
    vhost, component, name = key = _key(call)
    value = call.state.broker.parameters.values[key]
    return {"value": value, "vhost": vhost, "component": component, "name": name}


async def put(call: Call) -> Done:
    """Set the parameter: ``value``."""
    content = await read_object(call)
    vhost, component, name = entered_vhost(call), call.part("component"), new_name(call, "name")
    required(content, "value")
    if component == POLICY:
        raise bad_request("policies may not be set using this method")
    parameters = call.state.broker.parameters

    def act() -> tuple[bool, int]:
        before = (vhost.name, component, name) in parameters.values
        return not before, parameters.put(vhost, component, name, content["value"])

    return created(await change(call, act))


async def delete(call: Call) -> Done:
    """Remove the parameter."""
    _, component, name = _key(call)
    vhost, parameters = call.vhost(), call.state.broker.parameters
    if component == POLICY:
        raise bad_request("policies may not be cleared using this method")
    await change(call, lambda: (None, parameters.delete(vhost, component, name)))
    return DELETED


# -- global parameters -------------------------------------------------------------------------------


def every_global(call: Call) -> list[dict[str, Any]]:
    """All global parameters; one has the unique name of the cluster."""
    parameters = call.state.broker.parameters
    found = {name: value for _, name, value in parameters.of(GLOBAL, GLOBAL)}
    found[CLUSTER_ID] = call.state.broker.identity.store_id
    return [{"name": name, "value": found[name]} for name in sorted(found)]


def one_global(call: Call) -> dict[str, Any]:
    """One global parameter."""
    for parameter in every_global(call):
        if parameter["name"] == call.part("name"):
            return parameter
    raise not_found()


async def put_global(call: Call) -> Done:
    """Set the global parameter: ``value``."""
    content = await read_object(call)
    name, parameters = new_name(call, "name"), call.state.broker.parameters
    required(content, "value")
    if name == CLUSTER_ID:
        raise bad_request(f"{CLUSTER_ID} cannot be changed")

    def act() -> tuple[bool, int]:
        before = (GLOBAL, GLOBAL, name) in parameters.values
        return not before, parameters.put_global(name, content["value"])

    return created(await change(call, act))


async def delete_global(call: Call) -> Done:
    """Remove the global parameter."""
    name, parameters = call.part("name"), call.state.broker.parameters
    if (GLOBAL, GLOBAL, name) not in parameters.values:
        raise not_found()
    await change(call, lambda: (None, parameters.delete_global(name)))
    return DELETED


ENDPOINTS = [
    Endpoint("/parameters", every, POLICYMAKER),
    Endpoint("/parameters/{component}", of_component, POLICYMAKER),
    Endpoint("/parameters/{component}/{vhost}", of_vhost, POLICYMAKER),
    Endpoint(
        "/parameters/{component}/{vhost}/{name}",
        one,
        POLICYMAKER,
        put=put,
        delete=delete,
        write_tags=POLICYMAKER,
    ),
    Endpoint("/global-parameters", every_global, POLICYMAKER),
    Endpoint(
        "/global-parameters/{name}",
        one_global,
        POLICYMAKER,
        put=put_global,
        delete=delete_global,
        write_tags=POLICYMAKER,
    ),
]
