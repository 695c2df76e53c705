"""Data directories to break: made by a real broker, with what every queue in them must still hold."""

from __future__ import annotations

import os
import re
import shutil
import struct
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import spark_analytics
from tests.brokers import RouterProcess
from tests.interop.wire import Wire

OPTIONS = ("--segment-bytes", "64KiB", "--memory-budget", "1MiB", "--log-level", "info")
#: How the broker ended: by SIGTERM, by SIGKILL at rest, by SIGKILL with everything confirmed a moment ago.
ENDS = ("stopped", "killed", "killed busy")
#: Queues that get a message in one write, so that one sync is for many logs.
SMALL = tuple(f"s{number:02}" for number in range(40))
QUEUES = ("long", "settled", "empty", "large", *SMALL)
#: Regular expressions for the kinds of files, by what they are to the broker.
KINDS = {
    "segment": r"queues/[^/]+/\d+/\d+\.log",
    "index": r"queues/[^/]+/\d+/\d+\.index",
    "checkpoint": r"(queues/[^/]+/\d+/)?[a-z-]*checkpoint[a-z.-]*",
    "journal": r".*journal.*",
    "synced": r"synced",
    "log.json": r"queues/[^/]+/log\.json",
    "routing log.json": r"routing/[^/]+/log\.json",
    "routing segment": r"routing/.*\.log",
    "names": r"routing/.*\.names",
    "boots": r"boots\.json",
    "definitions": r"definitions\.sqlite.*",
    "page file": r"paging/.*",
    "stamp": r"amqp-router\.json|lock",
    "other": r".*",
}


@dataclass
class Base:
    """A data directory as it was left, and what was confirmed."""

    path: Path
    end: str
    #: Bodies that must be there, in order; and those that were settled durably and must not be.
    held: dict[str, list[bytes]] = field(default_factory=dict)
    gone: dict[str, set[bytes]] = field(default_factory=dict)


def body(random: Random, queue: str, number: int, size: int) -> bytes:
    """Says whose it is, and shows whether it is whole."""
    head = f"{queue}:{number}:".encode() + random.randbytes(size)
    return head + struct.pack(">I", zlib.crc32(head))


def is_whole(data: bytes) -> bool:
    return len(data) > 4 and zlib.crc32(data[:-4]) == struct.unpack(">I", data[-4:])[0]


def make_base(directory: Path, seed: int, end: str) -> Base:
    """Run a broker through a life that leaves every kind of file."""
    random = Random(f"base {seed} {end}")
    broker = RouterProcess(directory, options=OPTIONS)
    broker.start()
    try:
        base = _live(broker, random, end)
    except BaseException:
        broker.kill9()
        raise
    if end == "stopped":
        broker.stop()
    else:
        if end == "killed":
            time.sleep(2.5)  # usually long enough that marks are written and journals emptied
            _wait_for_ends(base)
        broker.kill9()
    for left in (broker.ready_file, broker.log_file):
        left.unlink(missing_ok=True)
    return base


def _wait_for_ends(base: Base) -> None:
    """Wait until the logs hold no settled messages beside the others: no client ever waits for that."""
    held = sum(map(len, base.held.values()))
    give_up = time.monotonic() + 60
    while True:
        rows = spark_analytics.read_arrow(base.path, table="messages", columns="outcome")
        left = rows["outcome"].to_pylist().count(None)
        if left == held:
            return
        assert time.monotonic() < give_up, f"{left} messages have no end on disk instead of {held}"
        time.sleep(0.05)


def _live(broker: RouterProcess, random: Random, end: str) -> Base:
    base = Base(broker.data_dir, end)
    wire = Wire(broker.port)
    wire.open_channel(1, confirm=True)
    wire.open_channel(2)
    wire.ok(2, "exchange.declare", exchange="x", type="topic", durable=True)
    for queue in QUEUES:
        wire.ok(2, "queue.declare", queue=queue, durable=True)
        base.held[queue] = []
        base.gone[queue] = set()
    wire.ok(2, "queue.bind", queue="long", exchange="x", routing_key="a.*.#")
    wire.ok(2, "queue.declare", queue="paged")
    published = 0
    unconfirmed: set[int] = set()

    def publish(queue: str, sizes: list[int], *, exchange: str = "", key: str = "", mode: int = 2) -> None:
        nonlocal published
        for size in sizes:
            data = body(random, queue, len(base.held.get(queue, ())), size)
            wire.publish(
                1, exchange, key or queue, data, delivery_mode=mode, headers={"a": 1}, message_id="m"
            )
            if queue in base.held:
                base.held[queue].append(data)
            published += 1
            unconfirmed.add(published)

    def wait() -> None:
        while unconfirmed:
            got = wire.receive()
            assert got.name == "basic.ack", got
            # Of several queues, the later message may be safe first.
            last = got.delivery_tag
            unconfirmed.difference_update(range(1, last + 1) if got.multiple else [last])

    publish("long", [random.randrange(2500) for _ in range(150)])
    publish("long", [100] * 20, exchange="x", key="a.b.c")
    publish("settled", [200] * 60)
    publish("large", [300_000, 10, 1_200_000])
    publish("paged", [3000] * 700, mode=1)
    wait()
    for queue, count in (("settled", 60), ("long", 40)):
        for number in range(count):
            got = wire.get(queue, channel=2, no_ack=False)
            assert got is not None
            assert got.body == base.held[queue][number]
            wire.send(2, "basic.ack", delivery_tag=got.delivery_tag)
        done, base.held[queue] = base.held[queue][:count], base.held[queue][count:]
        if end != "killed busy":
            base.gone[queue] |= set(done)
    for _ in range(3):
        for queue in SMALL:
            publish(queue, [50])
        wait()
    # one more round trip: the acknowledgements are taken
    wire.ok(2, "queue.declare", queue="long", passive=True)
    if end != "killed busy":
        time.sleep(0.5)  # and synced
    publish("long", [10] * 3)
    for queue in SMALL:
        publish(queue, [500])
    wait()
    return base


def files(path: Path) -> list[str]:
    """Names of all files, in an order that does not depend on random ids: by kind, then size, then name."""
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder) / name
            relative = str(file.relative_to(path))
            kind = next(i for i, text in enumerate(KINDS.values()) if re.fullmatch(text, relative))
            found.append((kind, -file.stat().st_size, relative))
    return [relative for _, _, relative in sorted(found)]


def copy(path: Path, to: Path) -> None:
    shutil.copytree(path, to, symlinks=True)
