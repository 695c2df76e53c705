"""The routing log under a clock that is wrong."""

from __future__ import annotations

import pytest

from persistence.clock import JUMP_US
from persistence.log.offline.routing import verify_routing
from persistence.log.routing.partition import TURN_S
from persistence.log.routing.recorder import DAY_US
from tests.persistence.log.routing_support import START_US, RoutingNode, read_all, segment_bases


def times_of(node: RoutingNode) -> list[int]:
    return [event.ts_us - START_US for event in read_all(node.disk, node.directory)]


@pytest.mark.parametrize("end", ["clean", "killed"])
def test_a_start_with_the_right_clock_goes_on_at_its_time(end: str) -> None:
    node = RoutingNode()
    node.note()
    node.pass_time()
    node.tick.now_us += 3_600_000_000
    node.note()
    node.pass_time()
    if end == "clean":
        node.logs.stop()
    node = RoutingNode(node.disk, now_us=START_US + 5)
    assert [text[:30] for _, _, text in node.logs.reports] == ["it was written with the system"]
    node.note()
    node.pass_time()
    node.tick.now_us += 7
    node.note()
    node.pass_time()
    assert times_of(node) == [0, 3_600_000_000, 5, 12]
    assert segment_bases(node.disk, node.directory) == [0, 2]
    assert verify_routing(node.directory, node.disk).problem is None
    again = RoutingNode(node.disk, now_us=node.tick.now_us)
    assert again.logs.reports == []


def test_a_running_clock_that_is_put_right_begins_a_segment_after_the_events_of_a_second() -> None:
    node = RoutingNode(now_us=START_US + 365 * DAY_US)
    node.note()
    node.pass_time()
    node.tick.now_us = START_US
    for step in range(3):
        node.tick.now_us += step
        node.note()
        node.pass_time()
    assert times_of(node) == [365 * DAY_US, 365 * DAY_US, 1, 3]
    assert segment_bases(node.disk, node.directory) == [0, 2]


def test_a_small_step_back_is_levelled_out() -> None:
    node = RoutingNode(now_us=START_US + JUMP_US)
    node.note()
    node.pass_time()
    node.tick.now_us = START_US
    node.note()
    node.pass_time()
    again = RoutingNode(node.disk, now_us=START_US)
    again.note()
    again.pass_time()
    assert times_of(again) == [JUMP_US] * 3
    assert segment_bases(node.disk, node.directory) == [0]


def test_a_clock_that_goes_to_and_fro_makes_a_segment_in_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [0.0]
    monkeypatch.setattr("persistence.log.routing.logs.time.monotonic", lambda: steady[0])
    node = RoutingNode()
    for number in range(100):
        node.tick.now_us = START_US + (7_200_000_000 if number % 4 < 2 else 0)
        node.note(size=number)
        node.pass_time()
        steady[0] += 72
    found = read_all(node.disk, node.directory)
    assert [event.size for event in found] == list(range(100))
    assert len(segment_bases(node.disk, node.directory)) == 3
    assert found[-1].ts_us == START_US + 7_200_000_000
    steady[0] += TURN_S
    for _ in range(2):
        node.note()
        node.pass_time()
    assert read_all(node.disk, node.directory)[-1].ts_us == START_US
