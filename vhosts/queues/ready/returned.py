"""Messages that returned to a queue, by their offsets.

A consumer may return a million messages. One list of them would move to a larger place whenever it is full,
which holds the event loop for 8 to 25 ms: each page of the new place is one that the kernel has to find. So
they stand in heaps of neighbouring offsets, ``BUCKET_OFFSETS`` each, and none grows with their number.

Compiled: see ``returned.pxd``.
"""

from __future__ import annotations

from heapq import heappop, heappush

from amqp_router.protocol.message import Message

_BUCKET_BITS = 12
#: Offsets of one heap.
BUCKET_OFFSETS = 1 << _BUCKET_BITS


class Returned:
    """The lowest offset comes first. As an iterator it gives, and lets go of, all of them in any order.

    Of one offset there is one message at most.
    """

    __slots__ = ("_key", "_keys", "_others", "count", "first")

    def __init__(self) -> None:
        self.count = 0
        #: Those of the lowest bucket: a heap of pairs of offset and message. Empty only if there are none.
        self.first: list[tuple[int, Message]] = []
        #: The number of that bucket; the other buckets by their numbers, and a heap of these.
        self._key = 0
        self._others: dict[int, list[tuple[int, Message]]] | None = None
        self._keys: list[int]

    def __len__(self) -> int:
        return self.count

    def add(self, message: Message) -> None:
        """Take ``message``, wherever its offset lies."""
        key = message.offset >> _BUCKET_BITS
        if self.count == 0:
            self._key = key
        heappush(self.first if key == self._key else self._bucket(key), (message.offset, message))
        self.count += 1

    def _bucket(self, key: int) -> list[tuple[int, Message]]:
        """The bucket ``key``, which is not the first, or is from now on."""
        if self._others is None:
            self._others = {}
            self._keys = []
        if key < self._key:
            self._others[self._key] = self.first
            heappush(self._keys, self._key)
            self._key = key
            self.first = []
            return self.first
        bucket = self._others.get(key)
        if bucket is None:
            bucket = self._others[key] = []
            heappush(self._keys, key)
        return bucket

    def lowest(self) -> Message:
        """The first of them, which stays; there is one."""
        return self.first[0][1]

    def take(self) -> None:
        """The first of them leaves."""
        heappop(self.first)
        self._left()

    def _left(self) -> None:
        self.count -= 1
        if self.count > 0 and len(self.first) == 0:
            self._key = heappop(self._keys)
            self.first = self._others.pop(self._key)  # type: ignore[union-attr]  # there are others

    def __iter__(self) -> Returned:
        return self

    def __next__(self) -> Message:
        if self.count == 0:
            raise StopIteration
        message = self.first.pop()[1]
        self._left()
        return message

    def messages(self) -> list[Message]:
        """All of them in any order; they stay. For few."""
        heaps = [self.first, *(self._others or {}).values()]
        return [message for heap in heaps for _, message in heap]
