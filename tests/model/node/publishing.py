"""Messages are published, with confirms and without."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.model.node.setting import FANOUT
from tests.model.node.shadow import Publish, ShadowChannel, ShadowQueue
from tests.model.node.world import World
from tests.nodes import PERSISTENT, TRANSIENT, publish_frames


def publish(world: World, number: int, keys: list[str], persistent: list[bool], size: int) -> None:
    """Publishes in one chunk; a key is a queue's name, ``*`` for all of them, or nobody's."""
    world.moves["publish"] += 1
    channel = world.publisher.channels[number]
    data = []
    for key, is_persistent in zip(keys, persistent, strict=True):
        world.serial += 1
        body = (b"%d:" % world.serial).ljust(size, b".")
        route = (FANOUT, "") if key == "*" else ("", key)
        method = m.BasicPublish(*route, mandatory=key == "nobody")
        data += publish_frames(number, method, PERSISTENT if is_persistent else TRANSIENT, body)
        if key == "*":
            targets = [queue for queue in world.queues.values() if queue.is_bound]
        else:
            targets = [world.queues[key]] if key in world.queues else []
        passed_over = []
        if is_persistent:
            passed_over = [
                queue
                for queue in world.past.values()
                if not queue.is_removed and (key == queue.name or (key == "*" and queue.is_bound))
            ]
        if method.mandatory:
            channel.expected.append(m.BasicReturn(312, "NO_ROUTE", "", key))
        _published(world, channel, targets, passed_over, body, route, is_persistent)
    world.publisher.client.feed(b"".join(data))
    world.absorb()


def _published(
    world: World,
    channel: ShadowChannel,
    targets: list[ShadowQueue],
    passed_over: list[ShadowQueue],
    body: bytes,
    route: tuple[str, str],
    persistent: bool,
) -> None:
    taken = [
        (queue, queue.publish(world.serial, body, route, persistent=persistent))
        for queue in targets
        if not queue.failed and not queue.is_refusing
    ]
    if channel.confirming:
        publish = Publish(taken, passed_over, refused=len(taken) < len(targets))
        publish.is_unsafe = not world.is_storing and publish.depends_on_definitions()
        channel.unanswered[channel.next_sequence] = publish
        channel.next_sequence += 1


def select_confirms(world: World) -> None:
    """From now on the second channel has confirms too."""
    world.moves["confirm.select"] += 1
    channel = world.publisher.channels[2]
    channel.confirming = True
    channel.expected.append(m.ConfirmSelectOk())
    world.publisher.client.send(m.ConfirmSelect(), channel=2)
    world.absorb()
