"""Messages are consumed and got."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.model.node import closing
from tests.model.node.shadow import Out, ShadowConsumer
from tests.model.node.world import World
from tests.nodes import PERSISTENT, TRANSIENT
from vhosts.queues.state import FAILED


def consume(world: World, who: int, number: int, name: str, tag: str, *, no_ack: bool) -> None:
    """A client consumes from a queue, with the limit that its channel has by then."""
    peer, channel = world.channel(who, number)
    queue = world.queues.get(name)
    if queue is None or queue.failed or tag in channel.consumers:
        return
    world.moves["consume without ack" if no_ack else "consume"] += 1
    consumer = ShadowConsumer(channel, queue, tag, no_ack=no_ack, prefetch=0 if no_ack else channel.prefetch)
    channel.consumers[tag] = consumer
    queue.consumers.append(consumer)
    channel.expected.append(m.BasicConsumeOk(tag))
    peer.client.send(m.BasicConsume(name, tag, no_ack=no_ack), channel=number)
    world.absorb()


def cancel(world: World, who: int, number: int, tag: str) -> None:
    """A client cancels a consumer, or one that is not there."""
    peer, channel = world.channel(who, number)
    consumer = channel.consumers.pop(tag, None)
    if consumer is not None:
        consumer.queue.consumers.remove(consumer)
    world.moves["cancel"] += 1
    channel.expected.append(m.BasicCancelOk(tag))
    peer.client.send(m.BasicCancel(tag), channel=number)
    world.absorb()


def qos(world: World, who: int, number: int, count: int, *, is_global: bool) -> None:
    """A client limits a channel, or the consumers that it starts from now on."""
    peer, channel = world.channel(who, number)
    world.moves["qos global" if is_global else "qos"] += 1
    if is_global:
        # Lowered below what is out, the limit is kept from now on; then more may be out than it says.
        if count and channel.counted() > count:
            return
        channel.limit = count
    else:
        channel.prefetch = count
        channel.limit = 0
    channel.expected.append(m.BasicQosOk())
    peer.client.send(m.BasicQos(0, count, is_global), channel=number)
    world.absorb()


def get(world: World, who: int, number: int, name: str, *, no_ack: bool) -> None:
    """A client gets the head of a queue."""
    peer, channel = world.channel(who, number)
    queue = world.queues.get(name)
    if queue is None or queue.failed:
        return
    world.moves["get"] += 1
    peer.client.send(m.BasicGet(name, no_ack), channel=number)
    if not queue.ready:
        channel.expected.append(m.BasicGetEmpty())
        world.absorb()
        return
    world.node.quiet()
    received = [each for each in peer.client.take() if isinstance(each.method, m.BasicGetOk)]
    if not received and world.node.queue(name).state == FAILED:
        # It failed while it was read: the channel is closed with the reason.
        world.note_failures()
        closing.closed_by_server(world, peer, channel, 406, sent=True)
        return
    entry = queue.take()
    tag = channel.next_tag
    channel.next_tag += 1
    ((_, method, properties, body),) = received
    assert method == m.BasicGetOk(tag, entry.redelivered, *entry.route, len(queue.ready))
    assert body == entry.body
    assert properties == (PERSISTENT if entry.persistent else TRANSIENT)
    if no_ack:
        queue.settle(entry.serial)
    else:
        channel.out[tag] = Out(queue, entry.serial, None)
    world.absorb()
