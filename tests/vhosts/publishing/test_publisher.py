"""The publish service as queues and other callers inside of the broker use it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amqp_router.protocol.errors import NotFound
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.output import Output
from amqp_router.protocol.properties import encode_properties
from tests.nodes import PERSISTENT, TRANSIENT, SimNode
from vhosts.exchanges.router import RouteCache
from vhosts.exchanges.walk import LOOKS_MAX
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Listener, Run
from vhosts.publishing.publisher import Publisher
from vhosts.queues.handle import Consumer


class Mover(Listener):
    """Publishes for the broker itself, and keeps what it hears."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.publisher = Publisher(
            node.vhost.table, RouteCache(node.vhost.table, None, node.budget), node.budget, self
        )
        self.heard: list[tuple[int, int, bool]] = []
        self.outcomes: list[tuple[int, Outcome]] = []

    def published(self, number: int, outcome: int, message: Message) -> None:
        self.outcomes.append((number, Outcome(outcome)))

    def run_done(self, run: Run) -> None:
        self.heard.append((run.first, run.last, run.failed))

    def in_slices(self, step: Callable[[], bool]) -> None:
        self.node.in_slices(step)

    def send(self, exchange: str, key: str, number: int = 0, properties: bytes = TRANSIENT) -> Outcome:
        return self.publisher.send(exchange, key, build_message(b"", properties, b"body"), number)


class Onward(Consumer):
    """Publishes what a queue delivers again, from inside of the queue's turn."""

    def __init__(self, mover: Mover, queue: str, key: str, times: int) -> None:
        super().__init__()
        self.no_ack = True
        self.output = Output()
        self.queue = mover.node.queue(queue)
        self.mover = mover
        self.key = key
        self.times = times
        self.queue.add_consumer(self)

    def deliver(self, message: Message) -> None:
        if self.times > 0:
            self.times -= 1
            self.mover.send("", self.key, 0, PERSISTENT)
            self.mover.publisher.close_run()


@pytest.fixture
def node() -> SimNode:
    node = SimNode()
    for name, durable in (("q", False), ("d", True)):
        node.vhost.declare_queue(name, durable=durable)
    node.settle()
    return node


def test_runs_of_consecutive_numbers(node: SimNode) -> None:
    mover = Mover(node)
    for number, (key, properties) in enumerate(
        (("d", PERSISTENT), ("d", PERSISTENT), ("q", PERSISTENT), ("d", PERSISTENT), ("d", TRANSIENT)), 1
    ):
        outcome = mover.send("", key, number, properties)
        assert outcome == (Outcome.WAITS if (key, properties) == ("d", PERSISTENT) else Outcome.TAKEN)
    mover.publisher.close_run()
    node.settle()
    assert mover.heard == [(1, 2, False), (4, 4, False)]
    mover.send("", "d", 0, PERSISTENT)
    mover.send("", "d", 0, PERSISTENT)
    mover.publisher.close_run()
    node.settle()
    assert mover.heard[2:] == [(0, 0, False)]


def test_the_broker_itself_may_publish_anywhere(node: SimNode) -> None:
    node.vhost.declare_exchange("inner", "fanout", internal=True)
    node.vhost.bind_queue("q", "inner", "", {}, None)
    assert Mover(node).send("inner", "k") == Outcome.TAKEN
    with pytest.raises(NotFound):
        Mover(node).send("none", "k")


@pytest.mark.parametrize(("source", "target"), [("q", "d"), ("d", "q"), ("q", "q"), ("d", "d")])
def test_a_queue_publishes_in_its_own_turn(node: SimNode, source: str, target: str) -> None:
    mover = Mover(node)
    Onward(mover, source, target, 3)
    for _ in range(3):
        mover.send("", source, 0, PERSISTENT)
    mover.publisher.close_run()
    node.settle()
    assert not node.faults
    assert node.queue(target).publish_total == (6 if source == target else 3)
    assert node.queue(source).message_count() == 0
    assert len(mover.heard) == (1 if source == "d" else 0) + (3 if target == "d" else 0)


def test_a_route_that_takes_long_to_find(node: SimNode) -> None:
    node.vhost.declare_exchange("wide", "headers")
    for number in range(LOOKS_MAX + 10):
        arguments = {"x-match": ("S", b"any"), "x": ("I", 1), "n": ("I", number)}
        node.vhost.bind_queue("d", "wide", str(number), arguments, None)
    node.settle()
    mover = Mover(node)
    properties = encode_properties({"headers": {"x": ("I", 1)}, "delivery_mode": 2})
    assert mover.send("wide", "", 7, properties) == Outcome.LATER
    node.settle()
    assert (mover.outcomes, mover.heard) == ([(7, Outcome.WAITS)], [(7, 7, False)])
    assert node.queue("d").message_count() == 1
    assert mover.send("wide", "k", 8, properties) == Outcome.LATER
    node.vhost.delete_exchange("wide")
    node.settle()
    assert mover.outcomes[1:] == [(8, Outcome.FAILED)]
