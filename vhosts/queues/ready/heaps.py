"""A heap of very many numbers, in heaps of ``HEAP_NUMBERS`` at most.

One list of a million moves to a larger place whenever it is full, which holds the event loop for 8 to 25 ms:
each page of the new place is one that the kernel has to find. Here a heap that is full is put beside the
others and gets no further numbers; a heap of their first numbers says which of them is next.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace

#: Numbers of one heap.
HEAP_NUMBERS = 4096


class Heaps:
    """The lowest number comes first. Each is there once."""

    def __init__(self) -> None:
        self._count = 0
        #: The heap that new numbers enter.
        self._open: list[int] = []
        #: The others with their first numbers, as a heap; none is empty.
        self._full: list[tuple[int, list[int]]] = []

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: object) -> bool:
        """Every number is looked at until it is found."""
        return number in self._open or any(number in heap for _, heap in self._full)

    def push(self, number: int) -> None:
        """Add ``number``."""
        self._count += 1
        heappush(self._open, number)
        if len(self._open) >= HEAP_NUMBERS:
            heappush(self._full, (self._open[0], self._open))
            self._open = []

    def lowest(self) -> int:
        """The lowest number, which stays; there is one."""
        full, numbers = self._full, self._open
        if full and not (numbers and numbers[0] < full[0][0]):
            return full[0][0]
        return numbers[0]

    def pop(self) -> int:
        """Take the lowest number out; there is one."""
        self._count -= 1
        full, numbers = self._full, self._open
        if not full or (numbers and numbers[0] < full[0][0]):
            return heappop(numbers)
        lowest, heap = full[0]
        heappop(heap)
        if heap:
            heapreplace(full, (heap[0], heap))
        else:
            heappop(full)
        return lowest

    def pop_any(self) -> int:
        """Take some number out, at the least cost; there is one."""
        self._count -= 1
        if not self._open:
            self._open = self._full.pop()[1]
        return self._open.pop()

    def in_order(self) -> Iterator[int]:
        """The numbers from the lowest on, which stay. None may come or go meanwhile."""
        # Those that may be next, with their heaps and places: below each number that was given, and the first
        # of each heap.
        near = [(heap[0], heap, 0) for heap in (self._open, *(heap for _, heap in self._full)) if heap]
        heapify(near)
        while near:
            number, heap, place = near[0]
            yield number
            below = [(heap[at], heap, at) for at in (2 * place + 1, 2 * place + 2) if at < len(heap)]
            if not below:
                heappop(near)
                continue
            heapreplace(near, below[0])
            if len(below) > 1:
                heappush(near, below[1])
