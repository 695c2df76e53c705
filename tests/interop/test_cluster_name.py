"""The name of the cluster, which clients are told in connection.start: set, imported, kept, taken away.

With ``AMQP_ROUTER_TEST_BROKER=rabbitmq`` the same runs against RabbitMQ with its management plugin.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import RabbitProcess, RouterProcess
from tests.interop.conftest import RABBITMQ
from tests.interop.wire import Wire


class Named:
    """A broker whose cluster gets names."""

    def __init__(self, broker: RouterProcess | RabbitProcess) -> None:
        self.broker = broker

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON. RabbitMQ serves HTTP a moment after AMQP."""
        url = f"http://127.0.0.1:{self.broker.admin_port}/api/{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        end = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(request) as reply:
                    text = reply.read()
                    return json.loads(text) if text else None
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError:
                assert time.monotonic() < end
                time.sleep(0.1)

    def told(self) -> str:
        """What a client is told."""
        with Wire(self.broker.port, host=self.broker.host, until="start") as wire:
            return str(wire.start.fields["properties"]["cluster_name"])

    def shown(self) -> list[str]:
        """What the HTTP API says, in both places."""
        overview = self.call("GET", "overview?columns=cluster_name")
        return [self.call("GET", "cluster-name")["name"], overview["cluster_name"]]

    def exported(self) -> Any:
        """The global parameter in the definitions; None if there is none."""
        found = {one["name"]: one["value"] for one in self.call("GET", "definitions")["global_parameters"]}
        return found.get("cluster_name")


@pytest.fixture
def named(tmp_path: Path) -> Iterator[Named]:
    broker = RabbitProcess(tmp_path, plugins=["rabbitmq_management"]) if RABBITMQ else RouterProcess(tmp_path)
    broker.start()
    yield Named(broker)
    broker.stop()


def test_clients_are_told_the_name_that_was_set(named: Named) -> None:
    first = named.told()
    # RabbitMQ takes the machine's own name instead of the one after the node's @.
    assert first.split("@")[0] == named.call("GET", "overview")["node"].split("@")[0]
    assert (named.shown(), named.exported()) == ([first, first], None)
    named.call("PUT", "cluster-name", {"name": "été"})
    assert (named.told(), named.shown(), named.exported()) == ("été", ["été", "été"], "été")
    named.broker.restart()
    assert (named.told(), named.shown()) == ("été", ["été", "été"])
    imported = {"global_parameters": [{"name": "cluster_name", "value": "imported"}]}
    named.call("POST", "definitions", imported)
    assert (named.told(), named.shown(), named.exported()) == ("imported", ["imported"] * 2, "imported")
    named.call("PUT", "global-parameters/cluster_name", {"value": "parameter"})
    assert (named.told(), named.shown()) == ("parameter", ["parameter"] * 2)
    named.call("PUT", "global-parameters/cluster_name", {"value": "x" * 10_000})
    assert named.told() == "x" * 10_000
    named.call("DELETE", "global-parameters/cluster_name")
    assert (named.told(), named.shown(), named.exported()) == (first, [first, first], None)


@pytest.mark.ours_only  # RabbitMQ resets each new connection as long as the parameter is no string.
@pytest.mark.parametrize("value", [5, None, True, ["x"], {"a": 1}])
def test_a_parameter_that_is_no_name_keeps_nobody_out(named: Named, value: Any) -> None:
    first = named.told()
    named.call("PUT", "global-parameters/cluster_name", {"value": value})
    assert (named.told(), named.shown()) == (first, [first, first])
