"""The log of one durable queue: takes messages and settles, and hands both to the sync.

Nothing here waits or writes. Batches are closed into buffers. The sync (``sync.LogSync``) takes them, writes
and syncs them in its worker, and then calls ``written``. ``log_reader.LogReader`` reads messages back, and
``fold`` computes the state of a log found on disk.

Offsets are dense: each message takes one, each SETTLES or CONTROL batch takes one, and each transient message
takes one to hold its place. ``start`` <= ``durable`` <= ``end``. Confirms and outside readers go up to
``high_watermark``.

Invariants:
- ``_next_base`` is the base of the next batch: one above the last offset of the batch closed before.
- ``_tail`` has, in order, the closed batches that are not known to be written; ``_outbox`` has those of them
  that the sync has not taken yet.
- The settle state is the fold of everything below ``end``, so right after ``seal`` it is the fold of whole
  batches.
"""

from __future__ import annotations

from typing import Protocol

from amqp_router.protocol.flags import LOGGED, RETURN
from amqp_router.protocol.message import Message

from ...errors import LogFailed, is_passing
from ...options import LogOptions
from ..format.checkpoint import LogState, SegmentState, pack_log
from ..format.messages import MessagesBuilder
from ..format.record import (
    SETTLE_SIZE,
    Batch,
    checkpoint_note,
    control_batch,
    epoch_start,
    purge,
    settles_batch,
)
from ..format.segment import Segment
from ..format.settles import SettleRuns, SettleState
from ..sync.log_sync import LogSync
from ..sync.round import Submission
from ..sync.writer import PartitionWriter
from .log_reader import LogReader, Tail
from .partition import Partition

_RETURN = RETURN
_LOGGED = LOGGED
_U32_MAX = 0xFFFFFFFF
#: After this many places of transient messages a batch is written, to keep ``last_offset_delta`` small.
_RESERVED_MAX = 1 << 30


class Listener(Protocol):
    """The calls that a queue gets from its log."""

    def on_high_watermark(self, log: QueueLog) -> None:
        """``log.high_watermark`` has risen."""

    def on_log_failed(self, log: QueueLog, error: Exception) -> None:
        """The log is fenced: unconfirmed messages will never be confirmed. ``log.passing``: only for a
        while.
        """

    def on_log_resumed(self, log: QueueLog) -> None:
        """The passing error is over: the log takes messages again."""


class Caretaker(Protocol):
    """Removes and rewrites segments between the rounds; the calls that it gets from a log."""

    def on_written(self, log: QueueLog) -> None:
        """A round has made durable what the log had given it."""

    def on_checkpoint(self, log: QueueLog) -> None:
        """A checkpoint is durable."""

    def on_delete(self, log: QueueLog) -> None:
        """The log is deleted."""


