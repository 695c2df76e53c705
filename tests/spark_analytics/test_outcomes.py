"""What became of messages, as Spark reads it beside a broker and as the client knows, message by message."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

import spark_analytics
from tests.brokers import RouterProcess

from .encoder import LogFiles, Sent, batch, messages_batch, queue_log, stamp, write_marks

SHOP, DEAD = "shop", "dead"
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
QUORUM = {"x-queue-type": "quorum", "x-delivery-limit": 1}
#: (outcome, reason, returns) of a message.
End = tuple[str | None, str | None, int]
WAITS: End = (None, None, 0)
#: Arguments, number of messages, the end of the first ones, number of the last ones, and their end.
ALONE: dict[str, tuple[dict[str, Any], int, End, int, End]] = {
    "ttl": ({"x-message-ttl": 1}, 70, ("expired", None, 0), 0, WAITS),
    "ttl-dead": ({"x-message-ttl": 1, **TO_DEAD}, 50, ("dead-lettered", "expired", 0), 0, WAITS),
    "short": ({"x-max-length": 10}, 100, ("dropped", "maxlen", 0), 10, WAITS),
    "short-dead": ({"x-max-length": 5, **TO_DEAD}, 40, ("dead-lettered", "maxlen", 0), 5, WAITS),
    "ranked": ({"x-max-length": 4, "x-max-priority": 5}, 24, ("dropped", "maxlen", 0), 4, WAITS),
    "purged": ({}, 33, ("purged", None, 0), 0, WAITS),
}


class Client:
    """Publishes bodies ``<queue> <number>`` and notes in ``ends`` what it did with each."""

    def __init__(self, broker: RouterProcess) -> None:
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
        self.channel: Any = self.connection.channel()
        self.channel.confirm_delivery()
        self.channel.exchange_declare(SHOP, "direct", durable=True)
        self.ends: dict[str, End] = {}

    def fill(self, queue: str, count: int, arguments: dict[str, Any], refused_from: int = 1 << 30) -> None:
        self.channel.queue_declare(queue, durable=True, arguments=arguments)
        self.channel.queue_bind(queue, SHOP, queue)
        for number in range(count):
            body = f"{queue} {number}"
            properties = pika.BasicProperties(delivery_mode=2)
            if number < refused_from:
                self.channel.basic_publish(SHOP, queue, body.encode(), properties)
                self.ends[body] = WAITS
            else:
                with pytest.raises(pika.exceptions.NackError):
                    self.channel.basic_publish(SHOP, queue, body.encode(), properties)

    def get(self, queue: str) -> tuple[int, str]:
        method, _, body = self.channel.basic_get(queue)
        return method.delivery_tag, body.decode()

    def alone(self) -> None:
        for queue, (arguments, count, first, kept, last) in ALONE.items():
            self.fill(queue, count, arguments)
            for number in range(count):
                self.ends[f"{queue} {number}"] = first if number < count - kept else last
        self.channel.queue_purge("purged")

    def work(self, queue: str, arguments: dict[str, Any], rejected: End) -> None:
        """Of 100 messages 40 are acked, 20 rejected, 15 returned and 5 of these acked; one is out."""
        self.fill(queue, 100, arguments)
        for number in range(60):
            tag, body = self.get(queue)
            if number % 3 < 2:
                self.channel.basic_ack(tag)
                self.ends[body] = ("acked", None, 0)
            else:
                self.channel.basic_reject(tag, requeue=False)
                self.ends[body] = rejected
        back = [self.get(queue) for _ in range(15)]
        self.channel.basic_nack(back[-1][0], multiple=True, requeue=True)
        for number, (_, body) in enumerate(back):
            self.ends[body] = ("acked", None, 1) if number < 5 else (None, None, 1)
        for _ in range(5):
            self.channel.basic_ack(self.get(queue)[0])

    def return_too_often(self, queue: str, arguments: dict[str, Any], end: End) -> None:
        self.fill(queue, 8, arguments)
        for _ in range(6):  # the other two wait
            for _ in range(2):
                tag, body = self.get(queue)
                self.channel.basic_nack(tag, requeue=True)
            self.ends[body] = end


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, End]]]:
    """A data directory, and what became of each message by the client's book. The broker runs on."""
    broker = RouterProcess(tmp_path_factory.mktemp("outcomes"))
    broker.start()
    client = Client(broker)
    client.channel.queue_declare(DEAD, durable=True)
    client.alone()
    client.work("work", {}, ("rejected", None, 0))
    client.work("work-dead", TO_DEAD, ("dead-lettered", "rejected", 0))
    client.return_too_often("often", QUORUM, ("rejected", "delivery_limit", 1))
    client.return_too_often("often-dead", QUORUM | TO_DEAD, ("dead-lettered", "delivery_limit", 1))
    client.fill("full", 10, {"x-max-length": 3, "x-overflow": "reject-publish"}, refused_from=3)
    wanted = Counter(client.ends.values())
    end = time.monotonic() + 60  # acknowledgements are on disk within 200 ms, routing events within 1 s
    while time.monotonic() < end:
        if counted(broker.data_dir) == wanted and refused(broker.data_dir) == 7:
            break
        time.sleep(0.1)
    yield broker.data_dir, client.ends
    client.connection.close()
    assert broker.stop() == 0


