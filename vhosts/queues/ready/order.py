"""The ready messages of one queue, in the order in which they are delivered.

A queue adds what is published at the end (``push``), takes the head (``pop``), and gives back what a consumer
returned (``put_back``). It counts nothing of this by itself and knows no position. A subclass is one way to
order; it may keep messages in memory, in the queue's log, or in files.

An order never raises an error of the disk. It returns None or False and leaves the reason in ``trouble``,
which the queue looks at only then: the way of a message has no handler of exceptions.
"""

from __future__ import annotations

from collections.abc import Iterator

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from amqp_router.protocol.tick import Tick
from persistence.log.queue.page_log import PageLog
from persistence.log.queue.queue_log import QueueLog
from vhosts.queues.contents import Contents

#: Messages read together at a start.
RECOVERED_TOGETHER = 1024
#: How many messages of a logged queue with consumers are in memory at most.
WINDOW_MESSAGES = 4096


class Trouble:
    """Why an order cannot give or take a message.

    ``error`` is the error of the disk; None if the order itself is broken.
    """

    __slots__ = ("error", "reason")

    def __init__(self, reason: str, error: Exception | None = None) -> None:
        self.reason = reason
        self.error = error


class NodePort:
    """The node, as a queue's order knows it: ``vhosts.queues.services.QueueServices``."""

    __slots__ = ()

    def page_log(self, incarnation: str) -> PageLog:
        """A page log for the queue, which outgrows the node's account."""
        raise AssertionError("a queue without page files outgrows its memory")

    def free(self, messages: list[Message | None]) -> None:
        """Nobody else holds this long list: free it in later turns of the loop."""


class ReadyOrder:
    """Keeps the messages that are ready. The queue fills the collaborators before it uses the order.

    A compiled class cannot be an ``abc.ABC``: what a subclass must have raises here, as an empty method would
    lose messages without a word.
    """

    __slots__ = (
        "body_bytes",
        "contents",
        "count",
        "incarnation",
        "log",
        "node",
        "return_left",
        "returning",
        "swept_us",
        "tick",
        "transient_bytes",
        "trouble",
        "wanted",
        "window",
    )

    def __init__(self) -> None:
        self.contents: Contents
        #: Has the time.
        self.tick: Tick
        #: The queue's log, or None.
        self.log: QueueLog | None = None
        #: Makes the page log of a queue that outgrows the node's account, which has the queue's incarnation.
        self.node: NodePort
        self.incarnation = ""
        #: Messages ready. The subclass keeps it and the next one.
        self.count = 0
        #: Octets of their bodies, but for those that ``count_bytes`` has not looked at yet.
        self.body_bytes = 0
        #: Octets of bodies that the log does not have, also of messages that are not settled.
        self.transient_bytes = 0
        #: Whether the queue has consumers, so that a window of messages in memory is worth its room.
        self.wanted = False
        #: How many messages of a logged queue are in memory at most, if it has consumers.
        self.window = WINDOW_MESSAGES
        #: Returns in slices that go on, and how many messages they may bring while newer ones wait.
        self.returning = 0
        self.return_left = 0
        #: When messages whose time was over began to leave, if that goes on: all that were there then leave
        #: as they would have at once. 0 if it does not.
        self.swept_us = 0
        #: Why the last ``pop`` or ``peek`` gave nothing although ``count`` is not 0, or the last ``push``
        #: failed; None if the message is only refused for now, or held back.
        self.trouble: Trouble | None = None

    def push(self, message: Message, logged: bool) -> bool:
        """Add a message that was published; ``logged``: the log has its content, too.

        Offsets rise from push to push. False if the message cannot be kept.
        """
        raise NotImplementedError

    def pop(self) -> Message | None:
        """Take the head, with its content; None if there is none, if it is held back, or in ``trouble``."""
        raise NotImplementedError

    def peek(self, eager: bool) -> Message | None:
        """The head, which stays; its content may not be in memory. None as for ``pop``.

        ``eager``: the caller is about to take messages one after the other.
        """
        raise NotImplementedError

    def begin_sweep(self, now_us: int) -> None:
        """Messages whose time is over by ``now_us`` leave in several turns from now on, until ``swept_us`` is
        set to 0.
        """
        if self.swept_us == 0:
            self.swept_us = now_us

    def peek_swept(self) -> Message | None:
        """The head of the messages that were there when the sweep began; as ``peek``."""
        return self.peek(True)

    def pop_swept(self) -> Message | None:
        """Take the message that ``peek_swept`` gives; as ``pop``."""
        return self.pop()

    def put_back(self, message: Message) -> None:
        """Take back a message that was taken, to its place. One of the log may come without its content."""
        raise NotImplementedError

    def put_unsent(self, message: Message) -> None:
        """As ``put_back``, of one that nobody has seen: it has its turn as if it had never been taken."""
        self.put_back(message)

    def drop_all(self, settle: bool) -> Iterator[Message] | None:
        """Forget all messages; returns those that the caller settles or releases one by one, some in each
        turn of the loop; None if there are none of these.

        The others are settled in the log if ``settle``; otherwise the log is removed as a whole.
        """
        raise NotImplementedError

    def rest(self) -> None:
        """The last consumer has left: give back memory for what the log has, too."""

    def recovered(self) -> None:
        """Take over the messages that recovery found in the log."""
        raise NotImplementedError

    def count_bytes(self) -> bool:
        """Add a slice of the bodies that were recovered to ``body_bytes``; True if none is left."""
        return True

    def has_counted_bytes(self) -> bool:
        """Whether ``body_bytes`` has all of them."""
        return True

    def in_memory(self) -> int:
        """Messages whose content is in memory."""
        return 0

    def memory_bytes(self) -> int:
        """Bytes that those messages have in the node's account of memory."""
        return 0

    def memory_bodies(self) -> int:
        """Octets of the bodies of those messages."""
        return 0

    def put_aside(self) -> tuple[int, int]:
        """Ready transient messages that are in files because memory was short, and octets of their bodies."""
        return 0, 0

    # -- returns in slices ---------------------------------------------------------------------------------

    def begin_return(self, unacked: int) -> None:
        """Messages come back in slices from now on, lowest first; ``end_return`` must follow.

        Meanwhile nothing is given, but for no more than the ``unacked`` messages that are out now, or clients
        that never cease to return messages could hold up all the others.
        """
        if self.returning == 0:
            self.return_left = unacked
        self.returning += 1

    def end_return(self) -> bool:
        """All of one return are back; True if no other goes on."""
        self.returning -= 1
        return self.returning == 0

    def is_returning(self) -> bool:
        """Whether messages wait for those that come back."""
        return self.returning > 0 and self.return_left > 0


def logged_message(offset: int) -> Message:
    """A message of the log of which nothing but its offset is in memory."""
    message = Message()
    message.offset = offset
    message.flags = flags.LOGGED
    return message


def stored_messages(log: QueueLog | None) -> Iterator[list[Message]]:
    """The unsettled messages of a log at a start, some at a time, in the order of their offsets."""
    assert log is not None
    offset = log.start
    while offset < log.end:
        messages, offset = log.read(offset, log.end, RECOVERED_TOGETHER, 1 << 20)
        yield messages
