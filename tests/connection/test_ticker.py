"""The agenda of a turn: its order, its share for each queue, and that one fault spoils nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from amqp_router.connection.ticker import FRESH_UNITS, QUEUE_UNITS, SLICES_US, TICK_UNITS, Ticker
from amqp_router.protocol.tick import Tick
from vhosts.queues.handle import QueueHandle


class Loop:
    """Keeps what is called soon; ``others`` counts what else the loop has ready."""

    def __init__(self, start_round: Callable[[], None] | None = None) -> None:
        self.ready: deque[Callable[[], None]] = deque()
        self.others = 0
        self.done: list[str] = []
        #: CPU time in microseconds.
        self.cpu = 0
        self.faults: list[str] = []
        self.tick = Tick(self.ready.append)
        self.ticker = Ticker(
            self.tick,
            start_round or (lambda: self.done.append("round")),
            lambda: len(self.ready) + self.others,
            lambda where, error: self.faults.append(f"{where}: {error}"),
            lambda: None,
            lambda: self.cpu,
        )

    def turn(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def run(self, limit: int = 100) -> None:
        while self.ready:
            self.turn()
            limit -= 1
            assert limit, "the agenda does not come to an end"


class Item(QueueHandle):
    """Queue, channel and output in one, as the agenda sees them."""

    def __init__(self, loop: Loop, name: str, *, work: int = 0, fails: bool = False) -> None:
        super().__init__()
        self.loop = loop
        self.name = name
        self.work = work
        self.fails = fails
        self.dirty = True
        self.number = name
        self.owner = self
        self.failures: list[Exception] = []
        self.pumped: list[int] = []

    def touch(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.loop.tick.queues.append(self)
            self.loop.tick.wake()

    def take_turn(self, units: int) -> int:
        self.dirty = False
        self._do("pump")
        done = min(units, self.work)
        self.pumped.append(done)
        self.work -= done
        self.dirty = done >= units
        return done

    def emit_confirms(self) -> None:
        self._do("confirms")

    def flush(self) -> None:
        self._do("flush")

    def waiting_bytes(self) -> int:
        return self.work

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    def _do(self, what: str) -> None:
        self.loop.done.append(f"{what} {self.name}")
        if self.fails:
            raise RuntimeError(self.name)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_order_of_a_turn(loop: Loop) -> None:
    loop.tick.outputs.append(Item(loop, "o"))
    loop.tick.channels.append(Item(loop, "c"))
    loop.tick.queues.append(Item(loop, "q"))
    loop.ticker.in_slices(lambda: loop.done.append("slice") is None)
    loop.run()
    assert loop.done == ["slice", "pump q", "round", "confirms c", "flush o"]
    assert not loop.tick.scheduled


def test_wake_runs_the_agenda_once(loop: Loop) -> None:
    for _ in range(3):
        loop.tick.wake()
    assert len(loop.ready) == 1
    loop.run()
    loop.tick.wake()
    assert len(loop.ready) == 1


def test_what_comes_up_meanwhile_is_done_in_the_next_turn(loop: Loop) -> None:
    late = Item(loop, "late")

    def output_flushes() -> None:
        loop.done.append("flush first")
        loop.tick.queues.append(late)
        loop.tick.wake()

    first: Any = Item(loop, "first")
    first.flush = output_flushes
    loop.tick.outputs.append(first)
    loop.tick.wake()
    loop.turn()
    assert "pump late" not in loop.done
    loop.turn()
    assert "pump late" in loop.done
    assert not loop.ready


def test_slices_go_on_until_they_are_done(loop: Loop) -> None:
    left = {"a": 3, "b": 1}

    def step(name: str) -> bool:
        loop.done.append(name)
        left[name] -= 1
        return left[name] == 0

    loop.ticker.in_slices(lambda: step("a"))
    loop.ticker.in_slices(lambda: step("b"))
    loop.run()
    assert [name for name in loop.done if name != "round"] == ["a", "b", "a", "a"]


def test_no_further_slice_begins_in_a_turn_that_has_taken_long(loop: Loop) -> None:
    """Three slices of a fast machine's millisecond took 20 ms of a slow one."""
    left = {"a": 2, "b": 2, "c": 1}

    def step(name: str) -> bool:
        loop.done.append(name)
        loop.cpu += SLICES_US
        left[name] -= 1
        return left[name] == 0

    for name in left:
        loop.ticker.in_slices(partial(step, name))
    loop.run()
    assert loop.done == ["a", "round", "b", "round", "c", "round", "a", "round", "b", "round"]


def test_slice_that_adds_a_slice(loop: Loop) -> None:
    def first() -> bool:
        loop.ticker.in_slices(lambda: loop.done.append("second") is None)
        return True

    loop.ticker.in_slices(first)
    loop.run()
    assert "second" in loop.done


# -- handlers of the loop ---------------------------------------------------------------------------


def test_last_handler_of_a_turn_runs_the_agenda_itself(loop: Loop) -> None:
    loop.ticker.enter(loop.tick.wake)
    assert loop.done == ["round"]
    assert not loop.ready


def test_handler_with_others_behind_it_leaves_the_agenda_to_them(loop: Loop) -> None:
    loop.others = 1
    loop.ticker.enter(loop.tick.wake)
    assert loop.done == []
    assert len(loop.ready) == 1
    loop.ticker.enter(loop.tick.wake)
    assert len(loop.ready) == 1
    loop.others = 0
    loop.ticker.enter(list)
    assert loop.done == ["round"]
    loop.run()
    assert loop.done == ["round"]


