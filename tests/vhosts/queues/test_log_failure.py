"""A queue whose log fails: it stops and says why, and nothing that was confirmed is changed."""

from __future__ import annotations

import pytest

from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from persistence.options import LogOptions
from tests.nodes import PERSISTENT, Client, SimNode
from tests.vhosts.queues.local import Sink, message, order, text_of
from vhosts.queues.queue import Queue
from vhosts.queues.state import FAILED, WORKING

OPTIONS = LogOptions(batch_bytes_max=600, segment_bytes_max=3000, read_bytes=500)


@pytest.fixture
def node() -> SimNode:
    return SimNode(log_options=OPTIONS)


@pytest.fixture
def queue(node: SimNode) -> Queue:
    """Ten messages, all synced."""
    node.vhost.declare_queue("d", durable=True)
    queue = node.queue("d")
    for number in range(10):
        queue.publish(message(number, persistent=True, size=100))
    node.tick.wake()
    node.settle()
    return queue


def test_backlog_that_cannot_be_read(node: SimNode, queue: Queue) -> None:
    sink = Sink(queue)
    queue.add_consumer(sink)
    node.disk.fail("read", ".log")
    assert queue.pump(99) == 0
    assert sink.is_cancelled
    assert "its log failed" in queue.reason
    assert "simulated" in queue.reason
    assert not queue.consumers
    assert not queue.publish(message("x", persistent=True))
    assert queue.take(True) is None


def test_returned_message_that_cannot_be_read(node: SimNode, queue: Queue) -> None:
    sink = Sink(queue)
    queue.add_consumer(sink)
    queue.pump(10)
    sink.requeue()
    node.disk.fail("read", ".log")
    assert queue.pump(9) == 0
    assert sink.is_cancelled
    assert queue.state == FAILED


def test_failure_is_told_to_clients_in_words(node: SimNode, queue: Queue) -> None:
    consumer, other = Client(node).open(1), Client(node).open(1)
    consumer.call(m.BasicQos(0, 1), m.BasicQosOk)
    consumer.send(m.BasicConsume("d", "t"))
    node.quiet()
    consumer.take()
    other.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    node.disk.fail("sync", ".log")
    other.publish(b"x", "d", properties=PERSISTENT)
    node.settle()
    assert [received.method for received in other.take()] == [m.BasicNack(1, False, True)]
    assert [received.method for received in consumer.take()] == [m.BasicCancel("t", True)]
    node.disk.hook = None
    for method in (m.BasicGet("d"), m.BasicConsume("d", "u"), m.QueuePurge("d")):
        client = Client(node).open(1)
        client.send(method)
        text = client.closed_with(errors.PreconditionFailed).reply_text
        assert text.startswith(
            "PRECONDITION_FAILED - queue 'd' in vhost '/' cannot be used: its log failed: "
        )
    consumer.send(m.BasicAck(1))
    node.settle()
    assert not node.faults
    assert other.call(m.QueueDeclare("d", True), m.QueueDeclareOk)


def test_failed_queue_can_be_deleted_and_declared_again(node: SimNode, queue: Queue) -> None:
    client = Client(node).open(1)
    node.disk.fail("sync", ".log")
    client.publish(b"x", "d", properties=PERSISTENT)
    node.settle()
    node.disk.hook = None
    client.send(m.QueueDelete("d"), m.QueueDeclare("d", durable=True), m.ConfirmSelect())
    client.publish(b"fresh", "d", properties=PERSISTENT)
    node.settle()
    assert [received.method.NAME for received in client.take()] == [
        "queue.delete-ok",
        "queue.declare-ok",
        "confirm.select-ok",
        "basic.ack",
    ]
    assert node.queue("d").message_count() == 1
    assert not node.disk.exists(f"data/queues/{queue.incarnation}")


def test_other_queues_go_on(node: SimNode, queue: Queue) -> None:
    client = Client(node).open(1)
    other = client.declare("e", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    node.disk.fail("write", queue.incarnation)
    client.publish(b"x", "d", properties=PERSISTENT)
    client.publish(b"x", "e", properties=PERSISTENT)
    node.settle()
    assert queue.state == FAILED
    assert other.state == WORKING
    assert [received.method for received in client.take()] == [
        m.BasicNack(1, False, True),
        m.BasicAck(2, False),
    ]


def test_what_was_confirmed_is_there_after_a_restart(node: SimNode, queue: Queue) -> None:
    sink = Sink(queue, 4)
    queue.add_consumer(sink)
    queue.pump(9)
    node.disk.fail("sync", ".log")
    queue.publish(message("lost", persistent=True))
    node.tick.wake()
    node.settle()
    assert queue.state == FAILED
    sink.ack()
    sink.requeue()
    node.disk.hook = None
    node.disk.forget_files()
    after = SimNode(node.disk, node.definitions, boot=2, log_options=OPTIONS)
    queue = after.queue("d")
    texts = []
    while (found := queue.take(True)) is not None:
        assert found.flags & 2
        texts.append(text_of(found))
    assert texts[:10] == [str(number) for number in range(10)]


def test_count_that_the_log_does_not_hold(node: SimNode, queue: Queue) -> None:
    """Whatever brought it about, the queue must not turn for ever."""
    order(queue).backlog += 1
    queue.ready.count += 1
    sink = Sink(queue)
    queue.add_consumer(sink)
    while queue.pump(99):
        pass
    assert len(sink.got) == 10
    assert sink.is_cancelled
    assert "not there" in queue.reason


def test_failing_twice_keeps_the_first_reason(node: SimNode, queue: Queue) -> None:
    queue.on_log_failed(queue.log, OSError("first"))
    queue.on_log_failed(queue.log, OSError("second"))
    assert queue.reason == "its log failed: first"
    assert node.events == [("queue failed", {"queue": "d", "vhost": "/", "reason": queue.reason})]


def test_definition_that_cannot_be_stored(node: SimNode) -> None:
    """The publisher hears at once; it must not wait for a confirm that never comes."""
    declaring, publishing = Client(node).open(1), Client(node).open(1)
    declaring.send(m.QueueDeclare("d", durable=True))
    publishing.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    publishing.publish(b"x", "d", properties=PERSISTENT)
    node.sync_once()
    assert publishing.take() == []
    queue = node.queue("d")
    queue.definition_failed(OSError("disk full"))
    node.quiet()
    assert [received.method for received in publishing.take()] == [m.BasicNack(1, False, True)]
    assert queue.reason == "its definition cannot be stored: disk full"
    publishing.publish(b"y", "d", properties=PERSISTENT)
    node.quiet()
    assert [received.method for received in publishing.take()] == [m.BasicNack(2, False, True)]
    assert not node.faults
