"""AMQPStorm: a thread reads the socket."""

from __future__ import annotations

import threading

import amqpstorm
from checks import HOST, LARGE, PORT, check, fresh, main, raises, wait


def connect(**options: object) -> amqpstorm.Connection:
    return amqpstorm.Connection(
        HOST, options.pop("user", "guest"), options.pop("password", "guest"), port=PORT, **options
    )


@check
def publishes_with_confirms_and_consumes() -> None:
    with connect() as connection, connection.channel() as channel:
        queue = fresh()
        channel.queue.declare(queue, durable=True)
        channel.confirm_deliveries()
        channel.basic.qos(10)
        for number in range(100):
            assert channel.basic.publish(str(number), queue, properties={"delivery_mode": 2}) is True
        got: list[str] = []

        def on_message(message: amqpstorm.Message) -> None:
            got.append(message.body)
            message.ack()
            if len(got) == 100:
                channel.stop_consuming()

        channel.basic.consume(on_message, queue)
        channel.start_consuming()
        assert got == [str(number) for number in range(100)]
        assert channel.queue.delete(queue)["message_count"] == 0


@check
def carries_properties_and_a_large_body() -> None:
    with connect() as connection, connection.channel() as channel:
        queue = channel.queue.declare(exclusive=True)["queue"]
        message = amqpstorm.Message.create(channel, LARGE, {"headers": {"k": 1, "s": "v"}, "message_id": "m"})
        message.publish(queue)
        wait(lambda: channel.queue.declare(queue, passive=True)["message_count"] == 1)
        got = channel.basic.get(queue, no_ack=True, auto_decode=False)
        assert got.body == LARGE
        assert got.properties["headers"] == {"k": 1, "s": "v"}, got.properties
        assert channel.basic.get(queue) is None


@check
def rejects_and_redelivers() -> None:
    with connect() as connection, connection.channel() as channel:
        queue = channel.queue.declare(exclusive=True)["queue"]
        channel.confirm_deliveries()
        channel.basic.publish("x", queue)
        channel.basic.get(queue).reject(requeue=True)
        again = channel.basic.get(queue)
        assert again.redelivered
        again.nack(requeue=False)
        assert channel.queue.declare(queue, passive=True)["message_count"] == 0


@check
def errors_are_raised_and_the_connection_goes_on() -> None:
    with connect() as connection:
        channel = connection.channel()
        name = fresh()
        raises(
            amqpstorm.AMQPChannelError,
            f"NOT_FOUND - no queue '{name}' in vhost '/'",
            lambda: channel.queue.declare(name, passive=True),
        )
        with connection.channel() as other:
            other.confirm_deliveries()
            raises(amqpstorm.AMQPMessageError, "", lambda: other.basic.publish("x", name, mandatory=True))
    raises(amqpstorm.AMQPConnectionError, "ACCESS_REFUSED", lambda: connect(password="wrong"))


@check
def several_threads_share_a_connection() -> None:
    with connect() as connection:
        problems: list[BaseException] = []

        def work() -> None:
            try:
                with connection.channel() as channel:
                    queue = channel.queue.declare(exclusive=True)["queue"]
                    channel.confirm_deliveries()
                    for number in range(50):
                        channel.basic.publish(str(number), queue)
                    for number in range(50):
                        message = channel.basic.get(queue)
                        assert message.body == str(number)
                        message.ack()
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not problems, problems


main()
