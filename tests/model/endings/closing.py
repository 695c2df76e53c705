"""Channels and connections close, never so that the order in which messages return is open."""

from __future__ import annotations

from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import methods as m
from tests.model.endings import hearing, letters, settling
from tests.model.endings.clients import Peer
from tests.model.endings.queue import ModelQueue
from tests.model.endings.world import World


def close_channel(world: World, who: int, number: int) -> None:
    """A client closes a channel and opens it again."""
    peer, channel = world.channel(who, number)
    keep_letters_apart(world, who, number)
    world.moves["channel close"] += 1
    sent: list[m.Method] = [m.ChannelClose(), m.ChannelOpen()]
    if channel.is_transacted:
        sent.append(m.TxSelect())
    peer.client.send(*sent, channel=number)
    world.look()
    hearing.give_back(world, channel)
    channel.expected += [m.ChannelCloseOk(), m.ChannelOpenOk()]
    if channel.is_transacted:
        channel.expected.append(m.TxSelectOk())
    world.compare()


def lose_connection(world: World, who: int) -> None:
    """A consumer's socket is gone, and it comes back."""
    peer = world.consumers[who]
    close_all_but_one(world, peer)
    world.moves["connection lost"] += 1
    peer.client.drop()
    peer.client.machine.state = ConnectionState.CLOSED
    world.look()
    for channel in reversed(peer.channels.values()):  # in any order in RabbitMQ
        hearing.give_back(world, channel)
    world.compare()
    peer.connect(world.node)
    world.come_to_rest()


def close_all_but_one(world: World, *peers: Peer) -> None:
    """Close channels one by one until at most one has messages of a queue that drops some.

    Several that come to an end together give back in an order that is not foretold. What is over goes
    if it comes back before what stands in front of it.
    """
    timed = world.timed()
    is_seen = False
    for who, peer in enumerate(world.consumers):
        for number, channel in peer.channels.items():
            if peer in peers:
                keep_letters_apart(world, who, number)
            drops = any(_drops(out.queue) or out.queue in timed for out in channel.out.values())
            if peer in peers and drops and is_seen:
                close_channel(world, who, number)
            is_seen |= drops


def keep_letters_apart(world: World, who: int, number: int) -> None:
    """Acknowledge what would return to a queue that gets letters of what returns with it: which of them
    comes first is open.
    """
    _, channel = world.channel(who, number)
    timed = world.timed()
    names = {
        name
        for queue in {out.queue for out in channel.out.values()}
        if (_drops(queue) or queue in timed) and not queue.deleted
        for name in letters.letters_go_to(world, queue.name)
    }
    settled = channel.settled()
    for tag, out in sorted(channel.out.items()):
        if out.queue.name in names and (_drops(out.queue) or out.queue in timed) and tag not in settled:
            free = sorted(channel.out.keys() - channel.settled())
            settling.settle(world, who, number, free.index(tag), "ack", multiple=False, follow=False)
    if channel.is_transacted and channel.settled() != settled:
        settling.end_settles(world, commit=True)


def keep_timeouts_apart(world: World) -> None:
    """Close channels until no two can time out together that would give back to one queue, or one to a
    queue that gets letters because of the other one, if it shows which of them was first.

    In RabbitMQ, too, either may be first, and a queue drops what is too long after each of them.
    """
    returned: set[ModelQueue] = set()
    shown: set[ModelQueue] = set()
    fed: set[ModelQueue] = set()
    for who, peer in enumerate(world.consumers):
        for number, channel in peer.channels.items():
            settled = channel.settled()
            if not any(out.timeout_us() for tag, out in channel.out.items() if tag not in settled):
                continue
            keep_letters_apart(world, who, number)
            queues = {out.queue for out in channel.out.values()}
            timed = world.timed()
            drops = {queue for queue in queues if _drops(queue) or queue in timed}
            shows = {queue for queue in queues if _shows_order(queue) or queue in timed}
            names = {name for queue in drops for name in letters.letters_go_to(world, queue.name)}
            feeds = {queue for name, queue in world.lists.queues.items() if name in names}
            if shows & shown or drops & fed or feeds & returned:
                close_channel(world, who, number)
            returned, shown, fed = returned | drops, shown | shows, fed | feeds


def _drops(queue: ModelQueue) -> bool:
    """Whether what comes back may make a queue give up messages."""
    found = queue.rules
    return found.is_limited or found.ttl is not None or found.returns is not None


def _shows_order(queue: ModelQueue) -> bool:
    """Whether it shows which of two returns was first.

    Of many octets that come back at once more is dropped than of the same ones after each other. Otherwise
    the same messages are dropped, but their letters come in another order. A quorum queue gives again in the
    order of the returns.
    """
    found = queue.rules
    drops_octets = found.octets is not None and found.overflow == "drop-head"
    return queue.kind.quorum or drops_octets or (found.exchange is not None and _drops(queue))
