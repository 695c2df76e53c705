"""A queue of this node, as its own parts and the node know it (``queue.Queue`` is the implementation)."""

from __future__ import annotations

from typing import Protocol

from amqp_router.protocol.message import Message
from amqp_router.protocol.tick import Tick
from persistence.log.queue.queue_log import QueueLog
from vhosts.queues.destination import Host
from vhosts.queues.settings import QueueSettings
from vhosts.queues.timers import QueueTimers


class NamedQueue(Protocol):
    """What the node needs to say what became of a queue."""

    name: str
    vhost: Host
    #: Whether it works (``vhosts.queues.state``), and why it does not, or "".
    state: int
    reason: str

    def unstall(self) -> None:
        """Try again to read waiting messages."""


class LocalQueue(NamedQueue, Protocol):
    """What timers, dead letters and the node's services call."""

    incarnation: str
    deleted: bool
    log: QueueLog | None
    tick: Tick
    settings: QueueSettings

    def timers_of_node(self) -> QueueTimers | None:
        """The timers of the node's queues; None if no time passes."""

    def touch(self) -> None:
        """Put the queue on the agenda."""

    def timer_due(self, now_us: int) -> None:
        """Its timer has gone off."""

    def removal_stored(self) -> None:
        """No start will bring the queue back."""

    def recall(self, message: Message) -> bool:
        """See that ``message``, which was delivered, has its content; False if it cannot be read."""

    def expire(self) -> None:
        """Let the virtual host remove the queue, which nobody uses."""

    def takes_messages(self) -> bool:
        """Whether the queue's log can take messages for now."""

    def buried(self, message: Message, reason: str, stays: bool) -> None:
        """A dead letter is settled, or (``stays``) is left to the next start."""
