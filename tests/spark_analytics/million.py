"""Spark reads while the broker writes, is killed, finds a torn tail, and writes on.

    python -m tests.spark_analytics.million [--messages 1000000]

A publisher sends numbered messages with confirms, at a steady rate. Meanwhile both tables are read over and
over, each time twice up to the same ends: the two answers must be equal. Half way, in the middle of a read,
the broker is killed with SIGKILL; half a batch is appended to every log by hand, and what could be read
before must be read again, before the restart and after it. At the end every message is there.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import spark_analytics
from tests.brokers import RouterProcess
from tests.interop.wire import Wire, encode_publish

EXCHANGE, QUEUE = "live", "all"
KEYS = 97
CHUNK = 500
#: Every so many messages one more goes to an exchange without bindings.
UNROUTABLE_EVERY = 50
TABLES = ("routing", "messages")


class Publisher(threading.Thread):
    """Sends messages ``first`` to ``last - 1``, body = the number; ``confirmed`` counts from ``first``."""

    def __init__(self, port: int, first: int, last: int, rate: float) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._rate = rate
        self._first, self._last = first, last
        self.confirmed = 0
        self.unroutable = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._publish()
        except (OSError, AssertionError, AttributeError, TypeError) as error:
            self.error = error  # the broker was killed

    def _publish(self) -> None:
        with Wire(self._port) as wire:
            wire.call(1, "channel.open")
            wire.call(1, "confirm.select")
            frames = [
                encode_publish(
                    1, EXCHANGE, f"key.{n}", bytes(8), delivery_mode=2, timestamp=1_700_000_000 + n
                )
                for n in range(KEYS)
            ]
            heads = [frame[:-9] for frame in frames]
            lost = encode_publish(1, "void", "nowhere", b"x")
            number, sent, seen = self._first, 0, 0
            unroutable: list[int] = []
            ahead: set[int] = set()  # confirmed alone, before others that were sent earlier
            started = time.monotonic()
            while number < self._last:
                parts = []
                for _ in range(min(CHUNK, self._last - number)):
                    parts.append(heads[number % KEYS] + struct.pack(">Q", number) + b"\xce")
                    number += 1
                    sent += 1
                    if number % UNROUTABLE_EVERY == 0:
                        parts.append(lost)
                        sent += 1
                        unroutable.append(sent)
                wire.send_bytes(b"".join(parts))
                time.sleep(max(0.0, started + sent / self._rate - time.monotonic()))
                while seen < sent - 4 * CHUNK or (number == self._last and seen < sent):
                    received = wire.receive()
                    assert received is not None
                    assert received.name == "basic.ack", received
                    if received.multiple:
                        seen = max(seen, received.delivery_tag)
                    else:
                        ahead.add(received.delivery_tag)
                    while seen + 1 in ahead:
                        seen += 1
                        ahead.remove(seen)
                    self.unroutable = sum(tag <= seen for tag in unroutable)
                    self.confirmed = seen - self.unroutable


def declare(port: int) -> None:
    with Wire(port) as wire:
        wire.call(1, "channel.open")
        for exchange in (EXCHANGE, "void"):
            wire.call(1, "exchange.declare", exchange=exchange, type="topic", durable=True)
        wire.call(1, "queue.declare", queue=QUEUE, durable=True)
        wire.call(1, "queue.bind", queue=QUEUE, exchange=EXCHANGE, routing_key="#")


def load(spark: Any, data: Path, table: str, ends: str, columns: str) -> Any:
    reader = spark.read.format("amqp_router").option("endingOffsets", ends)
    return reader.load(str(data), table=table, columns=columns)


NUMBER = "cast(conv(hex(body), 16, 10) as bigint)"


def figures(spark: Any, data: Path, table: str, ends: str) -> tuple[Any, ...]:
    """Rows, the sum of their offsets, a sum over everything in them, and (messages) the largest number."""
    columns = "partition,offset,timestamp,exchange,routing_key,body_size"
    columns += ",body" if table == "messages" else ""
    largest = NUMBER if table == "messages" else "0"
    rows = load(spark, data, table, ends, columns).selectExpr("offset", "xxhash64(*) h", f"{largest} n")
    return tuple(
        rows.selectExpr("count(*)", "sum(offset)", "sum(cast(h as decimal(20,0)))", "max(n)").first()
    )


class Reader:
    """Reads both tables twice up to where they are durable now; keeps what it read last."""

    def __init__(self, spark: Any, data: Path) -> None:
        self.spark, self.data = spark, data
        self.ends: dict[str, str] = {}
        self.last: dict[str, tuple[Any, ...]] = {}
        self.reads = 0

    def read_twice(self) -> None:
        for table in TABLES:
            ends = spark_analytics.end_offsets(self.data, table)
            one = figures(self.spark, self.data, table, ends)
            two = figures(self.spark, self.data, table, ends)
            assert one == two, f"{table} up to {ends}: first {one}, then {two}"
            before = self.last.get(table)
            assert before is None or one[0] >= before[0], f"{table}: {before[0]} rows, then {one[0]}"
            self.ends[table], self.last[table] = ends, one
        self.reads += 1

    def numbers(self) -> int:
        """How many of the publisher's messages the queue's log has, repetitions not counted."""
        rows = load(self.spark, self.data, "messages", self.ends["messages"], "body")
        return int(rows.selectExpr(f"count(DISTINCT {NUMBER})").first()[0])

    def read_again(self, when: str) -> None:
        """What was read last is still what is read up to there."""
        for table in TABLES:
            again = figures(self.spark, self.data, table, self.ends[table])
            assert again == self.last[table], f"{table} {when}: {self.last[table]}, then {again}"


def tear(data: Path) -> int:
    """Half a batch at the end of every log; how many."""
    logs: dict[Path, Path] = {}
    for path in sorted(data.glob("*/*/*/*.log")):
        logs[path.parent] = path
    for path in logs.values():
        head = path.read_bytes()[:200]
        with path.open("ab") as file:
            file.write(head[: max(len(head) - 30, 10)] or b"ARLB")
    return len(logs)


class Killer(threading.Thread):
    """SIGKILL for the broker, as soon as so many messages are confirmed."""

    def __init__(self, broker: RouterProcess, publisher: Publisher, confirmed: int) -> None:
        super().__init__(daemon=True)
        self._broker, self._publisher, self._confirmed = broker, publisher, confirmed

    def run(self) -> None:
        while self._publisher.confirmed < self._confirmed and self._publisher.error is None:
            time.sleep(0.01)
        self._broker.kill9()


def run(spark: Any, directory: Path, messages: int, rate: float, say: Any) -> None:
    """The whole story; assertions fail if it goes wrong."""
    broker = RouterProcess(directory)
    broker.start()
    try:
        declare(broker.port)
        reader = Reader(spark, broker.data_dir)
        first = Publisher(broker.port, 0, messages, rate)
        first.start()
        killer = Killer(broker, first, messages // 2)
        killer.start()
        while killer.is_alive():
            reader.read_twice()
            say(f"{first.confirmed:,} confirmed, {reader.last['messages'][0]:,} messages read twice")
        first.join()
        assert first.confirmed < messages, "the kill came too late"
        reader.read_twice()
        torn = tear(broker.data_dir)
        reader.read_again("with a torn tail")
        reader.read_twice()
        broker.start()
        reader.read_again("after the restart")
        say(f"killed at {first.confirmed:,} confirmed; {torn} torn tails; the same answers after the restart")
        assert reader.numbers() >= first.confirmed, "a confirmed message is not there"
        second = Publisher(broker.port, first.confirmed, messages, rate)
        second.start()
        while second.is_alive():
            reader.read_twice()
            say(
                f"{first.confirmed + second.confirmed:,} confirmed, {reader.last['messages'][0]:,} read twice"
            )
        assert second.error is None, second.error
        broker.stop()  # it syncs what was not: the routing log is only synced once a second
        reader.read_twice()
        rows, _, _, largest = reader.last["messages"]
        numbers = reader.numbers()
        assert (numbers, largest) == (messages, messages - 1), "not every message is there"
        events = reader.last["routing"][0]
        # Messages sent twice are there twice; events of the second before the kill may be missing.
        say(f"{rows:,} messages with {numbers:,} numbers, {events:,} events, {reader.reads} double reads")
        counts = {
            row.exchange: (row.messages, row.unroutable)
            for row in spark_analytics.routing_stats(spark, broker.data_dir).per_exchange().collect()
        }
        assert counts["void"][0] == counts["void"][1] > 0
        assert counts[EXCHANGE][1] == 0
        assert messages - first.confirmed <= counts[EXCHANGE][0] <= rows
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_analytics.million")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=25_000, help="messages per second")
    args = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="amqp-router-million-") as directory:
        spark = spark_analytics.session(
            "a million", master="local[2]", log_file=Path(directory) / "java.log", install_java=True
        )

        def say(text: str) -> None:
            print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)

        try:
            run(spark, Path(directory) / "broker", args.messages, args.rate, say)
        finally:
            spark.stop()
    say("done: the same answer twice, every time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
