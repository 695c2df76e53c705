"""The highest priority first, and first in, first out among equals.

Each level has the offsets of its messages, 8 bytes a message, in blocks: an array of a million would hold the
loop when it moves to a larger place. Contents are in the log or, for transient
messages and for a window of those that consumers will get next, in memory. A returned message has its place
by its offset among those of its level. A level is made for its first message.

The transient messages stand in blocks by their offsets: a dict of a million would hold the loop each time
that it doubles.

Source: RabbitMQ, "Priority Queue Support"; places of returned messages as measured with 3.10.8.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from persistence.errors import PersistenceError
from vhosts.queues.contents import OVERHEAD
from vhosts.queues.ready.order import ReadyOrder, Trouble, logged_message, stored_messages
from vhosts.queues.ready.returned import Returned

#: Limit of the part of a logged queue that is in memory, in octets.
WINDOW_BYTES = 8 << 20
#: What the node's account has for a message's place in its level.
ENTRY_BYTES = 8
#: And for a level; measured.
LEVEL_BYTES = 250
#: Places of one block of a level's offsets, which are given back together.
PLACES = 4096
#: Offsets of one block of transient messages, a power of 2.
BLOCK_BITS = 12

_OVERHEAD = OVERHEAD
_WINDOW_BYTES = WINDOW_BYTES
_PLACES = PLACES
_ENTRY_BYTES = ENTRY_BYTES
_LEVEL_BYTES = LEVEL_BYTES
_BLOCK_BITS = BLOCK_BITS


class Level:
    """The messages of one priority."""

    __slots__ = ("_last", "_middle", "offsets", "returned", "spent")

    def __init__(self) -> None:
        #: The block with the next offsets, and how many of them were taken: not all, if there are others.
        self.offsets = array("Q")
        self.spent = 0
        #: The block that gets what is published, and full ones between the two. None for the first block.
        self._last: array[int] | None = None
        self._middle: list[array[int]] | None = None
        #: Made for the first one; stays when it is empty.
        self.returned: Returned | None = None

    def append(self, offset: int) -> None:
        """A message is published; its offset is above all others."""
        block = self.offsets if self._last is None else self._last
        if len(block) == _PLACES:
            if self._last is not None:
                if self._middle is None:
                    self._middle = []
                self._middle.append(self._last)
            block = self._last = array("Q")
        block.append(offset)

    def places(self) -> int:
        """How many offsets its blocks have, taken or not."""
        count = len(self.offsets)
        if self._last is not None:
            count += len(self._last)
        if self._middle is not None:
            count += _PLACES * len(self._middle)
        return count

    def put_back(self, message: Message) -> None:
        """A message returns to its place."""
        if self.returned is None:
            self.returned = Returned()
        self.returned.add(message)

    def is_empty(self) -> bool:
        """Whether it has no message."""
        return self.spent == len(self.offsets) and (self.returned is None or self.returned.count == 0)

    def has_returned(self) -> bool:
        """Whether the next message is one that was returned."""
        returned = self.returned
        if returned is None or returned.count == 0:
            return False
        return self.spent == len(self.offsets) or returned.lowest().offset < self.offsets[self.spent]

    def has_before(self, end: int) -> bool:
        """Whether the next message has an offset below ``end``."""
        if self.spent < len(self.offsets) and self.offsets[self.spent] < end:
            return True
        returned = self.returned
        return returned is not None and returned.count > 0 and returned.lowest().offset < end

    def take(self) -> int:
        """The next of ``offsets`` is taken; returns how many places are given back."""
        self.spent += 1
        freed = self.spent
        if freed < len(self.offsets):
            return 0
        self.spent = 0
        if self._middle:
            self.offsets = self._middle.pop(0)
        elif self._last is not None:
            self.offsets = self._last
            self._last = None
        else:
            self.offsets = array("Q")
        return freed


class DroppedLevels:
    """What a purge or a removal has taken out of the order: an iterator over the messages.

    With ``settle`` these are all; otherwise those of the log are left out, but for returned ones.
    """

    __slots__ = ("_blocks", "_levels", "_settle")

    def __init__(
        self, levels: list[Level | None], blocks: dict[int, dict[int, Message]], settle: bool
    ) -> None:
        self._levels = levels
        self._blocks = blocks
        self._settle = settle

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        levels = self._levels
        while levels:
            level = levels[len(levels) - 1]
            if level is not None and level.returned is not None and level.returned.count > 0:
                message: Message = next(level.returned)
                return message
            if level is not None and self._settle and level.spent < len(level.offsets):
                offset = level.offsets[level.spent]
                level.take()
                return self._held(offset) or logged_message(offset)
            levels.pop()
        if self._blocks:
            block = next(iter(self._blocks))
            return self._held(next(iter(self._blocks[block])))  # type: ignore[return-value]  # it is there
        raise StopIteration

    def _held(self, offset: int) -> Message | None:
        block = self._blocks.get(offset >> _BLOCK_BITS)
        if block is None:
            return None
        message = block.pop(offset, None)
        if not block:
            del self._blocks[offset >> _BLOCK_BITS]
        return message


class PriorityOrder(ReadyOrder):
    """``highest`` is the queue's highest priority; messages of a higher one count as of that."""

    __slots__ = (
        "_aside",
        "_aside_bodies",
        "_blocks",
        "_end",
        "_held_bodies",
        "_held_bytes",
        "_held_count",
        "_levels",
        "_swept_end",
        "_swept_top",
        "_top",
        "_window",
    )

    def __init__(self, highest: int) -> None:
        super().__init__()
        self._levels: list[Level | None] = [None] * (highest + 1)
        #: No level above it has a message.
        self._top = 0
        #: All messages that were published have offsets below it; and those that a sweep looks at.
        self._end = self._swept_end = 0
        #: No level above it has a message that the sweep looks at.
        self._swept_top = 0
        #: Messages of the log with their contents, by offset; and transient ones, in blocks.
        self._window: dict[int, Message] = {}
        self._blocks: dict[int, dict[int, Message]] = {}
        #: Transient ones in the blocks, and the bytes of all that are in memory.
        self._held_count = 0
        self._held_bytes = 0
        #: Octets of the bodies of these. Those of them that were put aside, and octets of their bodies.
        self._held_bodies = 0
        self._aside = 0
        self._aside_bodies = 0

    # -- adding ---------------------------------------------------------------------------------------

    def push(self, message: Message, logged: bool) -> bool:
        budget = self.contents.budget
        level = self._level(message)
        level.append(message.offset)
        self._end = message.offset + 1
        budget.kept += _ENTRY_BYTES
        self.count += 1
        self.body_bytes += message.body_size
        if not logged:
            self.transient_bytes += message.body_size
            self._hold(message)
            self.contents.put_aside(message)
            self._count_aside(message, 1)
        elif (
            self.wanted
            and len(self._window) < self.window
            and self._held_bytes < _WINDOW_BYTES
            and budget.used < budget.limit
        ):
            self._hold(message)
        return True

    def put_back(self, message: Message) -> None:
        self._level(message).put_back(message)
        self.count += 1
        self.body_bytes += message.body_size

    def recovered(self) -> None:
        for messages in stored_messages(self.log):
            for message in messages:
                self._level(message).append(message.offset)
                self._end = message.offset + 1
                self.body_bytes += message.body_size
            self.count += len(messages)
            self.contents.budget.kept += ENTRY_BYTES * len(messages)

    def _level(self, message: Message) -> Level:
        number = min(message.priority, len(self._levels) - 1)
        self._top = max(self._top, number)
        level = self._levels[number]
        if level is None:
            level = self._levels[number] = Level()
            self.contents.budget.kept += _LEVEL_BYTES
        return level

    def _hold(self, message: Message) -> None:
        size = message.size() + _OVERHEAD
        if message.flags & flags.LOGGED:
            self._window[message.offset] = message
        else:
            block = self._blocks.get(message.offset >> _BLOCK_BITS)
            if block is None:
                block = self._blocks[message.offset >> _BLOCK_BITS] = {}
            block[message.offset] = message
            self._held_count += 1
        self._held_bytes += size
        self._held_bodies += message.body_size
        self.contents.budget.used += size

    def _count_aside(self, message: Message, sign: int) -> None:
        """``message`` has come to those in memory (1) or left them (-1), and may have been put aside."""
        if message.flags & flags.SPILLED:
            self._aside += sign
            self._aside_bodies += sign * message.body_size

    def _find(self, offset: int) -> Message | None:
        """The message at ``offset`` if it is in memory; it stays."""
        found = self._window.get(offset) if self._window else None
        if found is None:
            block = self._blocks.get(offset >> _BLOCK_BITS)
            if block is not None:
                found = block.get(offset)
        return found

    def _take_back(self, message: Message) -> None:
        """``message``, which was put aside and has just left, cannot be read for now."""
        self._hold(message)
        self._count_aside(message, 1)
        self.contents.budget.used -= message.size() + _OVERHEAD  # it is counted already

    def _let_go(self, message: Message) -> None:
        """``message``, which is in memory, leaves."""
        offset = message.offset
        self._held_bytes -= message.size() + _OVERHEAD
        self._held_bodies -= message.body_size
        if message.flags & flags.LOGGED:
            del self._window[offset]
            return
        self._count_aside(message, -1)
        block: dict[int, Message] = self._blocks[offset >> _BLOCK_BITS]
        del block[offset]
        self._held_count -= 1
        if not block:
            del self._blocks[offset >> _BLOCK_BITS]

    # -- taking ---------------------------------------------------------------------------------------

    def pop(self) -> Message | None:
        if self.peek(True) is None:
            return None
        return self._take(self._levels[self._top])  # type: ignore[arg-type]  # it has a message

    def _take(self, level: Level) -> Message | None:
        """Take the next message of ``level``, which ``_head_of`` has given."""
        if level.has_returned():
            returned: Returned = level.returned  # type: ignore[assignment]  # it is there
            message: Message = returned.lowest()
            if not self._recall(message):
                return None
            returned.take()
        else:
            message = self._find(level.offsets[level.spent])  # type: ignore[assignment]  # as before
            if message.flags & flags.LOGGED:
                self.contents.budget.used -= message.size() + _OVERHEAD
            self._let_go(message)
            if message.flags & flags.SPILLED and not self._recall(message):
                self._take_back(message)
                return None
            self.contents.budget.kept -= _ENTRY_BYTES * level.take()
        self.count -= 1
        self.body_bytes -= message.body_size
        return message

    def peek(self, eager: bool) -> Message | None:
        if self.count == 0 or (self.returning > 0 and self.return_left > 0):
            return None
        level = self._levels[self._top]
        while level is None or level.is_empty():
            self._top -= 1
            level = self._levels[self._top]
        return self._head_of(level)

    def begin_sweep(self, now_us: int) -> None:
        if self.swept_us == 0:
            self.swept_us = now_us
            self._swept_end = self._end
            self._swept_top = self._top

    def peek_swept(self) -> Message | None:
        if self.returning > 0 and self.return_left > 0:
            return None
        while self._swept_top >= 0:
            level = self._levels[self._swept_top]
            if level is not None and level.has_before(self._swept_end):
                return self._head_of(level)
            self._swept_top -= 1
        return None

    def pop_swept(self) -> Message | None:
        if self.peek_swept() is None:
            return None
        return self._take(self._levels[self._swept_top])  # type: ignore[arg-type]  # it has a message

    def _head_of(self, level: Level) -> Message | None:
        """The next message of ``level``, which has one; as ``peek``."""
        if level.has_returned():
            returned: Returned = level.returned  # type: ignore[assignment]  # it is there
            message: Message = returned.lowest()
            log = self.log
            if log is not None and message.offset >= log.copies.visible_end and message.flags & flags.LOGGED:
                return None  # it was delivered before the log had copies
            return message
        offset = level.offsets[level.spent]
        found = self._find(offset)
        if found is None:
            log = self.log
            assert log is not None  # only it has messages that are not held
            try:
                found = log.read_one(offset)
            except (OSError, PersistenceError) as error:
                self.trouble = Trouble(f"its log failed: {error}", error)
                return None
            self._hold(found)
        log = self.log
        if log is not None and offset >= log.copies.visible_end and found.flags & flags.LOGGED:
            return None
        return found

    def _recall(self, message: Message) -> bool:
        """See that a returned message, or one that was put aside, has its content; False if it cannot be
        read.
        """
        try:
            self.contents.recall(message, self.log)
        except (OSError, PersistenceError) as error:
            self.trouble = Trouble(f"its log failed: {error}", error)
            return False
        return True

    # -- dropping -------------------------------------------------------------------------------------

    def rest(self) -> None:
        for message in list(self._window.values()):
            self.contents.budget.used -= message.size() + _OVERHEAD
            self._let_go(message)

    def drop_all(self, settle: bool) -> Iterator[Message]:
        self.rest()
        budget = self.contents.budget
        levels, blocks = self._levels, self._blocks
        self._levels = [None] * len(levels)
        self._blocks = {}
        for level in levels:
            if level is not None:
                budget.kept -= _LEVEL_BYTES + _ENTRY_BYTES * level.places()
        self._held_count = self._held_bytes = self._held_bodies = 0
        self._aside = self._aside_bodies = 0
        self._top = self.swept_us = 0
        self.count = self.body_bytes = 0
        return DroppedLevels(levels, blocks, settle)

    # -- looking --------------------------------------------------------------------------------------

    def in_memory(self) -> int:
        return len(self._window) + self._held_count - self._aside

    def memory_bytes(self) -> int:
        return self._held_bytes

    def memory_bodies(self) -> int:
        return self._held_bodies - self._aside_bodies

    def put_aside(self) -> tuple[int, int]:
        return self._aside, self._aside_bodies
