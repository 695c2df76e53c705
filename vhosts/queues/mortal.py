"""How messages leave a queue without a delivery, and how a queue ends that nobody uses.

Messages expire, or are too many, or are rejected; they become dead letters if the queue has an exchange for
them. ``queue.Queue`` is the whole; this is the middle one of its three layers.
"""

from __future__ import annotations

from functools import partial

from amqp_router.protocol import flags
from amqp_router.protocol.errors import AMQPError, PreconditionFailed
from amqp_router.protocol.message import Message
from persistence.errors import PersistenceError
from vhosts.policies import Definition
from vhosts.queues import state as states
from vhosts.queues.contents import OVERHEAD
from vhosts.queues.death import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from vhosts.queues.destination import Asker
from vhosts.queues.drops import Drops
from vhosts.queues.expiry import Expiry
from vhosts.queues.handle import TIMEOUT_MS_MAX, Consumer
from vhosts.queues.limits import Limits
from vhosts.queues.services import QueueServices
from vhosts.queues.settings import NO_SETTINGS, QueueSettings, effective_settings
from vhosts.queues.standing import StandingQueue

#: Cost of a message that expires or is dropped, which is often read for that, in deliveries.
DEATH_UNITS = 2
#: Consumers told of a timeout in one turn of the event loop.
TELL_SLICE = 1000
#: Reasons of dead letters as a SETTLES record has them.
_BY = {
    REJECTED: flags.BY_REJECT,
    EXPIRED: flags.BY_EXPIRY,
    MAXLEN: flags.BY_LENGTH,
    DELIVERY_LIMIT: flags.BY_RETURNS,
}
#: No message counts so many returns.
NO_LIMIT = 0xFFFF

# C integers where compiled (see mortal.pxd).
_DEATH_UNITS = DEATH_UNITS


