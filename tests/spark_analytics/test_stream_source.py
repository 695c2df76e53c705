"""Streaming queries in a real Spark session, some of them beside the real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pika
import pytest
from pyspark.errors import StreamingQueryException

import spark_analytics
from tests.brokers import RouterProcess

from . import million
from .encoder import LogFiles, Run, name, node_of, routing_batch, routing_log, stamp, write_marks

NAMES = [name("flights", "all")]
T0 = 1_700_000_000_000_000


def send(log: LogFiles, count: int) -> None:
    log.append(routing_batch(log.end, [Run(0, b"k%d" % n, T0 + log.end + n) for n in range(count)]))


@pytest.fixture
def routing(tmp_path: Path) -> LogFiles:
    data = tmp_path / "data"
    stamp(data)
    (log,) = routing_log(data, "/", NAMES)
    for _ in range(10):
        send(log, 10)
    write_marks(data, [log])
    return log


class Stream:
    """A query into Parquet files; started as often as wanted, each time from its checkpoint."""

    def __init__(self, spark: Any, data: Path, place: Path, **options: Any) -> None:
        self.spark, self.place = spark, place
        self.reader = spark.readStream.format("amqp_router").options(**options)
        self.data = data

    def start(self, **trigger: Any) -> Any:
        rows = self.reader.load(str(self.data))
        writer = rows.writeStream.format("parquet").option("path", str(self.place / "rows"))
        writer = writer.option("checkpointLocation", str(self.place / "checkpoint"))
        return writer.trigger(**trigger or {"processingTime": "0 seconds"}).start()

    def available_now(self) -> list[int]:
        """Run to the end; the rows of each batch.

        Raises:
            StreamingQueryException: it failed.
        """
        query = self.start(availableNow=True)
        assert query.awaitTermination(120), "it does not end"
        return [progress["numInputRows"] for progress in query.recentProgress]

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.read.parquet(str(self.place / "rows")).collect())


def test_beside_a_live_broker(spark: Any, tmp_path: Path) -> None:
    """It is killed under load; the streams are stopped and go on; a queue is deleted and declared again."""
    count = 45_000
    # Segments of 1 MiB, so every log has several.
    options = ["--routing-log-bytes", str(16 << 20), "--segment-bytes", str(1 << 20)]
    broker = RouterProcess(tmp_path / "broker", options=options)
    broker.start()
    try:
        million.declare(broker.port)
        streams = {
            "routing": Stream(
                spark, broker.data_dir, tmp_path / "routing", columns="partition,offset,exchange"
            ),
            "messages": Stream(
                spark,
                broker.data_dir,
                tmp_path / "messages",
                table="messages",
                columns="log,offset,queue,body",
                maxOffsetsPerTrigger=7_000,
            ),
        }
        queries = {table: stream.start() for table, stream in streams.items()}
        first = million.Publisher(broker.port, 0, count, 12_000)
        first.start()
        killer = million.Killer(broker, first, count // 2)
        killer.start()
        killer.join()
        first.join()
        assert first.confirmed < count, "the kill came too late"
        million.tear(broker.data_dir)
        queries["messages"].stop()
        broker.start()
        temporary(broker.port, 5)
        second = million.Publisher(broker.port, first.confirmed, count, 12_000)
        second.start()
        queries["messages"] = streams["messages"].start()
        queries["routing"].stop()
        second.join()
        assert second.error is None, second.error
        queries["messages"].processAllAvailable()
        temporary(broker.port, 3, delete=True)
        broker.stop()  # it syncs what was not: the routing log is only synced once a second
        for table, stream in streams.items():
            if queries[table].isActive:
                queries[table].processAllAvailable()
            queries[table].stop()
            failed = queries[table].exception()
            assert failed is None, f"{table}: {failed}"
            stream.available_now()
        routing = spark_analytics.read_arrow(broker.data_dir, columns="partition,offset,exchange")
        expected = sorted(zip(*(column.to_pylist() for column in routing.columns), strict=True))
        assert streams["routing"].rows() == expected
        messages = spark_analytics.read_arrow(
            broker.data_dir, table="messages", columns="log,offset,queue,body", queues="all"
        )
        expected = sorted(zip(*(column.to_pylist() for column in messages.columns), strict=True))
        rows = [(log, offset, queue, bytes(body)) for log, offset, queue, body in streams["messages"].rows()]
        assert [row for row in rows if row[2] == "all"] == expected
        numbers = {int.from_bytes(body) for _, _, queue, body in rows if queue == "all"}
        assert numbers == set(range(count)), "not every message is there"
        of_temporary = [row for row in rows if row[2] == "temporary"]
        assert len(of_temporary) == len(set(of_temporary)) == 8
        assert len({row[0] for row in of_temporary}) == 2, "the same log"
        for logs in ("routing", "queues"):
            segments = list(broker.data_dir.glob(f"{logs}/*/*/*.log"))
            assert any(int(path.stem) for path in segments), f"{logs}: no segment was rolled"
    finally:
        for query in spark.streams.active:
            query.stop()
        broker.stop()


def temporary(port: int, count: int, *, delete: bool = False) -> None:
    """A queue with a few messages, instead of an old one of that name."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        if delete:
            channel.queue_delete("temporary")
        channel.queue_declare("temporary", durable=True)
        for n in range(count):
            channel.basic_publish("", "temporary", b"%d" % n, pika.BasicProperties(delivery_mode=2))


