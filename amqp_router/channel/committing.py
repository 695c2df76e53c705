"""The publishes of a transaction: they wait for tx.commit, and then go to their queues.

``transactions`` does the rest: acknowledgements, slices and answers.

Source: AMQP 0-9-1, tx.commit (90.20).
"""

from __future__ import annotations

from typing import TypeAlias

from amqp_router.channel.intake import Intake
from amqp_router.channel.publishing import Inflow, Publishing, TransactionPort
from amqp_router.protocol.message import Message
from vhosts.exchanges.route import Route, lasting
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Listener
from vhosts.publishing.publisher import Publisher
from vhosts.publishing.spread import SPREAD_SLICE
from vhosts.queues.handle import QueueHandle

#: Memory of a waiting message apart from its content.
MESSAGE_BYTES = 400
#: Octets of a message, to the power of 2, that cost as much as an enqueue: they are read and copied. A chunk
#: of the socket has few of them, a transaction as many as there is memory.
OCTETS_SHIFT = 11
#: Publishes in one list. One list of a million would hold the event loop each time that it grows.
BLOCK = 1024
# C integers where compiled (see committing.pxd).
_MESSAGE_BYTES = MESSAGE_BYTES
_OCTETS_SHIFT = OCTETS_SHIFT
_BLOCK = BLOCK
_UNROUTABLE = int(Outcome.UNROUTABLE)
_REFUSED = int(Outcome.REFUSED)
_WAITS = int(Outcome.WAITS)
_LATER = int(Outcome.LATER)
_SPREAD_SLICE = SPREAD_SLICE


#: A message that waits: where it goes, the message, and the flags of its publish.
Publish: TypeAlias = tuple[Route, Message, int]


class Waiting:
    """Publishes in their order. All are added before the first is taken."""

    __slots__ = ("_blocks", "_taken", "count")

    def __init__(self) -> None:
        self._blocks: list[list[Publish | None]] = []
        #: Publishes of the first list that were taken; None stands in their places.
        self._taken = 0
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, publish: Publish) -> int:
        """Let ``publish`` be the last one."""
        if self.count & (_BLOCK - 1) == 0:
            self._blocks.append([])
        block = self._blocks[len(self._blocks) - 1]
        block.append(publish)
        self.count += 1
        return 0

    def take(self) -> Publish:
        """Remove the first one, of which there must be one."""
        block = self._blocks[0]
        taken = self._taken
        publish = block[taken]
        block[taken] = None
        self.count -= 1
        if taken + 1 == len(block):
            del self._blocks[0]
            self._taken = 0
        else:
            self._taken = taken + 1
        assert publish is not None
        return publish


class Gathering(TransactionPort):
    """The publishes of an open transaction; ``size`` is what it has admitted."""

    __slots__ = ("_last", "_lasting", "intake", "publishes", "size")

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.gather_anew()

    def gather_anew(self) -> None:
        """Forget what waits."""
        self.publishes = Waiting()
        self.size = 0
        #: The last message's route, and its copy.
        self._last: Route | None = None
        self._lasting = Route()

    def admit(self, size: int) -> int:
        """Reserve room for what waits.

        Raises:
            PreconditionFailed: there is no memory for it (406).
        """
        self.intake.admit(size)
        self.size += size
        return 0

    def publish(self, route: Route, message: Message, flags: int) -> int:
        """Let ``message`` wait for the commit; returns the cost in enqueues.

        Raises:
            PreconditionFailed: there is no memory for it (406).
        """
        self.admit(message.size() + _MESSAGE_BYTES)
        if route is not self._last:
            self._last = route
            self._lasting = lasting(route)
        self.publishes.add((self._lasting, message, flags))
        return 1


class Committing(Listener):
    """Publishes what has waited for tx.commit.

    It is the listener of its own ``publisher``. ``waits`` counts publishes that are not safe, or have not
    reached all their queues. ``has_failed`` says that one never will.
    """

    __slots__ = ("_next", "has_failed", "inflow", "publisher", "publishing", "waits")

    def __init__(self, publishing: Publishing, inflow: Inflow) -> None:
        self.publishing = publishing
        self.inflow = inflow
        mine = publishing.publisher
        self.publisher = Publisher(mine.table, mine.cache, mine.account, self, inflow)
        #: Number of the next publish.
        self._next = 1
        self.waits = 0
        self.has_failed = False

    def publish_some(self, publishes: Waiting, limit: int, intake: Intake, stopped: bool) -> int:
        """Give messages to their queues until that costs ``limit`` enqueues; returns the cost. Nothing is
        returned to the client if its connection has ``stopped``.

        -1 if the last of them has queues left to reach: the next one must not overtake it.
        """
        spent = released = 0
        outcome = 0
        while publishes.count > 0 and spent < limit and not outcome & _LATER:
            route, message, flags = publishes.take()
            size = message.size()
            released += size + _MESSAGE_BYTES
            outcome = self._publish(route, message, flags, stopped)
            spent += self.publisher.units + (size >> _OCTETS_SHIFT)
        intake.release(released)
        return -1 if outcome & _LATER else spent

    def _publish(self, route: Route, message: Message, flags: int, stopped: bool) -> int:
        publisher = self.publisher
        single = route.single
        if single.deleted if single is not None else _has_deleted(route.queues):
            _leave_out_deleted(route, publisher)
        self.publishing.publish_total += 1
        number = self._next
        self._next += 1
        outcome = publisher.publish(route, message, number, flags)
        if (outcome & _UNROUTABLE or (flags and route.is_reply)) and not stopped:
            publisher.units += self.publishing.unroutable(route, message, flags)
        if outcome & _LATER:
            self.waits += 1
        else:
            self.note(outcome, message.body_size)
        return outcome

    def note(self, outcome: int, size: int) -> None:
        """A publish of ``size`` octets has reached its queues."""
        if outcome & _REFUSED:
            self.has_failed = True
        if outcome & _WAITS:
            self.waits += 1
            self.inflow.add(size)


def _has_deleted(queues: list[QueueHandle]) -> bool:
    """Whether one of ``queues`` is deleted; of very many each is asked when it has its turn."""
    if len(queues) > _SPREAD_SLICE:
        return False
    for index in range(len(queues)):
        queue = queues[index]
        if queue.deleted:
            return True
    return False


def _leave_out_deleted(route: Route, publisher: Publisher) -> None:
    """Let ``route`` lead to those of its queues that still exist."""
    queues = [queue for queue in route.queues if not queue.deleted]
    route.lead_to(queues, [queue for queue in queues if queue.durable])
    # Until the removal is stored, a crash brings the queue back, without the message.
    route.waits_for = publisher.table.unstored.rev
