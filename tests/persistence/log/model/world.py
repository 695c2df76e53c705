"""The logs with what they need, their models, and how both are compared.

Nothing runs by itself: the sync starts a round, a thread does a job, the loop hears of it and time passes
when a move says so. What happens to the logs stands in ``writing``, how they end and start in ``ends``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from persistence.log.queue.catalog import Catalog
from persistence.log.queue.queue_log import QueueLog
from persistence.log.sync.log_sync import LogSync
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.log.model.reading import check_times, drain
from tests.persistence.log.model.shadow import Entry, Shadow
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.sizes import OPTIONS
from tests.persistence.log.support import ManualClock, ManualWorker, returned, unsettled

LOGS = 4
#: The time of day when a world begins.
START_US = 1_700_000_000_000_000


class World:
    """The logs of a node, several lives of it; ``moves`` is the histogram of what was done."""

    def __init__(self, options: LogOptions = OPTIONS) -> None:
        self.options = options
        self.disk = SimDisk()
        self.clock = ManualClock(1000.0)
        #: How far the time of day is off, in microseconds.
        self.off_us = 0
        self.moves: Counter[str] = Counter()
        self.generation = 0
        self.serial = 0
        self.boot = 0
        #: Names of deleted logs, whose directories a crash may have left.
        self.deleted: set[str] = set()
        self.shadows = [self.new_shadow(number) for number in range(LOGS)]
        self.disk.make_directory("d")
        self.disk.sync_directory("")
        self.start()
        self.catalog.quarantine_unknown([])
        for shadow in self.shadows:
            self.create(shadow)

    def new_shadow(self, number: int) -> Shadow:
        """A log of a name that no log had before."""
        self.generation += 1
        return Shadow(f"log{number}-{self.generation}")

    # -- start and stop -------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process over what the disk has; no log is open in it."""
        self.boot += 1
        #: Names of logs deleted in this life, and whether the disk has failed in it.
        self.removed: set[str] = set()
        self.has_failed = False
        self.clock = ManualClock(self.clock.now)
        self.posted: list[Callable[[], None]] = []
        self.worker = ManualWorker()
        self.flusher = self.disk.flusher()
        self.worker.beside(self.flusher, self.posted.append)
        self.sync = LogSync(
            self.disk,
            "d",
            self.options,
            post=self.posted.append,
            call_later=self.clock.call_later,
            clock=self.clock.read,
            wall_us=self.wall_us,
            worker=self.worker,
            flusher=self.flusher,
        )
        self.flusher.on_done = self.sync.flushed
        self.catalog = Catalog(
            "d",
            self.sync,
            self.options,
            MemoryBudget(),
            disk=self.disk,
            boot_id=self.boot.to_bytes(16, "big"),
        )
        self.catalog.start()

    def wall_us(self) -> int:
        """The time of day."""
        return START_US + self.clock.wall_us() + self.off_us

    def log(self, number: int) -> QueueLog:
        """The log of this number, which is open."""
        log = self.shadows[number].log
        assert log is not None
        return log

    def create(self, shadow: Shadow) -> None:
        shadow.log = self.catalog.create(shadow.name, "/", shadow.name, {})
        shadow.log.listener = shadow
        shadow.epoch = shadow.log.epoch

    def reopen(self, *, clean: bool) -> None:
        """Start again and compare all logs; ``clean`` says whether the last stop was."""
        self.start()
        for shadow in self.shadows:
            self.open_log(shadow, clean=clean and not shadow.failed)
        moved = self.catalog.quarantine_unknown([shadow.name for shadow in self.shadows])
        assert set(moved) <= self.deleted
        assert not [name for name in self.disk.list("d") if name.endswith(".journal")]

    def open_log(self, shadow: Shadow, *, clean: bool) -> None:
        """Open one log and compare it."""
        log = self.catalog.open(shadow.name, "/", shadow.name, {})
        shadow.log = log
        log.listener = shadow
        self._compare_after_start(shadow, log, clean=clean)

    def lose_power(self, seed: int) -> None:
        """The process is gone, and of what was not synced the disk keeps what the seed says."""
        for shadow in self.shadows:
            shadow.log = None
        self.disk.power_loss(Random(seed))

    def close(self) -> None:
        """Add up what the disk has seen."""
        for event, count in self.disk.events.items():
            self.moves[f"({event})"] += count

    # -- comparing ------------------------------------------------------------------------------------

    def read(self, number: int) -> None:
        """Compare a log that can be read with its model."""
        shadow, log = self.shadows[number], self.log(number)
        if shadow.failed and not shadow.passing:
            return
        self.moves["read"] += 1
        check_times(log)
        messages = drain(log)
        expected = shadow.unsettled()
        assert [message.offset for message in messages] == expected
        for message in messages:
            entry = shadow.entries[message.offset]
            assert message.body() == entry.body
            assert message.delivery_count == entry.returns
            assert bool(message.flags & 2) == (entry.returns > 0 or entry.redelivered)
        assert log.batches.state.live == len(expected)
        assert unsettled(log) == expected
        assert returned(log) == shadow.returned()
        if expected:
            one = log.read_one(expected[len(expected) // 2])
            assert one.body() == shadow.entries[one.offset].body

    def _compare_after_start(self, shadow: Shadow, log: QueueLog, *, clean: bool) -> None:
        """Compare a log that was opened; from then on the model has what the log has."""
        wrote_epoch = bool(log.batches.epochs.starts)
        if wrote_epoch:
            assert log.epoch > log.batches.epochs.starts[-1][0], "the epoch was not raised"
        assert log.epoch >= shadow.epoch if clean else True
        messages = drain(log)
        found = {message.offset: message for message in messages}
        for offset, message in found.items():
            entry = shadow.entries.get(offset)
            assert entry is not None, f"{shadow.name}: offset {offset} was never appended"
            assert message.body() == entry.body, f"{shadow.name}: offset {offset} has another body"
            assert not entry.settle_durable, f"{shadow.name}: offset {offset} was settled durably"
            assert not (clean and entry.settled)
            if not clean:
                assert message.flags & 2, f"{shadow.name}: offset {offset} is not marked redelivered"
            else:
                assert bool(message.flags & 2) == (entry.redelivered or entry.returns > 0)
                assert message.delivery_count == entry.returns
            assert message.delivery_count >= entry.returns_durable
        for offset, entry in shadow.entries.items():
            is_safe = offset < shadow.confirmed_below or clean
            if is_safe and not entry.settled:
                assert offset in found, f"{shadow.name}: confirmed offset {offset} is lost"
        assert log.batches.state.live == len(found)
        assert log.end >= shadow.confirmed_below
        fresh: dict[int, Entry] = {}
        for offset, message in found.items():
            entry = fresh[offset] = Entry(shadow.entries[offset].body)
            entry.returns = entry.returns_durable = message.delivery_count
            entry.places = shadow.entries[offset].places[: entry.returns + 1]
            entry.redelivered = bool(message.flags & 2) and (not clean or shadow.entries[offset].redelivered)
        shadow.entries = fresh
        assert returned(log) == shadow.returned()
        shadow.confirmed_below = log.high_watermark
        shadow.unsealed = []
        shadow.sealed = []
        shadow.failed = shadow.passing = False
        shadow.waiting = []
        shadow.epoch = log.epoch
        shadow.gaps = {message.offset: 0 for message in messages}

    # -- the sync, the threads and the clock ----------------------------------------------------------

    def tick(self) -> None:
        """The sync starts a round."""
        self.moves["tick"] += 1
        self.sync.start_round()
        self.note_sealed()

    def work(self) -> None:
        """One of the two threads does a job; the loop has not heard of it."""
        if self.flusher.has_job:
            self.moves["flush" if self.flusher.count == 1 else "flush by the journal"] += 1
            self.flusher.run()
        elif self.worker.jobs:
            self.moves["work"] += 1
            self.worker.run_one()

    def hear(self) -> None:
        """The loop hears of one thing that a thread has done."""
        if self.posted:
            self.moves["hear"] += 1
            self.posted.pop(0)()
            self.note_sealed()

    def settle_down(self) -> None:
        """Ticks and rounds until nothing is left to sync."""
        self.moves["settle down"] += 1
        for _ in range(20):
            self.tick()
            while self.flusher.has_job or self.worker.jobs or self.posted:
                self.work()
                if self.posted:
                    self.posted.pop(0)()
                self.note_sealed()
            if not self.sync.is_dirty:
                left = [name for name in self.catalog.incarnations() if name in self.removed]
                assert not left or self.has_failed, f"deleted logs are not removed: {left}"
                return
        raise AssertionError("the sync does not settle down")

    def wait(self, seconds: float) -> None:
        """Time passes; timers go off."""
        self.moves["wait"] += 1
        for timer in self.clock.advance(seconds):
            timer.go_off()
            self.note_sealed()

    def note_sealed(self) -> None:
        """The models see which settles have gone into a batch."""
        for shadow in self.shadows:
            shadow.note_sealed()