def counted(data: Path) -> Counter[End]:
    columns = "queue,outcome,outcome_reason,returns"
    rows = spark_analytics.read_arrow(data, table="messages", columns=columns).to_pylist()
    return Counter(
        (row["outcome"], row["outcome_reason"], row["returns"]) for row in rows if row["queue"] != DEAD
    )


def refused(data: Path) -> int:
    rows = spark_analytics.read_arrow(data, columns="refused", queues="full").to_pylist()
    return sum(row["refused"] for row in rows)


def test_every_message_ended_as_the_client_knows(spark: Any, told: tuple[Path, dict[str, End]]) -> None:
    data, ends = told
    columns = (
        "queue,exchange,routing_key,timestamp,body,outcome,outcome_reason,outcome_timestamp,returns,"
        "log,epoch,offset,source_log,source_epoch,source_offset,headers"
    )
    table = spark.read.format("amqp_router").load(str(data), table="messages", columns=columns)
    rows = table.collect()
    ours = [row for row in rows if row.queue != DEAD]
    letters = {
        (row.source_log, row.source_epoch, row.source_offset): row for row in rows if row.queue == DEAD
    }
    found = {bytes(row.body).decode(): (row.outcome, row.outcome_reason, row.returns) for row in ours}
    assert found == ends
    assert len(ours) == len(ends)
    assert {(row.exchange, row.routing_key == row.queue) for row in ours} == {(SHOP, True)}
    for row in ours:
        assert (row.outcome_timestamp is None) == (row.outcome is None)
        assert row.outcome_timestamp is None or row.outcome_timestamp >= row.timestamp
        if row.outcome == "dead-lettered":
            letter = letters.pop((row.log, row.epoch, row.offset))
            assert letter.body == row.body
            assert letter.headers["x-first-death-reason"] == row.outcome_reason
            assert letter.headers["x-first-death-queue"] == row.queue
            assert letter.headers["x-first-death-exchange"] == SHOP
    assert not letters
    grouped = table.filter(f"queue != '{DEAD}'").groupBy("outcome", "outcome_reason", "returns").count()
    assert {tuple(row[:3]): row[3] for row in grouped.collect()} == Counter(ends.values())
    routing = spark.read.format("amqp_router").load(str(data), columns="exchange,queues,refused")
    by_queue = routing.filter(f"exchange = '{SHOP}'").selectExpr("queues[0] queue", "refused")
    assert {row[0]: row[1] for row in by_queue.filter("refused").groupBy("queue").count().collect()} == {
        "full": 7
    }
    assert by_queue.count() == len(ends) + 7


