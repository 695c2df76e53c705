"""Transient messages moved out of memory into files, in order, for this process only.

Messages keep their offsets in the queue. The batches have the format of the durable log, so both use one
decoder. A thread writes them (``page_files``). Until that is done, a batch is in memory and is read there.
One that cannot be written for now (no space, no descriptor) stays there, and no further message is accepted
until it is written.

A new file begins every few MiB, so that dropped messages free their disk space.

The cost of writing and reading counts as ``work`` in the node's account, so that whoever causes it is charged
with it and continues in later turns of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from amqp_router.protocol.flags import LOGGED, PERSISTENT, RECORDED
from amqp_router.protocol.message import Message

from ...errors import LogFailed
from ...files import join
from ...memory import MemoryBudget
from ...options import LogOptions
from ..format.messages import BatchView, MessagesBuilder
from ..format.record import Batch, parse_header
from .page_files import PageFile, PageFiles, PageWrite

#: What it costs in enqueues, measured: to take a message over, to write or read a batch, perhaps in a file
#: that must be opened again, and to begin a file.
APPEND_UNITS, BATCH_UNITS, FILE_UNITS = 4, 60, 200
#: Octets, to the power of 2, whose copy costs as much as an enqueue.
OCTETS_SHIFT = 9
#: Batches that are forgotten together when they are not needed any more, some 28 µs each.
FORGOTTEN = 64
_U32_MAX = 0xFFFFFFFF


class BatchFile(PageFile):
    """A file of a page log, and the last offset in it."""

    __slots__ = ("last",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.last = 0


class BatchWrite(PageWrite):
    """A batch of a page log on its way. ``log`` is None if the log has been emptied meanwhile."""

    __slots__ = ("batch", "is_repeated", "log")

    def __init__(self, log: PageLog, batch: Batch, file: BatchFile) -> None:
        super().__init__(file, batch.position, batch.length)
        self.log: PageLog | None = log
        self.batch = batch
        self.is_repeated = False

    def pieces(self) -> Sequence[bytes | memoryview]:
        return [self.batch.pack_header(0, 0), *self.batch.pieces]

    def ended(self) -> None:
        if self.log is not None:
            self.log.write_ended(self)


class Place:
    """A page log's place in the line of those that hold memory."""

    __slots__ = ("held", "log", "newer", "older")

    def __init__(self) -> None:
        #: None if it is not in the line, and at both ends of the line.
        self.log: PageLog | None = None
        #: Bytes of memory.
        self.held = 0
        self.older: Place | None = None
        self.newer: Place | None = None


class PageRoom:
    """The memory of all page logs together for batches that they gather or read.

    Beyond ``limit`` bytes, the least recently used log writes its batch, however small, and drops what it has
    read. Their line is linked, not a dict: one with 100,000 logs that move to its end is rebuilt again and
    again, 10 ms each time.
    """

    def __init__(self, account: MemoryBudget, limit: int) -> None:
        self._account = account
        self._limit = limit
        self._oldest = Place()
        self._newest = Place()
        self._oldest.newer = self._newest
        self._newest.older = self._oldest
        self.used = 0

    def hold(self, log: PageLog, size: int) -> None:
        """Note that ``log`` now holds ``size`` bytes, and see that all together have room."""
        self.note(log, size)
        while self.used > self._limit:
            oldest = self._oldest.newer
            if oldest is None or oldest.log is None or oldest.newer is self._newest:
                return  # it is the only one
            log = oldest.log
            left = log.give_up_memory()
            self.note(log, left)
            if left:
                return  # it cannot be written for now

    def count_work(self, units: int, octets: int) -> None:
        """A log did what costs ``units`` enqueues beside the copying of ``octets``."""
        self._account.work += units + (octets >> OCTETS_SHIFT)

    def note(self, log: PageLog, size: int) -> None:
        """Put ``log``, which holds ``size`` bytes, at the new end of the line, or out of it for 0."""
        place = log.place
        self.used += size - place.held
        self._account.held += size - place.held
        place.held = size
        if place.older is not None and place.newer is not None:
            place.older.newer = place.newer
            place.newer.older = place.older
            place.older = place.newer = place.log = None
        if size:
            place.log = log
            last = self._newest.older
            assert last is not None
            place.older, place.newer = last, self._newest
            last.newer = self._newest.older = place


