"""What the walks beside RabbitMQ take for a race."""

from __future__ import annotations

import pytest

from tests.interop.differential.arguments import cases
from tests.interop.differential.comparing import (
    by_consumer,
    differ_by_consumers,
    differ_by_letters,
    differ_by_returns,
    drop_last_deliveries,
)
from tests.interop.differential.state import Channel, State, Step
from tests.interop.wire import encode_value
from vhosts.arguments import QUEUE_ARGUMENTS

KEY: Channel = (0, 1)


def letter(tag: int, queue: str, body: str) -> str:
    return (
        f"basic.deliver {{'tag': 't', 'delivery_tag': {tag}, 'redelivered': False}} "
        f"{{'headers': {{'x-death': [{{'count': 1, 'exchange': '', 'queue': '{queue}'}}]}}}} b'{body}'"
    )


@pytest.mark.parametrize(
    ("theirs", "is_race"),
    [
        ([letter(1, "f4", "b"), letter(2, "f3", "a"), letter(3, "f3", "c")], True),
        ([letter(1, "f3", "c"), letter(2, "f3", "a"), letter(3, "f4", "b")], False),
        ([letter(1, "f4", "b"), letter(2, "f3", "a")], False),
        ([letter(1, "f4", "b"), letter(2, "f3", "a"), letter(3, "f3", "other")], False),
        ([letter(1, "f4", "b"), letter(2, "f3", "a"), letter(3, "f3", "c"), "channel.close"], False),
    ],
)
def test_only_the_order_between_queues_is_a_race(theirs: list[str], is_race: bool) -> None:
    ours = [letter(1, "f3", "a"), letter(2, "f4", "b"), letter(3, "f3", "c")]
    assert differ_by_letters({KEY: ours}, {KEY: theirs}) is is_race


def test_other_channels_are_compared() -> None:
    assert not differ_by_letters({KEY: ["x"]}, {(1, 1): ["x"]})


def test_the_order_of_what_returned_to_a_quorum_queue_is_compared() -> None:
    returned = "basic.deliver {'tag': 't', 'delivery_tag': 1} {'headers': {'x-delivery-count': 1}} b'r'"
    again = returned.replace("b'r'", "b's'")
    assert not differ_by_letters({KEY: [returned, again]}, {KEY: [again, returned]})


@pytest.mark.parametrize(("queue", "is_compared"), [("q1", True), ("q2", False), ("g1", False)])
def test_last_deliveries_of_a_closed_connection_are_compared_if_the_failed_channel_consumed(
    queue: str, is_compared: bool
) -> None:
    """As far as the queue is a classic one."""
    state = State()
    state.consumers = {((0, 2), "t1"): "q1", ((0, 2), "t2"): "g1", (KEY, "t"): queue}
    again = "basic.deliver {'tag': 't', 'delivery_tag': 1, 'redelivered': True} {} b'a'"
    shown = {(0, 0): ["connection.close {'code': 540}"], KEY: [again], (1, 1): [again]}
    drop_last_deliveries(shown, state.returns_late(Step(0, 2, "basic.qos", {"size": 1})))
    assert shown.pop(KEY, []) == ([again] if is_compared else [])
    assert shown == {(0, 0): ["connection.close {'code': 540}"], (1, 1): [again]}


def delivery(tag: str, number: int, body: str, *, redelivered: bool = True) -> str:
    fields = f"'tag': '{tag}', 'delivery_tag': {number}, 'redelivered': {redelivered}"
    return f"basic.deliver {{{fields}, 'exchange': '', 'routing_key': 'g1'}} {{}} b'{body}'"


@pytest.mark.parametrize(
    ("theirs", "is_theirs"),
    [
        ([("t1", 5, "b"), ("t1", 6, "d"), ("t3", 7, "a"), ("t3", 8, "c")], True),
        ([("t1", 5, "d"), ("t1", 6, "b"), ("t3", 7, "a"), ("t3", 8, "c")], False),
        ([("t3", 5, "a"), ("t3", 6, "c"), ("t1", 7, "b"), ("t1", 8, "d")], False),
        ([("t1", 5, "b"), ("t1", 6, "d"), ("t3", 7, "a")], False),
        ([("t1", 5, "a"), ("t1", 6, "c"), ("t3", 7, "b"), ("t3", 8, "d")], False),
    ],
)
def test_consumers_of_a_quorum_queue_get_their_messages_one_after_the_other(
    theirs: list[tuple[str, int, str]], is_theirs: bool
) -> None:
    given = [("t3", 5, "a"), ("t1", 6, "b"), ("t3", 7, "c"), ("t1", 8, "d")]
    ours = {KEY: [*(delivery(*each) for each in given), "channel.close-ok"]}
    other = {KEY: [*(delivery(*each) for each in theirs), "channel.close-ok"]}
    assert differ_by_consumers(ours, other, {KEY}) is is_theirs
    assert not differ_by_consumers(ours, other, ())
    assert by_consumer(ours[KEY])[-1] == "channel.close-ok"


@pytest.mark.parametrize(
    ("own", "others", "is_theirs"),
    [
        ([("t1", 1, "a")], [("t2", 1, "b"), ("t2", 2, "a")], True),
        ([], [("t2", 1, "b"), ("t2", 2, "a")], True),
        ([("t1", 1, "a")], [("t2", 1, "b")], False),
        ([("t1", 1, "a")], [("t2", 1, "b"), ("t2", 2, "c")], False),
    ],
)
def test_what_a_failed_commit_returns_may_go_to_its_channel_first(
    own: list[tuple[str, int, str]], others: list[tuple[str, int, str]], is_theirs: bool
) -> None:
    close = "channel.close {'code': 406, 'text': 'PRECONDITION_FAILED - partial tx completion'}"
    ours = {KEY: [close], (1, 1): [delivery("t2", 1, "a"), delivery("t2", 2, "b")]}
    theirs = {KEY: [*(delivery(*each) for each in own), close], (1, 1): [delivery(*each) for each in others]}
    assert differ_by_returns(ours, theirs, KEY) is is_theirs
    assert not differ_by_returns(ours, theirs, (1, 1))
    new = [delivery("t1", 1, "a", redelivered=False), close]
    assert not differ_by_returns(ours, {**theirs, KEY: new}, KEY)
    assert not differ_by_returns({**ours, KEY: ["tx.commit-ok"]}, {**theirs, KEY: ["tx.commit-ok"]}, KEY)


def test_the_table_of_wrong_arguments_has_each_argument_with_each_type() -> None:
    letters = {"t", "V", "S", "d", "x", "A", "F", "b", "B", "s", "u", "I", "i", "l", "f", "D", "T"}
    for argument in QUEUE_ARGUMENTS:
        given = [case for case in cases() if (case.method, case.argument) == ("queue.declare", argument)]
        assert {chr(encode_value(case.value)[0]) for case in given} == letters
    assert {case.method for case in cases()} >= {
        "exchange.declare",
        "queue.bind",
        "basic.consume",
        "basic.publish",
    }
