"""Deliveries that have been outstanding for so long that the channel's ring has no room for their tags.

They stand in blocks, in order of their tags. A block begins as a piece of the ring: one place for each tag.
When three quarters of it are settled, what is left moves together and keeps a list of its tags. So one old
delivery costs as much as another, however many tags were settled around it, and the work on each is bounded.

Invariants: no block is without an outstanding delivery, and more than a quarter of its places are taken (of
one with few places, at least one); every tag here is below ``Delivery.base``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from amqp_router.protocol.message import Message
from vhosts.queues.handle import Consumer

#: A block with at least as many places for each outstanding delivery moves together.
_SPARSE = 4
#: A block with no more places stays as it is.
_PLACES_MIN = 16


class Block:
    """Deliveries with neighbouring tags: ``messages`` and, beside it, their ``owners``; a hole is None."""

    __slots__ = ("first", "live", "lowest", "messages", "owners", "tags")

    def __init__(self, first: int, messages: list[Message | None], owners: list[Consumer | None]) -> None:
        #: The tag of the first place, while each tag has a place.
        self.first = first
        self.messages = messages
        self.owners = owners
        #: The tag of each place once it has moved together, rising; None before.
        self.tags: list[int] | None = None
        #: All places below this one are holes.
        self.lowest = 0
        self.live = 0
        for message in messages:
            if message is not None:
                self.live += 1

    def find(self, tag: int) -> int:
        """The place of ``tag``, which is not below the block's first; -1 if it is not outstanding."""
        place = tag - self.first if self.tags is None else bisect_left(self.tags, tag)
        if place >= len(self.messages) or self.messages[place] is None:
            return -1
        return place if self.tag_at(place) == tag else -1

    def tag_at(self, place: int) -> int:
        """The tag of the delivery at ``place``."""
        return self.first + place if self.tags is None else self.tags[place]

    def find_lowest(self) -> int:
        """The place of the lowest tag."""
        place = self.lowest
        while self.messages[place] is None:
            place += 1
        self.lowest = place
        return place

    def run_end(self, start: int, last: int, limit: int) -> int:
        """The place behind those in a row whose owner is that of ``start``: at most ``limit``, with tags
        up to ``last``.
        """
        owner = self.owners[start]
        place = start
        while place < len(self.messages) and limit > 0:
            if self.messages[place] is not None:
                if self.owners[place] is not owner or self.tag_at(place) > last:
                    break
                limit -= 1
            place += 1
        return place

    def thin(self) -> None:
        """Move together what is left if that is little."""
        size = len(self.messages)
        if self.live * _SPARSE > size or size <= _PLACES_MIN:
            return
        tags = []
        messages = []
        owners = []
        for place in range(self.lowest, size):
            if self.messages[place] is not None:
                tags.append(self.tag_at(place))
                messages.append(self.messages[place])
                owners.append(self.owners[place])
        self.tags = tags
        self.messages = messages
        self.owners = owners
        self.lowest = 0


class OlderDeliveries:
    """The blocks of one channel."""

    __slots__ = ("blocks", "count", "firsts")

    def __init__(self) -> None:
        #: Deliveries here.
        self.count = 0
        self.blocks: list[Block] = []
        #: The lowest tag that each block may hold.
        self.firsts: list[int] = []

    def add(self, first: int, messages: list[Message | None], owners: list[Consumer | None]) -> None:
        """Take over a piece of the ring, with tags from ``first`` on, above all that are here."""
        block = Block(first, messages, owners)
        if block.live > 0:
            block.thin()
            self.count += block.live
            self.blocks.append(block)
            self.firsts.append(first)

    def holds(self, tag: int) -> bool:
        """Whether ``tag`` is outstanding here."""
        index: int = bisect_right(self.firsts, tag)
        return index > 0 and self.blocks[index - 1].find(tag) >= 0

    def take(self, tag: int) -> tuple[Message, Consumer]:
        """Message and owner of ``tag``, which is outstanding here and is no longer then."""
        index: int = bisect_right(self.firsts, tag) - 1
        return self._take_from(index, self.blocks[index].find(tag))

    def take_lowest(self, last: int) -> tuple[Message, Consumer] | None:
        """As ``take``, of the lowest tag here; None if that is above ``last``."""
        if self.count == 0:
            return None
        block = self.blocks[0]
        place = block.find_lowest()
        return self._take_from(0, place) if block.tag_at(place) <= last else None

    def lowest_owner(self, last: int) -> Consumer | None:
        """Who has the lowest tag here; None if that is above ``last``."""
        if self.count == 0:
            return None
        block = self.blocks[0]
        place = block.find_lowest()
        return block.owners[place] if block.tag_at(place) <= last else None

    def take_run(self, last: int, limit: int) -> list[Message]:
        """As ``take_lowest``, of those that ``lowest_owner`` got one after the other: up to ``limit`` of a
        block.
        """
        block = self.blocks[0]
        start = block.find_lowest()
        end = block.run_end(start, last, limit)
        run: list[Message] = [each for each in block.messages[start:end] if each is not None]
        for place in range(start, end):
            block.messages[place] = None
            block.owners[place] = None
        block.lowest = end
        self._took(0, block, len(run))
        return run

    def _take_from(self, index: int, place: int) -> tuple[Message, Consumer]:
        block = self.blocks[index]
        message, owner = block.messages[place], block.owners[place]
        assert message is not None
        assert owner is not None
        block.messages[place] = None
        block.owners[place] = None
        self._took(index, block, 1)
        return message, owner

    def _took(self, index: int, block: Block, count: int) -> None:
        """So many have left ``block``."""
        block.live -= count
        self.count -= count
        if block.live > 0:
            block.thin()
        else:
            del self.blocks[index]
            del self.firsts[index]
