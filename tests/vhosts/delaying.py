"""A client with an exchange that delays messages."""

from __future__ import annotations

from typing import Any

from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import decode_table, encode_plain
from amqp_router.protocol.properties import decode_properties, encode_properties
from tests.nodes import Client
from vhosts.queues.delayed import PREFIX

QUEUE = PREFIX + "x"


def typed(values: dict[str, Any]) -> Any:
    return decode_table(encode_plain(values), 0)[0]


def declare(client: Client, kind: str = "direct", *, durable: bool = True, **arguments: Any) -> None:
    table = typed({"x-delayed-type": kind, **arguments})
    client.send(m.ExchangeDeclare("x", "x-delayed-message", durable=durable, arguments=table))
    client.node.settle()
    (received,) = client.take()
    assert isinstance(received.method, m.ExchangeDeclareOk)


def bound(client: Client, key: str = "k", queue: str = "q", *, durable: bool = True) -> None:
    client.send(m.QueueDeclare(queue, durable=durable), m.QueueBind(queue, "x", key))
    client.node.settle()
    client.take()


def publish(
    client: Client, body: bytes, delay: Any = None, key: str = "k", exchange: str = "x", **properties: Any
) -> None:
    headers = dict(properties.pop("headers", {}))
    if delay is not None:
        headers["x-delay"] = delay if isinstance(delay, tuple) else ("I", delay)
    if headers:
        properties["headers"] = headers
    client.publish(body, key, exchange, encode_properties({"delivery_mode": 2, **properties}))
    client.node.settle()


def ready(client: Client, queue: str = "q") -> int:
    return client.node.queue(queue).message_count()


def waiting(client: Client) -> int:
    queue = client.node.vhost.queues.get(QUEUE)
    return 0 if queue is None else queue.message_count()


def pass_time(client: Client, seconds: float) -> None:
    client.node.sleep(seconds)
    client.node.settle()


def taken(client: Client, queue: str = "q") -> list[tuple[bytes, dict[str, Any]]]:
    client.take()
    found = []
    while True:
        client.send(m.BasicGet(queue, no_ack=True))
        client.node.quiet()
        (received,) = client.take()
        if isinstance(received.method, m.BasicGetEmpty):
            return found
        assert isinstance(received.method, m.BasicGetOk)
        assert not received.method.redelivered
        found.append((received.body, decode_properties(received.properties)))
