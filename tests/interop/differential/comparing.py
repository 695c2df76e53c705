"""A walk on two brokers side by side, and what its first difference says."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from tests.interop.differential.counting import uses
from tests.interop.differential.operations import Operations
from tests.interop.differential.sides import Place, Side, answers, in_comparable_order, message, wait_for
from tests.interop.differential.state import Channel, State, Step
from tests.interop.wire import Received

#: How long both may take to agree.
PATIENCE_S = 1.5

#: A delivery of a message that had been delivered before; and its consumer's tag.
LAST_DELIVERY = re.compile(r"basic\.deliver \{'tag': '(.*?)',.*?'redelivered': True")

#: A delivery: the consumer's tag, the delivery's, and what comes behind them.
DELIVERY = re.compile(r"basic\.deliver \{'tag': '(.*?)', 'delivery_tag': (\d+), (.*)", re.DOTALL)
#: The text of a commit that failed, and what a quorum queue says of returns.
FAILED = "partial tx completion"
RETURNS = re.compile(r"'x-delivery-count': \d+")
#: What may come in another order in RabbitMQ.
LETTERS = "letters of several queues"
CONSUMERS = "consumers of a quorum queue"
COMMITS = "returns of a failed commit"

#: The messages that each queue gave in a step and those that are left in it, in order.
Contents = dict[str, list[str]]
Shown = dict[Channel, list[str]]


class Trail(NamedTuple):
    """The way to a difference, so that it can be taken again."""

    #: The step at which the walk last began with fresh queues.
    start: int
    #: All steps since then. At the last one the brokers differ.
    steps: list[Step]
    #: What each of the two showed there.
    shown: list[Shown]


class Walk(NamedTuple):
    """What became of one seed: its difference, and at which steps what came in another order."""

    seed: int
    steps: int
    lines: list[str]
    restarts: dict[int, str]
    #: What its steps used, see `counting.uses`.
    uses: dict[str, int]
    #: None if the brokers answered alike.
    trail: Trail | None = None


class Draws(Protocol):
    """What says the next step of a walk: `Operations`, or a test's list."""

    def next(self) -> Step:
        """The next step."""


#: What draws the steps, made from the seed and the state.
Draw = Callable[[int | str, State], Draws]


def compare(
    places: Sequence[Place],
    seed: int,
    steps: int,
    shown_steps: int = 15,
    draw: Draw = Operations,
) -> Walk:
    """Run one seed to its first difference."""
    walk = _Walk(places, seed, draw, shown_steps)
    try:
        return walk.go_on(steps)
    finally:
        walk.end()


def compare_again(
    places: Sequence[Place], seed: int, steps: int, trail: Trail, draw: Draw = Operations
) -> Walk | None:
    """Run the seed once more, from where ``trail`` starts; None if it comes to another place than before."""
    walk = _Walk(places, seed, draw, start=trail.start)
    try:
        return walk.go_on(steps) if walk.follow(trail) else None
    finally:
        walk.end()


def answers_again(
    places: Sequence[Place], seed: int, trail: Trail, draw: Draw = Operations
) -> list[Shown] | None:
    """What each side shows at the last step of ``trail``; None if the walk comes to another place."""
    walk = _Walk(places, seed, draw, start=trail.start)
    try:
        if not walk.follow(trail):
            return None
        walk.step()
        return walk.shown
    finally:
        walk.end()


