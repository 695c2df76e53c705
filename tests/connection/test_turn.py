"""A turn of the event loop ends, however many connections have something to read or work left."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from select import EPOLLHUP, EPOLLIN
from selectors import EVENT_READ, SelectorKey
from typing import Any

import pytest

from amqp_router.connection import turn as turn_module
from amqp_router.connection.turn import EVENTS_MAX, EVENTS_MIN, LINE_S, TURN_S, Gate, Poll, Turn

#: What one call takes, and how many of them fit into a turn and into the time of the line.
STEP_S = 0.001
READS, GOES_ON = int(TURN_S / STEP_S) + 1, int(LINE_S / STEP_S) + 1


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(turn_module, "monotonic", lambda: round(self.now, 6))


class Loop:
    """Turns of a loop with some that have something to read."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ready: deque[Callable[[], None]] = deque()
        self.turn = Turn()
        self.faults: list[BaseException] = []
        self.turn.serve(
            self.ready.append, lambda call: call(), lambda where, error: self.faults.append(error)
        )
        self.log: list[str] = []
        self.paused: set[str] = set()

    def gate(self, name: str) -> Gate:
        def read() -> None:
            self.clock.now += STEP_S
            self.log.append(name)

        class Socket:
            def is_reading(_) -> bool:
                return name not in self.paused

        return Gate(self.turn, Socket(), read)

    def run(self, *events: Callable[[], None]) -> list[str]:
        """One turn; who read or went on, in order."""
        self.log = []
        self.turn.is_over()
        self.turn.begin()
        calls = [*self.ready, *events]
        self.ready.clear()
        for call in calls:
            call()
        return self.log


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(Clock(monkeypatch))


def test_who_comes_after_the_end_reads_first_in_the_next_turn(loop: Loop) -> None:
    gates = {name: loop.gate(name) for name in "abcdefgh"}
    first = loop.run(*gates.values())
    assert first == list("abcdefgh")[:READS]
    # All have more to read: those that waited come first, and the loop tells of them again.
    second = loop.run(*gates.values())
    assert second == [*"abcdefgh"[READS:], "a", "b"]
    assert loop.run(*gates.values()) == ["c", "d", "e", "f", "g"]


def test_a_single_reader_reads_however_long_the_turn_was(loop: Loop) -> None:
    gate = loop.gate("a")
    loop.turn.begin()
    loop.clock.now += 1.0
    gate()
    assert loop.log == ["a"]


def test_who_is_paused_meanwhile_does_not_read(loop: Loop) -> None:
    gates = [loop.gate(name) for name in "abcdefgh"]
    loop.run(*gates)
    loop.paused.add("h")
    assert loop.run() == ["f", "g"]


def test_the_kernel_is_asked_for_as_many_as_were_served(loop: Loop) -> None:
    gates = [loop.gate(str(number)) for number in range(2 * EVENTS_MIN)]
    loop.run(*gates)
    assert loop.turn.events_max == EVENTS_MAX
    loop.run()
    assert loop.turn.events_max == max(EVENTS_MIN, READS)
    for _ in range(20):
        loop.run()
    assert loop.turn.events_max == EVENTS_MAX


def test_the_kernel_is_asked_for_no_more_than_there_are() -> None:
    asked: list[tuple[float, int]] = []
    keys = {number: SelectorKey(number, number, EVENT_READ, None) for number in range(3)}

    def ask(seconds: float, most: int) -> list[tuple[int, int]]:
        asked.append((round(seconds, 6), most))
        return [(2, EPOLLIN | EPOLLHUP), (7, EPOLLIN)]

    poll = Poll(ask, keys)
    assert poll.select(None) == poll.select(0) == poll.select(0.0101) == [(keys[2], EVENT_READ)]
    keys.clear()
    assert poll.select(-1) == []
    assert asked == [(-1.0, 3), (0.0, 3), (0.011, 3), (0.0, 1)]


def test_the_line_stops_and_leaves_time_for_readers(loop: Loop) -> None:
    def go_on(name: str) -> None:
        loop.clock.now += STEP_S
        loop.log.append(name)
        loop.turn.line_up(lambda: go_on(name))

    for name in "ABCDE":
        loop.turn.line_up(lambda name=name: go_on(name))  # type: ignore[misc]
    assert loop.run(loop.gate("r")) == [*"ABCDE"[:GOES_ON], "r"]
    assert loop.run(loop.gate("r")) == ["D", "E", "A", "r"]
    assert loop.run(loop.gate("r")) == ["B", "C", "D", "r"]


def test_the_line_after_a_long_agenda(loop: Loop) -> None:
    """One goes on in each turn, and one reads."""

    def agenda() -> None:
        loop.clock.now += 1.0

    loop.ready.append(agenda)
    for name in "AB":
        loop.turn.line_up(lambda name=name: loop.log.append(name))  # type: ignore[misc]
    assert loop.run(loop.gate("r"), loop.gate("s"))[:2] == ["A", "r"]
    assert loop.run()[0] == "B"


def test_what_comes_when_the_turn_has_taken_long_stands_in_the_line(loop: Loop) -> None:
    def step(name: str) -> None:
        loop.clock.now += STEP_S
        loop.log.append(name)

    def come() -> None:
        for name in "abcdefgh":
            loop.turn.in_time(partial(step, name))

    assert loop.run(come) == list("abcdefgh")[:GOES_ON]
    assert loop.run(come) == list("def")  # those that came first


def test_an_error_in_the_line_stops_nobody(loop: Loop) -> None:
    def fails() -> None:
        raise ValueError("a bug")

    loop.turn.line_up(fails)
    loop.turn.line_up(lambda: loop.log.append("A"))
    assert loop.run() == ["A"]
    assert [str(error) for error in loop.faults] == ["a bug"]


class Reader(asyncio.Protocol):
    def __init__(self, clock: Clock, read: list[int], number: int, turn: Turn) -> None:
        self.clock, self.read, self.number, self.turn = clock, read, number, turn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        turn_module.gate(self.turn, transport)

    def data_received(self, data: bytes) -> None:
        self.clock.now += STEP_S
        self.read.append(self.number)


def test_sockets_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty connections have something to read at once."""
    clock = Clock(monkeypatch)
    loop = turn_module.make_loop()
    turn = turn_module.turn_of(loop)
    turn.serve(loop.call_soon, lambda call: call(), lambda where, error: None)
    read: list[int] = []
    turns: list[int] = []

    async def live() -> None:
        pairs = [socket.socketpair() for _ in range(20)]
        made: list[Any] = []
        for number, (ours, _) in enumerate(pairs):
            ours.setblocking(False)
            make = lambda number=number: Reader(clock, read, number, turn)  # noqa: E731
            made.append(await loop.create_connection(make, sock=ours))
        await asyncio.sleep(0)
        for _, theirs in pairs:
            theirs.send(b"x")
        while len(read) < len(pairs):
            before = len(read)
            await asyncio.sleep(0)
            turns.append(len(read) - before)
        for transport, _ in made:
            transport.close()
        await asyncio.sleep(0)
        for _, theirs in pairs:
            theirs.close()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(live())
    assert sorted(read) == list(range(20))
    assert max(turns) <= READS
