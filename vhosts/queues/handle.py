"""The two sides of a queue's port: ``QueueHandle``, which others call, and ``Consumer``, which it calls.

A channel publishes, consumes, settles, requeues and asks through ``QueueHandle`` and never touches the inside
of a queue. It is answered through ``Consumer.deliver``, ``Consumer.cancelled`` and ``Run``. ``Queue`` is the
implementation for a local queue; only the composition root knows it.

A delivery is known to its channel by a tag, and to its queue by the offset of its message
(``amqp_router.channel.delivery`` maps one to the other).
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.message import Message
from amqp_router.protocol.output import Output
from persistence.log.queue.queue_log import QueueLog
from vhosts.declared import Declared
from vhosts.publishing.ports import Run
from vhosts.queues.timers import QueueTimers

#: Cost of a redelivery in units of ``deliver_due``, of which another delivery costs one. It is higher because
#: each one is found and read alone.
REDELIVERY_UNITS = 3
#: No timeout for acknowledgements is longer: some 300 years.
TIMEOUT_MS_MAX = 1 << 43
#: Credit of a consumer without a prefetch limit.
UNLIMITED = 1 << 40


class Credit:
    """Number of deliveries that a channel may still get; its consumers share it (``basic.qos`` global).

    Unsettled deliveries are counted also while there is no limit, so that a limit can be set without counting
    them.
    """

    __slots__ = ("available", "limit")

    def __init__(self) -> None:
        #: 0 is no limit.
        self.limit = 0
        #: Negative if the limit was lowered below the number of unsettled deliveries.
        self.available = UNLIMITED

    def change(self, limit: int) -> None:
        """Set another limit of unsettled deliveries; 0 lifts it."""
        self.available += (limit or UNLIMITED) - (self.limit or UNLIMITED)
        self.limit = limit

    def stop(self) -> None:
        """Stop all deliveries to the channel for good, whatever is settled later."""
        self.available -= 2 * UNLIMITED


class Consumer:
    """One ``basic.consume`` on one queue."""

    __slots__ = (
        "arguments",
        "credit",
        "exclusive",
        "following",
        "no_ack",
        "output",
        "parked",
        "previous",
        "priority",
        "queue",
        "shared",
        "tag",
        "timeout_ms",
        "unacked",
    )

    def __init__(self) -> None:
        self.tag = ""
        self.no_ack = False
        self.exclusive = False
        #: One of a higher priority gets messages first.
        self.priority = 0
        self.arguments: Arguments = {}
        self.queue: QueueHandle
        #: Deliveries that this consumer may still get by its own prefetch limit.
        self.credit = UNLIMITED
        #: Deliveries that the channel may still get.
        self.shared = Credit()
        #: Output for its deliveries; while it is full, nothing is delivered.
        self.output: Output
        #: Number of unsettled deliveries.
        self.unacked = 0
        #: How long one may be unsettled by the consumer's own arguments; 0 for ever.
        self.timeout_ms = 0
        #: Its neighbours in the queue's ring of consumers whose turn may come.
        self.following: Consumer | None = None
        self.previous: Consumer | None = None
        #: Whether the queue took it out of the ring because it was not ready when its turn came.
        self.parked = False

    def ready(self) -> bool:
        """Whether the consumer may get a message now."""
        # A consumer without acknowledgements uses up no credit, but waits for the channel's, as in RabbitMQ.
        if self.output.full or self.shared.available <= 0:
            return False
        return self.no_ack or self.credit > 0

    def wake(self) -> None:
        """Tell the queue that the consumer may be ready again. Call this whenever an obstacle has gone."""
        self.queue.wake(self)

    def timeout_set(self) -> None:
        """The queue has a timeout for acknowledgements from now on."""

    def deliver(self, message: Message) -> None:
        """Take one message and use up credit for it."""
        raise AssertionError("a consumer must say how it delivers")

    def cancelled(self) -> None:
        """The queue is deleted or failed, and has removed the consumer."""
        raise AssertionError("a consumer must hear of its end")


class Host:
    """The virtual host of a queue, as the queue knows it."""

    __slots__ = ("dead_letters", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        #: Publishes what its queues give up: a ``vhosts.dead_letters.DeadLetters``, which knows this module.
        self.dead_letters: Any = None

    def queue_expired(self, queue: QueueHandle) -> None:
        """Nobody has used the queue for as long as it may be unused: remove it."""
        raise AssertionError("a queue must be able to go")


class QueueHandle(Declared):
    """A queue as channels, exchanges and the node see it."""

    __slots__ = (
        "ack_timeout_ms",
        "consumers",
        "exclusive_owner",
        "incarnation",
        "log",
        "logs_all",
        "unacked_count",
        "vhost",
    )

    def __init__(self) -> None:
        super().__init__()
        self.vhost: Host
        #: The connection that alone may use the queue, or None.
        self.exclusive_owner: object = None
        #: Id of this incarnation. A queue that is deleted and declared again has another one.
        self.incarnation = ""
        self.log: QueueLog | None = None
        #: Whether the log gets every message, whatever its delivery mode: a quorum queue.
        self.logs_all = False
        #: Longest time that a delivery may be unacknowledged; 0 for none.
        self.ack_timeout_ms = 0
        #: Consumers in the order of their registration.
        self.consumers: dict[Consumer, None] = {}
        self.unacked_count = 0

    def publish(self, message: Message) -> bool:
        """Take ``message``; False if the queue is full or its log fails, and the publisher must be told."""
        raise AssertionError("a queue must say how it takes a message")

    def timers_of_node(self) -> QueueTimers | None:
        """The timers of the node's queues; None if no time passes."""
        return None

    def check_available(self) -> None:
        """Raise PreconditionFailed if the queue cannot be used because its log has failed."""

    def await_durable(self, run: Run) -> None:
        """Call ``run.settled`` once everything published so far is durable."""
        raise AssertionError("a queue must say when it is durable")

    def deliver_due(self, budget: int) -> int:
        """Deliver now what would be delivered at the end of this turn, up to ``budget`` units.

        Returns how many units were used; less than ``budget`` means that nothing more is due.
        """
        return 0

    def takes_messages(self) -> bool:
        """Whether the queue's log can take messages for now."""
        return True

    def has_due(self) -> bool:
        """Whether there is something to do before anybody may look into the queue."""
        return False

    def note_use(self) -> None:
        """Somebody declared the queue again: it is not unused, see RabbitMQ, "Queue TTL"."""

    def has_new(self) -> bool:
        """Whether messages were published that its consumers have not been offered yet."""
        return False

    def touch(self) -> None:
        """See at the end of this turn what can be delivered."""
        raise AssertionError("a queue must have a turn")

    def add_consumer(self, consumer: Consumer) -> None:
        """Start delivering to ``consumer``, as far as its credit goes.

        Raises:
            AccessRefused: it is exclusive and another consumer exists, or the existing one is exclusive
                (403).
            PreconditionFailed: the log has failed (406).
        """
        raise AssertionError("a queue must take consumers")

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Remove ``consumer``; True if it was the last one."""
        raise AssertionError("a queue must let consumers go")

    def wake(self, consumer: Consumer) -> None:
        """``consumer`` may be ready again: it has credit, or room in its output."""
        raise AssertionError("a queue must take consumers")

    def get(self, no_ack: bool) -> Message | None:
        """Take one message for ``basic.get``; None when nothing is ready."""
        raise AssertionError("a queue must give its messages")

    def settle(self, message: Message, kind: int) -> None:
        """Settle a delivered message: it was acknowledged, or rejected without requeue."""
        raise AssertionError("a queue must take acknowledgements")

    def requeue(self, message: Message) -> None:
        """Return a delivered message to its place and mark it as redelivered."""
        raise AssertionError("a queue must take its messages back")

    def begin_return(self) -> None:
        """Messages come back in slices from now on; ``end_return`` must follow."""
        raise AssertionError("a queue must take its messages back")

    def end_return(self) -> None:
        """All of them are back."""
        raise AssertionError("a queue must take its messages back")

    def is_returning(self) -> bool:
        """Whether messages come back in slices (``begin_return``) and newer ones wait for them."""
        return False

    def put_aside(self, message: Message) -> None:
        """Move the content of a delivered transient message to disk if memory is short."""

    def recall(self, message: Message) -> bool:
        """See that ``message``, which was delivered, has its content; False if it cannot be read."""
        raise AssertionError("a queue must give its messages")

    def definition_stored(self) -> None:
        """The queue's definition is committed."""

    def definition_failed(self, error: Exception) -> None:
        """The queue's definition cannot be stored for now: nack the publishers that wait for it."""

    def removal_stored(self) -> None:
        """No start will bring the queue back."""

    def message_count(self) -> int:
        """Messages ready for delivery."""
        raise AssertionError("a queue must count its messages")

    def consumer_count(self) -> int:
        """Number of consumers."""
        return len(self.consumers)

    def is_unused(self) -> bool:
        """Whether the queue has no consumer."""
        return not self.consumers

    def is_empty(self) -> bool:
        """Whether no message is ready; unacknowledged ones do not count."""
        return self.message_count() == 0

    def purge(self) -> int:
        """Drop every ready message; returns their number."""
        raise AssertionError("a queue must drop its messages")

    def delete(self, rev: int) -> int:
        """Delete the queue; its files are removed once revision ``rev`` of the definitions is committed.

        Consumers are cancelled; if they are very many, in slices. Returns how many messages were ready.
        """
        raise AssertionError("a queue must end")

    def has_told_consumers(self) -> bool:
        """Whether all consumers have heard that the queue is gone."""
        return True
