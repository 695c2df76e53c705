"""pika: its blocking, select and asyncio connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pika
from checks import HOST, LARGE, PORT, check, fresh, main, raises
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    UnroutableError,
)

PARAMETERS = pika.ConnectionParameters(HOST, PORT)


def blocking(**options: object) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(HOST, PORT, **options))


@check
def publishes_with_confirms_and_consumes() -> None:
    with blocking() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = fresh()
        channel.queue_declare(queue, durable=True)
        channel.basic_qos(prefetch_count=10)
        for number in range(200):
            channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        got = []
        for method, _, body in channel.consume(queue, inactivity_timeout=5):
            assert method is not None, f"only {len(got)} came"
            channel.basic_ack(method.delivery_tag)
            got.append(int(body))
            if len(got) == 200:
                break
        channel.cancel()
        assert got == list(range(200))
        assert channel.queue_delete(queue).method.message_count == 0


@check
def carries_every_property_and_a_large_body() -> None:
    with blocking() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        headers = {
            "text": "ä",
            "number": -3,
            "big": 2**40,
            "flag": True,
            "none": None,
            "list": [1, "a"],
            "table": {"k": 1},
        }
        sent = pika.BasicProperties(
            content_type="application/json",
            content_encoding="gzip",
            headers=headers,
            delivery_mode=1,
            priority=3,
            correlation_id="c",
            reply_to="r",
            message_id="m",
            timestamp=1700000000,
            type="t",
            user_id="guest",
            app_id="a",
        )
        channel.basic_publish("", queue, LARGE, sent)
        _, properties, body = channel.basic_get(queue, auto_ack=True)
        assert body == LARGE
        assert properties == sent, properties
        assert channel.basic_get(queue) == (None, None, None)


@check
def requeues_in_order_and_says_redelivered() -> None:
    with blocking() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for body in (b"a", b"b", b"c"):
            channel.basic_publish("", queue, body)
        first = channel.basic_get(queue)[0]
        channel.basic_get(queue)
        channel.basic_nack(first.delivery_tag + 1, multiple=True, requeue=True)
        again = [channel.basic_get(queue) for _ in range(3)]
        assert [(method.redelivered, body) for method, _, body in again] == [
            (True, b"a"),
            (True, b"b"),
            (False, b"c"),
        ]
        channel.basic_reject(again[0][0].delivery_tag, requeue=False)
        assert channel.queue_declare(queue, passive=True).method.message_count == 0


@check
def routes_through_every_type_of_exchange() -> None:
    with blocking() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for kind, bound, arguments, key, headers in (
            ("direct", "k", None, "k", None),
            ("topic", "a.*.#", None, "a.b.c", None),
            ("fanout", "", None, "whatever", None),
            ("headers", "", {"x-match": "all", "colour": "red"}, "", {"colour": "red", "size": 1}),
        ):
            exchange, outer = fresh("exchange"), fresh("exchange")
            channel.exchange_declare(exchange, kind, durable=True)
            channel.exchange_declare(outer, "fanout", auto_delete=True)
            channel.exchange_bind(exchange, outer)
            channel.queue_bind(queue, exchange, bound, arguments)
            channel.basic_publish(outer, key, kind, pika.BasicProperties(headers=headers), mandatory=True)
            method, _, body = channel.basic_get(queue, auto_ack=True)
            assert (body.decode(), method.exchange, method.routing_key) == (kind, outer, key)
            channel.queue_unbind(queue, exchange, bound, arguments)
            channel.exchange_delete(exchange)


@check
def returns_what_cannot_be_routed() -> None:
    with blocking() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        raises(UnroutableError, "", lambda: channel.basic_publish("", fresh(), b"x", mandatory=True))
        try:
            channel.basic_publish("", fresh(), b"x")
        except NackError as error:
            raise AssertionError(error) from None


@check
def errors_close_the_channel_or_the_connection() -> None:
    with blocking() as connection:
        channel = connection.channel()
        missing = fresh()
        text = f"NOT_FOUND - no queue '{missing}' in vhost '/'"
        raises(ChannelClosedByBroker, text, lambda: channel.queue_declare(missing, passive=True))
        again = connection.channel()
        again.queue_declare("", exclusive=True)
    connection = blocking()
    raises(
        ConnectionClosedByBroker,
        "unknown exchange type 'nope'",
        lambda: connection.channel().exchange_declare(fresh("exchange"), "nope"),
    )
    assert connection.is_closed
    wrong = pika.PlainCredentials("guest", "wrong")
    raises(ProbableAuthenticationError, "ACCESS_REFUSED", lambda: blocking(credentials=wrong))
    raises(ProbableAccessDeniedError, "vhost nope not found", lambda: blocking(virtual_host="nope"))


@check
def a_deleted_queue_cancels_its_consumer() -> None:
    with blocking() as connection:
        channel = connection.channel()
        queue = fresh()
        channel.queue_declare(queue)
        cancelled: list[object] = []
        channel.add_on_cancel_callback(cancelled.append)
        channel.basic_consume(queue, lambda *_: None)
        channel.queue_delete(queue)
        connection.process_data_events(time_limit=1)
        assert cancelled
        assert not channel.consumer_tags


@check
def heartbeats_keep_an_idle_connection() -> None:
    with blocking(heartbeat=1) as connection:
        channel = connection.channel()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            connection.process_data_events(time_limit=0.2)
        channel.queue_declare("", exclusive=True)


def exchange_of_messages(
    make: Callable[..., object], run: Callable[[object], None], stop: Callable[[], None]
) -> list[bytes]:
    """Publish and consume a hundred messages with callbacks."""
    got: list[bytes] = []

    def on_message(channel: object, method: object, properties: object, body: bytes) -> None:
        got.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(got) == 100:
            channel.connection.close()

    def on_queue(channel: object, queue: str) -> None:
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume(queue, on_message)
        for number in range(100):
            channel.basic_publish("", queue, b"%d" % number)

    def on_channel(channel: object) -> None:
        channel.queue_declare(
            "", exclusive=True, callback=lambda frame: on_queue(channel, frame.method.queue)
        )

    connection = make(
        PARAMETERS,
        on_open_callback=lambda connection: connection.channel(on_open_callback=on_channel),
        on_close_callback=lambda connection, reason: stop(),
    )
    run(connection)
    assert len(got) == 100, len(got)
    return got


@check
def the_select_connection() -> None:
    loops: list[object] = []

    def run(connection: pika.SelectConnection) -> None:
        loops.append(connection.ioloop)
        connection.ioloop.start()

    def stop() -> None:
        loops[0].stop()

    exchange_of_messages(pika.SelectConnection, run, stop)


@check
def the_asyncio_connection() -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    exchange_of_messages(AsyncioConnection, lambda connection: loop.run_forever(), loop.stop)
    loop.close()


main()
