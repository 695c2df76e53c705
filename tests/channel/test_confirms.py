"""Publisher confirms: settles in any order, and the acks and nacks that the publisher gets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.channel.confirms import Confirms
from amqp_router.channel.listener import ChannelListener
from amqp_router.protocol import methods as m
from amqp_router.protocol._buf import Buf
from amqp_router.protocol.tick import Tick
from tests.nodes import decode


class Publisher(ChannelListener):
    """Confirms of channel 7, and the numbers it has been told of."""

    def __init__(self) -> None:
        self.tick = Tick(lambda callback: None)
        self.tick.callback = list
        self.confirms = Confirms()
        self.confirms.number = 7
        self.confirms.tick = self.tick
        self.confirms.owner = self
        #: Settled, and failed, as the channel was told.
        self.settled: set[int] = set()
        self.failed: set[int] = set()
        #: Answered, as the client understands it.
        self.acked: set[int] = set()
        self.nacked: set[int] = set()
        self.last = 0

    def settle(self, first: int, last: int, failed: bool = False) -> None:
        numbers = set(range(first, last + 1))
        assert not numbers & self.settled
        self.settled |= numbers
        if failed:
            self.failed |= numbers
        self.last = max(self.last, last)
        self.confirms.settle(first, last, failed)

    def emit(self) -> list[tuple[str, int, bool]]:
        """Let the channel emit, and take it in as a client does."""
        buf = Buf()
        self.confirms.emit(buf)
        answers = []
        for channel, method, _, _ in decode(buf.take())[0]:
            assert channel == 7
            assert isinstance(method, (m.BasicAck, m.BasicNack))
            answers.append((method.NAME, method.delivery_tag, method.multiple))
            self._hear(method)
        return answers

    def _hear(self, method: m.BasicAck | m.BasicNack) -> None:
        tag = method.delivery_tag
        numbers = set(range(1, tag + 1)) - self.acked - self.nacked if method.multiple else {tag}
        assert tag not in self.acked | self.nacked, "answered twice"
        assert numbers <= self.settled, "answered before it was settled"
        if isinstance(method, m.BasicNack):
            assert numbers <= self.failed
            self.nacked |= numbers
        else:
            assert not numbers & self.failed, "a lost message was acknowledged"
            self.acked |= numbers


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


def test_one(publisher: Publisher) -> None:
    publisher.settle(1, 1)
    assert publisher.emit() == [("basic.ack", 1, False)]
    assert publisher.emit() == []


def test_a_run_is_one_ack(publisher: Publisher) -> None:
    publisher.settle(1, 5)
    publisher.settle(6, 9)
    assert publisher.emit() == [("basic.ack", 9, True)]
    publisher.settle(10, 10)
    assert publisher.emit() == [("basic.ack", 10, False)]


def test_nothing_waits_for_an_earlier_one(publisher: Publisher) -> None:
    publisher.settle(2, 3)
    assert publisher.emit() == [("basic.ack", 2, False), ("basic.ack", 3, False)]
    publisher.settle(1, 1)
    assert publisher.emit() == [("basic.ack", 1, False)]
    publisher.settle(4, 5)
    assert publisher.emit() == [("basic.ack", 5, True)]


def test_a_gap_filled_in_the_same_tick(publisher: Publisher) -> None:
    publisher.settle(3, 4)
    publisher.settle(6, 6)
    publisher.settle(1, 2)
    assert publisher.emit() == [("basic.ack", 4, True), ("basic.ack", 6, False)]


def test_nacks_come_singly_and_before_an_ack_that_covers_them(publisher: Publisher) -> None:
    publisher.settle(2, 3, failed=True)
    publisher.settle(1, 1)
    publisher.settle(4, 4)
    assert publisher.emit() == [("basic.nack", 2, False), ("basic.nack", 3, False), ("basic.ack", 4, True)]


def test_nacks_alone(publisher: Publisher) -> None:
    publisher.settle(1, 2, failed=True)
    assert publisher.emit() == [("basic.nack", 1, False), ("basic.nack", 2, False)]
    publisher.settle(3, 3)
    assert publisher.emit() == [("basic.ack", 3, False)]


def test_a_gap_filled_by_a_nack(publisher: Publisher) -> None:
    publisher.settle(2, 2)
    publisher.settle(1, 1, failed=True)
    assert publisher.emit() == [("basic.nack", 1, False), ("basic.ack", 2, True)]


def test_owed_once_a_tick(publisher: Publisher) -> None:
    publisher.settle(1, 1)
    publisher.settle(3, 3)
    assert publisher.tick.channels == [publisher]
    publisher.tick.channels.clear()
    publisher.emit()
    publisher.settle(2, 2)
    assert publisher.tick.channels == [publisher]


def test_beyond_32_bits(publisher: Publisher) -> None:
    low = (1 << 40) + 5
    publisher.confirms.low = publisher.confirms.acked_to = low
    publisher.acked = publisher.settled = set()
    publisher.confirms.settle(low, low + 1, False)
    buf = Buf()
    publisher.confirms.emit(buf)
    ((_, method, _, _),) = decode(buf.take())[0]
    assert method == m.BasicAck(low + 1, True)


@st.composite
def histories(draw: Any) -> list[Any]:
    """Ranges that cover 1 to n, in any order, and emits (None) between them."""
    sizes = draw(st.lists(st.integers(1, 4), max_size=14))
    ranges = []
    first = 1
    for size in sizes:
        ranges.append((first, first + size - 1, draw(st.integers(0, 3)) == 0))
        first += size
    order = draw(st.permutations(ranges)) if draw(st.booleans()) else _nearly(draw, ranges)
    events: list[Any] = []
    for item in order:
        events.append(item)
        if draw(st.booleans()):
            events.append(None)
    return events


def _nearly(draw: Any, ranges: list[Any]) -> list[Any]:
    """Mostly in order, as syncs of a few logs are."""
    order = list(ranges)
    for index in range(len(order) - 1):
        if draw(st.integers(0, 4)) == 0:
            order[index], order[index + 1] = order[index + 1], order[index]
    return order


@given(histories())
def test_any_order(events: list[Any]) -> None:
    publisher = Publisher()
    for event in events:
        if event is None:
            publisher.emit()
            assert publisher.acked | publisher.nacked == publisher.settled, "something settled waits"
        else:
            publisher.settle(*event)
    publisher.emit()
    assert publisher.acked == publisher.settled - publisher.failed
    assert publisher.nacked == publisher.failed
    assert publisher.confirms.low == publisher.last + 1
    assert not publisher.confirms.ahead


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_settled_in_order_needs_one_ack_a_tick(emits: list[bool]) -> None:
    publisher = Publisher()
    answers = []
    for number, is_emitted in enumerate(emits, 1):
        publisher.settle(number, number)
        if is_emitted:
            answers += publisher.emit()
    answers += publisher.emit()
    assert len(answers) == sum(emits) + (not emits[-1])
