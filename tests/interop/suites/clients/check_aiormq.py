"""aiormq, the layer below aio-pika."""

from __future__ import annotations

import asyncio

import aiormq
from checks import HOST, LARGE, PORT, check, fresh, main, raises_later

URL = f"amqp://guest:guest@{HOST}:{PORT}/"


@check
def publishes_consumes_and_gets() -> None:
    async def run() -> None:
        connection = await aiormq.connect(URL)
        channel = await connection.channel()
        queue = (await channel.queue_declare(fresh(), durable=True)).queue
        for _ in range(50):
            confirmed = await channel.basic_publish(
                b"x", routing_key=queue, properties=aiormq.spec.Basic.Properties(delivery_mode=2)
            )
            assert isinstance(confirmed, aiormq.spec.Basic.Ack)
        got: asyncio.Queue[object] = asyncio.Queue()
        await channel.basic_qos(prefetch_count=5)
        tag = (await channel.basic_consume(queue, got.put)).consumer_tag
        for _ in range(50):
            message = await asyncio.wait_for(got.get(), 5)
            await channel.basic_ack(message.delivery.delivery_tag)
        await channel.basic_cancel(tag)
        await channel.basic_publish(LARGE, routing_key=queue)
        assert (await channel.basic_get(queue, no_ack=True)).body == LARGE
        assert (await channel.queue_delete(queue)).message_count == 0
        await connection.close()

    asyncio.run(run())


@check
def errors_have_their_classes() -> None:
    async def run() -> None:
        connection = await aiormq.connect(URL)
        channel = await connection.channel()
        missing = channel.queue_declare(fresh(), passive=True)
        await raises_later(aiormq.exceptions.ChannelNotFoundEntity, "NOT_FOUND", missing)
        channel = await connection.channel()
        queue = (await channel.queue_declare(exclusive=True)).queue
        other = await aiormq.connect(URL)
        locked = (await other.channel()).queue_declare(queue, passive=True)
        await raises_later(aiormq.exceptions.ChannelLockedResource, "RESOURCE_LOCKED", locked)
        await other.close()
        await connection.close()

    asyncio.run(run())


@check
def the_secret_may_be_updated() -> None:
    async def run() -> None:
        connection = await aiormq.connect(URL)
        await connection.update_secret("guest", reason="a new one", timeout=5)
        await connection.channel()
        await connection.close()

    asyncio.run(run())


main()
