"""Rewriting a closed segment that holds few live messages, in slices, offsets kept.

Of its batches only MESSAGES with a live record stay; their ranges are extended over what goes, so that bases
still follow one another. The slices read and pick on the event loop; the worker writes and syncs a new file.
That is renamed over the old one only once a checkpoint taken after the picking is durable: it holds the
settles that go with the segment, and those because of which a record was left out, so that no crash can undo
them. A crash leaves one file or the other.
"""

from __future__ import annotations

import contextlib

from ..files import Disk
from .messages import live_batch
from .partition import Cursor
from .queue_log import QueueLog
from .record import HEADER_SIZE, MESSAGES, Batch
from .segment import Segment


class Cleaner:
    """One segment being rewritten."""

    def __init__(self, log: QueueLog, segment: Segment) -> None:
        self.log = log
        self.segment = segment
        self.error: Exception | None = None
        #: Set once the new file is written.
        self.is_written = False
        # The number of the checkpoint to wait for.
        self._checkpoint = 0
        self._temporary = segment.path + ".tmp"
        self._generation = log.generation
        self._cursor = Cursor(log.partition)
        self._offset = segment.base
        self._batches: list[Batch] = []

    @property
    def is_void(self) -> bool:
        """Whether the log has changed so that the work is worthless."""
        log = self.log
        return (
            log.failed is not None
            or log.generation != self._generation
            or self.segment not in log.partition.segments
        )

    @property
    def is_ready(self) -> bool:
        """Whether the new file may take the old one's place."""
        return self.is_written and self.log.checkpoints_durable >= self._checkpoint

    def step(self, bytes_max: int) -> bool:
        """Go through about ``bytes_max`` bytes; True once the whole segment is done.

        Raises:
            CorruptLog, OSError: the segment cannot be read.
        """
        state = self.log.state
        size = 0
        while self._offset < self.segment.end and size < bytes_max:
            # A hole may lie before the batch, and its end then says where to go on.
            segment, position, header = self._cursor.header_for(self._offset)
            assert segment is self.segment
            end = header.last + 1
            if header.kind == MESSAGES and state.unsettled_in(header.base, end):
                data = self._cursor.raw(segment, position, header)
                base = self._batches[-1].last + 1 if self._batches else self.segment.base
                self._batches.append(live_batch(header, data[HEADER_SIZE:], state, base))
                size += header.length
            size += HEADER_SIZE
            self._offset = end
        if self._offset < self.segment.end:
            return False
        if self._batches:
            self._batches[-1].last = self.segment.end - 1
        self._checkpoint = self.log.request_checkpoint()
        return True

    def write(self, disk: Disk) -> None:
        """Write the new file (worker thread)."""
        try:
            file = disk.open(self._temporary, write=True, create=True)
            try:
                file.truncate(0)
                position = 0
                for batch in self._batches:
                    batch.position = position
                    file.write([batch.pack_header(0), *batch.pieces], position)
                    position += batch.length
                file.sync()
            finally:
                file.close()
        except Exception as error:
            # A fault of ours too must end this cleaning and not all that would come after it.
            self.error = error

    def discard(self, disk: Disk) -> None:
        """Drop the new file (worker thread)."""
        with contextlib.suppress(OSError):
            disk.unlink(self._temporary)

    def finish(self, disk: Disk) -> None:
        """Put the new file in the old one's place.

        On the event loop, so that no read meets the one file with the other's index. The name may become
        durable whenever it likes: the old content is as good.

        Raises:
            OSError: the rename failed; the old file stands.
        """
        disk.unlink(self.segment.index_path)
        disk.rename(self._temporary, self.segment.path)
        self.segment.size = self.segment.written = sum(batch.length for batch in self._batches)
        self.segment.records = sum(batch.count for batch in self._batches)
        self.log.reread(self.segment)
