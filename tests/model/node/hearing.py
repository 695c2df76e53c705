"""What clients hear from the node, compared with what they must."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.model.node.setting import Peer, Setting
from tests.model.node.shadow import Out, ShadowChannel, ShadowQueue
from tests.nodes import PERSISTENT, TRANSIENT, Received


def hear(
    world: Setting, peer: Peer, received: Received, deliveries: dict[ShadowQueue, list[tuple[int, bool]]]
) -> None:
    """Compare one method that came to a client with what must come; ``deliveries`` gets each delivery."""
    method, channel = received.method, peer.channels[received.channel]
    if isinstance(method, m.BasicDeliver):
        _hear_delivery(channel, method, received, deliveries)
    elif isinstance(method, (m.BasicAck, m.BasicNack)):
        _hear_confirm(world, channel, method)
    elif isinstance(method, m.BasicCancel):
        channel.cancels.remove(method.consumer_tag)
    elif isinstance(method, m.BasicReturn):
        assert received.body
        channel.expected.remove(method)
    else:
        assert channel.expected, f"{peer.name} got {received} unasked"
        expected = channel.expected.pop(0)
        if isinstance(expected, m.ChannelClose):
            assert isinstance(method, m.ChannelClose)
            assert method.reply_code == expected.reply_code
        else:
            assert method == expected, f"{peer.name} got {method} instead of {expected}"
        _note_answer(world, peer, method)


def _note_answer(world: Setting, peer: Peer, method: m.Method) -> None:
    if peer is not world.admin:
        return
    queue = world.answers.pop(0)
    if isinstance(method, m.QueueDeclareOk):
        queue.is_declare_answered = True
    elif isinstance(method, m.QueueBindOk):
        queue.is_bind_answered = True
    elif isinstance(method, m.QueueDeleteOk):
        queue.is_delete_answered = True


def _hear_delivery(
    channel: ShadowChannel,
    method: m.BasicDeliver,
    received: Received,
    deliveries: dict[ShadowQueue, list[tuple[int, bool]]],
) -> None:
    consumer = channel.consumers[method.consumer_tag]
    queue = consumer.queue
    assert consumer.has_credit(), f"{method} beyond the prefetch limit"
    assert method.delivery_tag == channel.next_tag
    channel.next_tag += 1
    serial = int(received.body.partition(b":")[0])
    assert serial in queue.ready, f"{serial} is not ready in {queue.name}"
    entry = queue.entries[serial]
    assert received.body == entry.body
    assert (method.exchange, method.routing_key) == entry.route
    assert received.properties == (PERSISTENT if entry.persistent else TRANSIENT)
    assert bool(method.redelivered) == entry.redelivered, f"redelivered flag of {serial} is wrong"
    came = deliveries.setdefault(queue, [])
    # Of two consumers' deliveries it is not known which came first; of one's it is.
    position = queue.ready.index(serial)
    came.append((serial, entry.redelivered))
    del queue.ready[position]
    queue.ready.insert(0, serial)
    queue.take()
    if consumer.no_ack:
        queue.settle(serial)
    else:
        channel.out[method.delivery_tag] = Out(queue, serial, consumer)


def _hear_confirm(world: Setting, channel: ShadowChannel, method: m.BasicAck | m.BasicNack) -> None:
    tag = method.delivery_tag
    assert tag in channel.unanswered, f"{method} answers nothing"
    for number in [n for n in channel.unanswered if n == tag or (method.multiple and n < tag)]:
        publish = channel.unanswered.pop(number)
        if isinstance(method, m.BasicNack):
            world.moves["(nack)"] += 1
            assert publish.refused or publish.is_unsafe or any(queue.failed for queue, _ in publish.targets)
            continue
        world.moves["(ack)"] += 1
        assert not publish.refused
        assert not publish.is_unsafe
        for queue in publish.passed_over:
            assert queue.is_removed, f"confirmed past {queue.name}, which a crash brings back"
        for queue, entry in publish.targets:
            if entry.logged and not queue.is_removed:
                assert world.is_stored(queue), "confirmed before the definition"
                entry.safe = True
