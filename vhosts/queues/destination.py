"""A queue as those know it who publish to it, and as its virtual host knows it.

The other half of its port, for consumers, is ``handle.QueueHandle``.

*Questions.* What only the queue's leader can answer (a message for ``basic.get``, how many messages a purge
or the deletion removed, how many messages and consumers there are for ``queue.declare-ok``, whether a
consumer may start, and that nothing more comes to one that ends) is asked with an ``Asker``, which hears one
answer: within the call if the queue is on this node, later if it is not. An error is an answer like any
other. Whoever asks stops waiting by itself after a while
(``amqp_router.channel.asking``, ``admin_ui.asking``), with ``no_answer`` as the error.

*Snapshots.* ``message_count``, ``consumer_count`` and the like answer at once, with what this node knows.
They are for those who must not wait and to whom an older number does no harm: pages and metrics, which read
100,000 queues in one request, and estimates of work. The leader itself reads them to answer a question. No
reply to an AMQP client has its numbers from them.

*Unavailable.* A queue may be on this node and not be able to do its work (``state``): it refuses messages for
now, or has failed for good. Nobody waits for such a queue. ``publish`` answers False,
``await_durable`` and the runs that wait are answered as failed, consumers hear of their end, askers are
refused, and every other method that needs the messages raises PreconditionFailed, each at once.

Compiled: see ``destination.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol.errors import AMQPError, NotFound, PreconditionFailed
from amqp_router.protocol.message import Message
from persistence.log.queue.queue_log import QueueLog
from vhosts.declared import Declared
from vhosts.publishing.ports import Listener, Run
from vhosts.queues import state as states
from vhosts.queues.timers import QueueTimers


class Burials(Listener):
    """Publishes what the queues of a virtual host give up (``vhosts.dead_letters``, which knows this module).

    A subclass overrides its methods.
    """

    __slots__ = ()

    def is_full(self) -> bool:
        """Whether a queue must wait with further letters, see ``wait``."""
        raise AssertionError("somebody must know how many letters are on their way")

    def wait(self, queue: Destination) -> None:
        """Touch ``queue`` when there is room."""
        raise AssertionError("a queue that waits must hear when it may go on")

    def add(self, queue: Destination, message: Message, reason: str) -> None:
        """Send ``message``, which ``queue`` gives up for ``reason``."""
        raise AssertionError("a dead message must be sent")


class Host:
    """The virtual host of a queue, as the queue knows it."""

    __slots__ = ("dead_letters", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        #: Publishes what its queues give up; ``VirtualHost`` has one.
        self.dead_letters: Burials

    def forget_routes(self, queue: Destination | None = None) -> None:
        """What routes know of ``queue`` has changed."""
        raise AssertionError("routes must be found again")

    def queue_unused(self, queue: Destination) -> bool:
        """Remove ``queue``, which nobody uses any more: its last consumer has left and it is an auto-delete
        queue, or its time is over. False if that must wait.
        """
        raise AssertionError("a queue must be able to go")

    def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False, owner: object = None
    ) -> tuple[int, int]:
        """Remove the queue ``name`` of this node, and its definition (``vhosts.vhost.VirtualHost``)."""
        raise AssertionError("a queue must be able to go")


class Asker:
    """Who has asked a queue for something. It hears one answer, within the call that asks or later.

    Whoever has stopped waiting may still hear it, and then takes nothing.
    """

    __slots__ = ()

    def got(self, message: Message | None, left: int) -> bool:
        """``get`` is answered by a message, or None if none was ready; ``left`` are ready behind it.

        False if the asker does not wait any more. A queue of another node, whose answers come later, then
        puts the message back as it was (``return_unsent``), and it settles what was asked for without
        acknowledgement only when it was taken. Within the call that asks, an asker takes what it gets.
        """
        raise AssertionError("who asks for a message must take it")

    def removed(self, count: int, rev: int) -> None:
        """``purge`` or ``remove`` is answered: ``count`` messages were ready. It is stored with revision
        ``rev`` of the definitions, 0 for none.
        """
        raise AssertionError("who removes must hear what was removed")

    def counted(self, ready: int, consumers: int) -> None:
        """``count`` is answered: so many messages are ready, and there are so many consumers."""
        raise AssertionError("who counts must hear the numbers")

    def started(self) -> bool:
        """``consume`` is answered: messages come to the consumer from now on.

        False if the asker does not wait any more. The queue then removes the consumer again, and messages
        that are on their way to it go back as they were (``return_unsent``).
        """
        raise AssertionError("who consumes must hear when it begins")

    def ended(self) -> None:
        """``cancel`` is answered: no message comes to the consumer any more."""
        raise AssertionError("who ends a consumer must hear when it has ended")

    def refused(self, error: AMQPError) -> None:
        """The queue does not do it, for this reason."""
        raise AssertionError("who asks must hear of errors")


class Unheard(Asker):
    """Starts a consumer that nobody can refuse, or ends one, and needs no answer."""

    __slots__ = ()

    def started(self) -> bool:
        return True

    def ended(self) -> None:
        """It had ended before for whoever asked."""

    def refused(self, error: AMQPError) -> None:
        """The queue is not there, and so neither is its consumer."""


UNHEARD = Unheard()


class Destination(Declared):
    """What takes messages. A subclass overrides the methods."""

    __slots__ = (
        "counts_returns",
        "exclusive_owner",
        "incarnation",
        "log",
        "logs_all",
        "reason",
        "state",
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
        #: Whether the log gets every message, whatever its delivery mode: a quorum queue, or a mirrored one.
        self.logs_all = False
        #: Whether consumers are told how often a message came back: a quorum queue.
        self.counts_returns = False
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
            raise self.failure()

    def failure(self) -> AMQPError:
        """Why a queue that has failed cannot be used (406)."""
        return PreconditionFailed(
            f"queue '{self.name}' in vhost '{self.vhost.name}' cannot be used: {self.reason}"
        )

    def no_answer(self) -> NotFound:
        """What those are told who have waited too long for an answer (404)."""
        return NotFound(f"queue '{self.name}' in vhost '{self.vhost.name}' does not answer")

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
        """Messages ready for delivery, as far as this node knows; ``count`` asks for them."""
        raise AssertionError("a queue must count its messages")

    def is_empty(self) -> bool:
        """Whether no message is ready; unacknowledged ones do not count."""
        return self.message_count() == 0

    def purge(self, asker: Asker) -> None:
        """Drop every ready message, and tell ``asker`` their number. Unacknowledged messages stay.

        Refused with PreconditionFailed (406) if the log takes nothing, as the messages would come back after
        a restart.
        """
        raise AssertionError("a queue must drop its messages")

    def remove(self, asker: Asker, if_unused: bool, if_empty: bool) -> None:
        """Remove the queue with its definition and bindings, and tell ``asker`` how many messages were ready.

        Refused with PreconditionFailed (406) if it has consumers (``if_unused``) or is not empty
        (``if_empty``), and with InternalError (541) if the definition cannot be removed.
        """
        raise AssertionError("a queue must end")

    def delete(self, rev: int) -> int:
        """The definition goes with revision ``rev``: end the queue. Its files go once that is stored.

        Consumers are cancelled; if they are very many, in slices. Returns how many messages were ready.
        """
        raise AssertionError("a queue must end")

    def has_told_consumers(self) -> bool:
        """Whether all consumers have heard that the queue is gone."""
        return True
