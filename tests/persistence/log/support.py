"""Small helpers of the log's tests: a node over a simulated or a real disk, run to the end at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp_router.protocol.message import Message, build_message
from persistence.files import Disk
from persistence.log.queue.catalog import Catalog
from persistence.log.queue.queue_log import QueueLog
from persistence.log.replica.reading import RawReader
from persistence.log.sync.log_sync import LogSync
from persistence.loop import Loop
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk, SimFlusher

PROPERTIES = b"\x10\x00\x02"
SMALL = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, index_interval_bytes=500, read_bytes=1200)


class InlineWorker:
    """Does a job when it is submitted, unless its process has ended."""

    is_idle = True
    has_ended = False

    def submit(self, job: Callable[[], None]) -> None:
        if not self.has_ended:
            job()

    def end(self) -> None:
        self.has_ended = True

    def wait_idle(self) -> None: ...

    def stop(self) -> None: ...


class NoTimer:
    def cancel(self) -> None: ...


class ManualWorker:
    """Runs a job when told to."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []
        #: Which must have nothing under way while this one has a job: it might close a descriptor.
        self.flusher: SimFlusher | None = None

    @property
    def is_idle(self) -> bool:
        return not self.jobs

    def beside(self, flusher: SimFlusher, post: Callable[[Callable[[], None]], Any]) -> None:
        """The other thread is ``flusher``, and ``post`` puts onto the loop what it is done with."""
        self.flusher = flusher
        flusher.may_begin = lambda: self.is_idle
        flusher.post = post

    def submit(self, job: Callable[[], None]) -> None:
        assert self.flusher is None or not self.flusher.busy, "a job for the worker beside the flusher's"
        self.jobs.append(job)

    def run_one(self) -> None:
        self.jobs.pop(0)()

    def wait_idle(self) -> None:
        while self.jobs:
            self.run_one()

    def stop(self) -> None:
        assert not self.jobs


class ManualTimer:
    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def go_off(self) -> None:
        """Call, unless another one has cancelled it."""
        if not self.cancelled:
            self.callback()


class ManualClock:
    """Time that passes when told to, and what waits for it."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._timers: list[ManualTimer] = []

    def read(self) -> float:
        return self.now

    def wall_us(self) -> int:
        return int(self.now * 1_000_000)

    def call_later(self, delay: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self.now + delay, callback)
        self._timers.append(timer)
        return timer

    def advance(self, seconds: float) -> list[ManualTimer]:
        """Time passes; the timers to go off now, in their order."""
        self.now += seconds
        due = [timer for timer in self._timers if timer.due <= self.now]
        self._timers = [timer for timer in self._timers if timer.due > self.now]
        return sorted(due, key=lambda timer: timer.due)


class Node:
    """Catalog and sync over ``disk``; ``settle`` runs rounds until nothing is dirty."""

    def __init__(
        self,
        disk: Disk | None = None,
        options: LogOptions = SMALL,
        data_dir: str = "d",
        clock: ManualClock | None = None,
    ) -> None:
        self.disk: Disk = disk or SimDisk()
        self.posted: list[Callable[[], None]] = []
        self.timers: list[Callable[[], None]] = []
        #: The time of day.
        self.now_us = 1_000_000
        self.sync = LogSync(
            self.disk,
            data_dir,
            options,
            post=self.posted.append,
            call_later=clock.call_later if clock is not None else self._call_later,
            clock=clock.read if clock is not None else lambda: 0.0,
            wall_us=lambda: self.now_us,
            worker=InlineWorker(),
        )
        self.catalog = Catalog(
            data_dir, self.sync, options, MemoryBudget(), disk=self.disk, janitor=InlineWorker()
        )
        self.catalog.start()

    def _call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        self.timers.append(callback)
        return NoTimer()

    def settle(self) -> None:
        self.sync.start_round()
        while self.posted:
            self.posted.pop(0)()

    def run_timers(self) -> None:
        timers, self.timers = self.timers, []
        for callback in timers:
            callback()
        self.settle()


def message(body: bytes, key: bytes = b"q", properties: bytes = PROPERTIES) -> Message:
    made = build_message(b"\x00" + bytes([len(key)]) + key, properties, body)
    made.flags = 1
    return made


def fill(log: QueueLog, count: int, size: int = 50, first: int = 0) -> list[int]:
    """Append numbered messages; their offsets."""
    offsets = []
    for number in range(first, first + count):
        made = message(b"%d:" % number + b"*" * size)
        log.append(made, 1_000_000 + number)
        offsets.append(made.offset)
    return offsets


def bodies(log: QueueLog) -> list[bytes]:
    """Bodies of all unsettled messages."""
    found, _ = log.read(0, log.end, 1 << 30, 1 << 40)
    return [entry.body() for entry in found]


def last_of(data: bytes) -> int:
    """The last offset of a batch."""
    last_delta, base = int.from_bytes(data[36:40], "little"), int.from_bytes(data[48:56], "little")
    return base + last_delta


def raw_batches(disk: Disk, log: QueueLog, first: int = 0) -> list[bytes]:
    """The batches from the one that holds offset ``first`` on, as followers get them."""
    at_once = Loop(lambda call: call(), lambda delay, call: NoTimer(), lambda: 0.0, lambda: 0)
    reader = RawReader(log, disk, at_once, InlineWorker())
    answers: list[tuple[list[bytes], Exception | None]] = []
    found: list[bytes] = []
    while True:
        reader.read(last_of(found[-1]) + 1 if found else first, 1 << 30, lambda *each: answers.append(each))
        batches, error = answers.pop()
        assert error is None, error
        if not batches:
            return found
        found += batches


def returned(log: QueueLog) -> list[int]:
    """Offsets of the unsettled messages that have returned, in the order in which they did the last time."""
    runs = log.batches.returned.runs(log.batches.state)
    return [offset for run in runs for offset in range(run.first, run.first + run.count)]


def unsettled(log: QueueLog) -> list[int]:
    """Offsets of the unsettled messages, in order."""
    found = []
    at = log.batches.state.next_unsettled(0, log.end)
    while at < log.end:
        found.append(at)
        at = log.batches.state.next_unsettled(at + 1, log.end)
    return found
