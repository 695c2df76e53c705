"""One open channel: its state, its two sides, and what the client's methods do.

Publishing and acknowledging have a fast way that does not pass here (``connection.machine`` calls
``publishing`` and ``delivery``); every other method is decoded and looked up in ``_METHODS``.

A reply that waits for a commit holds back everything behind it on the channel: ``reply`` gives the channel
a detached output for what follows and joins it to the connection's when the revision is stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp_router.channel import consuming, declaring
from amqp_router.channel.confirms import Confirms
from amqp_router.channel.content import ContentAssembler, Intake
from amqp_router.channel.delivery import RETURN_SLICE, ChannelConsumer, Delivery
from amqp_router.channel.ports import Connection
from amqp_router.channel.publishing import Inflow, Publishing
from amqp_router.channel.states import ChannelState
from amqp_router.protocol import methods
from amqp_router.protocol.errors import (
    UNIMPLEMENTED_METHOD,
    CommandInvalid,
    InternalError,
    NotImplementedByServer,
    PreconditionFailed,
)
from amqp_router.protocol.methods import Method
from amqp_router.protocol.output import Output
from vhosts.counters import MessageTotals
from vhosts.exchanges.router import RouteCache
from vhosts.queues.consumers import Credit
from vhosts.queues.queue import Queue

#: What a closed channel gives back per turn of the loop: messages, or consumers.
RELEASE_SLICE = RETURN_SLICE
#: What it costs to take a queue away with its last consumer, in messages given back.
AUTO_DELETE_UNITS = 25


class Channel:
    """A channel in state OPEN or CLOSING."""

    __slots__ = (
        "confirms",
        "connection",
        "consumers",
        "content",
        "delivery",
        "first_served",
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
        "vhost",
    )

    def __init__(
        self,
        number: int,
        connection: Connection,
        *,
        cache: RouteCache,
        user: str,
        inflow: Inflow,
        intake: Intake,
        open_runs: list[Publishing],
    ) -> None:
        self.number = number
        self.connection = connection
        self.vhost = connection.vhost
        self.permissions = connection.permissions
        self.state = ChannelState.OPEN
        self.out: Output = connection.output
        #: Name of the queue last declared here; what an empty queue name means.
        self.last_queue = ""
        #: Prefetch of consumers started from now on; 0 is no limit.
        self.prefetch = 0
        #: What the channel as a whole may still get (basic.qos global).
        self.shared = Credit()
        self.consumers: dict[str, ChannelConsumer] = {}
        self.getters: dict[Queue, ChannelConsumer] = {}
        #: Whose consumer's queue began when the channel's limit was last no longer used up.
        self.first_served = 0
        self.content = ContentAssembler(intake)
        #: Replies waiting for a commit, each with what the channel wrote after it.
        self.pending: deque[tuple[int, bytes, Output]] = deque()
        self.confirms: Confirms | None = None

        self.delivery = Delivery()
        self.delivery.number = number
        self.delivery.body_payload_max = connection.frame_max - 8
        self.delivery.out = self.out
        self.delivery.listener = self

        self.publishing = Publishing()
        self.publishing.number = number
        self.publishing.table = self.vhost.table
        self.publishing.cache = cache
        self.publishing.user = user
        self.publishing.out = self.out
        self.publishing.inflow = inflow
        self.publishing.open_runs = open_runs
        self.vhost.counters.channel_created += 1

    # -- methods ------------------------------------------------------------------------------------

    def receive(self, method: Method) -> None:
        """Carry out one method of an open channel.

        Raises:
            ChannelException, ConnectionException: as the method's rules say.
        """
        handler = _METHODS.get(type(method))
        if handler is None:
            raise CommandInvalid(UNIMPLEMENTED_METHOD)
        handler(self, method)

    def select_confirms(self, method: methods.ConfirmSelect) -> None:
        """Confirm every publish from now on; again is no error."""
        if self.confirms is None:
            self.publishing.close_run()
            confirms = Confirms()
            confirms.number = self.number
            confirms.tick = self.connection.tick
            confirms.owner = self
            self.confirms = confirms
            self.publishing.confirms = confirms
            self.publishing.confirming = True
        self.reply(None if method.nowait else methods.ConfirmSelectOk(), 0)

    def emit_confirms(self) -> None:
        """Write the acks and nacks owed to the publisher; once per tick."""
        if self.confirms is not None and self.state is ChannelState.OPEN:
            self.confirms.emit(self.out.buf)
            self.out.touch()

    # -- replies ------------------------------------------------------------------------------------

    def reply(self, method: Method | None, rev: int) -> None:
        """Send ``method`` (None with nowait) once revision ``rev`` of the definitions is stored.

        0 waits for nothing, but stays behind replies that do.
        """
        if method is None:
            return
        data = methods.frame(self.number, method)
        if rev <= self.connection.commits.committed:
            self.out.buf.put(data)
            self.out.touch()
            return
        held = Output()
        self.pending.append((rev, data, held))
        self.connection.detached.add(self)
        self._write_to(held)
        self.connection.commits.wait(rev, self)

    def committed(self, rev: int) -> None:
        """Definitions up to ``rev`` are stored: let go what waited for them."""
        if self.connection.stopped:
            self.connection.detached.discard(self)
            self.pending.clear()  # nothing may follow connection.close or close-ok
            return
        output = self.connection.output
        while self.pending and self.pending[0][0] <= rev:
            _, data, held = self.pending.popleft()
            output.buf.put(data)
            output.join(held)
            if not self.pending:
                self.connection.detached.discard(self)
                self._write_to(output)
                for consumer in self.consumers.values():
                    consumer.wake()
        output.touch()

    def _write_to(self, output: Output) -> None:
        self.out = output
        self.delivery.out = output
        self.publishing.out = output
        for consumer in self.consumers.values():
            consumer.output = output

    # -- consumers ----------------------------------------------------------------------------------

    def leave(self, consumer: ChannelConsumer) -> bool:
        """Take ``consumer`` off its queue; True when an auto-delete queue went with it, its last one."""
        queue = consumer.queue
        if queue.remove_consumer(consumer) and queue.auto_delete and not queue.deleted:
            try:
                self.vhost.remove_queue(queue)
            except InternalError:
                return False  # the definition store refuses: the queue stays until its next last consumer
            return True
        return False

    def consumer_cancelled(self, consumer: ChannelConsumer) -> None:
        """The queue was deleted or failed; the client hears of it if it can."""
        self.consumers.pop(consumer.tag, None)
        if self.state is not ChannelState.OPEN or not self.connection.consumer_cancel_notify:
            return
        held = self.connection.held_cancels
        if held is not None:
            held.append((self, consumer.tag))
        else:
            self.reply(methods.BasicCancel(consumer.tag, True), 0)

    def credit_returned(self) -> None:
        """The channel's own limit is no longer used up: all its queues may deliver.

        Each time another one begins, as the first may take all there is.
        """
        consumers = list(self.consumers.values())
        self.first_served = first = (self.first_served + 1) % max(1, len(consumers))
        for consumer in consumers[first:] + consumers[:first]:
            consumer.wake()
        self.connection.charge(len(consumers) // 16)

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``ports.Connection``."""
        self.connection.in_slices(step)

    def reply_after_slices(self, method: Method) -> None:
        """Send ``method`` when what is being done in slices is done."""
        self.connection.in_slices(partial(self._reply_now, method))

    def _reply_now(self, method: Method) -> bool:
        if not self.connection.stopped:  # nothing may follow connection.close
            self.reply(method, 0)
        return True

    def totals(self) -> MessageTotals:
        """What happened to messages here so far."""
        publishing, delivery = self.publishing, self.delivery
        totals = MessageTotals()
        totals.publish = publishing.publish_total
        totals.confirm = self.confirms.confirm_total if self.confirms is not None else 0
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

    def stop(self) -> None:
        """Nothing is delivered any more; publishes still unsynced are nobody's any more.

        Confirms that are due leave before whatever says that the channel is closed. What the channel holds
        is given back by ``release``, which must follow.
        """
        self.shared.stop()
        counters = self.vhost.counters
        counters.channel_closed += 1
        counters.closed.add(self.totals())
        self.publishing.close_run()
        self.emit_confirms()
        self.publishing.confirming = False
        self.publishing.confirms = None
        self.confirms = None
        self.content.reset()

    def release(self, limit: int) -> int:
        """Take consumers off their queues, then return what is out, for up to ``limit`` units.

        Returns how many units it took; less than ``limit`` means that all is given back.
        """
        spent = 0
        consumers = self.consumers
        while consumers and spent < limit:
            spent += 1
            if self.leave(consumers.popitem()[1]):
                spent += AUTO_DELETE_UNITS
        if spent >= limit:
            return spent
        delivery = self.delivery
        spent += delivery.requeue_some(delivery.next_tag - 1, limit - spent)
        if spent < limit:
            delivery.listener = None  # or the two would keep each other until a garbage collection
        return spent


