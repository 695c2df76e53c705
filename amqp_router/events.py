"""The exchange ``amq.rabbitmq.event``: what happens on the node, as messages for whoever binds a queue to it.

An event has an empty body and says everything in headers. It is persistent, has the routing key of RabbitMQ's
plugin (``queue.created``) and the time. Clients may bind, and cannot publish, since the exchange is internal.

Nothing is told while nothing is bound. Otherwise an event is noted when it happens, a few plain values, and
becomes a message in a later turn of the event loop, ``SLICE`` of them in each. Clients that cause more than
that wait (``Feed.is_behind``). What waits is counted in the node's account of memory; beyond ``EVENTS_MAX``
events are dropped, and the broker's log says how many.

The exchange tells of all virtual hosts. So only users with the tag ``administrator`` or ``monitoring`` may
bind to it (``auth.users``), who see the same over HTTP.

Source: RabbitMQ, "Event Exchange Plugin".
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from amqp_router.auth.users import EVENT_EXCHANGE as EXCHANGE
from amqp_router.auth.users import Users
from amqp_router.connection.session import Session
from amqp_router.connection.transport import Transport
from amqp_router.event_headers import (
    PROTOCOL,
    PROTOCOL_0_8,
    TABLE_BYTES_MAX,
    Fact,
    Facts,
    Printed,
    address,
    metadata_of,
    properties_of,
)
from amqp_router.parameters import GLOBAL, OPERATOR_POLICY, POLICY, VHOST_LIMITS
from amqp_router.protocol.message import build_message
from persistence.definitions import (
    Change,
    Delete,
    DeleteVhost,
    ParameterRow,
    PermissionRow,
    Put,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)
from persistence.memory import MemoryBudget
from vhosts.exchanges.exchange import Binding, Exchange
from vhosts.exchanges.router import publish_args
from vhosts.exchanges.taps import Actor
from vhosts.exchanges.topic import TopicExchange
from vhosts.feed import INTERNAL, Feed
from vhosts.ports import InSlices
from vhosts.queues.handle import Consumer, QueueHandle
from vhosts.queues.settings import queue_type
from vhosts.vhost import VirtualHost

#: Events that become messages in one turn of the event loop, some 40 µs each.
SLICE = 64
#: Octets of AMQP tables that are decoded and printed before a turn takes no further event.
SLICE_BYTES = 8 << 10
#: Events that wait before those who cause more must wait, and the most that wait.
BEHIND = 1000
EVENTS_MAX = 100_000
#: Memory of an event that waits; measured.
EVENT_BYTES = 1000

_NAMES = {POLICY: "policy", OPERATOR_POLICY: "operator.policy", VHOST_LIMITS: "vhost.limits"}


class EventExchange(TopicExchange):
    """Says by ``on_count`` how many bindings it has."""

    def __init__(self, name: str, on_count: Callable[[EventExchange, int], None]) -> None:
        super().__init__(name, "topic", durable=True, internal=True)
        self._count = 0
        self._on_count = on_count

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        super().bind(binding)
        self._count += 1
        self._on_count(self, self._count)

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        super().unbind(binding)
        self._count -= 1
        self._on_count(self, self._count)


class _Noted(NamedTuple):
    key: str
    facts: Facts
    time_us: int
    #: Octets of AMQP tables among its facts.
    size: int


class Events(Feed):
    """The events of one node.

    Args:
        vhost: The virtual host that has the exchange; empty for none.
        node: Name of the node.
        event: Writes a line to the broker's log.
    """

    def __init__(
        self,
        vhost: str,
        node: str,
        users: Users,
        budget: MemoryBudget,
        *,
        in_slices: InSlices,
        wall_us: Callable[[], int],
        event: Callable[..., None],
    ) -> None:
        super().__init__()
        self._vhost = vhost
        self._node = node
        self._users = users
        self._budget = budget
        self._in_slices = in_slices
        self._wall_us = wall_us
        self._event = event
        #: The exchange, and its virtual host.
        self._home: VirtualHost | None = None
        self._exchange: EventExchange | None = None
        self._bindings = 0
        self._is_started = False
        self._waiting: deque[_Noted] = deque()
        self._dropped = 0
        #: The values of parameters by virtual host, component and name.
        self.parameters: Mapping[tuple[str, str, str], Fact] = {}
        #: Finds a virtual host by name.
        self.find: Callable[[str], VirtualHost | None] = lambda name: None

    def adopt(self, vhost: VirtualHost) -> None:
        """``vhost`` is made, and still empty: hear of it."""
        vhost.topology.hear_by(self)
        if vhost.name == self._vhost:
            self._home, self._exchange = vhost, EventExchange(EXCHANGE, self._count)
            vhost.topology.enter_exchange(self._exchange)

    def start(self) -> None:
        """What was stored is loaded. What happens from now on is told."""
        self._is_started = True
        self.on = self._bindings > 0

    def _count(self, exchange: EventExchange, bindings: int) -> None:
        if exchange is self._exchange:  # and not that of a deleted virtual host
            self._bindings = bindings
            self.on = self._is_started and bindings > 0

    # -- things of virtual hosts --------------------------------------------------------------------------

    def queue(self, vhost: str, queue: QueueHandle, *, is_new: bool) -> None:
        """See ``Feed``."""
        if not is_new:
            self._note("queue.deleted", {"name": queue.name, "vhost": vhost})
            return
        owner = getattr(queue.exclusive_owner, "name", "")
        facts: Facts = {"arguments": Printed(queue.arguments), "auto_delete": bool(queue.auto_delete)}
        facts |= {"durable": bool(queue.durable), "name": queue.name, "vhost": vhost}
        facts["exclusive"] = queue.exclusive_owner is not None
        if queue_type(queue.arguments) == "quorum":
            facts["type"] = "rabbit_quorum_queue"
        else:
            facts["owner_pid"] = owner
        self._note("queue.created", facts)

    def exchange(self, vhost: str, exchange: Exchange, *, is_new: bool) -> None:
        """See ``Feed``."""
        facts: Facts = {"name": exchange.name, "vhost": vhost}
        if is_new:
            facts |= {
                "policy": _policy_name(exchange),
                "arguments": Printed(exchange.arguments),
                "internal": exchange.internal,
                "auto_delete": exchange.auto_delete,
                "durable": exchange.durable,
                "type": exchange.type,
            }
        self._note("exchange.created" if is_new else "exchange.deleted", facts)

    def binding(self, vhost: str, binding: Binding, *, is_new: bool, goes_with_queue: bool = False) -> None:
        """See ``Feed``."""
        facts: Facts = {
            "vhost": vhost,
            "arguments": Printed(binding.arguments),
            "routing_key": binding.routing_key,
            "destination_kind": binding.destination_type,
            "destination_name": binding.destination.name,
            "source_kind": "exchange",
            "source_name": binding.source.name,
        }
        key = "binding.created" if is_new else "binding.deleted"
        self._note(key, facts, INTERNAL if goes_with_queue else None)

    def policy(self, vhost: str, queue: QueueHandle) -> None:
        """See ``Feed``."""
        facts: Facts = {"name": queue.name, "vhost": vhost}
        facts["type"] = f"rabbit_{queue_type(queue.arguments)}_queue"
        found = queue.policy
        chosen = None if found is None else found.policy or found.operator
        if chosen is not None:
            self._note("queue.policy.updated", facts | chosen.value)
        else:
            self._note("queue.policy.cleared", facts)

    # -- clients ------------------------------------------------------------------------------------------

    def channel(self, vhost: str, channel: Actor, *, is_new: bool) -> None:
        """See ``Feed``."""
        facts: Facts = {"pid": _pid(channel)}
        if is_new:
            facts |= {"vhost": vhost, "user": channel.user, "number": channel.channel}
            facts |= {"connection": channel.connection, "name": _pid(channel)}
        self._note("channel.created" if is_new else "channel.closed", facts, channel.user)

    def consumer(
        self, vhost: str, channel: Actor, consumer: Consumer, *, is_new: bool, prefetch: int = 0
    ) -> None:
        """See ``Feed``."""
        facts: Facts = {"queue": consumer.queue.name, "vhost": vhost, "channel": _pid(channel)}
        facts["consumer_tag"] = consumer.tag
        if is_new:
            facts |= {"arguments": Printed(consumer.arguments), "prefetch_count": prefetch}
            facts |= {"ack_required": not consumer.no_ack, "exclusive": consumer.exclusive}
        self._note("consumer.created" if is_new else "consumer.deleted", facts, channel.user)

    def connection(self, transport: Transport, *, is_new: bool) -> None:
        """A client has opened its virtual host; or a connection has ended, in whatever state it was."""
        if not self.on:
            return
        machine = transport.machine
        session, name = machine.session, machine.shared.name
        facts: Facts = {"client_properties": Printed(session.client_properties), "node": self._node}
        facts |= {"pid": name, "name": name}
        kind, given = session.client_properties.get("connection_name", ("", b""))
        if kind == "S":
            facts["user_provided_name"] = given.decode("utf-8", "surrogateescape")
        if not is_new:
            self._note("connection.closed", facts, "")
            return
        facts |= _addresses(session)
        facts |= {"type": "network", "channel_max": session.channel_max, "frame_max": session.frame_max}
        facts |= {"timeout": session.heartbeat_s, "vhost": machine.vhost.name, "user": machine.user.name}
        facts |= {"port": session.host_address[1], "connected_at": transport.connected_at_ms}
        names = ("ssl_hash", "ssl_cipher", "ssl_key_exchange", "ssl_protocol")
        facts |= dict.fromkeys([*names, "peer_cert_validity", "peer_cert_issuer", "peer_cert_subject"], "")
        self._note("connection.created", facts, machine.user.name)

    def login(self, session: Session, connection: str, user: str, error: str = "") -> None:
        """The client of a connection has logged in as ``user``, or failed to, for the reason ``error``."""
        if not self.on:
            return
        facts = _addresses(session)
        facts |= {"name": user, "connection_name": connection}
        facts["connection_type"] = "network"
        if error:
            facts["error"] = error
        self._note(f"user.authentication.{'failure' if error else 'success'}", facts, "")

    # -- the node -----------------------------------------------------------------------------------------

    def alarm(self, name: str, is_on: bool) -> None:
        """A resource is short, or not any more."""
        if self.on:
            self._note("alarm.set" if is_on else "alarm.cleared", {"node": self._node, "source": name}, "")

    def submitted(self, changes: Sequence[Change]) -> None:
        """The definition store takes ``changes``; memory still is as it was before."""
        if not self.on:
            return
        gone = {each.key[0] for each in changes if isinstance(each, Delete) and each.kind == UserRow.kind}
        for change in changes:
            if isinstance(change, DeleteVhost):
                self._vhost_deleted(change.vhost)
            elif isinstance(change, Put):
                self._put(change)
            elif isinstance(change, Delete):
                self._delete(change, gone)

    def _put(self, change: Put) -> None:
        row = change.row
        if isinstance(row, UserRow):
            self._user(row)
        elif isinstance(row, PermissionRow):
            facts: Facts = {"user": row.user, "vhost": row.vhost, "configure": row.configure}
            self._note("permission.created", facts | {"write": row.write, "read": row.read})
        elif isinstance(row, TopicPermissionRow):
            facts = {"user": row.user, "vhost": row.vhost, "exchange": row.exchange}
            self._note("topic.permission.created", facts | {"write": row.write, "read": row.read})
        elif isinstance(row, VhostRow):
            self._vhost_put(row)
        elif isinstance(row, ParameterRow):
            self._parameter(row)

    def _delete(self, change: Delete, gone: Iterable[str | bytes]) -> None:
        key = [str(part) for part in change.key]
        if change.kind == UserRow.kind:
            self._note("user.deleted", {"name": key[0]})
        elif change.kind == PermissionRow.kind and key[0] not in gone:
            self._note("permission.deleted", {"user": key[0], "vhost": key[1]})
        elif change.kind == TopicPermissionRow.kind and key[0] not in gone:
            self._note("topic.permission.deleted", {"user": key[0], "vhost": key[1], "exchange": key[2]})
        elif change.kind == ParameterRow.kind:
            self._parameter_cleared(*key)

    def _user(self, row: UserRow) -> None:
        """Its password hash is in no event."""
        known = self._users.users.get(row.name)
        if known is None:
            self._note("user.created", {"name": row.name})
        elif (known.max_connections, known.max_channels) != (row.max_connections, row.max_channels):
            limits = {"max-connections": row.max_connections, "max-channels": row.max_channels}
            facts: Facts = {name: limit for name, limit in limits.items() if limit >= 0}
            key = "user.limits.set" if facts else "user.limits.cleared"
            self._note(key, facts | {"name": "limits", "username": row.name})
            return
        elif known.password_hash != row.password_hash:
            key = "user.password.changed" if row.password_hash else "user.password.cleared"
            self._note(key, {"name": row.name})
        self._note("user.tags.set", {"name": row.name, "tags": list(row.tags)})

    def _vhost_put(self, row: VhostRow) -> None:
        facts: Facts = {
            "name": row.name,
            "description": row.description,
            "tags": list(row.tags),
            "tracing": row.tracing,
            "default_queue_type": row.default_queue_type or "undefined",
            "metadata": metadata_of(row.description, row.tags),
            "cluster_state": {self._node: "running"},
        }
        self._note("vhost.created" if self.find(row.name) is None else "vhost.updated", facts)

    def _vhost_deleted(self, name: str) -> None:
        for user, vhost in self._users.permissions:
            if vhost == name:
                self._note("permission.deleted", {"user": user, "vhost": name})
        for vhost, component, parameter in self.parameters:
            if vhost == name:
                self._parameter_cleared(vhost, component, parameter)
        self._note("vhost.deleted", {"name": name})
        if name == self._vhost:
            self._home = self._exchange = None
            self._bindings = 0
            self.on = False

    def _parameter(self, row: ParameterRow) -> None:
        value = json.loads(row.value)
        if row.vhost == GLOBAL:
            # Its value is for whoever put it there, and may be a secret.
            self._note("parameter.set", {"name": row.name, "component": "global"})
            return
        if self.parameters.get((row.vhost, row.component, row.name)) == value:
            return
        if row.component != POLICY:
            facts: Facts = {"name": row.name, "component": row.component, "vhost": row.vhost}
            self._note("parameter.set", facts | {"value": value})
        key = "policy.set" if row.component == OPERATOR_POLICY else f"{_NAMES[row.component]}.set"
        self._note(key, {"name": row.name, "vhost": row.vhost, **value})

    def _parameter_cleared(self, vhost: str, component: str, name: str) -> None:
        if vhost == GLOBAL:
            self._note("parameter.cleared", {"name": name, "component": "global"})
            return
        if component != POLICY:
            self._note("parameter.cleared", {"name": name, "component": component, "vhost": vhost})
        self._note(f"{_NAMES[component]}.cleared", {"name": name, "vhost": vhost})

    # -- from events to messages --------------------------------------------------------------------------

    def _note(self, key: str, facts: Facts, actor: str | None = None) -> None:
        """``actor`` is who did it, if that is not who acts just now; empty if nobody is told."""
        waiting = self._waiting
        if len(waiting) >= EVENTS_MAX:
            self._dropped += 1
            return
        actor = self.actor if actor is None else actor
        if actor:
            facts["user_who_performed_action"] = actor
        tables = [(name, fact) for name, fact in facts.items() if isinstance(fact, Printed) and fact.size]
        size = 0
        for name, table in tables:
            if table.size > TABLE_BYTES_MAX:
                del facts[name]  # now, as what waits would keep it in memory
            else:
                size += table.size
        waiting.append(_Noted(key, facts, self._wall_us(), size))
        self._budget.held += EVENT_BYTES + size
        self.is_behind = len(waiting) > BEHIND
        if len(waiting) == 1:
            self._in_slices(self._send_some)

    def _send_some(self) -> bool:
        """Make a slice of the events into messages; True if none is left."""
        waiting, home, exchange = self._waiting, self._home, self._exchange
        some: list[_Noted] = []
        size = 0
        while waiting and len(some) < SLICE and size < SLICE_BYTES:
            some.append(waiting.popleft())
            size += some[-1].size
        self._budget.held -= EVENT_BYTES * len(some) + size
        self.is_behind = len(waiting) > BEHIND
        if home is not None and exchange is not None and self.on:
            messages = []
            for noted in some:
                args = publish_args(EXCHANGE, noted.key)
                route = args[2 : len(args) - 1]
                messages.append(build_message(route, properties_of(noted.facts, noted.time_us), b""))
            home.topology.passing.pass_on(exchange, messages)
        if not waiting and self._dropped:
            self._event(logging.WARNING, "events dropped, too many at a time", count=self._dropped)
            self._dropped = 0
        return not waiting


def _policy_name(exchange: Exchange) -> str:
    found = exchange.policy
    return "" if found is None or found.policy is None else found.policy.name


def _addresses(session: Session) -> Facts:
    return {
        "ssl": session.is_encrypted,
        "auth_mechanism": session.mechanism,
        "protocol": PROTOCOL_0_8 if session.is_0_8 else PROTOCOL,
        "peer_port": session.peer_address[1],
        "peer_host": address(session.peer_address[0]),
        "host": address(session.host_address[0]),
    }


def _pid(channel: Actor) -> str:
    return f"{channel.connection} ({channel.channel})"


__all__ = ["EXCHANGE", "INTERNAL", "EventExchange", "Events"]
