"""Time in a queue: when its messages expire, when it expires itself, and its one timer.

A message's deadline is fixed when it is published, by the queue's TTL and the message's own; it goes on while
the message is unacknowledged. Only the head of a queue expires: a message behind it waits until it is the
head, so one timer at the head's deadline is enough. A queue expires when it had no consumer and was neither
declared again nor asked by ``basic.get`` for a while.

Source: RabbitMQ, "Time-To-Live and Expiration"; the head and what counts as use as measured with 3.10.8.
"""

from __future__ import annotations

from amqp_router.protocol.frames import NO_EXPIRY
from amqp_router.protocol.message import Message
from vhosts.queues.local import LocalQueue
from vhosts.queues.settings import QueueSettings
from vhosts.queues.timers import QueueTimers, Timer

#: Instead of the head's deadline, after a start until the queue has looked at its head: long over.
NOT_LOOKED_AT = 1

# C integers where compiled (see expiry.pxd).
_NO_EXPIRY = NO_EXPIRY
_NOT_LOOKED_AT = NOT_LOOKED_AT


class Expiry:
    """The times of one queue, in µs of the wall clock."""

    __slots__ = ("expires_us", "head_us", "is_timed", "timer", "ttl_us", "used_us")

    def __init__(self) -> None:
        #: TTL of the messages; -1 for none.
        self.ttl_us = -1
        #: How long the queue may be unused; 0 for ever.
        self.expires_us = 0
        #: When it was used last.
        self.used_us = 0
        #: Whether one of the ready messages may have a deadline.
        self.is_timed = False
        #: The deadline of the head, as it was looked at last; 0 for none, or ``NOT_LOOKED_AT``.
        self.head_us = 0
        self.timer: Timer | None = None

    def apply(self, settings: QueueSettings) -> None:
        """Obey ``settings``. Messages that wait keep their deadlines."""
        ttl_ms, expires_ms = settings.message_ttl_ms, settings.expires_ms
        self.ttl_us = -1 if ttl_ms is None else ttl_ms * 1000
        self.expires_us = 0 if expires_ms is None else expires_ms * 1000

    def recovered(self, settings: QueueSettings) -> None:
        """The queue has messages of before a start; whether they have deadlines stands in the log.

        The head may be over. With priorities, what is published before the queue's first turn must not be
        before that one.
        """
        self.is_timed = True
        if settings.max_priority:
            self.head_us = _NOT_LOOKED_AT

    def stamp(self, message: Message, now_us: int) -> None:
        """Fix the deadline of a message that is published now, by its own time to live or the queue's."""
        self.is_timed = True
        left_us = self.ttl_us
        if message.expire_ms != _NO_EXPIRY and (left_us < 0 or message.expire_ms * 1000 < left_us):
            left_us = message.expire_ms * 1000
        message.deadline_us = now_us + left_us

    def is_over(self, now_us: int) -> bool:
        """Whether the queue, which has no consumer, was not used for too long."""
        return self.expires_us > 0 and now_us >= self.used_us + self.expires_us

    def watch(self, queue: LocalQueue, timers: QueueTimers, *, is_used: bool) -> None:
        """Set the queue's timer for what comes first; it may be set for earlier, but not for later."""
        due = self.head_us
        if self.expires_us and not is_used:
            over = self.used_us + self.expires_us
            due = min(due, over) if due else over
        timer = self.timer
        if timer is not None and timer.queue is not None:
            if due and timer.due_us <= due:
                return
            timers.cancel(timer)
        self.timer = timers.set(queue, due) if due else None

    def stop(self, timers: QueueTimers) -> None:
        """The queue is gone."""
        if self.timer is not None:
            timers.cancel(self.timer)
            self.timer = None