def ends_of(data: Path) -> dict[str, End]:
    """The outcome of each message by its body, which no two have in common."""
    columns = "queue,body,outcome,outcome_reason,returns"
    rows = spark_analytics.read_arrow(data, table="messages", columns=columns).to_pylist()
    found = {
        f"{row['queue']}: {row['body'].decode()}": (row["outcome"], row["outcome_reason"], row["returns"])
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def until_ends_are(data: Path, wanted: dict[str, End]) -> None:
    """Wait until the table says what the client knows, of every message."""
    end = time.monotonic() + 60
    while ends_of(data) != wanted and time.monotonic() < end:
        time.sleep(0.1)
    assert ends_of(data) == wanted


def test_outcomes_stay_over_a_kill_and_go_on_behind_it(tmp_path: Path) -> None:
    """The same of a classic and a quorum queue, whose messages come back, and of dead letters of both."""
    broker = RouterProcess(tmp_path)
    broker.start()
    client = Client(broker)
    client.channel.queue_declare(DEAD, durable=True)
    queues = {"classic": TO_DEAD, "quorum": TO_DEAD | {"x-queue-type": "quorum"}}
    wanted: dict[str, End] = {}
    for queue, arguments in queues.items():
        client.fill(queue, 20, arguments)
        wanted |= {f"{queue}: {queue} {number}": WAITS for number in range(20)}
        got = [client.get(queue) for _ in range(12)]
        for tag, body in got[:4]:
            client.channel.basic_ack(tag)
            wanted[f"{queue}: {body}"] = ("acked", None, 0)
        for tag, body in got[4:6]:
            client.channel.basic_reject(tag, requeue=False)
            wanted[f"{queue}: {body}"] = ("dead-lettered", "rejected", 0)
            wanted[f"{DEAD}: {body}"] = WAITS
        for tag, body in got[6:10]:
            client.channel.basic_nack(tag, requeue=True)
            wanted[f"{queue}: {body}"] = (None, None, 1)
        # The other two are out when the broker dies: nobody knows whether they were seen.
    until_ends_are(broker.data_dir, wanted)
    broker.kill9()
    assert ends_of(broker.data_dir) == wanted
    broker.start()
    assert ends_of(broker.data_dir) == wanted
    client = Client(broker)
    for queue in queues:
        for _ in range(6):  # the four that came back before, and the two that were out
            tag, body = client.get(queue)
            client.channel.basic_ack(tag)
            returns = wanted[f"{queue}: {body}"][2]
            wanted[f"{queue}: {body}"] = ("acked", None, returns)
        assert [wanted[f"{queue}: {queue} {number}"][0] for number in range(6, 12)] == ["acked"] * 6
    until_ends_are(broker.data_dir, wanted)
    client.connection.close()
    assert broker.stop() == 0


def test_delayed_messages_are_released_to_their_exchange(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path)
    broker.start()
    client = Client(broker)
    arguments = {"x-delayed-type": "direct"}
    client.channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    client.channel.queue_declare("now", durable=True)
    client.channel.queue_bind("now", "later", "k")
    wanted: dict[str, End] = {}
    for number in range(30):
        delay = 50 + number if number < 20 else 3_600_000
        properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay})
        client.channel.basic_publish("later", "k", b"%d" % number, properties)
        wanted[f"amq.delayed.later: {number}"] = ("released", None, 0) if number < 20 else WAITS
        if number < 20:
            wanted[f"now: {number}"] = WAITS
    until_ends_are(broker.data_dir, wanted)
    client.connection.close()
    assert broker.stop() == 0


def settles(log: LogFiles, offset: int, runs: list[tuple[int, int, int, int, int]]) -> None:
    """A SETTLES batch of (first, count, kind, reason, returns) at ``offset``."""
    payload = b"".join(struct.pack("<QIBBHII", *run, 0, 0) for run in runs)
    log.append(batch(2, 24, len(runs), offset, offset, 5_000_000, payload))


def test_records_in_later_segments_and_named_twice(tmp_path: Path) -> None:
    stamp(tmp_path)
    log = queue_log(tmp_path, "/", "q", "0" * 32)
    for base in (0, 10):
        sent = [Sent(base + number, 1_000_000 + number, key=b"q") for number in range(0, 10, 2)]
        log.append(messages_batch(base, base + 9, sent))
        log.roll()
    settles(log, 20, [(2, 1, 6, 0, 1), (0, 5, 1, 0, 0)])  # offsets 1 and 3 hold no message
    log.roll()
    settles(log, 21, [(2, 1, 3, 0, 0), (12, 1, 6, 0, 3), (16, 3, 5, 2, 0)])
    write_marks(tmp_path, [log])
    rows = spark_analytics.read_arrow(
        tmp_path, table="messages", columns="offset,outcome,outcome_reason,returns", splitBytes=1 << 16
    ).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, "acked", None, 0),
        (2, "acked", None, 1),
        (4, "acked", None, 0),
        (6, None, None, 0),
        (8, None, None, 0),
        (10, None, None, 0),
        (12, None, None, 3),
        (14, None, None, 0),
        (16, "dead-lettered", "expired", 0),
        (18, "dead-lettered", "expired", 0),
    ]
