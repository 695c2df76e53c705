"""One message to very many queues, or to many that write it to disk at once: some of them a turn."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

from amqp_router.connection.machine import CHUNK_UNITS
from amqp_router.protocol import methods as m
from persistence.log.queue.page_log import BATCH_UNITS
from persistence.options import LogOptions
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from vhosts.publishing.spread import SPREAD_SLICE
from vhosts.queues.contents import SPILL_UNITS

QUEUES = 2000
FANOUT = m.BasicPublish("amq.fanout")


def node_with(queues: int, *, durable: bool = False, memory_bytes: int = 64 << 20) -> SimNode:
    """Queues ``q0``, ``q1`` ... bound to amq.fanout; paged messages go to disk with the one that follows."""
    node = SimNode(
        memory_bytes=memory_bytes, log_options=LogOptions(batch_bytes_max=100, new_logs_per_round=1000)
    )
    for number in range(queues):
        node.vhost.declare_queue(f"q{number}", durable=durable)
        node.vhost.bind_queue(f"q{number}", "amq.fanout", "", {}, None)
    node.settle()
    return node


def publish(properties: bytes = TRANSIENT) -> bytes:
    return b"".join(publish_frames(1, FANOUT, properties, b"x" * 100))


def reached(node: SimNode) -> int:
    return sum(queue.message_count() for queue in node.vhost.queues.values())


def page_writes(node: SimNode) -> Callable[[], int]:
    """Files written to since it was asked last."""
    written: set[str] = set()

    def hook(operation: str, path: str) -> None:
        if operation == "write" and "/paging/" in path:
            written.add(path)

    def new() -> int:
        count = len(written)
        written.clear()
        return count

    node.disk.hook = hook
    return new


def turns(client: Client, measure: Callable[[], int]) -> list[int]:
    """What ``measure`` gives after every turn until the chunk is done."""
    found = [measure()]
    while client.machine.work_left:
        client.machine.receive_more()
        found.append(measure())
    return found


def test_message_to_very_many_queues_goes_in_slices() -> None:
    node = node_with(QUEUES)
    client = Client(node).open(1)
    client.machine.receive_data(publish() + m.frame(1, m.QueueDeclare("q1999", passive=True)))
    counts = turns(client, partial(reached, node))
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(steps) <= CHUNK_UNITS + SPREAD_SLICE
    assert counts[-1] == QUEUES
    assert {queue.message_count() for queue in node.vhost.queues.values()} == {1}
    node.quiet()
    # The next frame waited until the message was everywhere.
    assert [each.method for each in client.take()] == [m.QueueDeclareOk("q1999", 1, 0)]


def test_message_that_many_queues_page_is_written_in_slices() -> None:
    node = node_with(400, memory_bytes=0)
    client = Client(node).open(1)
    client.feed(publish())
    node.quiet()
    new_writes = page_writes(node)
    client.machine.receive_data(publish() * 3)
    writes = turns(client, new_writes)
    assert sum(writes) == 1200  # each queue has a file of its own
    assert max(writes) <= (CHUNK_UNITS + SPREAD_SLICE) // BATCH_UNITS + 2
    assert {queue.message_count() for queue in node.vhost.queues.values()} == {4}


def test_one_publisher_does_not_wait_for_the_paging_of_another() -> None:
    node = node_with(400, memory_bytes=0)
    node.vhost.declare_queue("apart", durable=False)
    client, other = Client(node).open(1), Client(node).open(1)
    client.feed(publish())
    node.quiet()
    client.machine.receive_data(publish())
    assert client.machine.work_left
    other.machine.receive_data(b"".join(publish_frames(1, m.BasicPublish("", "apart"), TRANSIENT, b"x")))
    assert not other.machine.work_left
    assert node.queue("apart").message_count() == 1


def test_confirm_comes_when_all_queues_have_it() -> None:
    node = node_with(2200, durable=True)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.machine.receive_data(publish(PERSISTENT))
    assert client.machine.work_left
    node.tick.wake()
    node.sync_once()
    assert client.take() == []
    turns(client, partial(reached, node))
    node.tick.wake()
    node.settle()
    assert [each.method for each in client.take()] == [m.BasicAck(1, False)]
    assert client.machine.inflow.unsynced == 0


def test_queue_that_refuses_in_a_later_slice_is_a_nack() -> None:
    node = node_with(400, memory_bytes=0)
    client = Client(node).open(1)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(publish())
    node.quiet()
    assert [each.method for each in client.take()] == [m.BasicAck(1, False)]
    node.disk.fail("write", node.queue("q300").incarnation, error=errno.ENOSPC)
    client.machine.receive_data(publish() * 2)  # the second finds that the first is not written
    turns(client, partial(reached, node))
    node.tick.wake()
    node.quiet()
    heard = [each.method for each in client.take()]
    assert heard[-1] == m.BasicNack(3, False, True)
    assert node.queue("q301").message_count() == 3


def test_queue_deleted_meanwhile_gets_nothing() -> None:
    node = node_with(QUEUES)
    client, other = Client(node).open(1), Client(node).open(1)
    client.machine.receive_data(publish())
    last = node.queue("q1999")
    other.feed(m.frame(1, m.QueueDelete("q1999", nowait=True)))
    turns(client, partial(reached, node))
    assert last.message_count() == 0
    assert reached(node) == QUEUES - 1


def test_message_reaches_all_queues_though_its_publisher_is_gone() -> None:
    node = node_with(QUEUES)
    client = Client(node).open(1)
    client.machine.receive_data(publish())
    assert 0 < reached(node) < QUEUES
    client.machine.socket_gone()
    node.quiet()
    assert reached(node) == QUEUES


def test_contents_put_aside_are_counted() -> None:
    """A consumer that acknowledges nothing does not hold the turn with its writes."""
    node = SimNode(memory_bytes=0)
    client = Client(node).open(1)
    queue = client.declare("q")
    client.feed(b"".join(publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"x" * 100)) * 400)
    node.quiet()
    writes: list[str] = []

    def hook(operation: str, path: str) -> None:
        if operation == "write" and path.endswith(".spill"):
            writes.append(path)

    node.disk.hook = hook
    client.machine.receive_data(m.frame(1, m.BasicConsume("q", "t", nowait=True)))
    writes.clear()
    queue.pump(512)
    assert 0 < len(writes) < 512 // SPILL_UNITS + 3
    node.quiet()
    assert queue.unacked_count == 400
