"""RabbitMQ's seven tutorials with pika, each as it is printed, producer and consumer in one process.

Source: https://www.rabbitmq.com/tutorials, "Python".
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.brokers import Broker

Open = Callable[[], BlockingChannel]


@pytest.fixture
def channel(broker: Broker) -> Iterator[Open]:
    """Opens a channel on a connection of its own."""
    connections: list[pika.BlockingConnection] = []

    def channel() -> BlockingChannel:
        connections.append(pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)))
        return connections[-1].channel()

    yield channel
    for connection in connections:
        if connection.is_open:
            connection.close()


def take(
    channel: BlockingChannel, queue: str, count: int, auto_ack: bool = True
) -> list[tuple[Any, Any, bytes]]:
    """Consume ``count`` messages; fails after a minute without one. Acks each unless ``auto_ack``."""
    result: list[tuple[Any, Any, bytes]] = []
    for method, properties, body in channel.consume(queue, auto_ack=auto_ack, inactivity_timeout=60):
        assert method is not None, f"{len(result)} of {count} came"
        result.append((method, properties, body))
        if not auto_ack:
            channel.basic_ack(method.delivery_tag)
        if len(result) == count:
            break
    channel.cancel()
    return result


def wait(*channels: BlockingChannel, until: Callable[[], bool]) -> None:
    for _ in range(1200):
        if until():
            return
        for channel in channels:
            channel.connection.process_data_events(time_limit=0.05)
    raise AssertionError("what was waited for did not happen within a minute")


def test_1_hello_world(channel: Open, name: str) -> None:
    sender, receiver = channel(), channel()
    sender.queue_declare(queue=name)
    sender.basic_publish(exchange="", routing_key=name, body=b"Hello World!")
    receiver.queue_declare(queue=name)
    received: list[bytes] = []
    receiver.basic_consume(
        queue=name, on_message_callback=lambda _c, _m, _p, body: received.append(body), auto_ack=True
    )
    wait(receiver, until=lambda: received == [b"Hello World!"])
    sender.queue_delete(queue=name)


def test_2_work_queues(channel: Open, name: str) -> None:
    """Two workers, prefetch 1: one dies with its task, which goes to the other."""
    boss, dying, steady = channel(), channel(), channel()
    boss.queue_declare(queue=name, durable=True)
    for task in range(10):
        boss.basic_publish(
            exchange="",
            routing_key=name,
            body=b"task %d" % task,
            properties=pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent),
        )
    done: list[tuple[bytes, bool]] = []
    held: list[bytes] = []

    def work(channel: BlockingChannel, method: Any, _properties: Any, body: bytes) -> None:
        done.append((body, method.redelivered))
        channel.basic_ack(delivery_tag=method.delivery_tag)

    dying.basic_qos(prefetch_count=1)
    dying.basic_consume(queue=name, on_message_callback=lambda _c, _m, _p, body: held.append(body))
    wait(dying, until=lambda: len(held) == 1)
    steady.basic_qos(prefetch_count=1)
    steady.basic_consume(queue=name, on_message_callback=work)
    wait(steady, until=lambda: len(done) == 9)
    dying.connection.close()
    wait(steady, until=lambda: len(done) == 10)
    assert sorted(body for body, _ in done) == [b"task %d" % task for task in range(10)]
    assert [(body, redelivered) for body, redelivered in done if redelivered] == [(held[0], True)]
    assert boss.queue_declare(queue=name, durable=True).method.message_count == 0
    boss.queue_delete(queue=name)


def test_3_publish_subscribe(channel: Open, name: str) -> None:
    emitter = channel()
    emitter.exchange_declare(exchange=name, exchange_type="fanout")
    emitter.basic_publish(exchange=name, routing_key="", body=b"nobody hears this")
    subscribers = [channel() for _ in range(3)]
    queues = []
    for subscriber in subscribers:
        subscriber.exchange_declare(exchange=name, exchange_type="fanout")
        queues.append(subscriber.queue_declare(queue="", exclusive=True).method.queue)
        subscriber.queue_bind(exchange=name, queue=queues[-1])
    assert len(set(queues)) == 3
    emitter.basic_publish(exchange=name, routing_key="", body=b"info: Hello World!")
    for subscriber, queue in zip(subscribers, queues, strict=True):
        assert [body for _, _, body in take(subscriber, queue, 1)] == [b"info: Hello World!"]
    emitter.exchange_delete(exchange=name)


def test_4_routing(channel: Open, name: str) -> None:
    emitter, errors, everything = channel(), channel(), channel()
    emitter.exchange_declare(exchange=name, exchange_type="direct")
    error_queue = errors.queue_declare(queue="", exclusive=True).method.queue
    errors.queue_bind(exchange=name, queue=error_queue, routing_key="error")
    all_queue = everything.queue_declare(queue="", exclusive=True).method.queue
    for severity in ("info", "warning", "error"):
        everything.queue_bind(exchange=name, queue=all_queue, routing_key=severity)
    for severity in ("info", "error", "warning", "debug", "error"):
        emitter.basic_publish(exchange=name, routing_key=severity, body=severity.encode())
    assert [m.routing_key for m, _, _ in take(everything, all_queue, 4)] == [
        "info",
        "error",
        "warning",
        "error",
    ]
    assert [body for _, _, body in take(errors, error_queue, 2)] == [b"error", b"error"]
    emitter.exchange_delete(exchange=name)


def test_5_topics(channel: Open, name: str) -> None:
    """Q1 wants orange animals, Q2 rabbits and lazy ones; each key as the tutorial tells."""
    emitter = channel()
    emitter.exchange_declare(exchange=name, exchange_type="topic")
    first = emitter.queue_declare(queue="", exclusive=True).method.queue
    second = emitter.queue_declare(queue="", exclusive=True).method.queue
    emitter.queue_bind(exchange=name, queue=first, routing_key="*.orange.*")
    emitter.queue_bind(exchange=name, queue=second, routing_key="*.*.rabbit")
    emitter.queue_bind(exchange=name, queue=second, routing_key="lazy.#")
    for key in (
        "quick.orange.rabbit",
        "lazy.orange.elephant",
        "quick.orange.fox",
        "lazy.brown.fox",
        "lazy.pink.rabbit",
        "quick.brown.fox",
        "orange",
        "quick.orange.new.rabbit",
        "lazy.orange.new.rabbit",
    ):
        emitter.basic_publish(exchange=name, routing_key=key, body=key.encode())
    orange = [body.decode() for _, _, body in take(emitter, first, 3)]
    assert orange == ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"]
    assert [body.decode() for _, _, body in take(emitter, second, 5)] == [
        "quick.orange.rabbit",
        "lazy.orange.elephant",
        "lazy.brown.fox",
        "lazy.pink.rabbit",
        "lazy.orange.new.rabbit",
    ]
    emitter.exchange_delete(exchange=name)


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def test_6_rpc(channel: Open, name: str) -> None:
    server, client = channel(), channel()
    server.queue_declare(queue=name)

    def on_request(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_publish(
            exchange="",
            routing_key=properties.reply_to,
            properties=pika.BasicProperties(correlation_id=properties.correlation_id),
            body=str(fibonacci(int(body))).encode(),
        )
        channel.basic_ack(delivery_tag=method.delivery_tag)

    server.basic_qos(prefetch_count=1)
    server.basic_consume(queue=name, on_message_callback=on_request)
    callback_queue = client.queue_declare(queue="", exclusive=True).method.queue
    answers: dict[str, int] = {}

    def on_response(_channel: Any, _method: Any, properties: Any, body: bytes) -> None:
        answers[properties.correlation_id] = int(body)

    client.basic_consume(queue=callback_queue, on_message_callback=on_response, auto_ack=True)
    asked = {str(uuid.uuid4()): n for n in range(15)}
    for correlation_id, n in asked.items():
        client.basic_publish(
            exchange="",
            routing_key=name,
            properties=pika.BasicProperties(reply_to=callback_queue, correlation_id=correlation_id),
            body=str(n).encode(),
        )
    wait(server, client, until=lambda: len(answers) == len(asked))
    assert answers == {correlation_id: fibonacci(n) for correlation_id, n in asked.items()}
    server.queue_delete(queue=name)


def test_7_publisher_confirms(channel: Open, name: str) -> None:
    """One at a time: pika waits for each confirm; an unroutable mandatory message raises."""
    publisher = channel()
    publisher.queue_declare(queue=name, durable=True)
    publisher.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for index in range(50):
        publisher.basic_publish(
            exchange="", routing_key=name, body=b"%d" % index, properties=persistent, mandatory=True
        )
    with pytest.raises(pika.exceptions.UnroutableError):
        publisher.basic_publish(exchange="", routing_key=name + "-nowhere", body=b"x", mandatory=True)
    bodies = [body for _, _, body in take(channel(), name, 50, auto_ack=False)]
    assert bodies == [b"%d" % index for index in range(50)]
    publisher.queue_delete(queue=name)


def test_7_publisher_confirms_asynchronously(broker: Broker, name: str) -> None:
    """Many outstanding: every tag is confirmed exactly once, on a connection of pika's callback kind."""
    count = 500
    outstanding = set(range(1, count + 1))
    confirmations: Counter[str] = Counter()

    def on_confirm(frame: Any) -> None:
        method = frame.method
        tags = {method.delivery_tag}
        if method.multiple:
            tags = {tag for tag in outstanding if tag <= method.delivery_tag}
        assert tags <= outstanding
        outstanding.difference_update(tags)
        confirmations[type(method).__name__] += len(tags)
        if not outstanding:
            connection.close()

    def on_declared(_frame: Any) -> None:
        for index in range(count):
            channels[0].basic_publish("", name, b"%d" % index, pika.BasicProperties(delivery_mode=2))

    def on_channel(channel: Any) -> None:
        channels.append(channel)
        channel.confirm_delivery(ack_nack_callback=on_confirm)
        channel.queue_declare(name, durable=True, callback=on_declared)

    channels: list[Any] = []
    connection = pika.SelectConnection(
        pika.ConnectionParameters(broker.host, broker.port),
        on_open_callback=lambda opened: opened.channel(on_open_callback=on_channel),
        on_close_callback=lambda closed, _reason: closed.ioloop.stop(),
    )
    connection.ioloop.call_later(30, connection.ioloop.stop)
    connection.ioloop.start()
    assert outstanding == set()
    assert confirmations == {"Ack": count}
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as blocking:
        channel = blocking.channel()
        assert channel.queue_declare(queue=name, durable=True).method.message_count == count
        channel.queue_delete(queue=name)
