"""A damaged message is never delivered whole, and whoever wanted it hears which file is damaged where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.brokers import RouterProcess, logged

#: Above 1 MiB a message is read from its log frame by frame, while it is sent.
BODY = bytes(range(256)) * 10_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RouterProcess]:
    broker = RouterProcess(tmp_path)
    broker.start()
    yield broker
    broker.stop()


def connect(broker: RouterProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(port=broker.port))


def damage(broker: RouterProcess, at: float, change: str) -> Path:
    """Publish a large message, and change its segment at a share of its length."""
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    for queue in ("sick", "well"):
        channel.queue_declare(queue, durable=True)
        channel.basic_publish("", queue, BODY, pika.BasicProperties(delivery_mode=2))
    connection.close()
    broker.stop()
    [path] = [
        path / "0" / f"{0:020d}.log"
        for path in (broker.data_dir / "queues").iterdir()
        if json.loads((path / "log.json").read_text())["name"] == "sick"
    ]
    data = bytearray(path.read_bytes())
    place = int(at * len(data)) if at < 1 else int(at)
    data[place] ^= 1
    if change == "flip":
        path.write_bytes(data)
        broker.start()
    else:
        broker.start()
        with path.open("r+b") as file:
            file.truncate(place)
    return path


@pytest.mark.parametrize("how", ["get", "consume"])
@pytest.mark.parametrize(
    ("at", "change"), [(0.5, "flip"), (0.9999, "flip"), (0.5, "cut")], ids=["middle", "end", "cut"]
)
def test_the_connection_is_closed_with_the_reason(
    broker: RouterProcess, how: str, at: float, change: str
) -> None:
    path = damage(broker, at, change)
    connection = connect(broker)
    channel = connection.channel()

    def take() -> None:
        if how == "get":
            channel.basic_get("sick")
        else:
            channel.basic_consume("sick", lambda *_: pytest.fail("it is delivered"))
            connection.process_data_events(time_limit=20)

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        take()
    assert caught.value.reply_code == 541
    assert caught.value.reply_text.startswith(f"INTERNAL_ERROR - a message cannot be read: {path}"[:255])
    well = connect(broker)
    channel = well.channel()
    assert channel.basic_get("well", auto_ack=True)[2] == BODY
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"queue 'sick' .* cannot be used"):
        channel.basic_get("sick")
    well.close()
    log = logged(broker, "queue failed")
    assert "Traceback" not in log
    [line] = [line for line in log.splitlines() if "queue failed" in line]
    assert "queue=sick" in line
    assert f"{path} at byte " in line
    assert "the client closed the socket" not in log


# Behind the header of the first batch, an EPOCH-START, and that of the message: the record's ends, the route.
@pytest.mark.parametrize("at", [72 + 32 + 72, 72 + 32 + 72 + 4, 72 + 32 + 72 + 32, 72 + 32 + 72 + 33])
def test_a_damaged_route_is_found_before_anything_is_sent(broker: RouterProcess, at: int) -> None:
    path = damage(broker, at, "flip")
    channel = connect(broker).channel()
    with pytest.raises(pika.exceptions.AMQPError, match=r"cannot be used|cannot be read") as caught:
        channel.basic_get("sick")
    assert "Traceback" not in logged(broker, f"{path} at byte ")
    assert not isinstance(caught.value, pika.exceptions.StreamLostError)
