"""How a channel's deliveries end: they are acknowledged, rejected, or returned to their queues.

Their tags, and who has them, stand in ``Tags``, which this is.

Source: AMQP 0-9-1, basic.ack; RabbitMQ, "Negative Acknowledgements". Tag 0 as in RabbitMQ.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.tags import Tags
from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from vhosts.queues.handle import QueueHandle

#: Deliveries acknowledged, rejected or returned by one call; some milliseconds. One that is rejected may
#: become a dead letter.
SETTLE_SLICE = 4096
REJECT_SLICE = 1024
RETURN_SLICE = 500
#: Cost of rejecting a message, and of returning it to its queue, in acknowledgements.
REJECT_UNITS = 4
RETURN_UNITS = 4
# C integers where compiled (see delivery.pxd).
#: How messages return, see ``requeue_taken``.
_BY_CONSUMER, _TOGETHER, _GATHERED = 1, 2, 3


class Delivery(Tags):
    """The deliveries of one channel."""

    __slots__ = ("ack_total", "returning")

    def __init__(self) -> None:
        super().__init__()
        #: Queues that get messages back in slices and have not got all of them.
        self.returning: dict[QueueHandle, None] = {}
        self.ack_total = 0

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
        limit = _slice_of(kind)
        if self.outstanding <= limit or (self.older.count == 0 and last < self.base + limit):
            return self._settle_range(last, limit, kind)
        before = self.outstanding
        assert self.listener is not None
        self.listener.in_slices(partial(self.settle_some, last, kind))
        return before - self.outstanding

    def settle_some(self, last: int, kind: int) -> bool:
        """Settle a slice of the outstanding tags up to ``last``, lowest first; True if none is left."""
        limit = _slice_of(kind)
        return self._settle_range(last, limit, kind) < limit

    def _settle_range(self, last: int, limit: int, kind: int) -> int:
        done = 0
        while self.older.count > 0 and done < limit:
            owner = cast(ChannelConsumer | None, self.older.lowest_owner(last))
            if owner is None:
                return done
            run = self.older.take_run(last, limit - done)
            done += len(run)
            self._settle_run(run, owner, kind)
        current = self.base
        while current <= last and done < limit:
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
            run = [message]
            while current <= last and done < limit:
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


def _slice_of(kind: int) -> int:
    """How many are settled by one call."""
    return SETTLE_SLICE if kind == flags.ACK else REJECT_SLICE
