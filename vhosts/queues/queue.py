"""A queue on this node, put together from its parts.

- ``ready``: the messages that are ready, in the order of their delivery (``ready/``);
- ``dispatch``: the consumers, and whose turn it is;
- ``receipts``: the publishers that wait until their messages are durable;
- ``contents``: the account of message contents in memory, shared by all queues of the node;
- ``services``: what the node does for its queues.

The queue itself joins them, in three layers of one object: ``standing`` has the parts and knows whether the
queue works; ``mortal`` obeys the settings, by which messages and the queue itself come to an end; here
messages come and go.

Messages are delivered as soon as they are published, also before their log is synced. Publishers are answered
when the log's high watermark has passed what they published.
"""

from __future__ import annotations

from amqp_router.protocol import flags
from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.frames import NO_EXPIRY
from amqp_router.protocol.message import Message
from persistence.log.queue.queue_log import QueueLog
from vhosts.errors import no_get_from_single_active
from vhosts.queues import state as states
from vhosts.queues.death import DELIVERY_LIMIT, EXPIRED, REJECTED
from vhosts.queues.destination import Asker
from vhosts.queues.handle import REDELIVERY_UNITS, Consumer, QueueView
from vhosts.queues.limits import REJECT_PUBLISH_DLX
from vhosts.queues.mortal import MortalQueue
from vhosts.queues.ready.choice import new_order
from vhosts.queues.ready.order import ReadyOrder
from vhosts.queues.services import QueueServices
from vhosts.queues.settings import NO_SETTINGS, QueueSettings, effective_settings
from vhosts.queues.view import LocalView

PARKED_PER_UNIT = 16
#: Deliveries before a message that is to be delivered at once or not at all.
AT_ONCE_UNITS = 4096
#: Units for messages dropped at once when one is published to a queue that is too long; others go in slices.
TRIM_UNITS = 128

# C integers where compiled (see queue.pxd).
_REDELIVERY_EXTRA = REDELIVERY_UNITS - 1
#: A message whose consumer does not see all of its headers gets others, some 15 µs.
_BLIND_EXTRA = 15
_NO_EXPIRY = NO_EXPIRY
_AT_ONCE_UNITS = AT_ONCE_UNITS
_PARKED_PER_UNIT = PARKED_PER_UNIT
_COUNT_MAX = 0xFFFF


