"""The log of one durable queue: takes messages and settles, and hands both to the sync.

Nothing here waits or writes. ``batches.Batches`` makes batches of both. The sync (``log_sync.LogSync``) takes
them, writes and syncs them in its worker, and then calls ``written``. ``log_reader.LogReader`` reads messages
back, and ``fold`` computes the state of a log found on disk.

``start`` <= ``durable`` <= ``end``. Confirms and outside readers go up to ``high_watermark``.

Invariant: ``end`` is that of ``batches`` (a copy, since queues read it for every message).
"""

from __future__ import annotations

from typing import Protocol

from amqp_router.protocol.message import Message

from ...errors import LogFailed, is_passing
from ...options import LogOptions
from ..format.checkpoint import LogState
from ..sync.checkpoints import Checkpoints
from ..sync.due import Due
from ..sync.ports import Rounds
from ..sync.round import Submission
from ..sync.writer import PartitionWriter
from .batches import Batches
from .copies import EVERYTHING, Copies
from .log_reader import LogReader, ReadLog
from .partition import Partition
from .saving import Saving
from .times import go_on


class Listener(Protocol):
    """The calls that a queue gets from its log."""

    def on_high_watermark(self, log: QueueLog) -> None:
        """``log.high_watermark`` has risen."""

    def on_refused(self, log: QueueLog, offset: int) -> None:
        """What was appended at ``offset`` and after it is not in the log any more, and never confirmed."""

    def on_log_failed(self, log: QueueLog, error: Exception) -> None:
        """The log is fenced: unconfirmed messages will never be confirmed. ``log.passing``: only for a
        while.
        """

    def on_log_resumed(self, log: QueueLog) -> None:
        """The passing error is over: the log takes messages again."""


class Caretaker:
    """Removes and rewrites segments between the rounds; the calls that it gets from a log."""

    __slots__ = ()

    def on_written(self, log: QueueLog) -> None:
        """A round has made durable what the log had given it."""

    def on_durable(self, log: QueueLog) -> None:
        """``durable`` of a mirrored log has risen: the first of two steps."""

    def on_checkpoint(self, log: QueueLog) -> None:
        """A checkpoint is durable."""

    def on_delete(self, log: QueueLog) -> None:
        """The log is deleted."""


