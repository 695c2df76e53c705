"""Three nodes in one process against what their clients know."""

from __future__ import annotations

import logging
import os
from collections import Counter

import pytest

from tests.model import schedules, three_nodes
from tests.seeds import first_seeds


def test_schedules_of_three_nodes(moves: Counter[str]) -> None:
    logging.disable(logging.CRITICAL)
    try:
        played = schedules.play(three_nodes.run, first_seeds(60))
    finally:
        logging.disable(logging.NOTSET)
    moves += played.moves
    rate = played.schedules / played.cpu_s
    print(f"{rate:.0f} schedules of {three_nodes.PUBLISHES} publishes a second")


def test_processes_of_their_own_do_the_same_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command plays what the tests do: the same steps, however the seeds are divided."""
    monkeypatch.setattr(schedules, "PER_PROCESS", 2)
    moves = schedules.play(three_nodes.run, range(5)).moves
    for jobs in ("1", "2"):
        assert schedules.main(three_nodes.run, "schedules", ["0", "5", "--jobs", jobs]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[:-2] == [f"{count:8} {move}" for move, count in sorted(moves.items())]


def test_schedule_that_fails_in_a_process_of_its_own_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played_by = os.getpid()

    def run(seed: int) -> Counter[str]:
        if os.getpid() == played_by or seed in (3, 8):
            raise AssertionError("as planted")
        if seed == 12:
            os._exit(7)
        return Counter(seed=1)

    monkeypatch.setattr(schedules, "PER_PROCESS", 3)
    assert schedules.main(run, "schedules", ["0", "10", "--jobs", "2"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert sorted(told) == [f"seed {seed}: AssertionError: as planted" for seed in (3, 8)]
    assert schedules.main(run, "schedules", ["9", "15"]) == 1
    assert capsys.readouterr().out == "a process has ended with status 7\n"


def test_nodes_have_nothing_in_common() -> None:
    one, other = three_nodes.Hosts(0).hosts[:2]
    assert one.node.core.identity != other.node.core.identity
    assert not {queue.incarnation for queue in one.node.vhost.queues.values()} & {
        queue.incarnation for queue in other.node.vhost.queues.values()
    }
    one.publish("d", 3, 10)
    assert one.node.queue("d").unacked_count == 3
    assert other.node.queue("d").unacked_count == 0
    assert other.node.queue("d").message_count() == 0
