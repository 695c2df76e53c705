"""No confirm leaves before the disk has what it promises: seen in the system calls, not in what survives.

The same test is run on a copy of the sources whose sync does nothing, and must find it out.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.brokers import ROOT, RouterProcess
from tests.faults import syscalls
from tests.interop.wire import Wire, decode_method, encode_publish

pytestmark = pytest.mark.skipif(bool(syscalls.why_not()), reason=syscalls.why_not() or "-")

MESSAGES = 300
ACK = struct.pack(">HH", 60, 80)
DECLARE_OK = struct.pack(">HH", 50, 11)
SOURCES = ("amqp_router", "vhosts", "persistence")


class Early(NamedTuple):
    """A frame that left although ``found`` of ``needed`` copies of ``marker`` were safe."""

    marker: bytes
    found: int
    needed: int


def marker(number: int) -> bytes:
    return b"<message %06d>" % number


def publish(broker: RouterProcess, queues: list[str]) -> dict[int, bytes]:
    """Publish to all queues at once with confirms, in blocks of changing size; returns tag -> marker."""
    tags: dict[int, bytes] = {}
    with Wire(broker.port) as wire:
        wire.open_channel(1, confirm=True)
        for queue in queues:
            wire.ok(1, "queue.declare", queue=queue, durable=True)
            wire.ok(1, "queue.bind", queue=queue, exchange="amq.fanout")
        confirmed = 0
        while len(tags) < MESSAGES:
            block = bytearray()
            for _ in range(1 + len(tags) % 17):
                tags[len(tags) + 1] = marker(len(tags))
                block += encode_publish(1, "amq.fanout", "", tags[len(tags)], delivery_mode=2)
            wire.send_bytes(bytes(block))
            while confirmed < len(tags) - 20:
                confirmed = next_confirm(wire, confirmed)
        while confirmed < len(tags):
            confirmed = next_confirm(wire, confirmed)
    return tags


def next_confirm(wire: Wire, confirmed: int) -> int:
    reply = wire.receive(30)
    assert reply.name == "basic.ack", reply
    return int(reply.delivery_tag) if reply.multiple else confirmed + 1


def methods(data: bytes) -> Iterator[bytes]:
    """Payloads of the method frames in what is sent; the data of one send are whole frames here."""
    position = 0
    while position + 8 <= len(data):
        kind, _, size = struct.unpack_from(">BHI", data, position)
        if kind == 1:
            yield data[position + 7 : position + 7 + size]
        position += size + 8


def early_frames(trace: Path, tags: dict[int, bytes], queues: list[str]) -> tuple[int, list[Early]]:
    """How many confirms and declare-oks were checked, and which came early."""
    disk = syscalls.Disk([*tags.values(), *(queue.encode() for queue in queues)])
    early: list[Early] = []
    settled: set[int] = set()
    checked = 0
    with trace.open(encoding="ascii", errors="replace") as lines:
        for step in syscalls.steps(lines):
            disk.step(step)
            if not syscalls.is_send(step):
                continue
            for payload in methods(step.call.data):
                if payload[:4] == ACK:
                    fields = decode_method(payload)[1]
                    last = fields["delivery_tag"]
                    covered = (
                        [t for t in tags if t <= last and t not in settled] if fields["multiple"] else [last]
                    )
                    settled.update(covered)
                    checked += len(covered)
                    needed = {tags[tag]: len(queues) for tag in covered}
                elif payload[:4] == DECLARE_OK:
                    checked += 1
                    needed = {decode_method(payload)[1]["queue"].encode(): 1}
                else:
                    continue
                early += [Early(m, disk.safe[m], n) for m, n in needed.items() if disk.safe[m] < n]
    return checked, early


def run(directory: Path, tree: Path, queues: list[str], uncompiled: bool) -> tuple[int, list[Early]]:
    trace = directory / "trace"
    broker = RouterProcess(
        directory / "broker",
        tree=tree,
        uncompiled=uncompiled,
        prefix=syscalls.strace(trace),
        start_seconds=300,
    )
    broker.start()
    try:
        tags = publish(broker, queues)
    finally:
        broker.stop()
    return early_frames(trace, tags, queues)


@pytest.mark.parametrize("count", [1, 12], ids=["one-queue", "many-queues"])
def test_no_confirm_leaves_before_its_sync(tmp_path: Path, count: int) -> None:
    """With one queue its own log is synced; with many in one round it may be a common journal."""
    queues = [f"queue-{index:02}-of-this-test" for index in range(count)]
    checked, early = run(tmp_path, ROOT, queues, uncompiled=False)
    assert checked >= MESSAGES + count
    assert early == []


def test_a_broker_without_sync_is_found_out(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    replaced = 0
    for package in SOURCES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for path in (tree / "persistence").rglob("*.py"):
        text, count = re.subn(r"\b(os|system)\.(fdatasync|fsync)\(", "(lambda _: None)(", path.read_text())
        path.write_text(text)
        replaced += count
    assert replaced, "no sync was found in persistence: this test must learn where it went"
    checked, early = run(tmp_path, tree, ["queue-00-of-this-test"], uncompiled=True)
    confirms = [e for e in early if e.marker.startswith(b"<message")]
    assert len(confirms) == checked - 1, "every confirm, but not the declare-ok: SQLite syncs by itself"
