"""Metrics of queues, channels, connections and exchanges.

``/metrics`` adds each of them up over all objects; ``/metrics/per-object`` and ``/metrics/detailed`` have a
sample for every object. A family is what ``/metrics/detailed`` selects by its name.

Source: RabbitMQ, "Monitoring with Prometheus and Grafana"; names, types and families as measured with 3.10.8,
those of ``queue_delivery_metrics`` and ``exchange_metrics`` from RabbitMQ 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from admin_ui.documents import connections
from admin_ui.documents.queues import capacity
from admin_ui.prometheus.text import Metric, labels_text
from admin_ui.state import State
from vhosts.long_lists import passing


@dataclass(frozen=True)
class Family:
    """Metrics of one sort of object, selected together."""

    name: str
    #: The objects of the virtual hosts of these names.
    things: Callable[[State, frozenset[str]], Iterable[Any]]
    labels: Callable[[Any], str]
    metrics: tuple[Metric, ...]
    #: Whether ``/metrics`` has the sums. Not of counters of what comes and goes: their sums would fall.
    is_summed: bool = True


def queues(state: State, vhosts: frozenset[str]) -> Iterable[Any]:
    """The queues of some virtual hosts."""
    for vhost in list(state.broker.vhosts.values()):
        if vhost.name in vhosts:
            yield from passing(vhost.queues.values())


def exchanges(state: State, vhosts: frozenset[str]) -> Iterable[Any]:
    """The exchanges of some virtual hosts, each with the name of its virtual host."""
    for vhost in list(state.broker.vhosts.values()):
        if vhost.name in vhosts:
            for exchange in passing(vhost.exchanges.values()):
                yield vhost.name, exchange


def transports(state: State, vhosts: frozenset[str]) -> Iterable[Any]:
    """The connections to some virtual hosts."""
    for transport in state.broker.registry:
        vhost = transport.machine.vhost
        if vhost is not None and vhost.name in vhosts:
            yield transport


def channels(state: State, vhosts: frozenset[str]) -> Iterable[Any]:
    """The channels of these connections."""
    for transport in transports(state, vhosts):
        yield from list(transport.machine.channels.values())


def _queue_labels(queue: Any) -> str:
    return labels_text(vhost=queue.vhost.name, queue=queue.name)


def _channel_labels(channel: Any) -> str:
    return labels_text(channel=connections.channel_name(channel), vhost=channel.vhost.name)


def _connection_labels(transport: Any) -> str:
    return labels_text(connection=connections.name(transport), vhost=transport.machine.vhost.name)


def _exchange_labels(exchange: Any) -> str:
    vhost, about = exchange
    return labels_text(vhost=vhost, exchange=about.name, type=about.type)


def _gauge(name: str, text: str, read: Callable[[Any], Any]) -> Metric:
    return Metric(name, "gauge", text, read)


def _counter(name: str, text: str, read: Callable[[Any], Any]) -> Metric:
    return Metric(name, "counter", text, read)


QUEUE_CONSUMERS = _gauge(
    "queue_consumers",
    "Consumers on a queue",
    lambda queue: len(queue.consumers) + queue.view().holder_count(),
)

FAMILIES = (
    Family(
        "queue_coarse_metrics",
        queues,
        _queue_labels,
        (
            _gauge(
                "queue_messages_ready",
                "Messages ready to be delivered to consumers",
                lambda queue: queue.message_count(),
            ),
            _gauge(
                "queue_messages_unacked",
                "Messages delivered to consumers but not yet acknowledged",
                lambda queue: queue.unacked_count,
            ),
            _gauge(
                "queue_messages",
                "Sum of ready and unacknowledged messages - total queue depth",
                lambda queue: queue.message_count() + queue.unacked_count,
            ),
        ),
    ),
    Family("queue_consumer_count", queues, _queue_labels, (QUEUE_CONSUMERS,)),
    Family(
        "queue_metrics",
        queues,
        _queue_labels,
        (
            QUEUE_CONSUMERS,
            _gauge(
                "queue_consumer_capacity",
                "Part of the last seconds in which consumers took what was ready",
                capacity,
            ),
            _gauge("queue_consumer_utilisation", "Same as consumer capacity", capacity),
            _gauge(
                "queue_process_memory_bytes",
                "Memory in bytes used by a queue's messages",
                lambda queue: queue.view().memory_bytes(),
            ),
            _gauge(
                "queue_messages_ram",
                "Ready and unacknowledged messages stored in memory",
                lambda queue: queue.view().in_memory(),
            ),
            _gauge(
                "queue_messages_ready_ram",
                "Ready messages stored in memory",
                lambda queue: queue.view().in_memory(),
            ),
            _gauge(
                "queue_messages_persistent",
                "Persistent messages",
                lambda queue: queue.view().persistent_count(),
            ),
            _gauge(
                "queue_messages_paged_out",
                "Transient messages paged out to disk",
                lambda queue: queue.view().put_aside()[0],
            ),
        ),
    ),
    Family(
        "queue_delivery_metrics",
        queues,
        _queue_labels,
        (
            _counter(
                "queue_messages_published_total",
                "Total number of messages published to queues",
                lambda queue: queue.publish_total,
            ),
            _counter(
                "queue_get_ack_total",
                "Total number of messages fetched with basic.get in manual acknowledgement mode",
                lambda queue: queue.get_total,
            ),
            _counter(
                "queue_get_total",
                "Total number of messages fetched with basic.get in automatic acknowledgement mode",
                lambda queue: queue.get_no_ack_total,
            ),
            _counter(
                "queue_messages_delivered_ack_total",
                "Total number of messages delivered to consumers in manual acknowledgement mode",
                lambda queue: queue.deliver_total,
            ),
            _counter(
                "queue_messages_delivered_total",
                "Total number of messages delivered to consumers in automatic acknowledgement mode",
                lambda queue: queue.deliver_no_ack_total,
            ),
            _counter(
                "queue_messages_redelivered_total",
                "Total number of messages redelivered to consumers",
                lambda queue: queue.redeliver_total,
            ),
            _counter(
                "queue_messages_acked_total",
                "Total number of messages acknowledged by consumers",
                lambda queue: queue.ack_total,
            ),
            _counter(
                "queue_get_empty_total",
                "Total number of times basic.get operations fetched no message",
                lambda queue: queue.get_empty_total,
            ),
        ),
        is_summed=False,
    ),
    Family(
        "channel_metrics",
        channels,
        _channel_labels,
        (
            _gauge("channel_consumers", "Consumers on a channel", lambda channel: len(channel.consumers)),
            _gauge(
                "channel_messages_unacked",
                "Delivered but not yet acknowledged messages",
                lambda channel: channel.delivery.outstanding,
            ),
            _gauge(
                "channel_messages_unconfirmed",
                "Published but not yet confirmed messages",
                connections.unconfirmed,
            ),
            _gauge(
                "channel_messages_uncommitted",
                "Messages received in a transaction but not yet committed",
                lambda channel: len(channel.transaction.publishes) if channel.transaction is not None else 0,
            ),
            _gauge(
                "channel_acks_uncommitted",
                "Message acknowledgements in a transaction not yet committed",
                lambda channel: len(channel.transaction.settles) if channel.transaction is not None else 0,
            ),
            _gauge(
                "consumer_prefetch",
                "Limit of unacknowledged messages for each consumer",
                lambda channel: channel.prefetch,
            ),
            _gauge(
                "channel_prefetch",
                "Total limit of unacknowledged messages for all consumers on a channel",
                lambda channel: channel.shared.limit,
            ),
        ),
    ),
    Family(
        "channel_exchange_metrics",
        channels,
        _channel_labels,
        (
            _counter(
                "channel_messages_published_total",
                "Total number of messages published on a channel",
                lambda channel: channel.publishing.publish_total,
            ),
            _counter(
                "channel_messages_confirmed_total",
                "Total number of messages published and confirmed on a channel",
                lambda channel: channel.confirms.confirm_total if channel.confirms is not None else 0,
            ),
            _counter(
                "channel_messages_unroutable_returned_total",
                "Total number of messages published as mandatory and returned to the publisher as unroutable",
                lambda channel: channel.publishing.return_total,
            ),
            _counter(
                "channel_messages_unroutable_dropped_total",
                "Total number of messages published as non-mandatory and dropped as unroutable",
                lambda channel: channel.publishing.drop_total,
            ),
        ),
        is_summed=False,
    ),
    Family(
        "channel_queue_metrics",
        channels,
        _channel_labels,
        (
            _counter(
                "channel_get_ack_total",
                "Total number of messages fetched with basic.get in manual acknowledgement mode",
                lambda channel: channel.delivery.get_total,
            ),
            _counter(
                "channel_get_total",
                "Total number of messages fetched with basic.get in automatic acknowledgement mode",
                lambda channel: channel.delivery.get_no_ack_total,
            ),
            _counter(
                "channel_messages_delivered_ack_total",
                "Total number of messages delivered to consumers in manual acknowledgement mode",
                lambda channel: channel.delivery.deliver_total,
            ),
            _counter(
                "channel_messages_delivered_total",
                "Total number of messages delivered to consumers in automatic acknowledgement mode",
                lambda channel: channel.delivery.deliver_no_ack_total,
            ),
            _counter(
                "channel_messages_redelivered_total",
                "Total number of messages redelivered to consumers",
                lambda channel: channel.delivery.redeliver_total,
            ),
            _counter(
                "channel_messages_acked_total",
                "Total number of messages acknowledged by consumers",
                lambda channel: channel.delivery.ack_total,
            ),
            _counter(
                "channel_get_empty_total",
                "Total number of times basic.get operations fetched no message",
                lambda channel: channel.delivery.get_empty_total,
            ),
        ),
        is_summed=False,
    ),
    Family(
        "connection_coarse_metrics",
        transports,
        _connection_labels,
        (
            _counter(
                "connection_incoming_bytes_total",
                "Total number of bytes received on a connection",
                lambda transport: transport.recv_oct,
            ),
            _counter(
                "connection_outgoing_bytes_total",
                "Total number of bytes sent on a connection",
                lambda transport: transport.send_oct,
            ),
        ),
        is_summed=False,
    ),
    Family(
        "connection_metrics",
        transports,
        _connection_labels,
        (
            _gauge(
                "connection_channels",
                "Channels on a connection",
                lambda transport: len(transport.machine.channels),
            ),
        ),
    ),
    Family(
        "exchange_metrics",
        exchanges,
        _exchange_labels,
        (
            _counter(
                "exchange_messages_published_total",
                "Total number of messages published into an exchange",
                lambda exchange: exchange[1].counters.publish_in,
            ),
            _counter(
                "exchange_messages_copied_total",
                "Total number of copies that queues got of messages published into an exchange",
                lambda exchange: exchange[1].counters.publish_out,
            ),
            _counter(
                "exchange_messages_unroutable_total",
                "Total number of messages published into an exchange that reached no queue",
                lambda exchange: exchange[1].counters.unroutable,
            ),
            _counter(
                "exchange_messages_received_from_exchanges_total",
                "Total number of messages that other exchanges passed on to an exchange",
                lambda exchange: exchange[1].counters.inner_in,
            ),
            _counter(
                "exchange_bindings_matched_by_passed_on_messages_total",
                "Total number of bindings that messages from other exchanges matched",
                lambda exchange: exchange[1].counters.inner_out,
            ),
        ),
        is_summed=False,
    ),
)
