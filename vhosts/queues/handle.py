"""The two sides of a queue's port: ``QueueHandle``, which others call, and ``Consumer``, which it calls.

A channel publishes, consumes, settles, requeues and asks through ``QueueHandle`` and never touches the inside
of a queue. It is answered through ``Asker``, ``Run``, ``Consumer.deliver`` and ``Consumer.cancelled``.
``Queue`` is the implementation for a local queue; only the composition root knows it. ``destination`` has the
half of the port that publishers and the virtual host use, and says what becomes of those who use a queue that
is unavailable.

A consumer says how much it can take: messages and octets, which ``QueueHandle.grant`` adds to. Each delivery
uses them up, and its settle may grant them anew.

A delivery is known to its channel by a tag, and to its queue by the offset of its message
(``amqp_router.channel.delivery`` maps one to the other).
"""

from __future__ import annotations

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.message import Message
from amqp_router.protocol.output import Output
from vhosts.queues.destination import Asker, Destination
from vhosts.queues.settings import NO_SETTINGS, QueueSettings

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
        "finished",
        "following",
        "holds",
        "no_ack",
        "octets",
        "output",
        "parked",
        "previous",
        "priority",
        "queue",
        "shared",
        "tag",
        "taken",
        "timeout_ms",
    )

    def __init__(self) -> None:
        self.tag = ""
        self.no_ack = False
        self.exclusive = False
        #: One of a higher priority gets messages first.
        self.priority = 0
        self.arguments: Arguments = {}
        self.queue: QueueHandle
        #: Messages that this consumer may still get by its own limit, and octets of their bodies: the last
        #: message may have more.
        self.credit = UNLIMITED
        self.octets = UNLIMITED
        #: Deliveries that the channel may still get.
        self.shared = Credit()
        #: Output for its deliveries; while it is full, nothing is delivered.
        self.output: Output
        #: Deliveries that need an acknowledgement, and those of them that are settled or came back.
        self.taken = 0
        self.finished = 0
        #: How long one may be unsettled by the consumer's own arguments; 0 for ever.
        self.timeout_ms = 0
        #: Its neighbours in the queue's ring of consumers whose turn may come.
        self.following: Consumer | None = None
        self.previous: Consumer | None = None
        #: Whether the queue took it out of the ring because it was not ready when its turn came.
        self.parked = False
        #: Whether it is no consumer of its quorum queue and counts as one, see ``QueueHandle.note_holder``.
        self.holds = False

    @property
    def unacked(self) -> int:
        """Number of unsettled deliveries."""
        return self.taken - self.finished

    def ready(self) -> bool:
        """Whether the consumer may get a message now: always False once its channel has closed."""
        # A consumer without acknowledgements uses up no credit, but waits for the channel's, as in RabbitMQ.
        if self.output.full or self.shared.available <= 0:
            return False
        return self.no_ack or (self.credit > 0 and self.octets > 0)

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


class QueueView:
    """What operators may know of a queue. Each method reads one thing, because lists may have 100,000
    queues.
    """

    __slots__ = ()

    def settings(self) -> QueueSettings:
        """What it obeys."""
        return NO_SETTINGS

    def in_memory(self) -> int:
        """Ready messages whose content is in memory."""
        return 0

    def memory_bytes(self) -> int:
        """What they are counted with in the node's account."""
        return 0

    def body_bytes(self) -> int | None:
        """Octets of the bodies of the ready messages; None if they were not all counted since a start."""
        return None

    def count_bytes(self) -> bool:
        """Count some of those that are not counted; True if none is left, or the log cannot be read."""
        return True

    def transient_bytes(self) -> int:
        """Octets of the bodies of all messages that are not in its log, ready or unacknowledged."""
        return 0

    def memory_bodies(self) -> int:
        """Octets of the bodies of the ready messages whose content is in memory."""
        return 0

    def put_aside(self) -> tuple[int, int]:
        """Ready transient messages that are in files because memory was short, and octets of their bodies."""
        return 0, 0

    def persistent_count(self) -> int:
        """Messages in its log, ready or unacknowledged."""
        return 0

    def capacity(self, now_us: int) -> float:
        """The part of the last seconds in which its consumers took what was ready; 0 without any."""
        return 0.0

    def can_deliver(self) -> bool:
        """Whether it may have a consumer that would take a message."""
        return False

    def holder_count(self) -> int:
        """Of a quorum queue: who counts as a consumer without being one, see ``note_holder``."""
        return 0

    def has_single_active(self) -> bool:
        """Whether only one of its consumers gets messages."""
        return False

    def active_consumer(self) -> Consumer | None:
        """That one."""
        return None

    def exclusive_consumer(self) -> Consumer | None:
        """The only consumer, if it is an exclusive one."""
        return None


