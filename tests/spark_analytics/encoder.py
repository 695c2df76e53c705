"""Writes data directories byte by byte as FORMAT.md says, and reads them slowly: what decoders are met with.

Nothing is shared with the package under test, so a misread layout shows.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

HEADER = struct.Struct("<4sHHIHHIIQIIIIQqI")
ROUTING, MESSAGES, SETTLES = 4, 1, 2
SAME_KEY = 0x8000


def node_of(data: Path) -> str:
    """The node id that ``stamp`` gives a directory."""
    return f"node-{hashlib.sha256(str(data).encode()).hexdigest()[:8]}"


def stamp(data: Path, layout: int = 1) -> None:
    data.mkdir(parents=True, exist_ok=True)
    (data / "amqp-router.json").write_text(
        json.dumps({"layout": layout, "store_id": node_of(data), "made_by": "test"})
    )


def batch(
    kind: int,
    record_size: int,
    count: int,
    base: int,
    last: int,
    base_ts: int,
    payload: bytes,
    *,
    version: int = 2,
    max_ts: int | None = None,
) -> bytes:
    head = HEADER.pack(
        b"ARLB",
        version,
        record_size,
        72 + len(payload),
        kind,
        0,
        crc32(payload),
        count,
        0,
        0,
        last - base,
        (max_ts or base_ts) - base_ts,
        1,
        base,
        base_ts,
        0,
    )
    # ``LogFiles`` puts its own checksum there.
    return head + bytes(4) + payload


def stamped(data: bytes, salt: int) -> bytes:
    """A batch with the checksum of its log."""
    if data[4] > 1:
        crc = crc32(data[36:64], crc32(data[:32], salt))
        own = struct.pack("<I", crc32(data[64:68], crc))
        return data[:32] + struct.pack("<I", crc) + data[36:68] + own + data[72:]
    crc = crc32(data[:68], salt if data[4] else 0)
    return data[:68] + struct.pack("<I", crc) + data[72:]


@dataclass(frozen=True)
class Run:
    """Equal events: what one record of the routing log says."""

    route: int
    key: bytes
    timestamp: int
    count: int = 1
    body_size: int = 0
    flags: int = 0


def routing_batch(base: int, runs: Sequence[Run], *, record_size: int = 24) -> bytes:
    base_ts = runs[0].timestamp
    records = keys = b""
    events = 0
    last_key = None
    for run in runs:
        flags = run.flags
        if run.key == last_key:
            flags |= SAME_KEY
        else:
            keys += run.key
        last_key = run.key
        events += run.count
        records += struct.pack(
            "<IIIIIHH", events, len(keys), run.timestamp - base_ts, run.route, run.body_size, flags, 0
        ).ljust(record_size, b"\xee")
    return batch(
        ROUTING, record_size, len(runs), base, base + events - 1, base_ts, records + keys,
        max_ts=runs[-1].timestamp,
    )  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """A message as a queue's log keeps it."""

    offset: int
    timestamp: int
    exchange: bytes = b""
    key: bytes = b""
    properties: bytes = b"\0\0"
    body: bytes = b""
    flags: int = 0
    priority: int = 0
    delivery_count: int = 0


def messages_batch(base: int, last: int, messages: Sequence[Sent]) -> bytes:
    base_ts = messages[0].timestamp
    records = routes = properties = bodies = b""
    last_route = None
    for message in messages:
        route = bytes([len(message.exchange)]) + message.exchange + bytes([len(message.key)]) + message.key
        if route != last_route:
            routes += route
        last_route = route
        properties += message.properties
        bodies += message.body
        records += struct.pack(
            "<IIIIIIBBHI",
            len(routes),
            len(properties),
            len(bodies),
            message.timestamp - base_ts,
            message.offset - base,
            0xFFFFFFFF,
            message.priority,
            message.flags,
            message.delivery_count,
            0,
        )
    payload = records + routes + properties + bodies
    return batch(MESSAGES, 32, len(messages), base, last, base_ts, payload, max_ts=messages[-1].timestamp)


def settles_batch(base: int, first: int, count: int, timestamp: int) -> bytes:
    return batch(SETTLES, 24, 1, base, base, timestamp, struct.pack("<QIBBHII", first, count, 1, 0, 0, 0, 0))


