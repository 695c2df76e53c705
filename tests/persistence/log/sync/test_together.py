"""One sync of the file system in place of one for each of many logs."""

from __future__ import annotations

import copy
import errno
from collections import Counter
from random import Random

import pytest

from persistence.log.queue.queue_log import QueueLog
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill

LOGS = 40
OPTIONS = LogOptions(new_logs_per_round=LOGS, journal_bytes_max=20_000)


class UnknownDisk(SimDisk):
    """One whose file system makes no promise for a sync of everything."""

    def file_system(self, path: str) -> None:  # type: ignore[override]
        return None


def started(disk: SimDisk, options: LogOptions = OPTIONS) -> tuple[Node, list[QueueLog]]:
    """A node with new logs."""
    disk.make_directory("d")
    disk.sync_directory("")
    node = Node(disk, options)
    node.catalog.quarantine_unknown([])
    logs = [node.catalog.create(f"a{number}", "/", f"q{number}", {}) for number in range(LOGS)]
    return node, logs


def syncs_of_rounds(node: Node, logs: list[QueueLog], rounds: int) -> Counter[str]:
    """Syncs of queues' files and directories, and of the file system, while all logs are busy."""
    done: Counter[str] = Counter()
    disk = node.disk
    assert isinstance(disk, SimDisk)

    def count(operation: str, path: str) -> None:
        if operation == "sync_file_system" or ("/queues" in path and operation.startswith("sync")):
            done[operation] += 1

    disk.hook = count
    for number in range(rounds):
        for log in logs:
            fill(log, 1, first=number)
        node.settle()
    disk.hook = None
    return done


def recovered(disk: SimDisk) -> list[list[bytes]]:
    node = Node(disk, OPTIONS)
    names = [f"a{number}" for number in range(LOGS)]
    logs = [node.catalog.open(name) for name in names]
    node.catalog.quarantine_unknown(names)
    return [bodies(log) for log in logs]


def test_an_old_journal_file_costs_its_many_logs_one_sync() -> None:
    node, logs = started(SimDisk())
    done = syncs_of_rounds(node, logs, 6)
    files = node.sync.committer.journal._next_number
    assert files > 1
    # One for the names of new logs. The last file still takes entries.
    assert done == {"sync_file_system": 1 + files - node.sync.committer.journal.is_pending}


def test_files_that_make_room_for_others_are_synced_at_once() -> None:
    node, logs = started(SimDisk(), LogOptions(new_logs_per_round=LOGS, descriptors_max=16))
    done = syncs_of_rounds(node, logs, 4)
    assert set(done) == {"sync_file_system"}
    assert len(node.sync.committer.files) <= 16
    # Half of so small a cache makes room at once, for each log in each round.
    assert done["sync_file_system"] <= 4 * LOGS // 8


def test_without_a_promise_of_the_file_system_each_log_is_synced() -> None:
    disk = UnknownDisk()
    node, logs = started(disk)
    done = syncs_of_rounds(node, logs, 6)
    node.sync._begin(drain_journal=True)
    node.settle()
    assert done["sync"] >= LOGS / 2
    assert not done["sync_file_system"]
    disk.power_loss(Random(1))
    assert [len(found) for found in recovered(disk)] == [6] * LOGS


def test_after_an_error_of_the_file_system_each_log_is_synced() -> None:
    disk = SimDisk()
    node, logs = started(disk)
    own: set[str] = set()

    def hook(operation: str, path: str) -> None:
        if operation == "sync_file_system":
            raise OSError(errno.EIO, "simulated", path)
        if operation == "sync" and path.endswith(".log"):
            own.add(path)
            if "/a3/" in path:
                raise OSError(errno.EIO, "simulated", path)

    for number in range(6):
        for log in logs:
            if log.failed is None:
                fill(log, 1, first=number)
        disk.hook = hook
        node.settle()
    node.sync._begin(drain_journal=True)
    node.settle()
    disk.hook = None
    assert len(own) == LOGS
    assert [log.incarnation for log in logs if log.failed] == ["a3"]
    durable = [log.durable for log in logs]
    disk.power_loss(Random(1))
    found = recovered(disk)
    # All that was confirmed, of the log that failed too: the journal has it. Offset 0 is no message's.
    assert all(len(messages) >= end - 1 > 0 for messages, end in zip(found, durable, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_what_one_sync_made_durable_outlives_a_power_failure(seed: int) -> None:
    disk = SimDisk()
    node, logs = started(disk)
    syncs_of_rounds(node, logs, 6)
    node.sync._begin(drain_journal=True)
    node.settle()
    left = copy.deepcopy(disk)
    left.power_loss(Random(seed))
    assert [len(found) for found in recovered(left)] == [6] * LOGS
