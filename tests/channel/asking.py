"""A node whose queues answer when a test says so."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, Client, SimNode
from tests.toys.late_queue import LateQueue


class House:
    """A node with a late queue and messages in it, and a client with two channels."""

    def __init__(self, *, durable: bool = False, count: int = 3) -> None:
        self.node = SimNode()
        other = Client(self.node).open(1)
        self.node.vhost.declare_queue("q", durable=durable)
        self.node.vhost.declare_queue("r")
        for number in range(count):
            other.publish(b"%d" % number, "q", properties=PERSISTENT)
        self.node.settle()
        other.take()
        other.drop()
        self.client = Client(self.node).open(1, 2)

    @property
    def queue(self) -> LateQueue:
        found = self.node.vhost.queues["q"]
        assert isinstance(found, LateQueue)
        return found

    def arrive(self, index: int = 0) -> None:
        """The answer to one question arrives."""
        queue = self.queue
        question = queue.questions.pop(index)
        self.node.enter(question.arrive)
        self.node.settle()

    def consume(self, tag: str, queue: str = "q", channel: int = 1, *, no_ack: bool = False) -> None:
        """Start a consumer, which is answered at once."""
        self.client.send(m.BasicConsume(queue, tag, no_ack=no_ack), channel=channel)
        found = self.node.vhost.queues[queue]
        assert isinstance(found, LateQueue)
        self.node.enter(found.questions.pop().arrive)
        assert self.heard()[0] == (channel, "BasicConsumeOk")

    def heard(self) -> list[tuple[int, str]]:
        """Channels and names of what came."""
        self.node.settle()
        return [(each.channel, type(each.method).__name__) for each in self.client.take()]
