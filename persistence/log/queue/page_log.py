"""Transient messages moved out of memory into files, in order, for this process only.

The files are never synced, and the next start deletes them. Messages keep their offsets in the queue. The
batches have the format of the durable log, so both use one decoder. All page logs share a cache of open
files. A batch that cannot be written for now (no space, no descriptor) stays in memory and can be read. Until
it is written, no further message is accepted.

A new file begins every few MiB, so that dropped messages free their disk space. A thread (``janitor``)
removes files, because the kernel takes a tenth of a second to free a large one.

The cost of writing and reading counts as ``work`` in the node's account, so that whoever causes it is charged
with it and continues in later turns of the loop.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from amqp_router.protocol.flags import LOGGED, PERSISTENT
from amqp_router.protocol.message import Message

from ...errors import LogFailed, is_passing
from ...files import Disk, FileCache, join
from ...memory import MemoryBudget
from ...options import LogOptions
from ...worker import Worker
from ..format.messages import BatchView, MessagesBuilder
from ..format.record import Batch, parse_header

#: What it costs in enqueues, measured: to take a message over, to write or read a batch, perhaps in a file
#: that must be opened again, and to begin a file.
APPEND_UNITS, BATCH_UNITS, FILE_UNITS = 4, 60, 200
#: Octets, to the power of 2, whose copy costs as much as an enqueue.
OCTETS_SHIFT = 9
_U32_MAX = 0xFFFFFFFF
logger = logging.getLogger(__name__)


class PageFile:
    """A file of a page log, and the last offset in it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self.last = 0


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
        """Note that ``log`` now holds ``size`` bytes."""
        self._put(log, size)
        while self.used > self._limit:
            oldest = self._oldest.newer
            if oldest is None or oldest.log is None or oldest.newer is self._newest:
                return  # it is the only one
            log = oldest.log
            left = log.give_up_memory()
            self._put(log, left)
            if left:
                return  # it cannot be written for now

    def count_work(self, units: int, octets: int) -> None:
        """A log did what costs ``units`` enqueues beside the copying of ``octets``."""
        self._account.work += units + (octets >> OCTETS_SHIFT)

    def _put(self, log: PageLog, size: int) -> None:
        """Put ``log`` at the new end of the line; out of it if it holds nothing."""
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
    """Made by ``Catalog.new_page_log``. It writes on the event loop, to the page cache, without a sync."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        name: str,
        options: LogOptions,
        janitor: Worker,
        files: FileCache,
        room: PageRoom,
    ) -> None:
        self._room = room
        self.place = Place()
        self._disk = disk
        self._cache = files
        self._janitor = janitor
        self._directory = directory
        self._name = name
        self._options = options
        self._builder = MessagesBuilder()
        #: The open batch's capacity.
        self._capacity = 0
        #: Batches still needed, each with its file; ``_first`` is the index of the lowest. The last one has
        #: no file until it is written.
        self._batches: list[tuple[Batch, PageFile | None]] = []
        self._first = 0
        self._files: list[PageFile] = []
        self._files_made = 0
        self._view = BatchView()
        self._view_bytes = 0
        self._dropped_below = 0

    def append(self, message: Message, now_us: int = 0) -> None:
        """Move a message's content here. Its offset must be above those of all messages here.

        ``now_us`` is the time in µs, for a message with a deadline.

        Raises:
            LogFailed: the file cannot be written, for now if the error is a passing one; the message is not
                taken.
        """
        builder = self._builder
        self._write_last()
        size = message.header_size + message.body_size + 32
        if builder.count and (
            builder.message is not None
            or builder.size + size > self._options.batch_bytes_max
            or not 0 <= now_us - builder.base_ts <= _U32_MAX
        ):
            self._write()
        if not builder.count:
            builder.begin(message.offset, now_us)
        if not isinstance(message.content, bytes):
            if builder.count:
                self._write()
                builder.begin(message.offset, now_us)
            builder.add_large(message, message.offset, now_us)
            self._last = message.offset
            self._write_if_possible()
        else:
            builder.add(message, message.offset, now_us)
            self._last = message.offset
        self._room.count_work(APPEND_UNITS, size + self._growth())
        self._room.hold(self, self._memory())

    def _growth(self) -> int:
        """Bytes of the open batch that were copied because it became too long for its place.

        A thousand queues that get the same messages all grow at the same one, for 12 ms.
        """
        before, self._capacity = self._capacity, self._builder.capacity()
        return self._capacity if self._capacity > before else 0

    def _memory(self) -> int:
        """Bytes of the batches in memory: the open one, one not written yet, and the one being read."""
        size = self._builder.size + self._view_bytes
        if self._batches and self._batches[-1][1] is None:
            size += self._batches[-1][0].length
        return size

    def give_up_memory(self) -> int:
        """Write the open batch and drop the one being read; returns the bytes that must stay in memory."""
        # The error is raised by the next append or read here, not for the caller, who only needs memory.
        with suppress(LogFailed):
            if self._builder.count:
                self._write()
            else:
                self._write_last()
        self._close_view()
        return self._memory()

    def _close_view(self) -> None:
        self._view.close()
        self._view_bytes = 0

    def _write_if_possible(self) -> None:
        try:
            self._write()
        except LogFailed as error:
            if not is_passing(error):
                raise

    def _write(self) -> None:
        self._batches.append((self._builder.close(self._last, 0), None))
        self._write_last()

    def _write_last(self) -> None:
        """Write the last batch, if it is not written."""
        if not self._batches or self._batches[-1][1] is not None:
            return
        batch, _ = self._batches.pop()
        if batch.last < self._dropped_below:
            self._first = min(self._first, len(self._batches))
            return  # read from memory meanwhile
        self._batches.append((batch, None))
        header = batch.pack_header(0, 0)
        try:
            if not self._files or self._files[-1].size >= self._options.page_bytes_max:
                self._disk.make_directory(self._directory)
                path = join(self._directory, f"{self._name}-{self._files_made}.page")
                self._cache.get(path, create=True)
                self._room.count_work(FILE_UNITS, 0)
                self._files_made += 1
                self._files.append(PageFile(path))
            page_file = self._files[-1]
            self._room.count_work(BATCH_UNITS, batch.length)
            pieces: list[bytes | memoryview] = [header, *batch.pieces]
            self._cache.get(page_file.path).write(pieces, page_file.size)
        except OSError as error:
            raise LogFailed(str(error), error.errno or 0) from error
        batch.position = page_file.size
        batch.pieces = []
        batch.message = None
        page_file.size += batch.length
        page_file.last = batch.last
        self._batches[-1] = (batch, page_file)

    def read(
        self, from_offset: int, limit_offset: int, max_messages: int, max_bytes: int
    ) -> tuple[list[Message], int]:
        """Messages in ``[from_offset, limit_offset)`` as ``QueueLog.read`` gives them, and where to go on.

        The offset returned is that of the next message here, or ``limit_offset``.

        Raises:
            LogFailed: the file cannot be read.
        """
        if self._builder.count:
            self._write_if_possible()
        messages: list[Message] = []
        size = 0
        offset = max(from_offset, self._dropped_below)
        for index in range(self._find(offset), len(self._batches)):
            batch, page_file = self._batches[index]
            if batch.base >= limit_offset:
                break
            self._open(batch, page_file)
            offset = max(offset, batch.base)
            while offset <= batch.last:
                if offset >= limit_offset or len(messages) >= max_messages or size >= max_bytes:
                    return messages, min(offset, limit_offset)
                message = self._view.message_at(offset)
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

    def _open(self, batch: Batch, page_file: PageFile | None) -> None:
        view = self._view
        if view.base == batch.base and view.last == batch.last:
            return
        if page_file is None:
            if batch.message is None:
                view.open_pieces(batch)
                return
            # A large message is read from its file alone.
            self._write_last()
            page_file = self._batches[-1][1]
            assert page_file is not None
        self._room.count_work(BATCH_UNITS, batch.length)
        try:
            data = self._cache.get(page_file.path).read(batch.length, batch.position)
        except OSError as error:
            raise LogFailed(str(error), error.errno or 0) from error
        header = parse_header(data, 0, 0)
        if header is None or header.length != len(data):
            raise LogFailed(f"{page_file.path}: a paged batch is damaged")
        view.open_data(data, 0, header)
        self._view_bytes = len(data)
        self._room.hold(self, self._memory())

    def drop_below(self, offset: int) -> None:
        """Drop the messages below ``offset``, which are settled or back in memory."""
        self._dropped_below = max(self._dropped_below, offset)
        self._first = first = self._find(offset)
        if first > 64 and first * 2 > len(self._batches):
            del self._batches[:first]
            self._first = 0
        done = 0
        while done < len(self._files) - 1 and self._files[done].last < offset:
            done += 1
        self._remove(self._files[:done])
        del self._files[:done]

    def delete(self) -> None:
        """Remove the files. The log is then empty and can be used again."""
        self._batches = []
        self._first = 0
        self._builder = MessagesBuilder()
        self._close_view()
        self._room.hold(self, 0)
        self._remove(self._files)
        self._files = []

    def _remove(self, files: list[PageFile]) -> None:
        if files:
            for page_file in files:
                self._cache.drop(page_file.path)
            self._janitor.submit(partial(_remove_files, self._disk, files))


def _remove_files(disk: Disk, files: list[PageFile]) -> None:
    for page_file in files:
        remove_file(disk, page_file.path)


def remove_file(disk: Disk, path: str) -> None:
    """Remove a file (janitor thread). If that fails, the next start deletes it."""
    try:
        disk.unlink(path)
    except OSError as error:
        logger.warning("cannot remove %s: %s", path, error)
