"""What one client can make the node hold: all of it is counted, and ends somewhere."""

from __future__ import annotations

import sys

import pytest

from amqp_router.connection.ports import ConnectionOptions
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import PreconditionFailed
from tests.connection.test_transport import opened
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from vhosts.queues.contents import SPILL_UNITS

MIB = 1 << 20


def content_start(channel: int, size: int, key: str = "q") -> bytes:
    """A publish and the header of a content of ``size`` bytes."""
    return b"".join(publish_frames(channel, m.BasicPublish("", key), TRANSIENT, bytes(size))[:2])


def closes(client: Client) -> list[m.ChannelClose]:
    client.node.quiet()
    return [each.method for each in client.take() if isinstance(each.method, m.ChannelClose)]


def test_returns_that_nobody_reads_stop_the_reading() -> None:
    """Also those that are larger than what is joined, and those of one chunk that is large."""
    node = SimNode(options=ConnectionOptions(output_bytes_max=4 * MIB))
    transport, sock = opened(node, 60)
    transport.pause_writing()
    transport.data_received(m.frame(1, m.ChannelOpen()))
    message = b"".join(publish_frames(1, m.BasicPublish("", "nobody", True), TRANSIENT, bytes(2 * MIB)))
    sent = 0
    while not sock.paused:
        for start in range(0, len(message), 1 << 18):
            transport.data_received(message[start : start + (1 << 18)])
            node.quiet()
        sent += 1
    assert sent == 2
    assert 4 * MIB < node.budget.held < 5 * MIB
    transport.resume_writing()
    node.quiet()
    assert not sock.paused
    assert node.budget.held == 0
    transport.connection_lost(None)


def test_gets_of_one_chunk_wait_until_their_answers_are_read() -> None:
    node = SimNode(options=ConnectionOptions(output_bytes_max=4 * MIB))
    node.vhost.declare_queue("q", durable=True)
    node.settle()
    publisher = Client(node).open(1)
    for _ in range(40):
        publisher.publish(bytes(MIB - 100), "q", properties=PERSISTENT)
        node.settle()
    transport, sock = opened(node, 60)
    transport.pause_writing()
    transport.data_received(m.frame(1, m.ChannelOpen()) + m.frame(1, m.BasicGet("q", True)) * 40)
    node.quiet()
    assert node.queue("q").message_count() == 36
    assert sock.paused
    for _ in range(200):
        transport.resume_writing()
        node.quiet()
    assert node.queue("q").message_count() == 0
    assert b"".join(sock.written).count(b"\x00\x3c\x00\x47") == 40
    assert node.budget.held == 0
    transport.connection_lost(None)


def test_account_forgets_a_connection_that_is_lost() -> None:
    node = SimNode()
    transport, _ = opened(node, 60)
    transport.pause_writing()
    transport.data_received(m.frame(1, m.ChannelOpen()) + m.frame(2, m.ChannelOpen()))
    transport.data_received(content_start(1, 5 * MIB) + m.frame(2, m.BasicGet("nothing")) + b"\x01\x00")
    node.quiet()
    assert node.budget.arriving == 5 * MIB
    assert node.budget.held > 5 * MIB
    transport.connection_lost(None)
    assert (node.budget.arriving, node.budget.held) == (0, 0)


def test_output_that_waits_for_a_commit_is_counted() -> None:
    node = SimNode(options=ConnectionOptions(output_bytes_max=4 * MIB))
    transport, sock = opened(node, 60)
    transport.data_received(m.frame(1, m.ChannelOpen()))
    transport.data_received(m.frame(1, m.QueueDeclare("d", durable=True)))
    message = b"".join(publish_frames(1, m.BasicPublish("", "nobody", True), TRANSIENT, bytes(MIB - 100)))
    for _ in range(5):
        transport.data_received(message)
        node.quiet()
    assert sock.paused
    assert node.budget.held > 4 * MIB
    node.settle()
    assert not sock.paused
    assert node.budget.held == 0
    transport.connection_lost(None)


