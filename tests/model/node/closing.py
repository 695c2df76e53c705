"""Channels and connections end and are there again."""

from __future__ import annotations

from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import methods as m
from tests.model.node.setting import Peer
from tests.model.node.shadow import ShadowChannel
from tests.model.node.world import World


def closed_by_server(
    world: World, peer: Peer, channel: ShadowChannel, code: int, *, sent: bool = False
) -> None:
    """The server has closed the channel with this code, and the client opens it again.

    ``sent`` says whether the close was taken from what came already.
    """
    cancels = channel.cancels
    channel.close()
    channel.cancels = cancels if not sent else []
    if not sent:
        channel.expected.append(m.ChannelClose(code))
    world.absorb()
    channel.expected.append(m.ChannelOpenOk())
    peer.client.send(m.ChannelCloseOk(), m.ChannelOpen(), channel=channel.number)
    world.absorb()


def close_channel(world: World, who: int, number: int) -> None:
    """A client closes a channel and opens it again."""
    peer, channel = world.channel(who, number)
    world.moves["channel close"] += 1
    channel.close()
    channel.expected += [m.ChannelCloseOk(), m.ChannelOpenOk()]
    peer.client.send(m.ChannelClose(), m.ChannelOpen(), channel=number)
    world.absorb()


def lose_connection(world: World, who: int) -> None:
    """A client's socket is gone (the publisher is number 2); it comes back."""
    world.moves["connection lost"] += 1
    peer = [*world.consumers, world.publisher][who]
    for channel in peer.channels.values():
        channel.close()
    peer.client.drop()
    peer.client.machine.state = ConnectionState.CLOSED
    world.node.quiet()
    peer.connect(world.node)
    world.absorb()