def release_some(channels: list[Channel]) -> bool:
    """Give back a slice of what ``channels`` hold; who is done leaves the list. True at the end."""
    left = RELEASE_SLICE
    while channels and left > 0:
        channel = channels.pop()
        spent = channel.release(left)
        if spent >= left:
            channels.append(channel)
        left -= spent + 1
    return not channels


def _flow(channel: Channel, method: methods.ChannelFlow) -> None:
    if not method.active:
        raise NotImplementedByServer("active=false")
    channel.reply(methods.ChannelFlowOk(True), 0)


def _access(channel: Channel, method: methods.AccessRequest) -> None:
    channel.reply(methods.AccessRequestOk(1), 0)


def _delete_queue(channel: Channel, method: methods.QueueDelete) -> None:
    # The reply leaves before the cancels of this connection's own consumers, as it mostly does in RabbitMQ,
    # where they race: a client that waits for it may take a cancel that comes first for an error (kombu does,
    # of any channel).
    held: list[tuple[Channel, str]] = []
    connection = channel.connection
    connection.held_cancels = held
    try:
        declaring.delete_queue(channel, method)
    finally:
        connection.held_cancels = None
    # What the reply waits for, the cancels wait for as well.
    rev = channel.pending[len(channel.pending) - 1][0] if channel.pending else 0
    for consuming_channel, tag in held:
        consuming_channel.reply(methods.BasicCancel(tag, True), rev)


def _tx_select(channel: Channel, method: methods.TxSelect) -> None:
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    raise NotImplementedByServer("transactions (class tx) are not supported yet")


def _not_transactional(channel: Channel, method: Method) -> None:
    raise PreconditionFailed("channel is not transactional")


_METHODS: dict[type[Method], Callable[[Channel, Any], None]] = {
    methods.ChannelFlow: _flow,
    methods.AccessRequest: _access,
    methods.BasicQos: consuming.qos,
    methods.BasicConsume: consuming.consume,
    methods.BasicCancel: consuming.cancel,
    methods.BasicGet: consuming.get,
    methods.BasicAck: consuming.ack,
    methods.BasicNack: consuming.nack,
    methods.BasicReject: consuming.reject,
    methods.BasicRecover: consuming.recover,
    methods.BasicRecoverAsync: consuming.recover,
    methods.ConfirmSelect: Channel.select_confirms,
    methods.TxSelect: _tx_select,
    methods.TxCommit: _not_transactional,
    methods.TxRollback: _not_transactional,
    **declaring.METHODS,
    methods.QueueDelete: _delete_queue,
}
