"""Reads a log by offset: from the batches that are still in memory, otherwise from its segments.

The log passes in the settle state, which decides what is left to read.
"""

from __future__ import annotations

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message

from ...errors import CorruptLog, LogFailed, is_passing
from ..format.record import Batch, parse_header
from ..format.returns import next_fresh
from ..format.settles import SettleState
from .partition import Cursor, Partition

_U32_MAX = 0xFFFFFFFF


class ReadLog:
    """What a reader asks of its log, which overrides all of it."""

    __slots__ = ()

    @property
    def partition(self) -> Partition:
        """Its segments."""
        raise AssertionError("a log has segments")

    def close_batch(self, offset: int) -> None:
        """Close the open batch if it holds ``offset``."""
        raise AssertionError("a log must show what it has")

    def fail(self, error: Exception) -> None:
        """Fence the log."""
        raise AssertionError("a log must hear that it cannot be read")


class Tail:
    """The closed batches that are not known to be written, in order."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[Batch] = []

    def add(self, batch: Batch) -> None:
        """Append a batch."""
        self._batches.append(batch)

    def find(self, offset: int) -> Batch | None:
        """The batch that holds ``offset``; None if that batch is written, or not closed yet."""
        batches = self._batches
        if not batches or offset < batches[0].base:
            return None
        low, high = 0, len(batches)
        while low < high:
            middle = (low + high) // 2
            if batches[middle].last < offset:
                low = middle + 1
            else:
                high = middle
        return batches[low] if low < len(batches) else None

    def written(self, end: int) -> None:
        """Everything below ``end`` is written: from now on it is read from its segment."""
        batches = self._batches
        done = 0
        while done < len(batches) and batches[done].last < end:
            batch = batches[done]
            segment = batch.segment
            assert segment is not None
            segment.written = batch.position + batch.length
            done += 1
        del batches[:done]

    def clear(self) -> None:
        self._batches = []

    def all(self) -> list[Batch]:
        """All batches, in order."""
        return list(self._batches)


class LogReader:
    """Reads one log: ``read`` goes forward with one cursor; single messages use another."""

    __slots__ = ("_cursor", "_log", "_random", "_tail")

    def __init__(self, log: ReadLog, tail: Tail) -> None:
        self._log: ReadLog | None = log
        self._tail = tail
        self._cursor = Cursor(log.partition)
        #: Made when it is first needed: most queues are read forward alone.
        self._random: Cursor | None = None

    def forget(self) -> None:
        """Drop all buffers: segments were cut or replaced, or nobody reads any more."""
        self._cursor.forget()
        self._random = None

    def close(self) -> None:
        """Break the reference cycle with the log, which is deleted."""
        self.forget()
        self._log = None

    def read(
        self,
        state: SettleState,
        redelivered_floor: int,
        from_offset: int,
        limit: int,
        max_messages: int,
        max_bytes: int,
        skips_returned: bool,
    ) -> tuple[list[Message], int]:
        """``QueueLog.read`` below ``limit``, which is not above the log's end."""
        messages: list[Message] = []
        cursor = self._cursor
        view = cursor.view
        size = 0
        offset = state.next_unsettled(from_offset, limit)
        if skips_returned:
            offset = next_fresh(state, offset, limit)
        while offset < limit and len(messages) < max_messages:
            if offset < view.base or offset > view.last:
                self._seek(cursor, offset)
            found = cursor.large
            if found is not None:
                cursor.large = None
            else:
                found = view.message_at(offset)
            if found is None:
                raise self._lost(offset)
            message = found
            self._recall(message, state, redelivered_floor)
            messages.append(message)
            size += message.header_size + message.body_size
            offset = state.next_unsettled(offset + 1, limit)
            if skips_returned:
                offset = next_fresh(state, offset, limit)
            if size >= max_bytes:
                break
        return messages, offset

    def read_one(self, state: SettleState, redelivered_floor: int, offset: int) -> Message:
        """The unsettled message at ``offset``."""
        cursor = self._random_cursor()
        if offset < cursor.view.base or offset > cursor.view.last:
            self._seek(cursor, offset)
        message = cursor.large
        if message is not None:
            cursor.large = None
        else:
            message = cursor.view.message_at(offset)
        if message is None:
            raise self._lost(offset)
        self._recall(message, state, redelivered_floor)
        return message

    def end_below(self, offset: int) -> tuple[int, int, int]:
        """(offset, base of the segment, position): the end of the last written batch that ends at or below
        ``offset``.

        Raises:
            CorruptLog, OSError: the segment cannot be read.
        """
        segment, position, header = self._random_cursor().header_for(offset - 1)
        if header.last < offset:
            return header.last + 1, segment.base, position + header.length
        return min(header.base, offset), segment.base, position

    def _random_cursor(self) -> Cursor:
        cursor = self._random
        if cursor is None:
            cursor = self._random = Cursor(self._open_log().partition)
        return cursor

    def closed(self, offset: int) -> Batch | None:
        """The closed batch that holds ``offset``, if it is not known to be written."""
        return self._tail.find(offset)

    def _recall(self, message: Message, state: SettleState, redelivered_floor: int) -> None:
        """Restore the delivery history of a message that was read."""
        offset = message.offset
        if offset < redelivered_floor:
            message.flags |= flags.REDELIVERED
        if state.has_returns(offset):
            returns = state.returned(offset)
            if returns:
                message.flags |= flags.REDELIVERED
                message.delivery_count += returns

    def _seek(self, cursor: Cursor, offset: int) -> None:
        log = self._open_log()
        try:
            log.close_batch(offset)
            batch = self._tail.find(offset)
            if batch is None:
                cursor.seek(offset)
                if cursor.large is not None:
                    cursor.large.content.on_error = log.fail  # type: ignore[union-attr]  # StoredFrames
            elif batch.message is not None:
                cursor.view.close()
                cursor.large = _as_read(batch.message)
            else:
                cursor.large = None
                if len(batch.pieces) > 1:
                    cursor.view.open_pieces(batch)
                else:
                    self._open_copied(cursor, batch)
        except (OSError, CorruptLog) as error:
            raise _unreadable(log, error) from error

    def _open_copied(self, cursor: Cursor, batch: Batch) -> None:
        """Read a batch of another node, whose payload is one piece."""
        salt = self._open_log().partition.salt
        data = b"".join([batch.pack_header(_U32_MAX, salt), *batch.pieces])
        header = parse_header(data, 0, salt)
        assert header is not None
        cursor.view.open_data(data, 0, header)

    def _open_log(self) -> ReadLog:
        if self._log is None:
            raise LogFailed("the log is deleted")
        return self._log

    def _lost(self, offset: int) -> Exception:
        error = LogFailed(f"offset {offset} is unsettled but its batch does not name it")
        self._open_log().fail(error)
        return error


def _as_read(message: Message) -> Message:
    """A copy of a large message that is still in memory, in the form of one that was read."""
    other = message.copy()
    other.offset = message.offset
    other.flags = (message.flags & flags.RECORDED) | flags.PERSISTENT | flags.LOGGED
    other.channel = message.channel
    return other


def _unreadable(log: ReadLog, error: OSError | CorruptLog) -> LogFailed:
    """The error for the caller. The log is fenced unless another attempt may succeed."""
    if not is_passing(error):
        log.fail(error)
    return LogFailed(str(error), getattr(error, "errno", 0) or 0)
