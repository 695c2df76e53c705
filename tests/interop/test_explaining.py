"""What the walks beside RabbitMQ call a difference.

In RabbitMQ's place is this broker, without the documented difference, or with answers that change. The tests
that do not plant such answers also run beside RabbitMQ itself, with AMQP_ROUTER_TEST_BROKER=rabbitmq.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import ROOT, RabbitProcess, RouterProcess
from tests.interop.conftest import RABBITMQ
from tests.interop.differential.comparing import compare
from tests.interop.differential.explaining import (
    ALIKE,
    DIFFERENCES,
    DIFFERENT,
    DOCUMENTED,
    RACE,
    Difference,
    Explaining,
    Verdict,
    is_race,
    make_broker,
)
from tests.interop.differential.sides import Place
from tests.interop.differential.state import State, Step
from tests.interop.differential.vocabulary import PLUGINS

REPEATS = 2
_numbers = itertools.count()
(LATER,) = DIFFERENCES

#: A fanout exchange that leaves out bindings: ``chosen`` says which there are, each time that one is asked.
CHOOSES = """
import itertools, vhosts.exchanges.fanout
turns = itertools.count()
def route(exchange, message):
    bindings, turn = list(exchange._bindings.steady_keys()), next(turns)
    return {chosen}
vhosts.exchanges.fanout.FanoutExchange.route = route
"""
AS_USUAL = ""
FIRST_ONLY = CHOOSES.format(chosen="bindings[:1]")
LAST_ONLY = CHOOSES.format(chosen="bindings[1:]")
FIRST_ONLY_ONCE = CHOOSES.format(chosen="bindings[:1] if turn == 0 else bindings")
FIRST_ONLY_NOW_AND_THEN = CHOOSES.format(chosen="bindings[:1] if turn % 2 == 0 else bindings")


def step(name: str, **fields: Any) -> Step:
    return Step(0, 1, name, fields)


#: One message goes to two consumers.
FANOUT = [
    step("channel.open"),
    step("exchange.declare", exchange="e", type="fanout"),
    step("queue.bind", queue="q1", exchange="e", routing_key=""),
    step("queue.bind", queue="q2", exchange="e", routing_key=""),
    step("basic.consume", queue="q1", tag="t1", no_ack=True),
    step("basic.consume", queue="q2", tag="t2", no_ack=True),
    step("publish", exchange="e", routing_key="", body="m"),
    step("basic.get", queue="q3"),
]
#: A full queue refuses a letter. Seconds later it has room.
REFUSED = [
    step("channel.open"),
    step("queue.declare", queue="full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"}),
    step(
        "queue.declare",
        queue="source",
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"},
    ),
    step("publish", exchange="", routing_key="full", body="first"),
    step("publish", exchange="", routing_key="source", body="letter", delivery_mode=2),
    step("basic.get", queue="source"),
    step("basic.reject", delivery_tag=1, requeue=False),
    step("basic.get", queue="full", no_ack=True),
    step("expire", queue="f1"),
    step("expire", queue="f1"),
    step("basic.get", queue="full", no_ack=True),
    step("basic.get", queue="q3"),
]


def our_broker(directory: Path, text: str) -> RouterProcess:
    """This broker, which runs ``text`` first."""
    broker = make_broker(directory, text)
    # It takes all variables of that prefix for options.
    broker.environment.pop("AMQP_ROUTER_TEST_BROKER", None)
    return broker


class Listed:
    """The steps of a list."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = iter(steps)

    def next(self) -> Step:
        return next(self._steps)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Place]]:
    """Start a broker that runs a text first. One whose answers do not change serves several tests."""
    started: list[RouterProcess | RabbitProcess] = []
    places: dict[str, Place] = {}

    def start(text: str) -> Place:
        if text in places and "turn " not in text:
            return places[text]
        directory = tmp_path_factory.mktemp("broker")
        broker: RouterProcess | RabbitProcess = our_broker(directory, text)
        if text == LATER.setting and RABBITMQ:
            broker = RabbitProcess(directory, plugins=PLUGINS)
        started.append(broker)
        broker.start()
        places[text] = Place(broker.name, broker.port, broker.admin_port)
        return places[text]

    yield start
    for broker in started:
        broker.stop()


