"""Gives the kernel back what a burst left free inside glibc's heap and in arenas of Python's allocator.

glibc keeps a free block below one that is in use, and its own way to give all of them back, malloc_trim(3),
holds its caller for as long as that takes: 73 ms for 840 MiB. Here the same happens in portions. A portion
takes free blocks out of the heap as anyone would, with malloc(3), has the kernel drop their pages, and keeps
them until the last portion is done, as malloc would hand out the same ones again. The arenas are those that
``arenas`` keeps.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
from collections.abc import Callable
from typing import Any

from amqp_router import arenas

#: madvise(2): the kernel may drop these pages, they read as zeros afterwards.
MADV_DONTNEED = 4
#: Sizes of the blocks, the large ones first. A smaller one often has no whole page inside.
BLOCK_BYTES = (1 << 20, 256 << 10, 64 << 10, 16 << 10)
#: A portion ends at that many octets or that many blocks: half a millisecond or so.
PORTION_BYTES, PORTION_BLOCKS = 8 << 20, 64
#: Between two portions. What the broker grows by meanwhile comes from fresh pages and not from the blocks
#: that are held; as these have none any more, the process is no larger for that.
PAUSE_S = 0.005
#: A pass takes no more than these, a fifth of a second in all. What is left are the smallest blocks.
PORTIONS_MAX = 400
#: A process that is larger by less than this than it was at the start is left alone.
WORTH_BYTES = 64 << 20


def glibc() -> ctypes.PyDLL | None:
    """The C library if it is glibc, with its calls made under the interpreter's lock.

    Without the lock each of thousands of short calls could wait for another thread's turn.
    """
    try:
        library = ctypes.PyDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - absent from every other C library, musl's mallopt does nothing
        library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
        library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        library.sbrk.restype, library.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    except (OSError, AttributeError):
        return None
    return library


def resident_bytes() -> int:
    """What this process has in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def trim() -> bool:
    """Give back at once whatever is left, of all threads; False where the C library cannot."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False


class FreeBlocks:
    """One pass over what is free: a portion with each call. Without ``library`` the arenas alone."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._sizes = [] if library is None else list(BLOCK_BYTES)
        #: Arenas that become free during the pass are for the next one.
        self._arenas_left = arenas.kept_bytes()
        self._held: list[int] = []
        self._portions = 0

    def portion(self) -> bool:
        """Give back one portion; False when nothing is left, and all blocks are free again."""
        blocks = octets = 0
        self._portions += 1
        if self._portions > PORTIONS_MAX:
            self._sizes.clear()
        if self._arenas_left > 0:
            self._give_back_arenas()
            return True
        while self._sizes:
            size = self._sizes[0]
            if not self._give_back(size):
                del self._sizes[0]
            octets += size
            blocks += 1
            if octets >= PORTION_BYTES or blocks >= PORTION_BLOCKS:
                return True
        return self._release()

    def _give_back_arenas(self) -> None:
        octets = 0
        while octets < min(PORTION_BYTES, self._arenas_left):
            given = arenas.give_back()
            if given == 0:  # they are in use again
                self._arenas_left = 0
                return
            octets += given
        self._arenas_left -= octets

    def close(self) -> None:
        """End the pass where it is."""
        self._sizes.clear()
        self._arenas_left = 0
        while self._release():
            pass

    def _give_back(self, size: int) -> bool:
        """Whether the heap had ``size`` octets in one piece without growing for it."""
        library = self._library
        end = library.sbrk(0)
        block = library.malloc(size)
        if block is None:
            return False
        # The heap grew for it, or it is mapped: malloc does so with large ones without ``tune_allocator``.
        if library.sbrk(0) != end or block >= end:
            library.free(block)
            return False
        self._held.append(block)
        first = -(-block // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = (block + size - first) // mmap.PAGESIZE * mmap.PAGESIZE
        library.madvise(first, whole, MADV_DONTNEED)
        return True

    def _release(self) -> bool:
        for _ in range(min(len(self._held), 16 * PORTION_BLOCKS)):
            self._library.free(self._held.pop())
        return bool(self._held)


class FreeHeap:
    """Starts such a pass when it is asked to and the process has grown by ``WORTH_BYTES``.

    How much of that is free is not known before: glibc tells it after a look at each free block.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, resident: Callable[[], int] = resident_bytes
    ) -> None:
        self._loop = loop
        self._library = glibc()
        self._resident = resident
        self._at_start = resident()
        self._pass: FreeBlocks | None = None
        self._timer: asyncio.TimerHandle | None = None

    def give_back(self, *, all_of_it: bool = False) -> None:
        """Begin a pass if there may be something worth it.

        ``all_of_it`` begins one in any case, and then gives back what is scattered and what threads
        left, in one go: nobody may be in a hurry.
        """
        if self._pass is not None:
            return
        has_grown = self._resident() - self._at_start >= WORTH_BYTES
        if (self._library is not None or arenas.kept_bytes()) and (all_of_it or has_grown):
            self._pass = FreeBlocks(self._library)
            self._portion(all_of_it)
        elif all_of_it:
            trim()

    def stop(self) -> None:
        """End a pass that is under way."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pass is not None:
            self._pass.close()
            self._pass = None

    def _portion(self, all_of_it: bool) -> None:
        assert self._pass is not None
        if self._pass.portion():
            self._timer = self._loop.call_later(PAUSE_S, self._portion, all_of_it)
            return
        self._pass = self._timer = None
        if all_of_it:
            trim()
