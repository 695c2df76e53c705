"""Files of messages that left memory for this process only. A thread makes, writes and removes them.

Making a file or writing to one may wait for the file system's journal, for as long as the syncs of others
take. The event loop therefore does neither. It hands over what is to be written, and reads it from memory
until it hears that it is in the file. Until then it counts as ``held`` in the node's account. If more than
`UNDER_WAY_MAX` bytes are under way, the disk is slower than the publishers, and the loop waits for it.

Jobs run in the order in which they were submitted, so a file is removed after everything was written to it.
Nothing is synced, and the next start removes the files.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ...files import Disk, FileCache
from ...memory import MemoryBudget
from ...worker import Worker

#: Bytes that the thread may have to write at most.
UNDER_WAY_MAX = 64 << 20
logger = logging.getLogger(__name__)


class PageFile:
    """A file, the bytes that were given to it, and whether the thread has made it."""

    __slots__ = ("is_made", "path", "size")

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self.is_made = False


class PageWrite:
    """Bytes on their way to a file. If that fails, ``error`` says why."""

    __slots__ = ("error", "file", "position", "size")

    def __init__(self, file: PageFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.error: OSError | None = None

    def pieces(self) -> Sequence[bytes | memoryview]:
        """What to write (thread)."""
        raise AssertionError("a write must have something to write")

    def ended(self) -> None:
        """It is written, or ``error`` is set (event loop)."""
        raise AssertionError("whoever writes must hear of the end")


class PageFiles:
    """All of them in ``directory``. ``post`` puts a call onto the loop from the thread ``worker``.

    ``descriptors_max``: files kept open at most, half of them for writing and half for reading.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        worker: Worker,
        post: Callable[[Callable[[], None]], object],
        account: MemoryBudget,
        *,
        descriptors_max: int,
    ) -> None:
        self.directory = directory
        self.account = account
        self._disk = disk
        self._worker = worker
        self._post = post
        #: Those of the thread, and those of the loop.
        self._writers = FileCache(disk, max(descriptors_max // 2, 1), write=True)
        self._readers = FileCache(disk, max(descriptors_max // 2, 1), write=False)
        self._under_way = 0
        self._done: deque[PageWrite] = deque()
        self._some_done = threading.Event()
        self._is_posted = False
        self._is_closed = False

    def write(self, write: PageWrite) -> None:
        """Have it written; ``write.ended`` is called later, or before this returns."""
        while self._under_way and self._under_way + write.size > UNDER_WAY_MAX:
            self._some_done.wait()
            self._some_done.clear()
            self.collect()
        write.error = None
        self._under_way += write.size
        self.account.held += write.size
        self._worker.submit(partial(self._carry_out, write))
        self.collect()

    def _carry_out(self, write: PageWrite) -> None:
        if self._is_closed:
            return
        file = write.file
        try:
            if not file.is_made:
                self._disk.make_directory(self.directory)
            opened = self._writers.get(file.path, create=not file.is_made)
            file.is_made = True
            opened.write(write.pieces(), write.position)
        except OSError as error:
            write.error = error
        except Exception as error:
            # A bug of ours. Without an answer the bytes would stay in memory for ever.
            logger.exception("a page file could not be written")
            write.error = OSError(errno.EIO, str(error), file.path)
        self._done.append(write)
        self._some_done.set()
        if not self._is_posted:
            self._is_posted = True
            self._post(self.collect)

    def collect(self) -> None:
        """Tell those whose writes have ended (event loop)."""
        self._is_posted = False
        while self._done:
            write = self._done.popleft()
            self._under_way -= write.size
            self.account.held -= write.size
            if write.error is not None and write.error.errno in (errno.EMFILE, errno.ENFILE):
                self._readers.close()
            write.ended()

    def read(self, file: PageFile, count: int, position: int) -> bytes:
        """Bytes that are written, on the event loop, and mostly from the system's cache.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            opened = self._readers.get(file.path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            # The thread has descriptors that it can open again.
            self._worker.submit(self._writers.close)
            self._worker.wait_idle()
            opened = self._readers.get(file.path)
        return opened.read(count, position)

    def remove(self, files: Sequence[PageFile], forget: Callable[[], None] | None = None) -> None:
        """Remove files that nobody needs, in the thread: the kernel takes long to free a large one.

        ``forget`` is called there, too; not if there are no files.
        """
        if files:
            for file in files:
                self._readers.drop(file.path)
            self._worker.submit(partial(self._remove, files, forget))

    def _remove(self, files: Sequence[PageFile], forget: Callable[[], None] | None) -> None:
        if forget is not None:
            forget()
        for file in files:
            self._writers.drop(file.path)
            try:
                self._disk.unlink(file.path)
            except OSError as error:  # the next start removes it
                logger.warning("cannot remove %s: %s", file.path, error)

    def close(self) -> None:
        """End the thread and close the files. What is not written yet is given up."""
        self._is_closed = True
        self._worker.stop()
        self._writers.close()
        self._readers.close()
