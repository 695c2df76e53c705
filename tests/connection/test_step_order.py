"""Slices of one connection's work: their order, and who does them."""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.connection.slices import Slices


class Node:
    """Ticks when the test says so."""

    def __init__(self) -> None:
        self.slices: list[Callable[[], bool]] = []
        self.faults: list[BaseException] = []

    def in_slices(self, step: Callable[[], bool]) -> None:
        self.slices.append(step)

    def unexpected(self, where: str, error: BaseException) -> None:
        self.faults.append(error)

    def tick(self) -> None:
        self.slices = [step for step in self.slices if not step()]


class Step:
    """Takes ``turns`` turns, and writes its name down in each."""

    def __init__(self, name: str, turns: int, done: list[str]) -> None:
        self.name = name
        self.turns = turns
        self.done = done

    def __call__(self) -> bool:
        self.done.append(self.name)
        self.turns -= 1
        return self.turns == 0


def test_steps_are_done_in_order_by_the_ticker() -> None:
    node, done = Node(), list[str]()
    work = Slices(node, "peer")
    work.add(Step("a", 2, done))
    work.add(Step("b", 1, done))
    assert done == ["a"]
    assert work.waiting
    assert len(node.slices) == 1
    node.tick()
    assert done == ["a", "a", "b"]
    assert (work.waiting, work.handed, node.slices) == (False, False, [])


def test_nothing_is_handed_over_while_a_chunk_is_handled() -> None:
    node, done = Node(), list[str]()
    work = Slices(node, "peer")
    work.busy = True
    work.add(Step("a", 3, done))
    assert node.slices == []
    assert not work.run()
    work.busy = False
    work.hand_over()
    work.hand_over()
    assert len(node.slices) == 1
    node.tick()
    assert done == ["a", "a", "a"]


def test_step_that_is_done_at_once_waits_for_nobody() -> None:
    node, done = Node(), list[str]()
    work = Slices(node, "peer")
    work.add(Step("a", 1, done))
    assert (done, work.waiting, node.slices) == (["a"], False, [])


def test_step_that_fails_does_not_block_the_next() -> None:
    node, done = Node(), list[str]()
    work = Slices(node, "peer")
    fault = ValueError("a bug")

    def bad() -> bool:
        raise fault

    work.add(Step("a", 2, done))
    work.add(bad)
    work.add(Step("b", 1, done))
    node.tick()
    assert done == ["a", "a", "b"]
    assert node.faults == [fault]
