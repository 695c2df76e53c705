"""Streams beside the real broker whose consumers settle messages, without Spark (``queries``)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pika
import pytest

from spark_analytics import DataLoss
from tests.brokers import RouterProcess

from .queries import Checkpoint, Query

BODY = bytes(20_000)


def test_a_queue_that_is_consumed(tmp_path: Path) -> None:
    """What was read may go. What the broker has removed unread is an error, and then not one any more."""
    broker = RouterProcess(tmp_path, options=["--segment-bytes", str(1 << 20)])
    broker.start()
    try:
        with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("jobs", durable=True)
            checkpoint = Checkpoint()
            publish(channel, 100)
            query = Query(broker.data_dir, checkpoint, table="messages")
            assert len(query.all()) == 100
            consume(channel, 100)
            query.all()
            wait_until_removed(broker.data_dir, connection, 0)
            publish(channel, 100)
            assert len(query.all()) == 100, "what was read and removed is no loss"
            (partitions,) = json.loads(checkpoint.ends[-1])["offsets"].values()
            publish(channel, 200)
            consume(channel, 290)
            wait_until_removed(broker.data_dir, connection, partitions["0"])
            with pytest.raises(DataLoss, match="of queue 'jobs' of virtual host '/', partition 0 "):
                Query(broker.data_dir, checkpoint, table="messages").step()
            rows = Query(broker.data_dir, checkpoint, table="messages", failOnDataLoss=False).all()
            assert 10 <= len(rows) < 200
            publish(channel, 5)
            assert len(Query(broker.data_dir, checkpoint, table="messages").all()) == 5
        read = checkpoint.rows()
        assert len(read) == len(set(read))
    finally:
        broker.stop()


def publish(channel: Any, count: int) -> None:
    for _ in range(count):
        channel.basic_publish("", "jobs", BODY, pika.BasicProperties(delivery_mode=2))


def consume(channel: Any, count: int) -> None:
    for _ in range(count):
        method, _, _ = channel.basic_get("jobs", auto_ack=False)
        channel.basic_ack(method.delivery_tag)


def wait_until_removed(data: Path, connection: Any, offset: int) -> None:
    """Until the queue's log begins above an offset."""
    end = time.monotonic() + 100
    while min(int(path.stem) for path in data.glob("queues/*/0/*.log")) <= offset:
        assert time.monotonic() < end, "nothing is removed"
        connection.sleep(0.1)
