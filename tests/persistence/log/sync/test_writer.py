"""A log's names are durable when they are made, and one position says how far it is synced."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from persistence.log.queue.queue_log import QueueLog
from persistence.log.sync.log_sync import LogSync
from persistence.log.sync.writer import State
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.support import ManualClock, ManualWorker, Node, bodies, fill


def nodes(count: int, options: LogOptions | None = None) -> tuple[Node, SimDisk, list[QueueLog]]:
    node = Node(options=options or LogOptions())
    disk = node.disk
    assert isinstance(disk, SimDisk)
    disk.sync_directory("")
    return node, disk, [node.catalog.create(f"a{number}", "/", "q", {}) for number in range(count)]


def unsynced_names(disk: SimDisk) -> list[str]:
    """Names of logs that a power failure may take."""
    return sorted(name for name in disk.names if "queues" in name and name not in disk.durable_names)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_names_are_durable_after_the_round_that_makes_them(count: int) -> None:
    """Whichever way the round went, and however many logs are new."""
    node, disk, logs = nodes(count)
    assert {log.writer.state for log in logs} == {State.NEW}
    for log in logs:
        fill(log, 1)
    node.settle()
    assert not unsynced_names(disk)
    for log in logs:
        inode = disk.names["d/queues/" + log.incarnation + "/log.json"]
        assert inode is not None
        assert not inode.pending
        # Through the journal the segments are not synced yet.
        assert log.writer.state is (State.CLEAN if count == 1 else State.NAMED)
        assert log.writer.synced_to == (log.writer.position if count == 1 else 0)
        assert log.durable == log.end
    node.run_timers()
    assert {log.writer.state for log in logs} == {State.CLEAN}


def test_next_segments_name_is_durable_too() -> None:
    node, disk, (log,) = nodes(1, LogOptions(segment_bytes_max=4000, batch_bytes_max=1000))
    for number in range(6):
        fill(log, 20, first=number)
        node.settle()
        names = [name for name in unsynced_names(disk) if name.endswith(".log")]
        assert not names
    assert len(log.partition.segments) > 2
    assert log.writer.synced_to == log.partition.active.size


def test_log_whose_names_cannot_be_synced_is_fenced_alone() -> None:
    node, disk, logs = nodes(2)
    disk.fail("sync_directory", "/a0", error=errno.EIO, once=True)
    for log in logs:
        fill(log, 1)
    node.settle()
    assert [log.failed is None for log in logs] == [False, True]
    assert logs[0].durable == 0
    assert logs[1].durable == logs[1].end


def test_names_that_could_not_be_synced_are_synced_again() -> None:
    node, disk, (log,) = nodes(1)
    disk.fail("sync_directory", "/a0", error=errno.ENOSPC)
    fill(log, 1)
    node.settle()
    assert log.passing
    disk.hook = None
    node.run_timers()
    assert log.durable == log.end > 0
    assert not unsynced_names(disk)


class Threads(Node):
    """A node whose worker and flusher do what they are told to do."""

    def __init__(self) -> None:
        super().__init__()
        assert isinstance(self.disk, SimDisk)
        self.worker = ManualWorker()
        self.flusher = self.disk.flusher()
        self.worker.beside(self.flusher, self.posted.append)
        self.clock = ManualClock(0)
        options = LogOptions()
        self.sync = LogSync(
            self.disk,
            "e",
            options,
            post=self.posted.append,
            call_later=self.clock.call_later,
            clock=self.clock.read,
            wall_us=self.clock.wall_us,
            worker=self.worker,
            flusher=self.flusher,
        )
        self.flusher.on_done = self.sync.flushed
        self.catalog = type(self.catalog)("e", self.sync, options, MemoryBudget(), disk=self.disk)
        self.catalog.start()

    def publish(self, *logs: QueueLog) -> None:
        for log in logs:
            fill(log, 1)
        self.sync.start_round()

    def go_on(self) -> None:
        while self.flusher.has_job or self.worker.jobs or self.posted:
            if self.flusher.has_job:
                self.flusher.run()
            elif self.worker.jobs:
                self.worker.run_one()
            else:
                self.posted.pop(0)()


def test_log_is_removed_after_the_plan_under_way() -> None:
    node = Threads()
    logs = [node.catalog.create(f"a{number}", "/", "q", {}) for number in range(3)]
    for _ in range(2):
        node.publish(*logs)
        node.go_on()
    node.publish(*logs)
    assert node.flusher.count == 4
    node.catalog.forget("a1")
    assert not node.worker.jobs  # which would close the file that the flusher writes to
    node.flusher.run()
    assert "e/queues/a1" in node.disk.names  # type: ignore[attr-defined]
    node.go_on()
    assert "e/queues/a1" not in node.disk.names  # type: ignore[attr-defined]
    assert [log.durable == log.end for log in (logs[0], logs[2])] == [True, True]
    node.catalog.stop()


@pytest.mark.parametrize("failing", ["a0", "a1", "journal"])
def test_plan_that_fails_in_the_middle_goes_log_by_log(failing: str) -> None:
    node = Threads()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    logs = [node.catalog.create(f"a{number}", "/", "q", {}) for number in range(2)]
    node.publish(*logs)
    node.go_on()
    before = [log.durable for log in logs]
    node.publish(*logs)
    assert node.flusher.count == 3
    disk.fail("write", failing, error=errno.EIO)
    node.flusher.run()
    assert [log.durable for log in logs] == before
    node.go_on()
    fine = [log for log in logs if log.incarnation != failing]
    assert all(log.durable == log.end > before[0] and log.failed is None for log in fine)
    assert all(log.failed is not None and log.durable == before[0] for log in logs if log not in fine)
    # A log's own fault is not the journal's.
    assert node.sync.committer.journal.broken == (failing == "journal")


def killed_at(disk: SimDisk, steps: int, act: Callable[[], None]) -> bool:
    """Whether the process ends after so many operations of ``act``; what it wrote stays in the page cache."""
    disk.steps_left = steps
    is_killed = False
    try:
        act()
    except PowerLoss:
        is_killed = True
    disk.steps_left = -1
    disk.forget_files()
    return is_killed


@pytest.mark.parametrize("is_first", [True, False])
def test_names_seen_after_a_kill_are_not_taken_for_durable(is_first: bool) -> None:
    """A process dies at any point of making a file, the next one goes on in it, and then the power fails."""
    options = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000)
    for steps in range(100):
        disk = SimDisk()
        disk.make_directory("d")
        disk.sync_directory("")
        node = Node(disk, options)
        node.catalog.quarantine_unknown([])
        log = node.catalog.create("a", "/", "q", {})
        if not is_first:
            fill(log, 5, 600)
            node.settle()
        node.catalog.stop()
        node = Node(disk, options)
        log = node.catalog.open("a", "/", "q", {})
        node.catalog.quarantine_unknown(["a"])
        fill(log, 1 if is_first else 5, 600)
        is_killed = killed_at(disk, steps, node.settle)
        node = Node(disk, options)
        log = node.catalog.open("a", "/", "q", {})
        node.catalog.quarantine_unknown(["a"])
        fill(log, 1)
        node.settle()
        assert log.durable == log.end
        wanted = bodies(log)
        assert wanted
        disk.power_loss(Random(steps))
        assert bodies(Node(disk, options).catalog.open("a", "/", "q", {})) == wanted, steps
        if not is_killed:
            return
    raise AssertionError("the round has more steps")
