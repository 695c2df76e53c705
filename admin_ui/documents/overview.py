"""The overview: totals of the objects that the caller may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from admin_ui.auth import MONITORING
from admin_ui.documents import node
from admin_ui.documents.stats import DELIVERED_FIELDS, Stats
from admin_ui.endpoints import Call
from amqp_router.metrics import (
    BASIC,
    CHURN,
    GLOBAL,
    OVERVIEW,
    PUBLISHED,
    VHOST,
)
from amqp_router.version import VERSION

MESSAGES = ("messages", "messages_ready", "messages_unacknowledged")


def policies(policy: Sequence[tuple[int, int]]) -> list[int]:
    """Seconds that each step of a retention policy covers."""
    return [reach for _, reach in policy]


def document(call: Call) -> dict[str, Any]:
    """The document of ``/overview``."""
    state = call.state
    metrics, broker = state.metrics, state.broker
    stats = Stats(metrics, call.query.spans)
    vhosts = call.vhosts()
    queues = sum([len(vhost.queues) for vhost in vhosts])
    transports = [
        transport
        for transport in broker.registry
        if transport.machine.vhost is not None
        and (call.identity.has(MONITORING) or transport.machine.user.name == call.identity.name)
    ]
    consumers = 0
    for vhost in vhosts:
        for queue in vhost.queues.values():
            consumers += len(queue.consumers)
    found: dict[str, Any] = {
        "management_version": node.RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": policies(GLOBAL),
            "basic": policies(BASIC),
            "detailed": policies(BASIC[:1]),
        },
        "exchange_types": node.exchange_types(),
        "product_version": VERSION,
        "product_name": "amqp-router",
        "rabbitmq_version": node.RABBITMQ_VERSION,
        "cluster_name": state.cluster_name,
        # There is no Erlang here, so this names our runtime.
        "erlang_version": "",
        "erlang_full_version": node.runtime(),
        "release_series_support_status": "supported",
        "disable_stats": call.query.disable_stats,
        "enable_queue_totals": call.query.enable_queue_totals,
        "message_stats": {},
        "churn_rates": {},
        "queue_totals": {},
        "object_totals": {
            "channels": sum([len(transport.machine.channels) for transport in transports]),
            "connections": len(transports),
            "consumers": consumers,
            "exchanges": sum([len(vhost.exchanges) for vhost in vhosts]),
            "queues": queues,
        },
        "statistics_db_event_queue": 0,
    }
    rows = metrics.now()
    row: tuple[int, ...] = tuple(map(sum, zip(*[rows[vhost] for vhost in vhosts], strict=True)))
    row = row or (0,) * VHOST.width  # without any virtual host
    history, kind, policy = metrics.combined(vhosts), VHOST, BASIC
    if len(vhosts) == len(broker.vhosts):
        row = (*row, broker.registry.opened_total, broker.registry.closed_total)
        history, kind, policy = metrics.overview, OVERVIEW, GLOBAL

    def put(key: str, names: Sequence[str], span_name: str) -> None:
        values = {name: sum([row[column] for column in kind.fields[name]]) for name in names}
        stats.put(found[key], values, history, kind, span_name, policy)

    put("queue_totals", MESSAGES, "lengths")
    put("message_stats", (*PUBLISHED, *DELIVERED_FIELDS), "msg_rates")
    # RabbitMQ counts reads and writes of messages. Our log writes batches and does not count reads.
    for name in ("disk_reads", "disk_writes"):
        found["message_stats"] |= {name: 0, f"{name}_details": stats.zero("msg_rates")}
    # RabbitMQ has samples of these only if both spans are requested.
    churn = "msg_rates" if "lengths" in call.query.spans else ""
    put("churn_rates", CHURN, churn)
    opened = {
        "connection_created": broker.registry.opened_total,
        "connection_closed": broker.registry.closed_total,
    }
    stats.put(found["churn_rates"], opened, metrics.overview, OVERVIEW, churn, GLOBAL)
    if call.identity.has(MONITORING):
        found["node"] = state.node
        found["listeners"] = node.listeners(state)
        found["contexts"] = node.contexts(state)
    else:
        del found["object_totals"]["consumers"]
    return found
