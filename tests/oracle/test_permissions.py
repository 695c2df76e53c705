"""Permissions and limits, with RabbitMQ's texts. They are set over HTTP, so our broker alone is asked."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.brokers import RouterProcess
from tests.interop.wire import Received, Wire

pytestmark = pytest.mark.ours_only
Connect = Callable[..., Wire]
LIMITED = {"user": "lim", "password": "lim"}


def api(broker: RouterProcess, method: str, path: str, body: Any = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    url = f"http://{broker.host}:{broker.admin_port}/api/{path}"
    request = urllib.request.Request(url, data, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    urllib.request.urlopen(request).close()


@pytest.fixture
def limited(broker: RouterProcess, wire: Wire, connect: Connect) -> Wire:
    """A connection of a user who may configure ``c.``, write ``w.`` and read ``r.``; channel 1 is open."""
    api(broker, "PUT", "users/lim", {"password": "lim", "tags": ""})
    api(broker, "PUT", "permissions/%2F/lim", {"configure": r"^c\.", "write": r"^w\.", "read": r"^r\."})
    api(broker, "PUT", "topic-permissions/%2F/lim", {"exchange": "w.x", "write": r"^a\.", "read": r"^b\."})
    for letter in "wrco":
        wire.ok(1, "queue.declare", queue=f"{letter}.q")
        wire.ok(1, "exchange.declare", exchange=f"{letter}.x", type="topic")
    connection = connect(**LIMITED)
    connection.open_channel(1)
    return connection


def publish(exchange: str, key: str) -> Callable[[Wire], Received]:
    def act(wire: Wire) -> Received:
        wire.publish(1, exchange, key, "x")
        return wire.call(1, "basic.qos")

    return act


def method(name: str, **fields: Any) -> Callable[[Wire], Received]:
    return lambda wire: wire.call(1, name, **fields)


@pytest.mark.parametrize(
    ("act", "refused"),
    [
        (method("queue.declare", queue="zzz"), "queue 'zzz'"),
        (method("queue.declare", queue="o.q"), "queue 'o.q'"),
        (method("exchange.declare", exchange="zz", type="fanout"), "exchange 'zz'"),
        (method("queue.bind", queue="r.q", exchange="r.x", routing_key="b.a"), "queue 'r.q'"),
        (method("queue.bind", queue="w.q", exchange="w.x", routing_key="b.a"), "exchange 'w.x'"),
        (method("basic.consume", queue="w.q"), "queue 'w.q'"),
        (method("basic.get", queue="w.q"), "queue 'w.q'"),
        (method("queue.purge", queue="w.q"), "queue 'w.q'"),
        (method("queue.delete", queue="w.q"), "queue 'w.q'"),
        (publish("r.x", "a"), "exchange 'r.x'"),
        (publish("", "w.q"), "exchange 'amq.default'"),
        (method("queue.declare", queue="c.dl", arguments={"x-dead-letter-exchange": "r.x"}), "queue 'c.dl'"),
        (
            method(
                "exchange.declare", exchange="c.ae", type="fanout", arguments={"alternate-exchange": "r.x"}
            ),
            "exchange 'c.ae'",
        ),
        (method("exchange.bind", destination="r.x", source="r.x", routing_key="a"), "exchange 'r.x'"),
        (publish("w.x", "z.z"), "topic 'z.z' in exchange 'w.x'"),
    ],
)
def test_refused(limited: Wire, act: Callable[[Wire], Received], refused: str) -> None:
    reply = act(limited)
    assert (reply.name, reply.code) == ("channel.close", 403)
    assert reply.text == f"ACCESS_REFUSED - access to {refused} in vhost '/' refused for user 'lim'"


@pytest.mark.parametrize(
    "act",
    [
        method("queue.declare", queue="o.q", passive=True),
        method("queue.bind", queue="w.q", exchange="r.x", routing_key="a"),
        method("exchange.bind", destination="w.x", source="r.x", routing_key="a"),
        publish("w.x", "a.z"),
        method("basic.get", queue="r.q"),
    ],
)
def test_allowed(limited: Wire, act: Callable[[Wire], Received]) -> None:
    assert act(limited).name.endswith(("-ok", "-empty"))


def test_no_permission_for_the_virtual_host(broker: RouterProcess, connect: Connect) -> None:
    api(broker, "PUT", "users/nov", {"password": "nov", "tags": ""})
    reply = connect(user="nov", password="nov").opened
    assert (reply.code, reply.class_id, reply.method_id) == (530, 10, 40)
    assert reply.text == "NOT_ALLOWED - access to vhost '/' refused for user 'nov'"


def test_limits_of_a_user(broker: RouterProcess, limited: Wire, connect: Connect) -> None:
    api(broker, "PUT", "user-limits/lim/max-connections", {"value": 1})
    reply = connect(**LIMITED).opened
    assert (reply.code, reply.text) == (
        530,
        "NOT_ALLOWED - connection refused for user 'lim': user connection limit (1) is reached",
    )
    api(broker, "DELETE", "user-limits/lim/max-connections")
    api(broker, "PUT", "user-limits/lim/max-channels", {"value": 1})
    reply = limited.call(2, "channel.open")
    api(broker, "DELETE", "user-limits/lim/max-channels")
    assert (reply.name, reply.code) == ("connection.close", 530)
    assert reply.text == (
        "NOT_ALLOWED - number of channels opened for user 'lim' has reached the maximum allowed user limit "
        "of (1)"
    )


def test_limits_of_a_virtual_host(broker: RouterProcess, connect: Connect) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api(broker, "PUT", "vhosts/lv", {})
    api(broker, "PUT", "permissions/lv/guest", everything)
    api(broker, "PUT", "vhost-limits/lv/max-queues", {"value": 1})
    api(broker, "PUT", "vhost-limits/lv/max-connections", {"value": 1})
    inside = connect(vhost="lv")
    inside.open_channel(1)
    reply = connect(vhost="lv").opened
    assert (reply.code, reply.text) == (
        530,
        "NOT_ALLOWED - access to vhost 'lv' refused for user 'guest': connection limit (1) is reached",
    )
    inside.ok(1, "queue.declare", queue="1")
    reply = inside.call(1, "queue.declare", queue="2")
    assert (reply.code, reply.text) == (
        406,
        "PRECONDITION_FAILED - cannot declare queue '2': queue limit in vhost 'lv' (1) is reached",
    )
    inside.send(1, "channel.close-ok")
    api(broker, "DELETE", "vhosts/lv")
    reply = inside.receive()
    assert (reply.code, reply.text) == (320, "CONNECTION_FORCED - vhost 'lv' is deleted")