class QueueLog(ReadLog):
    """One partition's log. Made by ``Catalog``."""

    def __init__(
        self,
        incarnation: str,
        number: int,
        partition: Partition,
        writer: PartitionWriter,
        sync: Rounds,
        caretaker: Caretaker,
        options: LogOptions,
        boot_id: bytes,
    ) -> None:
        self.incarnation = incarnation
        self.number = number
        self.writer = writer
        self.listener: Listener | None = None
        self.start = 0
        self.durable = 0
        self.end = 0
        self.high_watermark = 0
        self.copies = Copies()
        #: Unsettled messages below this offset may have been delivered before.
        self.redelivered_floor = 0
        self.failed: Exception | None = None
        #: ``failed`` is an error that passes: the sync tries again. Reads and settles go on meanwhile.
        self.passing = False
        self.deleted = False
        self.due = Due(sync)
        self.checkpoints = Checkpoints()
        self.saving = Saving()
        self.batches = Batches(partition, self.checkpoints, options, boot_id)
        self.taken = self.batches.taken
        self.reader = LogReader(self, self.batches.closed.tail)
        self._caretaker = caretaker

    @property
    def partition(self) -> Partition:
        """Its segments."""
        return self.batches.closed.partition

    @property
    def epoch(self) -> int:
        """The epoch of the batches that are made now."""
        return self.batches.epochs.current

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.batches.epochs.current = epoch

    # -- appending and settling -----------------------------------------------------------------------

    def append(self, message: Message, now_us: int) -> None:
        """Append ``message``. It is durable once ``high_watermark`` is above ``message.offset``.

        Sets ``offset``, ``gap`` and LOGGED. ``now_us`` is the time in µs; a later last time of the log
        takes its place.

        Raises:
            LogFailed: the log is fenced.
        """
        if self.failed is not None:
            raise LogFailed(str(self.failed))
        self.batches.append(message, now_us)
        self.end = self.batches.end
        if not self.due.messages:
            self.due.messages = True
            self.due.sync.commit(self)

    def reserve(self, message: Message) -> None:
        """Give a transient message the next offset. Nothing is written for it."""
        if self.batches.reserve(message):
            self.batches.note(self.start)
            self.mark_dirty()
        self.end = self.batches.end

    def settle(self, offset: int, gap: int, kind: int) -> None:
        """Record that the message at ``offset`` was acked, rejected ...: a kind of ``protocol.flags``, and a
        reason.

        ``gap`` is the message's: the number of offsets directly before it that are no message. Nothing
        happens if the message is already settled, was never in the log, or the log is fenced for good.
        """
        if self.failed is not None and not self.passing:
            return
        if self.batches.settle(offset, gap, kind) and not self.due.settles:
            self.due.settles = True
            self.due.sync.commit_settles(self)

    def purge(self, first: int, end: int, also_kept: list[tuple[int, int]] | None = None) -> None:
        """Settle every message at an offset in ``[first, end)``, but for the runs (offset, number of offsets)
        in ``also_kept``, which rise and are in that range.

        The record names what it keeps. All below ``first`` is one run, whatever it is.

        Raises:
            LogFailed: the log is fenced.
        """
        if self.failed is not None:
            raise LogFailed(str(self.failed))
        self.batches.purge(first, end, also_kept or [])
        self.end = self.batches.end
        self.mark_dirty()

    def mark_dirty(self) -> None:
        """Let the next round take what is there."""
        if not self.due.messages:
            self.due.messages = True
            self.due.sync.commit(self)

    @property
    def unsynced_bytes(self) -> int:
        """Bytes of its batches, closed or open, that are not known to be durable."""
        return self.batches.unwritten_bytes()

    # -- the sync -------------------------------------------------------------------------------------

    def seal(self, now_us: int = 0) -> None:
        """Close the open batches, MESSAGES then SETTLES, for the sync to take."""
        if now_us and not self.copies.follows:
            go_on(self.batches, self.checkpoints, now_us)
        self.due.clear()
        if self.failed is None:
            self.batches.close_all()
            self.end = self.batches.end

    def take(self, *, again: bool = False) -> Submission:
        """The sealed batches as the submission to a round. Call it right after ``seal``.

        ``again``: everything that is not known to be written, for another attempt after a passing error. The
        log, which is fenced, is sealed here.
        """
        batches = self.batches
        if again:
            self.due.clear()
            batches.close_all()
            self.end = batches.end
        submission = Submission(self, self.writer)
        submission.again = again
        submission.end = batches.closed.end
        submission.generation = batches.generation
        closed = batches.closed.take()
        if again:
            submission.batches = batches.closed.tail.all()
        elif self.failed is None:
            submission.batches = closed
            if self.checkpoints.is_due:
                self.saving.make(self)
            if self.saving.held:
                self.saving.submit(self, submission)
        return submission

    def resume(self) -> None:
        """The attempt has succeeded: continue as before the error."""
        self.failed = None
        self.passing = False
        if self.batches.has_settles:
            self.due.settles = True
            self.due.sync.commit_settles(self)
        if self.checkpoints.is_due or self.batches.has_messages:
            self.mark_dirty()
        if self.listener is not None:
            self.listener.on_log_resumed(self)

    def checkpoint_written(self, number: int, offset: int) -> None:
        """A round's checkpoint is durable; it may be of less than the round's batches."""
        self.saving.written(self, number)
        self._caretaker.on_checkpoint(self)

    def request_checkpoint(self) -> int:
        """Let the next round write a checkpoint; returns its number, for comparison with
        ``checkpoints.durable``.
        """
        self.checkpoints.is_due = True
        self.mark_dirty()
        return self.checkpoints.next

    def written(self, end: int, generation: int) -> None:
        """A round has made everything below ``end`` durable. Ignored if the log was truncated since."""
        self._caretaker.on_written(self)
        if generation != self.batches.generation or self.failed is not None:
            return
        copies = self.copies
        if copies.mirrored:
            for batch in self.batches.closed.tail.all():
                if batch.last < end:
                    copies.shown.note(batch)
        self.batches.closed.tail.written(end)
        self.batches.rest()
        self.durable = end
        if not copies.mirrored:
            self.advance_high_watermark(end)
        else:
            self._caretaker.on_durable(self)

    def advance_high_watermark(self, offset: int) -> None:
        """Let confirms, deliveries and readers in other processes go up to ``offset``: the second step.

        The log of one node alone does it with the first one. ``offset`` is not above ``durable``, but for a
        snapshot that is about to be written.
        """
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.copies.mirrored:
                self.copies.visible_end = offset
                if self.failed is None:
                    self.due.sync.show(self)
            if self.saving.is_reached(offset):
                self.mark_dirty()
            if self.listener is not None:
                self.listener.on_high_watermark(self)

    def refuse_from(self, offset: int) -> None:
        """The messages from ``offset`` on are not in the log any more: it was cut there.

        Who waits for one of them hears so. All others go on waiting, and the log goes on.
        """
        if self.listener is not None:
            self.listener.on_refused(self, offset)

    def shown_place(self) -> tuple[int, int, int]:
        """(offset, base of a segment, position in it): how far readers in other processes may read."""
        copies, partition = self.copies, self.partition
        if not copies.mirrored:
            return self.durable, *partition.synced_place()
        if copies.awaits_snapshot:
            return self.start, self.start, 0
        return copies.shown.place(partition, self.reader, min(self.high_watermark, self.durable))

    def fail(self, error: Exception) -> None:
        """Fence the log: this process never confirms what is unconfirmed now.

        After a passing error the sync writes the missing batches as soon as it can, and the log continues.
        After any other error it stays fenced.
        """
        failure = error if isinstance(error, LogFailed) else _failure(error)
        passing = is_passing(failure)
        if self.failed is not None and (passing or not self.passing):
            return
        self.failed = failure
        self.passing = passing
        self.batches.closed.take()
        if passing:
            self.due.sync.retry_later(self)
        if self.listener is not None:
            self.listener.on_log_failed(self, failure)

    # -- reading --------------------------------------------------------------------------------------

    def read(
        self,
        from_offset: int,
        limit_offset: int,
        max_messages: int,
        max_bytes: int,
        skips_returned: bool = False,
    ) -> tuple[list[Message], int]:
        """Unsettled messages in ``[from_offset, limit_offset)``, in order, and where to go on.

        Stops after ``max_messages``, or once ``max_bytes`` of content are reached (so at least one message
        comes if there is one). Content is framed anew on channel 0. ``skips_returned``: only those that have
        never returned.

        Raises:
            LogFailed: the segment cannot be read, or is corrupt (``__cause__`` says which and where).
        """
        limit = min(limit_offset, self.end)
        return self.reader.read(
            self.batches.state,
            self.redelivered_floor,
            from_offset,
            limit,
            max_messages,
            max_bytes,
            skips_returned,
        )

    def read_one(self, offset: int) -> Message:
        """The unsettled message at ``offset``, as from ``read``. The position of other reads does not change.

        Raises:
            LogFailed: as ``read``; also if the offset holds no unsettled message.
        """
        if offset >= self.end or self.batches.state.is_settled(offset):
            raise LogFailed(f"offset {offset} holds no unsettled message")
        return self.reader.read_one(self.batches.state, self.redelivered_floor, offset)

    def close_batch(self, offset: int) -> None:
        """Close the open batch if it holds ``offset``, so that it can be read."""
        if self.batches.close(offset):
            self.mark_dirty()

    def close_batches(self) -> None:
        """Close the open batches, so that they can be read. The next round takes them."""
        is_due = self.due.is_any
        self.seal()
        if is_due or self.batches.closed.is_due:
            self.mark_dirty()

    # -- begin and end -------------------------------------------------------------------------------

    def begin(self, state: LogState, *, unclean: bool) -> None:
        """Continue from the fold of everything on disk (the segments are in ``partition``), in a new
        epoch.
        """
        self.batches.begin(state)
        self.saving.held = []
        self.start = state.start
        copies = self.copies
        copies.history_start = state.history_start
        copies.is_cleaned = False
        copies.cleaned_at = 0
        copies.awaits_snapshot = state.awaits_snapshot
        copies.shown.clear()
        self.end = self.durable = self.batches.end
        stored = max(copies.stored_watermark, state.high_watermark)
        copies.stored_watermark = 0
        self.high_watermark = min(max(self.high_watermark, stored), self.end) if copies.mirrored else self.end
        copies.visible_end = self.high_watermark if copies.mirrored else EVERYTHING
        self.redelivered_floor = self.end if unclean else state.redelivered_floor

    def delete(self) -> None:
        """Remove the log with all its files. Its row in the definitions is already deleted."""
        if not self.deleted:
            self.deleted = True
            self.reader.forget()
            self.listener = None
            self.fail(LogFailed("the log is deleted"))
            self.batches.closed.tail.clear()
            self.partition.close_files()
            self._caretaker.on_delete(self)
            self.due.sync.delete(self)
            self.reader.close()


def _failure(error: Exception) -> LogFailed:
    failure = LogFailed(str(error), getattr(error, "errno", 0) or 0)
    failure.__cause__ = error
    return failure
