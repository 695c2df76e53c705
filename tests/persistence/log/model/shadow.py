"""The model of one log: what must be in it, what may be, and what must not."""

from __future__ import annotations

import errno

from persistence.log.queue.queue_log import QueueLog


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
        """What was settled has gone into a batch, unless some is still due."""
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
        """Sealed settles and returns below the watermark are durable."""
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
