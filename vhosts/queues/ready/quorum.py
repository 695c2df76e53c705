"""What returns comes first, in the order in which it returned: the order of quorum queues.

Messages that consumers returned stand in a line of their own, which is served before all others. What was
taken and nobody has seen comes before that line (``requeued``, by offset). All else is as in ``fifo.py``,
also that a message of the log keeps no content while it waits in the line: that costs 8 bytes beside what it
had while it was out.

The line is not in the log. A start brings back all messages in the order of their offsets.

Compiled: see ``quorum.pxd``.

Source: RabbitMQ 3.10.8 with a delivery limit, observed; since 4.0 that is the default.
"""

from __future__ import annotations

from collections.abc import Iterator

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from persistence.errors import PersistenceError
from vhosts.queues.ready.fifo import FifoOrder
from vhosts.queues.ready.order import Dropped, Trouble

#: Places at the front of the line that are given back together.
SPENT_MAX = 4096
#: Contents read again together: so many messages, of so many bytes, and from so many pieces of the log,
#: of 256 offsets each. Every piece may be in another batch.
READ_MESSAGES = 256
READ_BYTES = 1 << 18
READ_PIECES = 16

_SPENT_MAX = SPENT_MAX
_READ_MESSAGES = READ_MESSAGES
_READ_BYTES = READ_BYTES
_READ_PIECES = READ_PIECES
_PIECE_BITS = 8


class DroppedLine:
    """What a purge or a removal has taken out of the line and from before it: an iterator."""

    __slots__ = ("_line", "_requeued")

    def __init__(self, line: list[Message | None], requeued: list[Dropped]) -> None:
        self._line = line
        self._requeued = requeued

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        while self._requeued:
            pair = self._requeued.pop()
            if pair is not None:
                return pair[1]
        message = self._line.pop() if self._line else None
        if message is None:  # all before it were taken
            raise StopIteration
        return message


class QuorumOrder(FifoOrder):
    """Oldest first, behind what has returned."""

    __slots__ = ("line", "spent")

    def __init__(self) -> None:
        super().__init__()
        #: What has returned; None where it was taken: in the first ``spent`` places.
        self.line: list[Message | None] = []
        self.spent = 0

    def put_back(self, message: Message) -> None:
        self.line.append(message)
        self.count += 1
        self.body_bytes += message.body_size

    def put_unsent(self, message: Message) -> None:
        FifoOrder.put_back(self, message)

    def pop(self) -> Message | None:
        if self.spent == len(self.line) or len(self.requeued) > 0:
            return FifoOrder.pop(self)
        if self.returning > 0 and self.return_left > 0:
            return None
        message = self.line[self.spent]
        assert message is not None
        if not self._restore(message):
            return None
        self._take()
        self.count -= 1
        self.body_bytes -= message.body_size
        return message

    def _take(self) -> None:
        """The first of the line leaves it."""
        line = self.line
        line[self.spent] = None
        self.spent += 1
        if self.spent == len(line):
            line.clear()
            self.reread.clear()
            self.spent = 0
        elif self.spent >= _SPENT_MAX and self.spent * 2 > len(line):
            del line[: self.spent]
            self.spent = 0

    def peek(self, eager: bool) -> Message | None:
        if self.spent == len(self.line) or len(self.requeued) > 0:
            return FifoOrder.peek(self, eager)
        if self.returning > 0 and self.return_left > 0:
            return None
        message = self.line[self.spent]
        assert message is not None
        log = self.log
        if log is not None and message.offset >= log.copies.visible_end and message.flags & flags.LOGGED:
            return None
        return message

    def _reread(self, offset: int) -> Message | None:
        """As ``FifoOrder._reread``; those after it may have any offsets, so each batch is read once."""
        if len(self.requeued) > 0:
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
        for message in self.line[self.spent : self.spent + _READ_MESSAGES]:
            assert message is not None
            pieces.add(message.offset >> _PIECE_BITS)
            size += message.body_size
            if offsets and (len(pieces) > _READ_PIECES or size > _READ_BYTES):
                break
            if message.content is None:
                offsets.append(message.offset)
        offsets.sort()
        return offsets

    def drop_all(self, settle: bool) -> list[Dropped] | Iterator[Message]:  # type: ignore[override]  # more of them
        requeued = FifoOrder.drop_all(self, settle)
        line = self.line
        self.line = []
        self.spent = 0
        return DroppedLine(line, requeued) if line else requeued