def test_handler_without_work_runs_nothing(loop: Loop) -> None:
    loop.ticker.enter(list)
    assert loop.done == []
    assert not loop.ready


def test_handler_that_raises_leaves_the_agenda_in_order(loop: Loop) -> None:
    def handler() -> None:
        loop.tick.wake()
        raise RuntimeError("handler")

    with pytest.raises(RuntimeError, match="handler"):
        loop.ticker.enter(handler)
    assert loop.done == ["round"]
    loop.tick.wake()
    assert len(loop.ready) == 1


# -- shares -----------------------------------------------------------------------------------------


def test_each_queue_gets_its_share(loop: Loop) -> None:
    long, short = Item(loop, "long", work=5 * QUEUE_UNITS), Item(loop, "short", work=3)
    loop.tick.queues += [long, short]
    loop.tick.wake()
    loop.turn()
    assert (long.pumped, short.pumped) == ([FRESH_UNITS, QUEUE_UNITS], [3])
    loop.run()
    assert sum(long.pumped) == 5 * QUEUE_UNITS


def test_queues_beyond_the_share_of_a_turn_come_next(loop: Loop) -> None:
    count = 3 * TICK_UNITS // QUEUE_UNITS
    items = [Item(loop, str(number), work=QUEUE_UNITS) for number in range(count)]
    loop.tick.queues += items
    loop.tick.wake()
    loop.turn()
    assert sum(sum(item.pumped) for item in items) <= TICK_UNITS + QUEUE_UNITS
    assert not items[-1].pumped
    loop.run()
    assert all(sum(item.pumped) == QUEUE_UNITS for item in items)
    assert not any(item.dirty for item in items)


@pytest.mark.parametrize("place", ["before", "after"])
def test_one_does_not_wait_for_a_thousand_others(loop: Loop, place: str) -> None:
    crowd = [Item(loop, str(number), work=1) for number in range(1000)]
    one = Item(loop, "one", work=1)
    loop.tick.queues += [one, *crowd] if place == "before" else [*crowd, one]
    loop.tick.wake()
    loop.turn()
    assert one.pumped == [1]
    assert not crowd[500].pumped
    late = Item(loop, "late", work=1)
    loop.tick.queues.append(late)
    loop.turn()
    assert late.pumped == [1]
    loop.run()
    assert all(item.pumped == [1] for item in crowd)
    loop.run()
    assert all(item.pumped == [1] for item in crowd)


def test_the_crowd_gets_on_whatever_else_comes(loop: Loop) -> None:
    crowd = [Item(loop, str(number), work=1) for number in range(1000)]
    loop.tick.queues += crowd
    for turn in range(20):
        loop.tick.queues += [Item(loop, f"new {turn} {number}", work=FRESH_UNITS) for number in range(10)]
        loop.tick.wake()
        loop.turn()
    assert all(item.pumped == [1] for item in crowd)


def test_small_outputs_are_written_before_large_ones(loop: Loop) -> None:
    loop.tick.outputs += [Item(loop, "large", work=1 << 20), Item(loop, "small", work=10)]
    loop.tick.wake()
    loop.run()
    assert [entry for entry in loop.done if entry.startswith("flush")] == ["flush small", "flush large"]


# -- faults of ours ---------------------------------------------------------------------------------


def test_one_fault_spoils_nothing_else(loop: Loop) -> None:
    bad, good = Item(loop, "bad", fails=True), Item(loop, "good")
    for agenda in (loop.tick.queues, loop.tick.channels, loop.tick.outputs):
        agenda += [bad, good]
    loop.tick.wake()
    loop.run()
    assert loop.done == [
        "pump bad",
        "pump good",
        "round",
        "confirms bad",
        "confirms good",
        "flush bad",
        "flush good",
    ]
    assert len(loop.faults) == 2
    assert [str(error) for error in bad.failures] == ["bad"]
    loop.tick.wake()
    assert len(loop.ready) == 1


def test_slice_that_fails_is_not_tried_for_ever(loop: Loop) -> None:
    def bad() -> bool:
        raise RuntimeError("slice")

    loop.ticker.in_slices(bad)
    loop.ticker.in_slices(lambda: loop.done.append("good") is None)
    loop.tick.queues.append(Item(loop, "q"))
    loop.run()
    assert loop.done == ["good", "pump q", "round"]
    assert len(loop.faults) == 1


def test_sync_that_cannot_begin() -> None:
    def fails() -> None:
        raise RuntimeError("round")

    loop = Loop(fails)
    loop.tick.outputs.append(Item(loop, "o"))
    loop.tick.wake()
    loop.run()
    assert loop.done == ["flush o"]
    assert len(loop.faults) == 1


def test_slices_run_once_in_a_turn_of_the_loop() -> None:
    """A handler after them that runs the agenda itself sends what it has, without another slice."""
    loop = Loop()
    slices: list[int] = []

    def step() -> bool:
        slices.append(len(loop.done))
        return len(slices) == 3

    loop.ticker.in_slices(step)
    for turn in range(3):
        loop.turn()
        assert len(slices) == turn + 1
        handled = len(loop.done)
        loop.ticker.enter(loop.tick.wake)
        assert len(slices) == turn + 1
        if turn < 2:
            assert len(loop.done) == handled + 1
    loop.run()
    assert len(slices) == 3


def test_a_lone_handler_does_a_slice_at_once() -> None:
    loop = Loop()
    slices: list[None] = []

    def act() -> None:
        loop.ticker.in_slices(lambda: slices.append(None) or len(slices) == 2)

    loop.ticker.enter(act)
    loop.run()
    assert len(slices) == 2
