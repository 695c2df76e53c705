"""Messages are consumed and got."""

from __future__ import annotations

from typing import Any

from amqp_router.protocol import methods as m
from tests.model.endings.clients import Channel, Out, Peer
from tests.model.endings.queue import ModelConsumer, ModelQueue
from tests.model.endings.wire import check, read
from tests.model.endings.world import World
from tests.vhosts.queues.local import typed


def consume(world: World, who: int, number: int, name: str, tag: str, *, no_ack: bool, prefetch: int) -> None:
    """A client consumes from a queue, now and then with a timeout of its own."""
    peer, channel = world.channel(who, number)
    queue = world.lists.queues.get(name)
    if queue is None or tag in channel.consumers:
        return
    world.moves["consume without ack" if no_ack else "consume"] += 1
    timeout = world.random.choice((0, 0, 0, 500, 800)) if not no_ack else 0
    arguments = typed(consumer_timeout=timeout) if timeout else {}
    peer.client.send(
        m.BasicQos(0, prefetch, False),
        m.BasicConsume(name, tag, no_ack=no_ack, arguments=arguments),
        channel=number,
    )
    world.look()
    consumer = ModelConsumer(queue, tag, no_ack=no_ack, prefetch=prefetch, timeout=timeout)
    channel.consumers[tag] = consumer
    queue.consumers.append(consumer)
    channel.expected += [m.BasicQosOk(), m.BasicConsumeOk(tag)]
    world.compare()


def cancel(world: World, who: int, number: int, tag: str) -> None:
    """A client cancels a consumer."""
    peer, channel = world.channel(who, number)
    if tag not in channel.consumers:
        return
    world.moves["cancel"] += 1
    peer.client.send(m.BasicCancel(tag), channel=number)
    world.look()
    consumer = channel.consumers.pop(tag)
    consumer.queue.consumers.remove(consumer)
    consumer.queue.used_us = world.lists.now_us
    channel.expected.append(m.BasicCancelOk(tag))
    world.compare()


def get(world: World, who: int, number: int, name: str, *, no_ack: bool) -> None:
    """A client gets the head of a queue."""
    peer, channel = world.channel(who, number)
    queue = world.lists.queues.get(name)
    if queue is None:
        return
    world.moves["get"] += 1
    peer.client.send(m.BasicGet(name, no_ack), channel=number)
    world.look()
    got(world, peer, channel, queue, no_ack=no_ack)
    world.compare()


def got(world: World, peer: Peer, channel: Channel, queue: ModelQueue, *, no_ack: bool) -> None:
    """The answer to a get, which the node has given."""
    queue.used_us = world.lists.now_us
    world.lists.pump(queue)
    if not queue.ready:
        world.take(peer, channel, m.BasicGetEmpty)
        return
    received = world.take(peer, channel, m.BasicGetOk)
    entry = queue.ready.pop(0)
    world.lists.pump(queue)  # a next message whose time is over is not counted
    tag = channel.next_tag
    channel.next_tag += 1
    method: Any = received.method
    assert received.body == entry.body
    assert (method.delivery_tag, bool(method.redelivered)) == (tag, entry.redelivered)
    assert method.message_count == len(queue.ready)
    says, count = read(received.properties, method.exchange, method.routing_key)
    check(entry, queue, says, count, is_get=True)
    queue.out += 1
    if no_ack:
        world.lists.settle(queue, entry, ack=True)
    else:
        channel.out[tag] = Out(queue, entry, None, world.lists.now_us)
