"""Queues and consumers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from admin_ui.documents import connections, policies
from admin_ui.documents.arguments import arguments
from admin_ui.documents.stats import NO_PROCESS, Stats, happened, idle_since, with_deliver_get
from amqp_router.metrics import QUEUE
from vhosts.long_lists import passing
from vhosts.policies import NOTHING
from vhosts.queues.handle import QueueView
from vhosts.queues.state import FAILED

#: RabbitMQ's fields about its processes, mirrors and single active consumers, which this broker
#: does not have. All documents share them, so they must not be changed.
_NEUTRAL: dict[str, Any] = {
    **NO_PROCESS,
    # Not supported: it would need the properties of the first message.
    "head_message_timestamp": None,
    "recoverable_slaves": None,
    "single_active_consumer_tag": None,
}
#: Fields of RabbitMQ's classic queue process, which 3.12 no longer has.
_NO_BACKING: dict[str, Any] = {
    "avg_ack_egress_rate": 0.0,
    "avg_ack_ingress_rate": 0.0,
    "avg_egress_rate": 0.0,
    "avg_ingress_rate": 0.0,
    "delta": ["delta", "undefined", 0, 0, "undefined"],
    "mode": "default",
    "q1": 0,
    "q2": 0,
    "q3": 0,
    "q4": 0,
    "target_ram_count": "infinity",
    "version": 1,
}

MESSAGES = ("messages", "messages_ready", "messages_unacknowledged")
#: The fields of `brief`, with the message counts.
BRIEF = frozenset(
    ("arguments", "auto_delete", "durable", "exclusive", "name", "node", "state", "type", "vhost", *MESSAGES)
)


def brief(queue: Any, node: str, *, totals: bool) -> dict[str, Any]:
    """A queue with ``disable_stats``; ``totals`` (``enable_queue_totals``) adds the message counts."""
    kind = queue.arguments.get("x-queue-type")
    document = {
        "arguments": arguments(queue.arguments),
        "auto_delete": bool(queue.auto_delete),
        "durable": bool(queue.durable),
        "exclusive": queue.exclusive_owner is not None,
        "name": queue.name,
        "node": node,
        # A queue with a damaged log does not work until it is repaired.
        "state": "crashed" if queue.state == FAILED else "running",
        "type": kind[1].decode() if kind is not None and kind[0] == "S" else "classic",
        "vhost": queue.vhost.name,
    }
    if totals:
        ready, unacked = queue.message_count(), queue.unacked_count
        document["messages"] = ready + unacked
        document["messages_ready"] = ready
        document["messages_unacknowledged"] = unacked
    return document


def document(queue: Any, node: str, stats: Stats) -> dict[str, Any]:
    """A queue as lists show it."""
    history = stats.metrics.history(queue)
    view = queue.view()
    ready, unacked, in_memory = queue.message_count(), queue.unacked_count, view.in_memory()
    consumers = queue.consumers
    found = brief(queue, node, totals=False)
    found.update(_NEUTRAL)
    found.update(policies.applied(queue.policy or NOTHING))
    counts = {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}
    stats.put(found, counts, history, QUEUE, "lengths")
    found["reductions_details"] = stats.zero("lengths")
    found["backing_queue_status"] = {
        **_NO_BACKING,
        "len": ready,
        "next_deliver_seq_id": queue.deliver_total,
        "next_seq_id": queue.publish_total,
    }
    found["consumer_capacity"] = found["consumer_utilisation"] = capacity(queue)
    found["consumers"] = len(consumers) + view.holder_count()
    alone, active = view.exclusive_consumer(), view.active_consumer()
    found["single_active_consumer_tag"] = active.tag if active is not None else None
    found["exclusive_consumer_tag"] = alone.tag if alone is not None else None
    # The messages in memory, including their objects. The other messages are in the log.
    found["memory"] = view.memory_bytes()
    found["message_bytes_ram"] = view.memory_bodies()
    ready_bytes, unacked_bytes = view.body_bytes() or 0, queue.unacked_bytes
    found["message_bytes"] = ready_bytes + unacked_bytes
    found["message_bytes_ready"] = ready_bytes
    found["message_bytes_unacknowledged"] = unacked_bytes
    found["messages_ram"] = found["messages_ready_ram"] = in_memory
    found["messages_unacknowledged_ram"] = 0  # only their offsets are kept, not their contents
    found["messages_paged_out"], found["message_bytes_paged_out"] = view.put_aside()
    found["messages_persistent"] = view.persistent_count()
    found["message_bytes_persistent"] = max(ready_bytes + unacked_bytes - view.transient_bytes(), 0)
    if found["type"] == "quorum":
        found.update(_raft(found["single_active_consumer_tag"], node))
    message_stats = happened(
        with_deliver_get(
            {
                "publish": queue.publish_total,
                "deliver": queue.deliver_total,
                "deliver_no_ack": queue.deliver_no_ack_total,
                "get": queue.get_total,
                "get_no_ack": queue.get_no_ack_total,
                "get_empty": queue.get_empty_total,
                "redeliver": queue.redeliver_total,
                "ack": queue.ack_total,
            }
        )
    )
    if message_stats:
        found["message_stats"] = stats.put({}, message_stats, history, QUEUE, "msg_rates")
    since = idle_since(history)
    if since is not None:
        found["idle_since"] = since
    owner = queue.exclusive_owner
    if owner is not None:
        found["owner_pid_details"] = connections.details(owner)
    return found


def _raft(active_tag: str | None, node: str) -> dict[str, Any]:
    """What RabbitMQ says of quorum queues alone. Letters on their way are counted with the others here."""
    return {
        "leader": node,
        "members": [node],
        "online": [node],
        "open_files": {node: 0},
        "messages_dlx": 0,
        "message_bytes_dlx": 0,
        "single_active_consumer_ctag": active_tag,
    }


def single(queue: Any, node: str, stats: Stats) -> dict[str, Any]:
    """A queue asked for by name, without its ``consumer_details``."""
    found = document(queue, node, stats)
    # RabbitMQ fills it only in rates_mode "detailed".
    found["deliveries"] = []
    found["incoming"] = []
    return found


def _activity(consumer: Any, queue: Any) -> dict[str, Any]:
    view = queue.view()
    if not view.has_single_active():
        return {"active": True, "activity_status": "up"}
    is_active = consumer is view.active_consumer()
    return {"active": is_active, "activity_status": "single_active" if is_active else "waiting"}


def consumers(found: Iterable[Any], node: str) -> Iterator[dict[str, Any]]:
    """The ``consumer_details`` of these consumers, each made when it is asked for, if it has not ended."""
    for each in passing(found):
        made = consumer(each, node)
        if made is not None:
            yield made


def consumer(consumer: Any, node: str) -> dict[str, Any] | None:
    """A consumer on a channel; None if its channel has ended."""
    channel, queue = consumer.delivery.listener, consumer.queue
    if channel is None:
        return None
    connection = connections.details(channel.connection)
    return {
        "arguments": arguments(consumer.arguments),
        "ack_required": not consumer.no_ack,
        **_activity(consumer, queue),
        "channel_details": {
            "connection_name": connection["name"],
            "name": connections.channel_name(channel),
            "node": node,
            "number": channel.number,
            "peer_host": connection["peer_host"],
            "peer_port": connection["peer_port"],
            "user": channel.connection.user.name,
        },
        "consumer_tag": consumer.tag,
        "exclusive": bool(consumer.exclusive),
        "prefetch_count": consumer.unacked + consumer.credit if consumer.limited else 0,
        "queue": {"name": queue.name, "vhost": queue.vhost.name},
    }


def capacity(queue: Any) -> float:
    """The part of the last seconds in which consumers took what was ready; 0 without consumers."""
    view: QueueView = queue.view()
    return round(view.capacity(time.time_ns() // 1000), 3) if queue.consumers else 0
