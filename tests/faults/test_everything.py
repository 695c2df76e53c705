"""A short ``make chaos ARGS=--everything``, and that its ledger sees what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers import RouterProcess
from tests.faults import everything
from tests.faults.everything import Everything, Ledger
from tests.faults.lanes import NUMBERS

EACH = (NUMBERS["single"], 1)


def test_each_message_has_one_ending(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path)
    chaos = Everything(broker, seed=7, tell=print)
    try:
        ok = chaos.run(rounds=2)
    finally:
        broker.stop()
    print(chaos.report())
    assert ok, chaos.report()


def test_what_was_confirmed_and_never_ended_is_lost() -> None:
    assert Ledger(must={EACH}).misplaced() == [f"single {EACH} is lost"]


def test_an_ending_that_is_not_of_the_lane() -> None:
    ledger = Ledger(must={EACH})
    ledger.end(EACH, "expired", 0)
    assert ledger.misplaced() == [f"single {EACH} ended as expired"]


@pytest.mark.parametrize(("passed", "problems"), [(0.0, 0), (everything.SETTLED_S + 1, 1)])
def test_a_second_ending_after_a_crash(passed: float, problems: int) -> None:
    ledger = Ledger(must={EACH})
    ledger.end(EACH, "single", 0)
    ledger.ends.append(ledger.endings[EACH][0].at + passed)
    ledger.end(EACH, "single", 1)
    assert len(ledger.problems) == problems
    assert sum(ledger.repeated.values()) == 1 - problems


@pytest.mark.parametrize(
    ("second", "published", "problems"), [("maxlen", 5, 0), ("maxlen", 0, 1), ("head", 5, 1)]
)
def test_a_letter_and_its_message_after_one_crash(second: str, published: int, problems: int) -> None:
    """Those of a message that was published before the crash may both be there, but neither twice."""
    ledger = Ledger(ends=[1.0], published=[{EACH[0]: published}])
    ledger.end(EACH, "head", 1)
    ledger.end(EACH, second, 1)
    assert len(ledger.problems) == problems
    assert sum(ledger.repeated.values()) == 1 - problems


def test_a_second_ending_without_a_crash() -> None:
    ledger = Ledger()
    ledger.end(EACH, "single", 0)
    ledger.end(EACH, "single", 0)
    assert ledger.problems == [f"single {EACH}: single after single, without a crash between"]


def test_what_comes_again_without_its_flag_or_was_rolled_back() -> None:
    ledger = Ledger(never={EACH})
    ledger.take("single", EACH, redelivered=False)
    ledger.take("single", EACH, redelivered=False)
    assert len(ledger.problems) == 3
