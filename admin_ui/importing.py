"""Definitions made by an import: users, virtual hosts, permissions, parameters, policies, queues and so on.

An import adds and changes, it removes nothing. Queues and exchanges that exist stay as they are. What this
broker cannot have (a shovel, an exchange type or a queue argument that it does not know) is left out and
named; in a strict import it is an error. A virtual host or user that the file takes for granted and that is
not there is always an error. After an error, what came before stays.

Source: RabbitMQ, "Schema Definition Export and Import"; errors as measured with 3.10.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from admin_ui.replies import ApiError, bad_request
from admin_ui.writing import arguments, boolean, required, tags_of, vhost_metadata
from amqp_router.auth.passwords import DEFAULT_ALGORITHM
from amqp_router.broker import Broker
from amqp_router.parameters import COMPONENTS, OPERATOR_POLICY, POLICY, no_component
from amqp_router.protocol.errors import AMQPError, InternalError
from vhosts.arguments import check_queue_arguments
from vhosts.exchanges.types import exchange_type
from vhosts.limits import USER_LIMITS, limit_problems
from vhosts.policies import InvalidParameter
from vhosts.vhost import VirtualHost

#: The sections of a file, in the order in which they are imported.
SECTIONS = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)
#: The sections of a file for one virtual host.
VHOST_SECTIONS = ("parameters", "policies", "queues", "exchanges", "bindings")
#: A global parameter that is this node's own.
CLUSTER_ID = "internal_cluster_id"
#: Items whose types are looked at in one step.
CHECKED = 4096


def not_objects(section: str) -> ApiError:
    """400: a section is not a list of objects."""
    return bad_request(f"{section} is not a list of objects")


def as_over_http(section: str, item: dict[str, Any]) -> dict[str, Any]:
    """An item as RabbitMQ's HTTP API writes it.

    ``rabbitmqctl export_definitions`` of RabbitMQ 3.10 differs from it in two things. It writes the
    definition of an operator policy as a list of pairs, ``[["max-length", 1000]]``. It gives a virtual host
    its limits, which are among the parameters, too.
    """
    if section == "vhosts" and "limits" in item:
        return {key: value for key, value in item.items() if key != "limits"}
    if section == "parameters" and item.get("component") == OPERATOR_POLICY:
        value: Any = item.get("value")
        pairs = value.get("definition") if isinstance(value, dict) else None
        if isinstance(pairs, list) and pairs and all(map(_is_pair, pairs)):
            return {**item, "value": {**value, "definition": dict(pairs)}}
    return item


def refusal(section: str, item: dict[str, Any]) -> str:
    """Why this broker cannot have an item (as over HTTP), whatever else there is; empty if it can.

    Raises:
        ApiError: the item is malformed, which ends an import (400).
    """
    try:
        if section == "queues":
            check_queue_arguments(
                str(item.get("name")),
                str(item.get("vhost")),
                arguments(item),
                durable=boolean(item, "durable"),
                exclusive=False,
                auto_delete=boolean(item, "auto_delete"),
            )
        elif section == "exchanges":
            exchange_type(str(item.get("type")))
        elif section in ("parameters", "policies"):
            name = POLICY if section == "policies" else str(item.get("component"))
            if name not in COMPONENTS:
                raise no_component(name)
            COMPONENTS[name].parse(
                str(item.get("name")), item if section == "policies" else item.get("value")
            )
    except AMQPError as error:
        return error.text
    except ValueError as error:
        return str(error).removeprefix("Validation failed").strip()
    return ""


def _is_pair(found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and isinstance(found[0], str)


class Import:
    """One import.

    ``vhost`` is given for a file of one virtual host, whose items do not name it. ``changed`` is called
    with the name of each user of the file, once the user is as the file says.

    Raises:
        ApiError: a section is not a list (400).
    """

    def __init__(
        self,
        broker: Broker,
        content: dict[str, Any],
        *,
        vhost: str | None = None,
        strict: bool = False,
        changed: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._broker = broker
        self._vhost = vhost
        self._strict = strict
        self._changed = changed
        #: Objects that were left out, and why.
        self.left_out: list[dict[str, Any]] = []
        #: The revision of the definitions that stores everything.
        self.rev = 0
        self._lists: list[tuple[str, list[dict[str, Any]]]] = []
        for section in SECTIONS if vhost is None else VHOST_SECTIONS:
            found = content.get(section, [])
            if not isinstance(found, list):
                raise not_objects(section)
            self._lists.append((section, found))

    def steps(self) -> Iterator[None]:
        """Import one item at each step; the first steps look at the sections.

        Raises:
            ApiError: a section has something else than objects, or an item cannot be imported (400).
        """
        for section, items in self._lists:
            for start in range(0, len(items), CHECKED):
                if not {dict}.issuperset(map(type, items[start : start + CHECKED])):
                    raise not_objects(section)
                yield
        for section, items in self._lists:
            for item in items:
                try:
                    self.rev = max(self.rev, _ACTS[section](self, as_over_http(section, item)))
                except InternalError as error:
                    raise ApiError(500, "internal_error", error.text) from None
                except AMQPError as error:
                    self._leave_out(section, item, error.text)
                except ValueError as error:
                    self._leave_out(section, item, str(error))
                yield

    def _leave_out(self, section: str, item: dict[str, Any], reason: str) -> None:
        names = ("vhost", "name", "component", "source", "destination", "routing_key", "user")
        about = {"section": section, **{name: item[name] for name in names if name in item}}
        if self._strict:
            raise bad_request(f"{about}: {reason}")
        self.left_out.append({**about, "reason": reason})

    def _find_vhost(self, item: dict[str, Any]) -> VirtualHost:
        if self._vhost is None:
            required(item, "vhost")
        name = item["vhost"] if self._vhost is None else self._vhost
        vhost = self._broker.vhosts.get(name) if isinstance(name, str) else None
        if vhost is None:
            raise bad_request(["no_such_vhost", name])
        return vhost

    # -- one item of each section ----------------------------------------------------------------------

    def _user(self, item: dict[str, Any]) -> int:
        required(item, "name", "tags")
        users, name, tags = self._broker.users, _name(item), tags_of(item["tags"])
        limits = item.get("limits") or {}
        problems = limit_problems(limits, USER_LIMITS, "user-limits")
        if problems:
            raise InvalidParameter(problems)
        if item.get("password"):
            rev = users.put_user(name, str(item["password"]).encode(), tags)
        else:
            password_hash = str(item.get("password_hash") or "")
            algorithm = str(item.get("hashing_algorithm") or DEFAULT_ALGORITHM)
            rev = users.put_user_hash(name, password_hash, algorithm, tags)
        if limits:
            fields = {each.replace("-", "_"): max(limit, -1) for each, limit in limits.items()}
            rev = users.set_limits(name, **fields)
        self._changed(name)
        return rev

    def _virtual_host(self, item: dict[str, Any]) -> int:
        required(item, "name")
        metadata = {**item, **(item.get("metadata") or {})}
        return self._broker.virtual_hosts.put(_name(item), **vhost_metadata(metadata))

    def _permission(self, item: dict[str, Any]) -> int:
        required(item, "user", "vhost", "configure", "write", "read")
        vhost, user = self._find_vhost(item), item["user"]
        if user not in self._broker.users.users:
            raise bad_request(["no_such_user", user])
        patterns = {action: str(item[action]) for action in ("configure", "write", "read")}
        return self._broker.users.set_permission(user, vhost.name, **patterns)

    def _topic_permission(self, item: dict[str, Any]) -> int:
        required(item, "user", "vhost", "exchange", "write", "read")
        vhost, user, exchange = self._find_vhost(item), item["user"], str(item["exchange"])
        if user not in self._broker.users.users:
            raise bad_request(["no_such_user", user])
        patterns = {action: str(item[action]) for action in ("write", "read")}
        return self._broker.users.set_topic_permission(user, vhost.name, exchange, **patterns)

    def _parameter(self, item: dict[str, Any]) -> int:
        required(item, "component", "name", "value")
        vhost = self._find_vhost(item)
        return self._broker.parameters.put(vhost, str(item["component"]), _name(item), item["value"])

    def _global_parameter(self, item: dict[str, Any]) -> int:
        required(item, "name", "value")
        if item["name"] == CLUSTER_ID:
            return 0
        return self._broker.parameters.put_global(_name(item), item["value"])

    def _policy(self, item: dict[str, Any]) -> int:
        required(item, "name", "pattern", "definition")
        value = {key: item[key] for key in ("pattern", "definition", "priority", "apply-to") if key in item}
        return self._broker.parameters.put(self._find_vhost(item), POLICY, _name(item), value)

    def _queue(self, item: dict[str, Any]) -> int:
        required(item, "name", "durable", "auto_delete", "arguments")
        vhost, name = self._find_vhost(item), _name(item)
        if name in vhost.queues:
            return 0
        durable, auto_delete = boolean(item, "durable"), boolean(item, "auto_delete")
        _, rev = vhost.declare_queue(
            name, durable=durable, auto_delete=auto_delete, arguments=arguments(item)
        )
        return rev

    def _exchange(self, item: dict[str, Any]) -> int:
        required(item, "name", "type", "durable", "auto_delete", "arguments")
        vhost, name = self._find_vhost(item), _name(item)
        if name in vhost.exchanges:
            return 0
        return vhost.declare_exchange(
            name,
            str(item["type"]),
            durable=boolean(item, "durable"),
            auto_delete=boolean(item, "auto_delete"),
            internal=boolean(item, "internal"),
            arguments=arguments(item),
        )

    def _binding(self, item: dict[str, Any]) -> int:
        required(item, "source", "destination", "destination_type", "routing_key", "arguments")
        vhost = self._find_vhost(item)
        source, destination, key = (str(item[each]) for each in ("source", "destination", "routing_key"))
        if item["destination_type"] == "exchange":
            return vhost.bind_exchange(destination, source, key, arguments(item))
        return vhost.bind_queue(destination, source, key, arguments(item), None)


def _name(item: dict[str, Any]) -> str:
    name = item["name"]
    if not isinstance(name, str) or not name:
        raise bad_request("a name is missing, or is not a string")
    return name


#: How an item of each section is imported; the result is the revision that stores it.
_ACTS: dict[str, Callable[[Import, dict[str, Any]], int]] = {
    "users": Import._user,
    "vhosts": Import._virtual_host,
    "permissions": Import._permission,
    "topic_permissions": Import._topic_permission,
    "parameters": Import._parameter,
    "global_parameters": Import._global_parameter,
    "policies": Import._policy,
    "queues": Import._queue,
    "exchanges": Import._exchange,
    "bindings": Import._binding,
}
