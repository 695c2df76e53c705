"""One message for very many queues: some of them get it in each turn of the event loop.

Compiled: see ``spread.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol.message import Message
from persistence.memory import MemoryBudget
from vhosts.exchanges.route import Route
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Listener, Run
from vhosts.queues.handle import QueueHandle
from vhosts.unstored import Unstored

#: A message for more queues goes in slices of half as many: half a millisecond, or five if none of them is in
#: the processor's cache, or each begins a page, on a slow machine. The turn of the first ones has found the
#: route, too, and that of the last ones notes it.
SPREAD_SLICE = 512
#: As many that write it to a log: each takes four times as long.
SPREAD_DURABLE = 128
#: Work on disk for one message, in enqueues, after which the other queues get it in a later turn.
SPREAD_WORK = 1024

# C integers where compiled (see spread.pxd).
_SPREAD_SLICE = SPREAD_SLICE
_SPREAD_DURABLE = SPREAD_DURABLE
_SPREAD_WORK = SPREAD_WORK
_REFUSED = int(Outcome.REFUSED)
_FAILED = int(Outcome.FAILED)


class Spreader:
    """Who has begun a spread (``publisher.Publisher``)."""

    __slots__ = ()

    def spread_done(self, spread: Spread) -> None:
        """All queues have had their turn."""
        raise AssertionError("whoever spreads must hear of the end")


class Spread:
    """A message on its way to very many queues, or to many that write it to disk.

    Others may publish to the same queues between two slices, or delete queues.
    """

    __slots__ = (
        "account",
        "flags",
        "listener",
        "message",
        "number",
        "position",
        "publisher",
        "queues",
        "refusers",
        "result",
        "route",
        "run",
        "unstored",
    )

    def __init__(self) -> None:
        self.account: MemoryBudget
        self.unstored: Unstored
        self.route: Route
        #: The route's queues. The route itself may let go of them meanwhile.
        self.queues: list[QueueHandle]
        self.message: Message
        #: The publish's number, and its flags in the routing log.
        self.number = 0
        self.flags = 0
        #: How many of the queues have had their turn.
        self.position = 0
        #: Why queues have not taken the message: bits of ``Outcome``.
        self.result = 0
        #: Gets the queues that refuse the message; None if nobody wants to know which they are.
        self.refusers: list[QueueHandle] | None = None
        #: Waits for the logs; None if the message waits for none.
        self.run: Run | None = None
        #: Hears of the outcome.
        self.listener: Listener
        #: Called when all queues have had their turn.
        self.publisher: Spreader

    def go_on(self) -> bool:
        """A step of ``Listener.in_slices``: the next slice; True at the end."""
        queues = self.queues
        run = self.run
        end = min(self.position + ((_SPREAD_SLICE if run is None else _SPREAD_DURABLE) >> 1), len(queues))
        account = self.account
        unstored = self.unstored
        account.work = 0
        index = self.position
        while index < end and account.work < _SPREAD_WORK:
            queue = queues[index]
            index += 1
            if queue.deleted:
                # Until its removal is stored, a crash brings it back, without the message.
                if run is not None and queue.durable and unstored.rev:
                    unstored.hold(run, unstored.rev)
                continue
            if not queue.publish(self.message.copy()):
                self.result |= refusal(queue)
                if self.refusers is not None:
                    self.refusers.append(queue)
            elif run is not None and queue.durable:
                queue.await_durable(run)
        account.work = 0  # a slice is what the publisher is charged with
        self.position = index
        if index < len(queues):
            return False
        self.publisher.spread_done(self)
        return True


def refusal(queue: QueueHandle) -> int:
    """The outcome of a publish that ``queue`` has not taken."""
    return _REFUSED if queue.takes_messages() else _FAILED