def test_content_is_refused_at_its_header_and_an_admitted_one_completes() -> None:
    node = SimNode(memory_limit=64 * MIB)
    node.vhost.declare_queue("q", durable=False)
    client = Client(node).open(1, 2, 3)
    body = bytes(7 * MIB)
    frames = publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, body)
    client.feed(b"".join(frames[:3]))
    client.feed(content_start(2, MIB))
    assert closes(client) == []
    client.feed(content_start(3, MIB))
    (close,) = closes(client)
    assert close.reply_code == 406
    assert close.reply_text.startswith(
        "PRECONDITION_FAILED - message size 1048576 is larger than the memory left"
    )
    assert (close.class_id, close.method_id) == (60, 40)
    client.feed(b"".join(frames[3:]))
    node.quiet()
    assert node.queue("q").message_count() == 1
    assert node.budget.arriving == MIB


def test_only_content_of_a_connection_may_be_half_of_the_limit_all_together() -> None:
    node = SimNode(memory_limit=64 * MIB)
    one, other, third = (Client(node).open(1) for _ in range(3))
    one.feed(content_start(1, 32 * MIB + 1))
    assert [close.reply_code for close in closes(one)] == [406]
    other.feed(content_start(1, 32 * MIB))
    third.feed(content_start(1, 2 * MIB))
    assert closes(other) == []
    assert [close.reply_code for close in closes(third)] == [406]
    other.send(m.ChannelClose())
    node.quiet()
    assert node.budget.held == 0


@pytest.mark.parametrize("end", ["whole", "channel", "error", "connection"])
def test_room_of_a_content_comes_back(end: str) -> None:
    node = SimNode(memory_limit=64 * MIB)
    client = Client(node).open(1)
    frames = publish_frames(1, m.BasicPublish("", "nobody"), TRANSIENT, bytes(2 * MIB))
    client.feed(b"".join(frames[:4]))
    assert node.budget.arriving == 2 * MIB
    if end == "whole":
        client.feed(b"".join(frames[4:]))
    elif end == "error":
        client.feed(frames[1])
    elif end == "channel":
        client.machine.frames.number = 1
        client.machine._close_channel(PreconditionFailed("a test"))
    else:
        client.drop()
    node.quiet()
    assert node.budget.arriving == 0
    assert node.budget.held == 0


def test_alarm_follows_the_account() -> None:
    node = SimNode(memory_limit=100 * MIB)
    node.budget.held = 91 * MIB
    node.look_at_memory()
    assert node.alarms.names == ["memory"]
    node.budget.held = 81 * MIB
    node.look_at_memory()
    assert node.alarms.on
    node.budget.held = 79 * MIB
    node.look_at_memory()
    assert not node.alarms.on


def test_account_without_a_limit_never_sets_the_alarm() -> None:
    node = SimNode()
    node.budget.held = 1 << 50
    node.look_at_memory()
    assert not node.alarms.on


def test_contents_are_paged_at_a_quarter_of_a_small_limit() -> None:
    assert SimNode(memory_bytes=96 * MIB, memory_limit=64 * MIB).budget.limit == 16 * MIB
    assert SimNode(memory_bytes=96 * MIB, memory_limit=1024 * MIB).budget.limit == 96 * MIB