@pytest.fixture
def verdict(tmp_path: Path, start: Callable[[str], Place]) -> Callable[..., Verdict]:
    """What steps are called. ``planted`` runs first in this broker, ``theirs`` in the one beside it."""

    def verdict(
        steps: list[Step],
        planted: str = AS_USUAL,
        theirs: str = LATER.setting,
        repeats: int = REPEATS,
        planted_again: bool = True,
    ) -> Verdict:
        def draw(seed: int | str, state: State) -> Listed:
            return Listed(steps)

        def make(directory: Path, setting: str) -> RouterProcess:
            return our_broker(directory, (planted if planted_again else "") + setting)

        places = start(planted), start(theirs)
        walk = compare(places, 1, len(steps), draw=draw)
        explaining = Explaining(
            tmp_path / str(next(_numbers)), *places, steps=len(steps), repeats=repeats, draw=draw, make=make
        )
        try:
            return explaining.of(walk)
        finally:
            explaining.stop()

    return verdict


Verdicts = Callable[..., Verdict]


def test_the_same_answers_are_alike(verdict: Verdicts) -> None:
    assert verdict(FANOUT) == Verdict(ALIKE)


def test_other_answers_are_different(verdict: Verdicts) -> None:
    assert verdict(FANOUT, planted=FIRST_ONLY) == Verdict(DIFFERENT)


def test_answers_that_change_are_a_race(verdict: Verdicts) -> None:
    race = "RabbitMQ answered otherwise in 2 of 4 repetitions, in 2 as here"
    assert verdict(FANOUT, theirs=FIRST_ONLY_NOW_AND_THEN) == Verdict(RACE, race)


def test_a_race_does_not_explain_an_answer_that_it_never_gives(verdict: Verdicts) -> None:
    told = "RabbitMQ answered otherwise in 4 of 8 repetitions, but never with what came here"
    different = verdict(FANOUT, planted=LAST_ONLY, theirs=FIRST_ONLY_NOW_AND_THEN)
    assert different == Verdict(DIFFERENT, told)


def test_a_refused_letter_that_comes_later_is_documented(verdict: Verdicts) -> None:
    told = f"{LATER.title} ({LATER.without}: 0 of 2 differ, otherwise 1 of 1)"
    assert verdict(REFUSED) == Verdict(DOCUMENTED, told)


def test_a_refused_letter_does_not_explain_another_difference(verdict: Verdicts) -> None:
    """One before the letter comes, or behind it."""
    assert verdict([*FANOUT, *REFUSED[1:]], planted=FIRST_ONLY).word == DIFFERENT
    assert verdict([*REFUSED, *FANOUT[1:]], planted=FIRST_ONLY).word == DIFFERENT


def test_a_difference_that_does_not_come_again_is_not_explained(verdict: Verdicts) -> None:
    """Although the walks without the documented difference are alike: so are those with it."""
    assert verdict(FANOUT, planted=FIRST_ONLY_ONCE, planted_again=False) == Verdict(DIFFERENT)


def test_nothing_is_explained_without_a_repetition(verdict: Verdicts) -> None:
    assert verdict(REFUSED, repeats=0) == Verdict(DIFFERENT)


@pytest.mark.parametrize(
    ("answers", "is_one"),
    [
        ([["a 1", "b 2", "c 3"], ["b 1", "a 2", "c 3"]], True),
        ([["a 1", "b 2", "c 3"], ["c 1", "a 2", "b 3"], ["a 1"]], True),
        ([["a 1", "b 2", "c 3"], ["a 1"]], False),
        ([["a 1", "b 2", "c 3"], ["a 1", "b 2", "c 3"]], False),
        ([["a 1", "b 2", "d 3"], ["d 1", "a 2", "b 3"]], False),
    ],
)
def test_an_order_of_our_own_is_a_race_if_theirs_changes(answers: list[list[str]], is_one: bool) -> None:
    def shown(lines: list[str]) -> dict[tuple[int, int], list[str]]:
        form = "basic.deliver {{'tag': 't{tag}', 'delivery_tag': {tag}, 'redelivered': False}} {{}} b'{body}'"
        return {(0, 1): [form.format(tag=line[-1], body=line[0]) for line in lines]}

    ours = shown(["b 1", "a 2", "c 3"])
    assert is_race(ours, [shown(each) for each in answers]) is is_one


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_documented_differences_are_documented(difference: Difference) -> None:
    rows = (ROOT / "docs" / "compatibility.md").read_text().split("## Deliberate differences")[1]
    assert f"\n| {difference.title} |" in rows
