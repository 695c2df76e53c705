"""Queues of either kind, and messages for them."""

from __future__ import annotations

from collections.abc import Callable

from persistence.options import LogOptions
from tests.nodes import SimNode
from tests.vhosts.queues.local import message, transient_queue
from vhosts.queues.queue import Queue


def durable_queue(node: SimNode | None = None, *, memory_bytes: int = 64 << 20) -> Queue:
    """A queue with a log over a simulated disk; its definition is stored."""
    node = node or SimNode(memory_bytes=memory_bytes, log_options=LogOptions(batch_bytes_max=4000))
    queue, _ = node.vhost.declare_queue("d", durable=True)
    node.settle()
    assert isinstance(queue, Queue)
    return queue


MAKERS: dict[str, Callable[[], Queue]] = {"transient": transient_queue, "durable": durable_queue}


def fill(queue: Queue, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        assert queue.publish(message(number, persistent=True))


def settle_log(queue: Queue) -> None:
    """Sync what is in the log, as the node would."""
    queue.log.seal()
    submission = queue.log.take()
    submission.writer.write(submission.batches)
    submission.writer.sync()
    queue.log.written(submission.end, submission.generation)
