"""Random walks of one channel with two queues beside lists and a dictionary of what is out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from amqp_router.channel import delivery as delivery_module
from amqp_router.channel import tags as tags_module
from amqp_router.channel.consumer import getter
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.returns import ALONE
from amqp_router.protocol.errors import PreconditionFailed
from tests.channel.delivering import Channel
from tests.vhosts.queues.local import message
from vhosts.queues.destination import UNHEARD
from vhosts.queues.handle import REDELIVERY_UNITS

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
