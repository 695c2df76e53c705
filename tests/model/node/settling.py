"""Messages are acknowledged, rejected and requeued."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.model.node import closing
from tests.model.node.world import World


def settle(world: World, who: int, number: int, which: int, multiple: bool, how: str) -> None:
    """Acknowledge, reject or requeue one outstanding tag, or all up to it (0: all)."""
    peer, channel = world.channel(who, number)
    if not channel.out:
        return
    multiple = multiple and how != "reject"
    tags = [0, *sorted(channel.out)] if multiple else sorted(channel.out)
    tag = tags[which % len(tags)]
    world.moves[how + (" multiple" if multiple else "")] += 1
    method = {
        "ack": m.BasicAck(tag, multiple),
        "nack": m.BasicNack(tag, multiple, False),
        "nack and requeue": m.BasicNack(tag, multiple, True),
        "reject": m.BasicReject(tag, False),
    }[how]
    for each in channel.covered(tag, multiple):
        if how == "nack and requeue":
            channel.put_back(each)
        else:
            channel.settle(each)
    peer.client.send(method, channel=number)
    world.absorb()


def recover(world: World, who: int, number: int) -> None:
    """A client gives back all that a channel has out."""
    peer, channel = world.channel(who, number)
    world.moves["recover"] += 1
    for tag in sorted(channel.out):
        channel.put_back(tag)
    channel.expected.append(m.BasicRecoverOk())
    peer.client.send(m.BasicRecover(True), channel=number)
    world.absorb()


def ack_unknown_tag(world: World, who: int, number: int, back: int, multiple: bool) -> None:
    """A tag that is settled already, or was never given: the channel closes, and all goes back."""
    peer, channel = world.channel(who, number)
    tag = channel.next_tag - back if back < channel.next_tag else channel.next_tag + 5
    if back % 2 and channel.out:
        # One that stood in the ring where another stands now.
        tag = max(max(channel.out) - 16 * (1 + back // 8), 1)
    if tag in channel.out or (tag == 0 and multiple):
        return
    world.moves["ack of an unknown tag"] += 1
    peer.client.send(m.BasicAck(tag, multiple), channel=number)
    closing.closed_by_server(world, peer, channel, 406)
