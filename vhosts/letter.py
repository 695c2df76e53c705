"""A dead letter on its way, and the queues of its route that may have it.

Compiled: see ``letter.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol.message import Message
from vhosts.exchanges.route import Route, lasting
from vhosts.exchanges.stale_routes import WIDE
from vhosts.exchanges.walk import Walk
from vhosts.long_lists import unwatched
from vhosts.queues.death import Death
from vhosts.queues.destination import Burials
from vhosts.queues.handle import QueueHandle
from vhosts.queues.mortal import MortalQueue

#: Nobody has a letter yet. Lists that are replaced, never changed.
NOBODY: frozenset[str] = frozenset()
NO_QUEUES: list[QueueHandle] = []


class Letter:
    """One message of one queue."""

    __slots__ = (
        "args",
        "death",
        "durable",
        "is_old",
        "made",
        "message",
        "properties",
        "queue",
        "reason",
        "refusers",
        "sift",
        "stays",
        "taken",
        "targets",
        "walk",
    )

    def __init__(self) -> None:
        #: Settles the message in the end.
        self.queue: MortalQueue
        self.message: Message
        self.reason = ""
        #: The message that is published; None until its turn comes.
        self.made: Message | None = None
        #: Its headers about the death; None for a delayed message that is due.
        self.death: Death | None = None
        self.args = b""
        self.properties = b""
        self.walk: Walk | None = None
        #: Looks which of very many queues may have it.
        self.sift: Sift | None = None
        #: An earlier process may have sent it already.
        self.is_old = False
        #: The message cannot be read: it stays in its log for the next start.
        self.stays = False
        #: The queues (incarnations) that have the letter from an earlier attempt.
        self.taken = NOBODY
        #: The queues that this attempt goes to, those whose logs must have it, and those that refused it.
        self.targets = NO_QUEUES
        self.durable = NO_QUEUES
        self.refusers = NO_QUEUES


class Address:
    """Where letters go, as their queue says it: ``key`` is None if they keep their message's."""

    __slots__ = ("args", "exchange", "key", "route")

    def __init__(self) -> None:
        self.exchange = ""
        self.key: str | None = None
        #: The arguments of their publishes, and exchange and routing key as a message has them.
        self.args = b""
        self.route = b""


class Sender(Burials):
    """Sends letters. A subclass overrides its methods."""

    __slots__ = ()

    def send(self, letter: Letter) -> None:
        """Put ``letter`` on its way."""
        raise AssertionError("a letter must be sent")


def letter_of(queue: MortalQueue, message: Message, reason: str) -> Letter:
    """A letter that ``queue`` makes of ``message`` for ``reason``."""
    letter = Letter()
    letter.queue = queue
    letter.message = message
    letter.reason = reason
    return letter


class Sift:
    """A route without queues to which a letter would come again and again, or that have it already.

    It looks at ``WIDE`` queues in a turn of the event loop.
    """

    __slots__ = ("_kept", "_kept_durable", "_queues", "looked_at", "route")

    def __init__(self, route: Route) -> None:
        #: Its cache may let go of the route between two turns.
        self.route = route if len(route.queues) <= WIDE else lasting(route)
        self._queues = route.queues
        #: How many of the queues.
        self.looked_at = 0
        self._kept: list[QueueHandle] = []
        self._kept_durable: list[QueueHandle] = []
        if len(self._queues) > WIDE:
            unwatched(self._kept)
            unwatched(self._kept_durable)

    def go_on(self, letter: Letter) -> bool:
        """Look at some; True at the end."""
        end = min(self.looked_at + WIDE, len(self._queues))
        taken = letter.taken
        refused = letter.death.cycles() if letter.death is not None else frozenset()
        for index in range(self.looked_at, end):
            queue = self._queues[index]
            if queue.incarnation in taken:
                if queue.durable:  # its log must have the letter before it is settled
                    self._kept_durable.append(queue)
                continue
            if queue.name in refused or (letter.is_old and _has_letter(queue, letter.made)):
                continue
            self._kept.append(queue)
            if queue.durable:
                self._kept_durable.append(queue)
        self.looked_at = end
        return end == len(self._queues)

    def result(self) -> Route:
        """The route: the same one if every queue may have the letter."""
        if len(self._kept) == self.looked_at:
            return self.route
        other = lasting(self.route)
        other.lead_to(self._kept, self._kept_durable)
        return other


def _has_letter(target: QueueHandle, made: Message | None) -> bool:
    """Whether ``target`` has the letter from before a crash, after which its queue sends it again."""
    return (
        target.log is not None
        and made is not None
        and made.extras is not None
        and target.log.taken.has_letter(made.extras)
    )