class QueueLog:
    """One partition's log. Made by ``Catalog``."""

    def __init__(
        self,
        incarnation: str,
        number: int,
        partition: Partition,
        writer: PartitionWriter,
        sync: LogSync,
        caretaker: Caretaker,
        options: LogOptions,
        boot_id: bytes,
    ) -> None:
        self.incarnation = incarnation
        self.number = number
        self.partition = partition
        self.writer = writer
        self.listener: Listener | None = None
        self.start = 0
        self.durable = 0
        self.end = 0
        self.high_watermark = 0
        #: Every truncation raises it. Rounds of an older generation are ignored when they end.
        self.generation = 0
        self.epoch = 0
        #: (epoch, its first offset), rising.
        self.epochs: list[tuple[int, int]] = []
        #: Unsettled messages below this offset may have been delivered before.
        self.redelivered_floor = 0
        self.failed: Exception | None = None
        #: ``failed`` is an error that passes: the sync tries again. Reads and settles go on meanwhile.
        self.passing = False
        #: Whether it is in the sync's list of logs with messages, and of logs with settles.
        self.dirty = False
        self.settles_dirty = False
        self.state = SettleState()
        #: The next round writes a checkpoint.
        self.checkpoint_due = False
        self.deleted = False
        #: The offset of the last durable checkpoint.
        self.checkpoint_offset = 0
        #: The number of the last checkpoint of this process that is durable.
        self.checkpoints_durable = 0
        #: A later checkpoint failed: either of the two may be on disk.
        self.checkpoint_unsure = False
        self._checkpoints = 0
        self._sync = sync
        self._caretaker = caretaker
        self._boot_id = boot_id
        self._batch_bytes_max = options.batch_bytes_max
        self._builder = MessagesBuilder()
        self._next_base = 0
        self._gap = 0
        self._last_us = 0
        self._epoch_pending = True
        self._previous_epoch = 0
        self._runs = SettleRuns()
        self._tail = Tail()
        self._outbox: list[Batch] = []
        #: Segments that were removed from the list for a checkpoint that could then not be written.
        self._unremoved: list[Segment] = []
        #: Whether a truncation waits for the round under way, and where that ends if it succeeds.
        self._is_truncating = False
        self._held_written = 0
        self._reader = LogReader(self, self._tail)

    # -- appending ------------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """Unsettled persistent messages."""
        return self.state.live

    def append(self, message: Message, now_us: int) -> None:
        """Append ``message``. It is durable once ``high_watermark`` is above ``message.offset``.

        Sets ``offset``, ``gap`` and LOGGED. ``now_us`` is the time in µs, made monotone here.

        Raises:
            LogFailed: the log is fenced.
        """
        builder = self._builder
        if self.failed is not None:
            raise LogFailed(str(self.failed))
        if now_us < self._last_us:
            now_us = self._last_us
        else:
            self._last_us = now_us
        if builder.count > 0:
            size = builder.size + message.header_size + message.body_size + 32
            if (
                size > self._batch_bytes_max
                or builder.message is not None
                or now_us - builder.base_ts > _U32_MAX
            ):
                self._close_messages()
        if builder.count == 0:
            self._begin_batch(now_us)
        offset = self.end
        message.offset = offset
        message.gap = self._gap
        self._gap = 0
        message.flags |= _LOGGED
        if type(message.content) is not bytes:
            self._append_large(message, offset, now_us)
        else:
            builder.add(message, offset, now_us)
        self.end = offset + 1
        self.state.live += 1
        if not self.dirty:
            self.dirty = True
            self._sync.commit(self)

    def _begin_batch(self, now_us: int) -> None:
        if self._epoch_pending:
            self._start_epoch(now_us)
        self._builder.begin(self._next_base, now_us)

    def _append_large(self, message: Message, offset: int, now_us: int) -> None:
        builder = self._builder
        if builder.count:
            self._close_messages()
            self._begin_batch(now_us)
        builder.add_large(message, offset, now_us)

    def reserve(self, message: Message) -> None:
        """Give a transient message the next offset. Nothing is written for it."""
        offset = self.end
        message.offset = offset
        message.gap = self._gap
        self._gap = 0
        self.end = offset + 1
        self.state.note_gap(offset, offset + 1)
        if self.end - self._next_base > _RESERVED_MAX:
            self._append_control(checkpoint_note(self.start, self.state.settled_below))

    def _start_epoch(self, now_us: int) -> None:
        self._epoch_pending = False
        # The epoch includes the offsets that transient messages took before its first batch.
        self.epochs.append((self.epoch, self._next_base))
        self._place_control(epoch_start(self.epoch, self._previous_epoch, self._boot_id), now_us)

    def _append_control(self, payload: bytes) -> None:
        """Append a CONTROL batch."""
        self._close_all()
        if self._epoch_pending:
            self._start_epoch(self._last_us)
        self._place_control(payload, self._last_us)
        self._mark_dirty()

    def _place_control(self, payload: bytes, now_us: int) -> None:
        self._place(control_batch(payload, self._next_base, self._take_offset(), now_us, self.epoch))

    def _take_offset(self) -> int:
        """Take an offset for a SETTLES or CONTROL batch."""
        offset = self.end
        self.end = offset + 1
        self._gap += 1
        self.state.note_gap(offset, offset + 1)
        return offset

    def _place(self, batch: Batch) -> None:
        if self.partition.place(batch):
            # With a checkpoint, recovery can begin after the closed segment.
            self.checkpoint_due = True
        self._next_base = batch.last + 1
        self._tail.add(batch)
        self._outbox.append(batch)

    def _close_messages(self) -> None:
        self._place(self._builder.close(self.end - 1, self.epoch))

    def _close_all(self) -> None:
        if self._builder.count:
            self._close_messages()
        if self._runs.count:
            self._place_settles()

    def _mark_dirty(self) -> None:
        if not self.dirty:
            self.dirty = True
            self._sync.commit(self)

    # -- settling -------------------------------------------------------------------------------------

    def settle(self, offset: int, gap: int, kind: int) -> None:
        """Record that the message at ``offset`` was acked, rejected ... (a kind of ``protocol.flags``).

        ``gap`` is the message's: the number of offsets directly before it that are no message. Nothing
        happens if the message is already settled, was never in the log, or the log is fenced for good.
        """
        returns = 0
        settled = 0
        if self.failed is not None and not self.passing:
            return
        if kind == _RETURN:
            if offset >= self.end or self.state.is_settled(offset):
                return
            returns = self.state.returned(offset) + 1
            if returns > 65535:
                returns = 65535
            self.state.set_returned(offset, returns)
        else:
            if offset >= self.end:
                return
            settled = self.state.settle(offset)
        if self._runs.extend(offset, gap, kind, returns, settled):
            return
        if settled == 0 and returns == 0:
            return
        self._runs.begin(offset, kind, returns, settled)
        if not self.settles_dirty:
            self.settles_dirty = True
            self._sync.commit_settles(self)

    def _place_settles(self) -> None:
        runs = self._runs.take()
        if self.partition.count_settled(runs, self.state):
            self.checkpoint_due = True
        if self._epoch_pending:
            self._start_epoch(self._last_us)
        most = self._batch_bytes_max // SETTLE_SIZE
        for at in range(0, len(runs), most):
            part = [(run[0], run[1], run[2], run[3]) for run in runs[at : at + most]]
            self._place(settles_batch(part, self._next_base, self._take_offset(), self._last_us, self.epoch))

    def purge(self, first: int, end: int) -> None:
        """Settle every message at an offset in ``[first, end)``.

        The record names what it keeps, which is all below ``first``, so its size does not depend on that.

        Raises:
            LogFailed: the log is fenced.
        """
        if self.failed is not None:
            raise LogFailed(str(self.failed))
        self._close_all()
        end = min(end, self.end)
        kept = [(at, min(first - at, _U32_MAX)) for at in range(self.state.settled_below, first, _U32_MAX)]
        self.state.purge(end, kept)
        if self.partition.recount(self.state):
            self.checkpoint_due = True
        self._append_control(purge(end, kept))

    # -- the sync -------------------------------------------------------------------------------------

    def seal(self, now_us: int = 0) -> None:
        """Close the open batches, MESSAGES then SETTLES, for the sync to take."""
        if now_us > self._last_us:
            self._last_us = now_us
        self.dirty = False
        self.settles_dirty = False
        if self.failed is None:
            self._close_all()

    def take(self) -> Submission:
        """The sealed batches as the submission to a round. Call it right after ``seal``."""
        submission = Submission(self, self.writer)
        if self.failed is None:
            submission.batches = self._outbox
        self._outbox = []
        submission.end = self._next_base
        submission.generation = self.generation
        if self.checkpoint_due and not self.failed:
            self._take_checkpoint(submission)
        return submission

    def take_again(self) -> Submission:
        """Everything that is not known to be written, for another attempt after a passing error."""
        self.dirty = self.settles_dirty = False
        self._close_all()
        self._outbox = []
        submission = Submission(self, self.writer)
        submission.again = True
        submission.batches = self._tail.all()
        submission.end = self._next_base
        submission.generation = self.generation
        return submission

    def resume(self) -> None:
        """The attempt has succeeded: continue as before the error."""
        self.failed = None
        self.passing = False
        if self._runs.count:
            self.settles_dirty = True
            self._sync.commit_settles(self)
        if self.checkpoint_due or self._builder.count:
            self._mark_dirty()
        if self.listener is not None:
            self.listener.on_log_resumed(self)

    def checkpoint_written(self, number: int, offset: int) -> None:
        """Checkpoint ``number``, which is that of everything below ``offset``, is durable."""
        self.checkpoint_unsure = False
        self.checkpoints_durable = number
        self.checkpoint_offset = offset
        self._caretaker.on_checkpoint(self)

    def checkpoint_failed(self, removed: list[Segment], *, is_due: bool = False) -> None:
        """A round's checkpoint was not written: the segments ``removed`` must wait for a later one.

        ``is_due``: for that of the next round; otherwise ``request_checkpoint`` will be called.
        """
        if is_due:
            self.checkpoint_due = True
        self._unremoved += removed
        self.checkpoint_unsure = True

    def request_checkpoint(self) -> int:
        """Let the next round write a checkpoint; returns its number, for comparison with
        ``checkpoints_durable``.
        """
        self.checkpoint_due = True
        self._mark_dirty()
        return self._checkpoints + 1

    def _take_checkpoint(self, submission: Submission) -> None:
        self.checkpoint_due = False
        self._checkpoints += 1
        submission.checkpoint_number = self._checkpoints
        submission.removed = self._unremoved + self.partition.remove_settled()
        self._unremoved = []
        self.start = max(self.start, self.partition.segments[0].base)
        submission.checkpoint = self.pack_state()
        submission.index = self.partition.active.pack_index()

    def pack_state(self) -> bytes:
        """This log's part of a checkpoint. Everything must be sealed."""
        self.state.advance(self.end)
        active = self.partition.active
        state = LogState(self.incarnation, self.number)
        state.start = self.start
        state.recovery_offset = self._next_base
        state.recovery_segment = active.base
        state.recovery_position = active.size
        state.high_watermark = self._next_base
        state.epoch = self.epoch
        state.epochs = self.epochs
        state.redelivered_floor = self.redelivered_floor
        state.last_us = self._last_us
        state.segments = [
            SegmentState(s.base, s.end, s.size, s.records, s.live) for s in self.partition.segments
        ]
        state.settles = self.state
        return pack_log(state)

    def is_idle(self) -> bool:
        """Whether the active segment can be dropped: it has bytes on disk, and nothing is live or open."""
        return (
            self.state.live == 0
            and self._builder.count == 0
            and not self._runs.count
            and self.failed is None
            and self.partition.active.size > 0
        )

    def roll_idle(self) -> None:
        """Begin a new segment, so that the next round removes the one without live messages."""
        if self.is_idle():
            self.partition.roll(self._next_base)
            self.partition.active.end = self._next_base
            self.checkpoint_due = True
            self._mark_dirty()

    def dead_bytes(self) -> int:
        """Bytes of segments without a live message that ``drop_dead`` would free."""
        size = self.partition.dead_bytes() if self.failed is None else 0
        return size + self.partition.active.size if self.is_idle() else size

    def drop_dead(self) -> None:
        """Let the next round remove the segments without live messages."""
        if self.is_idle():
            self.roll_idle()
        elif self.partition.dead_bytes() and self.failed is None:
            self.request_checkpoint()

    def written(self, end: int, generation: int) -> None:
        """A round has made everything below ``end`` durable. Ignored if the log was truncated since."""
        self._caretaker.on_written(self)
        if generation != self.generation or self.failed is not None:
            return
        if self._is_truncating:
            self._held_written = end
            return
        self._tail.written(end)
        self.durable = end
        self.advance_high_watermark(end)

    def advance_high_watermark(self, offset: int) -> None:
        """Let confirms and outside readers go up to ``offset``. A single node calls it with ``durable``."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.listener is not None:
                self.listener.on_high_watermark(self)

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
        self._outbox = []
        if passing:
            self._sync.retry(self)
        if self.listener is not None:
            self.listener.on_log_failed(self, failure)

    # -- reading --------------------------------------------------------------------------------------

    def read(
        self, from_offset: int, limit_offset: int, max_messages: int, max_bytes: int
    ) -> tuple[list[Message], int]:
        """Unsettled messages in ``[from_offset, limit_offset)``, in order, and where to go on.

        Stops after ``max_messages``, or once ``max_bytes`` of content are reached (so at least one message
        comes if there is one). Content is framed anew on channel 0.

        Raises:
            LogFailed: the segment cannot be read, or is corrupt (``__cause__`` says which and where).
        """
        limit = min(limit_offset, self.end)
        return self._reader.read(
            self.state, self.redelivered_floor, from_offset, limit, max_messages, max_bytes
        )

    def read_one(self, offset: int) -> Message:
        """The unsettled message at ``offset``, as from ``read``. The position of other reads does not change.

        Raises:
            LogFailed: as ``read``; also if the offset holds no unsettled message.
        """
        if offset >= self.end or self.state.is_settled(offset):
            raise LogFailed(f"offset {offset} holds no unsettled message")
        return self._reader.read_one(self.state, self.redelivered_floor, offset)

    def reread(self, segment: Segment) -> None:
        """Drop what is cached of a closed segment, whose file was replaced by one with fewer batches."""
        self.partition.forget(segment)
        self._reader.forget()

    def close_batch(self, offset: int) -> None:
        """Close the open batch if it holds ``offset``, so that it can be read."""
        if self._builder.count and offset >= self._builder.base:
            self._close_messages()
            self._mark_dirty()

    def read_raw(self, from_offset: int, max_bytes: int, limit_offset: int) -> list[bytes]:
        """Whole batches from the one that holds ``from_offset`` on that end below ``limit_offset``.

        At least one if there is one, and further ones while they fit into ``max_bytes``. Nothing is decoded.

        Raises:
            LogFailed: as ``read``.
        """
        self.seal()
        if self._outbox:
            self._mark_dirty()
        return self._reader.read_raw(max(from_offset, self.start), max_bytes, limit_offset, self._next_base)

    # -- epochs and truncation ------------------------------------------------------------------------

    def last_epoch(self) -> int:
        """The epoch of the last batch; 0 in an empty log."""
        return self.epochs[len(self.epochs) - 1][0] if self.epochs else 0

    def end_of(self, epoch: int) -> int:
        """The offset after the last one of ``epoch`` (or of the last epoch below it)."""
        for number, first in self.epochs:
            if number > epoch:
                return first
        return self.end

    def begin_truncation(self, end: int) -> None:
        """Drop all buffers, so that ``truncation.truncate`` can cut at ``end``. Blocks.

        Running rounds are ignored when they end (``generation``).

        Raises:
            LogFailed: settles below ``end`` are folded into a checkpoint above it and cannot be undone.
                Nothing has changed.
        """
        self._settle_down_for(end)
        self.generation += 1
        self._tail.clear()
        self._outbox = []
        self._builder = MessagesBuilder()
        self._runs = SettleRuns()
        self.dirty = self.settles_dirty = self.checkpoint_due = False
        self._reader.forget()

    def _settle_down_for(self, end: int) -> None:
        """Wait for the round under way; its batches count only if the truncation to ``end`` is refused.

        Raises:
            LogFailed: it is.
        """
        self._held_written = self.durable
        self._is_truncating = True
        try:
            self._sync.settle_down()
        finally:
            self._is_truncating = False
        refusal = ""
        if self.checkpoint_unsure:
            refusal = "a checkpoint could not be written yet"
        elif end < self.checkpoint_offset:
            refusal = f"offset {end} lies below the checkpoint at {self.checkpoint_offset}"
        if refusal:
            if self._held_written > self.durable:
                # Not counted, they would be written again after an error, into segments that may be gone.
                self.written(self._held_written, self.generation)
                self._sync.marks.set(self)
            raise LogFailed(refusal)

    # -- begin and end -------------------------------------------------------------------------------

    def begin(self, state: LogState, *, unclean: bool) -> None:
        """Continue from the fold of everything on disk (the segments are in ``partition``), in a new
        epoch.
        """
        self.state = state.settles
        self.start = state.start
        self.end = self.durable = self.high_watermark = self._next_base = state.recovery_offset
        self.epochs = state.epochs
        self.redelivered_floor = self.end if unclean else state.redelivered_floor
        self._last_us = state.last_us
        self._previous_epoch = self.last_epoch()
        self.epoch = max(state.epoch, self._previous_epoch) + 1
        self._epoch_pending = True
        self._gap = 0
        self.state.advance(self.end)
        self.partition.recount(self.state)

    def close(self) -> None:
        """Release the buffers; the sync has everything."""
        self._reader.forget()
        self.listener = None

    def delete(self) -> None:
        """Remove the log with all its files. Its row in the definitions is already deleted."""
        if not self.deleted:
            self.deleted = True
            self.close()
            self.fail(LogFailed("the log is deleted"))
            self._tail.clear()
            self.partition.close_files()
            self._caretaker.on_delete(self)
            self._sync.delete(self)
            self._reader.close()


def _failure(error: Exception) -> LogFailed:
    failure = LogFailed(str(error), getattr(error, "errno", 0) or 0)
    failure.__cause__ = error
    return failure
