"""Prometheus, by the parser of its own client: what RabbitMQ's dashboards read is there and right."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from functools import cache

import pika
from checks import HOST, METRICS_PORT, PORT, check, check_that, fresh, main, wait
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

QUEUE = fresh("metrics")
READY = 7
NAMES = [
    "rabbitmq_connections",
    "rabbitmq_channels",
    "rabbitmq_consumers",
    "rabbitmq_queues",
    "rabbitmq_queue_messages",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_connections_opened_total",
    "rabbitmq_connections_closed_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_channels_closed_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_delivered_total",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_global_publishers",
    "rabbitmq_global_consumers",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_resident_memory_limit_bytes",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_disk_space_available_limit_bytes",
    "rabbitmq_alarms_memory_used_watermark",
    "rabbitmq_alarms_free_disk_space_watermark",
    "rabbitmq_alarms_file_descriptor_limit",
    "rabbitmq_identity_info",
    "rabbitmq_build_info",
]


def read(path: str) -> str:
    with urllib.request.urlopen(f"http://{HOST}:{METRICS_PORT}{path}", timeout=10) as page:
        kind = page.headers["Content-Type"]
        assert kind.startswith("text/plain; version=0.0.4"), kind
        return page.read().decode()


def samples(path: str = "/metrics") -> Iterator[Sample]:
    for family in text_string_to_metric_families(read(path)):
        yield from family.samples


def total(name: str) -> float:
    return sum(sample.value for sample in samples() if sample.name == name)


def labels(name: str) -> set[str]:
    return {label for sample in samples() if sample.name == name for label in sample.labels}


def depth(path: str, name: str) -> float:
    (found,) = [each for each in samples(path) if each.name == name and each.labels.get("queue") == QUEUE]
    assert found.labels["vhost"] == "/", found.labels
    return found.value


@cache
def names() -> frozenset[str]:
    return frozenset(sample.name for sample in samples())


@check
def the_page_is_text_for_prometheus() -> None:
    assert read("/metrics")


for _name in NAMES:
    check_that(f"has {_name}", lambda name=_name: name in names())


@check
def counts_of_the_node_rise() -> None:
    wait(lambda: total("rabbitmq_connections") >= 1)
    wait(lambda: total("rabbitmq_global_messages_received_total") >= READY)
    wait(lambda: total("rabbitmq_global_messages_confirmed_total") >= READY)
    wait(lambda: total("rabbitmq_global_publishers") == 1)


@check
def identity_and_build_have_their_labels() -> None:
    identity = {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"}
    assert identity <= labels("rabbitmq_identity_info")
    build = {"rabbitmq_version", "prometheus_client_version", "prometheus_plugin_version", "erlang_version"}
    assert build <= labels("rabbitmq_build_info")
    assert "protocol" in labels("rabbitmq_global_messages_received_total")


@check
def a_sample_for_each_queue() -> None:
    wait(lambda: depth("/metrics/per-object", "rabbitmq_queue_messages") == READY)


@check
def a_family_by_its_name() -> None:
    path = "/metrics/detailed?family=queue_coarse_metrics&vhost=%2F"
    wait(lambda: depth(path, "rabbitmq_detailed_queue_messages") == READY)


if __name__ == "__main__":
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, PORT))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    for _ in range(READY):
        channel.basic_publish("", QUEUE, b"x")
    main()
