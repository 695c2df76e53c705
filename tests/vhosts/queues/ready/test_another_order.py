"""A ready order of one's own: last in, first out."""

from __future__ import annotations

from collections.abc import Iterator

from amqp_router.protocol.message import Message
from tests.vhosts.queues.local import Sink, drained, message, numbers, transient_queue
from vhosts.queues.contents import OVERHEAD
from vhosts.queues.destination import UNHEARD
from vhosts.queues.ready.order import ReadyOrder


class LastInFirstOut(ReadyOrder):
    """The newest message is the head; all contents stay in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[tuple[int, Message]] = []

    def push(self, message: Message, logged: bool) -> bool:
        self.contents.budget.used += message.size() + OVERHEAD
        self.put_back(message)
        return True

    def pop(self) -> Message | None:
        self.count = max(self.count - 1, 0)
        return self.stack.pop()[1] if self.stack else None

    def put_back(self, message: Message) -> None:
        self.stack.append((message.offset, message))
        self.stack.sort(key=lambda pair: pair[0])
        self.count += 1

    def drop_all(self, settle: bool) -> Iterator[Message]:
        dropped, self.stack, self.count = self.stack, [], 0
        return (message for _, message in dropped)


def test_the_newest_comes_first() -> None:
    queue = transient_queue()
    queue.use_order(LastInFirstOut())
    for number in range(5):
        queue.publish(message(number))
    sink = Sink(queue, 2)
    queue.add_consumer(sink)
    queue.pump(9)
    sink.requeue(0)
    assert queue.empty() == 4
    for number in range(5, 7):
        queue.publish(message(number))
    queue.cancel(sink, UNHEARD)
    assert (sink.got, drained(queue)) == (numbers(4, 3), numbers(6, 5))
    sink.ack()
    assert queue.budget.used == 0
