"""The ring of outstanding deliveries: tags, holes, growth, and what settling gives back."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from amqp_router.channel import delivery as delivery_module
from amqp_router.channel import tags as tags_module
from amqp_router.channel.consumer import ChannelConsumer, getter
from amqp_router.channel.consuming import consumer_prefix
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.listener import ChannelListener
from amqp_router.channel.returns import ALL_DELIVER_UNITS, ALONE, return_tag
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.output import Output
from tests.nodes import Received, decode
from tests.vhosts.queues.local import message, new_tick, transient_queue
from vhosts.queues.destination import UNHEARD
from vhosts.queues.handle import REDELIVERY_UNITS, UNLIMITED, Credit
from vhosts.queues.queue import Queue


class Listener(ChannelListener):
    """The channel, as far as the ring knows it."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.consumers: list[ChannelConsumer] = []

    def consumer_cancelled(self, consumer: ChannelConsumer) -> None:
        self.cancelled.append(consumer.tag)

    def credit_returned(self) -> None:
        for consumer in self.consumers:
            consumer.wake()

    def in_slices(self, step: Callable[[], bool]) -> None:
        while not step():
            pass


class Channel:
    """One channel's delivery side, its queues and its wire."""

    def __init__(self) -> None:
        self.tick = new_tick()
        self.listener = Listener()
        self.delivery = Delivery()
        self.delivery.number = 3
        self.delivery.body_payload_max = 4088
        self.delivery.out = Output()
        self.delivery.listener = self.listener
        self.wire = b""

    def queue(self, name: str = "q", count: int = 0) -> Queue:
        queue = transient_queue(name, tick=self.tick)
        for number in range(count):
            queue.publish(message(f"{name}{number}"))
        return queue

    def consume(
        self,
        queue: Queue,
        tag: str = "t",
        *,
        prefetch: int = 0,
        no_ack: bool = False,
        shared: Credit | None = None,
    ) -> ChannelConsumer:
        consumer = ChannelConsumer()
        consumer.tag = tag
        consumer.queue = queue
        consumer.no_ack = no_ack
        consumer.delivery = self.delivery
        consumer.output = self.delivery.out
        consumer.prefix = consumer_prefix(3, tag)
        consumer.limited = prefetch > 0
        consumer.credit = prefetch or UNLIMITED
        if shared is not None:
            consumer.shared = shared
        queue.add_consumer(consumer)
        self.listener.consumers.append(consumer)
        return consumer

    def received(self) -> list[Received]:
        while piece := self.delivery.out.next_piece():
            self.wire += piece
        found, _ = decode(self.wire, 4096)
        self.wire = b""
        return found

    def texts(self) -> list[tuple[int, str, bool]]:
        """Tag, body and redelivered flag of each delivery since the last look."""
        found = []
        for channel, method, _, body in self.received():
            assert channel == 3
            assert isinstance(method, m.BasicDeliver)
            found.append((method.delivery_tag, body.decode(), method.redelivered))
        return found


@pytest.fixture
def channel() -> Channel:
    return Channel()


def test_deliveries_on_the_wire(channel: Channel) -> None:
    queue = channel.queue()
    channel.consume(queue, "consumer")
    queue.publish(message("x" * 5000))
    queue.pump(10)
    (received,) = channel.received()
    assert received.method == m.BasicDeliver("consumer", 1, False, "", "q")
    assert received.properties == b"\0\0"
    assert received.body == b"x" * 5000


def test_consumer_tag_of_any_octets(channel: Channel) -> None:
    tag = b"\xff\xfe".decode("utf-8", "surrogateescape") + "x" * 253
    queue = channel.queue(count=1)
    channel.consume(queue, tag)
    queue.pump(1)
    assert channel.received()[0].method.consumer_tag == tag


