"""kombu: its producers, consumers, simple queues, and what it makes of the product's name."""

from __future__ import annotations

import contextlib

import kombu
from checks import HOST, PORT, check, fresh, main
from kombu.pools import connections, producers
from kombu.utils.compat import nested

URL = f"amqp://guest:guest@{HOST}:{PORT}//"


@check
def produces_and_consumes() -> None:
    with kombu.Connection(URL) as connection:
        exchange = kombu.Exchange(fresh("exchange"), "topic", durable=True)
        queue = kombu.Queue(fresh(), exchange, routing_key="news.*")
        with connection.channel() as channel:
            producer = connection.Producer(channel, serializer="json")
            for number in range(50):
                producer.publish(
                    {"n": number}, exchange=exchange, routing_key="news.a", declare=[queue], retry=True
                )
        got: list[int] = []

        def on_message(body: dict[str, int], message: kombu.Message) -> None:
            got.append(body["n"])
            message.ack()

        with connection.Consumer(queue, callbacks=[on_message], prefetch_count=5) as consumer:
            while len(got) < 50:
                connection.drain_events(timeout=5)
            consumer.channel.queue_delete(queue.name)
        assert got == list(range(50))
        exchange(connection.default_channel).delete()


@check
def a_simple_queue() -> None:
    with kombu.Connection(URL) as connection:
        name = fresh()
        queue = connection.SimpleQueue(name)
        queue.put({"hello": "world"}, compression="zlib")
        message = queue.get(timeout=5)
        assert message.payload == {"hello": "world"}
        message.requeue()
        again = queue.get(timeout=5)
        again.ack()
        assert queue.qsize() == 0
        queue.close()
        connection.default_channel.queue_delete(name)


@check
def two_consumers_share_the_work() -> None:
    with kombu.Connection(URL) as connection, kombu.Connection(URL) as other:
        queue = kombu.Queue(fresh(), auto_delete=True)
        got: dict[str, int] = {"one": 0, "other": 0}

        def counting(key: str) -> object:
            def on_message(body: object, message: kombu.Message) -> None:
                got[key] += 1
                message.ack()

            return on_message

        with nested(
            connection.Consumer(queue, callbacks=[counting("one")], prefetch_count=1),
            other.Consumer(queue, callbacks=[counting("other")], prefetch_count=1),
        ):
            with kombu.Connection(URL) as third:
                producer = third.Producer()
                for number in range(40):
                    producer.publish(number, routing_key=queue.name)
            while sum(got.values()) < 40:
                for each in (connection, other):
                    with contextlib.suppress(TimeoutError):
                        each.drain_events(timeout=0.05)
        assert min(got.values()) > 5, got


@check
def prefetch_as_asked_for() -> None:
    """How kombu, and so Celery, asks for it depends on the product's name."""
    with kombu.Connection(URL) as connection:
        queue = kombu.Queue(fresh(), auto_delete=True)
        for_all = connection.qos_semantics_matches_spec
        got: list[kombu.Message] = []
        consumer = connection.Consumer(queue, on_message=got.append)
        consumer.qos(prefetch_count=2, apply_global=for_all)
        consumer.consume()
        producer = connection.Producer()
        for number in range(10):
            producer.publish(number, routing_key=queue.name)
        drain(connection)
        assert len(got) == 2, len(got)
        for message in got[:2]:
            message.ack()
        drain(connection)
        assert len(got) == 4, len(got)
        if for_all:
            consumer.qos(prefetch_count=5, apply_global=True)
            drain(connection)
            assert len(got) == 7, len(got)
        consumer.cancel()


def drain(connection: kombu.Connection) -> None:
    with contextlib.suppress(TimeoutError):
        while True:
            connection.drain_events(timeout=0.5)


@check
def pools_of_connections_and_producers() -> None:
    connection = kombu.Connection(URL)
    queue = kombu.Queue(fresh(), auto_delete=False)
    with producers[connection].acquire(block=True) as producer:
        for number in range(10):
            producer.publish(number, routing_key=queue.name, declare=[queue])
    with connections[connection].acquire(block=True) as pooled:
        bound = queue(pooled.default_channel)
        assert [bound.get(no_ack=True).payload for _ in range(10)] == list(range(10))
        bound.delete()


main()
