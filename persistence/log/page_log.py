"""Transient messages moved out of memory: kept in a file, in order, for this process only.

Never synced and wiped at start. Messages keep the offsets they have in their queue. Content goes through the
same batches as the durable log, so one decoder serves both.
"""

from __future__ import annotations

from amqp_router.protocol.message import Message

from ..errors import LogFailed
from ..files import Disk, File, join
from ..options import LogOptions
from .record import Batch, BatchView, MessagesBuilder, parse_header

_LOGGED, _PERSISTENT = 4, 1
#: The file is begun anew when everything before this position was dropped.
_RECLAIM_BYTES = 16 * 1024 * 1024


class PageLog:
    """Made by ``Catalog.new_page_log``. Writes on the event loop: to the page cache, without a sync."""

    def __init__(self, disk: Disk, directory: str, name: str, options: LogOptions) -> None:
        self._disk = disk
        self._directory = directory
        self._name = name
        self._options = options
        self._builder = MessagesBuilder()
        self._batches: list[Batch] = []
        self._file: File | None = None
        self._files = 0
        self._size = 0
        self._view = BatchView()
        self._dropped_below = 0
        #: Messages in it, dropped ones not counted.
        self.count = 0

    def append(self, message: Message) -> None:
        """Take over a message's content; its offset is above that of all messages here.

        Raises:
            LogFailed: the file cannot be written.
        """
        builder = self._builder
        size = message.header_size + message.body_size + 32
        if builder.count and (
            builder.message is not None or builder.size + size > self._options.batch_bytes_max
        ):
            self._write()
        if not builder.count:
            builder.begin(message.offset, 0)
        if not isinstance(message.content, bytes):
            if builder.count:
                self._write()
                builder.begin(message.offset, 0)
            builder.add_large(message, message.offset, 0)
        else:
            builder.add(message, message.offset, 0)
        self._last = message.offset
        self.count += 1

    def _write(self) -> None:
        batch = self._builder.close(self._last, 0)
        header = batch.pack_header(0)
        try:
            if self._file is None:
                self._disk.make_directory(self._directory)
                self._path = join(self._directory, f"{self._name}-{self._files}.page")
                self._files += 1
                self._file = self._disk.open(self._path, write=True, create=True)
                self._size = 0
            pieces: list[bytes | memoryview] = [header, *batch.pieces]
            self._file.write(pieces, self._size)
        except OSError as error:
            raise LogFailed(str(error), error.errno or 0) from error
        batch.position = self._size
        batch.pieces = []
        batch.message = None
        self._size += batch.length
        self._batches.append(batch)

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
        for batch in self._batches[self._first_batch(offset) :]:
            if batch.base >= limit_offset:
                break
            self._open(batch)
            offset = max(offset, batch.base)
            while offset <= batch.last:
                if offset >= limit_offset or len(messages) >= max_messages or size >= max_bytes:
                    return messages, min(offset, limit_offset)
                message = self._view.message_at(offset)
                if message is not None:
                    message.flags &= ~(_LOGGED | _PERSISTENT)
                    messages.append(message)
                    size += message.header_size + message.body_size
                offset += 1
        return messages, limit_offset

    def _first_batch(self, offset: int) -> int:
        low, high = 0, len(self._batches)
        while low < high:
            middle = (low + high) // 2
            if self._batches[middle].last < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _open(self, batch: Batch) -> None:
        view = self._view
        if view.base == batch.base and view.last == batch.last:
            return
        assert self._file is not None
        try:
            data = self._file.read(batch.length, batch.position)
        except OSError as error:
            raise LogFailed(str(error), error.errno or 0) from error
        header = parse_header(data, 0)
        if header is None or header.length != len(data):
            raise LogFailed(f"{self._path}: a paged batch is damaged")
        view.open_data(data, 0, header)

    def drop_below(self, offset: int) -> None:
        """Messages below ``offset`` are settled or back in memory."""
        self._dropped_below = max(self._dropped_below, offset)
        first = self._first_batch(offset)
        for batch in self._batches[:first]:
            self.count -= batch.count
        del self._batches[:first]
        if not self._batches and not self._builder.count:
            self.count = 0
            if self._size > _RECLAIM_BYTES:
                self.delete()

    def delete(self) -> None:
        """Remove the file; the log is empty and can be used again."""
        self._batches = []
        self._builder = MessagesBuilder()
        self._view.close()
        self.count = 0
        if self._file is not None:
            self._file.close()
            self._file = None
            self._disk.unlink(self._path)
