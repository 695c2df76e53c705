"""The delivery tags of a channel: which delivery has which, and which are outstanding (not settled).

Tags count from 1 and are shared by deliveries and ``basic.get``. Outstanding deliveries are in a ring indexed
by ``tag & mask``: ``messages`` and, parallel to it, the ``owners`` that took them. A settled tag leaves a
hole (None). ``base`` is the lowest tag of the ring that may be outstanding; it moves over holes.

The ring grows while it is well filled, up to ``RING_PLACES_MAX``. Otherwise its lowest tags make room: those
that are outstanding go to ``older``, and ``base`` moves up. A delivery that is never acknowledged therefore
keeps no places for those behind it, and neither growing nor moving over holes takes long. Of a content that
the log has too, only the offset is kept here.

``consumer`` gives out tags, ``delivery`` settles and returns what has them.

Source: AMQP 0-9-1, section 1.8.3 (delivery-tag).
"""

from __future__ import annotations

from typing import Any

from amqp_router.channel.aside import Aside
from amqp_router.channel.listener import ChannelListener
from amqp_router.channel.older import OlderDeliveries
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.message import Message
from amqp_router.protocol.output import Output
from vhosts.exchanges.router import RoutingTable
from vhosts.long_lists import unwatched
from vhosts.queues.handle import Consumer

#: Places of the largest ring, and tags that leave a full one at once: powers of two.
RING_PLACES_MAX = 65536
BLOCK_TAGS = 4096

_NO_TABLE = RoutingTable()


class Tags:
    """Outstanding deliveries of one channel, and what its consumers need to write them."""

    __slots__ = (
        "aside",
        "base",
        "body_payload_max",
        "deliver_no_ack_total",
        "deliver_total",
        "get_empty_total",
        "get_no_ack_total",
        "get_total",
        "listener",
        "messages",
        "next_tag",
        "number",
        "older",
        "out",
        "outstanding",
        "owners",
        "redeliver_total",
        "table",
    )

    def __init__(self) -> None:
        self.number = 0
        #: Largest body frame payload the client takes: frame_max less 8.
        self.body_payload_max = 0
        self.out: Output
        #: The channel; None once everything is given back, when nothing below needs it any more.
        self.listener: ChannelListener | None = None
        #: The virtual host's routing table, which knows who hears of deliveries.
        self.table = _NO_TABLE
        self.messages: list[Any] = [None] * 16  # a Message where a tag is outstanding; read without a check
        self.owners: list[Any] = [None] * 16  # the ChannelConsumer of each
        self.base = 1
        self.next_tag = 1
        #: Outstanding deliveries with a tag below ``base``.
        self.older = OlderDeliveries()
        #: Deliveries not settled, in the ring and in ``older``.
        self.outstanding = 0
        self.aside = Aside()
        #: With and without acknowledgement, to consumers and by basic.get.
        self.deliver_total = 0
        self.deliver_no_ack_total = 0
        self.get_total = 0
        self.get_no_ack_total = 0
        self.get_empty_total = 0
        self.redeliver_total = 0

    def tell_taps(self, queue: str, message: Message) -> None:
        """Let those hear who hear of every delivery."""
        listener = self.listener
        assert listener is not None
        for tap in list(self.table.taps):
            tap.on_delivery(queue, message, listener.actor())

    def add(self, message: Message, owner: Consumer) -> int:
        """Give the next tag to ``message``; returns the tag."""
        tag = self.next_tag
        size = len(self.messages)
        if tag - self.base >= size:
            self._make_room()
            size = len(self.messages)
        index = tag & (size - 1)
        self.messages[index] = message
        self.owners[index] = owner
        self.next_tag = tag + 1
        self.outstanding += 1
        owner.taken += 1
        return tag

    def skip_tag(self) -> None:
        """Use up a tag for a delivery that needs no acknowledgement."""
        tag = self.next_tag
        if tag - self.base >= len(self.messages):
            self._make_room()
        if self.base == tag:
            self.base = tag + 1
        self.next_tag = tag + 1

    def _make_room(self) -> None:
        size = len(self.messages)
        is_sparse = (self.outstanding - self.older.count) * 4 <= size
        if size >= RING_PLACES_MAX or (size > BLOCK_TAGS and is_sparse):
            self._move_lowest()
        else:
            self._grow()

    def _move_lowest(self) -> None:
        """Let the lowest tags leave the ring, as many as stand beside each other in it up to a block."""
        size = len(self.messages)
        start = self.base & (size - 1)
        end = min(start + BLOCK_TAGS, size)
        messages, owners = unwatched(self.messages[start:end]), unwatched(self.owners[start:end])
        self.older.add(self.base, messages, owners)
        self.messages[start:end] = self.owners[start:end] = [None] * (end - start)
        self.base += end - start
        self._advance()

    def _grow(self) -> None:
        old_messages = self.messages
        old_owners = self.owners
        size = len(old_messages)
        self.messages = [None] * (size * 2)
        self.owners = [None] * (size * 2)
        if size >= BLOCK_TAGS:
            # The garbage collector would look through them twice, 10 ms for the largest. All that they hold
            # leaves them before the channel goes; with small ones it frees what is dropped without that.
            unwatched(self.messages)
            unwatched(self.owners)
        tag = self.base
        while tag < self.next_tag:
            self.messages[tag & (size * 2 - 1)] = old_messages[tag & (size - 1)]
            self.owners[tag & (size * 2 - 1)] = old_owners[tag & (size - 1)]
            tag += 1

    def check(self, tag: int, multiple: bool) -> None:
        """Check that ``tag`` is outstanding; 0 with ``multiple`` always is.

        Raises:
            PreconditionFailed: it is not (406).
        """
        if not (tag == 0 and multiple) and not self.holds(tag):
            raise PreconditionFailed(f"unknown delivery tag {tag}")

    def holds(self, tag: int) -> bool:
        """Whether ``tag`` is outstanding."""
        if tag < self.base:
            return self.older.count > 0 and self.older.holds(tag)
        return tag < self.next_tag and self.messages[tag & (len(self.messages) - 1)] is not None

    def _advance(self) -> None:
        mask = len(self.messages) - 1
        base = self.base
        while base < self.next_tag and self.messages[base & mask] is None:
            base += 1
        self.base = base
