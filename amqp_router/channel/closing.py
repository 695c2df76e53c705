"""Closes one consumer for an operator, while its channel stays open.

The client gets basic.cancel, as when a queue is deleted. What the consumer holds unacknowledged goes back
to its queue, each message to its place and marked as redelivered. The client may still acknowledge those
messages: it has them in hand and has done nothing wrong. So their tags stay outstanding, with an owner
(`_GONE`) whose acknowledgements have no effect; otherwise the first one would close the channel (406).

The queue is asked to let the consumer go, and may answer later. Until then the consumer takes what is on its
way, and its channel goes on. basic.cancel is written when the answer is there. If none comes within
``ANSWER_S``, the channel is closed (404).

Then messages go back in slices, before any later frame of the connection is handled. Acknowledgements that
wait for a ``tx.commit`` stand: what they settle does not go back.

Source: RabbitMQ, "Consumer Cancel Notification".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from amqp_router.channel.asking import ANSWER_S
from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.delivery import RETURN_SLICE, Delivery
from amqp_router.channel.states import ChannelState
from amqp_router.protocol import methods
from amqp_router.protocol.errors import AMQPError, ChannelException
from amqp_router.protocol.message import Message
from amqp_router.protocol.methods import Method
from vhosts.queues.destination import Asker
from vhosts.queues.handle import Consumer, QueueHandle
from vhosts.queues.timers import QueueTimers, Timer

#: Tags of the ring looked at in one turn of the event loop.
LOOK_SLICE = 4096


class Transacted(Protocol):
    """A transaction, as far as it decides what goes back."""

    def is_settled(self, tag: int) -> bool:
        """Whether ``tag`` is acknowledged in the transaction."""


class ClosingConnection(Protocol):
    """The connection of the consumer's channel."""

    stopped: bool

    @property
    def consumer_cancel_notify(self) -> bool:
        """Whether the client understands basic.cancel from the server."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``ports.Connection``."""

    def close_channel(self, channel: ClosingChannel, error: ChannelException) -> None:
        """See ``ports.Connection``."""


class ClosingChannel(Protocol):
    """The consumer's channel."""

    state: ChannelState
    consumers: dict[str, ChannelConsumer]
    delivery: Delivery

    @property
    def connection(self) -> ClosingConnection:
        """What the channels of the connection share."""

    @property
    def transaction(self) -> Transacted | None:
        """What waits for tx.commit; None if the channel is not transactional."""

    def leave(self, consumer: ChannelConsumer, asker: Asker) -> bool:
        """Remove ``consumer`` from its queue, which tells ``asker``."""

    def reply(self, method: Method | None, rev: int) -> None:
        """Send ``method`` once revision ``rev`` of the definitions is stored."""


class NotCancellable(Exception):
    """The client does not understand that the server ends a consumer: it would wait for messages forever."""


class _NoQueue(QueueHandle):
    """The queue of messages that are back in the real one."""

    def settle(self, message: Message, kind: int) -> None:
        """Their acknowledgement comes too late."""

    def requeue(self, message: Message) -> None:
        """They are back already."""

    def begin_return(self) -> None:
        """Nothing comes back here."""

    def end_return(self) -> None:
        """Nothing came back here."""


def _gone() -> ChannelConsumer:
    owner = ChannelConsumer()
    owner.queue = _NoQueue()
    owner.counts = False
    return owner


#: Owner and message of a tag whose message went back to its queue.
_GONE = _gone()
_NOTHING = Message()


def close_consumer(channel: ClosingChannel, consumer: ChannelConsumer, done: Callable[[int], None]) -> None:
    """End ``consumer``, and call ``done`` with the number of messages that went back.

    ``done`` gets -1 if the consumer ended by itself meanwhile.

    Raises:
        NotCancellable: the client has not announced the capability ``consumer_cancel_notify``.
    """
    if not channel.connection.consumer_cancel_notify:
        raise NotCancellable
    channel.connection.in_slices(_Closing(channel, consumer, done).go_on)


