"""Messages in the order of their due times.

Of each message there are its due time and offset, ``ENTRY_BYTES`` octets, which count as memory that clients
keep. Contents are in the log, or for transient messages in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from amqp_router.protocol.flags import SPILLED
from amqp_router.protocol.message import Message
from persistence.errors import LogFailed, PersistenceError
from persistence.memory import MemoryBudget
from vhosts.queues.contents import OVERHEAD
from vhosts.queues.ready.heaps import Heaps
from vhosts.queues.ready.order import ReadyOrder, Trouble, logged_message, stored_messages
from vhosts.spread_map import SpreadMap

#: Memory of a message apart from its content.
ENTRY_BYTES = 60
#: What one that was removed takes beside that, until its time comes.
REMOVED_BYTES = 100
#: Removed ones that leave the heap in one turn of the event loop, some 3 µs each.
SKIP_SLICE = 500
#: Entries that a look at the first ones passes, some 1 µs each. Removed ones may stand between these.
LOOKS_MAX = 4000

_OFFSET_BITS = 64
_OFFSETS = (1 << _OFFSET_BITS) - 1


class Delayed(NamedTuple):
    """A message by its place: when it is due, in µs of the wall clock, and its offset."""

    due_us: int
    offset: int


class Taken:
    """All messages that an order had. Their memory is given back as they are dropped."""

    def __init__(
        self,
        budget: MemoryBudget,
        heap: Heaps,
        removed: SpreadMap[int, None],
        held: SpreadMap[int, Message],
    ) -> None:
        self._budget = budget
        self._heap = heap
        self._removed = removed
        self._held = held

    def drop(self, count: int, settle: bool, dropped: Callable[[Message], None]) -> bool:
        """Call ``dropped`` for up to ``count`` messages; True if none is left.

        Without ``settle`` those of the log are left out, which is removed as a whole.
        """
        heap, removed = self._heap, self._removed
        for _ in range(min(count, len(heap))):
            entry = heap.pop_any()
            self._budget.kept -= ENTRY_BYTES
            if entry in removed:
                del removed[entry]
                self._budget.kept -= REMOVED_BYTES
                continue
            message = self._held.pop(entry & _OFFSETS, None)
            if message is None and settle:
                message = logged_message(entry & _OFFSETS)
            if message is not None:
                dropped(message)
        return not heap


class DueOrder(ReadyOrder):
    """A message has its due time in ``extras``; ``peek`` and ``pop`` give it as ``deadline_us``."""

    def __init__(self) -> None:
        super().__init__()
        #: Due time and offset as one number each.
        self._heap = Heaps()
        #: Entries of the heap whose message was removed. They leave the heap when their time comes.
        self._removed: SpreadMap[int, None] = SpreadMap()
        #: Nothing was given, because there were too many of these in front: another turn goes on with them.
        self.is_skipping = False
        #: The latest entry that was taken. New entries are above it, unless the clock is set back.
        self._last_taken = 0
        #: Transient messages, by offset. A dict of a million would hold the loop each time that it doubles.
        self._held: SpreadMap[int, Message] = SpreadMap()
        self._held_bytes = 0

    def has_room(self) -> bool:
        """Whether the node's memory has room for one more."""
        return self.contents.budget.has_room_to_keep(ENTRY_BYTES)

    # -- adding ---------------------------------------------------------------------------------------

    def push(self, message: Message, logged: bool) -> bool:
        self._enter(message)
        if not logged:
            self.transient_bytes += message.body_size
            size = message.size() + OVERHEAD
            self._held[message.offset] = message
            self._held_bytes += size
            self.contents.budget.used += size
            self.contents.put_aside(message)
        return True

    def put_back(self, message: Message) -> None:
        raise AssertionError("nobody returns a delayed message")

    def recovered(self) -> None:
        for messages in stored_messages(self.log):
            for message in messages:
                self._enter(message)

    def _enter(self, message: Message) -> None:
        due_us = 0 if message.extras is None else message.extras.due_us
        self._heap.push(due_us << _OFFSET_BITS | message.offset)
        self.count += 1
        self.body_bytes += message.body_size
        self.contents.budget.kept += ENTRY_BYTES

    # -- taking ---------------------------------------------------------------------------------------

    def peek(self, eager: bool) -> Message | None:
        if not self._skip_removed() or not self._heap:
            return None
        entry = self._heap.lowest()
        message = logged_message(entry & _OFFSETS)
        message.deadline_us = entry >> _OFFSET_BITS
        return message

    def _skip_removed(self) -> bool:
        """Let removed ones leave the front of the heap; False (``is_skipping``) if there are very many."""
        left = SKIP_SLICE
        while self._heap and self._heap.lowest() in self._removed:
            if left == 0:
                self.is_skipping = True
                return False
            left -= 1
            del self._removed[self._heap.pop()]
            self.contents.budget.kept -= ENTRY_BYTES + REMOVED_BYTES
        self.is_skipping = False
        return True

    def pop(self) -> Message | None:
        if not self._skip_removed() or not self._heap:
            return None
        try:
            message = self._content(self._heap.lowest() & _OFFSETS)
        except (OSError, PersistenceError) as error:
            self.trouble = Trouble(f"its log failed: {error}", error)
            return None
        self._last_taken = max(self._last_taken, self._heap.pop())
        self.contents.budget.kept -= ENTRY_BYTES
        self._left(message)
        return message

    def _content(self, offset: int) -> Message:
        held = self._held.get(offset)
        if held is None:
            if self.log is None:
                raise LogFailed(f"offset {offset} holds no message")
            return self.log.read_one(offset)
        if held.flags & SPILLED:
            self.contents.take_back(held)
        return held

    def read(self, offset: int) -> Message | None:
        """The message at ``offset``, with its content, which stays; None if it cannot be read or has left.

        That is no ``trouble``, because whoever looks may name a message that left meanwhile.
        """
        try:
            return self._content(offset)
        except (OSError, PersistenceError):
            return None

    def remove(self, delayed: Delayed) -> Message | None:
        """Take the message out; None if it is not here or cannot be read."""
        entry = delayed.due_us << _OFFSET_BITS | delayed.offset
        if not self._heap or entry < self._heap.lowest() or entry in self._removed:
            return None
        # Looking through the heap takes 20 ms with a million messages, so only where it has to be.
        if entry <= self._last_taken and entry not in self._heap:
            return None
        message = self.read(delayed.offset)
        if message is None or message.extras is None or message.extras.due_us != delayed.due_us:
            return None
        self._removed[entry] = None
        self.contents.budget.kept += REMOVED_BYTES
        self._left(message)
        return message

    def _left(self, message: Message) -> None:
        self.count -= 1
        self.body_bytes -= message.body_size
        if self._held.pop(message.offset, None) is not None:
            self._held_bytes -= message.size() + OVERHEAD

    # -- dropping -------------------------------------------------------------------------------------

    def drop_all(self, settle: bool) -> Iterator[Message] | None:
        raise AssertionError("very many go in slices, see take_all")

    def take_all(self) -> Taken:
        """Forget all messages, which the caller drops some at a time."""
        taken = Taken(self.contents.budget, self._heap, self._removed, self._held)
        self._heap, self._removed, self._held = Heaps(), SpreadMap(), SpreadMap()
        self._held_bytes = self.count = self.body_bytes = 0
        return taken

    # -- looking --------------------------------------------------------------------------------------

    def first(self, count: int) -> Iterator[Delayed]:
        """The ``count`` messages that are due first, in that order.

        There are fewer if more than ``LOOKS_MAX`` that were removed stand before them.
        """
        for entry in islice(self._heap.in_order(), LOOKS_MAX):
            if count <= 0:
                return
            if entry not in self._removed:
                count -= 1
                yield Delayed(entry >> _OFFSET_BITS, entry & _OFFSETS)

    def in_memory(self) -> int:
        return len(self._held)

    def memory_bytes(self) -> int:
        return self._held_bytes
