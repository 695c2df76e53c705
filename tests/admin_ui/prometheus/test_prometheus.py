"""The pages for Prometheus, read with the parser of its own Python client."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from admin_ui.live.attention import ORDER
from admin_ui.prometheus.text import escaped, number
from tests.admin_ui.world import World
from tests.brokers import RouterProcess
from tests.ports import free_port

#: What RabbitMQ's Grafana dashboard "RabbitMQ-Overview" reads: type and labels, as RabbitMQ 3.10.8 has them.
DASHBOARD = json.loads(Path(__file__).with_name("dashboard.json").read_text())


def families(text: bytes) -> dict[str, Any]:
    """The metrics by the name that their samples have."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, (family, []))[1].append(sample)
    return found


async def scrape(node: World, path: str = "/metrics") -> dict[str, Any]:
    reply = await node.call("GET", path)
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return families(_plain(reply))


def _plain(reply: Any) -> bytes:
    return gzip.decompress(reply.body) if reply.headers.get("Content-Encoding") == "gzip" else reply.body


def value(found: dict[str, Any], name: str, **labels: str) -> float:
    values = [sample.value for sample in found[name][1] if labels.items() <= sample.labels.items()]
    assert len(values) == 1, (name, labels, values)
    return float(values[0])


async def test_names_types_and_labels_of_the_official_dashboard(node: World) -> None:
    found = await scrape(node)
    assert len(DASHBOARD) == 38
    for name, (kind, labels) in DASHBOARD.items():
        family, samples = found[name]
        assert family.type == ("unknown" if kind == "untyped" else kind), name
        assert sorted(samples[0].labels) == labels, name


async def test_counts(shop: World) -> None:
    connection = await shop.connect("shop")
    channel = await connection.channel(publisher_confirms=True)
    queue = await channel.get_queue("emails")
    other = await connection.channel(publisher_confirms=False)
    for each in (channel, other):
        await each.default_exchange.publish(_message(), "emails")
    await channel.default_exchange.publish(_message(), "nosuch", mandatory=False)
    message = await queue.get()
    await message.ack()
    await queue.get(no_ack=True)
    assert await queue.get(fail=False) is None
    await queue.consume(lambda _: None)
    found = await scrape(shop)
    assert value(found, "rabbitmq_connections") == 1
    assert value(found, "rabbitmq_channels") == 2
    assert value(found, "rabbitmq_consumers") == 1
    assert value(found, "rabbitmq_queues") == 2
    assert value(found, "rabbitmq_global_consumers", protocol="amqp091") == 1
    assert value(found, "rabbitmq_global_publishers", protocol="amqp091") == 2
    for name, count in {
        "received": 3,
        "received_confirm": 2,
        "confirmed": 2,
        "routed": 2,
        "unroutable_dropped": 1,
        "unroutable_returned": 0,
        "acknowledged": 1,
        "delivered_get_manual_ack": 1,
        "delivered_get_auto_ack": 1,
        "get_empty": 1,
    }.items():
        assert value(found, f"rabbitmq_global_messages_{name}_total", protocol="amqp091") == count, name
    detailed = await scrape(
        shop, "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count&vhost=shop"
    )
    about = {"vhost": "shop", "queue": "emails"}
    assert value(detailed, "rabbitmq_detailed_queue_messages_ready", **about) == 0
    assert value(detailed, "rabbitmq_detailed_queue_consumers", **about) == 1
    await connection.close()


def _message() -> Any:
    import aio_pika

    return aio_pika.Message(b"x")


async def test_counts_stay_when_their_virtual_host_goes(node: World) -> None:
    node.add_vhost("short")
    connection = await node.connect("short")
    channel = await connection.channel(publisher_confirms=True)
    await (await channel.declare_queue("q")).get(fail=False)
    await channel.default_exchange.publish(_message(), "q")
    before = await scrape(node)
    node.broker.virtual_hosts.delete("short")
    await asyncio.sleep(0.1)
    after = await scrape(node)
    counters = [name for name, (family, _) in before.items() if family.type == "counter"]
    assert len(counters) > 30
    for name in counters:
        for one, other in zip(before[name][1], after[name][1], strict=True):
            assert other.value >= one.value, name
    assert value(after, "rabbitmq_global_messages_received_total") == 1
    assert value(after, "rabbitmq_global_messages_received_confirm_total") == 1


async def test_a_sample_for_every_object(shop: World) -> None:
    connection = await shop.connect("shop")
    await connection.channel()
    found = await scrape(shop, "/metrics/per-object")
    queues = {(each.labels["vhost"], each.labels["queue"]) for each in found["rabbitmq_queue_messages"][1]}
    assert queues == {("shop", "emails"), ("shop", "orders.eu")}
    assert len(found["rabbitmq_channel_prefetch"][1]) == 1
    assert len(found["rabbitmq_connection_channels"][1]) == 1
    text = _plain(await shop.call("GET", "/metrics/per-object")).decode()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    exchanges = await scrape(shop, "/metrics/detailed?family=exchange_bindings&family=vhost_status")
    assert value(exchanges, "rabbitmq_cluster_exchange_bindings", vhost="shop", exchange="orders") == 1
    assert value(exchanges, "rabbitmq_cluster_vhost_status", vhost="shop") == 1
    await connection.close()


