"""``python -m tests.demo.recompute``: the demonstration's figures computed three ways, which must agree.

All flights are published through a broker, which is then stopped. Then Spark, a decoder written from
``persistence/log/FORMAT.md`` alone (nothing of the project decodes here; pika takes the properties apart) and
the data set itself each say how many messages there were by exchange, routing key, queue and hour, and how
many went nowhere.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import pika

from demo import flights as data
from demo import statistics, topology
from demo.flights import Flight
from demo.publishing import Publisher
from demo.statistics import Figures
from tests.brokers import RouterProcess

HEADER = struct.Struct("<4sHHIHHIIQIIIIQqII")
UNROUTABLE, SAME_KEY = 4, 0x8000


def publish(directory: Path, flights: Sequence[Flight]) -> Path:
    """Publish with confirms through a broker in ``directory``, stop it; returns its data directory."""
    broker = RouterProcess(directory)
    broker.start()
    try:
        parameters = pika.ConnectionParameters("127.0.0.1", broker.port)
        with pika.BlockingConnection(parameters) as connection:
            topology.declare(connection.channel())
        publisher = Publisher(parameters, flights, lambda _published, _confirmed: None)
        publisher.run()
        assert publisher.confirmed == len(flights), publisher.problem
    finally:
        assert broker.stop() == 0
    return broker.data_dir


def batches(path: Path) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, number of records, record size and payload of each batch of a segment."""
    content = path.read_bytes()
    log = path.parent.parent
    node = json.loads((log / "log.json").read_text()).get("node", "")
    salt = crc32(f"{node}/{log.name}/{path.parent.name}".encode())
    at = 0
    while at < len(content):
        head = HEADER.unpack_from(content, at)
        magic, version, record_size, length, kind, _attributes, payload_crc, count = head[:8]
        payload = content[at + 72 : at + length]
        assert (magic, version, crc32(payload)) == (b"ARLB", 2, payload_crc), f"{path} at {at}"
        assert crc32(content[at + 36 : at + 64], crc32(content[at : at + 32], salt)) == head[9], (
            f"{path} at {at}"
        )
        yield kind, count, record_size, payload
        at += length


def routes(path: Path) -> dict[int, dict[str, object]]:
    """The entries of a ``.names`` file by their id."""
    content = path.read_bytes()
    assert content[:4] == b"ARLN"
    found = {}
    at = 16
    while at < len(content):
        length, _crc, number = struct.unpack_from("<III", content, at)
        found[number] = json.loads(content[at + 12 : at + 12 + length])
        at += 12 + length
    return found


def by_decoder(data_dir: Path) -> Figures:
    """The figures from the files of a stopped broker."""
    exchange: Counter[Hashable] = Counter()
    key: Counter[Hashable] = Counter()
    queue: Counter[Hashable] = Counter()
    hour: Counter[Hashable] = Counter()
    unroutable: Counter[Hashable] = Counter()
    for segment in sorted(data_dir.glob("routing/*/*/*.log")):
        names = routes(segment.with_suffix(".names"))
        for kind, count, size, payload in batches(segment):
            assert kind == 4
            heap = payload[count * size :]
            events_before = key_before = 0
            routing_key = ""
            for index in range(count):
                events, key_end, _dts, route, _body, flags = struct.unpack_from(
                    "<IIIIIH", payload, index * size
                )
                if not flags & SAME_KEY:
                    routing_key = heap[key_before:key_end].decode()
                many = events - events_before
                events_before, key_before = events, key_end
                name = names[route]["exchange"]
                assert isinstance(name, str)
                exchange[name] += many
                key[routing_key] += many
                if flags & UNROUTABLE:
                    unroutable[routing_key] += many
                for target in names[route]["queues"]:  # type: ignore[attr-defined]
                    queue[target] += many
    for description in data_dir.glob("queues/*/log.json"):
        if json.loads(description.read_text())["name"] not in {e.queue for e in topology.QUEUES}:
            continue
        for segment in sorted(description.parent.glob("0/*.log")):
            for kind, count, size, payload in batches(segment):
                if kind == 1:
                    _hours(payload, count, size, hour)
    return Figures(exchange, key, queue, hour, unroutable)


def _hours(payload: bytes, count: int, size: int, hour: Counter[Hashable]) -> None:
    routes_size = struct.unpack_from("<I", payload, (count - 1) * size)[0]
    properties = payload[count * size + routes_size :]
    before = 0
    for index in range(count):
        end = struct.unpack_from("<I", payload, index * size + 4)[0]
        found = pika.BasicProperties()
        found.decode(properties[before:end])
        hour[found.timestamp // 3600 * 3600] += 1
        before = end


def main() -> int:
    parser = argparse.ArgumentParser(prog="recompute", description=__doc__)
    parser.add_argument("--limit", type=int, default=data.COUNT, help="only so many flights")
    args = parser.parse_args()
    flights = list(data.read(args.limit))
    since = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="recompute-") as home:
        data_dir = publish(Path(home), flights)
        print(f"{len(flights)} published and confirmed")
        ours = statistics.of_data_set(flights)
        decoded = by_decoder(data_dir)
        spark = statistics.by_spark(data_dir, since, len(flights), str, Path(home) / "spark.log")
    wrong = [f"decoder: {line}" for line in statistics.differences(ours, decoded)]
    wrong += [f"Spark: {line}" for line in statistics.differences(ours, spark)]
    print(*wrong[:20], sep="\n")
    figures = sum(map(len, vars(ours).values()))
    print(f"{figures} figures, three ways: {len(wrong)} differences")
    return 1 if wrong or not figures else 0


if __name__ == "__main__":
    sys.exit(main())