class PageLog:
    """Made by ``Catalog.new_page_log``. ``files`` has those of all page logs."""

    def __init__(
        self, directory: str, name: str, options: LogOptions, files: PageFiles, room: PageRoom
    ) -> None:
        self._room = room
        self.place = Place()
        self._page_files = files
        self._directory = directory
        self._name = name
        self._options = options
        self._builder = MessagesBuilder()
        #: The open batch's capacity.
        self._capacity = 0
        #: Batches still needed, each with its file; ``_first`` is the index of the lowest. Those that are not
        #: written yet have their pieces.
        self._batches: list[tuple[Batch, BatchFile]] = []
        self._first = 0
        self._files: list[BatchFile] = []
        self._files_made = 0
        #: Writes under way, and writes that have failed and are not tried again yet.
        self._under_way: set[BatchWrite] = set()
        self._failed: list[BatchWrite] = []
        #: Writes that have failed before and are under way; what the last failure was.
        self._repeated = 0
        self._error = OSError()
        self._view = BatchView()
        self._view_bytes = 0
        self._dropped_below = 0

    def append(self, message: Message, now_us: int = 0) -> None:
        """Move a message's content here. Its offset must be above those of all messages here.

        ``now_us`` is the time in µs, for a message with a deadline.

        Raises:
            LogFailed: an earlier batch cannot be written, for now if the error is a passing one; the message
                is not taken.
        """
        self._write_again()
        self._check_written()
        builder = self._builder
        size = message.header_size + message.body_size + 32
        if builder.count and (
            builder.message is not None
            or builder.size + size > self._options.batch_bytes_max
            or not 0 <= now_us - builder.base_ts <= _U32_MAX
        ):
            self._write()
            self._check_written()
        if not builder.count:
            builder.begin(message.offset, now_us)
        if not isinstance(message.content, bytes):
            if builder.count:
                self._write()
                builder.begin(message.offset, now_us)
            builder.add_large(message, message.offset, now_us)
            self._last = message.offset
            self._write()
        else:
            builder.add(message, message.offset, now_us)
            self._last = message.offset
        self._room.count_work(APPEND_UNITS, size + self._growth())
        self._room.hold(self, self._memory())

    def _check_written(self) -> None:
        if self._failed or self._repeated:
            raise LogFailed(str(self._error), self._error.errno or 0) from self._error

    def _growth(self) -> int:
        """Bytes of the open batch that were copied because it became too long for its place.

        A thousand queues that get the same messages all grow at the same one, for 12 ms.
        """
        before, self._capacity = self._capacity, self._builder.capacity()
        return self._capacity if self._capacity > before else 0

    def _memory(self) -> int:
        """Bytes of batches in memory: the open one, those that cannot be written, and the one being read.

        Those on their way to a file are counted by ``PageFiles``.
        """
        size = self._builder.size + self._view_bytes
        for write in self._failed:
            size += write.size
        return size

    def give_up_memory(self) -> int:
        """Write the open batch and drop the one being read; returns the bytes that must stay in memory."""
        self._write_again()
        if self._builder.count:
            self._write()
        self._close_view()
        return self._memory()

    def _close_view(self) -> None:
        self._view.close()
        self._view_bytes = 0

    def _write(self) -> None:
        """Have the open batch written."""
        batch = self._builder.close(self._last, 0)
        if not self._files or self._files[-1].size >= self._options.page_bytes_max:
            self._room.count_work(FILE_UNITS, 0)
            self._files.append(BatchFile(join(self._directory, f"{self._name}-{self._files_made}.page")))
            self._files_made += 1
        file = self._files[-1]
        batch.position = file.size
        file.size += batch.length
        file.last = batch.last
        self._batches.append((batch, file))
        self._room.count_work(BATCH_UNITS, batch.length)
        self._submit(BatchWrite(self, batch, file))

    def _submit(self, write: BatchWrite) -> None:
        self._under_way.add(write)
        self._page_files.write(write)

    def _write_again(self) -> None:
        """Try again what could not be written, if it is still needed."""
        if self._failed:
            failed, self._failed = self._failed, []
            for write in failed:
                if write.batch.last >= self._dropped_below:
                    write.is_repeated = True
                    self._repeated += 1
                    self._room.count_work(BATCH_UNITS, write.size)
                    self._submit(write)

    def write_ended(self, write: BatchWrite) -> None:
        """The thread has written it, or ``write.error`` says why not."""
        self._under_way.discard(write)
        self._repeated -= write.is_repeated
        write.is_repeated = False
        if write.error is None:
            write.batch.pieces = []
            write.batch.message = None
            write.log = None
        else:
            # Tried again by the next append here, or when others need the memory.
            self._error = write.error
            self._failed.append(write)
            self._room.note(self, self._memory())

    def read(
        self, from_offset: int, limit_offset: int, max_messages: int, max_bytes: int
    ) -> tuple[list[Message], int]:
        """Messages in ``[from_offset, limit_offset)`` as ``QueueLog.read`` gives them, and where to go on.

        The offset returned is that of the next message here, or ``limit_offset``.

        Raises:
            LogFailed: the file cannot be read.
        """
        if self._builder.count:
            self._write()
        messages: list[Message] = []
        size = 0
        offset = max(from_offset, self._dropped_below)
        for index in range(self._find(offset), len(self._batches)):
            batch, page_file = self._batches[index]
            if batch.base >= limit_offset:
                break
            large = batch.message
            if large is None:
                self._open(batch, page_file)
            offset = max(offset, batch.base)
            while offset <= batch.last:
                if offset >= limit_offset or len(messages) >= max_messages or size >= max_bytes:
                    return messages, min(offset, limit_offset)
                message = self._view.message_at(offset) if large is None else _as_read(large)
                if message is not None:
                    message.flags &= ~(LOGGED | PERSISTENT)
                    messages.append(message)
                    size += message.header_size + message.body_size
                offset += 1
        return messages, limit_offset

    def _find(self, offset: int) -> int:
        """Index of the first batch that ends at or above ``offset``."""
        low, high = self._first, len(self._batches)
        while low < high:
            middle = (low + high) // 2
            if self._batches[middle][0].last < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _open(self, batch: Batch, page_file: BatchFile) -> None:
        view = self._view
        if view.base == batch.base and view.last == batch.last:
            return
        self._room.count_work(BATCH_UNITS, batch.length)
        if batch.pieces:
            view.open_pieces(batch)
        else:
            try:
                data = self._page_files.read(page_file, batch.length, batch.position)
            except OSError as error:
                raise LogFailed(str(error), error.errno or 0) from error
            header = parse_header(data, 0, 0)
            if header is None or header.length != len(data):
                raise LogFailed(f"{page_file.path}: a paged batch is damaged")
            view.open_data(data, 0, header)
        self._view_bytes = batch.length
        self._room.hold(self, self._memory())

    def drop_below(self, offset: int) -> None:
        """Drop the messages below ``offset``, which are settled or back in memory."""
        self._dropped_below = max(self._dropped_below, offset)
        self._first = first = self._find(offset)
        if first > FORGOTTEN:
            del self._batches[:first]
            self._first = 0
        if self._failed:
            self._failed = [write for write in self._failed if write.batch.last >= offset]
            self._room.note(self, self._memory())
        done = 0
        while done < len(self._files) - 1 and self._files[done].last < offset:
            done += 1
        self._page_files.remove(self._files[:done])
        del self._files[:done]

    def delete(self) -> None:
        """Remove the files. The log is then empty and can be used again."""
        for write in self._under_way:
            write.log = None
        self._under_way = set()
        self._failed = []
        self._repeated = 0
        batches, self._batches = self._batches, []
        self._first = 0
        self._builder = MessagesBuilder()
        self._close_view()
        self._room.hold(self, 0)
        self._page_files.remove(self._files, partial(_forget, batches))
        self._files = []


def _forget(batches: list[tuple[Batch, BatchFile]]) -> None:
    """Let go of them one by one: a thread that does so lets the event loop's run between any two of them."""
    while batches:
        batches.pop()


def _as_read(message: Message) -> Message:
    """A copy of a large message that is still in memory, in the form of one that was read."""
    other = message.copy()
    other.offset = message.offset
    other.flags = message.flags & RECORDED
    return other