@dataclass
class LogFiles:
    """One partition directory being written: ``append`` batches, ``roll`` to a new segment."""

    directory: Path
    names: list[dict[str, object]] | None = None
    base: int = 0
    end: int = 0
    position: int = 0
    start: int = 0
    entries: list[tuple[int, int, int]] = field(default_factory=list)
    first_ts: int = 0

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._names()

    @property
    def path(self) -> Path:
        return self.directory / f"{self.base:020d}.log"

    @property
    def salt(self) -> int:
        log_id, number = self.directory.parts[-2:]
        node = "" if self.names is None else node_of(self.directory.parent.parent.parent)
        return crc32(f"{node}/{log_id}/{number}".encode())

    def _names(self) -> None:
        if self.names is not None:
            data = struct.pack("<4sHHQ", b"ARLN", 1, 0, self.base)
            for number, name in enumerate(self.names):
                payload = json.dumps(name, separators=(",", ":")).encode()
                crc = crc32(struct.pack("<I", number) + payload, self.salt)
                data += struct.pack("<III", len(payload), crc, number) + payload
            self.path.with_suffix(".names").write_bytes(data)

    def append(self, data: bytes) -> None:
        last_delta, base, base_ts = (
            struct.unpack_from("<I", data, 36)[0],
            struct.unpack_from("<Q", data, 48)[0],
            struct.unpack_from("<q", data, 56)[0],
        )
        data = stamped(data, self.salt)
        if not self.position:
            self.first_ts = base_ts
        if not self.entries or self.position >= self.entries[-1][2] + 65536:
            self.entries.append((base - self.base, (base_ts - self.first_ts) // 1000, self.position))
        with self.path.open("ab") as file:
            file.write(data)
        self.position += len(data)
        self.end = base + last_delta + 1

    def write_index(self) -> None:
        body = b"".join(struct.pack("<IIQ", *entry) for entry in self.entries)
        head = struct.pack("<4sIII", b"ARLI", 0, len(self.entries), crc32(body))
        self.path.with_suffix(".index").write_bytes(head + body)

    def roll(self, *, index: bool = True) -> None:
        if index:
            self.write_index()
        self.base, self.position, self.entries = self.end, 0, []
        self._names()


def routing_log(
    data: Path, vhost: str, names: list[dict[str, object]], partitions: int = 1, version: int = 1
) -> list[LogFiles]:
    """The empty partitions of a routing log."""
    log_id = hashlib.sha256(b"routing\0" + vhost.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    root = data / "routing" / log_id
    root.mkdir(parents=True)
    about = {
        "version": version,
        "kind": "routing",
        "vhost": vhost,
        "partitions": partitions,
        "node": node_of(data),
    }
    (root / "log.json").write_text(json.dumps(about))
    return [LogFiles(root / str(number), names) for number in range(partitions)]


def queue_log(data: Path, vhost: str, name: str, log_id: str) -> LogFiles:
    root = data / "queues" / log_id
    root.mkdir(parents=True)
    about = {
        "version": 1,
        "incarnation": log_id,
        "vhost": vhost,
        "name": name,
        "arguments": [],
        "partitions": 1,
    }
    (root / "log.json").write_text(json.dumps(about))
    return LogFiles(root / "0")


def write_marks(data: Path, logs: Sequence[LogFiles], *, version: int = 0) -> None:
    """The file ``synced``: each log durable up to where it stands."""
    head = struct.pack("<4sHHII16s28x", b"ARLW", version, 64, len(logs), 0, b"boot".ljust(16))
    content = head + struct.pack("<I", crc32(head))
    for log in logs:
        content += slot(log)
    content += bytes(64 * 3)
    temporary = data / "synced.tmp"
    temporary.write_bytes(content)
    temporary.rename(data / "synced")


def slot(log: LogFiles) -> bytes:
    log_id = bytes.fromhex(log.directory.parent.name)
    number = int(log.directory.name)
    epoch = 0 if log.names is not None else 1
    body = struct.pack("<16sIIQQQQI", log_id, number, epoch, log.end, log.base, log.position, log.start, 1)
    return body + struct.pack("<I", crc32(body))


def name(exchange: str, *queues: str) -> dict[str, object]:
    return {
        "exchange": exchange,
        "queues": list(queues),
        "bindings": [],
        "durable": len(queues),
        "fanout": len(queues),
    }


# --- the slow reader --------------------------------------------------------------------------------------
def slow_batches(path: Path) -> Iterator[tuple[int, int, int, int, int, bytes]]:
    """(kind, record size, count, base, base time, payload) of each batch."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        fields = HEADER.unpack_from(data, at)
        yield fields[4], fields[2], fields[7], fields[13], fields[14], data[at + 72 : at + fields[3]]
        at += fields[3]


def slow_events(directory: Path, names: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Every event of a partition, one record and one event at a time."""
    for path in sorted(directory.glob("*.log")):
        for _, size, count, base, base_ts, payload in slow_batches(path):
            keys = payload[size * count :]
            key, key_start, event = b"", 0, 0
            for number in range(count):
                events_end, key_end, dts, route, body_size, flags = struct.unpack_from(
                    "<IIIIIH", payload, number * size
                )
                if not flags & SAME_KEY:
                    key = keys[key_start:key_end]
                key_start = key_end
                while event < events_end:
                    queues = names[route]["queues"]
                    yield {
                        "offset": base + event,
                        "timestamp": base_ts + dts,
                        "exchange": names[route]["exchange"],
                        "routing_key": key.decode("utf-8", "replace"),
                        "queues": queues,
                        "fanout": len(queues),  # type: ignore[arg-type]
                        "route_id": route,
                        "body_size": body_size,
                        "persistent": bool(flags & 1),
                        "mandatory": bool(flags & 2),
                        "unroutable": bool(flags & 4),
                        "returned": bool(flags & 8),
                        "confirmed": bool(flags & 16),
                        "refused": bool(flags & 32),
                    }
                    event += 1