class _Closing(Asker):
    """One consumer that is being closed."""

    def __init__(
        self, channel: ClosingChannel, consumer: ChannelConsumer, done: Callable[[int], None]
    ) -> None:
        self._channel = channel
        self._consumer = consumer
        self._done = done
        self._has_begun = False
        #: Whether nothing more comes to the consumer, or its channel has closed for want of an answer.
        self._has_ended = False
        #: When it stops waiting for the answer, and who has that timer.
        self._timer: tuple[QueueTimers, Timer] | None = None
        #: The next tag to look at, and the first that was not delivered when the consumer ended.
        self._tag = 0
        self._end = 0
        self._returned = 0

    def go_on(self) -> bool:
        """A step of ``in_slices``; True at the end, or when the answer of the queue comes later."""
        if not self._has_begun:
            if not self._is_there() or self._channel.consumers.get(self._consumer.tag) is not self._consumer:
                self._done(-1)
                return True
            self._begin()
        if not self._has_ended:
            self._set_timer()
            return True
        return self._give_back()

    def _is_there(self) -> bool:
        channel = self._channel
        return channel.state is ChannelState.OPEN and not channel.connection.stopped

    def _begin(self) -> None:
        channel, consumer = self._channel, self._consumer
        self._has_begun = True
        # Before the consumer leaves: what waits behind it must not be delivered first.
        consumer.queue.begin_return()
        del channel.consumers[consumer.tag]
        channel.leave(consumer, self)

    # -- the answer of the queue ----------------------------------------------------------------------

    def ended(self) -> None:
        """See ``Asker``: the client hears of it."""
        if self._has_ended:
            return
        self._has_ended = True
        self._end = self._channel.delivery.next_tag
        if self._is_there():
            self._channel.reply(methods.BasicCancel(self._consumer.tag, True), 0)
        else:
            self._returned = -1
        if self._timer is not None:
            self._timer[0].cancel(self._timer[1])
            self._channel.connection.in_slices(self._give_back)

    def refused(self, error: AMQPError) -> None:
        """See ``Asker``: the queue is not there."""
        self.ended()

    def _set_timer(self) -> None:
        timers = self._consumer.queue.timers_of_node()
        assert timers is not None
        self._timer = timers, timers.set(self, timers.now_us() + ANSWER_S * 1_000_000)

    def timer_due(self, now_us: int) -> None:
        """No answer has come in time: messages that come now must not reach the client."""
        if self._is_there():
            self._channel.connection.close_channel(self._channel, self._consumer.queue.no_answer())
        self.ended()

    # -- what comes back ------------------------------------------------------------------------------

    def _give_back(self) -> bool:
        """Return a slice of what the consumer holds; True at the end."""
        if self._returned >= 0:  # else its channel has given it back
            self._return_some()
            if self._tag < self._end and self._consumer.unacked > 0:
                return False
        self._consumer.queue.end_return()
        self._done(self._returned)
        return True

    def _return_some(self) -> None:
        """Return the consumer's messages among the next tags, lowest first."""
        messages, owners, found = self._look()
        transaction = self._channel.transaction
        consumer = self._consumer
        for tag, place in found:
            if transaction is not None and transaction.is_settled(tag):
                continue
            message = messages[place]
            assert message is not None
            messages[place], owners[place] = _NOTHING, _GONE
            consumer.finished += 1
            if consumer.holds:
                consumer.queue.less_held(consumer, 1)
            if consumer.counts:
                consumer.shared.available += 1
                if consumer.shared.available == 1:
                    listener = self._channel.delivery.listener
                    assert listener is not None
                    listener.credit_returned()
            consumer.queue.requeue(message)
            self._returned += 1

    def _look(self) -> tuple[list[Message | None], list[Consumer | None], list[tuple[int, int]]]:
        """Messages and owners of the next tags, and the tags and places of the consumer's among them.

        Tags may move from the ring to an older block between two calls, so the blocks come first each time.
        """
        delivery, consumer = self._channel.delivery, self._consumer
        for block in delivery.older.blocks:
            last = block.tag_at(len(block.messages) - 1)
            if self._tag > last:
                continue
            places = [place for place, owner in enumerate(block.owners) if owner is consumer]
            found = [(block.tag_at(place), place) for place in places if block.tag_at(place) >= self._tag]
            self._tag = found[RETURN_SLICE][0] if len(found) > RETURN_SLICE else last + 1
            return block.messages, block.owners, found[:RETURN_SLICE]
        start = max(self._tag, delivery.base)
        stop = min(start + LOOK_SLICE, self._end)
        mask = len(delivery.owners) - 1
        ring = [(tag, tag & mask) for tag in range(start, stop) if delivery.owners[tag & mask] is consumer]
        self._tag = ring[RETURN_SLICE][0] if len(ring) > RETURN_SLICE else max(start, stop)
        return delivery.messages, delivery.owners, ring[:RETURN_SLICE]
