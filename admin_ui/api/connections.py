"""Connections, channels and consumers. Without the tag monitoring, users see only their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from admin_ui.auth import ADMINISTRATOR, MONITORING
from admin_ui.documents import connections, queues
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call, Endpoint, Rows, WithRows
from admin_ui.query import Entire
from admin_ui.replies import Done, not_authorised, not_found
from admin_ui.writing import DELETED, change
from amqp_router.channel.states import ChannelState
from amqp_router.connection.machine import Machine
from amqp_router.disconnecting import close_those, force
from amqp_router.protocol.errors import ConnectionForced

#: What clients read if the caller gives no reason.
CLOSED = "Closed via management plugin"
#: Octets of a reason: with the name of the error they must fit into AMQP's 255.
REASON_BYTES_MAX = 220


def _seen(call: Call) -> list[Any]:
    """The connections with an open virtual host that the caller may see."""
    everything = call.identity.has(MONITORING)
    only = call.request.headers.get("X-Vhost")
    return [
        transport
        for transport in call.state.broker.registry
        if (machine := transport.machine).vhost is not None
        and (everything or machine.user.name == call.identity.name)
        and (not only or machine.vhost.name == only)
    ]


def _stats(call: Call) -> Stats:
    return Stats(call.state.metrics, call.query.spans)


def _rows(call: Call, found: list[Any], make: Callable[[Any, str, Stats], Any]) -> Rows:
    node, stats = call.state.node, _stats(call)
    return Rows(found, lambda each: make(each, node, stats), name=connections.name)


def every(call: Call) -> Rows:
    """All connections."""
    return _rows(call, _seen(call), connections.listed)


def every_by_client(call: Call) -> Rows:
    """All connections. The filter also compares the names that clients give their connections."""

    def names(transport: Any) -> str:
        return f"{connections.client_says(transport, 'connection_name')} {connections.name(transport)}"

    return replace(every(call), name=names)


def of_vhost(call: Call) -> Rows:
    """The connections of one virtual host."""
    vhost = call.vhost()
    found = [transport for transport in _seen(call) if transport.machine.vhost is vhost]
    return _rows(call, found, connections.listed)


def of_user(call: Call) -> Rows:
    """The connections of one user, with few fields."""
    user, node = call.part("user"), call.state.node
    found = [transport for transport in _seen(call) if transport.machine.user.name == user]
    return Rows(found, lambda transport: connections.brief(transport, node), name=connections.name)


def _find(call: Call, name: str) -> Any:
    """The connection of that name.

    Raises:
        ApiError: there is none (404), or the caller may not see it (401).
    """
    peer = name.partition(" -> ")[0]
    for transport in call.state.broker.registry:
        machine = transport.machine
        if machine.peer == peer and machine.vhost is not None and connections.name(transport) == name:
            if machine.user.name != call.identity.name and not call.identity.has(MONITORING):
                raise not_authorised("User not authorised to access object")
            return transport
    raise not_found()


def one(call: Call) -> dict[str, Any]:
    """One connection."""
    document = connections.document(_find(call, call.part("connection")), call.state.node, _stats(call))
    return Entire(document)


async def close(call: Call) -> Done:
    """Close the connection; the header X-Reason goes into the text for its client."""
    transport = _find(call, call.part("connection"))
    if transport.machine.user.name != call.identity.name and not call.identity.has(ADMINISTRATOR):
        raise not_authorised("User not authorised to access object")
    await change(call, lambda: (transport.close(partial(force, _forced(call))), 0))
    return DELETED


async def close_of_user(call: Call) -> Done:
    """Close all connections of a user."""
    name, broker = call.part("user"), call.state.broker
    if name != call.identity.name and not call.identity.has(ADMINISTRATOR):
        raise not_authorised("User not authorised to access object")

    def which(machine: Machine) -> bool:
        return machine.user is not None and machine.user.name == name

    def act() -> tuple[None, int]:
        close_those(broker.registry, which, _forced(call), broker.in_slices)
        return None, 0

    await change(call, act)
    return DELETED


def given_reason(call: Call) -> str:
    """The header X-Reason, cut to what AMQP has room for."""
    reason = call.request.headers.get("X-Reason", "").strip() or CLOSED
    return reason.encode(errors="replace")[:REASON_BYTES_MAX].decode(errors="ignore")


def _forced(call: Call) -> ConnectionForced:
    return ConnectionForced(given_reason(call))


# -- channels ---------------------------------------------------------------------------------------


def _channels(call: Call, transports: Iterable[Any]) -> Rows:
    node, stats = call.state.node, _stats(call)
    found = [
        channel
        for transport in transports
        for channel in transport.machine.channels.values()
        if channel.state is ChannelState.OPEN
    ]
    return Rows(
        found,
        lambda channel: connections.channel_document(channel, node, stats),
        name=connections.channel_name,
    )


def every_channel(call: Call) -> Rows:
    """All channels."""
    return _channels(call, _seen(call))


def every_channel_by_client(call: Call) -> Rows:
    """All channels, each with the name that its client gives its connection (``client``), which the filter
    compares, too.
    """

    def client(channel: Any) -> str:
        return connections.machine_says(channel.connection, "connection_name")

    rows = every_channel(call)
    document = rows.document
    return replace(
        rows,
        document=lambda channel: {**document(channel), "client": client(channel)},
        name=lambda channel: f"{client(channel)} {connections.channel_name(channel)}",
    )


def channels_of_vhost(call: Call) -> Rows:
    """The channels of one virtual host."""
    vhost = call.vhost()
    return _channels(call, [transport for transport in _seen(call) if transport.machine.vhost is vhost])


def channels_of_connection(call: Call) -> Rows:
    """The channels of one connection."""
    return _channels(call, [_find(call, call.part("connection"))])


def one_channel(call: Call) -> WithRows:
    """One channel, with its consumers."""
    name, _, number = call.part("channel").rpartition(" ")
    transport = _find(call, name)
    for channel in transport.machine.channels.values():
        if f"({channel.number})" == number and channel.state is ChannelState.OPEN:
            node = call.state.node
            found = connections.channel_document(channel, node, _stats(call))
            # RabbitMQ fills it only in rates_mode "detailed".
            found["deliveries"] = []
            found["publishes"] = []
            consumers = queues.consumers(channel.consumers.values(), node)
            return WithRows(Entire(found), "consumer_details", consumers)
    raise not_found()


# -- consumers --------------------------------------------------------------------------------------


def _consumers(call: Call, vhosts: Iterable[Any]) -> Rows:
    node, everything = call.state.node, call.identity.has(MONITORING)
    found = [
        consumer
        for vhost in vhosts
        for queue in vhost.queues.values()
        if queue.consumers
        for consumer in queue.consumers
        if everything or consumer.delivery.listener.connection.user.name == call.identity.name
    ]
    return Rows(found, lambda each: queues.consumer(each, node), name=lambda each: str(each.tag))


def every_consumer(call: Call) -> Rows:
    """The consumers of all virtual hosts."""
    return _consumers(call, call.vhosts())


def consumers_of_vhost(call: Call) -> Rows:
    """The consumers of one virtual host; an empty list for who may not see it, as in RabbitMQ."""
    vhost = call.state.broker.vhosts.get(call.part("vhost") or "/")
    if vhost is None:
        raise not_found()
    return _consumers(call, [vhost] if call.identity.lists(vhost.name) else [])


ENDPOINTS = [
    Endpoint("/connections", every),
    Endpoint("/connections/username/{user}", of_user, delete=close_of_user),
    Endpoint("/connections/{connection}", one, delete=close),
    Endpoint("/connections/{connection}/channels", channels_of_connection),
    Endpoint("/vhosts/{vhost}/connections", of_vhost),
    Endpoint("/channels", every_channel),
    Endpoint("/channels/{channel}", one_channel),
    Endpoint("/vhosts/{vhost}/channels", channels_of_vhost),
    Endpoint("/consumers", every_consumer),
    Endpoint("/consumers/{vhost}", consumers_of_vhost),
]
