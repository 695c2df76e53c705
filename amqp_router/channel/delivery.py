"""The channel's delivery side: consumers, delivery tags and outstanding (unsettled) deliveries.

Tags count from 1 and are shared by deliveries and ``basic.get``. Outstanding deliveries are in a ring indexed
by ``tag & mask``: ``messages`` and, parallel to it, the ``owners`` that took them. A settled tag leaves a
hole (None). ``base`` is the lowest tag of the ring that may be outstanding; it moves over holes.

The ring grows while it is well filled, up to ``RING_PLACES_MAX``. Otherwise its lowest tags make room: those
that are outstanding go to ``older``, and ``base`` moves up. A delivery that is never acknowledged therefore
keeps no places for those behind it, and neither growing nor moving over holes takes long. Of a content that
the log has too, only the offset is kept here.

Source: AMQP 0-9-1, basic.ack, section 1.8.3; RabbitMQ, "Negative Acknowledgements". Tag 0 as in RabbitMQ.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from amqp_router.channel.aside import Aside
from amqp_router.channel.listener import ChannelListener
from amqp_router.channel.older import OlderDeliveries
from amqp_router.protocol import flags
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.message import Message
from amqp_router.protocol.output import Output
from amqp_router.protocol.shown import shown
from vhosts.exchanges.router import RoutingTable
from vhosts.long_lists import unwatched
from vhosts.queues.handle import Consumer, QueueHandle

# C integers where compiled (see delivery.pxd).
#: Deliveries settled or returned by one call; about a millisecond.
SETTLE_SLICE = 4096
RETURN_SLICE = 500
RETURN_UNITS = 4  # cost of returning a message to its queue, in acknowledgements
#: How messages return, see ``requeue_taken``.
_BY_CONSUMER, _TOGETHER, _GATHERED = 1, 2, 3
RING_PLACES_MAX = 65536  #: Places of the largest ring, and tags that leave a full one at once: powers of two.
BLOCK_TAGS = 4096

_NO_TABLE = RoutingTable()


class ChannelConsumer(Consumer):
    """A consumer on a channel; writes its deliveries into the channel's output."""

    __slots__ = ("counts", "delivery", "is_consumer", "limited", "prefix", "shows_count")

    def __init__(self) -> None:
        super().__init__()
        self.delivery: Delivery
        #: Frame header and class, method and consumer tag of its basic.deliver.
        self.prefix = b""
        #: Whether ``credit`` is a prefetch limit.
        self.limited = False
        #: Whether its deliveries count against the channel's limit; those of basic.get do not.
        self.counts = True
        #: 0 for what stands for one basic.get.
        self.is_consumer = 1
        #: Whether its deliveries say how often they came back: those of a quorum queue do.
        self.shows_count = False

    def timeout_set(self) -> None:
        if self.delivery.listener is not None:  # else the channel is gone
            self.delivery.listener.watch(self)

    def deliver(self, message: Message) -> None:
        delivery = self.delivery
        if not self.no_ack:
            if self.limited:
                self.credit -= 1
            self.shared.available -= 1
        if not delivery.aside.holds or not delivery.aside.hold(self, message):
            self.give(message, message)

    def give(self, message: Message, shows: Message) -> None:
        """Deliver ``message``, for which credit has been used up, with the content of ``shows``."""
        delivery = self.delivery
        tag = delivery.next_tag
        if self.no_ack:
            delivery.skip_tag()
            delivery.deliver_no_ack_total += 1
        else:
            delivery.add(message, self)
            delivery.deliver_total += 1
        redelivered = 0
        if message.flags & flags.REDELIVERED:
            redelivered = 1
            delivery.redeliver_total += 1
        out = delivery.out
        out.buf.put_deliver(self.prefix, tag, redelivered, shows.route)
        if self.shows_count or shows.flags & flags.BLIND:
            shows = shown(shows, self.shows_count and message.delivery_count > 0)
        out.content(shows, delivery.number, delivery.body_payload_max)
        if not out.dirty or out.buf.size > 1048576:
            out.touch()
        if len(delivery.table.taps) > 0:
            delivery.tell_taps(self.queue.name, shows)

    def cancelled(self) -> None:
        self.delivery.on_cancelled(self)