class Queue(MortalQueue):
    """A local queue. ``attach`` joins it to its log before anyone uses it."""

    __slots__ = ("next_offset",)

    def __init__(self, services: QueueServices) -> None:
        super().__init__(services)
        self.use_order(new_order(NO_SETTINGS))
        #: Offset of the next message of a queue without a log.
        self.next_offset = 0

    def attach(self, incarnation: str, log: QueueLog | None = None, *, recovered: bool = False) -> None:
        """Use ``log``, if the queue is durable; ``recovered``: with the messages found in it."""
        self.incarnation = incarnation
        self.log = log
        settings = self.own_settings()
        self.dispatch.is_single = settings.single_active_consumer
        self.logs_all = self.counts_returns = settings.is_quorum
        self.held_count = 0 if settings.is_quorum else -1
        self.use_order(self.ready if settings is NO_SETTINGS else new_order(settings))
        if log is not None:
            log.listener = self
            self.count_remembered()
            log.batches.returned.keep(settings.is_quorum)
            if recovered:
                self.ready.recovered()
                if self.ready.count > 0:
                    self.expiry.recovered(settings)
                    self.touch()
        self.apply_settings(settings)

    def own_settings(self) -> QueueSettings:
        """What its arguments say."""
        return effective_settings(self.arguments)

    def use_order(self, order: ReadyOrder) -> None:
        """Deliver in ``order`` from now on; the queue must be empty."""
        order.contents = self.contents
        order.tick = self.tick
        order.log = self.log
        order.node = self.services
        order.incarnation = self.incarnation
        self.ready = order

    def view(self) -> QueueView:
        return LocalView(self)

    # -- publishing ---------------------------------------------------------------------------------

    def publish(self, message: Message) -> bool:
        """Append ``message`` (an object that belongs to this queue alone); False if the log cannot take
        it.
        """
        log = self.log
        logged = False
        if self.state != states.WORKING:
            return False
        if self.limits.rejects and not self._has_room(message):
            return False
        if self.expiry.ttl_us >= 0 or message.expire_ms != _NO_EXPIRY:
            self.expiry.stamp(message, self.tick.now_us)
        if self.expiry.head_us != 0 and self._is_head_over():
            self.ready.begin_sweep(self.tick.now_us)  # of what is before it; it may become the head
        if log is None:
            message.offset = self.next_offset
            self.next_offset += 1
        elif message.flags & flags.PERSISTENT or self.logs_all:
            message.flags |= flags.PERSISTENT
            log.append(message, self.tick.now_us)
            logged = True
            if message.extras is not None:
                self.count_remembered()
            self.receipts.end = message.offset + 1
        else:
            log.reserve(message)
        self.publish_total += 1
        if not self.ready.push(message, logged):
            self._heed_trouble()
            return False
        if not self.dirty:
            if len(self.consumers) > 0:
                self.touch()
            elif logged:
                # It is synced even if nobody waits for it because another queue refused the message.
                self.tick.wake()
        if message.deadline_us != 0:
            self._watch_published(message)
        if self.limits.is_set and self.limits.is_exceeded(self.ready):
            self._shorten()
        return True

    def _has_room(self, message: Message) -> bool:
        """Whether there is room for a message that is published."""
        if self.limits.has_room(self.ready, message):
            return True
        if self.has_due():
            self.pump(_AT_ONCE_UNITS)  # a ready consumer, or time, would have made room already
            if self.limits.has_room(self.ready, message):
                return True
        self.rejected_total += 1
        if self.buries and self.limits.overflow == REJECT_PUBLISH_DLX:
            self._bury_refused(message)
        return False

    def _shorten(self) -> None:
        """There is one message too many: let the oldest one go, after the deliveries if there may be some."""
        is_timed = self.expiry.is_timed
        dispatch = self.dispatch
        consumer = dispatch.turn
        looks = _PARKED_PER_UNIT
        while consumer is not None and looks > 0 and not consumer.ready():
            dispatch.park(consumer)
            consumer = dispatch.turn
            looks -= 1
        if consumer is None:
            # What is over has expired, and was not dropped.
            done = self._expire(0, TRIM_UNITS) if is_timed and self.drops is None else 0
            done = self._trim(done, TRIM_UNITS, 0)
            if is_timed:
                done = self._expire(done, TRIM_UNITS)  # the next head, or set the timer for it
            if done < TRIM_UNITS:
                return
        elif self.drops is not None and self.buries:
            self.pump(TRIM_UNITS)  # what it drops is not what later publishes drop
        self.touch()

    def _watch_published(self, message: Message) -> None:
        """A message with a deadline was published."""
        if message.deadline_us <= self.tick.now_us:
            # It is delivered at once or not at all.
            if len(self.consumers) > 0:
                self.pump(_AT_ONCE_UNITS)
            if self.drops is None or not self.drops.is_begun:
                self._expire(0, _AT_ONCE_UNITS)
        elif self.ready.count == 1:
            self._watch(message.deadline_us)
        elif self.settings.max_priority:
            self.touch()  # it may be the head

    # -- taking -------------------------------------------------------------------------------------

    def pump(self, budget: int) -> int:
        """Deliver to consumers in turn until ``budget`` units are used; returns the number of units used.

        A message costs one unit, a redelivered one ``REDELIVERY_UNITS``, one with BCC ``_BLIND_EXTRA`` more.
        ``PARKED_PER_UNIT`` consumers that are not ready cost one. Reading and writing contents on disk costs
        what the node's account counts as ``work``. If the result is ``budget`` or more, there may be more to
        do.
        """
        done = 0
        parked = 0
        account = self.budget
        ready = self.ready
        dispatch = self.dispatch
        now_us = self.tick.now_us
        if dispatch.is_blocked and dispatch.turn is not None:
            dispatch.unblock(now_us)
        account.work = 0  # what was done before is not the consumers'
        drops = self.drops
        if drops is not None and drops.count > 0 and (drops.is_whole or not self.limits.is_exceeded(ready)):
            done = drops.bury_all(self, done, budget)
        if self.trims_first:
            done = self._trim_returned(budget)
            if self.trims_first:
                return done  # until all are back, and until there is room for dead letters
        while done < budget and ready.count > 0:
            consumer = dispatch.turn
            if consumer is None:
                dispatch.block(now_us)
                break
            if not consumer.ready():
                dispatch.park(consumer)
                parked += 1
                if parked == _PARKED_PER_UNIT:
                    parked = 0
                    done += 1
                continue
            message = ready.pop()
            if message is None:
                self._heed_trouble()
                break
            done += 1
            if message.deadline_us != 0 and message.deadline_us < now_us:
                self._die_among(message, EXPIRED)
                continue
            dispatch.turn = consumer.following
            if message.flags & (flags.REDELIVERED | flags.BLIND):
                if message.flags & flags.BLIND:
                    done += _BLIND_EXTRA
                if message.flags & flags.REDELIVERED:
                    self.redeliver_total += 1
                    done += _REDELIVERY_EXTRA
            if consumer.no_ack:
                self.deliver_no_ack_total += 1
                consumer.deliver(message)
                self._gone(message, flags.ACK)
            else:
                self.deliver_total += 1
                self.unacked_count += 1
                self.unacked_bytes += message.body_size
                consumer.deliver(message)
                if message.flags & flags.LOGGED:
                    message.content = None
                elif account.used >= account.limit:
                    self.contents.put_aside(message)
            if account.work > 0:
                done += account.take_work()
        if done < budget:
            self.pumped_at = self.publish_total
            if self.expiry.is_timed and (drops is None or not self.limits.is_exceeded(ready)):
                if drops is not None and drops.count > 0:  # they were over when a consumer had its turn
                    done = drops.bury_all(self, done, budget)
                done = self._expire(done, budget)
            if self.limits.is_exceeded(ready) or (drops is not None and drops.count > 0):
                done = self._trim(done, budget, 0)
                if self.limits.is_exceeded(ready) and not ready.is_returning():
                    # They are too many for one turn; while messages return none has left.
                    self._trim_returned(0)
                if self.expiry.is_timed and not self.trims_first:
                    done = self._expire(done, budget)  # the next head
            if self.expiry.expires_us > 0 and len(self.consumers) == 0:
                self._expire_itself()
        elif self.expiry.is_timed:
            head = ready.peek(False)
            if head is not None:
                self.expiry.head_us = head.deadline_us  # what is published before the next turn looks at it
        return done

    # -- more of taking -------------------------------------------------------------------------------

    def deliver_due(self, budget: int) -> int:
        # Only a queue on the agenda has anything due. It stays on the agenda, which costs next to nothing.
        return self.pump(budget) if self.dirty else 0

    def take_turn(self, budget: int) -> int:
        self.dirty = False
        done = self.pump(budget)
        if done >= budget:
            self.dirty = True
        return done

    def has_new(self) -> bool:
        if self._is_head_over():
            return True
        return self.dirty and (self.publish_total != self.pumped_at or self.ready.swept_us != 0)

    def begin_return(self) -> None:
        """Messages come back in slices from now on; ``end_return`` must follow. See ``ReadyOrder``."""
        self.ready.begin_return(self.unacked_count)
        # As in RabbitMQ, the consumers of a quorum queue get what came back before its length is looked at.
        if self.limits.is_set and not (self.counts_returns and len(self.consumers) > 0):
            self._trim_returned(0)

    def end_return(self) -> None:
        """All of them are back."""
        if not self.ready.end_return():
            return
        if self.trims_first:
            self._trim_returned(TRIM_UNITS)
        is_due = len(self.consumers) > 0 or self.expiry.is_timed or self.limits.is_exceeded(self.ready)
        if is_due or (self.drops is not None and self.drops.count > 0):
            self.touch()

    def is_returning(self) -> bool:
        return self.ready.is_returning()

    def put_aside(self, message: Message) -> None:
        """Move the content of a delivered transient message to disk if memory is short."""
        self.contents.put_aside(message)

    def consume(self, consumer: Consumer, asker: Asker) -> None:
        try:
            self.add_consumer(consumer)
        except AMQPError as error:
            asker.refused(error)
        else:
            asker.started()

    def get(self, no_ack: bool, asker: Asker) -> None:
        if self.counts_returns and self.dispatch.is_single:
            asker.refused(no_get_from_single_active(self.name, self.vhost.name))
            return
        message = self.take(no_ack) if self.state != states.FAILED else None
        if message is None and self.state == states.FAILED:  # perhaps because it could not be read
            asker.refused(self.failure())
        else:
            asker.got(message, self.ready.count)

    def count(self, asker: Asker) -> None:
        asker.counted(self.ready.count, len(self.consumers) + max(self.held_count, 0))

    def take(self, no_ack: bool) -> Message | None:
        """Take one message; None when nothing is ready."""
        if self.expiry.expires_us:
            self.note_use()
        message = self.ready.pop()
        while message is not None and message.deadline_us != 0 and message.deadline_us <= self.tick.now_us:
            self._die(message, flags.EXPIRE)
            message = None if self.buries and self._must_wait() else self.ready.pop()
        if self.expiry.is_timed:
            if self.drops is None or not self.drops.is_begun:
                self._expire(0, _AT_ONCE_UNITS)  # the answer counts those that are left, as in RabbitMQ
            self.touch()
        if message is None:
            self._heed_trouble()
            self.get_empty_total += 1
            return None
        if message.flags & flags.REDELIVERED:
            self.redeliver_total += 1
        if no_ack:
            self.get_no_ack_total += 1
            self._gone(message, flags.ACK)
        else:
            self.get_total += 1
            self.unacked_count += 1
            self.unacked_bytes += message.body_size
        return message

    # -- settling -----------------------------------------------------------------------------------

    def settle(self, message: Message, kind: int) -> None:
        """Settle a delivered message; ``kind`` as in a SETTLES record."""
        self.unacked_count -= 1
        self.unacked_bytes -= message.body_size
        if not self.dirty and len(self.consumers) > 0:
            self.touch()
        if kind == flags.ACK:
            self.ack_total += 1
        elif self.buries and not self.deleted:
            self._bury(message, REJECTED)
            return
        self._gone(message, kind)

    def return_unsent(self, message: Message) -> None:
        """See ``QueueHandle``. The log and the counter of returns know nothing of it."""
        self.unacked_count -= 1
        self.unacked_bytes -= message.body_size
        self.ready.return_left -= 1
        if self.deleted:
            if not message.flags & flags.LOGGED:
                self.contents.release(message)
            return
        self.ready.put_unsent(message)
        self._came_back(message)

    def requeue(self, message: Message) -> None:
        """Return a delivered message to its place and mark it as redelivered."""
        self.unacked_count -= 1
        self.unacked_bytes -= message.body_size
        self.ready.return_left -= 1
        if self.deleted:
            if not message.flags & flags.LOGGED:
                self.contents.release(message)
            return
        message.flags |= flags.REDELIVERED
        if message.delivery_count < _COUNT_MAX:
            message.delivery_count += 1
            if message.delivery_count > self.delivery_limit:
                self._die_among(message, DELIVERY_LIMIT)
                return
        if message.flags & flags.LOGGED:
            # The log records it, so that the mark survives a clean stop.
            log = self.log
            assert log is not None
            log.settle(message.offset, message.gap, flags.RETURN)
        self.ready.put_back(message)
        self._came_back(message)

    def _came_back(self, message: Message) -> None:
        if message.deadline_us != 0:
            self.expiry.is_timed = True
        is_too_long = self.limits.is_set and self.limits.is_exceeded(self.ready)
        if is_too_long and not (self.counts_returns and len(self.consumers) > 0):
            self._trim_returned(TRIM_UNITS)
        if message.deadline_us != 0 or self.limits.is_set or len(self.consumers) > 0:
            self.touch()

    # -- the whole queue ----------------------------------------------------------------------------

    def delete(self, rev: int) -> int:
        """Delete the queue now; its log is removed once revision ``rev`` is committed.

        Consumers are cancelled. Publishers that still wait go on waiting for the log or for ``rev``: before
        one of them is on disk, a crash would bring the queue back without their messages. Returns how many
        messages were ready.
        """
        count = self.message_count()
        self.deleted = True
        if self.services.timers is not None:
            self.expiry.stop(self.services.timers)
        self._cancel_consumers()
        self._drop_ready(settle=False)
        self.count_remembered()
        self.services.deleted(self, rev)
        return count
