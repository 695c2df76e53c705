"""The thread that writes and syncs small rounds: both twins, and the sync over it on real files."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp_router.protocol.flags import PERSISTENT
from amqp_router.protocol.message import build_message
from persistence import _flush
from persistence.files import RealDisk
from persistence.log.queue.catalog import Catalog
from persistence.log.queue.queue_log import QueueLog
from persistence.log.sync.log_sync import LogSync
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from persistence.plan import Plan, Target, Write
from tests.persistence.log.simdisk import plain_flush
from tests.persistence.log.support import NoTimer


@pytest.fixture(params=["as built", "plain"])
def flusher(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = _flush.Flusher() if request.param == "as built" else plain_flush().Flusher()
    yield made
    made.stop()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


class Descriptor(Target):
    """A descriptor as the target of writes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def file(self) -> Descriptor:  # type: ignore[override]
        return self

    def fileno(self) -> int:
        return self.fd


def plan(*writes: tuple[int, int, list[bytes]]) -> Plan:
    return Plan([Write(Descriptor(fd), position, list(pieces), 0) for fd, position, pieces in writes])


def done(flusher: Any) -> int:
    select.select([flusher.fileno()], [], [])
    error = flusher.finish()
    assert isinstance(error, int)
    return error


def test_pieces_are_written_one_after_the_other(flusher: Any, file: int) -> None:
    flusher.submit(plan((file, 0, [b"ab", b"", b"cd"]), (file, 4, [b"ef"])))
    assert flusher.busy
    assert done(flusher) == 0
    assert not flusher.busy
    assert flusher.finish() == -1
    assert os.pread(file, 100, 0) == b"abcdef"


def test_many_pieces_and_jobs(flusher: Any, file: int) -> None:
    position = 0
    for size in (1, 100, 1000, 5000):
        pieces = [b"%d," % n for n in range(size)]
        flusher.submit(plan((file, position, pieces)))
        assert done(flusher) == 0
        position += sum(map(len, pieces))
    assert os.pread(file, 1 << 20, 0) == b"".join(
        b"%d," % n for size in (1, 100, 1000, 5000) for n in range(size)
    )


def test_error_number_of_what_failed(flusher: Any, file: int, tmp_path: Path) -> None:
    readable = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        partly = plan((file, 4, [b"w"]), (readable, 0, [b"x"]), (file, 0, [b"y"]))
        flusher.submit(partly)
        assert done(flusher) == errno.EBADF
        assert partly.done == 1
        assert os.pread(file, 10, 0) == b"\0\0\0\0w"
    finally:
        os.close(readable)
    flusher.submit(plan((file, 0, [b"z"])))
    assert flusher.wait() == 0


def test_one_plan_at_a_time(flusher: Any, file: int) -> None:
    flusher.submit(plan((file, 0, [b"x"])))
    with pytest.raises(AssertionError, match="one plan"):
        flusher.submit(plan((file, 0, [b"y"])))
    assert flusher.wait() == 0


class Node:
    """A sync with a flusher over real files; turns are the test's."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.posted: list[Any] = []
        self.flusher: Any = RealDisk().flusher()
        log_options = LogOptions(**options)
        self.sync = LogSync(
            RealDisk(),
            str(directory),
            log_options,
            post=self.posted.append,
            call_later=lambda seconds, call: NoTimer(),
            flusher=self.flusher,
        )
        budget = MemoryBudget(1 << 20)
        self.catalog = Catalog(str(directory), self.sync, log_options, budget, disk=RealDisk())
        self.catalog.start()

    def log(self, name: str) -> QueueLog:
        log = self.catalog.create(name, "/", name)
        return log

    def publish(self, *logs: QueueLog) -> None:
        for log in logs:
            message = build_message(b"\x00\x01q", b"\x10\x00\x02", b"body")
            message.flags = PERSISTENT
            log.append(message, 1)
        self.sync.start_round()

    def turn(self) -> bool:
        """Wait for the round under way; True if the flusher had it."""
        if self.flusher.busy:
            select.select([self.flusher.fileno()], [], [])
            self.sync.flushed()
            return True
        self.sync.settle_down()
        return False


def test_small_rounds_skip_the_worker(tmp_path: Path) -> None:
    node = Node(tmp_path)
    one, two = node.log("one"), node.log("two")
    node.publish(one, two)
    assert not node.turn()  # makes directories, files and the journal
    node.publish(one)
    node.turn()  # makes the names durable
    node.publish(two)
    node.turn()
    for logs in ([one], [two], [one, two], [two]):
        node.publish(*logs)
        assert node.turn()
        assert all(log.high_watermark == log.end for log in logs)
    node.catalog.stop()


@pytest.mark.parametrize("failing", ["write", "journal"])
def test_failed_small_round_confirms_nothing_that_is_not_safe(tmp_path: Path, failing: str) -> None:
    node = Node(tmp_path)
    logs = [node.log("one"), node.log("two")]
    for _ in range(3):
        for some in (logs, logs[:1], logs[1:]):
            node.publish(*some)
            node.turn()
    watermarks = [log.high_watermark for log in logs]
    real = node.flusher.finish
    told: list[int] = []

    class Failing:
        busy = True

        def __getattr__(self, name: str) -> Any:
            return getattr(node.flusher, name)

        def finish(self) -> int:
            told.append(real())
            return errno.EIO

    node.sync.jobs.flusher = Failing()  # type: ignore[assignment]
    node.publish(*(logs[:1] if failing == "write" else logs))
    assert node.turn()
    node.sync.jobs.flusher = node.flusher
    if failing == "write":
        assert logs[0].failed is not None
        assert logs[0].high_watermark == watermarks[0]
        assert logs[1].failed is None
    else:
        # The worker does the round again, log by log, and believes the journal no more.
        node.sync.settle_down()
        assert node.sync.committer.journal.broken
        assert all(log.failed is None and log.high_watermark == log.end for log in logs)
    assert told == [0]
    node.catalog.stop()


def test_who_comes_last_does_not_wait_for_a_wide_fan_out(tmp_path: Path) -> None:
    node = Node(tmp_path, logs_per_round_max=4, new_logs_per_round=100)
    logs = [node.log(f"log{index}") for index in range(12)]
    node.publish(*logs)
    node.sync.settle_down()
    durable = [index for index, log in enumerate(logs) if log.high_watermark == log.end]
    assert durable == [0, 1, 10, 11]
    while node.sync.is_dirty:
        node.sync.start_round()
        node.turn()
    assert all(log.high_watermark == log.end for log in logs)
    node.catalog.stop()


def test_files_of_new_logs_are_made_a_few_at_a_time(tmp_path: Path) -> None:
    node = Node(tmp_path, new_logs_per_round=2)
    logs = [node.log(f"log{index}") for index in range(5)]
    made = []
    node.publish(*logs)
    while not all(log.high_watermark == log.end for log in logs):
        node.turn()
        made.append(sum(log.writer.is_made for log in logs))
        node.sync.start_round()
    assert made == [2, 4, 5]
    node.catalog.stop()


def test_settling_down_begins_no_other_round(tmp_path: Path) -> None:
    """A truncation would cut what that one confirms."""
    node = Node(tmp_path)
    one = node.log("one")
    for _ in range(3):
        node.publish(one)
        node.turn()
    node.publish(one)
    assert node.flusher.busy
    middle = one.end
    node.publish(one)  # dirty again while the flusher is at work
    node.sync.settle_down()
    assert not node.flusher.busy
    assert one.high_watermark == middle
    node.sync.start_round()
    assert node.turn()
    assert one.high_watermark == one.end > middle
    node.catalog.stop()