def test_available_now_with_a_limit(spark: Any, tmp_path: Path, routing: LogFiles) -> None:
    data = tmp_path / "data"
    stream = Stream(spark, data, tmp_path, columns="offset", maxOffsetsPerTrigger=40)
    assert stream.available_now() == [40, 40, 20]
    assert stream.rows() == [(n,) for n in range(100)]
    send(routing, 5)
    routing.roll()
    send(routing, 5)
    write_marks(data, [routing])
    assert stream.available_now() == [10]
    assert stream.rows() == [(n,) for n in range(110)]


def test_offsets_at_which_to_begin(spark: Any, tmp_path: Path, routing: LogFiles) -> None:
    data = tmp_path / "data"
    named = json.dumps({f"{node_of(data)}/{routing.directory.parent.name}": {"0": 93}})
    for starting, first in (("earliest", 0), ("latest", 100), (named, 93)):
        place = tmp_path / str(first)
        stream = Stream(spark, data, place, columns="offset", startingOffsets=starting)
        stream.available_now()
        assert stream.rows() == [(n,) for n in range(first, 100)]


def test_retention_takes_what_was_not_read(spark: Any, tmp_path: Path, routing: LogFiles) -> None:
    data = tmp_path / "data"
    stream = Stream(spark, data, tmp_path, columns="offset")
    stream.available_now()
    send(routing, 10)
    routing.roll()
    send(routing, 10)
    first = routing.directory / f"{0:020d}.log"
    first.unlink()
    first.with_suffix(".names").unlink()
    routing.start = 110
    write_marks(data, [routing])
    with pytest.raises(StreamingQueryException) as error:
        stream.available_now()
    assert "offsets 100 to 109 of the routing log of virtual host '/', partition 0 are gone" in str(
        error.value
    )
    Stream(spark, data, tmp_path, columns="offset", failOnDataLoss="false").available_now()
    assert stream.rows() == [(n,) for n in [*range(100), *range(110, 120)]]


def test_what_is_refused(spark: Any, tmp_path: Path, routing: LogFiles) -> None:
    data = tmp_path / "data"
    Stream(spark, data, tmp_path, columns="offset").available_now()
    for options, text in (
        ({"table": "messages"}, "it is of table 'routing', and this stream reads 'messages'"),
        ({"table": "messages", "columns": "offset,outcome"}, "column 'outcome' cannot be read as a stream"),
        ({"columns": "offset", "endingOffsets": '{"/": {"0": 5}}'}, "'endingOffsets' is not for streams"),
    ):
        with pytest.raises(StreamingQueryException) as error:
            Stream(spark, data, tmp_path, **options).available_now()
        assert text in str(error.value)
