"""Work in slices: one chunk, one client or one queue cannot hold the event loop."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from amqp_router.channel.channel import RELEASE_SLICE
from amqp_router.channel.delivery import REJECT_SLICE, SETTLE_SLICE
from amqp_router.channel.transactions import DROP_SLICE
from amqp_router.connection import ticker
from amqp_router.connection.dispatch import DECLARING_UNITS
from amqp_router.connection.machine import CHUNK_UNITS, FRAME_UNITS
from amqp_router.connection.shared import EXCLUSIVE_SLICE
from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import methods as m
from amqp_router.protocol.message import build_message
from amqp_router.protocol.properties import encode_properties
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames, raw_frame
from vhosts.exchanges.exchange import End

FANOUT = m.BasicPublish("amq.fanout")
#: Properties of a request whose answer comes to its channel directly.
REQUEST = encode_properties({"reply_to": "amq.rabbitmq.reply-to"})


def fanout(node: SimNode, queues: int, *, durable: bool = False) -> None:
    for number in range(queues):
        node.vhost.declare_queue(f"q{number}", durable=durable)
        node.vhost.bind_queue(f"q{number}", "amq.fanout", "", {}, None)
    node.settle()


def publishes(count: int, properties: bytes = TRANSIENT) -> bytes:
    frames = []
    for number in range(count):
        frames += publish_frames(1, FANOUT, properties, b"%d" % number)
    return b"".join(frames)


def counts(node: SimNode) -> set[int]:
    return {queue.message_count() for queue in node.vhost.queues.values()}


def test_wide_fanout_of_one_chunk_is_done_in_slices() -> None:
    node = SimNode()
    fanout(node, 500)
    client = Client(node).open(1)
    client.machine.receive_data(publishes(40) + m.frame(1, m.BasicQos()))
    slices = 1
    done = 0
    while client.machine.work_left:
        count = node.queue("q0").message_count()
        assert 0 < (count - done) * 500 <= CHUNK_UNITS + 501
        done = count
        client.machine.receive_more()
        slices += 1
    assert slices == -(-41 // (CHUNK_UNITS // 500 + 1))
    assert counts(node) == {40}
    node.tick.wake()
    node.quiet()
    assert [received.method for received in client.take()] == [m.BasicQosOk()]


@pytest.mark.parametrize(("durable", "most"), [(False, 33), (True, 9)])
def test_many_declarations_are_done_in_slices(durable: bool, most: int) -> None:
    """Each takes tens of microseconds, and four times as many if the queue has a log."""
    node = SimNode()
    client = Client(node).open(1)
    declares = [
        m.frame(1, m.QueueDeclare(f"q{number}", durable=durable, nowait=True)) for number in range(90)
    ]
    client.machine.receive_data(b"".join(declares))
    done = 0
    while client.machine.work_left:
        assert most // 2 < len(node.vhost.queues) - done <= most
        done = len(node.vhost.queues)
        client.machine.receive_more()
    node.quiet()
    assert len(node.vhost.queues) == 90


def test_declarations_cost_what_they_take() -> None:
    """A slow machine took 10 ms for as many as a fast one does in one."""
    node = SimNode()
    take = node.vhost.topology.on_entered

    def takes_long(end: End) -> None:
        node.cpu += CHUNK_UNITS // 3 // DECLARING_UNITS - FRAME_UNITS
        take(end)

    node.vhost.topology.on_entered = takes_long
    client = Client(node).open(1)
    declares = [m.frame(1, m.QueueDeclare(f"q{number}", nowait=True)) for number in range(30)]
    client.machine.receive_data(b"".join(declares))
    counts = [len(node.vhost.queues)]
    while client.machine.work_left:
        client.machine.receive_more()
        counts.append(len(node.vhost.queues))
    assert counts == [4, 8, 12, 16, 20, 24, 28, 30]


def test_what_arrives_meanwhile_waits_its_turn() -> None:
    node = SimNode()
    fanout(node, 300)
    client = Client(node).open(1)
    data = publishes(60) + m.frame(1, m.QueuePurge("q0")) + publishes(60) + m.frame(1, m.QueueDelete("q1"))
    machine = client.machine
    machine.receive_data(data[:-7])
    assert machine.work_left
    machine.receive_data(data[-7:-3])
    machine.receive_data(data[-3:] + publishes(1))
    steps = 0
    while machine.work_left:
        machine.receive_more()
        steps += 1
    assert steps > 5
    node.tick.wake()
    node.quiet()
    assert [received.method for received in client.take()] == [m.QueuePurgeOk(60), m.QueueDeleteOk(120)]
    assert node.queue("q0").message_count() == 61
    assert node.queue("q2").message_count() == 121


def test_slices_through_the_loop_let_others_in() -> None:
    node = SimNode()
    fanout(node, 500)
    busy, other = Client(node).open(1), Client(node).open(1)
    busy.feed(publishes(80))
    turns = 0
    while busy.machine.work_left:
        other.send(m.BasicQos())
        node.turn()
        assert [received.method for received in other.take()] == [m.BasicQosOk()]
        turns += 1
    assert turns >= 8


def test_cut_content_while_work_is_left() -> None:
    """The chunk ends within a frame, and there is too much work before it."""
    node = SimNode()
    fanout(node, 500)
    client = Client(node).open(1)
    data = publishes(20)
    machine = client.machine
    machine.receive_data(data[:-2])
    while machine.work_left:
        machine.receive_more()
    assert counts(node) == {19}
    machine.receive_data(data[-2:])
    assert counts(node) == {20}


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_frame_made_whole_is_too_much_work_by_itself(cut: int) -> None:
    node = SimNode()
    fanout(node, CHUNK_UNITS + 10)
    client = Client(node).open(1)
    data = publishes(3)
    machine = client.machine
    first = len(data) // 3
    machine.receive_data(data[: first - cut])
    machine.receive_data(data[first - cut :])
    steps = 0
    while machine.work_left:
        machine.receive_more()
        steps += 1
    assert steps >= 2
    assert counts(node) == {3}


def test_connection_lost_while_work_is_left() -> None:
    node = SimNode()
    fanout(node, 500)
    client = Client(node).open(1)
    client.feed(publishes(40))
    assert client.machine.work_left
    client.drop()
    client.machine.state = ConnectionState.CLOSED
    node.quiet()
    assert not node.faults
    assert counts(node) == {node.queue("q0").message_count()}
    assert node.queue("q0").message_count() < 40


def test_error_while_work_is_left() -> None:
    node = SimNode()
    fanout(node, 500)
    client = Client(node).open(1)
    client.feed(publishes(20) + raw_frame(9, 0, b"") + publishes(5))
    node.quiet()
    assert counts(node) == {20}
    assert [received.method.NAME for received in client.take()] == ["connection.close"]


def test_runs_are_handed_over_with_every_slice() -> None:
    """Confirms do not wait for the end of a chunk that takes many turns."""
    node = SimNode()
    fanout(node, 100, durable=True)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.machine.receive_data(publishes(100, PERSISTENT))
    assert client.machine.work_left
    assert not client.machine.open_runs
    assert len(node.queue("q0").receipts.runs) == 1
    node.tick.wake()
    node.settle()
    (received,) = client.take()
    assert isinstance(received.method, m.BasicAck)
    assert 0 < received.method.delivery_tag < 100
    assert received.method.multiple


# -- acknowledgements, deliveries, releases ---------------------------------------------------------


def test_many_acks_in_one_chunk() -> None:
    node = SimNode()
    client = Client(node).open(1, 2)
    queue = client.declare("q")
    client.feed(b"".join(publish_frames(2, m.BasicPublish("", "q"), TRANSIENT, b"x") * 6000))
    client.send(m.BasicConsume("q", "t"))
    node.quiet()
    assert queue.unacked_count == 6000
    client.machine.receive_data(b"".join(m.frame(1, m.BasicAck(tag)) for tag in range(1, 6001)))
    assert client.machine.work_left
    left = queue.unacked_count
    assert left == 6000 - (CHUNK_UNITS + 1)
    while client.machine.work_left:
        client.machine.receive_more()
        assert left - queue.unacked_count <= CHUNK_UNITS + 1
        left = queue.unacked_count
    assert left == 0


@pytest.mark.parametrize(
    "frame",
    [
        raw_frame(3, 1, b"x"),
        raw_frame(8, 0, b""),
        m.frame(0, m.ConnectionUpdateSecret(b"", "")),
        m.frame(2, m.BasicGet("q")),
    ],
    ids=["body", "heartbeat", "update-secret", "method of a closing channel"],
)
def test_any_frame_costs_something(frame: bytes) -> None:
    """A chunk of 256 KiB has 29,000 body frames of one octet, which took 95 ms."""
    client = Client(SimNode()).open(1, 2)
    client.send(m.BasicGet("none"), channel=2)  # closes the channel, and nobody says close-ok
    client.node.quiet()
    header = raw_frame(2, 1, b"\0\x3c\0\0" + (10_000).to_bytes(8, "big") + b"\0\0")
    client.feed(m.frame(1, m.BasicPublish()) + header)
    client.machine.receive_data(frame * 5000)
    chunks = 1
    while client.machine.work_left:
        client.machine.receive_more()
        chunks += 1
    assert chunks >= 5000 * FRAME_UNITS // CHUNK_UNITS
    assert client.machine.running


def test_multiple_ack_counts_for_what_it_settles() -> None:
    node = SimNode()
    client = Client(node).open(1, 2)
    queue = client.declare("q")
    client.feed(b"".join(publish_frames(2, m.BasicPublish("", "q"), TRANSIENT, b"x") * 6000))
    client.send(m.BasicConsume("q", "t"))
    node.quiet()
    client.machine.receive_data(m.frame(1, m.BasicAck(4000, True)) + m.frame(1, m.BasicQos()))
    assert client.machine.work_left
    assert queue.unacked_count == 2000


@pytest.mark.parametrize("tag", [0, 10_000])
@pytest.mark.parametrize(
    "method", [m.BasicAck(0, True), m.BasicNack(0, multiple=True, requeue=False)], ids=["ack", "nack"]
)
def test_very_many_are_settled_over_several_turns(method: m.BasicAck | m.BasicNack, tag: int) -> None:
    # An ack of a million took the loop 0.15 s.
    node = SimNode()
    client = Client(node).open(1, 2)
    queue = client.declare("q")
    client.feed(b"".join(publish_frames(2, m.BasicPublish("", "q"), TRANSIENT, b"x") * 10_000))
    client.send(m.BasicConsume("q", "t"))
    node.quiet()
    assert queue.unacked_count == 10_000
    method = replace(method, delivery_tag=tag)
    machine = client.machine
    machine.receive_data(m.frame(1, method) + m.frame(1, m.BasicQos()))
    left = [queue.unacked_count]
    # What is delivered meanwhile is not meant by it.
    node.vhost.queues["q"].publish(build_message(b"\x00\x01q", TRANSIENT, b"late"))
    node.tick.wake()
    node.turn()
    assert queue.unacked_count == left[0] + 1
    while machine.work_left:
        machine.receive_more()
        left.append(queue.unacked_count)
    size = SETTLE_SLICE if isinstance(method, m.BasicAck) else REJECT_SLICE
    assert left[:2] == [10_000 - size, 10_001 - 2 * size]
    assert left[-1] == 1
    assert machine.channels[1].delivery.outstanding == 1
    node.quiet()
    assert client.take()[-1].method == m.BasicQosOk()


def test_deliveries_of_a_tick_are_shared_out() -> None:
    """A long backlog does not keep the loop from other queues and sockets."""
    node = SimNode()
    client = Client(node).open(1)
    queues = []
    for name in ("a", "b", "c", "d", "e", "f"):
        queue = client.declare(name)
        queues.append(queue)
        client.feed(b"".join(publish_frames(1, m.BasicPublish("", name), TRANSIENT, b"x") * 5000))
        node.quiet()
    before = [queue.deliver_no_ack_total for queue in queues]
    for queue in queues:
        client.machine.receive_data(m.frame(1, m.BasicConsume(queue.name, queue.name, no_ack=True)))
    first = [queue.deliver_no_ack_total - start for queue, start in zip(queues, before, strict=True)]
    node.tick.wake()
    node.turn()
    after = [queue.deliver_no_ack_total - start for queue, start in zip(queues, before, strict=True)]
    done = [late - early for late, early in zip(after, first, strict=True)]
    assert max(done) <= ticker.QUEUE_UNITS
    assert 0 < sum(done) <= ticker.TICK_UNITS
    node.quiet()
    assert [queue.message_count() for queue in queues] == [0] * 6


def test_release_of_many_messages_goes_on_in_later_turns() -> None:
    node = SimNode()
    client = Client(node).open(1, 2)
    queue = client.declare("q")
    for _ in range(5):
        client.feed(b"".join(publish_frames(2, m.BasicPublish("", "q"), TRANSIENT, b"x") * 5000))
        node.quiet()
    client.send(m.BasicConsume("q", "t"))
    node.quiet()
    assert queue.unacked_count == 25_000
    client.send(m.ChannelClose())
    assert queue.unacked_count == 25_001 - RELEASE_SLICE  # the consumer left first
    node.turn()
    assert queue.unacked_count == 25_001 - 2 * RELEASE_SLICE
    node.quiet()
    assert (queue.unacked_count, queue.message_count()) == (0, 25_000)
    client.send(m.QueuePurge("q", True), channel=2)
    assert queue.message_count() == 0
    assert node.budget.used > 0  # returned messages are dropped in slices as well
    node.quiet()
    assert node.budget.used == 0


def test_channels_of_a_lost_connection_go_in_slices() -> None:
    """Many connections may be lost in the same turn, each with as many channels."""
    node = SimNode()
    client = Client(node).open(*range(1, 601))
    queue = Client(node).open(1).declare("q")
    for number in range(1, 601):
        client.send(m.BasicConsume("q", f"{number}", nowait=True), channel=number)
    node.quiet()
    counts = [len(queue.consumers)]
    assert counts == [600]
    client.machine.socket_gone()
    while len(queue.consumers):
        counts.append(len(queue.consumers))
        node.turn()
    steps = [before - after for before, after in itertools.pairwise(counts)]
    assert 0 < max(steps) <= RELEASE_SLICE // 5


def test_transactions_of_a_lost_connection_go_in_slices() -> None:
    """Each is a small step; 2,047 channels with 1,000 publishes each took half a second together."""
    node = SimNode()
    client = Client(node).open(*range(1, 201))
    client.declare("q")
    publish = publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"x")
    for number in range(1, 201):
        client.send(m.TxSelect(), channel=number)
        frames = [frame[:1] + number.to_bytes(2, "big") + frame[3:] for frame in publish]
        client.feed(b"".join(frames) * 100)
    node.settle()
    waiting = [channel.transaction.publishes for channel in client.machine.channels.values()]
    counts = [sum(map(len, waiting))]
    assert counts == [200 * 100]
    client.machine.socket_gone()
    while any(waiting):
        counts.append(sum(map(len, waiting)))
        node.turn()
    steps = [before - after for before, after in itertools.pairwise(counts)]
    assert max(steps, default=len(waiting) * 100) <= DROP_SLICE
    node.settle()
    assert node.budget.arriving == 0


def test_exclusive_queues_go_in_slices() -> None:
    node = SimNode()
    client = Client(node).open(1)
    for number in range(450):
        client.send(m.QueueDeclare(f"x{number}", exclusive=True, nowait=True))
    client.machine.stop()
    assert len(node.vhost.queues) == 450 - EXCLUSIVE_SLICE
    node.turn()
    assert len(node.vhost.queues) == 450 - 2 * EXCLUSIVE_SLICE
    node.quiet()
    assert not node.vhost.queues


# -- a client that does not read --------------------------------------------------------------------


def test_client_that_does_not_read_gets_no_more_than_fits() -> None:
    node = SimNode()
    client, other = Client(node).open(1), Client(node).open(1)
    queue = client.declare("q")
    client.send(m.BasicConsume("q", "t", no_ack=True, nowait=True))
    client.reading = False
    for _ in range(100):
        other.publish(bytes(50_000), "q")
    node.quiet()
    assert client.machine.output.full
    assert client.machine.output.waiting_bytes() < (1 << 20) + 60_000
    assert 70 < queue.message_count() < 90
    client.reading = True
    client.flush()
    node.quiet()
    assert queue.message_count() == 0
    assert len(client.take()) == 100


def test_small_messages_for_a_client_that_does_not_read() -> None:
    node = SimNode()
    client, other = Client(node).open(1), Client(node).open(1)
    queue = client.declare("q")
    client.send(m.BasicConsume("q", "t", no_ack=True, nowait=True))
    client.reading = False
    chunk = b"".join(publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, bytes(200)) * 2000)
    for _ in range(10):
        other.feed(chunk)
        node.quiet()
    assert client.machine.output.waiting_bytes() < (1 << 20) + 300
    assert queue.message_count() > 10_000
    client.reading = True
    client.flush()
    node.quiet()
    assert queue.message_count() == 0


def test_queue_with_a_stuck_and_a_reading_consumer() -> None:
    node = SimNode()
    stuck, reading = Client(node).open(1), Client(node).open(1)
    queue = reading.declare("q")
    for client in (stuck, reading):
        client.send(m.BasicConsume("q", "t", no_ack=True, nowait=True))
    stuck.reading = False
    for _ in range(100):
        reading.publish(bytes(50_000), "q")
        node.quiet()
    assert queue.message_count() == 0
    assert len(reading.take()) > 70


@pytest.mark.parametrize(("key", "properties", "count"), [("nobody", TRANSIENT, 1500), ("q", REQUEST, 400)])
def test_what_costs_more_than_an_enqueue_is_less_of_a_turn(key: str, properties: bytes, count: int) -> None:
    """Messages that reach no queue, and requests that ask for a direct reply."""
    client = Client(SimNode()).open(1)
    client.declare("q")
    client.send(m.BasicConsume("amq.rabbitmq.reply-to", no_ack=True))
    frames = b"".join(publish_frames(1, m.BasicPublish("", key), properties, b"x"))
    client.machine.receive_data(frames * count)
    publishing = client.machine.channels[1].publishing
    assert client.machine.work_left
    assert 0 < publishing.publish_total < count
    client.machine.receive_more()
    assert publishing.publish_total > 0