class _Walk:
    def __init__(
        self, places: Sequence[Place], seed: int, draw: Draw, shown_steps: int = 15, start: int = 0
    ) -> None:
        self.seed = seed
        self.number = start
        self.uses: Counter[str] = Counter()
        #: What each side showed in the last step.
        self.shown: list[Shown] = []
        self._places = places
        self._shown_steps = shown_steps
        self._draw = draw
        self._begin()

    def _begin(self) -> None:
        self._start = self.number
        self._state = State()
        self._operations = self._draw(f"{self.seed}/{self.number}" if self.number else self.seed, self._state)
        self._history: list[Step] = []
        is_one = self._places[0] == self._places[1]
        vhosts = (f"walk-{self.seed}", f"walk-{self.seed}{'-beside' if is_one else ''}")
        self._sides = [Side(place, vhost) for place, vhost in zip(self._places, vhosts, strict=True)]
        for side in self._sides:
            side.begin()

    def go_on(self, steps: int) -> Walk:
        """Walk to the first difference."""
        restarts: dict[int, str] = {}
        while self.number < steps:
            lines = self.step()
            if lines and (order := self.order_that_differs()):
                restarts[self.number] = order
                self.start_anew()
            elif lines:
                trail = Trail(self._start, self._history, self.shown)
                return Walk(self.seed, self.number, lines, restarts, self.uses, trail)
        return Walk(self.seed, steps, [], restarts, self.uses)

    def follow(self, trail: Trail) -> bool:
        """Take all steps of ``trail`` but the last; whether the next one is that.

        It is not if the sides differ on the way, also by an order, or if another answer than at first led to
        another step.
        """
        return all(not self.step() and self._history[-1] == step for step in trail.steps[:-1])

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
        self._of_quorum = self._state.channels_of_quorum_queues()
        for side in self._sides:
            side.do(step)
        wait_for(step, self._sides)
        self.shown = [{} for _ in self._sides]
        self._received: list[list[tuple[Channel, Received]]] = [[] for _ in self._sides]
        end = time.monotonic() + PATIENCE_S
        while True:
            for number, new in enumerate(answers(self._sides)):
                self._received[number] += new
                seen = self.shown[number]
                for key, lines in self._sides[number].shown(new).items():
                    seen[key] = in_comparable_order(seen.get(key, []) + lines)
                if number == len(self._sides) - 1:
                    self._state.learn(step, new)
            for shown in self.shown:
                drop_last_deliveries(shown, is_late)
            is_same = self.shown[0] == self.shown[1]
            if time.monotonic() > end or (is_same and (self.shown[0] or not step.is_answered)):
                break
        if is_same:
            return []
        told = [f"  {each}" for each in self._history[-self._shown_steps :]]
        return [f"seed {self.seed}, step {self.number}:", *told, *_difference(self._places, self.shown)]

    def order_that_differs(self) -> str:
        """What came in another order, if nothing else differs, else nothing. Empties all queues."""
        if differ_by_letters(*self.shown):
            return LETTERS
        if differ_by_consumers(*self.shown, self._of_quorum):
            return CONSUMERS
        step = self._history[-1]
        if step.name == "tx.commit" and differ_by_returns(*self.shown, (step.connection, step.channel)):
            return COMMITS
        if any(_without_messages(self.shown[0]) != _without_messages(shown) for shown in self.shown):
            return ""
        ours, theirs = (
            contents_after(step, self._state.queue_of, received, side.contents())
            for side, received in zip(self._sides, self._received, strict=True)
        )
        return LETTERS if same_but_letters(ours, theirs) else ""


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


def differ_by_consumers(ours: Shown, theirs: Shown, of_quorum: Collection[Channel]) -> bool:
    """Whether nothing differs but that RabbitMQ gives consumers of a quorum queue on one of these channels
    their messages one consumer after the other.
    """
    keys = [key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)]
    return all(key in of_quorum and by_consumer(ours.get(key, [])) == theirs.get(key) for key in keys)


def by_consumer(lines: list[str]) -> list[str]:
    """The deliveries in the order of the consumers' tags, as RabbitMQ numbers them; and other lines."""
    found = [(line, DELIVERY.fullmatch(line)) for line in lines]
    deliveries = [(match[1], match[2], match[3]) for _, match in found if match]
    rest = [line for line, match in found if not match]
    numbers = [number for _, number, _ in deliveries]
    ordered = zip(sorted(deliveries, key=itemgetter(0)), numbers, strict=True)
    return [
        f"basic.deliver {{'tag': '{tag}', 'delivery_tag': {number}, {text}"
        for (tag, _, text), number in ordered
    ] + rest


def differ_by_returns(ours: Shown, theirs: Shown, failed: Channel) -> bool:
    """Whether nothing differs but who gets first what a transaction returned, the commit of which failed.

    In RabbitMQ the consumers of the channel ``failed`` get it once more, although that channel is closed, and
    return it then. So other channels get it later, and a quorum queue counts two returns.
    """
    if not all(any(FAILED in line for line in shown.get(failed, [])) for shown in (ours, theirs)):
        return False
    return all(
        _unordered(ours.get(key, []), key == failed) == _unordered(theirs.get(key, []), key == failed)
        for key in {*ours, *theirs}
    )


def _unordered(lines: list[str], is_failed: bool) -> list[str]:
    """Lines in no order; of a channel that has failed without what was delivered again."""
    kept = [line for line in lines if not (is_failed and LAST_DELIVERY.match(line))]
    return sorted(RETURNS.sub("", without_tags(line)) for line in kept)


def without_tags(line: str) -> str:
    """A delivery without the consumer's tag and its own, which follow from the order of all."""
    return DELIVERY.sub(r"basic.deliver {\3", line)


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
