"""Why a walk differs: a race of RabbitMQ's processes, a documented difference, or nobody knows.

The walk is taken again, with the same steps since it last had fresh queues, to the step at which the brokers
differed. A repetition that comes to another place, because something else came out otherwise on the way, says
nothing and is not counted.

First RabbitMQ walks beside itself, in two virtual hosts. Each repetition gives two more of its answers to
that step. It is a race only if RabbitMQ gives several answers on the channels where we differ: ours among
them, or the frames of ours in more than one order. A message that RabbitMQ never sent there is not explained
by others that it sent now and then.

Then this broker walks beside RabbitMQ without a documented difference (`DOCUMENTED`), as often as
``repeats`` says. All those walks must be alike to their end. As a control the broker as it is walks, until it
differs once more: a difference that does not come again says nothing about its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.brokers import ENTRY, RouterProcess
from tests.interop.differential.comparing import (
    Draw,
    Shown,
    Trail,
    Walk,
    answers_again,
    compare_again,
    without_tags,
)
from tests.interop.differential.operations import Operations
from tests.interop.differential.sides import Place
from tests.interop.differential.state import Channel

ALIKE, RACE, DOCUMENTED, DIFFERENT = "alike", "race", "documented", "different"
WORDS = (ALIKE, RACE, DOCUMENTED, DIFFERENT)

#: Repetitions at most, for each that was asked for: some come to another place, and some outcomes are rare.
PATIENCE = 2


class Verdict(NamedTuple):
    """What a walk is called, and why."""

    word: str
    reason: str = ""

    def told(self) -> str:
        """As the line of a seed says it."""
        return f"{self.word}: {self.reason}" if self.reason else self.word


class Difference(NamedTuple):
    """A documented difference, and how to do without it."""

    #: The first cell of its row in docs/compatibility.md.
    title: str
    #: What the broker without it does.
    without: str
    #: Python text: a broker that runs it first does that.
    setting: str


#: Differences that depend on the time, so that a walk cannot leave out the steps that lead there.
DIFFERENCES = (
    Difference(
        "a dead letter of a logged message whose target is full (`reject-publish`) or cannot write",
        "refused letters put off until the next start",
        # As if memory had no room for another letter that waits. It stays in the log of its queue.
        "import vhosts.dead_letters; vhosts.dead_letters.TARGETS_MAX = -1; ",
    ),
)


def make_broker(directory: Path, setting: str) -> RouterProcess:
    """This broker, which runs ``setting`` first."""
    return RouterProcess(directory, entry=setting + ENTRY)


class Explaining:
    """Repeats walks that differed. ``ours`` and ``theirs`` are the brokers beside each other.

    ``repeats`` says how often; with 0 nothing is explained. ``draw`` gives the steps, as in `compare`.
    ``make`` gives a broker like ``ours``, see `make_broker`.
    """

    def __init__(
        self,
        directory: Path,
        ours: Place,
        theirs: Place,
        *,
        steps: int,
        repeats: int,
        draw: Draw = Operations,
        make: Callable[[Path, str], RouterProcess] = make_broker,
    ) -> None:
        self._directory = directory
        self._ours = ours
        self._theirs = theirs
        self._steps = steps
        self._repeats = repeats
        self._draw = draw
        self._make = make
        #: The broker without a documented difference, by its title; started when it is first needed.
        self._without: dict[str, RouterProcess] = {}

    def of(self, walk: Walk) -> Verdict:
        """What ``walk`` is called."""
        if walk.trail is None:
            return Verdict(ALIKE)
        race = self._race(walk, walk.trail)
        if race.word == RACE or not self._repeats:
            return race
        for difference in DIFFERENCES:
            reason = self._documented(walk, walk.trail, difference)
            if reason:
                return Verdict(DOCUMENTED, f"{difference.title} ({reason})")
        return race

    def stop(self) -> None:
        """Stop the brokers that were started here."""
        for broker in self._without.values():
            broker.stop()

    def logs(self) -> str:
        """What the brokers that were started here have logged."""
        return "".join(broker.log() for broker in self._without.values())

    # -- races ----------------------------------------------------------------------------------------

    def _race(self, walk: Walk, trail: Trail) -> Verdict:
        ours, first = where_different(trail)
        answers = [first]
        pairs = 0
        for pairs, pair in enumerate(self._pairs(walk.seed, trail), 1):
            answers += [only(shown, first) for shown in pair]
            if pairs >= self._repeats and (is_race(ours, answers) or all(x == first for x in answers)):
                break
        others = sum(each != first for each in answers)
        told = f"RabbitMQ answered otherwise in {others} of {2 * pairs} repetitions"
        if not is_race(ours, answers):
            return Verdict(DIFFERENT, f"{told}, but never with what came here" if others else "")
        if ours in answers:
            return Verdict(RACE, f"{told}, in {answers.count(ours)} as here")
        return Verdict(RACE, f"{told}, in {orders(ours, answers)} orders of what came here in another one")

    def _pairs(self, seed: int, trail: Trail) -> Iterator[list[Shown]]:
        """What RabbitMQ beside itself shows at the end of ``trail``, time and again."""
        for _ in range(PATIENCE * self._repeats):
            pair = answers_again([self._theirs, self._theirs], seed, trail, self._draw)
            if pair is not None:
                yield pair

    # -- documented differences -----------------------------------------------------------------------

    def _documented(self, walk: Walk, trail: Trail, difference: Difference) -> str:
        """How often the walk was alike without ``difference``, if that was so each time; else nothing."""
        alike = 0
        for again in self._again(self._place_without(difference), walk.seed, trail):
            if again.lines:
                return ""
            alike += 1
            if alike == self._repeats:
                break
        if alike < self._repeats:
            return ""
        for count, again in enumerate(self._again(self._ours, walk.seed, trail), 1):
            if again.lines and again.steps == walk.steps:
                return f"{difference.without}: 0 of {alike} differ, otherwise 1 of {count}"
        return ""

    def _again(self, place: Place, seed: int, trail: Trail) -> Iterator[Walk]:
        """The walk once more with the broker at ``place``, time and again."""
        for _ in range(PATIENCE * self._repeats):
            walk = compare_again([place, self._theirs], seed, self._steps, trail, self._draw)
            if walk is not None:
                yield walk

    def _place_without(self, difference: Difference) -> Place:
        broker = self._without.get(difference.title)
        if broker is None:
            directory = self._directory / f"without-{len(self._without)}"
            broker = self._without[difference.title] = self._make(directory, difference.setting)
            broker.start()
        return Place(broker.name, broker.port, broker.admin_port)


def where_different(trail: Trail) -> tuple[Shown, Shown]:
    """What this broker and RabbitMQ showed at the end of ``trail``, on the channels where they differ."""
    ours, theirs = trail.shown
    keys = [key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)]
    return only(ours, keys), only(theirs, keys)


def only(shown: Shown, keys: Iterable[Channel]) -> Shown:
    """What of ``shown`` came on these channels."""
    return {key: shown.get(key, []) for key in keys}


def is_race(ours: Shown, answers: Sequence[Shown]) -> bool:
    """Whether ``ours`` is among RabbitMQ's ``answers``, or has the frames of some that differ in order."""
    return ours in answers or orders(ours, answers) > 1


def orders(ours: Shown, answers: Sequence[Shown]) -> int:
    """In how many orders ``answers`` have the frames of ``ours``."""
    found: list[Shown] = []
    for answer in answers:
        if _frames(answer) == _frames(ours) and answer not in found:
            found.append(answer)
    return len(found)


def _frames(shown: Shown) -> dict[Channel, list[str]]:
    """What came, in no order. So it is left open which delivery had which tag and went to which consumer."""
    return {key: sorted(map(without_tags, lines)) for key, lines in shown.items()}
