"""The node and its parts."""

from __future__ import annotations

import gc
import os
import platform
import time
from typing import Any

from admin_ui.documents.stats import Stats
from admin_ui.state import State
from amqp_router import compiled
from amqp_router.auth import MECHANISMS
from amqp_router.connection.session import EXTERNAL
from amqp_router.metrics import CHURN, CONNECTION_CHURN, GLOBAL, NODE, NODE_COLUMNS, OVERVIEW, VHOST
from amqp_router.sockets import BACKLOG, Certificates
from amqp_router.version import VERSION
from vhosts.exchanges.types import EXCHANGE_TYPES

#: The version of RabbitMQ whose HTTP API and AMQP behaviour this broker has. Clients use it to decide what to
#: request (Zabbix and Terraform parse it), so it cannot be our version, which is product_version.
RABBITMQ_VERSION = "3.10.8"

#: Figures without a counterpart: of Mnesia, and of RabbitMQ's message store, file cache and quorum queues.
NO_COUNTERPART = (
    "gc_bytes_reclaimed",
    "io_seek_count",
    "io_sync_count",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_write_count",
    "queue_index_read_count",
)
#: How a listener for AMQP is set up, in Erlang's words.
_AMQP_SOCKET = {"backlog": BACKLOG, "nodelay": True, "linger": [True, 0], "exit_on_close": False}
#: Mean times (ms) that are not measured here.
NO_TIMES = ("io_read_avg_time", "io_write_avg_time", "io_sync_avg_time", "io_seek_avg_time")
#: A node's counters with rates.
COUNTED = tuple(column for column in NODE_COLUMNS if column != "loop_lag_us")
#: The parts into which RabbitMQ divides its memory.
MEMORY_PARTS = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "queue_slave_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
)
#: The parts into which RabbitMQ divides large binaries.
BINARY_PARTS = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "queue_slave_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "mgmt_db",
    "msg_index",
    "other",
)
#: RabbitMQ's feature flags for features that this broker has.
FEATURES = {
    "drop_unroutable_metric": "Count unroutable publishes that are dropped",
    "empty_basic_get_metric": "Count basic.get on empty queues",
    "implicit_default_bindings": "Bindings of the default exchange are not stored",
    "quorum_queue": "Queues of type quorum, on a single node",
    "user_limits": "Limits of a user's connections and channels",
    "virtual_host_metadata": "Description and tags of virtual hosts",
}
DESCRIPTIONS = {
    "direct": "exact routing key",
    "fanout": "copies to all",
    "headers": "matches header table",
    "topic": "matches key words",
    "x-consistent-hash": "one destination, by the hash of a key, header or property",
    "x-delayed-message": "routes as another type, after a delay",
    "x-modulus-hash": "one destination, by the hash of the key",
    "x-random": "one destination, at random",
    "x-recent-history": "copies to all, and the last messages to new bindings",
}


def exchange_types() -> list[dict[str, Any]]:
    """All exchange types."""
    return [
        {"name": name, "description": DESCRIPTIONS.get(name, f"exchange type {name}"), "enabled": True}
        for name in sorted(EXCHANGE_TYPES)
    ]


def mechanisms(state: State) -> list[dict[str, Any]]:
    """The authentication mechanisms."""
    names = [*MECHANISMS]
    certificates = state.options.amqps_certificates
    if certificates is not None and certificates.options.login_from != "none":
        names.append(EXTERNAL)
    return [{"name": name, "description": f"mechanism {name}", "enabled": True} for name in names]


def listeners(state: State) -> list[dict[str, Any]]:
    """The listeners. Ports are numbers here."""
    found = []
    options = state.options
    for protocol, address in (
        ("amqp", options.amqp_address),
        ("amqp/ssl", options.amqps_address),
        ("http" if options.certificates is None else "https", state.address),
        ("http/prometheus", state.metrics_address),
    ):
        if address is not None:
            host, port = address
            found.append(
                {
                    "node": state.node,
                    "protocol": protocol,
                    "ip_address": host,
                    "port": port,
                    "socket_opts": {**_AMQP_SOCKET} if protocol.startswith("amqp") else [],
                }
            )
    return found


def certificates(state: State) -> list[tuple[dict[str, Any], Certificates]]:
    """The listeners with TLS, each with its certificates."""
    options = state.options
    by_protocol = {"amqp/ssl": options.amqps_certificates, "https": options.certificates}
    found = []
    for listener in listeners(state):
        mine = by_protocol.get(listener["protocol"])
        if mine is not None:
            found.append((listener, mine))
    return found


