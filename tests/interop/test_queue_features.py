"""Time, limits, dead letters, priorities and single active consumers, with pika."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from tests.brokers import Broker


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
    yield connection.channel()
    connection.close()


def declare(channel: BlockingChannel, queue: str, **arguments: Any) -> None:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(queue, exclusive=True, arguments=table)


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    found = []
    while (body := channel.basic_get(queue, auto_ack=True)[2]) is not None:
        found.append(body)
    return found


def test_expired_messages_are_dead_lettered(channel: BlockingChannel, name: str) -> None:
    declare(channel, f"{name}.dead")
    declare(
        channel, name, dead_letter_exchange="", dead_letter_routing_key=f"{name}.dead", message_ttl=60_000
    )
    channel.basic_publish("", name, b"soon", pika.BasicProperties(expiration="50", message_id="m1"))
    deadline = time.monotonic() + 30
    while (found := channel.basic_get(f"{name}.dead", auto_ack=True))[0] is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    _, properties, body = found
    [death] = properties.headers["x-death"]
    assert (body, properties.message_id, properties.expiration) == (b"soon", "m1", None)
    assert (death["reason"], death["queue"], death["count"]) == ("expired", name, 1)
    assert (death["routing-keys"], death["original-expiration"]) == ([name], "50")
    assert properties.headers["x-first-death-reason"] == "expired"


def test_a_full_queue_refuses(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, max_length=1, overflow="reject-publish")
    channel.confirm_delivery()
    channel.basic_publish("", name, b"fits")
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"does not fit")
    assert bodies(channel, name) == [b"fits"]


def test_a_long_queue_drops_its_head(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, max_length_bytes=10)
    for body in (b"0234", b"1234", b"2234", b"3234"):
        channel.basic_publish("", name, body)
    assert bodies(channel, name) == [b"2234", b"3234"]


def test_priorities(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, max_priority=5)
    for body, priority in ((b"a", 1), (b"b", 5), (b"c", 9), (b"d", None), (b"e", 0), (b"f", 5)):
        channel.basic_publish("", name, body, pika.BasicProperties(priority=priority))
    assert bodies(channel, name) == [b"b", b"c", b"f", b"a", b"d", b"e"]


def test_a_queue_that_is_not_used_expires(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, arguments={"x-expires": 100})

    def look() -> None:
        while True:
            time.sleep(0.4)  # a look is a use
            channel.queue_declare(name, passive=True)

    with pytest.raises(ChannelClosedByBroker) as error:
        look()
    assert error.value.reply_code == 404


def test_a_single_active_consumer(channel: BlockingChannel, name: str) -> None:
    declare(channel, name, single_active_consumer=True)
    came: list[tuple[str, bytes]] = []

    def take(_: object, method: Any, __: object, body: bytes) -> None:
        came.append((method.consumer_tag, body))

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 30
        while len(came) < count and time.monotonic() < deadline:
            channel.connection.process_data_events(0.1)

    for tag in ("first", "second"):
        channel.basic_consume(name, take, auto_ack=True, consumer_tag=tag)
    channel.basic_publish("", name, b"0")
    channel.basic_publish("", name, b"1")
    wait_for(2)
    channel.basic_cancel("first")
    channel.basic_publish("", name, b"2")
    wait_for(3)
    assert came == [("first", b"0"), ("first", b"1"), ("second", b"2")]
