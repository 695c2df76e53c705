"""Queues are declared, purged and deleted."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.model.node import storing
from tests.model.node.setting import FANOUT, QUEUES
from tests.model.node.shadow import ShadowQueue
from tests.model.node.world import World


def declare(world: World, name: str) -> None:
    """Declare and bind a queue, or declare again the one that is there."""
    world.moves["declare"] += 1
    client, channel = world.admin.client, world.admin.channels[1]
    queue = world.queues.get(name)
    if not world.is_storing and QUEUES[name] and (queue is None or queue.is_refusing):
        storing.refused(world, m.QueueDeclare(name, durable=True))
        assert queue is not None or name not in world.node.vhost.queues
        return
    if queue is None:
        client.send(m.QueueDeclare(name, durable=QUEUES[name]), m.QueueBind(name, FANOUT))
        queue = ShadowQueue(name, world.node.queue(name).incarnation, durable=QUEUES[name])
        queue.is_bound = True
        world.queues[name] = queue
        channel.expected += [m.QueueDeclareOk(name, 0, 0), m.QueueBindOk()]
        world.answers += [queue, queue]
    else:
        client.send(m.QueueDeclare(name, durable=QUEUES[name]))
        channel.expected.append(m.QueueDeclareOk(name, len(queue.ready), len(queue.consumers)))
        world.answers.append(queue)
    world.absorb()


def delete(world: World, name: str) -> None:
    """Delete a queue; its messages are kept in ``Setting.past``, as a crash may bring it back."""
    if name in world.queues and QUEUES[name] and not world.is_storing:
        world.moves["delete that is refused"] += 1
        storing.refused(world, m.QueueDelete(name))
        return  # it is there as it was: compared like all others
    queue = world.queues.pop(name, None)
    if queue is None:
        return
    world.moves["delete"] += 1
    world.admin.channels[1].expected.append(m.QueueDeleteOk(len(queue.ready)))
    world.answers.append(queue)
    for consumer in queue.consumers:
        consumer.channel.cancels.append(consumer.tag)
        del consumer.channel.consumers[consumer.tag]
    queue.consumers = []
    queue.delete()
    world.past[queue.incarnation] = queue
    world.admin.client.send(m.QueueDelete(name))
    queue.removal_rev = world.definitions.committed + len(world.definitions.pending)
    world.absorb()


def purge(world: World, name: str) -> None:
    """Purge a queue."""
    queue = world.queues.get(name)
    if queue is None or queue.failed or queue.is_refusing:
        return
    world.moves["purge"] += 1
    # On a consumer's channel: the admin's may have replies that wait.
    peer = world.consumers[0]
    peer.channels[1].expected.append(m.QueuePurgeOk(len(queue.ready)))
    queue.purge()
    peer.client.send(m.QueuePurge(name))
    world.absorb()
