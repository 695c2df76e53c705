"""A queue as those know it who publish to it, and as its virtual host knows it.

The other half of its port, for consumers, is ``handle.QueueHandle``.

*Unavailable.* A queue may be on this node and not be able to do its work (``state``): it refuses messages for
now, or has failed for good. Nobody waits for such a queue. ``publish`` answers False,
``await_durable`` and the runs that wait are answered as failed, consumers hear of their end, and every method
that needs the messages raises PreconditionFailed, each at once.

Compiled: see ``destination.pxd``.
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.message import Message
from persistence.log.queue.queue_log import QueueLog
from vhosts.declared import Declared
from vhosts.publishing.ports import Run
from vhosts.queues import state as states
from vhosts.queues.timers import QueueTimers


class Host:
    """The virtual host of a queue, as the queue knows it."""

    __slots__ = ("dead_letters", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        #: Publishes what its queues give up: a ``vhosts.dead_letters.DeadLetters``, which knows this module.
        self.dead_letters: Any = None

    def queue_expired(self, queue: Destination) -> None:
        """Nobody has used the queue for as long as it may be unused: remove it."""
        raise AssertionError("a queue must be able to go")


class Destination(Declared):
    """What takes messages. A subclass overrides the methods."""

    __slots__ = ("exclusive_owner", "incarnation", "log", "logs_all", "reason", "state", "vhost")

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
        #: WORKING, REFUSING or FAILED (``vhosts.queues.state``), and why it does not work, or "".
        self.state = states.WORKING
        self.reason = ""

    # -- whether it can be used -------------------------------------------------------------------------

    def takes_messages(self) -> bool:
        """Whether the queue's log can take messages for now."""
        return self.state == states.WORKING

    def check_available(self) -> None:
        """Raise PreconditionFailed (406) if the queue cannot be used because it has failed."""
        if self.state == states.FAILED:
            raise PreconditionFailed(
                f"queue '{self.name}' in vhost '{self.vhost.name}' cannot be used: {self.reason}"
            )

    # -- publishing -------------------------------------------------------------------------------------

    def publish(self, message: Message) -> bool:
        """Take ``message``; False if the queue is full or its log fails, and the publisher must be told."""
        raise AssertionError("a queue must say how it takes a message")

    def await_durable(self, run: Run) -> None:
        """Call ``run.settled`` once everything published so far is durable."""
        raise AssertionError("a queue must say when it is durable")

    # -- its definition ---------------------------------------------------------------------------------

    def definition_stored(self) -> None:
        """The queue's definition is committed."""

    def definition_failed(self, error: Exception) -> None:
        """The queue's definition cannot be stored for now: nack the publishers that wait for it."""

    def removal_stored(self) -> None:
        """No start will bring the queue back."""

    def note_use(self) -> None:
        """Somebody declared the queue again: it is not unused, see RabbitMQ, "Queue TTL"."""

    def timers_of_node(self) -> QueueTimers | None:
        """The timers of the node's queues; None if no time passes."""
        return None

    # -- the whole queue --------------------------------------------------------------------------------

    def message_count(self) -> int:
        """Messages ready for delivery."""
        raise AssertionError("a queue must count its messages")

    def is_empty(self) -> bool:
        """Whether no message is ready; unacknowledged ones do not count."""
        return self.message_count() == 0

    def purge(self) -> int:
        """Drop every ready message; returns their number. Unacknowledged messages stay.

        Raises:
            PreconditionFailed: the log takes nothing, so the messages would come back after a restart (406).
        """
        raise AssertionError("a queue must drop its messages")

    def delete(self, rev: int) -> int:
        """Delete the queue; its files are removed once revision ``rev`` of the definitions is committed.

        Consumers are cancelled; if they are very many, in slices. Returns how many messages were ready.
        """
        raise AssertionError("a queue must end")

    def has_told_consumers(self) -> bool:
        """Whether all consumers have heard that the queue is gone."""
        return True