class MortalQueue(StandingQueue):
    """A queue that obeys its settings."""

    __slots__ = (
        "buries",
        "delivery_limit",
        "dropped_total",
        "drops",
        "expired_total",
        "expiry",
        "is_delayed",
        "letter_exchange",
        "letter_key",
        "limits",
        "pumped_at",
        "rejected_total",
        "settings",
        "trims_first",
        "trims_from",
    )

    def __init__(self, services: QueueServices) -> None:
        super().__init__(services)
        self.settings = NO_SETTINGS
        self.expiry = Expiry()
        self.limits = Limits()
        #: ``publish_total`` when consumers were last offered all there was.
        self.pumped_at = 0
        #: Too many may have come back: then some must leave before a consumer gets any. And ``publish_total``
        #: of those that count: what comes after them, or was due to a consumer, makes none of them leave.
        self.trims_first = False
        self.trims_from = 0
        #: Whether the queue has a dead letter exchange; its name, and the key if letters get another one. And
        #: whether its letters are messages that are due, to which nothing has happened.
        self.buries = False
        self.letter_exchange = ""
        self.letter_key: str | None = None
        self.is_delayed = False
        #: What was dropped and is not buried yet, in a quorum queue that buries.
        self.drops: Drops | None = None
        #: How often a message may come back; ``NO_LIMIT`` for as often as it likes.
        self.delivery_limit = NO_LIMIT
        #: Messages that expired, that left because the queue was too long, and that were refused.
        self.expired_total = 0
        self.dropped_total = 0
        self.rejected_total = 0

    def apply_settings(self, settings: QueueSettings) -> None:
        """Obey ``settings``, which may have changed, from now on."""
        self.settings = settings
        self.expiry.apply(settings)
        self.limits.apply(settings)
        self.buries = settings.dead_letter_exchange is not None
        if self.buries and self.counts_returns and self.drops is None:
            self.drops = Drops(self.budget)
        self.letter_exchange = settings.dead_letter_exchange or ""
        self.letter_key = settings.dead_letter_routing_key
        self.is_delayed = settings.is_delayed
        limit = settings.delivery_limit
        self.delivery_limit = NO_LIMIT if limit is None else min(limit, NO_LIMIT)
        if self.limits.is_set:
            if settings.max_length_bytes is not None and not self.ready.count_bytes():
                self.services.in_slices(self.ready.count_bytes)
            self.touch()
        self.ack_timeout_ms = min(settings.consumer_timeout_ms or 0, TIMEOUT_MS_MAX)
        if self.ack_timeout_ms and len(self.consumers) > 0:
            self.services.in_slices(partial(_tell_timeout, list(self.consumers)))
        if self.ack_timeout_ms and self.unacked_count > 0:
            self.services.timeout_set()
        self.note_use()

    def obey(self, definition: Definition) -> None:
        """Obey the ``definition`` of the policies that apply, besides the arguments."""
        self.apply_settings(effective_settings(self.arguments, definition))

    def _expire(self, done: int, budget: int) -> int:
        """Let messages at the head die whose time is over, until ``budget`` units are used; returns the units
        used.

        If more are left, they leave later as they would have left now: what comes meanwhile with a higher
        priority is not before them.
        """
        ready = self.ready
        now_us = self.tick.now_us
        is_eager = False
        while done < budget and not (self.buries and self._must_wait()):
            if ready.swept_us != 0:
                if ready.is_returning():
                    return done
                head = ready.peek_swept()
                if head is not None and 0 < head.deadline_us <= ready.swept_us:
                    message = ready.pop_swept()
                    if message is not None:
                        self._die(message, flags.EXPIRE)
                        done += _DEATH_UNITS
                        continue
                ready.swept_us = 0  # all are gone, or cannot be read
            head = ready.peek(is_eager)
            if head is None:
                self._heed_trouble()
                self.expiry.is_timed = ready.count > 0
                self._watch(0)
                return done
            if head.deadline_us == 0 or head.deadline_us > now_us:
                self._watch(head.deadline_us)
                return done
            message = ready.pop()
            if message is None:
                self._heed_trouble()
                return done
            self._die(message, flags.EXPIRE)
            is_eager = True
            done += _DEATH_UNITS
        ready.begin_sweep(now_us)
        return done

    def _trim(self, done: int, budget: int, newest: int) -> int:
        """Drop the oldest messages while there are too many, until ``budget`` units are used; returns the
        units used. The ``newest`` do not count. What is over behind others leaves with them, as in RabbitMQ.
        A quorum queue gathers what becomes dead letters: the newest of them is buried first (``Drops``).

        While messages return, older ones may follow: all are in their places before one is dropped.
        """
        ready = self.ready
        limits = self.limits
        if ready.is_returning():
            return done
        drops = self.drops
        if drops is not None and drops.is_whole:
            done = drops.bury(self, done, budget)
            if drops.is_whole:
                return done
        if drops is not None and not self.buries and drops.count == 0:
            drops = None
        if ready.swept_us != 0 and (drops is None or not drops.is_begun):
            done = self._expire(done, budget)
            if ready.swept_us != 0:
                return done
        if drops is not None and not drops.is_begun and done < budget:
            # It looks at the time before its length, and once, however many turns it takes.
            if self.expiry.is_timed:
                while done < budget:
                    head = ready.peek(True)
                    if head is None or head.deadline_us == 0 or head.deadline_us > self.tick.now_us:
                        break
                    message = ready.pop()
                    if message is None:
                        break
                    self._die_among(message, EXPIRED)
                    done += _DEATH_UNITS
                else:
                    return done
            drops.is_begun = True
        while done < budget and ready.count > 0 and limits.is_exceeded_without(ready, newest):
            if drops is None and self.buries and self._must_wait():
                break
            message = ready.pop()
            if message is None:
                self._heed_trouble()
                break
            done += _DEATH_UNITS
            if drops is None:
                self._die(message, flags.DROP)
                continue
            self.dropped_total += 1
            if not drops.add(message):
                break
        else:
            if done >= budget and limits.is_exceeded_without(ready, newest):
                return done  # the rest in another turn
        if drops is not None:
            done = drops.bury_all(self, done, budget)
        return done

    def _trim_returned(self, budget: int) -> int:
        """Too many came back, or may: let the oldest go before a consumer gets any of them, as in RabbitMQ;
        returns the units used.

        What is left after ``budget`` units, or while others are still to come back, is left to the agenda.
        """
        if not self.trims_first:
            self.trims_from = self.pumped_at if len(self.consumers) > 0 else self.publish_total
        newest = self.publish_total - self.trims_from
        done = self._trim(0, budget, newest)
        self.trims_first = self.ready.is_returning() or self.limits.is_exceeded_without(self.ready, newest)
        return done

    def _die(self, message: Message, kind: int) -> None:
        """A message that was ready is gone without a delivery; ``kind`` as in a SETTLES record."""
        if kind == flags.EXPIRE:
            self.expired_total += 1
        else:
            self.dropped_total += 1
        if self.buries:
            self._bury(message, EXPIRED if kind == flags.EXPIRE else MAXLEN)
        else:
            self._gone(message, kind if kind == flags.EXPIRE else kind | flags.BY_LENGTH)

    def _die_among(self, message: Message, reason: str) -> None:
        """A message is over, or came back once more than it may. The letters of those that are dropped for it
        or with it come first.
        """
        is_over = reason == EXPIRED
        if is_over:
            self.expired_total += 1
        drops = self.drops
        if not self.buries:
            self._gone(message, flags.EXPIRE if is_over else flags.REJECT | flags.BY_RETURNS)
        elif (
            drops is not None
            and not drops.is_whole
            and self.limits.is_set
            and (is_over or self.ready.returning > 0)
        ):
            drops.add_later(message, reason)
        else:
            self._bury(message, reason)

    def _gone(self, message: Message, kind: int) -> None:
        if message.flags & flags.LOGGED:
            log = self.log
            if not self.deleted and log is not None:
                log.settle(message.offset, message.gap, kind)
        else:
            self.ready.transient_bytes -= message.body_size
            self.contents.release(message)

    def purge(self, asker: Asker) -> None:
        try:
            count = self.empty()
        except PreconditionFailed as error:
            asker.refused(error)
        else:
            asker.removed(count, 0)

    def remove(self, asker: Asker, if_unused: bool, if_empty: bool) -> None:
        try:
            count, rev = self.vhost.delete_queue(
                self.name, if_unused=if_unused, if_empty=if_empty, owner=self.exclusive_owner
            )
        except AMQPError as error:
            asker.refused(error)
        else:
            asker.removed(count, rev)

    def empty(self) -> int:
        """Drop every ready message; returns their number. Unacknowledged messages stay.

        Raises:
            PreconditionFailed: the log has failed, so the messages would come back after a restart.
        """
        self.check_available()
        count = self.message_count()
        if self.log is not None:
            if self.state != states.WORKING:
                raise PreconditionFailed(
                    f"queue '{self.name}' in vhost '{self.vhost.name}' cannot be purged: {self.reason}"
                )
            self.tick.wake()
        self._drop_ready(settle=True)
        return count

    def _drop_ready(self, *, settle: bool) -> None:
        if self.drops is not None and not settle:
            self.drops.forget()
        dropped = self.ready.drop_all(settle)
        if dropped is not None:
            self.services.settle_in_slices(dropped, self._dropped)

    def _dropped(self, message: Message) -> None:
        self._gone(message, flags.DROP)

    def _must_wait(self) -> bool:
        """Whether there is no room for dead letters now; the queue is touched when there is."""
        letters = self.vhost.dead_letters
        if letters.is_full():
            letters.wait(self)
            return True
        if self.drops is not None and self.drops.is_whole:
            self.touch()  # they come first
            return True
        return False

    def _bury(self, message: Message, reason: str) -> None:
        if not message.flags & flags.LOGGED:
            self.ready.transient_bytes -= message.body_size
        self.vhost.dead_letters.add(self, message, reason)

    def _bury_refused(self, message: Message) -> None:
        """Dead-letter a message that is not taken, of which nothing will be left here."""
        refused = message.copy()
        self.budget.used += refused.size() + OVERHEAD  # until it is buried
        self.vhost.dead_letters.add(self, refused, MAXLEN)

    def recall(self, message: Message) -> bool:
        """See that ``message``, which was delivered, has its content; False if it cannot be read."""
        try:
            self.contents.recall(message, self.log)
        except (OSError, PersistenceError):
            return False
        return True

    def buried(self, message: Message, reason: str, stays: bool) -> None:
        """The letter made for ``reason`` has reached its targets; ``stays``: it may be lost on its way.

        In that case it stays in the log, and the next start brings it back.
        """
        if not message.flags & flags.LOGGED:
            self.contents.release(message)
        elif not stays:
            self._gone(message, flags.DEAD_LETTER | (flags.BY_DUE_TIME if self.is_delayed else _BY[reason]))

    def _watch(self, head_us: int) -> None:
        """``head_us`` is the deadline of the head, 0 for none."""
        self.expiry.head_us = head_us
        timers = self.services.timers
        if timers is not None and not self.deleted:
            self.expiry.watch(self, timers, is_used=len(self.consumers) > 0)

    def timer_due(self, now_us: int) -> None:
        """The timer has gone off; what it is for is done with the agenda."""
        self.tick.now_us = max(self.tick.now_us, now_us)
        self.touch()

    def note_use(self) -> None:
        self.expiry.used_us = self.tick.now_us
        if self.expiry.expires_us:
            self._watch(self.expiry.head_us)

    def expire(self) -> None:
        """Let the virtual host remove the queue, which nobody uses."""
        self.vhost.queue_unused(self)

    def _expire_itself(self) -> None:
        if self.deleted:
            return
        if self.expiry.is_over(self.tick.now_us):
            self.services.expired(self)
        else:
            self._watch(self.expiry.head_us)

    def _is_head_over(self) -> bool:
        """Whether the head's time is over and nobody has looked since; the queue is on the agenda then."""
        expiry = self.expiry
        if expiry.head_us == 0 or expiry.head_us > self.tick.now_us or not expiry.is_timed:
            return False
        self.touch()
        return True

    def has_due(self) -> bool:
        self._is_head_over()
        return self.dirty or self.ready.is_returning()


def _tell_timeout(consumers: list[Consumer]) -> bool:
    """Tell some of the consumers that their queue has a timeout; True if all have heard of it."""
    for _ in range(min(len(consumers), TELL_SLICE)):
        consumers.pop().timeout_set()
    return not consumers