def contexts(state: State) -> list[dict[str, Any]]:
    """The HTTP servers. Ports are strings here, as in RabbitMQ."""
    served = state.options.certificates
    files = {} if served is None else {name: str(path) for name, path in served.options.paths.items()}
    return [
        {
            "ssl_opts": (address == state.address and files) or [],
            "node": state.node,
            "description": description,
            "path": "/",
            "cowboy_opts": "[]",
            "ip": address[0],
            "port": str(address[1]),
        }
        for description, address in (
            ("RabbitMQ Management", state.address),
            ("RabbitMQ Prometheus", state.metrics_address),
        )
        if address is not None
    ]


def runtime() -> str:
    """The broker's runtime, in the place of RabbitMQ's Erlang version."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def feature_flags() -> list[dict[str, Any]]:
    """`FEATURES`, all enabled."""
    return [
        {
            "name": name,
            "desc": desc,
            "doc_url": "",
            "state": "enabled",
            "stability": "stable",
            "provided_by": "amqp_router",
        }
        for name, desc in FEATURES.items()
    ]


def document(state: State, stats: Stats) -> dict[str, Any]:
    """This node. Figures of the process are as of the last sample."""
    metrics, broker = state.metrics, state.broker
    usage, row = metrics.usage, metrics.node.last
    found: dict[str, Any] = {
        "name": state.node,
        "type": "disc",
        "running": True,
        "os_pid": str(os.getpid()),
        "partitions": [],
        "uptime": int((time.monotonic() - state.started_at) * 1000),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "rates_mode": "basic",
        "fd_total": usage.fd_total,
        "sockets_total": state.options.connections_max,
        "mem_limit": state.broker.budget.whole,
        "mem_alarm": "memory" in state.broker.alarms,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": state.broker.disk_watch.mark,
        "disk_free_alarm": "disk" in state.broker.alarms,
        # The number of threads, in the place of Erlang's processes.
        "proc_total": usage.threads_total,
        "proc_used": _threads(),
        "proc_used_details": stats.zero("node_stats"),
        "exchange_types": exchange_types(),
        "auth_mechanisms": mechanisms(state),
        "applications": [
            {"name": "amqp_router", "description": "amqp-router", "version": VERSION},
            {"name": "python", "description": runtime(), "version": platform.python_version()},
        ],
        "contexts": [
            {name: value for name, value in context.items() if name not in ("node", "ssl_opts")}
            for context in contexts(state)
        ],
        "log_files": ["standard error"],
        "db_dir": str(broker.settings.data_dir),
        "config_files": [],
        "net_ticktime": 0,
        # Monitors look for this name before they use the API, although it is not a plug-in here.
        "enabled_plugins": ["rabbitmq_management"],
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        "gc_num": sum([generation["collections"] for generation in gc.get_stats()]),
        "gc_num_details": stats.zero("node_stats"),
        "cluster_links": [],
        "metrics_gc_queue_length": {
            "connection_closed": 0,
            "channel_closed": 0,
            "consumer_deleted": 0,
            "exchange_deleted": 0,
            "queue_deleted": 0,
            "vhost_deleted": 0,
            "node_node_deleted": 0,
            "channel_consumer_deleted": 0,
        },
        # Our own fields: whether hot modules are compiled, and the event loop's delay.
        "compiled": compiled.build.whole,
        "loop_lag_ms": round(metrics.lag.last_s * 1000, 3),
        "loop_lag_highest_ms": round(metrics.lag.highest_s * 1000, 3),
    }
    for name in NO_COUNTERPART:
        found |= {name: 0, f"{name}_details": stats.zero("node_stats")}
    for name in NO_TIMES:
        found |= {name: 0.0, f"{name}_details": stats.zero("node_stats")}
    values = {name: row[NODE.fields[name][0]] for name in COUNTED}
    stats.put(found, values, metrics.node, NODE, "node_stats", GLOBAL)
    rows = metrics.now().values()
    churn = {name: sum([each[VHOST.fields[name][0]] for each in rows]) for name in CHURN}
    registry = broker.registry
    churn |= zip(CONNECTION_CHURN, (registry.opened_total, registry.closed_total), strict=True)
    return stats.put(found, churn, metrics.overview, OVERVIEW, "node_stats", GLOBAL)


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def memory(state: State) -> dict[str, Any]:
    """The memory in bytes by use: messages in queues, and everything else."""
    rss = state.metrics.node.last[NODE.fields["mem_used"][0]]
    messages = min(state.broker.budget.used, rss)
    parts = dict.fromkeys(MEMORY_PARTS, 0) | {"binary": messages, "other_system": rss - messages}
    return {**parts, "strategy": "rss", "total": {"erlang": 0, "rss": rss, "allocated": rss}}


def binary(state: State) -> dict[str, int]:
    """The contents of messages in memory in bytes: all are held by queues."""
    return dict.fromkeys(BINARY_PARTS, 0) | {"queue_procs": state.broker.budget.used}
