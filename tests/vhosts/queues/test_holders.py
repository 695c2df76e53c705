"""Who holds messages of a quorum queue and is no consumer."""

from __future__ import annotations

import pytest

from vhosts.queues import handle
from vhosts.queues.handle import Consumer, Holders


def holder(tag: str, held: int) -> Consumer:
    made = Consumer()
    made.tag = tag
    made.taken = held
    return made


def test_each_message_of_a_get_counts_and_each_cancelled_consumer() -> None:
    holders = Holders()
    getter, cancelled = holder("", 3), holder("t", 3)
    holders.note(getter)
    holders.note(cancelled)
    assert holders.count() == 4
    getter.finished = 1
    cancelled.finished = 3
    assert holders.count() == 2


def test_no_more_are_known_than_can_be_looked_at() -> None:
    """A client may consume, get a message and cancel any number of times, and each declare looked at all."""
    holders = Holders()
    for number in range(handle.HOLDERS_MAX + 500):
        holders.note(holder(f"t{number}", 1))
    assert holders.count() == handle.HOLDERS_MAX


@pytest.mark.parametrize("first", [1, 700])
def test_those_that_hold_nothing_are_forgotten(first: int) -> None:
    holders = Holders()
    gone = [holder(f"t{number}", 1) for number in range(first)]
    for each in gone:
        holders.note(each)
        each.finished = 1
    holders.note(holder("", 2))
    assert holders.count() == 2
