"""A log that is a copy of one on another node: what the leader streams is appended as it is.

Offsets, epochs and checksums are compared, settles are folded in. The node that leads calls ``lead``.

A follower that ends below the leader's ``history_start`` cannot fold what lies between: settles of it are
cleaned away, and it would keep messages that are settled. It says durably that it awaits a snapshot
(``begin_backfill``), takes the batches that are left (``backfill``), and then the snapshot (``install``).
"""

from __future__ import annotations

from ..format.checkpoint import LogState, unpack_log
from ..format.record import HEADER_SIZE, Batch, BatchHeader, control_batch, hole
from ..format.scanner import records_of
from ..queue.fold import fold
from ..queue.queue_log import QueueLog
from ..queue.recovery import raw_batch
from .copying import NotCopied, check_batch, clip, starts_epoch

#: Offsets that one HOLE covers at most.
_HOLE_MAX = 1 << 30


class Follower:
    """The follower's side of one log; used on the event loop."""

    def __init__(self, log: QueueLog) -> None:
        """``log`` was opened or made and nothing has been written to it, or it led until now.

        Raises:
            ValueError: it was not opened as mirrored.
        """
        self.log = log
        if not log.copies.mirrored:
            raise ValueError("the log was not opened as mirrored")
        log.batches.close_all()
        log.end = log.batches.end
        log.batches.epochs.follow()
        log.copies.follows = True
        self._salt = log.partition.salt
        self._checkpoint = 0

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch; 0 in an empty log."""
        return self.log.batches.epochs.last()

    def append_raw(self, data: bytes) -> None:
        """Append a whole batch of the leader, which must follow on the last one.

        It is durable once ``log.durable`` is above its offsets.

        Raises:
            NotCopied: it does not follow, is of an earlier epoch, or is no good batch; nothing has changed.
        """
        log = self.log
        self._check_open()
        if log.copies.awaits_snapshot:
            raise NotCopied("the log awaits a snapshot")
        if log.checkpoints.next <= self._checkpoint:
            raise NotCopied("the log has not begun to write its snapshot yet")
        header = self._checked(data)
        if header.base != log.batches.end:
            raise NotCopied(f"a batch at offset {header.base} where {log.batches.end} follows")
        if header.epoch != self.last_epoch and not starts_epoch(header, data):
            raise NotCopied(f"a batch of epoch {header.epoch} where epoch {self.last_epoch} goes on")
        log.batches.copied(raw_batch(header, data))
        self._fold(header, data)
        self._appended()

    def _checked(self, data: bytes) -> BatchHeader:
        header = check_batch(data, self._salt)
        if header.epoch < self.last_epoch:
            raise NotCopied(f"a batch of epoch {header.epoch} after one of epoch {self.last_epoch}")
        return header

    def _check_open(self) -> None:
        if self.log.failed is not None:
            raise NotCopied(f"the log takes no batches: {self.log.failed}")

    def _fold(self, header: BatchHeader, data: bytes) -> None:
        batches = self.log.batches
        state = LogState(self.log.incarnation, self.log.number)
        state.settles = batches.state
        state.returned = batches.returned
        state.recovery_offset = header.base
        state.last_us = batches.last_us
        state.epochs = batches.epochs.starts
        state.sources = batches.taken.sources
        state.producers = batches.taken.producers
        fold(state, header, records_of(header, data[HEADER_SIZE:]))
        batches.last_us = state.last_us

    def _appended(self) -> None:
        log = self.log
        log.batches.epochs.current = self.last_epoch
        log.end = log.batches.end
        log.mark_dirty()

    # -- what is not there at the leader ----------------------------------------------------------------

    def begin_backfill(self) -> None:
        """Await a snapshot. ``backfill`` is possible once ``is_awaiting``."""
        log = self.log
        self._check_open()
        if not log.copies.awaits_snapshot:
            log.copies.awaits_snapshot = True
            self._checkpoint = log.request_checkpoint()

    @property
    def is_awaiting(self) -> bool:
        """Whether a start would know, too, that the log awaits a snapshot."""
        return self.log.copies.awaits_snapshot and self.log.checkpoints.durable >= self._checkpoint

    @property
    def is_whole(self) -> bool:
        """Whether a start, too, would know every settle of the log: it may become a member of the set."""
        return not self.log.copies.awaits_snapshot and self.log.checkpoints.durable >= self._checkpoint

    def backfill(self, first: int, data: bytes, end: int) -> None:
        """Append the messages of a batch at offsets from the log's end up to ``end``, that of the snapshot.

        The leader has nothing between ``first`` and the batch, which it says explicitly: a batch that was
        lost on the way would look like a hole.

        Raises:
            NotCopied: what lies before ``first`` is missing, it is no good batch, or the log does not await a
                snapshot.
        """
        self._check_open()
        if not self.is_awaiting:
            raise NotCopied("the log does not await a snapshot yet")
        log = self.log
        if first > log.batches.end:
            raise NotCopied(f"batches from offset {first} on where {log.batches.end} follows")
        header = self._checked(data)
        if header.last < log.batches.end or header.base >= end:
            return
        batch: Batch | None = raw_batch(header, data)
        if header.base < log.batches.end or header.last >= end:
            batch = clip(header, data, log.batches.end, end)
        if batch is None:
            self._fill_hole(min(header.last + 1, end))
            self._appended()
            return
        self._fill_hole(batch.base)
        log.batches.copied(batch)
        log.batches.last_us = header.base_ts + header.max_ts_delta
        if starts_epoch(header, data):
            log.batches.epochs.starts.append((header.epoch, header.base))
        self._appended()

    def _fill_hole(self, end: int) -> None:
        batches = self.log.batches
        while batches.end < end:
            first = batches.end
            last = min(end - 1, first + _HOLE_MAX)
            batches.copied(
                control_batch(hole(first, last + 1), first, last, batches.last_us, batches.epochs.current)
            )

    def install(self, first: int, snapshot: bytes) -> None:
        """The leader's state takes the place of this log's own, and its offset is the log's end from now on.

        The leader has nothing between ``first`` and that offset.

        Raises:
            NotCopied: it is no snapshot, one of an offset below the log's end, or batches before ``first``
                are missing.
        """
        log = self.log
        self._check_open()
        if not self.is_awaiting:
            raise NotCopied("the log does not await a snapshot yet")
        try:
            state = unpack_log(snapshot)
        except ValueError as error:
            raise NotCopied(str(error)) from None
        if state.incarnation != log.incarnation or state.recovery_offset < log.batches.end:
            raise NotCopied(
                f"a snapshot at offset {state.recovery_offset}, the log ends at {log.batches.end}"
            )
        if first > log.batches.end:
            raise NotCopied(f"batches from offset {log.batches.end} on are missing")
        self._fill_hole(state.recovery_offset)
        batches = log.batches
        batches.take_settles(state)
        batches.taken.begin(state)
        batches.epochs.starts = state.epochs
        batches.last_us = state.last_us
        log.redelivered_floor = state.redelivered_floor
        log.copies.history_start = state.recovery_offset
        log.copies.awaits_snapshot = False
        log.partition.recount(batches.state)
        self._appended()
        # A snapshot is of what lies below the leader's high watermark, so its checkpoint need not wait.
        log.advance_high_watermark(log.end)
        self._checkpoint = log.request_checkpoint()

    # -- leading ---------------------------------------------------------------------------------------

    def lead(self, epoch: int) -> None:
        """Lead from now on, in ``epoch``. The log takes messages and settles; all may be redelivered.

        Raises:
            NotCopied: the log awaits a snapshot, or has an epoch as late.
        """
        log = self.log
        self._check_open()
        if log.copies.awaits_snapshot:
            raise NotCopied("the log awaits a snapshot")
        if epoch <= self.last_epoch:
            raise NotCopied(f"epoch {epoch} is not above the log's last one, {self.last_epoch}")
        log.copies.follows = False
        log.batches.lead(epoch)
        log.redelivered_floor = log.end = log.batches.end
        log.mark_dirty()
