"""The exchange ``amq.rabbitmq.event``: keys and headers of events, as measured with RabbitMQ 3.10.8.

With ``AMQP_ROUTER_TEST_BROKER=rabbitmq`` the same runs against RabbitMQ with the plugin
``rabbitmq_event_exchange``. What differs on purpose is in docs/exchanges.md, and left out of the comparison
here: the order of events of one action, and what ``ignored`` says.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.brokers import RabbitProcess, RouterProcess
from tests.interop.conftest import RABBITMQ
from tests.interop.wire import Wire

#: Headers whose values differ from run to run; that they are there is compared.
CHANGING = {
    "timestamp_in_ms",
    "node",
    "pid",
    "connection",
    "channel",
    "owner_pid",
    "connected_at",
    "cluster_state",
}
CHANGING |= {"peer_port", "port", "connection_name", "name of a connection", "client_properties"}
Event = tuple[str, dict[str, Any]]


class Listener:
    """A broker, one who acts and one who hears the events of it."""

    def __init__(self, broker: RabbitProcess | RouterProcess) -> None:
        self.broker = broker
        self.ear = Wire(broker.port)
        self.ear.open_channel(1)
        self.ear.ok(1, "queue.declare", queue="ear", exclusive=True)
        self.ear.ok(1, "queue.bind", queue="ear", exchange="amq.rabbitmq.event", routing_key="#")
        self.actor = Wire(broker.port)
        self.actor.open_channel(1)
        time.sleep(0.3)
        self.hear(0.3)

    def api(self, verb: str, path: str, body: object = None) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.broker.admin_port}/api/{path}",
            method=verb,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Basic {b64encode(b'guest:guest').decode()}",
                "Content-Type": "application/json",
            },
        )
        urllib.request.urlopen(request, timeout=20).close()

    def hear(self, quiet_s: float, wanted: int = 0) -> list[Event]:
        """The events that come until ``wanted`` are there and none has come for a while."""
        heard: list[Event] = []
        last = time.monotonic()
        while time.monotonic() - last < (quiet_s if len(heard) >= wanted else 60):
            found = self.ear.get("ear")
            if found is None:
                time.sleep(0.02)
                continue
            last = time.monotonic()
            assert (found.exchange, found.body) == ("amq.rabbitmq.event", b"")
            headers = found.properties["headers"]
            assert found.properties.keys() == {"headers", "delivery_mode", "timestamp"}
            assert found.properties["delivery_mode"] == 2
            assert abs(headers["timestamp_in_ms"] / 1000 - time.time()) < 60
            if not ignored(found.routing_key, headers):
                heard.append((found.routing_key, headers))
        return heard


def ignored(key: str, headers: dict[str, Any]) -> bool:
    """What RabbitMQ tells beside the rest."""
    return bool(headers.get("component") == "exchange-delete-in-progress" or key == "queue.policy.updated")


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    directory = tmp_path_factory.mktemp("events")
    broker: RabbitProcess | RouterProcess = RouterProcess(directory)
    if RABBITMQ:
        broker = RabbitProcess(directory, plugins=("rabbitmq_management", "rabbitmq_event_exchange"))
    broker.start()
    end = time.monotonic() + 60
    while True:  # RabbitMQ serves HTTP later
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}/", timeout=5).close()
            break
        except urllib.error.HTTPError:
            break
        except OSError:
            assert time.monotonic() < end, "no HTTP API"
            time.sleep(0.2)
    yield Listener(broker)
    broker.stop()


GUEST = {"user_who_performed_action": "guest"}
BROKER = {"user_who_performed_action": "rmq-internal"}
IN = {"vhost": "/", "timestamp_in_ms": 0}
BINDING = {
    **IN,
    "arguments": ['{<<"arg">>,longstr,<<"v">>}'],
    "routing_key": "a.b",
    "destination_kind": "queue",
    "destination_name": "q",
    "source_kind": "exchange",
    "source_name": "x",
}
POLICY = {"pattern": "^nothing$", "definition": {"max-length": 10}, "priority": 1, "apply-to": "queues"}
PERMISSION = {"configure": ".*", "write": "w", "read": "r"}


def amqp(name: str, **fields: Any) -> Callable[[Listener], object]:
    return lambda listener: listener.actor.ok(1, name, **fields)


def api(verb: str, path: str, body: object = None) -> Callable[[Listener], object]:
    return lambda listener: listener.api(verb, path, body)


def new_channel(listener: Listener) -> None:
    listener.actor.open_channel(2)


#: What is done, and what is told then; in this order, as later ones need earlier ones.
STEPS: list[tuple[str, Callable[[Listener], object], list[Event]]] = [
    (
        "channel",
        new_channel,
        [
            (
                "channel.created",
                {**GUEST, **IN, "user": "guest", "number": 2, "connection": "", "name": "", "pid": ""},
            ),
        ],
    ),
    (
        "channel.close",
        lambda listener: listener.actor.ok(2, "channel.close", code=200),
        [
            ("channel.closed", {**GUEST, "pid": "", "timestamp_in_ms": 0}),
        ],
    ),
    (
        "queue",
        amqp("queue.declare", queue="q", durable=True, arguments={"x-max-length": 10}),
        [
            (
                "queue.created",
                {
                    **GUEST,
                    **IN,
                    "name": "q",
                    "durable": True,
                    "auto_delete": False,
                    "exclusive": False,
                    "arguments": ['{<<"x-max-length">>,signedint,10}'],
                    "owner_pid": "",
                },
            ),
        ],
    ),
    ("queue again", amqp("queue.declare", queue="q", durable=True, arguments={"x-max-length": 10}), []),
    (
        "quorum queue",
        amqp("queue.declare", queue="qq", durable=True, arguments={"x-queue-type": "quorum"}),
        [
            (
                "queue.created",
                {
                    **GUEST,
                    **IN,
                    "name": "qq",
                    "durable": True,
                    "auto_delete": False,
                    "exclusive": False,
                    "arguments": ['{<<"x-queue-type">>,longstr,<<"quorum">>}'],
                    "type": "rabbit_quorum_queue",
                },
            ),
        ],
    ),
    (
        "exchange",
        amqp("exchange.declare", exchange="x", type="topic", durable=True, arguments={"u": 1}),
        [
            (
                "exchange.created",
                {
                    **GUEST,
                    **IN,
                    "name": "x",
                    "type": "topic",
                    "durable": True,
                    "auto_delete": False,
                    "internal": False,
                    "arguments": ['{<<"u">>,signedint,1}'],
                    "policy": "",
                },
            ),
        ],
    ),
    (
        "bind",
        amqp("queue.bind", queue="q", exchange="x", routing_key="a.b", arguments={"arg": "v"}),
        [
            ("binding.created", {**GUEST, **BINDING}),
        ],
    ),
    (
        "unbind",
        amqp("queue.unbind", queue="q", exchange="x", routing_key="a.b", arguments={"arg": "v"}),
        [
            ("binding.deleted", {**GUEST, **BINDING}),
        ],
    ),
    (
        "consume",
        amqp("basic.consume", queue="q", tag="c", arguments={"x-priority": 3}),
        [
            (
                "consumer.created",
                {
                    **GUEST,
                    **IN,
                    "queue": "q",
                    "consumer_tag": "c",
                    "ack_required": True,
                    "exclusive": False,
                    "prefetch_count": 0,
                    "channel": "",
                    "arguments": ['{<<"x-priority">>,signedint,3}'],
                },
            ),
        ],
    ),
    (
        "cancel",
        amqp("basic.cancel", tag="c"),
        [
            ("consumer.deleted", {**GUEST, **IN, "queue": "q", "consumer_tag": "c", "channel": ""}),
        ],
    ),
    (
        "bind again",
        amqp("queue.bind", queue="q", exchange="x", routing_key="a.b", arguments={"arg": "v"}),
        [
            ("binding.created", {**GUEST, **BINDING}),
        ],
    ),
    (
        "exchange.delete",
        amqp("exchange.delete", exchange="x"),
        [
            ("exchange.deleted", {**GUEST, **IN, "name": "x"}),
            ("binding.deleted", {**GUEST, **BINDING}),
        ],
    ),
    (
        "bind once more",
        amqp("queue.bind", queue="q", exchange="amq.topic", routing_key="a.b", arguments={"arg": "v"}),
        [
            ("binding.created", {**GUEST, **BINDING, "source_name": "amq.topic"}),
        ],
    ),
    (
        "queue.delete",
        amqp("queue.delete", queue="q"),
        [
            ("binding.deleted", {**BROKER, **BINDING, "source_name": "amq.topic"}),
            ("queue.deleted", {**GUEST, **IN, "name": "q"}),
        ],
    ),
    (
        "over HTTP",
        api("PUT", "queues/%2F/hq", {"durable": True}),
        [
            (
                "queue.created",
                {
                    **GUEST,
                    **IN,
                    "name": "hq",
                    "durable": True,
                    "auto_delete": False,
                    "exclusive": False,
                    "arguments": [],
                    "owner_pid": "",
                },
            ),
        ],
    ),
    ("gone over HTTP", api("DELETE", "queues/%2F/hq"), [("queue.deleted", {**GUEST, **IN, "name": "hq"})]),
    (
        "policy",
        api("PUT", "policies/%2F/p", POLICY),
        [("policy.set", {**GUEST, **IN, "name": "p", **POLICY})],
    ),
    ("the same policy", api("PUT", "policies/%2F/p", POLICY), []),
    ("no policy", api("DELETE", "policies/%2F/p"), [("policy.cleared", {**GUEST, **IN, "name": "p"})]),
    (
        "operator policy",
        api("PUT", "operator-policies/%2F/o", POLICY),
        [
            ("policy.set", {**GUEST, **IN, "name": "o", **POLICY}),
            ("parameter.set", {**GUEST, **IN, "name": "o", "component": "operator_policy", "value": POLICY}),
        ],
    ),
    (
        "no operator policy",
        api("DELETE", "operator-policies/%2F/o"),
        [
            ("operator.policy.cleared", {**GUEST, **IN, "name": "o"}),
            ("parameter.cleared", {**GUEST, **IN, "name": "o", "component": "operator_policy"}),
        ],
    ),
    (
        "user",
        api("PUT", "users/bob", {"password": "pw", "tags": "monitoring"}),
        [
            ("user.created", {**GUEST, "name": "bob", "timestamp_in_ms": 0}),
            ("user.tags.set", {**GUEST, "name": "bob", "tags": ["monitoring"], "timestamp_in_ms": 0}),
        ],
    ),
    (
        "password",
        api("PUT", "users/bob", {"password": "pw2", "tags": ""}),
        [
            ("user.password.changed", {**GUEST, "name": "bob", "timestamp_in_ms": 0}),
            ("user.tags.set", {**GUEST, "name": "bob", "tags": [], "timestamp_in_ms": 0}),
        ],
    ),
    (
        "limit",
        api("PUT", "user-limits/bob/max-connections", {"value": 9}),
        [
            (
                "user.limits.set",
                {**GUEST, "name": "limits", "username": "bob", "max-connections": 9, "timestamp_in_ms": 0},
            ),
        ],
    ),
    (
        "no limit",
        api("DELETE", "user-limits/bob/max-connections"),
        [
            ("user.limits.cleared", {**GUEST, "name": "limits", "username": "bob", "timestamp_in_ms": 0}),
        ],
    ),
    (
        "permission",
        api("PUT", "permissions/%2F/bob", PERMISSION),
        [
            ("permission.created", {**GUEST, **IN, "user": "bob", **PERMISSION}),
        ],
    ),
    (
        "topics",
        api("PUT", "topic-permissions/%2F/bob", {"exchange": "t", "write": "w", "read": "r"}),
        [
            (
                "topic.permission.created",
                {**GUEST, **IN, "user": "bob", "exchange": "t", "write": "w", "read": "r"},
            ),
        ],
    ),
    (
        "no permission",
        api("DELETE", "permissions/%2F/bob"),
        [
            ("permission.deleted", {**GUEST, **IN, "user": "bob"}),
        ],
    ),
    (
        "no user",
        api("DELETE", "users/bob"),
        [("user.deleted", {**GUEST, "name": "bob", "timestamp_in_ms": 0})],
    ),
]


def comparable(event: Event) -> tuple[str, dict[str, Any]]:
    """Without what changes from run to run."""
    key, headers = event
    shown = {name: None if name in CHANGING else value for name, value in headers.items()}
    if key.startswith(("connection.", "channel.")) and "name" in shown:
        shown["name"] = None
    return key, shown


def ordered(events: list[Event]) -> list[str]:
    return sorted(json.dumps(comparable(event), sort_keys=True) for event in events)


def test_keys_and_headers(listener: Listener) -> None:
    for step, act, expected in STEPS:
        act(listener)
        heard = listener.hear(0.15, len(expected))
        assert ordered(heard) == ordered(expected), step


def test_life_of_a_connection(listener: Listener) -> None:
    wire = Wire(listener.broker.port)
    heard = dict(listener.hear(0.2, 2))
    assert heard.keys() == {"connection.created", "user.authentication.success"}
    created, login = heard["connection.created"], heard["user.authentication.success"]
    assert created.keys() == {
        "user_who_performed_action",
        "node",
        "connected_at",
        "client_properties",
        "channel_max",
        "frame_max",
        "timeout",
        "vhost",
        "user",
        "protocol",
        "ssl_hash",
        "ssl_cipher",
        "ssl_key_exchange",
        "ssl_protocol",
        "auth_mechanism",
        "peer_cert_validity",
        "peer_cert_issuer",
        "peer_cert_subject",
        "ssl",
        "peer_host",
        "host",
        "peer_port",
        "port",
        "name",
        "pid",
        "type",
        "timestamp_in_ms",
    }
    assert login.keys() == {
        "ssl",
        "auth_mechanism",
        "protocol",
        "peer_port",
        "peer_host",
        "connection_name",
        "host",
        "name",
        "connection_type",
        "timestamp_in_ms",
    }
    assert (login["name"], login["peer_host"], login["protocol"]) == ("guest", "{127,0,0,1}", "{0,9,1}")
    assert (created["user"], created["vhost"], created["ssl"]) == ("guest", "/", False)
    assert '{<<"product">>,longstr,<<"wire">>}' in created["client_properties"]
    wire.open_channel(1)
    wire.ok(1, "queue.declare", queue="mine", exclusive=True)
    wire.drop()
    heard = dict(listener.hear(0.3, 5))
    assert heard.keys() == {
        "channel.created",
        "queue.created",
        "queue.deleted",
        "channel.closed",
        "connection.closed",
    }
    assert heard["queue.created"]["exclusive"] is True
    assert heard["queue.created"]["owner_pid"] == created["pid"]
    assert heard["queue.deleted"]["user_who_performed_action"] == "rmq-internal"
    assert heard["channel.closed"]["pid"] == heard["channel.created"]["pid"]
    assert heard["channel.created"]["connection"] == heard["connection.closed"]["pid"] == created["pid"]
    assert heard["connection.closed"].keys() == {
        "client_properties",
        "node",
        "pid",
        "name",
        "timestamp_in_ms",
    }


def test_failed_login(listener: Listener) -> None:
    Wire(listener.broker.port, password="wrong").drop()
    heard = dict(listener.hear(0.5, 2))
    assert heard.keys() == {"user.authentication.failure", "connection.closed"}
    failure = heard["user.authentication.failure"]
    assert failure["name"] == "guest"
    error = failure["error"] if isinstance(failure["error"], str) else "".join(map(chr, failure["error"]))
    assert error == "user 'guest' - invalid credentials"
    assert "wrong" not in str(heard)


def test_auto_delete_is_the_broker(listener: Listener) -> None:
    listener.actor.ok(1, "queue.declare", queue="a", auto_delete=True)
    listener.actor.ok(1, "basic.consume", queue="a", tag="t")
    listener.actor.ok(1, "basic.cancel", tag="t")
    heard = dict(listener.hear(0.3, 4))
    assert heard.keys() == {"queue.created", "consumer.created", "consumer.deleted", "queue.deleted"}
    assert heard["queue.deleted"]["user_who_performed_action"] == "rmq-internal"


def test_virtual_host(listener: Listener) -> None:
    listener.api("PUT", "vhosts/v", {"description": "d", "tags": "a,b"})
    heard = listener.hear(0.3, 9)
    exchanges = {headers["name"] for key, headers in heard if key == "exchange.created"}
    assert exchanges == {
        "",
        "amq.direct",
        "amq.fanout",
        "amq.headers",
        "amq.match",
        "amq.topic",
        "amq.rabbitmq.trace",
    }
    made = dict(heard)["vhost.created"]
    assert (made["name"], made["description"], made["tags"]) == ("v", "d", ["a", "b"])
    assert made["metadata"] == '#{description => <<"d">>,tags => [a,b]}'
    assert dict(heard)["permission.created"]["vhost"] == "v"
    listener.api("PUT", "queues/v/inside", {"durable": True})
    listener.api("PUT", "policies/v/p", POLICY)
    listener.hear(0.3, 2)
    listener.api("DELETE", "vhosts/v")
    heard = listener.hear(1.0, 11)
    gone = {
        (key, headers.get("name"))
        for key, headers in heard
        if key not in ("vhost.down", "permission.deleted")
    }
    assert gone == {
        ("vhost.deleted", "v"),
        ("queue.deleted", "inside"),
        ("policy.cleared", "p"),
        *(("exchange.deleted", name) for name in exchanges),
    }


def test_clients_may_not_publish_to_it_or_delete_it(listener: Listener) -> None:
    wire = Wire(listener.broker.port)
    wire.open_channel(1)
    wire.publish(1, "amq.rabbitmq.event", "queue.created", "x")
    assert wire.receive().text == (
        "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.event' in vhost '/'"
    )
    wire.send(1, "channel.close-ok")
    wire.open_channel(1)
    assert wire.call(1, "exchange.delete", exchange="amq.rabbitmq.event").text == (
        "ACCESS_REFUSED - deletion of system exchange 'amq.rabbitmq.event' in vhost '/' not allowed"
    )
    wire.drop()
    listener.hear(0.5)