def test_client_that_reads_nothing_is_read_for_its_acknowledgements_up_to_an_end() -> None:
    node = SimNode(options=ConnectionOptions(output_bytes_max=MIB))
    node.vhost.declare_queue("q", durable=False)
    transport, sock = opened(node, 60)
    consume = m.frame(1, m.ChannelOpen()) + m.frame(1, m.BasicConsume("q", "c"))
    publish = b"".join(publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"x"))
    transport.data_received(consume + publish)
    node.quiet()
    transport.pause_writing()
    back = b"".join(publish_frames(1, m.BasicPublish("", "nobody", True), TRANSIENT, bytes(MIB // 2)))
    transport.data_received(back * 3)
    node.quiet()
    assert sock.paused
    for _ in range(5):
        node.sleep(0.05)
    assert not sock.paused
    transport.data_received(m.frame(1, m.BasicAck(1, False)) + back * 3)
    node.quiet()
    assert node.queue("q").unacked_count == 0
    held = node.budget.held
    for _ in range(10):
        node.sleep(0.05)
    assert sock.paused
    assert node.budget.held == held
    transport.connection_lost(None)


def test_unacknowledged_transients_go_to_disk_when_memory_is_short() -> None:
    """One connection publishes and consumes without prefetch; what it gives back comes again, in order."""
    node = SimNode(memory_bytes=MIB)
    client = Client(node).open(1)
    client.declare("q")
    client.send(m.BasicConsume("q", "c"))
    bodies = [b"%d." % number * 10_000 for number in range(200)]
    for body in bodies:
        client.publish(body, "q")
        node.quiet()
    assert [each.body for each in client.take()][-200:] == bodies
    assert node.queue("q").unacked_count == 200
    assert MIB < node.budget.used < 2 * MIB
    client.send(m.BasicAck(100, False))
    client.send(m.BasicReject(150, False))
    client.send(m.BasicNack(0, True, True))
    node.quiet()
    again = [each.body for each in client.take() if isinstance(each.method, m.BasicDeliver)]
    assert again == [*bodies[:99], *bodies[100:149], *bodies[150:]]
    assert node.budget.used < 2 * MIB
    client.send(m.BasicAck(0, True))
    node.quiet()
    assert node.budget.used == 0
    assert not [path for path in node.disk.list("data/paging") if path != "unacked-1.spill"]


@pytest.mark.parametrize("end", ["purge", "delete", "lost"])
def test_account_of_messages_put_aside_comes_back(end: str) -> None:
    node = SimNode(memory_bytes=MIB)
    client = Client(node).open(1)
    client.declare("q")
    for number in range(100):
        client.publish(bytes(20_000 + number), "q")
        client.send(m.BasicGet("q"))
    client.publish(bytes(2 * MIB), "q")
    client.send(m.BasicGet("q"))
    node.quiet()
    assert node.queue("q").unacked_count == 101
    queue = node.queue("q")
    if end == "delete":
        client.send(m.QueueDelete("q"))
        client.send(m.BasicNack(0, True, True))
    elif end == "lost":
        client.drop()
        node.quiet()
        assert queue.message_count() == 101
        queue.empty()
    else:
        client.send(m.BasicNack(0, True, True), m.QueuePurge("q"))
    node.settle()
    assert (queue.message_count(), queue.unacked_count, node.budget.used) == (0, 0, 0)


def test_a_delivery_that_goes_to_disk_costs_more_of_a_turn() -> None:
    node = SimNode(memory_bytes=1)
    client = Client(node).open(1)
    queue = client.declare("q")
    node.budget.limit = MIB
    for _ in range(100):
        client.publish(b"x" * 100, "q")
    client.send(m.BasicQos(prefetch_count=1), m.BasicConsume("q", "c"))
    node.quiet()
    assert queue.unacked_count == 1
    node.budget.limit = 1
    client.machine.channels[1].consumers["c"].credit = 1000
    queue.dispatch.turn = None
    client.machine.channels[1].consumers["c"].wake()
    assert queue.pump(50 * (1 + SPILL_UNITS)) == 50 * (1 + SPILL_UNITS)
    assert queue.unacked_count == 51


def test_large_piece_counts_as_a_whole_until_its_rest_is_written() -> None:
    """The rest is a view of the piece, and an empty one would keep all of it."""
    node = SimNode()
    transport, sock = opened(node, 60)
    piece = bytes(MIB)
    transport.machine.output.pieces.append(piece)
    transport.machine.output.piece_bytes += len(piece)
    write = sock.write

    def write_and_be_full(data: bytes | bytearray | memoryview) -> None:
        write(data)
        transport.pause_writing()

    sock.write = write_and_be_full  # type: ignore[method-assign]
    transport.flush()
    assert node.budget.held == MIB
    for _ in range(4):
        transport.resume_writing()
    assert b"".join(sock.written) == piece
    assert node.budget.held == 0
    sock.written.clear()
    assert sys.getrefcount(piece) == 2, "nobody but this test keeps the piece"
    transport.connection_lost(None)


@pytest.mark.parametrize("held", [0, 20 * MIB])
def test_unread_output_is_small_while_memory_is_scarce(held: int) -> None:
    """Many clients may have unread output, each less than ``output_bytes_max``."""
    node = SimNode(memory_limit=64 * MIB)
    node.vhost.declare_queue("q", durable=False)
    publisher = Client(node).open(1)
    for _ in range(20):
        publisher.publish(bytes(50_000), "q")
    node.settle()
    node.budget.held += held
    transport, sock = opened(node, 60)
    transport.pause_writing()
    transport.data_received(m.frame(1, m.ChannelOpen()))
    gets = 0
    while not sock.paused and gets < 20:
        transport.data_received(m.frame(1, m.BasicGet("q", True)))
        node.quiet()
        gets += 1
    assert gets == (2 if held else 20)
    transport.resume_writing()
    node.quiet()
    assert not sock.paused
    transport.connection_lost(None)
    assert node.budget.held == held
