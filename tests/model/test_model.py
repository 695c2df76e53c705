"""The node against queues made of lists: whatever clients, disk, sync and power do, in any order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.model.node import closing, consuming, declaring, ends, publishing, settling, storing, waiting
from tests.model.node.ends import CRASH_POINTS
from tests.model.node.setting import MEMORY_BYTES, QUEUES
from tests.model.node.walk import close, walk
from tests.model.node.world import World
from tests.seeds import first_seeds

names = st.sampled_from([*QUEUES])
peers = st.integers(0, 1)
channels = st.integers(1, 2)
tags = st.sampled_from("xy")
seeds = st.integers(0, 1 << 20)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Logs that fail say so."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class NodeMachine(RuleBasedStateMachine):
    """Hypothesis chooses the moves of a ``World``; the comparing is done there."""

    total: ClassVar[Counter[str]] = Counter()

    @initialize(memory_bytes=st.sampled_from([0, MEMORY_BYTES, 1 << 20]), declared=st.sets(names))
    def begin(self, memory_bytes: int, declared: set[str]) -> None:
        self.world = World(memory_bytes)
        for name in sorted(declared):
            declaring.declare(self.world, name)

    @rule(
        number=channels,
        messages=st.lists(
            st.tuples(names | names | st.sampled_from(["*", "nobody"]), st.booleans()), min_size=1, max_size=6
        ),
        size=st.sampled_from([10, 60, 200, 900]),
        busy=st.booleans(),
    )
    def publish(self, number: int, messages: list[tuple[str, bool]], size: int, busy: bool) -> None:
        self.world.node.busy = busy
        publishing.publish(
            self.world, number, [key for key, _ in messages], [flag for _, flag in messages], size
        )

    @rule(who=peers, number=channels, name=names, tag=tags, no_ack=st.booleans())
    def consume(self, who: int, number: int, name: str, tag: str, no_ack: bool) -> None:
        consuming.consume(self.world, who, number, name, tag, no_ack=no_ack)

    @rule(who=peers, number=channels, tag=tags)
    def cancel(self, who: int, number: int, tag: str) -> None:
        consuming.cancel(self.world, who, number, tag)

    @rule(who=peers, number=channels, count=st.integers(0, 4), is_global=st.booleans())
    def qos(self, who: int, number: int, count: int, is_global: bool) -> None:
        consuming.qos(self.world, who, number, count, is_global=is_global)

    @rule(who=peers, number=channels, name=names, no_ack=st.booleans())
    def get(self, who: int, number: int, name: str, no_ack: bool) -> None:
        consuming.get(self.world, who, number, name, no_ack=no_ack)

    def _holding(self) -> list[tuple[int, int]]:
        peers = enumerate(self.world.consumers)
        return [(who, number) for who, peer in peers for number in (1, 2) if peer.channels[number].out]

    @precondition(lambda self: self._holding())
    @rule(
        data=st.data(),
        which=st.integers(0, 10),
        multiple=st.booleans(),
        how=st.sampled_from(["ack", "ack", "nack", "nack and requeue", "reject"]),
    )
    def settle(self, data: Any, which: int, multiple: bool, how: str) -> None:
        who, number = data.draw(st.sampled_from(self._holding()))
        settling.settle(self.world, who, number, which, multiple, how)

    @rule(who=peers, number=channels)
    def recover(self, who: int, number: int) -> None:
        settling.recover(self.world, who, number)

    @rule(who=peers, number=channels, back=st.integers(-1, 6), multiple=st.booleans())
    def ack_unknown_tag(self, who: int, number: int, back: int, multiple: bool) -> None:
        settling.ack_unknown_tag(self.world, who, number, back, multiple)

    @rule(who=peers, number=channels)
    def close_channel(self, who: int, number: int) -> None:
        closing.close_channel(self.world, who, number)

    @rule(who=st.integers(0, 2))
    def lose_connection(self, who: int) -> None:
        closing.lose_connection(self.world, who)

    @rule()
    def select_confirms(self) -> None:
        publishing.select_confirms(self.world)

    @rule(name=names)
    def purge(self, name: str) -> None:
        declaring.purge(self.world, name)

    @rule(name=names)
    def delete(self, name: str) -> None:
        declaring.delete(self.world, name)

    @rule(name=names)
    def declare(self, name: str) -> None:
        declaring.declare(self.world, name)

    @rule(lasting=st.booleans())
    def definitions_fail(self, lasting: bool) -> None:
        storing.fail_definitions(self.world, lasting=lasting)

    @rule()
    def definitions_heal(self) -> None:
        storing.heal_definitions(self.world)

    @rule(count=st.integers(1, 3))
    def commit(self, count: int) -> None:
        storing.commit(self.world, count)

    @precondition(lambda self: self.world.node.worker.jobs or self.world.node.flusher.has_job)
    @rule()
    def work(self) -> None:
        waiting.work(self.world)

    @precondition(lambda self: self.world.node.posted)
    @rule()
    def hear(self) -> None:
        waiting.hear(self.world)

    @rule()
    def settle_down(self) -> None:
        waiting.settle_down(self.world)

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.5, 61.0]))
    def sleep(self, seconds: float) -> None:
        waiting.sleep(self.world, seconds)

    @rule(
        operation=st.sampled_from(["sync", "write", "create", "rename", "sync_directory", "read"]),
        after=st.integers(0, 3),
    )
    def disk_fails(self, operation: str, after: int) -> None:
        ends.fail(self.world, operation, after)

    @rule()
    def restart(self) -> None:
        ends.restart(self.world)

    @rule()
    def kill(self) -> None:
        ends.kill(self.world)

    @rule(
        how=st.sampled_from(["crash", "unheard", "in stop", "at start"]), steps=st.integers(0, 15), seed=seeds
    )
    def crash(self, how: str, steps: int, seed: int) -> None:
        if how == "crash":
            ends.crash(self.world, seed)
        elif how == "unheard":
            ends.crash_unheard(self.world, seed)
        elif how == "in stop":
            ends.crash_in_stop(self.world, steps, seed)
        else:
            ends.crash_at_start(self.world, steps, seed)

    @rule(point=st.sampled_from([*CRASH_POINTS]), after=st.integers(0, 2), seed=seeds)
    def crash_at(self, point: str, after: int, seed: int) -> None:
        ends.crash_at(self.world, point, after, seed)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.node.busy = False
            close(self.world)
            NodeMachine.total += self.world.moves


def test_node_against_lists(moves: Counter[str]) -> None:
    NodeMachine.total = Counter()
    run_state_machine_as_test(
        NodeMachine, settings=settings(max_examples=80, stateful_step_count=50, deadline=None)
    )
    moves += NodeMachine.total


def test_long_walks(moves: Counter[str]) -> None:
    """More moves than hypothesis makes, from seeds."""
    for seed in first_seeds(60):
        moves += walk(seed, 150).moves


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_power_fails(point: str, moves: Counter[str]) -> None:
    """Each point of ``CRASH_POINTS`` is reached, and survived, a few times."""
    reached = 0
    for seed in range(60):
        random = Random(seed)
        world = World(MEMORY_BYTES)
        for name in QUEUES:
            declaring.declare(world, name)
        publishing.publish(world, 1, ["d", "e", "d", "t"], [True] * 4, 200)
        consuming.consume(world, 0, 1, "d", "x", no_ack=False)
        settling.settle(world, 0, 1, 0, False, "ack")
        reached += ends.crash_at(world, point, random.randrange(3), seed)
        close(world)
        moves += world.moves
        if reached == 4:
            return
    raise AssertionError(f"reached {reached} times only")