class QueueHandle(Destination):
    """A queue as channels and other listeners know it, and as whoever looks at it does (``view``)."""

    __slots__ = (
        "ack_timeout_ms",
        "ack_total",
        "consumers",
        "deliver_no_ack_total",
        "deliver_total",
        "get_empty_total",
        "get_no_ack_total",
        "get_total",
        "held_count",
        "publish_total",
        "redeliver_total",
        "unacked_bytes",
        "unacked_count",
    )

    def __init__(self) -> None:
        super().__init__()
        #: Longest time that a delivery may be unacknowledged; 0 for none.
        self.ack_timeout_ms = 0
        #: Consumers in the order of their registration.
        self.consumers: dict[Consumer, None] = {}
        #: Of a quorum queue: how many consumers those count for that have its messages and are none; else -1.
        self.held_count = -1
        self.unacked_count = 0
        #: Octets of the bodies of those.
        self.unacked_bytes = 0
        self.publish_total = 0
        #: Deliveries with and without acknowledgement, to consumers and by ``get``.
        self.deliver_total = 0
        self.deliver_no_ack_total = 0
        self.get_total = 0
        self.get_no_ack_total = 0
        self.get_empty_total = 0
        self.redeliver_total = 0
        self.ack_total = 0

    def view(self) -> QueueView:
        """What operators may know of the queue, besides what is counted here."""
        return QueueView()

    # -- its turn ---------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Take part in the agenda of this turn of the event loop: see what can be delivered."""
        raise AssertionError("a queue must have a turn")

    def take_turn(self, budget: int) -> int:
        """Do what is due, up to ``budget`` units; the agenda calls it once for each ``touch``.

        Returns how many units were used. With ``budget`` or more the queue needs another turn, and counts as
        touched.
        """
        raise AssertionError("a queue must use its turn")

    def deliver_due(self, budget: int) -> int:
        """Deliver now what would be delivered at the end of this turn, up to ``budget`` units.

        Returns how many units were used; less than ``budget`` means that nothing more is due.
        """
        return 0

    def has_due(self) -> bool:
        """Whether there is something to do before anybody may look into the queue."""
        return False

    def has_new(self) -> bool:
        """Whether messages were published that its consumers have not been offered yet, or not all have left
        whose time was over.
        """
        return False

    # -- consumers --------------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, asker: Asker) -> None:
        """Tell ``asker`` that ``consumer`` has started, and deliver to it, as far as its credit goes.

        Nothing is delivered before that answer, and the consumer does not hear of its end before it.

        Refused with AccessRefused (403) if the consumer is exclusive and another one exists, or if the
        existing one is exclusive, and with PreconditionFailed (406) if the queue has failed.
        """
        raise AssertionError("a queue must take consumers")

    def cancel(self, consumer: Consumer, asker: Asker) -> None:
        """Let ``consumer`` go, and tell ``asker`` when nothing more comes to it.

        Messages that are on their way still come before the answer, if the consumer is ready for them; else
        they go back as they were. What it has not settled stays with whoever has it. A queue with the
        property auto-delete goes with its last consumer. A consumer that is gone already has ended.
        """
        raise AssertionError("a queue must let consumers go")

    def grant(self, consumer: Consumer, messages: int, octets: int) -> None:
        """Let ``consumer`` get so many more messages, and octets of their bodies; negative numbers take
        credit away.
        """
        raise AssertionError("a queue must know whom it may send what")

    def wake(self, consumer: Consumer) -> None:
        """``consumer`` may be ready again: its channel has credit, or its output room."""
        raise AssertionError("a queue must take consumers")

    def consumer_count(self) -> int:
        """Number of consumers, as far as this node knows; ``count`` asks for it."""
        return len(self.consumers)

    def is_unused(self) -> bool:
        """Whether the queue has no consumer."""
        return not self.consumers

    # -- messages ---------------------------------------------------------------------------------------

    def get(self, no_ack: bool, asker: Asker) -> None:
        """Take one message for ``basic.get`` and give it to ``asker``; None when nothing is ready.

        Refused with PreconditionFailed (406) if the queue has failed.
        """
        raise AssertionError("a queue must give its messages")

    def count(self, asker: Asker) -> None:
        """Tell ``asker`` how many messages are ready, and how many consumers there are."""
        raise AssertionError("a queue must count its messages")

    def note_holder(self, holder: Consumer) -> None:
        """``holder`` has unsettled messages and is no consumer: it was cancelled, or ``get`` gave it one.

        RabbitMQ counts each message of ``basic.get`` from a quorum queue as a consumer, and each cancelled
        consumer that has some.
        """
        if self.held_count >= 0:
            holder.holds = True
            self.held_count += 1

    def less_held(self, holder: Consumer, count: int) -> None:
        """``count`` messages of a ``holder`` are settled or came back; it has counted them as finished."""
        if not holder.tag:
            self.held_count -= count
        elif holder.taken == holder.finished:
            holder.holds = False
            self.held_count -= 1

    def settle(self, message: Message, kind: int) -> None:
        """Settle a delivered message: it was acknowledged, or rejected without requeue."""
        raise AssertionError("a queue must take acknowledgements")

    def settle_range(self, messages: list[Message], kind: int) -> None:
        """As ``settle``, for messages that were delivered one after the other."""
        for index in range(len(messages)):
            self.settle(messages[index], kind)

    def requeue(self, message: Message) -> None:
        """Return a delivered message to its place and mark it as redelivered."""
        raise AssertionError("a queue must take its messages back")

    def return_unsent(self, message: Message) -> None:
        """Return a message that was taken and that nobody has seen: to its place, and as it was before."""
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
