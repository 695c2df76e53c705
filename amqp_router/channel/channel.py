"""One open channel: its state, its publishing and delivery sides, and the client's methods.

Most publishes and acknowledgements take a fast way that does not come here (``connection.machine`` calls
``publishing`` and ``delivery``). Every other method is decoded and looked up in ``_METHODS``.

A reply that waits for a commit holds back all later output of the channel. ``reply`` gives the channel a
detached output for it, which joins the connection's output when the revision is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from amqp_router.channel import consuming, declaring, questions, tx_methods
from amqp_router.channel.ack_watch import AckWatch, timeout_of
from amqp_router.channel.asking import Asking
from amqp_router.channel.confirms import Confirms
from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.content import ContentAssembler
from amqp_router.channel.delivery import RETURN_SLICE, Delivery
from amqp_router.channel.listener import ChannelListener
from amqp_router.channel.ports import Connection
from amqp_router.channel.publishing import Publishing
from amqp_router.channel.replies import HeldReplies, HeldReply
from amqp_router.channel.returns import return_all
from amqp_router.channel.states import ChannelState
from amqp_router.channel.transactions import Transaction
from amqp_router.channel.waking import Waking
from amqp_router.protocol import methods
from amqp_router.protocol.errors import (
    UNIMPLEMENTED_METHOD,
    CommandInvalid,
    NotImplementedByServer,
    PreconditionFailed,
)
from amqp_router.protocol.methods import Method
from amqp_router.protocol.output import Output
from vhosts.counters import MessageTotals
from vhosts.exchanges.taps import Actor
from vhosts.publishing.publisher import Publisher
from vhosts.queues.destination import UNHEARD, Asker
from vhosts.queues.handle import Consumer, Credit, QueueHandle

#: Messages or consumers that a closed channel gives back per turn of the event loop.
RELEASE_SLICE = RETURN_SLICE
#: Cost of auto-deleting a queue with its last consumer, in messages given back.
AUTO_DELETE_UNITS = 25
#: Channels of a connection that end in one turn, some 4 µs each.
END_SLICE = 256
#: Cost of a channel beside what it gives back: 250 with a consumer each took five milliseconds.
CHANNEL_UNITS = 4


class Channel(ChannelListener):
    """A channel in state OPEN or CLOSING."""

    __slots__ = (
        "ack_watch",
        "asking",
        "confirms",
        "connection",
        "consumers",
        "content",
        "delivery",
        "getters",
        "last_queue",
        "number",
        "out",
        "pending",
        "permissions",
        "prefetch",
        "publishing",
        "shared",
        "state",
        "transaction",
        "vhost",
        "waking",
    )

    def __init__(self, number: int, connection: Connection) -> None:
        self.number = number
        self.connection = connection
        self.vhost = connection.vhost
        self.permissions = connection.permissions
        self.state = ChannelState.OPEN
        self.out: Output = connection.output
        #: Name of the queue last declared here. An empty queue name in a method means this one.
        self.last_queue = ""
        #: Prefetch of consumers started from now on; 0 is no limit.
        self.prefetch = 0
        #: Deliveries that the channel as a whole may still get (basic.qos global).
        self.shared = Credit()
        self.consumers: dict[str, ChannelConsumer] = {}
        self.getters: dict[QueueHandle, ChannelConsumer] = {}
        #: What was asked of a queue last; None before the first question.
        self.asking: Asking | None = None
        self.waking = Waking()
        self.content = ContentAssembler(connection.intake)
        self.pending = HeldReplies()
        #: Sees that deliveries are acknowledged in time; None while none has a timeout.
        self.ack_watch: AckWatch | None = None
        #: What waits for tx.commit; None unless tx.select was called.
        self.transaction: Transaction | None = None
        self.confirms: Confirms | None = None

        self.delivery = Delivery()
        self.delivery.number = number
        self.delivery.body_payload_max = connection.frame_max - 8
        self.delivery.out = self.out
        self.delivery.listener = self
        self.delivery.table = self.vhost.table

        self.publishing = Publishing()
        self.publishing.number = number
        self.publishing.cache = connection.cache
        self.publishing.user = connection.user.name
        self.publishing.out = self.out
        self.publishing.inflow = connection.inflow
        self.publishing.listener = self
        self.publishing.publisher = Publisher(
            self.vhost.table,
            connection.cache,
            connection.intake.account,
            self.publishing,
            connection.inflow,
            connection.open_runs,
        )
        self.vhost.counters.channel_created += 1
        if self.vhost.topology.feed.on:
            self.vhost.topology.feed.channel(self.vhost.name, self.actor(), is_new=True)

    def actor(self) -> Actor:
        """This channel as taps name it: connection, channel number and user."""
        return Actor(self.connection.name, self.number, self.connection.user.name)

    # -- methods ------------------------------------------------------------------------------------

    def receive(self, method: Method) -> None:
        """Carry out one method of an open channel.

        Raises:
            ChannelException, ConnectionException: as the method's function says.
        """
        handler = _METHODS.get(type(method))
        if handler is None:
            raise CommandInvalid(UNIMPLEMENTED_METHOD)
        feed = self.vhost.topology.feed
        if feed.on:
            with feed.acting(self.connection.user.name, self.connection.in_slices):
                handler(self, method)
        else:
            handler(self, method)

    def select_confirms(self, method: methods.ConfirmSelect) -> None:
        """Confirm every publish from now on. A second call changes nothing."""
        if self.transaction is not None:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        if self.confirms is None:
            self.publishing.publisher.close_run()
            confirms = Confirms()
            confirms.number = self.number
            confirms.tick = self.connection.tick
            confirms.owner = self
            self.confirms = confirms
            self.publishing.confirms = confirms
            self.publishing.confirming = True
        self.reply(None if method.nowait else methods.ConfirmSelectOk(), 0)

    def emit_confirms(self) -> None:
        """Write the acks and nacks that are due; called once per tick."""
        if self.confirms is not None and self.state is ChannelState.OPEN:
            self.confirms.emit(self.out.buf)
            self.out.touch()

    # -- replies ------------------------------------------------------------------------------------

    def reply(self, method: Method | None, rev: int) -> None:
        """Send ``method`` (None with nowait) once revision ``rev`` of the definitions is stored.

        With ``rev`` 0 it waits only for earlier replies.
        """
        is_stored = rev <= self.connection.commits.committed
        if not is_stored:
            self.connection.unstored(rev)
        if method is None:
            return
        data = methods.frame(self.number, method)
        if is_stored or rev <= self.pending.last_rev:
            self.out.buf.put(data)
            self.out.touch()
            return
        self._hold(HeldReply(data, rev))
        self.connection.commits.wait(rev, self)

    def hold(self, method: Method) -> HeldReply:
        """Send ``method`` when its ``waits`` is False and ``release_replies`` is called."""
        held = HeldReply(methods.frame(self.number, method), 0, waits=True)
        if not self.connection.stopped:
            self._hold(held)
        return held

    def _hold(self, held: HeldReply) -> None:
        self.connection.detached.add(self)
        self._write_to(self.pending.add(held))

    def committed(self, rev: int) -> None:
        """Definitions up to ``rev`` are stored: send the replies that waited for them."""
        self._release(rev)

    def release_replies(self) -> None:
        """Send the replies that wait for nothing any more."""
        self._release(self.connection.commits.committed)

    def _release(self, rev: int) -> None:
        if self.connection.stopped:
            self.connection.detached.discard(self)
            self.pending.clear()  # nothing may follow connection.close or close-ok
            return
        if not self.pending:
            return
        output = self.connection.output
        self.pending.release(rev, output)
        if not self.pending:
            self.connection.detached.discard(self)
            self._write_to(output)
            self.waking.wake(self)
        output.touch()

    def _write_to(self, output: Output) -> None:
        self.out = output
        self.delivery.out = output
        self.publishing.out = output
        for consumer in self.consumers.values():
            consumer.output = output

    # -- consumers ----------------------------------------------------------------------------------

    def leave(self, consumer: ChannelConsumer, asker: Asker) -> bool:
        """Remove ``consumer`` from its queue, which tells ``asker``; True if the queue went with it."""
        queue = consumer.queue
        if queue.name in self.vhost.replies:
            queue.cancel(consumer, asker)
            self.vhost.replies.close(queue)
            self.publishing.reply_to = b""
            self.waking.replies_to = None
            return False
        is_there = not queue.deleted
        self._tell_end(consumer)
        queue.cancel(consumer, asker)
        return is_there and queue.deleted

    def _tell_end(self, consumer: Consumer) -> None:
        feed = self.vhost.topology.feed
        if feed.on:
            feed.consumer(self.vhost.name, self.actor(), consumer, is_new=False)

    def watch(self, owner: Consumer) -> None:
        """See that what ``owner`` takes is acknowledged in time, if there is a timeout."""
        timeout_ms = timeout_of(owner)
        timers = owner.queue.timers_of_node()
        if timeout_ms and timers is not None and self.state is ChannelState.OPEN:
            if self.ack_watch is None:
                self.ack_watch = AckWatch(self, self.connection, timers)
            self.ack_watch.begin(timeout_ms)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue was deleted or failed: tell the client, if it has the capability."""
        if self.consumers.get(consumer.tag) is not consumer:
            return  # the client has cancelled it meanwhile, and may have used its tag again
        del self.consumers[consumer.tag]
        self.delivery.aside.let_go()
        self._tell_end(consumer)
        connection = self.connection
        if self.state is not ChannelState.OPEN or connection.stopped or not connection.consumer_cancel_notify:
            return
        held = connection.held_cancels.get(consumer.queue)
        if held is not None:
            held.append((self, consumer.tag))
        else:
            self.reply(methods.BasicCancel(consumer.tag, True), 0)

    def credit_returned(self) -> None:
        """The channel has credit again: let all its queues deliver."""
        self.waking.wake(self)

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``ports.Connection``."""
        self.connection.in_slices(step)

    def reply_after_slices(self, method: Method) -> None:
        """Send ``method`` after the work in slices that is under way."""
        self.connection.in_slices(partial(self._reply_now, method))

    def _reply_now(self, method: Method) -> bool:
        if not self.connection.stopped:  # nothing may follow connection.close
            self.reply(method, 0)
        return True

    def totals(self) -> MessageTotals:
        """Counts of the messages of this channel so far."""
        publishing, delivery = self.publishing, self.delivery
        totals = MessageTotals()
        totals.publish = publishing.publish_total
        totals.confirm = self.confirms.confirm_total if self.confirms is not None else 0
        totals.publish_confirm = publishing.next_sequence - 1
        totals.return_unroutable = publishing.return_total
        totals.drop_unroutable = publishing.drop_total
        totals.deliver = delivery.deliver_total
        totals.deliver_no_ack = delivery.deliver_no_ack_total
        totals.get = delivery.get_total
        totals.get_no_ack = delivery.get_no_ack_total
        totals.get_empty = delivery.get_empty_total
        totals.redeliver = delivery.redeliver_total
        totals.ack = delivery.ack_total
        return totals

    # -- the end ------------------------------------------------------------------------------------

    def stop(self) -> Transaction | None:
        """Stop deliveries, and forget the publishes that are not synced yet.

        Confirms that are due are written before the method that closes the channel. The caller must then call
        ``release``, which gives back what the channel holds, and free the transaction that is returned
        (``free_some``).
        """
        transaction = self.halt()
        self.end()
        return transaction

    def halt(self) -> Transaction | None:
        """The first part of ``stop``: nothing is delivered or confirmed any more."""
        self.delivery.aside.let_go()
        self.shared.stop()
        self.waking.stop()
        if self.ack_watch is not None:
            self.ack_watch.stop()
            self.ack_watch = None
        if self.asking is not None:
            self.asking.abandon()
        if self.confirms is not None:
            self.publishing.publisher.close_run()
            self.emit_confirms()
            self.publishing.confirming = False
            self.publishing.confirms = None
        transaction = self.transaction
        if transaction is not None:
            self.transaction = self.publishing.transaction = None
            self.vhost.table.stale.look_later()
        return transaction

    def end(self) -> None:
        """The other part of ``stop``, which may come in a later turn."""
        counters = self.vhost.counters
        counters.channel_closed += 1
        counters.closed.add(self.totals())
        if self.vhost.topology.feed.on:
            self.vhost.topology.feed.channel(self.vhost.name, self.actor(), is_new=False)
        self.publishing.publisher.close_run()
        # The route's queues may be exclusive to this connection, which would keep both in memory.
        self.publishing.last_route = None
        walk = self.publishing.walk
        if walk is not None:
            self.publishing.walk = None
            self.vhost.table.stale.release(*walk.abandon())
            self.vhost.table.stale.look_later()
        self.confirms = None
        self.content.reset()

    def release(self, limit: int) -> int:
        """Remove consumers from their queues, then return unsettled messages, up to ``limit`` units of work.

        Returns the number of units used; less than ``limit`` means that everything is given back.
        """
        spent = 0
        consumers = self.consumers
        while consumers and spent < limit:
            spent += 1
            if self.leave(consumers.popitem()[1], UNHEARD):
                spent += AUTO_DELETE_UNITS
        if spent >= limit:
            return spent
        delivery = self.delivery
        spent += return_all(delivery, limit - spent)
        if spent < limit:
            delivery.listener = self.publishing.listener = None  # breaks reference cycles
            self.publishing.publisher.listener = None
            if self.asking is not None:
                self.asking.release()
        return spent


def end_some(left: list[Channel], channels: dict[int, Channel]) -> bool:
    """End a slice of the channels ``left``, which are halted, and remove them from ``channels``; True if none
    is left.
    """
    for _ in range(min(END_SLICE, len(left))):
        channel = left.pop()
        channel.end()
        del channels[channel.number]
    return not left


def release_some(channels: list[Channel]) -> bool:
    """Give back a slice of what ``channels`` hold. A channel that is done leaves the list. True if all are
    done.
    """
    left = RELEASE_SLICE
    while channels and left > 0:
        channel = channels.pop()
        spent = channel.release(left)
        if spent >= left:
            channels.append(channel)
        left -= spent + CHANNEL_UNITS
    return not channels


def _flow(channel: Channel, method: methods.ChannelFlow) -> None:
    if not method.active:
        raise NotImplementedByServer("active=false")
    channel.reply(methods.ChannelFlowOk(True), 0)


def _access(channel: Channel, method: methods.AccessRequest) -> None:
    channel.reply(methods.AccessRequestOk(1), 0)


_METHODS: dict[type[Method], Callable[[Channel, Any], None]] = {  # each takes its own method
    methods.ChannelFlow: _flow,
    methods.AccessRequest: _access,
    methods.BasicQos: consuming.qos,
    methods.BasicAck: consuming.ack,
    methods.BasicNack: consuming.nack,
    methods.BasicReject: consuming.reject,
    methods.BasicRecover: consuming.recover,
    methods.BasicRecoverAsync: consuming.recover,
    methods.ConfirmSelect: Channel.select_confirms,
    **declaring.METHODS,
    **questions.METHODS,
    **tx_methods.METHODS,
}
