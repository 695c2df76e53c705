"""aio-pika: plain and robust connections, its RPC and work queue patterns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aio_pika
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed, DeliveryError
from aio_pika.patterns import Master
from aiormq.exceptions import ProbableAuthenticationError
from checks import HOST, LARGE, PORT, check, fresh, main, raises_later

URL = f"amqp://guest:guest@{HOST}:{PORT}/"


def in_loop(function: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(function())

    run.__name__ = function.__name__
    check(run)
    return run


@in_loop
async def publishes_with_confirms_and_consumes() -> None:
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=10)
        queue = await channel.declare_queue(fresh(), durable=True)
        message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await asyncio.gather(*(channel.default_exchange.publish(message, queue.name) for _ in range(200)))
        got = 0
        async with queue.iterator() as incoming:
            async for delivery in incoming:
                async with delivery.process():
                    got += 1
                if got == 200:
                    break
        assert (await queue.declare()).message_count == 0
        await queue.delete()


@in_loop
async def carries_properties_and_a_large_body() -> None:
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        message = aio_pika.Message(
            LARGE,
            headers={"a": 1, "b": [1, {"c": "d"}]},
            content_type="text/plain",
            message_id="m",
            priority=5,
        )
        await channel.default_exchange.publish(message, queue.name)
        delivery = await queue.get(no_ack=True)
        assert delivery.body == LARGE
        assert delivery.headers == {"a": 1, "b": [1, {"c": "d"}]}, delivery.headers
        assert (delivery.content_type, delivery.message_id, delivery.priority) == ("text/plain", "m", 5)
        assert await queue.get(fail=False) is None


@in_loop
async def a_mandatory_message_comes_back() -> None:
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel(on_return_raises=True)
        publish = channel.default_exchange.publish(aio_pika.Message(b"x"), fresh())
        await raises_later(DeliveryError, "", publish)


@in_loop
async def errors_close_the_channel_only() -> None:
    async with await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        name = fresh()
        text = f"no queue '{name}' in vhost '/'"
        await raises_later(ChannelNotFoundEntity, text, channel.get_queue(name, ensure=True))
        channel = await connection.channel()
        await channel.declare_queue(name, durable=True)
        declare = channel.declare_queue(name, durable=False)
        await raises_later(ChannelPreconditionFailed, "inequivalent arg 'durable'", declare)
        await (await connection.channel()).queue_delete(name)
    wrong = aio_pika.connect(f"amqp://guest:wrong@{HOST}:{PORT}/")
    await raises_later(ProbableAuthenticationError, "ACCESS_REFUSED", wrong)


@in_loop
async def a_robust_connection_declares_again_what_is_lost() -> None:
    connection = await aio_pika.connect_robust(URL, reconnect_interval=0.1)
    async with connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(
            fresh("exchange"), aio_pika.ExchangeType.TOPIC, auto_delete=True
        )
        queue = await channel.declare_queue(fresh(), exclusive=True)
        await queue.bind(exchange, "a.*")
        got: asyncio.Queue[bytes] = asyncio.Queue()
        await queue.consume(lambda message: got.put(message.body), no_ack=True)
        await exchange.publish(aio_pika.Message(b"before"), "a.1")
        assert await asyncio.wait_for(got.get(), 5) == b"before"
        connection.transport.connection._writer_task.cancel()  # the socket goes without a word
        await asyncio.sleep(1)
        await connection.ready()
        await channel.ready()
        await exchange.publish(aio_pika.Message(b"after"), "a.2")
        assert await asyncio.wait_for(got.get(), 10) == b"after"


@in_loop
async def the_master_and_worker_pattern() -> None:
    async with await aio_pika.connect_robust(URL) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        master = Master(channel)
        name = fresh("task")
        done: list[int] = []

        async def work(*, task: int) -> None:
            done.append(task)

        worker = await master.create_worker(name, work, durable=True)
        for task in range(20):
            await master.create_task(name, {"task": task})
        async with asyncio.timeout(10):
            while len(done) < 20:
                await asyncio.sleep(0.01)
        assert done == list(range(20))
        await worker.close()
        await channel.queue_delete(name)


main()
