"""Messages are acknowledged, rejected and requeued, also in transactions."""

from __future__ import annotations

from collections import Counter

from amqp_router.channel import returns
from amqp_router.protocol import methods as m
from tests.model.endings import letters, queues
from tests.model.endings.clients import Channel, Out
from tests.model.endings.queue import ModelQueue
from tests.model.endings.world import World


def settle(
    world: World, who: int, number: int, which: int, how: str, *, multiple: bool, follow: bool
) -> None:
    """Acknowledge, reject or requeue one delivery or all up to it; ``follow``: and at once look into the
    queue, while the node may still be at it.
    """
    peer, channel = world.channel(who, number)
    settled = channel.settled()
    # A transaction has settled all up to the last one with multiple, or none.
    free = sorted(tag for tag in channel.out if tag not in settled)
    if not free:
        return
    tag = free[which % len(free)]
    multiple = multiple and how != "reject"
    tags = [each for each in free if each <= tag] if multiple else [tag]
    world.moves[how + (" multiple" if multiple else "")] += 1
    method: m.Method
    if how == "ack":
        method = m.BasicAck(tag, multiple)
    elif how == "reject":
        method = m.BasicReject(tag, False)
    else:
        method = m.BasicNack(tag, multiple, how == "requeue")
    queue = channel.out[tag].queue
    follow = follow and not channel.is_transacted and queue.was_declared and not queue.deleted
    sent = [method, m.QueueDeclare(queue.name, passive=True)] if follow else [method]
    peer.client.send(*sent, channel=number)
    world.look()
    if channel.is_transacted:
        channel.settles.append((tags, how))
    else:
        note_settled(world, channel, tags, how)
    if follow:
        queues.looked_into(world, peer, channel, queue)
    world.compare()


def note_settled(world: World, channel: Channel, tags: list[int], how: str) -> None:
    """The lists hear what a client has done with these deliveries."""
    owners = {channel.out[tag].consumer for tag in tags}
    is_apart = len(owners) > 1 or (None in owners and len(tags) > 1)
    are_few = len(channel.out) <= returns.RETURN_SLICE
    if not channel.is_transacted:
        are_few |= max(tags) < min(channel.out) + returns.RETURN_SLICE
    if how == "requeue" and is_apart and are_few:
        _return_apart(world, [channel.out.pop(tag) for tag in sorted(tags)])
        return
    together: list[ModelQueue] = []
    for tag in tags:
        out = channel.out.pop(tag)
        if out.consumer is not None:
            out.consumer.out -= 1
        if how == "requeue":
            if len(tags) > 1 and out.consumer is not None and out.queue not in together:
                together.append(out.queue)
            world.lists.put_back(out.queue, out.entry, is_slice=out.queue in together)
        else:
            world.lists.settle(out.queue, out.entry, ack=how == "ack")
    for queue in together:
        world.lists.end_return(queue)


def _return_apart(world: World, outs: list[Out]) -> None:
    """As few as these come back consumer by consumer, and what a get took before that and one by one. The
    queue delivers between two of them.
    """
    for out in sorted(outs, key=Out.place):
        if out.consumer is not None:
            out.consumer.out -= 1
        world.lists.put_back(out.queue, out.entry)
        world.lists.pump(out.queue)


def end_settles(world: World, *, commit: bool) -> None:
    """Commit or roll back what the consumer with transactions has settled.

    What a full queue drops of messages that return one after the other is open, in RabbitMQ too: its
    consumers may get some of them before the last one is back. So is which is first at a queue: a letter,
    or what returns and the room that a consumer got.
    """
    peer, channel = world.channel(1, 2)
    commit = commit and not _returns_apart(channel) and not _settles_where_letters_come(world, channel)
    world.moves["commit of acks" if commit else "rollback of acks"] += 1
    settles, channel.settles = channel.settles, []
    peer.client.send(m.TxCommit() if commit else m.TxRollback(), channel=2)
    world.look()
    if commit:
        for tags, how in settles:
            note_settled(world, channel, tags, how)
    else:
        world.watch_anew()  # what was settled is out again
    channel.expected.append(m.TxCommitOk() if commit else m.TxRollbackOk())
    world.compare()


def _settles_where_letters_come(world: World, channel: Channel) -> bool:
    """Whether messages of a queue are settled that gets letters of what is settled with them."""
    settled = [(channel.out[tag].queue.name, how) for tags, how in channel.settles for tag in tags]
    fed = {into for name, how in settled if how != "ack" for into in letters.letters_go_to(world, name)}
    return any(name in fed for name, _ in settled)


def _returns_apart(channel: Channel) -> bool:
    """Whether messages of a queue with consumers are settled apart, some return, and it shows: the queue is
    full, or a later one came to it before.

    They return together unless a slice of the commit ends between them; slices are small here.
    """
    returned: set[ModelQueue] = set()
    found: dict[ModelQueue, list[int]] = {}
    times: Counter[ModelQueue] = Counter()
    for tags, how in channel.settles:
        of_these = {channel.out[tag].queue for tag in tags}
        times.update(of_these)
        for tag in tags:
            found.setdefault(channel.out[tag].queue, []).append(tag)
        if how == "requeue":
            returned |= of_these
    apart = [each for each in returned if each.consumers and times[each] > 1]
    return any(each.rules.is_limited or found[each] != sorted(found[each]) for each in apart)
