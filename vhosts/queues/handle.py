"""The interface between a channel and a queue.

A channel publishes, settles, requeues and asks through this class and never touches the inside of a queue. It
is answered through ``Consumer.deliver`` and ``Run``. ``Queue`` is the implementation for a local queue.
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.message import Message
from persistence.log.queue.queue_log import QueueLog
from vhosts.policies import Definition, Effective
from vhosts.publishing.ports import Run


class QueueHandle:
    """A queue as channels, exchanges and the node see it."""

    __slots__ = (
        "arguments",
        "auto_delete",
        "consumers",
        "definition_rev",
        "deleted",
        "durable",
        "exclusive_owner",
        "incarnation",
        "internal",
        "log",
        "logs_all",
        "name",
        "policy",
        "unacked_count",
        "vhost",
    )

    def __init__(self) -> None:
        self.name = ""
        self.vhost: Any = None
        self.durable = False
        #: The connection that alone may use the queue, or None.
        self.exclusive_owner: object = None
        self.auto_delete = False
        #: Typed AMQP table as declared.
        self.arguments: Arguments = {}
        #: Id of this incarnation. A queue that is deleted and declared again has another one.
        self.incarnation = ""
        #: Only the broker uses it, for an exchange; clients see it and may not touch it.
        self.internal = False
        self.deleted = False
        #: Revision of the definition this queue waits for; 0 once it is stored.
        self.definition_rev = 0
        self.log: QueueLog | None = None
        #: Whether the log gets every message, whatever its delivery mode: a quorum queue.
        self.logs_all = False
        #: What applies of the policies.
        self.policy: Effective | None = None
        #: Consumers in the order of their registration.
        self.consumers: dict[Any, None] = {}
        self.unacked_count = 0

    def publish(self, message: Message) -> bool:
        """Take ``message``; False if the queue is full or its log fails, and the publisher must be told."""
        raise AssertionError("a queue must say how it takes a message")

    def obey(self, definition: Definition) -> None:
        """Obey the ``definition`` of the policies that apply, besides the arguments."""

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

    def is_returning(self) -> bool:
        """Whether messages come back in slices (``Queue.begin_return``) and newer ones wait for them."""
        return False

    def settle(self, message: Message, kind: int) -> None:
        """Settle a delivered message: it was acknowledged, or rejected without requeue."""
        raise AssertionError("a queue must take acknowledgements")

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
