"""What a queue is while it stands: its parts, its log, and why it takes no messages.

``queue.Queue`` is the whole; this is the lowest of its three layers, below ``mortal.MortalQueue``.
"""

from __future__ import annotations

from amqp_router.protocol.errors import AccessRefused
from amqp_router.protocol.tick import Tick
from persistence.errors import is_passing
from persistence.log.queue.mirroring import begin_mirroring, end_mirroring
from persistence.log.queue.queue_log import QueueLog
from persistence.memory import MemoryBudget
from vhosts.publishing.ports import Run
from vhosts.queues import state as states
from vhosts.queues.contents import Contents
from vhosts.queues.destination import Asker
from vhosts.queues.dispatch import Dispatch
from vhosts.queues.handle import Consumer, QueueHandle
from vhosts.queues.ready.order import ReadyOrder
from vhosts.queues.receipts import Receipts
from vhosts.queues.services import QueueServices
from vhosts.queues.timers import QueueTimers


class StandingQueue(QueueHandle):
    """A queue with its parts: ``ready``, ``dispatch``, ``receipts``, ``contents`` and ``services``."""

    __slots__ = (
        "budget",
        "contents",
        "dirty",
        "dispatch",
        "ready",
        "receipts",
        "remembered",
        "services",
        "stalled",
        "tick",
    )

    def __init__(self, services: QueueServices) -> None:
        super().__init__()
        self.services = services
        self.tick: Tick = services.tick
        self.contents: Contents = services.contents
        self.budget: MemoryBudget = services.contents.budget
        self.ready: ReadyOrder
        self.dispatch = Dispatch()
        self.receipts = Receipts()
        #: Whether the queue is on the agenda.
        self.dirty = False
        #: Whether waiting messages cannot be read for now.
        self.stalled = False
        #: What the account has for letters and producers that the log remembers, in bytes.
        self.remembered = 0

    def count_remembered(self) -> None:
        """Count what the log remembers of letters and producers in the node's account."""
        log = self.log
        size = 0 if log is None or self.deleted else log.taken.memory_bytes()
        self.budget.kept += size - self.remembered
        self.remembered = size

    def timers_of_node(self) -> QueueTimers | None:
        return self.services.timers

    def await_durable(self, run: Run) -> None:
        """Call ``run.settled`` once everything published so far is below the high watermark."""
        log = self.log
        if self.deleted and (log is None or log.deleted):
            return
        if self.state != states.WORKING:
            run.remaining += 1
            run.settled(True)
            return
        if log is None or (self.receipts.end <= log.high_watermark and not self.definition_rev):
            return  # as when a quorum queue beside it has a message that is transient here
        self.receipts.wait(run)
        self.tick.wake()

    def on_high_watermark(self, log: QueueLog) -> None:
        """Answer the publishers below the log's high watermark, which has risen.

        If other nodes have copies of the log, deliveries have waited for it, too.

        Nobody is answered before the queue's own definition is committed. After a crash the queue would not
        exist, and the confirmed message would be lost.
        """
        if log.copies.mirrored:
            self.touch()
        if self.definition_rev:
            return
        self.receipts.reached(log.high_watermark)

    def mirror(self, on: bool) -> None:
        """Other nodes have copies of the log from now on, or (not ``on``) none any more.

        While they have, the log gets every message that is published, also the transient ones; those that are
        in the queue already stay on this node.

        Raises:
            ValueError: the queue has no log, or its log follows another node's.
        """
        log = self.log
        if log is None:
            raise ValueError(f"queue '{self.name}' in vhost '{self.vhost.name}' has no log to be copied")
        if on:
            begin_mirroring(log)
        else:
            end_mirroring(log)
        self.logs_all = on or self.counts_returns
        self.vhost.forget_routes(self)  # they know whose publishers wait for transient messages
        if len(self.consumers) > 0:
            self.touch()

    def on_refused(self, log: QueueLog, offset: int) -> None:
        self.receipts.refuse_from(offset)

    def definition_stored(self) -> None:
        """The queue's definition is committed."""
        self.definition_rev = 0
        if self.state == states.REFUSING and (self.log is None or self.log.failed is None):
            self.on_log_resumed(self.log)
        if self.log is not None:
            self.on_high_watermark(self.log)

    def definition_failed(self, error: Exception) -> None:
        """The queue's definition cannot be stored for now: nack the publishers that wait for it."""
        self._refuse(f"its definition cannot be stored: {error}")

    def on_log_failed(self, log: QueueLog, error: Exception) -> None:
        """The log cannot be read or written: nack publishers, cancel consumers, and answer with the reason
        from now on.

        After a passing error (a full disk) the queue only takes no messages. Consumers and acknowledgements
        go on.
        """
        if log.passing:
            self._refuse(f"its log cannot be written for now: {error}")
        else:
            self._fail(f"its log failed: {error}")

    def on_log_resumed(self, log: QueueLog | None) -> None:
        """The log takes messages again."""
        if self.state != states.FAILED and not self.definition_rev:
            self.state = states.WORKING
            self.reason = ""
            self.services.resumed(self)
            if len(self.consumers) > 0:
                self.touch()

    def _refuse(self, reason: str) -> None:
        if self.state == states.WORKING:
            self.state = states.REFUSING
            self.reason = reason
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        self.services.failed(self)
        self.receipts.answer_all(failed=True)

    def _heed_trouble(self) -> None:
        """The ready order could not take or give a message: try again later after a passing error, otherwise
        fail the queue.
        """
        trouble = self.ready.trouble
        if trouble is None:
            return
        self.ready.trouble = None
        stalled = self.services.stalled
        if trouble.error is None or not is_passing(trouble.error) or stalled is None:
            self._fail(trouble.reason)
        elif not self.stalled:
            self.stalled = True
            stalled(self)

    def unstall(self) -> None:
        """Try again to read waiting messages."""
        self.stalled = False
        if not self.deleted and len(self.consumers) > 0:
            self.touch()

    def _fail(self, reason: str) -> None:
        if self.state == states.FAILED:
            return
        self.set_failed(reason)
        self._refuse_waiting()
        self._cancel_consumers()

    def set_failed(self, reason: str) -> None:
        """Its log cannot be used. ``_fail`` tells others, too."""
        self.state = states.FAILED
        self.reason = reason

    def touch(self) -> None:
        """Deliver to consumers at the end of this tick."""
        if not self.dirty:
            self.dirty = True
            self.tick.queues.append(self)
            self.tick.wake()

    def add_consumer(self, consumer: Consumer) -> None:
        """Start delivering to ``consumer``.

        Raises:
            AccessRefused: it is exclusive and another consumer exists, or the existing one is exclusive
                (403).
            PreconditionFailed: the log has failed.
        """
        self.check_available()
        is_refused = bool(self.consumers) and (consumer.exclusive or self.dispatch.exclusive)
        # As in RabbitMQ, a queue with a single active consumer has no exclusive ones.
        if is_refused or (consumer.exclusive and self.dispatch.is_single):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost.name}' in exclusive use")
        self.consumers[consumer] = None
        self.dispatch.add(consumer)
        self.ready.wanted = True
        self.touch()

    def cancel(self, consumer: Consumer, asker: Asker) -> None:
        if consumer in self.consumers:
            del self.consumers[consumer]
            self.dispatch.remove(consumer, self.consumers)
            if consumer.taken > consumer.finished:
                self.note_holder(consumer)
            if self.consumers:
                if self.dispatch.is_single:
                    self.touch()
            else:
                self.ready.wanted = False
                self.ready.rest()
                self.note_use()
                if self.auto_delete and not self.deleted:
                    self.vhost.queue_unused(self)
        asker.ended()

    def grant(self, consumer: Consumer, messages: int, octets: int) -> None:
        """Let ``consumer`` get so many more messages, and octets of their bodies."""
        consumer.credit += messages
        consumer.octets += octets
        if consumer.parked:
            self.wake(consumer)

    def wake(self, consumer: Consumer) -> None:
        """``consumer`` may be ready again; its turn comes after those of all others."""
        if self.deleted or self.state == states.FAILED:
            return  # it is cancelled, and may not have heard of it yet
        self.dispatch.unpark(consumer)
        self.touch()

    def message_count(self) -> int:
        """Messages ready for delivery."""
        return self.ready.count

    def _cancel_consumers(self) -> None:
        """Nobody gets anything from now on."""
        if self.consumers:
            leaving = self.consumers
            self.consumers = {}
            self.ready.wanted = False
            self.dispatch.cancel(leaving, self.services.in_slices)

    def has_told_consumers(self) -> bool:
        return not self.dispatch.leaving

    def removal_stored(self) -> None:
        """No start will bring the queue back: publishers that still wait are answered as settled."""
        self.receipts.answer_all(failed=False)
