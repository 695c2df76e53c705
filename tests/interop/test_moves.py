"""A move of messages over a real broker that is killed or stopped in its midst."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from amqp_router.ctl.client import Client, by_file
from tests.brokers import RouterProcess
from vhosts.moves import WINDOW

pytestmark = pytest.mark.ours_only

COUNT = 6_000
#: Messages whose settles the source's log may not have written: those of 200 ms, far fewer than all.
AGAIN_MAX = COUNT // 2


@pytest.fixture(params=["compiled", "uncompiled"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RouterProcess]:
    process = RouterProcess(tmp_path, uncompiled=request.param == "uncompiled")
    process.start()
    yield process
    process.stop()


def fill(broker: RouterProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        for name in ("a", "b"):
            channel.queue_declare(name, durable=True)
        properties = pika.BasicProperties(delivery_mode=2)
        channel.tx_select()
        for number in range(COUNT):
            channel.basic_publish("", "a", b"%d" % number, properties)
        channel.tx_commit()


def drained(broker: RouterProcess, name: str) -> list[int]:
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        count = channel.queue_declare(name, passive=True).method.message_count
        bodies: list[int] = []
        if count:
            channel.basic_qos(prefetch_count=1000)
            for method, _, body in channel.consume(name, auto_ack=True):
                assert method is not None
                bodies.append(int(body))
                if len(bodies) == count:
                    break
        return bodies


@pytest.mark.parametrize("how", ["kill9", "stop"])
def test_nothing_is_lost(broker: RouterProcess, how: str) -> None:
    fill(broker)
    client = Client(by_file(broker.data_dir))
    begun = client.call("POST", "/admin/v1/queues/%2F/a/moves", {"to": {"queue": "b"}})
    assert begun["count"] == COUNT
    while (moved := client.get(f"/admin/v1/moves/{begun['id']}")["moved"]) < COUNT // 10:
        time.sleep(0.001)
    if how == "kill9":
        broker.kill9()
    else:
        assert broker.stop() == 0, broker.log()
    broker.start()
    client = Client(by_file(broker.data_dir))
    assert client.get("/admin/v1/moves") == []
    left, came = drained(broker, "a"), drained(broker, "b")
    assert came == list(range(len(came)))
    assert len(came) >= moved
    assert left == list(range(left[0] if left else COUNT, COUNT))
    again = len(came) + len(left) - COUNT
    assert again >= 0
    if how == "kill9":
        assert again <= AGAIN_MAX + WINDOW
    else:
        assert again == 0
    assert "unexpected error" not in broker.log()


def test_clients_get_messages_beside_it(broker: RouterProcess) -> None:
    fill(broker)
    client = Client(by_file(broker.data_dir))
    begun = client.call("POST", "/admin/v1/queues/%2F/a/moves", {"to": {"queue": "b"}, "count": COUNT // 2})
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        taken = [
            int(body)
            for _, _, body in (channel.basic_get("a", auto_ack=True) for _ in range(50))
            if body is not None
        ]
    while client.get(f"/admin/v1/moves/{begun['id']}")["ended"] is None:
        time.sleep(0.01)
    left, came = drained(broker, "a"), drained(broker, "b")
    assert len(came) == COUNT // 2
    assert sorted([*taken, *left, *came]) == list(range(COUNT))
