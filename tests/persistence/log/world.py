"""A node's logs over a simulated disk, and next to them a model made of dictionaries.

``World`` is the set of moves; ``walk`` makes random ones from a seed (fast), ``test_model.py`` lets
hypothesis choose them. After every move that reads, and after every restart, the logs must agree with the
model:

- a confirmed message that was never settled is there, with its content, after whatever happened;
- a message whose settle was durable is gone;
- what is there was appended at that offset with that content, in that order;
- after a crash everything is redelivered; after a clean stop exactly what was returned;
- a start raises the epoch above every one used before;
- times never fall within a segment, and what is written after a start has the clock's time, wherever the
  clock stood before.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from amqp_router.protocol.flags import ACK, DROP, REJECT, RETURN
from amqp_router.protocol.message import Message, build_message
from persistence.clock import JUMP_US
from persistence.errors import LogFailed
from persistence.log.format.record import HEADER_SIZE, BatchHeader, parse_header
from persistence.log.format.segment import Segment
from persistence.log.queue.catalog import Catalog
from persistence.log.queue.queue_log import QueueLog
from persistence.log.queue.times import is_crumbled
from persistence.log.sync.log_sync import LogSync
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.support import ManualClock, ManualWorker, returned, unsettled
from tests.planting import walk_seeds

OPTIONS = LogOptions(
    segment_bytes_max=1500,
    batch_bytes_max=500,
    index_interval_bytes=300,
    read_bytes=700,
    journal_logs_min=1,
    journal_log_bytes_max=1500,
    journal_bytes_max=2500,
    journal_syncs_per_round=1,
    descriptors_max=3,
    sync_all_logs_min=2,
    sync_names_min=3,
    clean_live_ratio=0.7,
    clean_bytes_min=200,
    clean_slice_bytes=1000,
)
#: With room for rounds small enough for the flusher: segments and descriptors stay open.
ROOMY = replace(
    OPTIONS, segment_bytes_max=6000, descriptors_max=8, journal_bytes_max=6000, clean_bytes_min=600
)
LOGS = 4
#: The time of day when a world begins, and how far the clock may be off: a step that is levelled out, hours,
#: a year, back and forth.
START_US = 1_700_000_000_000_000
OFF_US = (0, 0, 30_000_000, -30_000_000, 7_200_000_000, -7_200_000_000, 365 * 86_400_000_000)
#: Operations that may fail.
FAULTS = ("sync", "write", "create", "rename", "unlink", "sync_directory", "sync_file_system")


class Entry:
    """A message the model knows."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.settled = False
        self.settle_durable = False
        self.returns = 0
        self.returns_durable = 0
        #: Its place among all that returned, after each return.
        self.places = [0]
        self.redelivered = False


