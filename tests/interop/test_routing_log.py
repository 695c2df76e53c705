"""What real clients publish is what the routing log says, after a stop, a kill and with the disk's help."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pika
import pytest

from persistence.files import RealDisk
from persistence.log.routing.layout import partition_of, routing_id
from persistence.log.sync.marks import log_id, read_marks
from tests.brokers import RouterProcess
from tests.persistence.log.routing_support import Read, read_all

pytestmark = pytest.mark.ours_only
PERSISTENT, MANDATORY, UNROUTABLE, RETURNED, CONFIRMED = 1, 2, 4, 8, 16


@pytest.fixture(params=["compiled", "uncompiled"])
def router(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RouterProcess]:
    broker = RouterProcess(tmp_path, uncompiled=request.param == "uncompiled", options=["--admin", "false"])
    broker.start()
    yield broker
    broker.stop()
    assert "Traceback" not in broker.log()


def connect(router: RouterProcess) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters(router.host, router.port))


def events(router: RouterProcess, *, marked: bool = False) -> list[Read]:
    """All events; only those that the marks cover if ``marked``."""
    disk = RealDisk()
    root = router.data_dir / "routing" / routing_id("/")
    marks = read_marks(disk, str(router.data_dir))
    found = []
    for number in range(4):
        limit = None
        if marked:
            mark = marks.get((log_id(routing_id("/")), number))
            limit = (mark.segment, mark.position) if mark is not None else (-1, 0)
        found += read_all(disk, str(root / str(number)), limit)
    return found


def synced(router: RouterProcess) -> int:
    """How many events the marks cover."""
    marks = read_marks(RealDisk(), str(router.data_dir))
    found = [marks.get((log_id(routing_id("/")), number)) for number in range(4)]
    return sum(mark.end for mark in found if mark is not None)


def test_the_log_has_every_publish_and_what_became_of_it(router: RouterProcess) -> None:
    random = Random(1)
    wanted: Counter[tuple[Any, ...]] = Counter()
    connection = connect(router)
    plain, sure = connection.channel(), connection.channel()
    sure.confirm_delivery()
    plain.queue_declare("kept", durable=True)
    plain.queue_declare("lost")
    plain.queue_bind("kept", "amq.topic", "a.*")
    plain.queue_bind("lost", "amq.topic", "#")
    plain.queue_bind("lost", "amq.headers", arguments={"x": 1})
    reply = plain.queue_declare("", exclusive=True).method.queue
    routes: list[tuple[str, str, dict[str, Any] | None, list[str]]] = [
        ("", "kept", None, ["kept"]),
        ("", "lost", None, ["lost"]),
        ("", reply, None, ["amq.gen-*"]),
        ("", "nobody", None, []),
        ("amq.topic", "a.b", None, ["kept", "lost"]),
        ("amq.topic", "é", None, ["lost"]),
        ("amq.topic", "", None, ["lost"]),
        ("amq.headers", "k", {"x": 1}, ["lost"]),
        ("amq.headers", "k", {"x": 1, "filler": "y" * 600}, ["lost"]),
        ("amq.direct", "nobody", None, []),
        ("amq.direct", "nobody", {"CC": ["x"]}, []),
        ("amq.topic", "x", {"CC": ["a.c"]}, ["lost", "kept"]),
        ("amq.topic", "x", {"BCC": ["a.c"]}, ["lost", "kept"]),
    ]
    before_us = time.time_ns() // 1000
    for _ in range(1500):
        exchange, key, headers, queues = random.choice(routes)
        size = random.choice([0, 16, 16, 1000, 200_000 if random.random() < 0.05 else 5])
        persistent, mandatory, confirmed = (random.random() < 0.5 for _ in range(3))
        mandatory = mandatory and not confirmed
        properties = pika.BasicProperties(headers=headers, delivery_mode=2 if persistent else 1)
        channel = sure if confirmed else plain
        channel.basic_publish(exchange, key, b"x" * size, properties, mandatory=mandatory)
        flags = PERSISTENT * persistent | MANDATORY * mandatory | CONFIRMED * confirmed
        if not queues:
            flags |= UNROUTABLE | RETURNED * mandatory
        wanted[exchange, key.encode(), tuple(queues), len(queues), size, flags] += 1
    connection.close()
    after_us = time.time_ns() // 1000
    assert router.stop() == 0
    found = events(router)
    assert wanted == Counter(
        (
            event.names["exchange"],
            event.key,
            tuple(event.names["queues"]),
            event.names["fanout"],
            event.size,
            event.flags,
        )
        for event in found
    )
    assert all(before_us <= event.ts_us <= after_us for event in found)
    router.start()
    with connect(router) as again:
        again.channel().basic_publish("", "kept", b"again")
    router.stop()
    assert len(events(router)) == 1501


def test_order_within_an_exchange_is_that_of_publishing(router: RouterProcess) -> None:
    with connect(router) as connection:
        channel = connection.channel()
        for number in range(3000):
            channel.basic_publish("amq.direct", f"{number // 3}", b"x" * (number % 7))
    router.stop()
    found = [event for event in events(router) if event.names["exchange"] == "amq.direct"]
    assert [(event.key, event.size) for event in found] == [
        (b"%d" % (number // 3), number % 7) for number in range(3000)
    ]
    assert [event.offset for event in found] == list(range(3000))
    assert partition_of("amq.direct", 4) in range(4)


def test_kill_9_loses_nothing_that_a_mark_covers(router: RouterProcess) -> None:
    sent = 0
    for _ in range(3):
        connection = connect(router)
        channel = connection.channel()
        channel.confirm_delivery()
        before = synced(router)
        for _ in range(300):
            channel.basic_publish("amq.direct", "k", b"%d" % sent)
            sent += 1
        while synced(router) < before + 300:  # once a second, if the broker gets a processor then
            time.sleep(0.05)
        for _ in range(50):
            channel.basic_publish("amq.direct", "k", b"%d" % sent)
            sent += 1
        router.kill9()
        marked = events(router, marked=True)
        assert len(marked) >= before + 300
        router.start()
        assert "aside" not in router.log()
        found = events(router, marked=True)
        assert found[: len(marked)] == marked
    router.stop()
    found = events(router)
    assert [event.offset for event in found] == list(range(len(found)))
    assert 900 <= len(found) <= 1050


def test_switched_off_it_writes_nothing(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path, options=["--routing-log", "false"])
    broker.start()
    with connect(broker) as connection:
        connection.channel().basic_publish("amq.direct", "k", b"x")
    broker.stop()
    assert not (broker.data_dir / "routing").exists()
