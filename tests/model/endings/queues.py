"""Queues are declared, purged, deleted and told other policies."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from amqp_router.protocol import methods as m
from tests.model.endings import choices
from tests.model.endings.clients import Channel, Peer
from tests.model.endings.queue import ModelQueue
from tests.model.endings.rules import KINDS, Told
from tests.model.endings.setting import FANOUT
from tests.model.endings.sizes import whole_turns
from tests.model.endings.world import World
from tests.vhosts.queues.local import typed


def declare(world: World, name: str) -> None:
    """Declare a queue with random arguments, or one that is there again."""
    kind = KINDS[name]
    queue = world.lists.queues.get(name)
    channel = world.admin.channels[1]
    if queue is None:
        arguments = choices.choose_for(world, name, is_policy=False)
        policy = world.policy_of(name)
        if name != "x" and world.random.random() < 0.5:
            # Most walks change by policy where letters go.
            arguments.pop("dead-letter-exchange", None)
            arguments.pop("dead-letter-routing-key", None)
        if "dead-letter-routing-key" in policy:
            arguments.pop("dead-letter-exchange", None)
            arguments.pop("dead-letter-routing-key", None)
    else:
        arguments = dict(queue.arguments)
    method = m.QueueDeclare(name, durable=kind.durable, arguments=_typed(kind, arguments))
    methods = [method]
    if queue is None:
        methods.append(m.QueueBind(name, FANOUT))
    world.admin.client.send(*methods)
    world.look()
    count = len(queue.ready) if queue is not None else 0
    consumers = consumers_of(world, queue) if queue is not None else 0
    channel.late.append(m.QueueDeclareOk(name, count, consumers))
    if queue is None:
        channel.late.append(m.QueueBindOk())
        real = world.node.queue(name)
        queue = ModelQueue(kind, real.incarnation, arguments, world.policy_of(name), world.lists.now_us)
        world.lists.queues[name] = queue
    queue.used_us = world.lists.now_us
    world.declaring.append(queue)
    world.compare()


def delete(world: World, name: str) -> None:
    """Delete a queue."""
    queue = world.lists.queues.get(name)
    if queue is None:
        return
    world.moves["delete"] += 1
    world.admin.client.send(m.QueueDelete(name))
    world.look()
    world.admin.channels[1].late.append(m.QueueDeleteOk(len(queue.ready)))
    gone(world, queue)
    world.compare()


def gone(world: World, queue: ModelQueue) -> None:
    """The queue is deleted, or has expired."""
    del world.lists.queues[queue.name]
    world.past[queue.incarnation] = queue
    queue.deleted = True
    queue.ready = []
    for consumer in queue.consumers:
        channel = next(
            each
            for peer in world.consumers
            for each in peer.channels.values()
            if consumer in each.consumers.values()
        )
        channel.cancels.append(consumer.tag)
        del channel.consumers[consumer.tag]
    queue.consumers = []


def set_policy(world: World, name: str, definition: Told | None) -> None:
    """Set or clear the policy of one queue, over the messages that wait in it."""
    queue = world.lists.queues.get(name)
    is_open = queue is not None and choices.drops_what_is_over(world, queue, definition or {})
    with whole_turns() if is_open else nullcontext():
        _set_policy(world, name, queue, definition)


def _set_policy(world: World, name: str, queue: ModelQueue | None, definition: Told | None) -> None:
    world.moves["policy" if definition is not None else "policy cleared"] += 1
    parameters = world.node.core.parameters
    if definition is None or not definition:
        if ("/", "policy", f"of {name}") not in parameters.values:
            return
        world.node.enter(parameters.delete, world.node.vhost, "policy", f"of {name}")
        definition = {}
    else:
        value = {"pattern": f"^{name}$", "definition": dict(definition), "apply-to": "queues"}
        world.node.enter(parameters.put, world.node.vhost, "policy", f"of {name}", value)
    world.look()
    if queue is not None:
        if definition != queue.policy:
            queue.used_us = world.lists.now_us
        was = queue.rules
        queue.obey(definition)
        if queue.rules.timeout != was.timeout:
            world.watch_anew()
        if queue.rules != was:
            for entry in queue.ready:
                world.lists.note(queue, entry, "policy change")
    world.compare()


def purge(world: World, name: str) -> None:
    """Purge a queue."""
    queue = world.lists.queues.get(name)
    if queue is None:
        return
    world.moves["purge"] += 1
    peer, channel = world.channel(0, 1)
    peer.client.send(m.QueuePurge(name))
    world.look()
    channel.expected.append(m.QueuePurgeOk(world.lists.purge(queue)))
    world.compare()


def looked_into(world: World, peer: Peer, channel: Channel, queue: ModelQueue) -> None:
    """A declare came while the node was still at the queue, and is answered as if it was not."""
    world.moves["(looked into at once)"] += 1
    world.lists.pump(queue)
    queue.used_us = world.lists.now_us
    count = _counted_at_once(world, peer, channel, len(queue.ready))
    channel.expected.append(m.QueueDeclareOk(queue.name, count, consumers_of(world, queue)))


def consumers_of(world: World, queue: ModelQueue) -> int:
    """What a declare counts: of a quorum queue also unsettled messages of basic.get, and each cancelled
    consumer that has some.
    """
    if not queue.kind.quorum:
        return len(queue.consumers)
    holders = [
        out.consumer
        for peer in world.peers
        for channel in peer.channels.values()
        for out in channel.out.values()
        if out.queue is queue and out.consumer not in queue.consumers
    ]
    cancelled = {holder for holder in holders if holder is not None}
    return len(queue.consumers) + len(cancelled) + holders.count(None)


def _counted_at_once(world: World, peer: Peer, channel: Channel, count: int) -> int:
    """What a declare counts that came while the node was at it: ``count``, and letters that came to the
    queue before its turn.
    """
    for found, received in world.received:
        if (found, received.channel) == (peer, channel.number):
            method = received.method
            if isinstance(method, m.QueueDeclareOk):
                assert count <= method.message_count <= count + world.lists.letters_to_come(), method
                return method.message_count
    return count


def _typed(kind: Any, told: Told) -> Any:
    """The arguments as they are sent."""
    values = {key.replace("-", "_"): value for key, value in told.items()}
    if kind.priorities is not None:
        values["max_priority"] = kind.priorities
    if kind.quorum:
        values["queue_type"] = "quorum"
    return typed(**values)