def test_tags_are_shared_by_all_that_is_delivered(channel: Channel) -> None:
    queue, other = channel.queue("a", 2), channel.queue("b", 2)
    channel.consume(queue, "a")
    channel.consume(other, "b", no_ack=True)
    queue.pump(1)
    other.pump(2)
    channel.delivery.add(queue.take(False), getter(queue, channel.delivery))
    assert [tag for tag, _, _ in channel.texts()] == [1, 2, 3]
    assert channel.delivery.next_tag == 5
    assert channel.delivery.outstanding == 2


@pytest.mark.parametrize("tag", [0, 2, 3, 1 << 32, (1 << 64) - 1])
def test_unknown_tag(channel: Channel, tag: int) -> None:
    queue = channel.queue(count=1)
    channel.consume(queue)
    queue.pump(1)
    for settle in (channel.delivery.ack, channel.delivery.reject, partial(return_tag, channel.delivery)):
        for multiple in (False, True):
            if multiple and tag == 0:
                continue
            with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}$"):
                settle(tag, multiple)
    assert channel.delivery.outstanding == queue.unacked_count == 1


def test_tag_settled_twice(channel: Channel) -> None:
    queue = channel.queue(count=3)
    channel.consume(queue)
    queue.pump(3)
    for settle in (channel.delivery.ack, channel.delivery.reject, partial(return_tag, channel.delivery)):
        tag = channel.delivery.next_tag - channel.delivery.outstanding
        settle(tag, False)
        for again in (channel.delivery.ack, partial(return_tag, channel.delivery)):
            with pytest.raises(PreconditionFailed):
                again(tag, False)
            with pytest.raises(PreconditionFailed):
                again(tag, True)


def test_tag_of_a_place_used_again(channel: Channel) -> None:
    """After 16 more tags a new delivery stands in the ring where the settled one stood."""
    queue = channel.queue(count=40)
    channel.consume(queue, prefetch=1)
    for tag in range(1, 20):
        assert queue.pump(5) == 1
        channel.delivery.ack(tag, False)
    assert queue.pump(5) == 1
    assert len(channel.delivery.messages) == 16
    with pytest.raises(PreconditionFailed):
        channel.delivery.ack(4, False)
    channel.delivery.ack(20, False)


def test_multiple_covers_exactly_up_to_the_tag(channel: Channel) -> None:
    queue = channel.queue(count=6)
    channel.consume(queue)
    queue.pump(6)
    channel.delivery.ack(2, False)
    assert channel.delivery.ack(4, True) == 3
    assert channel.delivery.outstanding == queue.unacked_count == 2
    assert channel.delivery.base == 5
    assert channel.delivery.ack(0, True) == 2
    assert channel.delivery.ack(0, True) == 0
    assert return_tag(channel.delivery, 0, True) == 0


def test_zero_alone_is_no_tag(channel: Channel) -> None:
    for settle in (channel.delivery.ack, channel.delivery.reject, partial(return_tag, channel.delivery)):
        with pytest.raises(PreconditionFailed, match="unknown delivery tag 0"):
            settle(0, False)


def test_ring_grows_over_holes(channel: Channel) -> None:
    queue = channel.queue(count=200)
    channel.consume(queue)
    queue.pump(30)
    for tag in range(2, 31, 2):
        channel.delivery.ack(tag, False)
    queue.pump(170)
    assert channel.delivery.base == 1
    assert len(channel.delivery.messages) == len(channel.delivery.owners) == 256
    for tag in range(2, 31, 2):
        with pytest.raises(PreconditionFailed):
            channel.delivery.ack(tag, False)
    assert channel.delivery.ack(200, True) == 185
    assert channel.delivery.base == 201


def test_the_garbage_collector_does_not_look_at_a_large_ring(channel: Channel) -> None:
    """It would look at a new one of 65,536 places twice, 10 ms each time."""
    queue = channel.queue(count=5000)
    channel.consume(queue)
    queue.pump(1 << 30)
    delivery = channel.delivery
    assert len(delivery.messages) > tags_module.BLOCK_TAGS
    assert not gc.is_tracked(delivery.messages)
    assert not gc.is_tracked(delivery.owners)


