"""A dead letter on its way, and the queues of its route that may have it."""

from __future__ import annotations

from amqp_router.protocol.message import Message
from vhosts.exchanges.route import Route, lasting
from vhosts.exchanges.stale_routes import WIDE
from vhosts.exchanges.walk import Walk
from vhosts.long_lists import unwatched
from vhosts.queues.death import Death
from vhosts.queues.handle import QueueHandle
from vhosts.queues.local import LocalQueue

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

    def __init__(self, queue: LocalQueue, message: Message, reason: str) -> None:
        #: Settles the message in the end.
        self.queue = queue
        self.message = message
        self.reason = reason
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


class Sift:
    """A route without queues to which a letter would come again and again, or that have it already.

    It looks at ``WIDE`` queues in a turn of the event loop.
    """

    __slots__ = ("_count", "_kept", "_kept_durable", "_queues", "route")

    def __init__(self, route: Route) -> None:
        #: Its cache may let go of the route between two turns.
        self.route = route if len(route.queues) <= WIDE else lasting(route)
        self._queues = route.queues
        self._count = 0
        self._kept: list[QueueHandle] = []
        self._kept_durable: list[QueueHandle] = []
        if len(self._queues) > WIDE:
            unwatched(self._kept)
            unwatched(self._kept_durable)

    def go_on(self, letter: Letter) -> bool:
        """Look at some; True at the end."""
        end = min(self._count + WIDE, len(self._queues))
        taken = letter.taken
        refused = letter.death.cycles() if letter.death is not None else frozenset()
        for index in range(self._count, end):
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
        self._count = end
        return end == len(self._queues)

    def result(self) -> Route:
        """The route: the same one if every queue may have the letter."""
        if len(self._kept) == self._count:
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