class Shadow:
    """The model of one log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: QueueLog | None = None
        self.entries: dict[int, Entry] = {}
        self.confirmed_below = 0
        self.gaps: dict[int, int] = {}
        #: How many have ever returned.
        self.line = 0
        #: Settles not yet sealed; and sealed ones with the watermark that makes them durable.
        self.unsealed: list[tuple[int, int]] = []
        self.sealed: list[tuple[int, int, int]] = []
        self.epoch = 0
        self.failed = False
        #: The log is fenced by an error that passes: what was settled meanwhile counts.
        self.passing = False
        #: Offsets of messages whose publishers have no answer.
        self.waiting: list[int] = []
        #: A truncation of what cannot be cut is under way: below a checkpoint, or of a log not on disk yet.
        self.asks_too_much = False

    def on_high_watermark(self, log: QueueLog) -> None:
        assert log is self.log
        assert not self.failed, "a fenced log confirmed something"
        assert log.high_watermark > self.confirmed_below
        assert log.high_watermark <= log.end
        self.confirmed_below = log.high_watermark
        while self.waiting and self.waiting[0] < self.confirmed_below:
            del self.waiting[0]
        self.harden()

    def on_refused(self, log: QueueLog, offset: int) -> None:
        assert log is self.log
        while self.waiting and self.waiting[-1] >= offset:
            del self.waiting[-1]

    def on_log_failed(self, log: QueueLog, error: Exception) -> None:
        # A healthy log that fences itself is a fault of ours.
        simulated = "simulated" in str(error) or getattr(error, "errno", 0) in (
            errno.EIO,
            errno.ENOSPC,
            errno.EMFILE,
        )
        known = simulated or "the log is deleted" in str(error)
        assert known or self.asks_too_much, error
        self.failed = True
        self.waiting = []
        self.passing = log.passing

    def on_log_resumed(self, log: QueueLog) -> None:
        assert self.failed
        assert self.passing
        self.failed = self.passing = False

    def note_sealed(self) -> None:
        if self.passing:
            return
        if self.failed:
            self.unsealed = []
        if self.log is not None and self.unsealed and not self.log.due.settles:
            end = self.log.end
            self.sealed += [(offset, returns, end) for offset, returns in self.unsealed]
            self.unsealed = []
            self.harden()

    def harden(self) -> None:
        rest = []
        for offset, returns, need in self.sealed:
            if need > self.confirmed_below:
                rest.append((offset, returns, need))
            elif returns:
                entry = self.entries[offset]
                entry.returns_durable = max(entry.returns_durable, returns)
            else:
                self.entries[offset].settle_durable = True
        self.sealed = rest

    def unsettled(self) -> list[int]:
        return [offset for offset, entry in self.entries.items() if not entry.settled]

    def returned(self) -> list[int]:
        """Those that have returned, in the order in which they did the last time."""
        found = [offset for offset in self.unsettled() if self.entries[offset].returns]
        return sorted(found, key=lambda offset: self.entries[offset].places[self.entries[offset].returns])


class World:
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
        self.shadows = [self._new_shadow(number) for number in range(LOGS)]
        self.disk.make_directory("d")
        self.disk.sync_directory("")
        self._boot()
        self.catalog.quarantine_unknown([])
        for shadow in self.shadows:
            self._create(shadow)

    def _new_shadow(self, number: int) -> Shadow:
        self.generation += 1
        return Shadow(f"log{number}-{self.generation}")

    # -- start and stop -------------------------------------------------------------------------------

    def _boot(self) -> None:
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

    def _create(self, shadow: Shadow) -> None:
        shadow.log = self.catalog.create(shadow.name, "/", shadow.name, {})
        shadow.log.listener = shadow
        shadow.epoch = shadow.log.epoch

    def _reopen(self, *, clean: bool) -> None:
        self._boot()
        for shadow in self.shadows:
            self._open(shadow, clean=clean and not shadow.failed)
        moved = self.catalog.quarantine_unknown([shadow.name for shadow in self.shadows])
        assert set(moved) <= self.deleted
        assert not [name for name in self.disk.list("d") if name.endswith(".journal")]

    def _open(self, shadow: Shadow, *, clean: bool) -> None:
        log = self.catalog.open(shadow.name, "/", shadow.name, {})
        shadow.log = log
        log.listener = shadow
        self._compare_after_start(shadow, log, clean=clean)

    def _compare_after_start(self, shadow: Shadow, log: QueueLog, *, clean: bool) -> None:
        wrote_epoch = bool(log.batches.epochs.starts)
        if wrote_epoch:
            assert log.epoch > log.batches.epochs.starts[-1][0], "the epoch was not raised"
        assert log.epoch >= shadow.epoch if clean else True
        messages = self._drain(log)
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

    def _drain(self, log: QueueLog, limit: int | None = None) -> list[Message]:
        messages: list[Message] = []
        offset = 0
        end = log.end if limit is None else limit
        while True:
            found, offset = log.read(offset, end, 3, 400)
            if not found:
                return messages
            messages += found

    # -- moves ----------------------------------------------------------------------------------------

    def append(self, number: int, count: int, size: int) -> None:
        shadow = self.shadows[number]
        log = shadow.log
        assert log is not None
        self.moves["append"] += 1
        for _ in range(count):
            self.serial += 1
            body = (b"%d:" % self.serial).ljust(size, b"*")
            message = build_message(
                b"\x01e" + bytes([1 + number]) + b"k" * (1 + number), b"\x10\x00\x02", body
            )
            message.flags = 1
            try:
                log.append(message, self.wall_us())
            except LogFailed:
                assert shadow.failed
                return
            assert not shadow.failed
            assert message.offset not in shadow.entries
            shadow.entries[message.offset] = Entry(body)
            shadow.waiting.append(message.offset)
            shadow.gaps[message.offset] = message.gap

    def reserve(self, number: int) -> None:
        log = self.shadows[number].log
        assert log is not None
        self.moves["reserve"] += 1
        message = build_message(b"\x00\x01q", b"\x00\x00", b"t")
        log.reserve(message)
        log.settle(message.offset, message.gap, ACK)

    def settle(self, number: int, first: int, count: int, kind: int) -> None:
        """Settle or return ``count`` unsettled messages in order, from the ``first``-th on."""
        shadow = self.shadows[number]
        log = shadow.log
        assert log is not None
        offsets = shadow.unsettled()
        if not offsets or (shadow.failed and not shadow.passing):
            return
        first %= len(offsets)
        self.moves["return" if kind == RETURN else "settle"] += 1
        for offset in offsets[first : first + count]:
            log.settle(offset, shadow.gaps.get(offset, 0), kind)
            entry = shadow.entries[offset]
            if kind == RETURN:
                entry.returns += 1
                shadow.line += 1
                entry.places.append(shadow.line)
                shadow.unsealed.append((offset, entry.returns))
            else:
                entry.settled = True
                shadow.unsealed.append((offset, 0))
                # Once more changes nothing.
                log.settle(offset, 0, DROP)

    def purge(self, number: int, keep_every: int) -> None:
        shadow = self.shadows[number]
        log = shadow.log
        assert log is not None
        if shadow.failed:
            return
        self.moves["purge"] += 1
        unsettled = shadow.unsettled()
        kept = unsettled[: len(unsettled) // keep_every] if keep_every else []
        log.purge(kept[-1] + 1 if kept else 0, log.end)
        for offset, entry in shadow.entries.items():
            if offset not in kept and not entry.settled:
                entry.settled = True
                shadow.sealed.append((offset, 0, log.end))

    def tick(self) -> None:
        self.moves["tick"] += 1
        self.sync.start_round()
        self._note_sealed()

    def work(self) -> None:
        """One of the two threads does a job; the loop has not heard of it."""
        if self.flusher.has_job:
            self.moves["flush" if self.flusher.count == 1 else "flush by the journal"] += 1
            self.flusher.run()
        elif self.worker.jobs:
            self.moves["work"] += 1
            self.worker.run_one()

    def hear(self) -> None:
        if self.posted:
            self.moves["hear"] += 1
            self.posted.pop(0)()
            self._note_sealed()

    def settle_down(self) -> None:
        """Ticks and rounds until nothing is left to sync."""
        self.moves["settle down"] += 1
        for _ in range(20):
            self.tick()
            while self.flusher.has_job or self.worker.jobs or self.posted:
                self.work()
                if self.posted:
                    self.posted.pop(0)()
                self._note_sealed()
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
            self._note_sealed()

    def _note_sealed(self) -> None:
        for shadow in self.shadows:
            shadow.note_sealed()

    def read(self, number: int) -> None:
        shadow = self.shadows[number]
        log = shadow.log
        assert log is not None
        if shadow.failed and not shadow.passing:
            return
        self.moves["read"] += 1
        self._check_times(log)
        messages = self._drain(log)
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

    def delete(self, number: int) -> None:
        """Delete a queue and declare it again: nothing of the old one may show."""
        shadow = self.shadows[number]
        self.moves["delete"] += 1
        self.catalog.forget(shadow.name)
        self.deleted.add(shadow.name)
        self.removed.add(shadow.name)
        fresh = self._new_shadow(number)
        self.shadows[number] = fresh
        self._create(fresh)

    def truncate(self, number: int, share: float) -> None:
        """Cut the log somewhere above what is confirmed, a round under way or not."""
        shadow = self.shadows[number]
        log = shadow.log
        assert log is not None
        if shadow.failed:
            return
        self.moves["truncate"] += 1
        end = shadow.confirmed_below + int(share * (log.end - shadow.confirmed_below))
        shadow.asks_too_much = end < log.checkpoints.offset or not log.writer.is_made
        try:
            self.catalog.truncate(log, end, keep_as_orphan=share > 0.5)
        except LogFailed:
            assert shadow.failed or end < log.checkpoints.offset or log.checkpoints.is_unsure
            if shadow.failed:
                shadow.unsealed = []
            return
        shadow.unsealed = []
        self._note_sealed()
        assert not shadow.waiting, "what is left is durable, and what is cut is refused"
        assert shadow.confirmed_below <= log.end <= max(end, shadow.confirmed_below)
        assert log.durable == log.high_watermark == log.end
        messages = {message.offset: message for message in self._drain(log)}
        fresh: dict[int, Entry] = {}
        for offset, entry in shadow.entries.items():
            if offset < log.end:
                # Settles above the cut are undone with it.
                found = messages.pop(offset, None)
                assert found is not None or entry.settled
                assert found is None or not entry.settle_durable
                entry.settled = found is None
                if found is not None:
                    entry.returns = found.delivery_count
                    del entry.places[entry.returns + 1 :]
                    assert entry.returns >= entry.returns_durable
                fresh[offset] = entry
        assert not messages
        shadow.entries = fresh
        assert returned(log) == shadow.returned()
        shadow.unsealed = []
        shadow.sealed = [
            (offset, returns, log.end) for offset, returns, need in shadow.sealed if need <= log.end
        ]
        shadow.confirmed_below = log.end
        shadow.harden()

    def fail(self, operation: str, after: int, error: int) -> None:
        """The ``after``-th such operation of the worker fails, once."""
        self.moves[f"fail {operation}"] += 1
        self.has_failed = True
        self.disk.fail(operation, error=error, after=after, once=True)
        self.settle_down()
        # An idle journal syncs its logs.
        self.wait(1.5)
        self.settle_down()
        self.disk.hook = None

    def lack(self, operation: str, error: int, random: Random) -> None:
        """Such operations fail for a while, and everything else goes on; then every log heals by itself."""
        self.moves[f"lack {operation}"] += 1
        self.has_failed = True
        self.disk.fail(operation, error=error, after=random.randrange(4))
        for _ in range(random.randint(1, 12)):
            name = random.choice(("append", "settle_some", "settle", "tick", "settle_down", "wait", "read"))
            make_move(self, name, random.randrange(LOGS), random)
        if random.random() < 0.2:
            return  # whatever comes next comes while it lasts
        self.disk.hook = None
        for _ in range(6):
            self.wait(5.0)
            self.settle_down()
        assert not [shadow.name for shadow in self.shadows if shadow.passing]

    def crash_failing(self, operation: str, after: int, error: int, seed: int) -> None:
        """As ``fail``, and the power is lost before an idle journal syncs its logs."""
        self.moves[f"crash after failed {operation}"] += 1
        self.disk.fail(operation, error=error, after=after, once=True)
        self.has_failed = True
        self.settle_down()
        self._lose_power(seed)
        self._reopen(clean=False)

    def restart(self) -> None:
        """A clean stop and a start."""
        self.moves["clean restart"] += 1
        self.disk.hook = None
        self.catalog.stop()
        for shadow in self.shadows:
            shadow.note_sealed()
        assert self.disk.open_files == 0
        self._reopen(clean=True)
        assert self.catalog.was_clean

    def jump(self, off_us: int, *, clean: bool) -> None:
        """The next start finds the clock elsewhere; what comes then has its time."""
        last = [self._last_time(shadow.log) for shadow in self.shadows]
        self.off_us = off_us
        self.moves["jump back" if max(last) > self.wall_us() + JUMP_US else "jump forth"] += 1
        if clean:
            self.restart()
        else:
            self.kill()
        now_us = self.wall_us()
        for number, shadow in enumerate(self.shadows):
            log = shadow.log
            assert log is not None
            last_us = log.batches.last_us
            assert last_us - now_us <= JUMP_US or is_crumbled(log.partition), "the clock's time is not taken"
            self.append(number, 1, 30)
            self.settle_down()
            self._check_times(log)
            if not shadow.failed:
                assert self._last_time(log) == max(last_us, now_us)

    def _headers(self, log: QueueLog, segment: Segment) -> Iterator[BatchHeader]:
        position = 0
        while position < segment.written:
            data = log.partition.read(segment, position, HEADER_SIZE)
            header = parse_header(data, 0, log.partition.salt)
            assert header is not None
            yield header
            position += header.length

    def _last_time(self, log: QueueLog | None) -> int:
        """The time of the last batch that is written; 0 if there is none."""
        assert log is not None
        written = [segment for segment in log.partition.segments if segment.written]
        times = [
            each.base_ts + each.max_ts_delta
            for segment in written[-1:]
            for each in self._headers(log, segment)
        ]
        return times[-1] if times else 0

    def _check_times(self, log: QueueLog) -> None:
        """Readers find times by the first and the last one of a segment."""
        for segment in log.partition.segments:
            last_us = 0
            for header in self._headers(log, segment):
                assert header.base_ts >= last_us, f"{segment.path}: times fall within the segment"
                last_us = header.base_ts + header.max_ts_delta

    def crash(self, seed: int, steps: int = -1) -> None:
        """Power loss, at once or ``steps`` disk operations into what the worker does next."""
        self.moves["crash" if steps < 0 else "crash in the worker"] += 1
        if steps >= 0:
            self.disk.steps_left = steps
            with contextlib.suppress(PowerLoss):
                self.settle_down()
        self._lose_power(seed)
        self._reopen(clean=False)

    def kill(self) -> None:
        """The process dies; what it wrote stays in the page cache, synced or not."""
        self.moves["kill"] += 1
        for shadow in self.shadows:
            shadow.log = None
        self.disk.forget_files()
        self.disk.hook = None
        self._reopen(clean=False)

    def crash_at_start(self, seed: int, steps: int) -> None:
        """Power loss, and again while the next start recovers."""
        self.moves["crash at start"] += 1
        self._lose_power(seed)
        self.disk.steps_left = steps
        try:
            self._boot()
            for shadow in self.shadows:
                self.catalog.open(shadow.name, "/", shadow.name, {})
            self.catalog.quarantine_unknown([shadow.name for shadow in self.shadows])
        except PowerLoss:
            pass
        self._lose_power(seed + 1)
        self._reopen(clean=False)

    def open_badly(self, number: int, random: Random) -> None:
        """After a crash one log cannot be read, and the others go on without it; later all is well again."""
        self._lose_power(random.randrange(1 << 30))
        self._boot()
        bad = self.shadows[number]
        self.disk.fail("read", bad.name)
        with contextlib.suppress(OSError):
            self.catalog.open(bad.name, "/", bad.name, {})
        self.disk.hook = None
        is_missing = bad.name not in self.catalog.logs
        self.moves["a log cannot be opened" if is_missing else "(a log has nothing to read)"] += 1
        for shadow in self.shadows:
            if shadow is not bad or not is_missing:
                self._open(shadow, clean=False)
        self.catalog.quarantine_unknown([shadow.name for shadow in self.shadows])
        others = [n for n in range(LOGS) if n != number]
        for _ in range(random.randint(0, 3)):
            for other in others:
                self.append(other, 1, 30)
            self.tick()
            self.settle_down()
        self._lose_power(random.randrange(1 << 30))
        self._reopen(clean=False)

    def close(self) -> None:
        """Add up what the disk has seen."""
        for event, count in self.disk.events.items():
            self.moves[f"({event})"] += count

    def _lose_power(self, seed: int) -> None:
        for shadow in self.shadows:
            shadow.log = None
        self.disk.power_loss(Random(seed))


#: Weights of the moves; the others are mixes of faults that one mix for all would reach rarely.
USUAL = {
    "append": 28,
    "reserve": 4,
    "settle": 16,
    "settle_some": 5,
    "tick": 14,
    "work": 10,
    "hear": 10,
    "settle_down": 3,
    "wait": 3,
    "read": 1.5,
    "purge": 1,
    "delete": 0.3,
    "truncate": 0.2,
    "fail": 0.7,
    "lack": 0.5,
    "restart": 1,
    "crash": 1,
    "kill": 1,
    "jump": 0.6,
    "crash_in_worker": 1,
    "crash_at_start": 0.5,
    "open_badly": 0.3,
}
MIXES = [
    USUAL,
    USUAL | {"fail": 6, "restart": 1, "kill": 2, "crash": 4, "settle_down": 6},
    USUAL
    | {
        "append": 1,
        "append_small": 20,
        "settle": 1,
        "settle_some": 40,
        "tick": 10,
        "work": 16,
        "hear": 16,
        "wait": 16,
    }
    | {"reserve": 1, "settle_down": 1, "crash": 3, "purge": 0, "delete": 0, "fail": 0.1, "restart": 0.1}
    | {"crash_in_worker": 0.2, "crash_at_start": 0, "truncate": 0, "kill": 0.1},
    USUAL | {"reserve": 15, "append": 15, "restart": 4},
    USUAL | {"truncate": 5, "lack": 5, "delete": 0, "crash": 3},
    USUAL | {"lack": 8, "crash": 3, "kill": 3, "restart": 2},
    {
        "append_small": 30,
        "settle_some": 6,
        "tick": 25,
        "work": 30,
        "hear": 30,
        "settle_down": 2,
        "wait": 4,
        "delete": 1,
        "purge": 0.3,
        "fail": 0.5,
        "lack": 0.3,
        "crash_failing": 1,
        "crash": 1,
        "crash_in_worker": 1,
        "kill": 0.3,
        "truncate": 0.3,
        "restart": 0.2,
        "open_badly": 0.3,
    },
]
#: The number of the mix whose rounds are mostly small enough for the flusher.
SMALL_ROUNDS = len(MIXES) - 1


def walk(seed: int, moves: int, mix_number: int = -1) -> World:
    """Random moves from a seed, which also chooses the mix unless one is given."""
    random = Random(seed)
    mix_number = mix_number if mix_number >= 0 else seed % len(MIXES)
    world = World(ROOMY if mix_number == SMALL_ROUNDS else OPTIONS)
    mix = MIXES[mix_number]
    names, weights = list(mix), list(mix.values())
    busy = random.randrange(LOGS)
    for _ in range(moves):
        number = busy if random.random() < 0.4 else random.randrange(LOGS)
        make_move(world, random.choices(names, weights)[0], number, random)
    for number in range(LOGS):
        world.read(number)
    world.close()
    return world


def make_move(world: World, name: str, number: int, random: Random) -> None:
    """One move on a log, its details from ``random``."""
    match name:
        case "append":
            world.append(number, random.randint(1, 5), random.choice((1, 30, 200, 800)))
        case "append_small":
            world.append(number, random.randint(2, 8), random.choice((1, 30, 60)))
        case "reserve":
            world.reserve(number)
        case "settle":
            world.settle(number, random.choice((0, random.randrange(50))), random.randint(1, 8), ACK)
        case "settle_some":
            kind = random.choice((ACK, REJECT, RETURN))
            world.settle(number, random.randrange(50), 1 + random.randrange(3), kind)
        case "wait":
            world.wait(random.choice((0.02, 0.02, 0.3, 1.5, 61.0)))
        case "read":
            world.read(number)
        case "purge":
            world.purge(number, random.randrange(3))
        case "delete":
            world.delete(number)
        case "truncate":
            world.truncate(number, random.random())
        case "fail":
            operation = random.choice(("sync", "sync", *FAULTS))
            world.fail(operation, random.randrange(4), random.choice((errno.EIO, errno.ENOSPC)))
        case "lack":
            operation = random.choice(FAULTS)
            world.lack(operation, random.choice((errno.ENOSPC, errno.EMFILE)), random)
        case "crash_failing":
            operation = random.choice(("sync", "sync", "write"))
            world.crash_failing(operation, random.randrange(4), errno.EIO, random.getrandbits(30))
        case "crash":
            world.crash(random.getrandbits(30))
        case "crash_in_worker":
            world.crash(random.getrandbits(30), random.randrange(25))
        case "jump":
            world.jump(random.choice(OFF_US), clean=random.random() < 0.5)
        case "open_badly":
            world.open_badly(number, random)
        case "crash_at_start":
            world.crash_at_start(random.getrandbits(30), random.randrange(24))
        case _:
            getattr(world, name)()


def main(first: int, last: int, mix_number: int = -1, moves: int = 150) -> int:
    """Walk the seeds ``[first, last)``."""
    return walk_seeds(first, last, lambda seed: walk(seed, moves, mix_number).moves)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
