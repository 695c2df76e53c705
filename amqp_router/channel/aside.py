"""What a channel has set aside: deliveries that are held back, and messages that return together.

A method that looks into a queue is answered before the channel writes what that queue, for the same chunk,
delivers to it: the answer of ``basic.get`` has the lower tag. In RabbitMQ those deliveries wait behind the
frames that the channel has, and get their tags later. So they do here until the chunk ends, or a method comes
that they must precede (``connection.dispatch``). Beyond ``HELD_BYTES`` nothing is held back any more.

What is held back has used up credit, but has no tag: no method of the chunk can mean it.

Source: RabbitMQ 3.10.8, observed: publishes and methods on one channel, in one write. Of 300 publishes some
come before the answer there.
"""

from __future__ import annotations

from typing import Protocol, cast

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from vhosts.queues.handle import Consumer

#: Contents that are held back, and what is counted for each message besides.
HELD_BYTES = 1 << 20
HELD_OVERHEAD = 1024

# C integers where compiled (see aside.pxd).
_HELD_BYTES = HELD_BYTES
_HELD_OVERHEAD = HELD_OVERHEAD


class Giving(Protocol):
    """A consumer on a channel."""

    def give(self, message: Message, shows: Message) -> None:
        """Deliver ``message`` with the content of ``shows``."""


class Aside:
    """What one channel has set aside."""

    __slots__ = ("gathered", "held", "holds", "size")

    def __init__(self) -> None:
        #: Owners and messages that ``returns.return_gathered`` returns.
        self.gathered: list[tuple[Consumer, Message]] = []
        #: Whether deliveries are held back.
        self.holds = False
        #: Their consumers, the messages, and the contents that these may lose meanwhile.
        self.held: list[tuple[Consumer, Message, Message]] = []
        self.size = 0

    def hold(self, consumer: Consumer, message: Message) -> bool:
        """Hold back a delivery; False if that would be too much: then it is given, as are those before it."""
        self.size += message.size() + _HELD_OVERHEAD
        if self.size > _HELD_BYTES:
            self.let_go()
            return False
        kept = message.copy()
        kept.flags |= message.flags & flags.REDELIVERED
        kept.delivery_count = message.delivery_count
        self.held.append((consumer, message, kept))
        return True

    def let_go(self) -> None:
        """Deliver what is held back, and hold back nothing more."""
        held, self.held = self.held, []
        self.holds = False
        self.size = 0
        for consumer, message, kept in held:
            cast(Giving, consumer).give(message, kept)