def test_a_channel_that_is_dropped_as_it_is_can_be_collected(channel: Channel) -> None:
    """A node that is killed in a simulation gives nothing back first. What the collector does not see would
    keep all of it.
    """
    queue = channel.queue(count=1000)
    channel.consume(queue)
    queue.pump(1 << 30)
    delivery = channel.delivery
    assert len(delivery.messages) > 16
    assert gc.is_tracked(delivery.messages)
    assert gc.is_tracked(delivery.owners)


def test_ring_grows_under_deliveries_that_need_no_acknowledgement(channel: Channel) -> None:
    queue, other = channel.queue("a", 1), channel.queue("b", 100)
    channel.consume(queue, "a")
    channel.consume(other, "b", no_ack=True)
    queue.pump(1)
    other.pump(100)
    queue.publish(message("later"))
    queue.pump(1)
    assert channel.delivery.next_tag == 103
    channel.delivery.ack(1, False)
    channel.delivery.ack(102, False)
    assert channel.delivery.outstanding == 0


@pytest.mark.parametrize("no_ack", [False, True], ids=["acknowledged", "no-ack"])
def test_one_old_delivery_keeps_no_places_for_those_behind_it(channel: Channel, no_ack: bool) -> None:
    queue = channel.queue(count=1)
    owner = channel.consume(queue)
    queue.pump(1)
    delivery = channel.delivery
    last = 300_000
    while delivery.next_tag <= last:
        if no_ack:
            delivery.skip_tag()
        else:
            queue.unacked_count += 1
            queue.budget.used += 1000
            delivery.ack(delivery.add(message("later"), owner), False)
    assert delivery.outstanding == 1
    assert len(delivery.messages) == len(delivery.owners) <= 2 * tags_module.BLOCK_TAGS
    assert places(delivery) <= 16
    for wrong in (2, last // 2, last):
        with pytest.raises(PreconditionFailed):
            delivery.ack(wrong, False)
    delivery.requeue(1, ALONE)
    queue.pump(10)
    assert [text for _, text, _ in channel.texts()] == ["q0", "q0"]
    assert delivery.ack(0, True) == 1
    assert not delivery.older.blocks


def places(delivery: Delivery) -> int:
    """Places of the deliveries that left the ring."""
    return sum(len(block.messages) for block in delivery.older.blocks)


@pytest.mark.parametrize("how", ["ack", "reject", "requeue"])
def test_very_many_outstanding_are_settled_in_slices(channel: Channel, how: str) -> None:
    count = 150_000
    queue = channel.queue(count=count)
    channel.consume(queue)
    while queue.pump(4096):
        channel.received()
    delivery = channel.delivery
    assert delivery.outstanding == count
    assert len(delivery.messages) == tags_module.RING_PLACES_MAX
    slices: list[int] = []

    def in_slices(step: Callable[[], bool]) -> None:
        done = False
        while not done:
            before = delivery.outstanding
            done = step()
            slices.append(before - delivery.outstanding)

    channel.listener.in_slices = in_slices  # type: ignore[method-assign]
    last = count - 10_000
    settle = {"ack": delivery.ack, "reject": delivery.reject, "requeue": partial(return_tag, delivery)}
    settle[how](last, True)
    assert sum(slices) == last
    of = delivery_module
    most = {"ack": of.SETTLE_SLICE, "reject": of.REJECT_SLICE, "requeue": of.RETURN_SLICE}
    assert max(slices) == most[how]
    assert delivery.outstanding == queue.unacked_count == 10_000
    assert queue.message_count() == (last if how == "requeue" else 0)
    assert [tag for tag in (1, last, last + 1, count) if is_outstanding(delivery, tag)] == [last + 1, count]


def is_outstanding(delivery: Delivery, tag: int) -> bool:
    try:
        delivery.check(tag, False)
    except PreconditionFailed:
        return False
    return True


def test_requeue_puts_each_in_its_place(channel: Channel) -> None:
    queue = channel.queue(count=5)
    consumer = channel.consume(queue, prefetch=5)
    queue.pump(5)
    channel.texts()
    queue.publish(message("q5"))
    for tag in (4, 2, 5):
        channel.delivery.requeue(tag, ALONE)
    assert queue.message_count() == 4
    queue.pump(10)
    assert channel.texts() == [(6, "q1", True), (7, "q3", True), (8, "q4", True)]
    return_tag(channel.delivery, 0, True)
    assert consumer.unacked == 0
    queue.pump(20)
    assert [text for _, text, _ in channel.texts()] == ["q0", "q1", "q2", "q3", "q4"]
    channel.delivery.ack(0, True)
    queue.pump(10)
    assert channel.texts() == [(14, "q5", False)]


def test_release_in_slices(channel: Channel) -> None:
    queue = channel.queue(count=25)
    channel.consume(queue)
    queue.pump(25)
    channel.delivery.ack(3, False)
    rounds = 0
    while channel.delivery.requeue_some(25, 10, True) == 10:
        rounds += 1
        assert queue.message_count() == 10 * rounds
    assert queue.message_count() == 24
    assert channel.delivery.requeue_some(25, 10, True) == 0


def test_prefetch_is_given_back(channel: Channel) -> None:
    queue = channel.queue(count=10)
    consumer = channel.consume(queue, prefetch=3)
    assert queue.pump(10) == 3
    channel.delivery.ack(2, False)
    assert queue.pump(10) == 1
    channel.delivery.requeue(1, ALONE)
    channel.delivery.reject(3, False)
    assert queue.pump(10) == REDELIVERY_UNITS + 1
    assert consumer.credit == 0
    assert consumer.unacked == 3


def test_settling_touches_a_queue_with_consumers(channel: Channel) -> None:
    queue = channel.queue(count=3)
    consumer = channel.consume(queue, prefetch=2)
    queue.pump(9)
    for settle in (channel.delivery.ack, partial(return_tag, channel.delivery)):
        channel.tick.queues.clear()
        queue.dirty = False
        settle(channel.delivery.base, False)
        assert channel.tick.queues == [queue]
    queue.cancel(consumer, UNHEARD)
    channel.tick.queues.clear()
    queue.dirty = False
    queue.pump(1)
    assert channel.tick.queues == []


def test_limit_of_the_channel_counts_over_its_queues(channel: Channel) -> None:
    shared = Credit()
    shared.change(3)
    queue, other = channel.queue("a", 5), channel.queue("b", 5)
    channel.consume(queue, "a", shared=shared)
    channel.consume(other, "b", shared=shared)
    assert queue.pump(2) == 2
    assert other.pump(9) == 1
    assert queue.pump(9) == 0
    channel.delivery.ack(1, False)
    assert other.pump(9) == 1
    owner = getter(queue, channel.delivery)
    owner.shared = shared
    channel.delivery.add(queue.take(False), owner)
    assert shared.available == 0
    channel.delivery.ack(0, True)
    assert shared.available == 3


def test_owner_that_has_gone_still_gives_the_channel_its_credit(channel: Channel) -> None:
    shared = Credit()
    shared.change(1)
    queue = channel.queue("a", 2)
    consumer = channel.consume(queue, "a", shared=shared)
    queue.pump(9)
    queue.cancel(consumer, UNHEARD)
    channel.delivery.ack(1, False)
    assert shared.available == 1


def test_cancelled_consumer_is_reported(channel: Channel) -> None:
    queue = channel.queue("a", 2)
    channel.consume(queue, "t")
    queue.pump(2)
    assert queue.delete(0) == 0
    assert channel.listener.cancelled == ["t"]
    assert channel.delivery.ack(1, False) == 1
    assert channel.delivery.requeue(2, False) == 1
    assert queue.message_count() == 0
    assert queue.budget.used == 0


def test_settling_of_a_deleted_queue_does_not_touch_it(channel: Channel) -> None:
    queue = channel.queue("a", 2)
    channel.consume(queue, "t")
    queue.pump(2)
    queue.delete(0)
    queue.dirty = False
    channel.tick.queues.clear()
    channel.delivery.ack(1, False)
    channel.delivery.requeue(2, False)
    assert channel.tick.queues == []


# -- against a dictionary ---------------------------------------------------------------------------


PREFETCH = 60


def put_back(delivery: Delivery, tag: int, multiple: bool) -> int:
    """As ``return_tag``, but that queues do not deliver in between."""
    if not multiple:
        return delivery.requeue(tag, ALONE)
    delivery.check(tag, True)
    return delivery.requeue_up_to(tag or delivery.next_tag - 1, 1 << 40, ALONE)


class RingMachine(RuleBasedStateMachine):
    """Two queues; what is ready is a sorted list each, what is out a dictionary by tag."""

    def __init__(self) -> None:
        super().__init__()
        self.channel = Channel()
        self.queues = [self.channel.queue("0"), self.channel.queue("1")]
        self.serial = 0
        self.ready: list[list[int]] = [[], []]
        self.out: dict[int, tuple[int, int, bool]] = {}
        self.next_tag = 1
        self.returned: set[int] = set()
        self.consumers = [
            self.channel.consume(self.queues[0], "0", prefetch=PREFETCH),
            self.channel.consume(self.queues[1], "1", no_ack=True),
        ]

    @rule(queue=st.integers(0, 1), count=st.integers(1, 20))
    def publish(self, queue: int, count: int) -> None:
        for _ in range(count):
            self.serial += 1
            self.queues[queue].publish(message(self.serial))
            self.ready[queue].append(self.serial)

    @rule(queue=st.integers(0, 1), count=st.integers(1, 25))
    def pump(self, queue: int, count: int) -> None:
        room = count if queue else PREFETCH - self.mine()
        expected: list[int] = []
        units = 0
        while self.ready[queue] and units < count and len(expected) < room:
            expected.append(self.ready[queue].pop(0))
            units += REDELIVERY_UNITS if expected[-1] in self.returned else 1
        assert self.queues[queue].pump(count) == units
        texts = [(tag, int(text), flag) for tag, text, flag in self.channel.texts()]
        assert texts == [
            (self.next_tag + index, serial, serial in self.returned) for index, serial in enumerate(expected)
        ]
        for tag, serial, _ in texts:
            if queue == 0:
                self.out[tag] = (queue, serial, True)
        self.next_tag += len(texts)

    def mine(self) -> int:
        return sum(by_consumer for _, _, by_consumer in self.out.values())

    @rule(queue=st.integers(0, 1))
    def get(self, queue: int) -> None:
        found = self.queues[queue].take(False)
        if not self.ready[queue]:
            assert found is None
            return
        serial = self.ready[queue].pop(0)
        assert found is not None
        assert int(found.body()) == serial
        tag = self.channel.delivery.add(found, getter(self.queues[queue], self.channel.delivery))
        assert tag == self.next_tag
        self.out[tag] = (queue, serial, False)
        self.next_tag += 1

    @rule(number=st.integers(0, 200), how=st.sampled_from(["ack", "ack", "reject", "requeue"]))
    def settle_any(self, number: int, how: str) -> None:
        """One of those outstanding, however old."""
        if self.out:
            tag = sorted(self.out)[number % len(self.out)]
            self.settle(self.next_tag - 1 - tag, False, how)

    @rule(number=st.integers(0, 200), how=st.sampled_from(["ack", "reject", "requeue"]))
    def settle_up_to_any(self, number: int, how: str) -> None:
        if self.out:
            tag = sorted(self.out)[number % len(self.out)]
            self.settle(self.next_tag - 1 - tag, True, how)

    @rule(number=st.integers(0, 100))
    def settle_all_but_one(self, number: int) -> None:
        """One by one, so that a single delivery stays behind."""
        tags = sorted(self.out)
        if tags:
            del tags[number % len(tags)]
        for tag in tags:
            self.settle(self.next_tag - 1 - tag, False, "ack")

    @rule()
    def recover(self) -> None:
        self.settle(self.next_tag - 1, True, "requeue")

    @rule(serial=st.integers(1, 5000))
    def unknown(self, serial: int) -> None:
        tag = serial % (self.next_tag + 10)
        if tag not in self.out:
            self.settle(self.next_tag - 1 - tag, False, "ack")

    @rule()
    def cancel(self) -> None:
        """Another consumer takes the place of the first; what that one has stays outstanding."""
        self.queues[0].cancel(self.consumers[0], UNHEARD)
        self.out = {tag: (queue, serial, False) for tag, (queue, serial, _) in self.out.items()}
        self.consumers[0] = self.channel.consume(self.queues[0], "0", prefetch=PREFETCH)

    @rule(limit=st.integers(1, 30))
    def close(self, limit: int) -> None:
        """The channel closes; the next one goes on with the same queues and the tags behind."""
        while self.out:
            self.release(limit)

    def _covered(self, tag: int, multiple: bool) -> list[int] | None:
        """The tags that a method names; None if it must fail."""
        if multiple and tag == 0:
            return sorted(self.out)
        if tag not in self.out:
            return None
        return [each for each in sorted(self.out) if each <= tag] if multiple else [tag]

    @rule(back=st.integers(-1, 60), multiple=st.booleans(), how=st.sampled_from(["ack", "reject", "requeue"]))
    def settle(self, back: int, multiple: bool, how: str) -> None:
        tag = max(self.next_tag - 1 - back, 0)
        covered = self._covered(tag, multiple)
        delivery = self.channel.delivery
        method = partial(put_back, delivery) if how == "requeue" else getattr(delivery, how)
        if covered is None:
            with pytest.raises(PreconditionFailed):
                method(tag, multiple)
            return
        before = self.channel.delivery.outstanding
        assert method(tag, multiple) == len(covered) == before - self.channel.delivery.outstanding
        for each in covered:
            queue, serial, _ = self.out.pop(each)
            if how == "requeue":
                self.returned.add(serial)
                self.ready[queue] = sorted([*self.ready[queue], serial])

    @rule(limit=st.integers(1, 30))
    def release(self, limit: int) -> None:
        """All of them, ``limit`` at a time; between the slices newer messages wait (``test_returns``)."""
        done = limit
        while done == limit:
            done = self.channel.delivery.requeue_some(self.next_tag - 1, limit, True)
            for tag in sorted(self.out)[:limit]:
                queue, serial, _ = self.out.pop(tag)
                self.returned.add(serial)
                self.ready[queue] = sorted([*self.ready[queue], serial])
            self.counts_agree()
        assert not any(queue.ready.returning for queue in self.queues)

    @invariant()
    def counts_agree(self) -> None:
        delivery = self.channel.delivery
        assert delivery.outstanding == len(self.out)
        assert delivery.next_tag == self.next_tag
        assert delivery.base == min((tag for tag in self.out if tag >= delivery.base), default=self.next_tag)
        assert delivery.older.count == sum(tag < delivery.base for tag in self.out)
        assert [block.first for block in delivery.older.blocks] == delivery.older.firsts
        for block in delivery.older.blocks:
            assert 0 < block.live == sum(each is not None for each in block.messages)
            assert len(block.messages) == len(block.owners) <= max(16, 4 * block.live)
        assert len(delivery.messages) == len(delivery.owners) <= tags_module.RING_PLACES_MAX
        per_queue = Counter(queue for queue, _, _ in self.out.values())
        for number, queue in enumerate(self.queues):
            assert queue.message_count() == len(self.ready[number])
            assert queue.unacked_count == per_queue[number]
        assert self.consumers[0].unacked == self.mine()
        assert self.consumers[0].credit == PREFETCH - self.mine()


def make_small(monkeypatch: pytest.MonkeyPatch, ring: int, block: int) -> None:
    monkeypatch.setattr(tags_module, "RING_PLACES_MAX", ring)
    monkeypatch.setattr(tags_module, "BLOCK_TAGS", block)
    monkeypatch.setattr(delivery_module, "SETTLE_SLICE", 7)
    monkeypatch.setattr(delivery_module, "REJECT_SLICE", 6)
    monkeypatch.setattr(delivery_module, "RETURN_SLICE", 5)


@pytest.mark.parametrize("small", [False, True])
def test_ring_against_a_dictionary(monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    if small:
        make_small(monkeypatch, 16, 4)
    run_state_machine_as_test(
        RingMachine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )


@pytest.mark.parametrize(
    ("ring", "block"), [(16, 4), (16, 16), (32, 2), (64, 16), (64, 32), (128, 64)], ids=str
)
def test_old_deliveries_against_a_dictionary(monkeypatch: pytest.MonkeyPatch, ring: int, block: int) -> None:
    """Long walks that leave old deliveries behind, one here and there or all of them."""
    make_small(monkeypatch, ring, block)
    older = moved_together = 0
    for seed in range(16):
        choose = random.Random(seed)
        machine = RingMachine()
        acks = choose.choice([2, 8, 16])
        for _ in range(250):
            step = choose.choices(_STEPS, [10, 10, 6, acks, 1, 0.5, 0.3, 0.3, 0.1, 0.1, 0.3])[0]
            step(machine, choose)
            machine.counts_agree()
            blocks = machine.channel.delivery.older.blocks
            older += len(blocks)
            moved_together += sum(block.tags is not None for block in blocks)
    assert older > 200
    assert moved_together > 200 or block <= 16


def _any_how(choose: random.Random) -> str:
    return choose.choice(["ack", "ack", "ack", "reject", "requeue"])


_STEPS: list[Callable[[RingMachine, random.Random], None]] = [
    lambda machine, choose: machine.publish(choose.randrange(2), choose.randint(1, 20)),
    lambda machine, choose: machine.pump(choose.randrange(2), choose.randint(1, 25)),
    lambda machine, choose: machine.get(choose.randrange(2)),
    lambda machine, choose: machine.settle_any(choose.randrange(1000), _any_how(choose)),
    lambda machine, choose: machine.unknown(choose.randrange(1, 100_000)),
    lambda machine, choose: machine.settle_up_to_any(choose.randrange(1000), _any_how(choose)),
    lambda machine, choose: machine.settle_all_but_one(choose.randrange(1000)),
    lambda machine, choose: machine.release(choose.randint(1, 30)),
    lambda machine, choose: machine.recover(),
    lambda machine, choose: machine.close(choose.randint(1, 30)),
    lambda machine, choose: machine.cancel(),
]


@given(st.integers(1, 300), st.integers(1, 70))
@settings(max_examples=25, deadline=None)
def test_long_run_with_a_few_stragglers(count: int, keep_every: int) -> None:
    """Acks out of order with a tag left out now and then."""
    channel = Channel()
    queue = channel.queue(count=count)
    channel.consume(queue)
    queue.pump(count)
    kept = set(range(1, count + 1, keep_every))
    for tag in range(count, 0, -1):
        if tag not in kept:
            channel.delivery.ack(tag, False)
    assert channel.delivery.outstanding == len(kept)
    assert channel.delivery.ack(0, True) == len(kept)
    assert queue.budget.used == 0


def test_what_many_consumers_return_lets_a_queue_deliver_so_much_in_all() -> None:
    """A queue with much to deliver does so between the returns of any two of them, all in one turn."""
    channel, other = Channel(), Channel()
    queue = channel.queue(count=300)
    for number in range(300):
        channel.consume(queue, f"{number}", prefetch=1)
    queue.take_turn(1000)
    assert channel.delivery.outstanding == 300
    for number in range(20_000):
        queue.publish(message(f"late {number}"))
    other.consume(queue, no_ack=True)
    return_tag(channel.delivery, 0, True)
    assert 0 < other.delivery.deliver_no_ack_total <= ALL_DELIVER_UNITS
    assert channel.delivery.outstanding <= 300
