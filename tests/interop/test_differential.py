"""What the walks beside RabbitMQ take for a race."""

from __future__ import annotations

import pytest

from tests.interop.differential.comparing import differ_by_letters
from tests.interop.differential.state import Channel

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
