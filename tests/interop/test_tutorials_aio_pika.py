"""RabbitMQ's seven tutorials with aio-pika.

Source: https://docs.aio-pika.com/rabbitmq-tutorial
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import aio_pika
import pytest
import pytest_asyncio
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import DeliveryError

from tests.brokers import Broker


@pytest_asyncio.fixture
async def connection(broker: Broker) -> AsyncIterator[AbstractConnection]:
    connection = await aio_pika.connect(host=broker.host, port=broker.port)
    yield connection
    await connection.close()


@pytest_asyncio.fixture
async def channel(connection: AbstractConnection) -> AbstractChannel:
    return await connection.channel(on_return_raises=True)


async def take(queue: AbstractQueue, count: int) -> list[AbstractIncomingMessage]:
    """Consume ``count`` messages, acking each."""
    result: list[AbstractIncomingMessage] = []
    async with asyncio.timeout(60), queue.iterator() as messages:
        async for message in messages:
            await message.ack()
            result.append(message)
            if len(result) == count:
                break
    return result


async def test_1_hello_world(channel: AbstractChannel, name: str) -> None:
    queue = await channel.declare_queue(name, auto_delete=True)
    await channel.default_exchange.publish(Message(b"Hello World!"), routing_key=queue.name)
    assert [message.body for message in await take(queue, 1)] == [b"Hello World!"]


async def test_2_work_queues(broker: Broker, channel: AbstractChannel, name: str) -> None:
    """A worker that dies with its task hands it to the other."""
    queue = await channel.declare_queue(name, durable=True)
    for task in range(10):
        message = Message(b"task %d" % task, delivery_mode=DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, routing_key=name)
    dying = await aio_pika.connect(host=broker.host, port=broker.port)
    dying_channel = await dying.channel()
    await dying_channel.set_qos(prefetch_count=1)
    held: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    dying_queue = await dying_channel.get_queue(name)

    async def hold(message: AbstractIncomingMessage) -> None:
        held.set_result(message.body)

    await dying_queue.consume(hold)
    await asyncio.wait_for(held, 60)
    await channel.set_qos(prefetch_count=1)
    done = await take(queue, 9)
    await dying.close()
    done += await take(queue, 1)
    assert sorted(message.body for message in done) == [b"task %d" % task for task in range(10)]
    assert [message.body for message in done if message.redelivered] == [held.result()]
    await queue.delete()


async def test_3_publish_subscribe(channel: AbstractChannel, name: str) -> None:
    exchange = await channel.declare_exchange(name, ExchangeType.FANOUT, auto_delete=True)
    queues = [await channel.declare_queue(exclusive=True) for _ in range(3)]
    for queue in queues:
        await queue.bind(exchange)
    await exchange.publish(Message(b"info: Hello World!"), routing_key="info")
    for queue in queues:
        assert [message.body for message in await take(queue, 1)] == [b"info: Hello World!"]


async def test_4_routing(channel: AbstractChannel, name: str) -> None:
    exchange = await channel.declare_exchange(name, ExchangeType.DIRECT, auto_delete=True)
    errors = await channel.declare_queue(exclusive=True)
    await errors.bind(exchange, "error")
    everything = await channel.declare_queue(exclusive=True)
    for severity in ("info", "warning", "error"):
        await everything.bind(exchange, severity)
    for severity in ("info", "error", "warning", "error"):
        await exchange.publish(Message(severity.encode()), routing_key=severity)
    with pytest.raises(DeliveryError):
        await exchange.publish(Message(b"debug"), routing_key="debug")
    keys = [message.routing_key for message in await take(everything, 4)]
    assert keys == ["info", "error", "warning", "error"]
    assert [message.body for message in await take(errors, 2)] == [b"error", b"error"]


async def test_5_topics(channel: AbstractChannel, name: str) -> None:
    exchange = await channel.declare_exchange(name, ExchangeType.TOPIC, auto_delete=True)
    first = await channel.declare_queue(exclusive=True)
    await first.bind(exchange, "*.orange.*")
    second = await channel.declare_queue(exclusive=True)
    await second.bind(exchange, "*.*.rabbit")
    await second.bind(exchange, "lazy.#")
    for key in ("quick.orange.rabbit", "lazy.orange.elephant", "lazy.pink.rabbit", "quick.brown.fox", "lazy"):
        await exchange.publish(Message(key.encode()), routing_key=key, mandatory=False)
    assert [m.body for m in await take(first, 2)] == [b"quick.orange.rabbit", b"lazy.orange.elephant"]
    assert [m.body for m in await take(second, 4)] == [
        b"quick.orange.rabbit",
        b"lazy.orange.elephant",
        b"lazy.pink.rabbit",
        b"lazy",
    ]


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


async def test_6_rpc(connection: AbstractConnection, channel: AbstractChannel, name: str) -> None:
    requests = await channel.declare_queue(name, auto_delete=True)

    async def serve(message: AbstractIncomingMessage) -> None:
        async with message.process():
            assert message.reply_to is not None
            answer = str(fibonacci(int(message.body))).encode()
            await channel.default_exchange.publish(
                Message(answer, correlation_id=message.correlation_id), routing_key=message.reply_to
            )

    await requests.consume(serve)
    client = await connection.channel()
    callback_queue = await client.declare_queue(exclusive=True)
    futures: dict[str, asyncio.Future[int]] = {}

    async def on_response(message: AbstractIncomingMessage) -> None:
        assert message.correlation_id is not None
        futures.pop(message.correlation_id).set_result(int(message.body))

    await callback_queue.consume(on_response, no_ack=True)

    async def call(n: int) -> int:
        correlation_id = str(uuid.uuid4())
        future = futures[correlation_id] = asyncio.get_running_loop().create_future()
        message = Message(str(n).encode(), correlation_id=correlation_id, reply_to=callback_queue.name)
        await client.default_exchange.publish(message, routing_key=name)
        return await asyncio.wait_for(future, 60)

    assert await asyncio.gather(*(call(n) for n in range(15))) == [fibonacci(n) for n in range(15)]


async def test_7_publisher_confirms(channel: AbstractChannel, name: str) -> None:
    """aio-pika awaits the confirm of every publish; here 300 at a time, in two batches."""
    queue = await channel.declare_queue(name, durable=True)
    for batch in range(2):
        await asyncio.wait_for(
            asyncio.gather(
                *(
                    channel.default_exchange.publish(
                        Message(b"%d" % (batch * 300 + index), delivery_mode=DeliveryMode.PERSISTENT),
                        routing_key=name,
                    )
                    for index in range(300)
                )
            ),
            30,
        )
    messages = await take(queue, 600)
    assert [int(message.body) for message in messages] == list(range(600))
    await queue.delete()


async def test_robust_connection_survives_a_channel_error(broker: Broker, name: str) -> None:
    """aio-pika's own reconnecting kind: a channel closed by the broker does not stop the others."""
    connection = await aio_pika.connect_robust(host=broker.host, port=broker.port)
    async with connection:
        first, second = await connection.channel(), await connection.channel()
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await first.declare_queue("no-such-queue", passive=True)
        queue = await second.declare_queue(name, exclusive=True)
        await second.default_exchange.publish(Message(b"x"), routing_key=name)
        assert [message.body for message in await take(queue, 1)] == [b"x"]
