"""Messages are published, also in transactions."""

from __future__ import annotations

from typing import Any

from amqp_router.protocol import methods as m
from tests.model.endings import hearing, letters
from tests.model.endings.clients import Channel, Peer
from tests.model.endings.queue import Entry, ModelQueue
from tests.model.endings.says import Says
from tests.model.endings.setting import FANOUT
from tests.model.endings.wire import properties_of, serial_of
from tests.model.endings.world import World
from tests.nodes import publish_frames


def publish(world: World, messages: list[Says], sizes: list[int]) -> None:
    """Publish in one chunk, with confirms."""
    world.moves["publish"] += 1
    channel = world.publisher.channels[1]
    data = []
    bodies = [new_body(world, size) for size in sizes]
    for says, body in zip(messages, bodies, strict=True):
        method = m.BasicPublish(says.exchange, says.key)
        data += publish_frames(1, method, properties_of(says), body)
    world.publisher.client.feed(b"".join(data))
    world.look()
    for says, body in zip(messages, bodies, strict=True):
        entries, is_refused = published(world, _targets(world, says), says, body)
        channel.unanswered[channel.next_sequence] = (entries, is_refused)
        channel.next_sequence += 1
    world.compare()


def new_body(world: World, size: int) -> bytes:
    """A body of this size, or a little longer, that no other message has."""
    world.serial += 1
    return (b"%d:" % world.serial).ljust(size, b".")


def _targets(world: World, says: Says) -> list[ModelQueue]:
    """The queues that a message goes to."""
    if says.exchange == FANOUT:
        return [queue for queue in world.lists.queues.values() if queue.is_bound]
    return [world.lists.queues[says.key]] if says.key in world.lists.queues else []


def published(world: World, targets: list[ModelQueue], says: Says, body: bytes) -> tuple[list[Entry], bool]:
    """What the queues do with it: the entries taken, and whether one was refused."""
    entries, is_refused = [], False
    for queue in targets:
        if queue.deleted:
            continue  # since the transaction began
        entry = Entry(serial_of(body), body, says, set())
        if world.lists.publish(queue, entry):
            entries.append(entry)
        else:
            is_refused = True
    return entries, is_refused


def publish_in_transaction(world: World, messages: list[Says], sizes: list[int]) -> None:
    """Publish on the channel with transactions: nothing is seen of it before the commit."""
    world.moves["publish in a transaction"] += 1
    channel = world.publisher.channels[2]
    for says, size in zip(messages, sizes, strict=True):
        body = new_body(world, size)
        method = m.BasicPublish(says.exchange, says.key)
        world.publisher.client.feed(b"".join(publish_frames(2, method, properties_of(says), body)))
        channel.publishes.append((_targets(world, says), says, body))
    world.come_to_rest()


def end_publishes(world: World, *, commit: bool) -> None:
    """Commit or roll back what was published.

    If one queue gets messages of it and letters of another one, their order is open, in RabbitMQ too.
    """
    channel = world.publisher.channels[2]
    if channel.late:
        return  # the last commit still waits for the disk
    queues = {queue.name for targets, _, _ in channel.publishes for queue in targets}
    commit = commit and not any(queues & letters.letters_go_to(world, name) for name in queues)
    world.moves["commit of publishes" if commit else "rollback of publishes"] += 1
    publishes, channel.publishes = channel.publishes, []
    world.publisher.client.send(m.TxCommit() if commit else m.TxRollback(), channel=2)
    world.look()
    if not commit:
        channel.expected.append(m.TxRollbackOk())
        world.compare()
        return
    is_refused = False
    for targets, says, body in publishes:
        is_refused |= published(world, targets, says, body)[1]
    if is_refused:
        _close_when_told(world, world.publisher, channel)
    else:
        channel.late.append(m.TxCommitOk())
    world.compare()


def _close_when_told(world: World, peer: Peer, channel: Channel) -> None:
    """A commit has failed: the channel closes when the rest of it is on disk."""
    world.moves["(commit refused)"] += 1
    for _ in range(100):
        closes = [
            pair for pair in world.received if pair[0] is peer and isinstance(pair[1].method, m.ChannelClose)
        ]
        if closes:
            (pair,) = closes
            method: Any = pair[1].method
            assert (method.reply_code, pair[1].channel) == (406, channel.number), method
            world.received.remove(pair)
            hearing.open_again(world, peer, channel)
            return
        world.node.sync_once()
        world.node.commit()
        world.look()
    raise AssertionError("a commit that was refused has no answer")