class Delivery:
    """Outstanding deliveries of one channel."""

    __slots__ = (
        "ack_total",
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
        "returning",
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
        #: Queues that get messages back in slices and have not got all of them.
        self.returning: dict[QueueHandle, None] = {}
        self.aside = Aside()
        #: With and without acknowledgement, to consumers and by basic.get.
        self.deliver_total = 0
        self.deliver_no_ack_total = 0
        self.get_total = 0
        self.get_no_ack_total = 0
        self.get_empty_total = 0
        self.redeliver_total = 0
        self.ack_total = 0

    def tell_taps(self, queue: str, message: Message) -> None:
        """Let those hear who hear of every delivery."""
        listener = self.listener
        assert listener is not None
        for tap in list(self.table.taps):
            tap.on_delivery(queue, message, listener.actor())

    def add(self, message: Message, owner: ChannelConsumer) -> int:
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

    def owner_of(self, tag: int) -> ChannelConsumer | None:
        """The consumer of the outstanding delivery ``tag``; None if there is none, or it is in ``older``."""
        if tag < self.base or tag >= self.next_tag:
            return None
        found: ChannelConsumer | None = self.owners[tag & (len(self.owners) - 1)]
        return found

    def ack(self, tag: int, multiple: bool) -> int:
        """Settle ``tag``, or all up to it (all outstanding ones if it is 0); returns how many.

        Very many go in slices (``listener.in_slices``); the first is done now, and its size returned.

        Raises:
            PreconditionFailed: the tag is not outstanding on this channel (406).
        """
        return self._settle(tag, multiple, flags.ACK)

    def reject(self, tag: int, multiple: bool) -> int:
        """As ``ack``, for messages refused without requeue."""
        return self._settle(tag, multiple, flags.REJECT)

    def _settle(self, tag: int, multiple: bool, kind: int) -> int:
        self.check(tag, multiple)
        if not multiple:
            if tag < self.base:
                taken = self.older.take(tag)
                self._settle_taken(taken[0], cast(ChannelConsumer, taken[1]), kind)
            else:
                index = tag & (len(self.messages) - 1)
                message = self.messages[index]
                owner = self.owners[index]
                self.messages[index] = None
                self.owners[index] = None
                self._settle_taken(message, owner, kind)
                self._advance()
            return 1
        last = self.next_tag - 1 if tag == 0 else tag
        if self.outstanding <= SETTLE_SLICE or (self.older.count == 0 and last < self.base + SETTLE_SLICE):
            return self._settle_range(last, kind)
        before = self.outstanding
        assert self.listener is not None
        self.listener.in_slices(partial(self.settle_some, last, kind))
        return before - self.outstanding

    def settle_some(self, last: int, kind: int) -> bool:
        """Settle a slice of the outstanding tags up to ``last``, lowest first; True if none is left."""
        return self._settle_range(last, kind) < SETTLE_SLICE

    def _settle_range(self, last: int, kind: int) -> int:
        done = 0
        while self.older.count > 0 and done < SETTLE_SLICE:
            taken = self.older.take_lowest(last)
            if taken is None:
                return done
            self._settle_taken(taken[0], cast(ChannelConsumer, taken[1]), kind)
            done += 1
        current = self.base
        while current <= last and done < SETTLE_SLICE:
            index = current & (len(self.messages) - 1)
            message = self.messages[index]
            current += 1
            if message is None:
                continue
            owner = self.owners[index]
            self.messages[index] = None
            self.owners[index] = None
            done += 1
            index = current & (len(self.messages) - 1)
            if current > last or self.messages[index] is None or self.owners[index] is not owner:
                self._settle_taken(message, owner, kind)
                continue
            # The same consumer got the next one, too. Consumers of several queues often take turns.
            run: list[Message] = [message]
            while current <= last and done < SETTLE_SLICE:
                index = current & (len(self.messages) - 1)
                message = self.messages[index]
                if message is None or self.owners[index] is not owner:
                    break
                self.messages[index] = None
                self.owners[index] = None
                run.append(message)
                done += 1
                current += 1
            self._settle_run(run, owner, kind)
        self.base = current
        self._advance()
        return done

    def _settle_run(self, run: list[Message], owner: ChannelConsumer, kind: int) -> None:
        """Settle messages that ``owner`` got one after the other."""
        count = len(run)
        self.outstanding -= count
        if kind == flags.ACK:
            self.ack_total += count
        self._give_back(owner, count)
        owner.queue.settle_range(run, kind)

    def _settle_taken(self, message: Message, owner: ChannelConsumer, kind: int) -> None:
        self.outstanding -= 1
        if kind == flags.ACK:
            self.ack_total += 1
        self._give_back(owner, 1)
        owner.queue.settle(message, kind)

    def _give_back(self, owner: ChannelConsumer, count: int) -> None:
        """So many deliveries to ``owner`` are over: it and its channel may get as many others."""
        owner.finished += count
        if owner.holds:
            owner.queue.less_held(owner, count)
        if owner.limited:
            owner.queue.grant(owner, count, 0)
        if owner.counts:
            before = owner.shared.available
            owner.shared.available = before + count
            if before <= 0 < before + count:
                # Consumers on the channel's other queues waited for the same limit.
                assert self.listener is not None
                self.listener.credit_returned()
        if owner.parked:
            owner.wake()

    def _advance(self) -> None:
        mask = len(self.messages) - 1
        base = self.base
        while base < self.next_tag and self.messages[base & mask] is None:
            base += 1
        self.base = base

    def requeue(self, tag: int, how: int) -> int:
        """Return ``tag`` to its place in its queue; returns 1. ``how``: see ``requeue_taken``.

        Raises:
            PreconditionFailed: the tag is not outstanding on this channel (406).
        """
        self.check(tag, False)
        if tag >= self.base:
            return self._requeue_range(tag, tag, 1, how)
        taken = self.older.take(tag)
        self.requeue_taken(taken[0], cast(ChannelConsumer, taken[1]), how)
        return 1

    def requeue_up_to(self, last: int, limit: int, how: int) -> int:
        """Return up to ``limit`` of the outstanding tags up to ``last``, lowest first; returns how many."""
        done = 0
        while self.older.count > 0 and done < limit:
            taken = self.older.take_lowest(last)
            if taken is None:
                return done
            self.requeue_taken(taken[0], cast(ChannelConsumer, taken[1]), how)
            done += 1
        return done + self._requeue_range(self.base, last, limit - done, how)

    def _requeue_range(self, first: int, last: int, limit: int, how: int) -> int:
        done = 0
        mask = len(self.messages) - 1
        tag = first
        while tag <= last and done < limit:
            index = tag & mask
            message = self.messages[index]
            if message is not None:
                owner = self.owners[index]
                self.messages[index] = None
                self.owners[index] = None
                done += 1
                self.requeue_taken(message, owner, how)
            tag += 1
        self._advance()
        return done

    def requeue_taken(self, message: Message, owner: ChannelConsumer, how: int) -> None:
        """Return ``message``, which ``owner`` got and whose tag is not outstanding any more.

        ``how``: 0 alone, 1 with others of its consumer, 2 with all others of its queue, 3 not yet: it is
        ``gathered``.
        """
        if how == _GATHERED:
            self.aside.gathered.append((owner, message))
            return
        self.outstanding -= 1
        self._give_back(owner, 1)
        queue = owner.queue
        if how + owner.is_consumer >= _TOGETHER and queue not in self.returning:
            self.returning[queue] = None
            queue.begin_return()
        queue.requeue(message)

    def requeue_some(self, last: int, limit: int, whole: bool) -> int:
        """Requeue up to ``limit`` of the outstanding tags up to ``last``, lowest first.

        A queue looks at its length when all of a consumer are back. ``whole``: and what basic.get took, too.
        Otherwise it looks after each of those, as RabbitMQ does. Returns how many; if that is ``limit``, the
        next slice must follow.
        """
        done = self.requeue_up_to(last, limit, _TOGETHER if whole else _BY_CONSUMER)
        left = limit - done
        while left > 0 and self.returning:
            left, queue = left - 1, self.returning.popitem()[0]
            queue.end_return()
        return limit if self.returning else done

    def requeue_slice(self, last: int) -> bool:
        """A step of ``listener.in_slices``: return some of what is out up to ``last``; True at the end."""
        whole = len(self.returning) > 0 or self.outstanding > RETURN_SLICE
        return self.requeue_some(last, RETURN_SLICE, whole) < RETURN_SLICE

    def on_cancelled(self, consumer: ChannelConsumer) -> None:
        """The queue dropped the consumer."""
        if self.listener is not None:  # else the channel is gone, too
            self.listener.consumer_cancelled(consumer)
