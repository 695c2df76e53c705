"""A walk on two brokers side by side, and what its first difference says."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.interop.differential.counting import uses
from tests.interop.differential.operations import Operations
from tests.interop.differential.sides import Place, Side, answers, in_comparable_order, message, wait_for
from tests.interop.differential.state import Channel, State, Step
from tests.interop.wire import Received

#: How long both may take to agree.
PATIENCE_S = 1.5

#: A delivery of a message that had been delivered before; and its consumer's tag.
LAST_DELIVERY = re.compile(r"basic\.deliver \{'tag': '(.*?)',.*?'redelivered': True")

#: The messages that each queue gave in a step and those that are left in it, in order.
Contents = dict[str, list[str]]
Shown = dict[Channel, list[str]]


class Walk(NamedTuple):
    """What became of one seed: its difference, and at which steps letters came in another order."""

    seed: int
    steps: int
    lines: list[str]
    restarts: list[int]
    #: What its steps used, see `counting.uses`.
    uses: dict[str, int]

    @property
    def differs_at(self) -> str:
        """The seed and step of the difference."""
        return self.lines[0] if self.lines else ""


def compare(
    places: Sequence[Place], seed: int, steps: int, shown_steps: int = 15, restarts: Sequence[int] = ()
) -> Walk:
    """Run one seed to its first difference. At ``restarts`` it goes on with fresh queues in any case."""
    walk = _Walk(places, seed, shown_steps)
    done: list[int] = []
    try:
        while walk.number < steps:
            lines = walk.step()
            if walk.number in restarts or (lines and walk.differs_by_order()):
                done.append(walk.number)
                walk.start_anew()
            elif lines:
                return Walk(seed, walk.number, lines, done, walk.uses)
    finally:
        walk.end()
    return Walk(seed, steps, [], done, walk.uses)


class _Walk:
    def __init__(self, places: Sequence[Place], seed: int, shown_steps: int) -> None:
        self.seed = seed
        self.number = 0
        self.uses: Counter[str] = Counter()
        self._places = places
        self._shown_steps = shown_steps
        self._begin()

    def _begin(self) -> None:
        self._state = State()
        self._operations = Operations(f"{self.seed}/{self.number}" if self.number else self.seed, self._state)
        self._history: list[Step] = []
        self._sides = [Side(place, f"walk-{self.seed}") for place in self._places]
        for side in self._sides:
            side.begin()

    def start_anew(self) -> None:
        """Go on with fresh queues, as a walk with random numbers of its own."""
        self.end()
        self._begin()

    def end(self) -> None:
        for side in self._sides:
            side.end()

    def step(self) -> list[str]:
        """Take a step; the lines that tell of a difference, if there is one."""
        step = self._operations.next()
        self.number += 1
        self._history.append(step)
        self.uses.update(uses(step, self._state))
        is_late = self._state.returns_late(step)
        for side in self._sides:
            side.do(step)
        wait_for(step, self._sides)
        self._shown: list[Shown] = [{} for _ in self._sides]
        self._received: list[list[tuple[Channel, Received]]] = [[] for _ in self._sides]
        end = time.monotonic() + PATIENCE_S
        while True:
            for number, new in enumerate(answers(self._sides)):
                self._received[number] += new
                seen = self._shown[number]
                for key, lines in self._sides[number].shown(new).items():
                    seen[key] = in_comparable_order(seen.get(key, []) + lines)
                if number == len(self._sides) - 1:
                    self._state.learn(step, new)
            for shown in self._shown:
                drop_last_deliveries(shown, is_late)
            is_same = self._shown[0] == self._shown[1]
            if time.monotonic() > end or (is_same and (self._shown[0] or not step.is_answered)):
                break
        if is_same:
            return []
        told = [f"  {each}" for each in self._history[-self._shown_steps :]]
        return [f"seed {self.seed}, step {self.number}:", *told, *_difference(self._places, self._shown)]

    def differs_by_order(self) -> bool:
        """Whether nothing differs but the order of dead letters of several queues. Takes all messages of all
        queues.
        """
        if differ_by_letters(*self._shown):
            return True
        if any(_without_messages(self._shown[0]) != _without_messages(shown) for shown in self._shown):
            return False
        step = self._history[-1]
        ours, theirs = (
            contents_after(step, self._state.queue_of, received, side.contents())
            for side, received in zip(self._sides, self._received, strict=True)
        )
        return same_but_letters(ours, theirs)


def drop_last_deliveries(shown: Shown, is_late: Callable[[Channel, str], bool]) -> None:
    """Leave out what a connection got redelivered from some queues while the broker closed it.

    What a failed channel had comes to the other one before connection.close. RabbitMQ's classic queues
    without a consumer there return it while the connection ends, and its quorum queues later than that.
    ``is_late`` says whether the consumer of that channel and tag is one of such a queue.
    """
    for connection in {key[0] for key, lines in shown.items() if any("connection.close" in x for x in lines)}:
        for key in [key for key in shown if key[0] == connection]:
            shown[key] = [
                line
                for line in shown[key]
                if (found := LAST_DELIVERY.match(line)) is None or not is_late(key, found[1])
            ]
            if not shown[key]:
                del shown[key]


def contents_after(
    step: Step,
    queue_of: Callable[[Channel, str], str],
    received: Sequence[tuple[Channel, Received]],
    left: dict[str, list[Received]],
) -> Contents:
    """What each queue gave in the step and has left, in order."""
    found: Contents = {}
    for key, each in received:
        if each.name == "basic.deliver":
            found.setdefault(queue_of(key, each.tag), []).append(message(each))
        elif each.name == "basic.get-ok":
            found.setdefault(step.fields["queue"], []).append(message(each))
    for queue, messages in left.items():
        found.setdefault(queue, []).extend(message(each) for each in messages)
    return found


def _without_messages(shown: Shown) -> Shown:
    """What arrived but messages; of the answer to basic.get, only that it was one."""
    return {
        key: [
            line.split(" ", 1)[0] if line.startswith("basic.get-ok") else line
            for line in lines
            if _is_kept(line)
        ]
        for key, lines in shown.items()
    }


def _is_kept(line: str) -> bool:
    return not line.startswith("basic.deliver")


def differ_by_letters(ours: Shown, theirs: Shown) -> bool:
    """Whether nothing differs but the order of dead letters that come from different queues."""
    return ours.keys() == theirs.keys() and all(
        _by_source(ours[key]) == _by_source(theirs[key]) for key in ours
    )


def same_but_letters(ours: Contents, theirs: Contents) -> bool:
    """Whether the queues have the same messages, and those that died in the same queue in the same order."""
    return ours.keys() == theirs.keys() and all(
        _by_source(ours[queue]) == _by_source(theirs[queue]) for queue in ours
    )


def _by_source(lines: list[str]) -> dict[str, list[str]]:
    """Lines without delivery tags, in order, by the queue that they died in last; "" for other lines."""
    found: dict[str, list[str]] = {}
    for line in lines:
        source = re.search(r"'x-death': \[\{[^{}]*?'queue': '(\w+)'", line)
        rest = re.sub(r"'delivery_tag': \d+, ", "", line) if line.startswith("basic.deliver") else line
        found.setdefault(source[1] if source else "", []).append(rest)
    return found


def _difference(places: Sequence[Place], shown: Sequence[Shown]) -> list[str]:
    lines = []
    for key in sorted({*shown[0], *shown[1]}):
        if shown[0].get(key) != shown[1].get(key):
            for place, seen in zip(places, shown, strict=True):
                lines.append(f"  channel {key}, {place.name}:")
                lines += [f"    {line}" for line in seen.get(key, ["(nothing)"])]
    return lines
