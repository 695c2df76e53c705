"""What returns comes first, in the order in which it returned: the order of quorum queues.

Messages that consumers returned stand in a line of their own, which is served before all others. What was
taken and nobody has seen comes before that line (``requeued``, by offset). All else is as in ``fifo.py``,
also that a message of the log keeps no content while it waits in the line: that costs 8 bytes beside what it
had while it was out.

A start finds the line in the log (``persistence.log.format.returns``), unless the order was lost. It then has
messages from all over the log. The backlog leaves out those at offsets above its cursor: messages that have
returned (``skips_returned``). A purge leaves them out, too.

Compiled: see ``quorum.pxd``.

Source: RabbitMQ 3.10.8 with a delivery limit, observed; since 4.0 that is the default.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from persistence.errors import PersistenceError
from vhosts.queues.ready.fifo import FifoOrder
from vhosts.queues.ready.order import Trouble
from vhosts.queues.ready.returned import Returned
from vhosts.queues.ready.ring import Ring

#: Contents read again together: so many messages, of so many bytes, and from so many pieces of the log,
#: of 256 offsets each. Every piece may be in another batch.
READ_MESSAGES = 256
READ_BYTES = 1 << 18
READ_PIECES = 16

_READ_MESSAGES = READ_MESSAGES
_READ_BYTES = READ_BYTES
_READ_PIECES = READ_PIECES
_PIECE_BITS = 8


class DroppedLine:
    """What a purge or a removal has taken out of the line and from before it: an iterator."""

    __slots__ = ("_line", "_requeued")

    def __init__(self, line: Ring, requeued: Returned | None) -> None:
        self._line = line
        self._requeued = requeued

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if self._requeued is not None and self._requeued.count > 0:
            return next(self._requeued)
        if self._line.count == 0:
            raise StopIteration
        message = self._line.head()
        self._line.take()
        return message


class QuorumOrder(FifoOrder):
    """Oldest first, behind what has returned."""

    __slots__ = ("from_all_over", "line")

    def __init__(self) -> None:
        super().__init__()
        #: Offsets, rising, of what a start found in the line.
        self.from_all_over = array("Q")
        #: What has returned; None if nothing has.
        self.line: Ring | None = None

    def put_back(self, message: Message) -> None:
        if self.line is None:
            self.line = Ring()
        self.line.push(message)
        self.count += 1
        self.body_bytes += message.body_size

    def put_unsent(self, message: Message) -> None:
        FifoOrder.put_back(self, message)

    def pop(self) -> Message | None:
        line = self.line
        if line is None or self._has_requeued():
            return FifoOrder.pop(self)
        if self.returning > 0 and self.return_left > 0:
            return None
        message = line.head()
        if not self._restore(message):
            return None
        line.take()
        if line.count == 0:
            self.line = None
            self.reread.clear()
        self.count -= 1
        self.body_bytes -= message.body_size
        return message

    def recovered(self) -> None:
        FifoOrder.recovered(self)
        log = self.log
        assert log is not None
        returned = log.batches.returned
        if returned.is_lost:
            return
        offsets = array("Q")
        for run in returned.runs(log.batches.state):
            offsets.extend(range(run.first, run.first + run.count))
        found: dict[int, Message] = {}
        rising = sorted(offsets)
        try:
            for offset in rising:
                found[offset] = message = log.read_one(offset)
                message.content = None
        except (OSError, PersistenceError):
            # All come in the order of their offsets. Whoever takes the ones that cannot be read hears of it.
            returned.lose()
            return
        self.skips_returned = True
        if len(offsets) > 0:
            self.from_all_over = array("Q", rising)
            self.line = line = Ring()
            for offset in offsets:
                line.push(found[offset])
        self.backlog -= len(offsets)
        self.body_bytes += sum([message.body_size for message in found.values()])

    def _also_kept(self, start: int) -> list[tuple[int, int]]:
        """Those that a start found in the line: they are there still, or out, or are settled."""
        kept: list[tuple[int, int]] = []
        offsets = self.from_all_over
        first = end = 0
        for place in range(bisect_left(offsets, start), len(offsets)):
            offset = offsets[place]
            if offset == end:
                end += 1
                continue
            if end > 0:
                kept.append((first, end - first))
            first, end = offset, offset + 1
        if end > 0:
            kept.append((first, end - first))
        return kept

    def _has_requeued(self) -> bool:
        return self.requeued is not None and self.requeued.count > 0

    def peek(self, eager: bool) -> Message | None:
        line = self.line
        if line is None or self._has_requeued():
            return FifoOrder.peek(self, eager)
        if self.returning > 0 and self.return_left > 0:
            return None
        message = line.head()
        log = self.log
        if log is not None and message.offset >= log.copies.visible_end and message.flags & flags.LOGGED:
            return None
        return message

    def _reread(self, offset: int) -> Message | None:
        """As ``FifoOrder._reread``; those after it may have any offsets, so each batch is read once."""
        if self._has_requeued():
            return FifoOrder._reread(self, offset)
        log = self.log
        assert log is not None  # nobody else drops contents
        self.reread = {}
        try:
            for each in self._next_offsets():
                self.reread[each] = log.read_one(each)
        except (OSError, PersistenceError) as error:
            self.trouble = Trouble(f"its log failed: {error}", error)
            return None
        return self.reread.pop(offset)

    def _next_offsets(self) -> list[int]:
        """The offsets of the first of the line whose contents are read together, rising."""
        offsets: list[int] = []
        pieces: set[int] = set()
        size = 0
        assert self.line is not None
        for message in self.line.first(_READ_MESSAGES):
            pieces.add(message.offset >> _PIECE_BITS)
            size += message.body_size
            if offsets and (len(pieces) > _READ_PIECES or size > _READ_BYTES):
                break
            if message.content is None:
                offsets.append(message.offset)
        offsets.sort()
        return offsets

    def drop_all(self, settle: bool) -> Iterator[Message] | None:  # type: ignore[override]
        requeued = FifoOrder.drop_all(self, settle)
        line = self.line
        if line is None:
            return requeued
        self.line = None
        return DroppedLine(line, requeued)
