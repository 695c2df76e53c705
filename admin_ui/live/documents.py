"""The events of the overview, and of topics about one object."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from admin_ui.api.exchanges import real_name
from admin_ui.auth import MONITORING, Identity
from admin_ui.documents import connections, exchanges, overview, queues, vhosts
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call
from admin_ui.live.attention import Attention, shown
from admin_ui.live.findings import Finding
from admin_ui.live.rows import state_of
from admin_ui.query import NO_SPANS, Query
from admin_ui.state import STATE, State
from amqp_router.channel.channel import Channel
from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.metrics import EXCHANGE, INTERVAL_S, NODE
from persistence.memory import KEPT_SHARE
from vhosts.vhost import VirtualHost

#: Consumers in the event of a connection, or of a queue.
CONSUMERS_MAX = 200
#: Routing keys in the event of an exchange.
KEYS_MAX = 20

Event = dict[str, Any]


def build(request: web.Request, identity: Identity, topic: str, attention: Attention) -> Event:
    """The event of a topic as ``identity`` may see it."""
    kind, _, about = topic.partition(":")
    event = KINDS[kind](request.app[STATE], request, identity, about, attention)
    event.setdefault("at", _now())
    return event


def _now() -> int:
    return int(time.time() * 1000)


def _overview(
    state: State, request: web.Request, identity: Identity, about: str, attention: Attention
) -> Event:
    only = unquote(about)
    if only and not (only in state.broker.vhosts and identity.lists(only)):
        return {"gone": True}
    seen = [
        vhost for name, vhost in state.broker.vhosts.items() if identity.lists(name) and only in ("", name)
    ]
    names = {vhost.name for vhost in seen}
    watches_node = identity.has(MONITORING)
    mine = attention.visible(names, identity.name, watches_node=watches_node, whole=not only)
    # The event is shared by all viewers, so nothing in this viewer's request may narrow it.
    call = Call(request.clone(headers={}), identity, state, Query())
    document = _of_vhost(state, seen[0]) if only else overview.document(call)
    visible = shown(mine.worst)
    event = {
        "overview": {key: document[key] for key in SHOWN if key in document},
        **_counts(state, identity, seen),
        "node": _node(state) if watches_node else None,
        "attention": [attention.dated(each) for each in visible],
        "attention_total": mine.counts.total(),
        "attention_more": _not_shown(mine.counts, visible),
    }
    if state.metrics.answers_from_tick():
        event["at"] = state.metrics.tick * INTERVAL_S * 1000
    return event


def _not_shown(counts: Counter[str], visible: list[Finding]) -> dict[str, int]:
    """The number of findings of each kind that are not in ``visible``."""
    more = counts.copy()
    more.subtract([each["kind"] for each in visible])
    return {kind: number for kind, number in more.items() if number}


#: The fields of RabbitMQ's documents that the overview page uses.
SHOWN = (
    "message_stats",
    "queue_totals",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
)


def _of_vhost(state: State, vhost: VirtualHost) -> Event:
    stats = Stats(state.metrics, NO_SPANS)
    return vhosts.document(vhost, state.node, stats, state.metrics.now()[vhost])


def _counts(state: State, identity: Identity, seen: list[VirtualHost]) -> dict[str, int]:
    connected = [
        transport.machine
        for transport in state.broker.registry
        if transport.machine.vhost in seen
        and (identity.has(MONITORING) or transport.machine.user.name == identity.name)
    ]
    return {
        "queues": sum([len(vhost.queues) for vhost in seen]),
        "exchanges": sum([len(vhost.exchanges) for vhost in seen]),
        "consumers": sum([len(queue.consumers) for vhost in seen for queue in vhost.queues.values()]),
        "connections": len(connected),
        "channels": sum([len(machine.channels) for machine in connected]),
    }


def _node(state: State) -> Event:
    metrics, budget = state.metrics, state.broker.budget
    row = dict(zip(NODE.fields, metrics.node.last, strict=False))
    return {
        # See ``persistence.memory``: bytes, and the limit of each account; 0 means none.
        "accounts": {
            "contents": (budget.used, budget.limit),
            "held": (budget.held, budget.whole),
            "kept": (budget.kept, budget.whole // KEPT_SHARE),
        },
        "mem_used": row["mem_used"],
        "mem_limit": metrics.usage.mem_total,
        "fd_used": row["fd_used"],
        "fd_total": metrics.usage.fd_total,
        "disk_free": row["disk_free"],
        "loop_lag_ms": round(metrics.lag.last_s * 1000, 2),
        "uptime": int((time.monotonic() - state.started_at) * 1000),
    }


def _queue(state: State, request: web.Request, identity: Identity, about: str, attention: Attention) -> Event:
    vhost, name = _split(about)
    found = state.broker.vhosts.get(vhost)
    queue = found.queues.get(name) if found is not None and identity.lists(vhost) else None
    if queue is None:
        return {"gone": True}
    document = queues.single(queue, state.node, Stats(state.metrics, NO_SPANS))
    details = document["consumer_details"] = []
    clients = {}
    for consumer in islice(queue.consumers, CONSUMERS_MAX):
        assert isinstance(consumer, ChannelConsumer)
        detail = queues.consumer(consumer, state.node)
        if detail is None:
            continue
        details.append(detail)
        channel = consumer.delivery.listener
        assert isinstance(channel, Channel)
        machine = channel.connection
        detail["unacked"] = consumer.unacked
        clients[connections.machine_name(machine)] = connections.machine_says(machine, "connection_name")
    return {
        "queue": document,
        "state": state_of(queue, state.metrics.history(queue)),
        "consumers_total": len(queue.consumers),
        "clients": clients,
    }


def _exchange(
    state: State, request: web.Request, identity: Identity, about: str, attention: Attention
) -> Event:
    vhost, name = _split(about)
    found = state.broker.vhosts.get(vhost)
    exchange = found.exchanges.get(real_name(name)) if found is not None and identity.lists(vhost) else None
    if exchange is None:
        return {"gone": True}
    stats = Stats(state.metrics, NO_SPANS)
    return {
        "exchange": exchanges.single(exchange, vhost, stats),
        "flow": stats.put(
            {}, exchanges.flow(exchange), state.metrics.history(exchange), EXCHANGE, "msg_rates"
        ),
        "unroutable_keys": found.table.unroutable.of(exchange.name)[:KEYS_MAX] if found is not None else [],
        "fed_by": exchanges.fed_by(found, exchange) if found is not None else [],
    }


def _connection(
    state: State, request: web.Request, identity: Identity, about: str, attention: Attention
) -> Event:
    name = unquote(about)
    for transport in state.broker.registry:
        machine = transport.machine
        if machine.vhost is None or connections.name(transport) != name:
            continue
        if not identity.has(MONITORING) and machine.user.name != identity.name:
            break
        stats = Stats(state.metrics, NO_SPANS)
        return {
            "connection": connections.document(transport, state.node, stats),
            "channels": [
                connections.channel_document(channel, state.node, stats)
                for _, channel in sorted(machine.channels.items())
            ],
            **_consumers(machine),
        }
    return {"gone": True}


def _consumers(machine: Any) -> Event:
    """The consumers of a connection with their queues, at most `CONSUMERS_MAX`."""
    every = [
        (channel, consumer)
        for _, channel in sorted(machine.channels.items())
        for consumer in channel.consumers.values()
    ]
    return {
        "consumers_total": len(every),
        "consumers": [
            {
                "channel": consumer.delivery.number,
                "tag": consumer.tag,
                "queue": consumer.queue.name,
                "channel_name": connections.channel_name(channel),
                "prefetch": consumer.unacked + consumer.credit if consumer.limited else 0,
                "no_ack": bool(consumer.no_ack),
                "unacked": consumer.unacked,
                "ready": consumer.queue.message_count(),
            }
            for channel, consumer in every[:CONSUMERS_MAX]
        ],
    }


def _split(about: str) -> tuple[str, str]:
    vhost, _, name = about.partition("/")
    return unquote(vhost), unquote(name)


KINDS: dict[str, Callable[[State, web.Request, Identity, str, Attention], Event]] = {
    "overview": _overview,
    "queue": _queue,
    "exchange": _exchange,
    "connection": _connection,
}
