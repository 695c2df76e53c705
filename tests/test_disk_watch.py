"""The low-water mark of the disk, its reserve, and a broker on a file system that really fills up."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pika
import pytest

from amqp_router.connection.alarms import Alarms
from amqp_router.disk_watch import RESERVE, DiskWatch
from tests.brokers import RouterProcess, logged

MIB = 1 << 20


class World:
    """A disk of ``total`` MiB whose free space the test sets, beside the real folder of the reserve."""

    def __init__(self, tmp_path: Path, total: int = 1000, free: int = 900, limit: int = 0) -> None:
        self.tmp_path, self.total, self.free = tmp_path, total, free
        self.alarms = Alarms(lambda step: None)
        self.calls: list[tuple[float, Any]] = []
        self.events: list[str] = []
        self.halted = 0
        self.watch = DiskWatch(
            tmp_path,
            limit,
            segment_bytes=8 * MIB,
            alarms=self.alarms,
            call_later=self.call_later,
            event=lambda level, what, **facts: self.events.append(what),
            halt=self.halt,
            statvfs=self.statvfs,
        )

    def call_later(self, seconds: float, call: Any) -> Any:
        self.calls.append((seconds, call))
        return SimpleNamespace(cancel=lambda: None)

    def halt(self) -> None:
        self.halted += 1

    def reserve(self) -> int:
        path = self.tmp_path / RESERVE
        return path.stat().st_size if path.exists() else 0

    def statvfs(self, path: str) -> Any:
        free = self.free * MIB - self.reserve()
        return SimpleNamespace(f_blocks=self.total * MIB, f_bavail=free, f_frsize=1)

    def look(self, free: int) -> World:
        """The next look, with ``free`` MiB that the reserve stands in."""
        self.free = free
        self.calls.pop()[1]()
        return self


def test_publishers_wait_below_the_mark_and_go_on_above_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.watch.mark == 32 * MIB  # two segments and 16 MiB; 5 % would be 50
    world.watch.start()
    assert world.reserve() == 16 * MIB
    assert not world.look(16 + 33).alarms.on
    assert world.look(16 + 31).alarms.names == ["disk"]
    assert world.look(16 + 35).alarms.on, "not before there is 1.2 times as much"
    assert not world.look(16 + 39).alarms.on


def test_mark_of_a_small_disk_and_of_the_option(tmp_path: Path) -> None:
    assert World(tmp_path, total=200).watch.mark == 10 * MIB
    assert World(tmp_path, limit=70 * MIB).watch.mark == 70 * MIB


def test_reserve_is_given_up_on_a_full_disk_and_clears_no_alarm(tmp_path: Path) -> None:
    world = World(tmp_path, total=200)
    world.watch.start()
    assert world.reserve() == 10 * MIB
    world.look(10 + 2)
    assert world.reserve() == 0
    assert world.events == ["disk reserve given up"]
    # Its 10 MiB are free now, but they are not for publishers.
    assert world.look(12).alarms.on
    assert world.look(21).alarms.on
    assert world.reserve() == 0
    assert not world.look(10 + 13).alarms.on
    assert world.reserve() == 10 * MIB


def test_a_start_on_a_full_disk_gives_up_what_the_last_one_held_back(tmp_path: Path) -> None:
    (tmp_path / RESERVE).write_bytes(bytes(10 * MIB))
    world = World(tmp_path, total=200, free=11)
    world.watch.start()
    assert world.reserve() == 0
    assert world.alarms.on


def test_routing_log_stops_first(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.watch.start()
    world.look(16 + 65)
    assert world.halted == 0
    assert not world.look(16 + 63).alarms.on
    assert world.halted == 1
    assert not world.watch.has_room_for_routing()
    world.look(16 + 77)
    assert world.watch.has_room_for_routing()


def test_it_looks_the_sooner_the_less_room_there_is(tmp_path: Path) -> None:
    world = World(tmp_path, total=100_000, free=90_000)
    world.watch.start()
    assert world.calls[-1][0] == 5.0
    world.look(16 + 32 + 500)
    assert 0.5 < world.calls[-1][0] < 1.5
    world.look(16 + 33)
    assert world.calls[-1][0] == 0.05


@pytest.fixture(params=[64, 200])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of so many MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:  # only root may mount; the gate runs as root
        pytest.skip(f"a file system of its own needs root: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


class Publisher(threading.Thread):
    """Publishes ``count`` numbered messages with confirms, whatever the broker makes it wait."""

    def __init__(self, port: int, count: int, size: int) -> None:
        super().__init__(daemon=True)
        self.port, self.count, self.size = port, count, size
        self.confirmed: list[int] = []
        self.refused: list[int] = []

    def run(self) -> None:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0))
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2)
        for number in range(self.count):
            body = number.to_bytes(4, "big") + bytes(self.size - 4)
            try:
                channel.basic_publish("", "q", body, properties)
            except pika.exceptions.NackError:
                self.refused.append(number)
            else:
                self.confirmed.append(number)
        connection.close()


def test_publishers_wait_on_a_full_disk_and_nothing_confirmed_is_lost(
    small_disk: Path, tmp_path: Path
) -> None:
    size = os.statvfs(small_disk).f_blocks * os.statvfs(small_disk).f_frsize
    options = ["--data-dir", str(small_disk), "--segment-bytes", "4MiB", "--admin", "false"]
    broker = RouterProcess(tmp_path, options=options)
    broker.start()
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    publisher = Publisher(broker.port, count=2 * size // 250_000, size=250_000)
    publisher.start()
    logged(broker, "alarm set")
    # Nobody consumed, so it waits. A consumer makes room; the publisher goes on by itself.
    received = []
    end = time.monotonic() + 200
    while publisher.is_alive() and time.monotonic() < end:
        method, _, body = channel.basic_get("q")
        if method is None:
            connection.process_data_events(0.01)
            continue
        received.append(int.from_bytes(body[:4], "big"))
        channel.basic_ack(method.delivery_tag)
    logged(broker, "alarm cleared")
    assert not publisher.is_alive(), broker.log()[-3000:]
    broker.kill9()
    broker.start()
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, heartbeat=0))
    channel = connection.channel()
    while (got := channel.basic_get("q", auto_ack=True))[0] is not None:
        received.append(int.from_bytes(got[2][:4], "big"))
    assert set(publisher.confirmed) <= set(received)
    assert len(publisher.confirmed) + len(publisher.refused) == publisher.count
    connection.close()
    broker.kill9()


@pytest.mark.parametrize("small_disk", [64], indirect=True)
def test_a_start_on_a_full_disk_serves_consumers_and_deletes(small_disk: Path, tmp_path: Path) -> None:
    options = ["--data-dir", str(small_disk), "--segment-bytes", "4MiB", "--admin", "false"]
    broker = RouterProcess(tmp_path, options=options)
    broker.start()
    parameters = pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
    channel = pika.BlockingConnection(parameters).channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("other", durable=True)
    channel.confirm_delivery()
    for number in range(40):
        body = number.to_bytes(4, "big") + bytes(250_000)
        channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
    broker.kill9()
    with (small_disk / "somebody else's").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    assert os.statvfs(small_disk).f_bavail == 0
    broker.start()
    logged(broker, "alarm set")
    channel = pika.BlockingConnection(
        pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
    ).channel()
    received = []
    while (got := channel.basic_get("q"))[0] is not None:
        received.append(int.from_bytes(got[2][:4], "big"))
        channel.basic_ack(got[0].delivery_tag)
    assert received == list(range(40))
    channel.queue_delete("other")
    broker.stop()
    broker.start()
    again = pika.BlockingConnection(
        pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
    ).channel()
    assert again.queue_declare("q", passive=True).method.message_count == 0
    broker.kill9()
