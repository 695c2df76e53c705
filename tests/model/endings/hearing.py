"""What clients hear from the node, compared with what the lists foretell."""

from __future__ import annotations

from amqp_router.channel import returns
from amqp_router.protocol import methods as m
from tests.model.endings.clients import Channel, Out, Peer
from tests.model.endings.setting import Setting
from tests.model.endings.wire import check, read, serial_of
from tests.nodes import Received


def hear(world: Setting, peer: Peer, received: Received) -> None:
    """Compare one method that came to a client with what must come."""
    method, channel = received.method, peer.channels[received.channel]
    if isinstance(method, m.BasicDeliver):
        _hear_delivery(world, channel, method, received)
    elif isinstance(method, (m.BasicAck, m.BasicNack)):
        _hear_confirm(world, channel, method)
    elif isinstance(method, m.BasicCancel):
        channel.cancels.remove(method.consumer_tag)
    elif channel.late and type(method) is type(channel.late[0]):
        assert method == channel.late.pop(0)
        _note_answer(world, method)
    else:
        assert channel.expected, f"{peer.name} got {method} unasked"
        expected = channel.expected.pop(0)
        if isinstance(expected, m.ChannelClose) and isinstance(method, m.ChannelClose):
            assert method.reply_code == expected.reply_code, method
        else:
            assert method == expected, f"{peer.name} got {method} instead of {expected}"


def _note_answer(world: Setting, method: m.Method) -> None:
    if isinstance(method, m.QueueDeclareOk):
        world.declaring.pop(0).was_declared = True


def _hear_delivery(world: Setting, channel: Channel, method: m.BasicDeliver, received: Received) -> None:
    consumer = channel.consumers[method.consumer_tag]
    queue = consumer.queue
    assert consumer.credit() > 0, f"{method} beyond the prefetch limit"
    assert method.delivery_tag == channel.next_tag
    channel.next_tag += 1
    says, count = read(received.properties, method.exchange, method.routing_key)
    shown = (serial_of(received.body), says.deaths)
    # One consumer's messages come in order; of two consumers it is not known who was first.
    entry = next((each for each in queue.given if each.shown == shown), None)
    assert entry is not None, f"{queue.name} gave {says}, body {received.body[:9]!r}: not its turn"
    is_alone = not queue.arrived or queue.arrived + queue.returned <= 1
    is_ordered = queue.kind.priorities is None or is_alone
    assert entry.turn > consumer.last_turn or not is_ordered, f"{queue.name} gave {entry.serial} too late"
    consumer.last_turn = max(entry.turn, consumer.last_turn)
    queue.given.remove(entry)
    assert received.body == entry.body
    assert bool(method.redelivered) == entry.redelivered, f"redelivered flag of {entry.serial}"
    check(entry, queue, says, count, is_get=False)
    queue.out += 1
    if consumer.no_ack:
        world.lists.settle(queue, entry, ack=True)
    else:
        consumer.out += 1
        channel.out[method.delivery_tag] = Out(queue, entry, consumer, world.lists.now_us)


def _hear_confirm(world: Setting, channel: Channel, method: m.BasicAck | m.BasicNack) -> None:
    tag = method.delivery_tag
    assert tag in channel.unanswered, f"{method} answers nothing"
    for number in [n for n in channel.unanswered if n == tag or (method.multiple and n < tag)]:
        entries, is_refused = channel.unanswered.pop(number)
        is_nack = isinstance(method, m.BasicNack)
        assert is_nack == is_refused, f"{method} for publish {number}"
        world.moves["(nack)" if is_nack else "(ack)"] += 1
        if not is_nack:
            for entry in entries:
                entry.safe = True


def note_closed_channels(world: Setting) -> None:
    """Channels of consumers that the node has closed because of a timeout."""
    for peer, received in list(world.received):
        method = received.method
        if not isinstance(method, m.ChannelClose) or "timed out" not in method.reply_text:
            continue
        channel = peer.channels[received.channel]
        ages = [
            (world.lists.now_us - out.at_us, out.timeout_us())
            for tag, out in channel.out.items()
            if out.timeout_us() and tag not in channel.settled()
        ]
        assert any(age >= timeout for age, timeout in ages), f"{peer.name} timed out: {ages}"
        world.moves["(timed out)"] += 1
        # What came before the close is given back with the rest.
        mine = [pair for pair in world.received if pair[0] is peer and pair[1].channel == channel.number]
        world.received = [pair for pair in world.received if pair not in mine]
        assert [pair[1].method for pair in mine] == [method], mine
        give_back(world, channel, by_timeout=True)
        open_again(world, peer, channel)


def open_again(world: Setting, peer: Peer, channel: Channel) -> None:
    """Open the channel that the node has closed again."""
    channel.reset()
    opening = [m.ChannelCloseOk(), m.ChannelOpen()]
    channel.expected.append(m.ChannelOpenOk())
    if channel.is_transacted:
        opening.append(m.TxSelect())
        channel.expected.append(m.TxSelectOk())
    peer.client.send(*opening, channel=channel.number)
    world.look()


def give_back(world: Setting, channel: Channel, *, by_timeout: bool = False) -> None:
    """The channel is gone: its consumers leave, and what is out goes back."""
    for consumer in channel.consumers.values():
        consumer.queue.consumers.remove(consumer)
        consumer.queue.used_us = world.lists.now_us
    tags = sorted(channel.out)
    if len(tags) <= returns.RETURN_SLICE:
        # What a get took stands among consumers as if its number were the tag of one.
        tags.sort(key=lambda tag: (channel.out[tag].queue.name, channel.out[tag].place()[1] or str(tag)))
    for tag in tags:
        out = channel.out[tag]
        world.lists.put_back(out.queue, out.entry, by_timeout=by_timeout, is_slice=True)
    for queue in {out.queue.name: out.queue for out in channel.out.values()}.values():
        world.lists.end_return(queue)
    channel.reset()