async def test_names_that_need_escaping(node: World) -> None:
    name = 'a"b\\c\nd\te\u00e9'
    node.broker.vhosts["/"].declare_queue(name)
    node.broker.vhosts["/"].declare_queue("caf\udce9")  # octets that are not UTF-8
    found = await scrape(node, "/metrics/detailed?family=queue_coarse_metrics")
    names = {each.labels["queue"] for each in found["rabbitmq_detailed_queue_messages"][1]}
    assert names == {name, "caf\\xe9"}
    assert escaped("plain") == "plain"
    assert [number(each) for each in (1, 0.5, float("nan"), float("inf"))] == ["1", "0.5", "NaN", "+Inf"]


async def test_family_that_does_not_exist(node: World) -> None:
    reply = await node.call("GET", "/metrics/detailed?family=queue_coarse_metric")
    assert reply.status == 400
    assert reply.json["reason"] == ("unknown family queue_coarse_metric; did you mean queue_coarse_metrics?")
    assert (await node.call("GET", "/metrics/detailed?family=ra_metrics")).status == 200
    assert (await node.call("GET", "/metrics/detailed?vhost=nosuch&family=queue_metrics")).status == 200


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", "/metrics/detailed"])
async def test_the_admin_port_asks_for_the_tag_monitoring(shop: World, path: str) -> None:
    assert (await shop.call("GET", path, None)).status == 401
    assert (await shop.call("GET", path, "alice")).json["reason"] == "Not monitor user"
    assert (await shop.call("GET", path, "bob")).status == 200


async def test_logins_are_counted(node: World) -> None:
    await node.call("GET", "/api/whoami")
    await node.call("GET", "/api/whoami", "guest", "wrong")
    found = await scrape(node)
    assert value(found, "rabbitmq_auth_attempts_failed_total", protocol="http") == 1
    assert value(found, "rabbitmq_auth_attempts_succeeded_total", protocol="http") == 2
    assert value(found, "rabbitmq_auth_attempts_total", protocol="amqp091") == 0


async def test_ten_thousand_queues_hold_the_loop_no_longer_than_a_list(node: World) -> None:
    vhost = node.broker.vhosts["/"]
    for number_ in range(10_000):
        vhost.declare_queue(f"q{number_}")
    list_s = await _longest_turn(node, "/api/queues")
    assert await _longest_turn(node, "/metrics") < 3 * list_s
    assert await _longest_turn(node, "/metrics/per-object") < 3 * list_s


async def _longest_turn(node: World, path: str) -> float:
    """The longest turn of the loop while ``path`` is fetched, in seconds of the thread's processor time.

    The least of three fetches, without collections of garbage: other tests have left much of it.
    """
    gc.collect()
    gc.disable()
    try:
        return min([await _longest_turn_once(node, path) for _ in range(3)])
    finally:
        gc.enable()


async def _longest_turn_once(node: World, path: str) -> float:
    longest = 0.0
    done = False

    async def watch() -> None:
        nonlocal longest
        last = time.thread_time()
        while not done:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    watching = asyncio.create_task(watch())
    assert (await node.call("GET", path)).status == 200
    done = True
    await watching
    return longest


DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("file", ["grafana-dashboard.json", "alerts.yml"])
async def test_files_to_import_name_only_metrics_that_exist(node: World, file: str) -> None:
    text = (DOCS / "monitoring" / file).read_text()
    named = set(re.findall(r"\b(?:rabbitmq|amqp_router|process)_\w+", text)) - {"amqp_router"}
    assert len(named) > 3
    assert named <= (await scrape(node)).keys()


async def test_alerts_have_every_kind_of_finding() -> None:
    text = (DOCS / "monitoring" / "alerts.yml").read_text()
    assert set(re.findall(r'kind="(\w+)"', text)) == set(ORDER)


async def test_findings(node: World) -> None:
    vhost = node.broker.vhosts["/"]
    vhost.declare_queue("idle")
    connection = await node.connect()
    channel = await connection.channel()
    await channel.default_exchange.publish(_message(), "idle")
    await connection.close()
    assert value(await scrape(node), "amqp_router_findings", kind="no_consumers") == 1
    found = (await node.call("GET", "/admin/v1/attention")).json
    assert {"kind": "no_consumers", "vhost": "/", "name": "idle", "ready": 1}.items() <= found["findings"][
        -1
    ].items()


def test_its_own_port_needs_no_login(tmp_path: Path) -> None:
    port = free_port()
    broker = RouterProcess(tmp_path, options=["--metrics-port", str(port), "--admin", "false"])
    broker.start()
    try:
        ready = json.loads(broker.ready_file.read_text())
        assert ready["metrics"] == {"host": "127.0.0.1", "port": port}
        for path in ("/metrics", "/metrics/per-object", "/metrics/detailed"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
                assert "rabbitmq_identity_info" in families(reply.read())
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/overview")
        assert json.loads(refused.value.read())["error"] == "Object Not Found"
    finally:
        broker.stop()


def test_port_in_use(tmp_path: Path) -> None:
    first = RouterProcess(tmp_path / "a", options=["--metrics-port", str(free_port())])
    first.start()
    second = RouterProcess(tmp_path / "b", options=first.options)
    second.launch()
    assert second.process is not None
    assert second.process.wait(100) == 3
    assert "--metrics-port" in second.log()
    first.stop()
