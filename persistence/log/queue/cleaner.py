"""Rewrites a closed segment with few live messages, in slices. Offsets do not change.

Only MESSAGES batches with a live record are kept. Their offset ranges are extended over what is left out, so
that bases still follow one another. The event loop reads and selects in slices; the worker writes and syncs a
new file. The new file replaces the old one only when a checkpoint taken after the selection is durable. This
checkpoint holds the settles that were in the segment, and those because of which records were left out, so no
crash can undo them. A crash leaves either file whole.
"""

from __future__ import annotations

import contextlib

from ...files import Disk, File
from ..format.record import HEADER_SIZE, MESSAGES, Batch
from ..format.segment import Segment
from .partition import Cursor
from .queue_log import QueueLog

#: What looking at a header costs, in bytes of a batch that is kept; and which part of one, to the power of 2,
#: a byte costs that is read only to get to the next header.
HEADER_COST = 512
SKIP_SHIFT = 2


class Cleaner:
    """One segment being rewritten."""

    def __init__(self, log: QueueLog, segment: Segment) -> None:
        self.log = log
        self.segment = segment
        self.error: Exception | None = None
        #: Set once the new file is written.
        self.is_written = False
        # Number of the checkpoint to wait for.
        self._checkpoint = 0
        self._temporary = segment.path + ".tmp"
        self._generation = log.batches.generation
        self._cursor = Cursor(log.partition)
        self._offset = segment.base
        self._batches: list[Batch] = []
        #: The old file, while the new one takes its place.
        self._old: File | None = None

    @property
    def is_void(self) -> bool:
        """Whether the log has changed so much that the new file is useless."""
        log = self.log
        return (
            log.failed is not None
            or log.batches.generation != self._generation
            or self.segment not in log.partition.segments
        )

    @property
    def is_ready(self) -> bool:
        """Whether the new file may take the old one's place."""
        return self.is_written and self.log.checkpoints.durable >= self._checkpoint

    def step(self, bytes_max: int) -> bool:
        """Do as much as to process ``bytes_max`` bytes; True when the whole segment is done.

        Raises:
            CorruptLog, OSError: the segment cannot be read.
        """
        state, gone = self.log.batches.state, self.log.partition.gone
        read_bytes = self.log.partition.options.read_bytes
        size = 0
        while self._offset < self.segment.end and size < bytes_max:
            # There may be a gap before the batch. Its end then says where to continue.
            segment, position, header = self._cursor.header_for(self._offset)
            assert segment is self.segment
            end = header.last + 1
            if header.kind == MESSAGES and gone.keeps_any(state, header):
                data = self._cursor.raw(segment, position, header)
                base = self._batches[-1].last + 1 if self._batches else self.segment.base
                self._batches.append(gone.rest_of(state, header, data[HEADER_SIZE:], base))
                size += header.length
            else:
                # The next header is in another chunk of the file, which is read for it.
                size += min(header.length, read_bytes) >> SKIP_SHIFT
            size += HEADER_COST
            self._offset = end
        if self._offset < self.segment.end:
            return False
        if self._batches:
            self._batches[-1].last = self.segment.end - 1
        # The checkpoint says so, too, before the new file is there.
        copies = self.log.copies
        copies.history_start = max(copies.history_start, self.segment.end)
        copies.is_cleaned = True
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
                    file.write([batch.pack_header(0, self.log.partition.salt), *batch.pieces], position)
                    position += batch.length
                file.sync()
            finally:
                file.close()
        except Exception as error:
            # A bug, too, must end only this cleaning and not all later ones.
            self.error = error

    def discard(self, disk: Disk) -> None:
        """Delete the new file, if it is still there, and free the old one, if it is not (worker thread)."""
        if self._old is not None:
            self._old.close()
            self._old = None
        with contextlib.suppress(OSError):
            disk.unlink(self._temporary)

    def finish(self, disk: Disk) -> None:
        """Put the new file in the old one's place.

        This runs on the event loop, so that no read uses one file with the other's index. It does not matter
        when the name becomes durable, because the old content is valid too.

        Raises:
            OSError: the rename failed; the old file stands.
        """
        # As long as it is open, its name can be replaced here without the time to free its space.
        with contextlib.suppress(OSError):
            self._old = disk.open(self.segment.path)
        disk.unlink(self.segment.index_path)
        disk.rename(self._temporary, self.segment.path)
        self.segment.size = self.segment.written = sum(batch.length for batch in self._batches)
        self.segment.records = sum(batch.count for batch in self._batches)
        self.log.partition.forget(self.segment)
        self.log.reader.forget()
