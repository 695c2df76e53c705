"""Metrics of the node as a whole.

Source: RabbitMQ, "Monitoring with Prometheus and Grafana"; names, types and labels as measured with 3.10.8.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from admin_ui.documents.node import RABBITMQ_VERSION, runtime
from admin_ui.prometheus.text import Kind, Value, labels_text
from admin_ui.state import State
from amqp_router import compiled
from amqp_router.metrics import NODE
from amqp_router.version import VERSION

#: All messages are counted as of this protocol and this type of queue.
PROTOCOL = {"protocol": "amqp091"}
OF_QUEUES = {**PROTOCOL, "queue_type": "rabbit_classic_queue"}
#: RabbitMQ's name of a count of the whole node, the count here, and its labels.
GLOBAL = (
    ("received", "publish", "Total number of messages received from publishers", PROTOCOL),
    (
        "received_confirm",
        "publish_confirm",
        "Total number of messages received from publishers expecting confirmations",
        PROTOCOL,
    ),
    ("confirmed", "confirm", "Total number of messages confirmed to publishers", PROTOCOL),
    ("routed", "routed", "Total number of messages routed to at least one queue", PROTOCOL),
    (
        "unroutable_dropped",
        "drop_unroutable",
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
        PROTOCOL,
    ),
    (
        "unroutable_returned",
        "return_unroutable",
        "Total number of messages published as mandatory into an exchange and returned to the publisher as "
        "unroutable",
        PROTOCOL,
    ),
    ("acknowledged", "ack", "Total number of message acknowledgements received", OF_QUEUES),
    ("redelivered", "redeliver", "Total number of messages redelivered to consumers", OF_QUEUES),
    (
        "delivered",
        "delivered",
        "Total number of messages delivered to consumers or fetched with basic.get",
        OF_QUEUES,
    ),
    (
        "delivered_consume_auto_ack",
        "deliver_no_ack",
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
        OF_QUEUES,
    ),
    (
        "delivered_consume_manual_ack",
        "deliver",
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
        OF_QUEUES,
    ),
    (
        "delivered_get_auto_ack",
        "get_no_ack",
        "Total number of messages fetched with basic.get and automatic acknowledgment",
        OF_QUEUES,
    ),
    (
        "delivered_get_manual_ack",
        "get",
        "Total number of messages fetched with basic.get and manual acknowledgment",
        OF_QUEUES,
    ),
    ("get_empty", "get_empty", "Total number of basic.get that found no message", OF_QUEUES),
)
#: RabbitMQ's name of the sum of a counter over channels or connections, and the count here.
SUMS = (
    ("channel_messages_published", "publish"),
    ("channel_messages_confirmed", "confirm"),
    ("channel_messages_unroutable_returned", "return_unroutable"),
    ("channel_messages_unroutable_dropped", "drop_unroutable"),
    ("channel_get_ack", "get"),
    ("channel_get", "get_no_ack"),
    ("channel_messages_delivered_ack", "deliver"),
    ("channel_messages_delivered", "deliver_no_ack"),
    ("channel_messages_redelivered", "redeliver"),
    ("channel_messages_acked", "ack"),
    ("channel_get_empty", "get_empty"),
    ("connection_incoming_bytes", "recv_oct"),
    ("connection_outgoing_bytes", "send_oct"),
)
CHURN = (
    ("channels_opened", "channel_created", "channels opened"),
    ("channels_closed", "channel_closed", "channels closed"),
    ("queues_declared", "queue_declared", "queues declared"),
    ("queues_created", "queue_created", "queues created"),
    ("queues_deleted", "queue_deleted", "queues deleted"),
)
ALARMS = (
    ("file_descriptor_limit", "files", "file descriptor limit"),
    ("free_disk_space_watermark", "disk", "free disk space watermark"),
    ("memory_used_watermark", "memory", "VM memory watermark"),
)


class Sample(NamedTuple):
    """One metric with the samples of all its labels."""

    name: str
    kind: Kind
    help: str
    values: list[tuple[str, Value]]


def one(name: str, kind: Kind, text: str, value: Value, **labels: str) -> Sample:
    """A metric with one sample."""
    return Sample(name, kind, text, [(labels_text(**labels) if labels else "", value)])


def identity(state: State) -> Iterator[Sample]:
    """Who this is. Dashboards join all other metrics with these."""
    yield one(
        "rabbitmq_build_info",
        "untyped",
        "RabbitMQ & Erlang/OTP version info",
        1,
        rabbitmq_version=RABBITMQ_VERSION,
        prometheus_plugin_version=VERSION,
        prometheus_client_version=VERSION,
        erlang_version=runtime(),
    )
    yield one(
        "rabbitmq_identity_info",
        "untyped",
        "RabbitMQ node & cluster identity info",
        1,
        rabbitmq_node=state.node,
        rabbitmq_cluster=state.cluster_name,
        rabbitmq_cluster_permanent_id=state.broker.identity.store_id,
    )
    yield one(
        "amqp_router_info",
        "gauge",
        "Versions of the broker, and whether its hot modules are compiled",
        1,
        version=VERSION,
        runtime=runtime(),
        compiled=str(compiled.build.whole).lower(),
    )


def alarms(state: State) -> Iterator[Sample]:
    """Which alarms are in effect."""
    for name, alarm, text in ALARMS:
        is_on = int(alarm in state.broker.alarms)
        yield one(f"rabbitmq_alarms_{name}", "untyped", f"is 1 if {text} alarm is in effect", is_on)


def churn(state: State, totals: Mapping[str, int]) -> Iterator[Sample]:
    """What was opened and closed. Family ``connection_churn_metrics``."""
    registry = state.broker.registry
    for name, count in (("opened", registry.opened_total), ("closed", registry.closed_total)):
        yield one(
            f"rabbitmq_connections_{name}_total", "counter", f"Total number of connections {name}", count
        )
    for name, column, text in CHURN:
        yield one(f"rabbitmq_{name}_total", "counter", f"Total number of {text}", totals[column])


def coarse(state: State) -> Iterator[Sample]:
    """What the process uses. Family ``node_coarse_metrics``."""
    row = _row(state)
    for name, column, text in (
        ("process_open_fds", "fd_used", "Open file descriptors"),
        ("process_open_tcp_sockets", "sockets_used", "Open TCP sockets"),
        ("process_resident_memory_bytes", "mem_used", "Memory used in bytes"),
        ("disk_space_available_bytes", "disk_free", "Disk space available in bytes"),
    ):
        yield one(f"rabbitmq_{name}", "gauge", text, row[column])


def limits(state: State) -> Iterator[Sample]:
    """What the process may use. Family ``node_metrics``."""
    usage, broker = state.metrics.usage, state.broker
    for name, value, text in (
        ("process_max_fds", usage.fd_total, "Open file descriptors limit"),
        ("process_max_tcp_sockets", state.options.connections_max, "Open TCP sockets limit"),
        ("resident_memory_limit_bytes", broker.budget.whole, "Memory high watermark in bytes"),
        (
            "disk_space_available_limit_bytes",
            broker.disk_watch.mark,
            "Free disk space low watermark in bytes",
        ),
    ):
        yield one(f"rabbitmq_{name}", "gauge", text, value)


def input_output(state: State) -> Iterator[Sample]:
    """Reads and writes of the process. Family ``node_persister_metrics``."""
    row = _row(state)
    for name, column, text in (
        ("io_read_ops", "io_read_count", "I/O read operations"),
        ("io_read_bytes", "io_read_bytes", "I/O bytes read"),
        ("io_write_ops", "io_write_count", "I/O write operations"),
        ("io_write_bytes", "io_write_bytes", "I/O bytes written"),
    ):
        yield one(f"rabbitmq_{name}_total", "counter", f"Total number of {text}", row[column])


def attempts(state: State) -> Iterator[Sample]:
    """Logins by protocol. Family ``auth_attempt_metrics``."""
    counts = {labels_text(protocol=name): count for name, count in state.broker.logins.attempts.ever.items()}
    for suffix, text, values in (
        ("", "authorization attempts", [(key, each.succeeded + each.failed) for key, each in counts.items()]),
        (
            "_succeeded",
            "successful authentication attempts",
            [(key, each.succeeded) for key, each in counts.items()],
        ),
        ("_failed", "failed authentication attempts", [(key, each.failed) for key, each in counts.items()]),
    ):
        name = f"rabbitmq_auth_attempts{suffix}_total"
        yield Sample(name, "counter", f"Total number of {text}", list(values))


def counts(state: State, consumers: int, publishers: int) -> Iterator[Sample]:
    """How many objects there are; ``publishers`` are open channels that have published."""
    broker = state.broker
    transports = [each for each in broker.registry if each.machine.vhost is not None]
    yield one("rabbitmq_connections", "gauge", "Connections currently open", len(transports))
    channels = sum([len(each.machine.channels) for each in transports])
    yield one("rabbitmq_channels", "gauge", "Channels currently open", channels)
    yield one("rabbitmq_consumers", "gauge", "Consumers currently connected", consumers)
    yield one("rabbitmq_global_consumers", "gauge", "Current number of consumers", consumers, **PROTOCOL)
    yield one("rabbitmq_global_publishers", "gauge", "Current number of publishers", publishers, **PROTOCOL)
    queues = sum([len(vhost.queues) for vhost in broker.vhosts.values()])
    yield one("rabbitmq_queues", "gauge", "Queues available", queues)


def messages(totals: Mapping[str, int]) -> Iterator[Sample]:
    """What happened to messages, on the whole node."""
    found = {
        **totals,
        "routed": totals["publish"] - totals["drop_unroutable"] - totals["return_unroutable"],
        "delivered": sum([totals[name] for name in ("deliver", "deliver_no_ack", "get", "get_no_ack")]),
    }
    for name, column, text, labels in GLOBAL:
        yield one(f"rabbitmq_global_messages_{name}_total", "counter", text, found[column], **labels)
    for name, column in SUMS:
        text = f"Sum of rabbitmq_{name}_total over all, the closed ones included"
        yield one(f"rabbitmq_{name}_total", "counter", text, totals[column])


def own(state: State) -> Iterator[Sample]:
    """What RabbitMQ does not have: the event loop, the account of memory, the logs."""
    broker, lag, row = state.broker, state.metrics.lag, _row(state)
    uptime = time.monotonic() - state.started_at
    yield one("process_cpu_seconds_total", "counter", "Processor time used, in seconds", row["cpu_us"] / 1e6)
    yield one("process_start_time_seconds", "gauge", "Start time since 1970", round(time.time() - uptime))
    yield one("amqp_router_loop_lag_seconds", "gauge", "Newest delay of the event loop", lag.last_s)
    yield one(
        "amqp_router_loop_lag_highest_seconds",
        "gauge",
        "Longest delay of the event loop since the start",
        lag.highest_s,
    )
    account = broker.budget
    yield Sample(
        "amqp_router_memory_account_bytes",
        "gauge",
        "What clients make the broker hold: contents of messages, what is held for a while (output, "
        "incomplete contents, unwritten definitions), what is kept (declared objects, routes)",
        [
            (labels_text(part=name), value)
            for name, value in (("contents", account.used), ("held", account.held), ("kept", account.kept))
        ],
    )
    yield one(
        "amqp_router_memory_account_arriving_bytes",
        "gauge",
        "Contents that have not arrived completely; part of held",
        account.arriving,
    )
    yield one("amqp_router_memory_account_limit_bytes", "gauge", "Limit of the whole account", account.whole)
    yield one(
        "amqp_router_memory_contents_limit_bytes",
        "gauge",
        "Contents beyond this are moved to disk",
        account.limit,
    )
    yield from _letters(state)
    sync = broker.storage.sync
    unsynced = sync.unsynced()
    yield one(
        "amqp_router_sync_rounds_total",
        "counter",
        "Rounds of writing and syncing the queue logs",
        sync.rounds,
    )
    yield one(
        "amqp_router_sync_last_round_seconds",
        "gauge",
        "Time that the last round of writing and syncing took",
        sync.last_round_s,
    )
    yield one(
        "amqp_router_sync_unfinished_seconds",
        "gauge",
        "Age of the oldest sync of the queue logs that has not come back, 0 without one",
        unsynced.round_s,
    )
    yield one(
        "amqp_router_sync_unfinished_bytes",
        "gauge",
        "Bytes of the queue logs that are being written and synced",
        unsynced.round_bytes,
    )
    yield one(
        "amqp_router_unsynced_bytes",
        "gauge",
        "Bytes of the queue logs that are not known to be durable",
        unsynced.bytes,
    )
    yield one(
        "amqp_router_definitions_failed",
        "gauge",
        "1 while definitions cannot be stored",
        int(broker.commits.failed is not None),
    )
    routing = broker.storage.routing
    yield one(
        "amqp_router_routing_log_enabled", "gauge", "Whether routes are recorded", int(routing is not None)
    )
    if routing is not None:
        backlog = routing.backlog
        yield one(
            "amqp_router_routing_log_waiting_bytes",
            "gauge",
            "Records of routes that are not on disk yet",
            backlog.bytes,
        )
        yield one(
            "amqp_router_routing_log_full",
            "gauge",
            "1 while publishers wait for the routing log",
            int(backlog.full),
        )
    yield one(
        "amqp_router_connections_flow",
        "gauge",
        "Connections that are not read until their messages are on disk",
        sum([1 for each in broker.registry if each.machine.vhost is not None and each.machine.inflow.over]),
    )


def _letters(state: State) -> Iterator[Sample]:
    """Dead letters that a target has refused."""
    all_letters = [vhost.dead_letters for vhost in state.broker.vhosts.values()]
    yield one(
        "amqp_router_dead_letters_waiting",
        "gauge",
        "Dead letters that a target has refused, and that are sent again",
        sum([each.waiting.count for each in all_letters]),
    )
    yield one(
        "amqp_router_dead_letters_refused_total",
        "counter",
        "Times that a target refused a dead letter that is sent again",
        sum([each.waiting.refused_total for each in all_letters]),
    )
    yield one(
        "amqp_router_dead_letters_dropped_total",
        "counter",
        "Refused dead letters of messages that no log had",
        sum([each.dropped_total for each in all_letters]),
    )
    yield one(
        "amqp_router_dead_letters_left_total",
        "counter",
        "Refused dead letters that only the next start sends again, as memory has no room to remember them",
        sum([each.waiting.left_total for each in all_letters]),
    )


def _row(state: State) -> dict[str, Any]:
    return dict(zip(NODE.fields, state.metrics.node.last, strict=True))
