"""Runtime parameters: policies, operator policies and limits of virtual hosts; and global parameters.

A parameter belongs to a virtual host and has a component, a name and a value as in JSON. The component says
what the value means. Global parameters mean nothing to the broker, except for the name of the cluster;
operators keep notes in them.

Source: RabbitMQ, "Parameters and Policies".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amqp_router.protocol.errors import InternalError
from persistence.definitions import Change, Delete, ParameterRow, Put
from persistence.errors import PersistenceError
from vhosts.limits import NO_LIMITS, VhostLimits, parse_vhost_limits
from vhosts.policies import OPERATOR_KEYS, POLICY_KEYS, InvalidParameter, Policy, parse
from vhosts.ports import DefinitionsPort
from vhosts.vhost import VirtualHost

POLICY = "policy"
OPERATOR_POLICY = "operator_policy"
VHOST_LIMITS = "vhost-limits"
#: The virtual host and component of global parameters.
GLOBAL = ""
#: The global parameter that names the cluster.
CLUSTER_NAME = "cluster_name"


@dataclass(frozen=True)
class Component:
    """What the values of a component mean."""

    #: Checks a name and value, and makes what ``put`` takes; raises InvalidParameter.
    parse: Callable[[str, Any], Any]
    put: Callable[[VirtualHost, str, Any], None]
    remove: Callable[[VirtualHost, str], None]
    #: The value to store for what ``parse`` has made.
    value: Callable[[Any], Any]


def _put_policy(vhost: VirtualHost, name: str, policy: Policy) -> None:
    vhost.obedience.put(vhost.obedience.policies, policy)


def _put_operator_policy(vhost: VirtualHost, name: str, policy: Policy) -> None:
    vhost.obedience.put(vhost.obedience.operator_policies, policy)


def _remove_policy(vhost: VirtualHost, name: str) -> None:
    vhost.obedience.remove(vhost.obedience.policies, name)


def _remove_operator_policy(vhost: VirtualHost, name: str) -> None:
    vhost.obedience.remove(vhost.obedience.operator_policies, name)


def _put_limits(vhost: VirtualHost, name: str, limits: VhostLimits) -> None:
    vhost.limits = limits


def _remove_limits(vhost: VirtualHost, name: str) -> None:
    vhost.limits = NO_LIMITS


def _value(parsed: Policy | VhostLimits) -> Any:
    return parsed.value


COMPONENTS: dict[str, Component] = {
    POLICY: Component(
        lambda name, value: parse(name, value, POLICY_KEYS), _put_policy, _remove_policy, _value
    ),
    OPERATOR_POLICY: Component(
        lambda name, value: parse(name, value, OPERATOR_KEYS),
        _put_operator_policy,
        _remove_operator_policy,
        _value,
    ),
    VHOST_LIMITS: Component(
        lambda name, value: parse_vhost_limits(value), _put_limits, _remove_limits, _value
    ),
}


def no_component(name: str) -> InvalidParameter:
    """A parameter is of a component that this broker does not have."""
    return InvalidParameter([f"component {name} not found"])


class Parameters:
    """The parameters of one node. Methods that change something return the revision to wait for.

    They raise InternalError, and nothing has changed, if the definition store refuses (541).
    """

    def __init__(self, definitions: DefinitionsPort) -> None:
        #: Values by virtual host, component and name.
        self.values: dict[tuple[str, str, str], Any] = {}
        self._definitions = definitions

    def of(self, component: str, vhost: str | None = None) -> Iterator[tuple[str, str, Any]]:
        """Virtual host, name and value of each parameter of ``component``, of one virtual host or all."""
        for key in sorted(self.values):
            if key[1] == component and vhost in (None, key[0]):
                yield key[0], key[2], self.values[key]

    def cluster_name(self, node: str) -> str:
        """The name of the cluster: the one that was set, otherwise that of the node."""
        name = self.values.get((GLOBAL, GLOBAL, CLUSTER_NAME))
        return name if isinstance(name, str) else node

    def put(self, vhost: VirtualHost, component: str, name: str, value: Any) -> int:
        """Set a parameter.

        Raises:
            InvalidParameter: there is no such component, or the value is wrong.
        """
        kind = COMPONENTS.get(component)
        if kind is None:
            raise no_component(component)
        parsed = kind.parse(name, value)
        stored = kind.value(parsed)
        rev = self._submit([Put(ParameterRow(vhost.name, component, name, _text(stored)))])
        self.values[vhost.name, component, name] = stored
        kind.put(vhost, name, parsed)
        return rev

    def delete(self, vhost: VirtualHost, component: str, name: str) -> int:
        """Remove a parameter.

        Raises:
            KeyError: there is none.
        """
        key = (vhost.name, component, name)
        self.values[key]
        rev = self._submit([Delete(ParameterRow.kind, key)])
        self.leave(vhost, component, name)
        return rev

    def put_global(self, name: str, value: Any) -> int:
        """Set a global parameter."""
        rev = self._submit([Put(ParameterRow(GLOBAL, GLOBAL, name, _text(value)))])
        self.values[GLOBAL, GLOBAL, name] = value
        return rev

    def delete_global(self, name: str) -> int:
        """Remove a global parameter.

        Raises:
            KeyError: there is none.
        """
        key = (GLOBAL, GLOBAL, name)
        self.values[key]
        rev = self._submit([Delete(ParameterRow.kind, key)])
        del self.values[key]
        return rev

    # -- what is stored already ------------------------------------------------------------------------

    def enter(self, vhost: VirtualHost | None, row: ParameterRow) -> None:
        """Take over ``row``, a parameter of ``vhost`` or a global one (None).

        Raises:
            InvalidParameter: this release does not take it.
        """
        value = json.loads(row.value)
        if vhost is not None:
            kind = COMPONENTS.get(row.component)
            if kind is None:
                raise InvalidParameter([f"component {row.component} not found"])
            kind.put(vhost, row.name, kind.parse(row.name, value))
        self.values[row.vhost, row.component, row.name] = value

    def leave(self, vhost: VirtualHost | None, component: str, name: str) -> None:
        """Forget a parameter, whose row is gone; nothing happens if there is none."""
        known = self.values.pop((vhost.name if vhost is not None else GLOBAL, component, name), None)
        if vhost is not None and known is not None:
            COMPONENTS[component].remove(vhost, name)

    def forget_vhost(self, vhost: str) -> None:
        """Forget the parameters of a virtual host, which is deleted with its rows."""
        for key in [key for key in self.values if key[0] == vhost]:
            del self.values[key]

    def _submit(self, changes: Sequence[Change]) -> int:
        try:
            return self._definitions.submit(changes)
        except PersistenceError as error:
            raise InternalError(str(error)) from error


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
