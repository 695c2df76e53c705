"""What a start after a kill syncs, and how often."""

from __future__ import annotations

import copy
import errno
from collections import Counter
from random import Random

import pytest

from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill


def killed_node(logs: int, *, drained: bool) -> SimDisk:
    """What a killed process with so many logs leaves: all confirmed, by segments or by a journal alone."""
    disk = SimDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    node = Node(disk, LogOptions(sync_all_logs_min=4, new_logs_per_round=100))
    node.catalog.quarantine_unknown([])
    for number in range(logs):
        fill(node.catalog.create(f"a{number}", "/", f"q{number}", {}), 3)
    node.settle()
    if drained:
        node.sync._begin(drain_journal=True)
        node.settle()
    return copy.deepcopy(disk)


def start_after_kill(disk: SimDisk, logs: int) -> tuple[Node, Counter[str]]:
    """The start, and its operations on queues' files."""
    done: Counter[str] = Counter()

    def count(operation: str, path: str) -> None:
        if "/queues" in path or operation == "sync_file_system":
            done[operation] += 1

    disk.hook = count
    node = Node(disk, LogOptions(sync_all_logs_min=4))
    names = [f"a{number}" for number in range(logs)]
    for name in names:
        node.catalog.open(name)
    node.catalog.quarantine_unknown(names)
    disk.hook = None
    return node, done


def test_a_start_after_a_kill_at_rest_syncs_nothing_that_the_marks_know() -> None:
    _, done = start_after_kill(killed_node(8, drained=True), 8)
    del done["read"]
    assert not +done


@pytest.mark.parametrize("seed", range(3))
def test_a_start_after_a_kill_syncs_many_logs_at_once(seed: int) -> None:
    """And what it says is there survives the power failure after it."""
    node, done = start_after_kill(killed_node(8, drained=False), 8)
    assert done["sync_file_system"] == 1
    assert not done["sync"] + done["sync_directory"] + done["create"] + done["rename"]
    assert isinstance(node.disk, SimDisk)
    node.disk.power_loss(Random(seed))
    again, _ = start_after_kill(node.disk, 8)
    assert [len(bodies(log)) for log in again.catalog.logs.values()] == [3] * 8


def test_when_the_file_system_reports_an_error_each_log_finds_out_for_itself() -> None:
    disk = killed_node(8, drained=False)

    def hook(operation: str, path: str) -> None:
        if operation == "sync_file_system" or (operation == "sync" and "/a3/" in path):
            raise OSError(errno.EIO, "simulated", path)

    disk.hook = hook
    node = Node(disk, LogOptions(sync_all_logs_min=4))
    names = [f"a{number}" for number in range(8)]
    for name in names:
        node.catalog.open(name)
    node.catalog.quarantine_unknown(names)
    disk.hook = None
    assert [name for name, log in node.catalog.logs.items() if log.failed] == ["a3"]
    # The journal, which alone has what that log has lost, stays; and so does the promise.
    assert [name for name in disk.list("d") if name.endswith(".journal")]
    disk.power_loss(Random(1))
    again, _ = start_after_kill(disk, 8)
    assert [len(bodies(log)) for log in again.catalog.logs.values()] == [3] * 8
