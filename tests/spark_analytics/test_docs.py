"""Every Python example of docs/analytics.md runs, on a directory that the real broker wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pika
import pytest

import spark_analytics
from tests.brokers import RouterProcess

DOCS = Path(__file__).resolve().parents[2] / "docs" / "analytics.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    broker = RouterProcess(tmp_path_factory.mktemp("docs"))
    broker.start()
    try:
        with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.exchange_declare("flights", "topic", durable=True)
            channel.queue_declare("all", durable=True)
            channel.queue_bind("all", "flights", "#")
            channel.queue_declare("ua", durable=True)
            channel.queue_bind("ua", "flights", "UA.#")
            reply_queue = channel.queue_declare("", exclusive=True).method.queue
            for n, key in enumerate(("UA.EWR.IAH", "DL.JFK.ATL", "UA.LGA.ORD")):
                properties = pika.BasicProperties(
                    delivery_mode=2, timestamp=1_357_034_400 + n * 3600, headers={"tail": f"N{n}", "n": n}
                )
                channel.basic_publish("flights", key, key.encode(), properties)
            channel.basic_publish("", reply_queue, b"transient")
            with pytest.raises(pika.exceptions.UnroutableError):
                channel.basic_publish("", "nobody", b"lost", mandatory=True)
    finally:
        assert broker.stop() == 0
    return broker.data_dir


def test_what_the_broker_wrote(data: Path) -> None:
    rows = spark_analytics.read_arrow(data).to_pylist()
    for row in rows:
        del row["timestamp"]
    assert rows[0] == {
        "vhost": "/",
        "partition": rows[0]["partition"],
        "offset": 0,
        "exchange": "",
        "routing_key": rows[0]["routing_key"],
        "queues": ["amq.gen-*"],
        "fanout": 1,
        "unroutable": False,
        "returned": False,
        "mandatory": False,
        "persistent": False,
        "confirmed": True,
        "refused": False,
        "body_size": 9,
    }
    assert (rows[1]["routing_key"], rows[1]["queues"]) == ("nobody", [])
    assert rows[1]["unroutable"]
    assert rows[1]["returned"]
    assert rows[1]["mandatory"]
    flights = [(row["routing_key"], sorted(row["queues"]), row["persistent"]) for row in rows[2:]]
    assert flights == [
        ("UA.EWR.IAH", ["all", "ua"], True),
        ("DL.JFK.ATL", ["all"], True),
        ("UA.LGA.ORD", ["all", "ua"], True),
    ]


def test_messages_the_broker_wrote(data: Path) -> None:
    columns = "queue,offset,exchange,routing_key,message_timestamp,delivery_mode,headers,body"
    rows = spark_analytics.read_arrow(data, table="messages", columns=columns, queues="all").to_pylist()
    assert [(row["offset"], row["routing_key"], row["body"]) for row in rows] == [
        (1, "UA.EWR.IAH", b"UA.EWR.IAH"),  # offset 0 is the start of the broker's first epoch
        (2, "DL.JFK.ATL", b"DL.JFK.ATL"),
        (3, "UA.LGA.ORD", b"UA.LGA.ORD"),
    ]
    assert rows[1]["headers"] == [("tail", "N1"), ("n", "1")]
    assert rows[1]["message_timestamp"].isoformat() == "2013-01-01T11:00:00+00:00"
    assert rows[1]["delivery_mode"] == 2


def test_examples_are_there() -> None:
    assert len(EXAMPLES) == 7


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(
    number: int, spark: Any, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Spark's own workers stay in the folder in which the session was started.
    code = re.sub("""(["'])data\\1""", lambda match: f"{match[1]}{data}{match[1]}", EXAMPLES[number])
    code = code.replace('"checkpoints/', f'"{tmp_path}/')
    exec(compile(code, f"{DOCS.name}, example {number}", "exec"), {
        "spark_analytics": spark_analytics,
        "spark": spark,
    })  # fmt: skip
    assert capsys.readouterr().out
