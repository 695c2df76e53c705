"""Makes the batches of a log, gives them offsets and places, and keeps those that are not written yet.

Offsets are dense: each message takes one, each SETTLES or CONTROL batch takes one, and each transient message
takes one to hold its place.

Invariants:
- ``next_base`` is the base of the next batch: one above the last offset of the batch closed before.
- ``tail`` has, in order, the closed batches that are not known to be written; the outbox has those of them
  that the sync has not taken yet.
- ``state``, the settle state, is the fold of everything below ``end``, so right after ``close_all`` it is the
  fold of whole batches.

Compiled: see ``batches.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message

from ...options import LogOptions
from ..format.checkpoint import LogState
from ..format.messages import MessagesBuilder
from ..format.producers import Producers, note_sequence
from ..format.record import (
    HEADER_SIZE,
    SETTLE_SIZE,
    Batch,
    checkpoint_note,
    control_batch,
    epoch_start,
    purge,
    settles_batch,
)
from ..format.settles import SettleRuns, SettleState
from ..format.sources import Runs, note_source
from ..sync.checkpoints import Checkpoints
from .log_reader import Tail
from .partition import Partition

_U32_MAX = 0xFFFFFFFF
#: After this many places of transient messages a batch is written, to keep ``last_offset_delta`` small.
_RESERVED_MAX = 1 << 30


class Batches:
    """The open and closed batches of one log. Nothing here waits or writes."""

    def __init__(
        self, partition: Partition, checkpoints: Checkpoints, options: LogOptions, boot_id: bytes
    ) -> None:
        self.partition = partition
        self.tail = Tail()
        self.state = SettleState()
        self.end = 0
        self.next_base = 0
        #: The time of the last batch in µs.
        self.last_us = 0
        self.epoch = 0
        #: Every truncation raises it. Rounds of an older generation are ignored when they end.
        self.generation = 0
        #: (epoch, its first offset), rising.
        self.epochs: list[tuple[int, int]] = []
        #: Which dead letters the log has taken lately (``sources``).
        self.sources: Runs = {}
        #: The last publish of each producer (``producers``).
        self.producers: Producers = {}
        self._checkpoints = checkpoints
        self._boot_id = boot_id
        self._batch_bytes_max = options.batch_bytes_max
        self._epoch_pending = True
        self._previous_epoch = 0
        self._gap = 0
        self._builder = MessagesBuilder()
        self._runs = SettleRuns()
        self._outbox: list[Batch] = []

    @property
    def has_messages(self) -> bool:
        """Whether a message is in a batch that is not closed yet."""
        return self._builder.count > 0

    @property
    def has_settles(self) -> bool:
        """Whether a settle is in a batch that is not closed yet."""
        return self._runs.count > 0

    # -- messages -------------------------------------------------------------------------------------

    def append(self, message: Message, now_us: int) -> None:
        """As ``QueueLog.append``."""
        builder = self._builder
        if now_us < self.last_us:
            now_us = self.last_us
        else:
            self.last_us = now_us
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
        message.flags |= flags.LOGGED
        if type(message.content) is not bytes:
            self._append_large(message, offset, now_us)
        else:
            builder.add(message, offset, now_us)
        if message.extras is not None:
            self._note_extras(message, now_us)
        self.end = offset + 1
        self.state.live += 1

    def _note_extras(self, message: Message, now_us: int) -> None:
        extras = message.extras
        assert extras is not None
        if extras.source:
            note_source(self.sources, extras, now_us)
        if extras.session:
            note_sequence(self.producers, extras.session, extras.channel, extras.sequence, now_us)

    def _begin_batch(self, now_us: int) -> None:
        if self._epoch_pending:
            self._start_epoch(now_us)
        self._builder.begin(self.next_base, now_us)

    def _append_large(self, message: Message, offset: int, now_us: int) -> None:
        builder = self._builder
        if builder.count:
            self._close_messages()
            self._begin_batch(now_us)
        builder.add_large(message, offset, now_us)

    def reserve(self, message: Message) -> bool:
        """Give a transient message the next offset; True if a batch is due for those that have none."""
        offset = self.end
        message.offset = offset
        message.gap = self._gap
        self._gap = 0
        self.end = offset + 1
        self.state.note_gap(offset, offset + 1)
        return self.end - self.next_base > _RESERVED_MAX

    def _start_epoch(self, now_us: int) -> None:
        self._epoch_pending = False
        # The epoch includes the offsets that transient messages took before its first batch.
        self.epochs.append((self.epoch, self.next_base))
        self._place_control(epoch_start(self.epoch, self._previous_epoch, self._boot_id), now_us)

    def control(self, payload: bytes) -> None:
        """Append a CONTROL batch."""
        self.close_all()
        if self._epoch_pending:
            self._start_epoch(self.last_us)
        self._place_control(payload, self.last_us)

    def note(self, start: int) -> None:
        """Append a batch that says nothing new, so that the transient messages before it get one."""
        self.control(checkpoint_note(start, self.state.settled_below))

    def _place_control(self, payload: bytes, now_us: int) -> None:
        self._place(control_batch(payload, self.next_base, self._take_offset(), now_us, self.epoch))

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
            self._checkpoints.is_due = True
        self.next_base = batch.last + 1
        self.tail.add(batch)
        self._outbox.append(batch)

    def _close_messages(self) -> None:
        self._place(self._builder.close(self.end - 1, self.epoch))

    def close_all(self) -> None:
        """Close the open batches, MESSAGES then SETTLES."""
        if self._builder.count:
            self._close_messages()
        if self._runs.count:
            self._place_settles()

    def copied(self, batch: Batch) -> None:
        """Place a batch of another node, which begins at ``end``; the caller folds it into ``state``.

        Places that were reserved before it get a batch of their own, as a batch from elsewhere has none for
        them.
        """
        if self.end > self.next_base:
            note = checkpoint_note(0, self.state.settled_below)
            self._place(control_batch(note, self.next_base, self.end - 1, self.last_us, self.epoch))
        self._place(batch)
        self.end = batch.last + 1
        self._gap = 0

    def follow(self) -> None:
        """Write no epochs: they come with another node's batches."""
        self.epoch = self.last_epoch()
        self._epoch_pending = False

    def lead(self, epoch: int) -> None:
        """Begin ``epoch``, which is above all others, with its own batch."""
        self.close_all()
        self._previous_epoch = self.last_epoch()
        self.epoch = epoch
        self._start_epoch(self.last_us)

    # -- settles --------------------------------------------------------------------------------------

    def settle(self, offset: int, gap: int, kind: int) -> bool:
        """As ``QueueLog.settle``; True if that began a run."""
        returns = 0
        settled = 0
        if kind == flags.RETURN:
            if offset >= self.end or self.state.is_settled(offset):
                return False
            returns = self.state.returned(offset) + 1
            if returns > 65535:
                returns = 65535
            self.state.set_returned(offset, returns)
        else:
            if offset >= self.end:
                return False
            settled = self.state.settle(offset)
        if self._runs.extend(offset, gap, kind, returns, settled):
            return False
        if settled == 0 and returns == 0:
            return False
        self._runs.begin(offset, kind, returns, settled)
        return True

    def _place_settles(self) -> None:
        runs = self._runs.take()
        if self.partition.count_settled(runs, self.state):
            self._checkpoints.is_due = True
        if self._epoch_pending:
            self._start_epoch(self.last_us)
        most = self._batch_bytes_max // SETTLE_SIZE
        for at in range(0, len(runs), most):
            part = runs[at : at + most]
            self._place(settles_batch(part, self.next_base, self._take_offset(), self.last_us, self.epoch))

    def purge(self, first: int, end: int) -> None:
        """As ``QueueLog.purge``."""
        self.close_all()
        end = min(end, self.end)
        kept = [(at, min(first - at, _U32_MAX)) for at in range(self.state.settled_below, first, _U32_MAX)]
        self.state.purge(end, kept)
        if self.partition.recount(self.state):
            self._checkpoints.is_due = True
        self.control(purge(end, kept))

    # -- the sync -------------------------------------------------------------------------------------

    def close(self, offset: int) -> bool:
        """Close the open batch of messages if it holds ``offset``; True if so."""
        if self._builder.count and offset >= self._builder.base:
            self._close_messages()
            return True
        return False

    def take(self) -> list[Batch]:
        """The closed batches that the sync has not taken yet."""
        batches, self._outbox = self._outbox, []
        return batches

    @property
    def has_closed(self) -> bool:
        """Whether ``take`` would return a batch."""
        return bool(self._outbox)

    def unwritten_bytes(self) -> int:
        """Bytes of the batches, closed or open, that are not known to be written."""
        size = sum([batch.length for batch in self.tail.all()])
        if self._builder.count:
            size += self._builder.size + HEADER_SIZE
        return size + self._runs.count * SETTLE_SIZE

    def drop(self) -> None:
        """Forget everything that is not written: the log is truncated."""
        self.tail.clear()
        self._outbox = []
        self._builder = MessagesBuilder()
        self._runs = SettleRuns()

    # -- begin and epochs -----------------------------------------------------------------------------

    def begin(self, state: LogState) -> None:
        """As ``QueueLog.begin``."""
        self.state = state.settles
        self.end = self.next_base = state.recovery_offset
        self.epochs = state.epochs
        self.last_us = state.last_us
        self.sources = state.sources
        self.producers = state.producers
        self.generation = max(self.generation, state.generation)
        self._previous_epoch = self.last_epoch()
        self.epoch = max(state.epoch, self._previous_epoch) + 1
        self._epoch_pending = True
        self._gap = 0
        self.state.advance(self.end)
        self.partition.recount(self.state)

    def last_epoch(self) -> int:
        """The epoch of the last batch; 0 in an empty log."""
        return self.epochs[len(self.epochs) - 1][0] if self.epochs else 0

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the message at ``offset`` was written."""
        at = len(self.epochs) - 1
        while at > 0 and self.epochs[at][1] > offset:  # mostly the last one
            at -= 1
        return self.epochs[at][0] if at >= 0 else 0

    def end_of(self, epoch: int) -> int:
        """The offset after the last one of ``epoch`` (or of the last epoch below it)."""
        for number, first in self.epochs:
            if number > epoch:
                return first
        return self.end
