"""Makes the batches of a log and gives them offsets.

Offsets are dense: each message takes one, each SETTLES or CONTROL batch takes one, and each transient message
takes one to hold its place.

Invariants:
- ``closed.end`` is the base of the next batch: one above the last offset of the batch closed before.
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
from ..format.record import (
    HEADER_SIZE,
    SETTLE_SIZE,
    Batch,
    checkpoint_note,
    control_batch,
    purge,
    settles_batch,
)
from ..format.returns import ReturnRuns
from ..format.settles import SettleRuns, SettleState
from ..sync.checkpoints import Checkpoints
from .closed import Closed
from .epochs import LogEpochs
from .partition import Partition
from .taken import Taken

_U32_MAX = 0xFFFFFFFF
#: After this many places of transient messages a batch is written, to keep ``last_offset_delta`` small.
_RESERVED_MAX = 1 << 30


class Batches:
    """The open and closed batches of one log. Nothing here waits or writes."""

    def __init__(
        self, partition: Partition, checkpoints: Checkpoints, options: LogOptions, boot_id: bytes
    ) -> None:
        self.closed = Closed(partition, checkpoints)
        self.epochs = LogEpochs(boot_id)
        self.taken = Taken()
        self.state = SettleState()
        self.returned = ReturnRuns()
        self.end = 0
        #: The time of the last batch in µs.
        self.last_us = 0
        #: Every truncation raises it. Rounds of an older generation are ignored when they end.
        self.generation = 0
        self._checkpoints = checkpoints
        self._batch_bytes_max = options.batch_bytes_max
        self._gap = 0
        self._builder = MessagesBuilder()
        self._runs = SettleRuns()

    @property
    def has_messages(self) -> bool:
        """Whether a message is in a batch that is not closed yet."""
        return self._builder.count > 0

    @property
    def has_settles(self) -> bool:
        """Whether a settle is in a batch that is not closed yet."""
        return self._runs.count > 0

    def rest(self) -> None:
        """A round is done: unless there is something to do, keep no memory for it."""
        if self._builder.count == 0:
            self._builder.rest()

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
            self.taken.note(message.extras, now_us)
        self.end = offset + 1
        self.state.live += 1

    def _begin_batch(self, now_us: int) -> None:
        if self.epochs.is_pending:
            self._start_epoch(now_us)
        self._builder.begin(self.closed.end, now_us)

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
        return self.end - self.closed.end > _RESERVED_MAX

    def _start_epoch(self, now_us: int) -> None:
        # The epoch includes the offsets that transient messages took before its first batch.
        self._place_control(self.epochs.start(self.closed.end), now_us)

    def control(self, payload: bytes) -> None:
        """Append a CONTROL batch."""
        self.close_all()
        if self.epochs.is_pending:
            self._start_epoch(self.last_us)
        self._place_control(payload, self.last_us)

    def note(self, start: int) -> None:
        """Append a batch that says nothing new, so that the transient messages before it get one."""
        self.control(checkpoint_note(start, self.state.settled_below))

    def _place_control(self, payload: bytes, now_us: int) -> None:
        base, epoch = self.closed.end, self.epochs.current
        self.closed.place(control_batch(payload, base, self._take_offset(), now_us, epoch))

    def _take_offset(self) -> int:
        """Take an offset for a SETTLES or CONTROL batch."""
        offset = self.end
        self.end = offset + 1
        self._gap += 1
        self.state.note_gap(offset, offset + 1)
        return offset

    def _close_messages(self) -> None:
        self.closed.place(self._builder.close(self.end - 1, self.epochs.current))

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
        if self.end > self.closed.end:
            note = checkpoint_note(0, self.state.settled_below)
            epoch = self.epochs.current
            self.closed.place(control_batch(note, self.closed.end, self.end - 1, self.last_us, epoch))
        self.closed.place(batch)
        self.end = batch.last + 1
        self._gap = 0

    def lead(self, epoch: int) -> None:
        """Begin ``epoch``, which is above all others, with its own batch."""
        self.close_all()
        self.epochs.lead(epoch)
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
            self.returned.note(offset, 1, returns, self.state)
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
        if self.closed.partition.count_settled(runs, self.state):
            self._checkpoints.is_due = True
        if self.epochs.is_pending:
            self._start_epoch(self.last_us)
        most = self._batch_bytes_max // SETTLE_SIZE
        for at in range(0, len(runs), most):
            part = runs[at : at + most]
            base, epoch = self.closed.end, self.epochs.current
            self.closed.place(settles_batch(part, base, self._take_offset(), self.last_us, epoch))

    def purge(self, first: int, end: int, also_kept: list[tuple[int, int]]) -> None:
        """As ``QueueLog.purge``."""
        self.close_all()
        end = min(end, self.end)
        kept = [(at, min(first - at, _U32_MAX)) for at in range(self.state.settled_below, first, _U32_MAX)]
        kept += also_kept
        self.state.purge(end, kept)
        if self.closed.partition.recount(self.state):
            self._checkpoints.is_due = True
        self.control(purge(end, kept))

    # -- the sync -------------------------------------------------------------------------------------

    def close(self, offset: int) -> bool:
        """Close the open batch of messages if it holds ``offset``; True if so."""
        if self._builder.count and offset >= self._builder.base:
            self._close_messages()
            return True
        return False

    def unwritten_bytes(self) -> int:
        """Bytes of the batches, closed or open, that are not known to be written."""
        size = sum([batch.length for batch in self.closed.tail.all()])
        if self._builder.count:
            size += self._builder.size + HEADER_SIZE
        return size + self._runs.count * SETTLE_SIZE

    def drop(self) -> None:
        """Forget everything that is not written: the log is truncated."""
        self.closed.drop()
        self._builder = MessagesBuilder()
        self._runs = SettleRuns()

    def begin(self, state: LogState) -> None:
        """As ``QueueLog.begin``."""
        self.take_settles(state)
        self.end = self.closed.end = state.recovery_offset
        self.epochs.begin(state)
        self.taken.begin(state)
        self.last_us = state.last_us
        self.generation = max(self.generation, state.generation)
        self._gap = 0
        self.state.advance(self.end)
        self.closed.partition.recount(self.state)

    def take_settles(self, state: LogState) -> None:
        """Continue from what ``state`` says of settles and returns."""
        is_kept = self.returned.is_kept
        self.state = state.settles
        self.returned = state.returned
        self.returned.keep(is_kept)
