"""Headers and arguments nested thousands of levels deep pass through, as in RabbitMQ.

Source: RabbitMQ 3.10.8 passes 5,000 levels.
"""

from __future__ import annotations

import base64
import json
import struct
import urllib.request

import pytest

from tests.brokers import Broker, RouterProcess
from tests.interop.wire import FRAME_HEADER, Received, Wire, encode_short

BOTH_BUILDS = pytest.mark.parametrize(
    "own_broker",
    ["compiled", pytest.param("uncompiled", marks=pytest.mark.ours_only)],
    indirect=True,
)


def deep_table(levels: int, name: str = "deep") -> bytes:
    """Tables and arrays in turns inside of each other."""
    value = b"S" + struct.pack(">I", 4) + b"core"
    for level in range(levels):
        inside = value if level % 2 else encode_short("in") + value
        value = (b"A" if level % 2 else b"F") + struct.pack(">I", len(inside)) + inside
    pair = encode_short(name) + value
    return struct.pack(">I", len(pair)) + pair


def properties_of_next(wire: Wire, queue: str) -> bytes:
    """The property list of the queue's next message as octets, as the tests' client decodes recursively."""
    wire.send(1, "basic.get", queue=queue, no_ack=True)
    method = wire.receive_frame()
    assert not isinstance(method, Received)
    assert method is not None
    assert method[2][:4] == struct.pack(">HH", 60, 71), "no get-ok"
    payload = wire.content_frame(FRAME_HEADER, 1)
    assert struct.unpack_from(">Q", payload, 4) == (0,)
    return payload[12:]


@BOTH_BUILDS
def test_deep_headers_pass_unchanged_and_survive_a_restart(own_broker: Broker) -> None:
    table = deep_table(5000)
    with Wire(own_broker.port) as wire:
        wire.open_channel(1, confirm=True)
        wire.ok(1, "queue.declare", queue="q", durable=True)
        for mode in (1, 2):
            wire.publish(1, "", "q", headers=table, delivery_mode=mode)
            assert wire.receive().name == "basic.ack"
        assert properties_of_next(wire, "q") == struct.pack(">H", 0x3000) + table + b"\1"
    own_broker.restart()
    with Wire(own_broker.port) as wire:
        wire.open_channel(1)
        assert properties_of_next(wire, "q") == struct.pack(">H", 0x3000) + table + b"\2"
        assert wire.get("q") is None


@BOTH_BUILDS
def test_deep_headers_are_matched_at_a_headers_exchange(own_broker: Broker) -> None:
    table = deep_table(5000)
    with Wire(own_broker.port) as wire:
        wire.open_channel(1)
        wire.ok(1, "queue.declare", queue="q", durable=True, arguments=deep_table(5000, "x-custom"))
        wire.ok(1, "queue.declare", queue="q", durable=True, arguments=deep_table(5000, "x-custom"))
        wire.ok(1, "exchange.declare", exchange="e", type="headers", durable=True, arguments=table)
        wire.ok(1, "queue.bind", queue="q", exchange="e", arguments=table)
        wire.ok(1, "queue.bind", queue="q", exchange="e", arguments=table)
    own_broker.restart()
    with Wire(own_broker.port) as wire:
        wire.open_channel(1)
        for headers in (deep_table(4998), table, deep_table(5002)):
            wire.publish(1, "e", "", headers=headers)
        assert properties_of_next(wire, "q") == b"\x20\0" + table
        assert wire.get("q") is None
        if isinstance(own_broker, RouterProcess):
            check_api(own_broker)
        wire.ok(1, "queue.unbind", queue="q", exchange="e", arguments=table)
        wire.publish(1, "e", "", headers=table)
        assert wire.get("q") is None


def check_api(broker: RouterProcess) -> None:
    for path in ("queues/%2F/q", "exchanges/%2F/e", "queues/%2F/q/bindings", "definitions"):
        request = urllib.request.Request(f"http://127.0.0.1:{broker.admin_port}/api/{path}")
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request) as answer:
            document = answer.read().decode()
        json.loads(document)
        assert "octets, nested more than 64 deep" in document
