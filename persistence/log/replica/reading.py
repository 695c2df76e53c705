"""Whole batches for followers, read without holding the event loop, and mostly from memory.

What followers ask for is nearly always the last few batches. They come from the log's tail, which is in
memory until it is written, and stay in a cache for the next follower. Older ones are read by a worker.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk
from ...loop import Loop
from ...worker import Worker
from ..format.record import HEADER_SIZE, parse_header
from ..format.segment import Segment
from ..queue.queue_log import QueueLog

#: Bytes of the tail cache.
CACHE_BYTES = 4 << 20
#: Bytes read from a segment at once; more for a larger batch.
_READ_BYTES = 256 << 10

#: Gets the batches, and why there are no more than these, if that is an error.
Answer = Callable[[list[bytes], Exception | None], None]


class RawReader:
    """Reads one log for its followers; used on the event loop. ``worker`` is best one of its own."""

    def __init__(
        self, log: QueueLog, disk: Disk, loop: Loop, worker: Worker, *, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self.log = log
        self._disk = disk
        self._loop = loop
        self._worker = worker
        #: Base offset to (last offset, batch), the one used last at the end.
        self._cache: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._cache_bytes = cache_bytes
        self._size = 0
        self._generation = log.batches.generation

    def read(self, from_offset: int, max_bytes: int, on_done: Answer) -> None:
        """Whole batches from the one that holds ``from_offset`` on, or the next one if nothing holds it.

        At least one if there is one, and further ones while they fit into ``max_bytes``; fewer at the end of
        a segment, and where memory begins or ends. Nothing is decoded; checksums are compared. ``on_done`` is
        called at once if the first one is in memory, else later.
        """
        log = self.log
        if log.batches.generation != self._generation:
            self._cache.clear()
            self._size = 0
            self._generation = log.batches.generation
        log.close_batches()
        found = self._from_memory(max(from_offset, log.start), max_bytes)
        if found or from_offset >= log.batches.closed.end:
            on_done(found, None)
            return
        self._from_disk(max(from_offset, log.start), max_bytes, on_done, is_again=False)

    def _from_memory(self, offset: int, max_bytes: int) -> list[bytes]:
        found: list[bytes] = []
        size = 0
        while offset < self.log.batches.closed.end:
            known = self._cache.get(offset)
            if known is None:
                batch = self.log.reader.closed(offset)
                if batch is None or (found and size + batch.length > max_bytes):
                    break
                salt = self.log.partition.salt
                known = batch.last, b"".join([batch.pack_header(0xFFFFFFFF, salt), *batch.pieces])
                self._keep(batch.base, *known)
            elif found and size + len(known[1]) > max_bytes:
                break
            else:
                self._cache.move_to_end(offset)
            found.append(known[1])
            size += len(known[1])
            offset = known[0] + 1
        return found

    def _keep(self, base: int, last: int, data: bytes) -> None:
        if base not in self._cache and len(data) <= self._cache_bytes:
            self._cache[base] = last, data
            self._size += len(data)
            while self._size > self._cache_bytes:
                self._size -= len(self._cache.popitem(last=False)[1][1])

    def _from_disk(self, offset: int, max_bytes: int, on_done: Answer, *, is_again: bool) -> None:
        segment = self.log.partition.segment_from(offset)
        if segment is None:
            on_done([], None)
            return
        index = segment.index
        position = index.position_of(max(offset - segment.base, 0)) if index is not None else 0
        done = partial(self._answer, offset, max_bytes, on_done, is_again)
        job = partial(self._read, segment, segment.written, position, offset, max_bytes, done)
        self._worker.submit(job)

    def _read(
        self, segment: Segment, written: int, position: int, offset: int, max_bytes: int, done: Answer
    ) -> None:
        """Runs in the worker."""
        found: list[bytes] = []
        error: Exception | None = None
        try:
            file = self._disk.open(segment.path)
            try:
                size = 0
                data, at = b"", 0
                while position < written:
                    if at + HEADER_SIZE > len(data):
                        data, at = file.read(min(_READ_BYTES, written - position), position), 0
                    header = parse_header(data, at, self.log.partition.salt)
                    if header is None:
                        raise CorruptLog(segment.path, position, "no good batch header")
                    if header.last >= offset:
                        if found and size + header.length > max_bytes:
                            break
                        if at + header.length > len(data):
                            data, at = file.read(max(_READ_BYTES, header.length), position), 0
                        batch = data[at : at + header.length]
                        if crc32(memoryview(batch)[HEADER_SIZE:]) != header.payload_crc:
                            raise CorruptLog(segment.path, position, "checksum of a batch is wrong")
                        found.append(batch)
                        size += header.length
                    position += header.length
                    at += header.length
            finally:
                file.close()
        except Exception as caught:
            error = caught
        self._loop.post(partial(done, found, error))

    def _answer(
        self,
        offset: int,
        max_bytes: int,
        on_done: Answer,
        is_again: bool,
        found: list[bytes],
        error: Exception | None,
    ) -> None:
        if self.log.deleted or self.log.batches.generation != self._generation:
            on_done([], None)  # what was read may be cut
        elif error is not None and not is_again:
            # The segment may have been removed or rewritten meanwhile.
            self._from_disk(offset, max_bytes, on_done, is_again=True)
        else:
            on_done(found, error)
