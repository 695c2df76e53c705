"""rabbitpy: two threads, one for the socket; counts frame_max for the payload alone."""

from __future__ import annotations

import rabbitpy
from checks import HOST, LARGE, PORT, check, fresh, main, raises

URL = f"amqp://guest:guest@{HOST}:{PORT}/%2f?heartbeat=15"


@check
def publishes_with_confirms_and_consumes() -> None:
    with rabbitpy.Connection(URL) as connection, connection.channel() as channel:
        channel.enable_publisher_confirms()
        queue = rabbitpy.Queue(channel, fresh(), durable=True)
        queue.declare()
        for number in range(50):
            assert rabbitpy.Message(channel, str(number), {"delivery_mode": 2}).publish("", queue.name)
        got = []
        for message in queue.consume(prefetch=10):
            got.append(bytes(message.body))
            message.ack()
            if len(got) == 50:
                break
        assert got == [b"%d" % number for number in range(50)]
        queue.delete()


@check
def carries_a_large_body() -> None:
    with rabbitpy.Connection(URL) as connection, connection.channel() as channel:
        queue = rabbitpy.Queue(channel, fresh(), auto_delete=True)
        queue.declare()
        channel.enable_publisher_confirms()
        assert rabbitpy.Message(channel, LARGE, {"headers": {"k": "v"}}).publish("", queue.name)
        message = queue.get(acknowledge=False)
        assert bytes(message.body) == LARGE
        assert len(queue) == 0
        queue.delete()


@check
def binds_and_routes() -> None:
    with rabbitpy.Connection(URL) as connection, connection.channel() as channel:
        exchange = rabbitpy.TopicExchange(channel, fresh("exchange"))
        exchange.declare()
        queue = rabbitpy.Queue(channel, fresh(), exclusive=True)
        queue.declare()
        queue.bind(exchange, "a.#")
        channel.enable_publisher_confirms()
        assert rabbitpy.Message(channel, "x").publish(exchange, "a.b.c")
        message = queue.get()
        message.reject(requeue=True)
        again = queue.get()
        assert again.redelivered
        again.ack()
        exchange.delete()


@check
def errors_have_their_classes() -> None:
    def passive() -> None:
        with rabbitpy.Connection(URL) as connection, connection.channel() as channel:
            rabbitpy.Queue(channel, fresh()).declare(passive=True)

    raises(rabbitpy.exceptions.AMQPNotFound, "", passive)


main()
