"""py-amqp, the layer below kombu."""

from __future__ import annotations

import contextlib

import amqp
from checks import HOST, LARGE, PORT, check, fresh, main, raises


def connect(**options: object) -> amqp.Connection:
    connection = amqp.Connection(f"{HOST}:{PORT}", **options)
    connection.connect()
    return connection


@check
def publishes_with_confirms_and_consumes() -> None:
    with connect(confirm_publish=True) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(fresh(), durable=True, auto_delete=False).queue
        channel.basic_qos(0, 10, False)
        for number in range(100):
            channel.basic_publish(amqp.Message(str(number), delivery_mode=2), routing_key=queue)
        got: list[str] = []

        def on_message(message: amqp.Message) -> None:
            got.append(message.body)
            channel.basic_ack(message.delivery_tag)

        tag = channel.basic_consume(queue, callback=on_message)
        while len(got) < 100:
            connection.drain_events(timeout=5)
        channel.basic_cancel(tag)
        assert got == [str(number) for number in range(100)]
        assert channel.queue_delete(queue) == 0


@check
def carries_headers_and_a_large_body() -> None:
    with connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True).queue
        headers = {"k": 1, "list": [1, "a"], "table": {"x": "y"}, "flag": True}
        channel.basic_publish_confirm(amqp.Message(LARGE, application_headers=headers), routing_key=queue)
        message = channel.basic_get(queue, no_ack=True)
        assert message.body == LARGE
        assert message.headers == headers, message.headers
        assert channel.basic_get(queue) is None


@check
def returns_recovers_and_rejects() -> None:
    with connect() as connection:
        channel = connection.channel()
        returned: list[object] = []
        channel.events["basic_return"].add(lambda *arguments: returned.append(arguments))
        queue = channel.queue_declare(exclusive=True).queue
        channel.basic_publish(amqp.Message("x"), routing_key=fresh(), mandatory=True)
        channel.basic_publish_confirm(amqp.Message("x"), routing_key=queue)
        assert returned
        channel.basic_get(queue)
        channel.basic_recover(requeue=True)
        again = channel.basic_get(queue)
        assert again.delivery_info["redelivered"]
        channel.basic_reject(again.delivery_tag, requeue=False)
        assert channel.queue_declare(queue, passive=True).message_count == 0


@check
def errors_have_their_classes() -> None:
    with connect() as connection:
        name = fresh()
        channel = connection.channel()
        raises(
            amqp.NotFound,
            f"no queue '{name}' in vhost '/'",
            lambda: channel.queue_declare(name, passive=True),
        )
        channel = connection.channel()
        channel.queue_declare(name, durable=True, auto_delete=False)
        raises(
            amqp.PreconditionFailed,
            "inequivalent arg 'durable'",
            lambda: channel.queue_declare(name, auto_delete=False),
        )
        connection.channel().queue_delete(name)
    raises(amqp.AccessRefused, "Login was refused", lambda: connect(password="wrong"))


@check
def heartbeats_keep_an_idle_connection() -> None:
    with connect(heartbeat=1) as connection:
        channel = connection.channel()
        for _ in range(20):
            connection.heartbeat_tick()
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.2)  # less than between two heartbeats, which do not end it
        channel.queue_declare(exclusive=True)


main()
