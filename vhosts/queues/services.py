"""What a node does for its queues; one object for all of them.

Queues do no input or output and know no clock. They ask for files, slices of time and removal of logs here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from amqp_router.protocol.message import Message
from amqp_router.protocol.tick import Tick
from persistence.log.queue.page_log import PageLog
from vhosts.queues.contents import Contents
from vhosts.queues.local import LocalQueue, NamedQueue
from vhosts.queues.ready.order import NodePort
from vhosts.queues.timers import QueueTimers

#: Hears of something that happened to a queue.
Hearer: TypeAlias = Callable[[NamedQueue], None]

#: Messages dropped by one call when a queue is purged or deleted, some 4 µs each where a million lie in
#: memory.
DROP_SLICE = 1000


class QueueServices(NodePort):
    """Made by the composition root, which fills what it has. What is not given is done at once, or not."""

    __slots__ = (
        "contents",
        "deleted",
        "discard",
        "expired",
        "failed",
        "in_slices",
        "open_pager",
        "resumed",
        "stalled",
        "tick",
        "timeout_set",
        "timers",
    )

    def __init__(self, tick: Tick, contents: Contents) -> None:
        self.tick = tick
        self.contents = contents
        #: Calls a step once per turn of the loop until it returns True.
        self.in_slices: Callable[[Callable[[], bool]], None] = at_once
        #: Frees a long list of messages over several turns of the loop.
        self.discard: Callable[[list[Message | None]], None] | None = None
        #: Makes the page log of the queue with this incarnation.
        self.open_pager: Callable[[str], PageLog] = _no_pager
        #: The queue, a ``Queue``, is deleted: its log is removed once this revision is committed.
        self.deleted: Callable[[Any, int], None] = _removed  # ``queue.Queue`` imports this module
        #: The queue was not used for as long as it may be: remove it.
        self.expired: Callable[[LocalQueue], None] = _nobody
        #: A queue has a timeout for acknowledgements from now on, and messages of it are delivered.
        self.timeout_set: Callable[[], None] = _nothing
        #: Timers of the queues; None if no time passes.
        self.timers: QueueTimers | None = None
        #: The queue has failed or takes no messages (its ``state`` says which); it takes them again.
        self.failed: Hearer = _nobody
        self.resumed: Hearer = _nobody
        #: Waiting messages cannot be read for now: the callee calls ``unstall`` after a while. None if the
        #: queue fails instead.
        self.stalled: Hearer | None = None

    def page_log(self, incarnation: str) -> PageLog:
        return self.open_pager(incarnation)

    def free(self, messages: list[Message | None]) -> None:
        if self.discard is not None:
            self.discard(messages)

    def settle_in_slices(self, dropped: Iterator[Message], settle: Callable[[Message], None]) -> None:
        """Call ``settle`` for each message in ``dropped``, some in each turn of the loop."""
        step = partial(_settle_some, dropped, settle)
        if not step():
            self.in_slices(step)


def at_once(step: Callable[[], bool]) -> None:
    """Slices of queues whose owner has no event loop."""
    while not step():
        pass


def _settle_some(dropped: Iterator[Message], settle: Callable[[Message], None]) -> bool:
    """Settle a slice of the messages, which nobody gets any more; True if none is left."""
    settled = 0
    for message in islice(dropped, DROP_SLICE):
        settle(message)
        settled += 1
    return settled < DROP_SLICE


def _no_pager(incarnation: str) -> PageLog:
    raise AssertionError("a queue without page files outgrows its memory")


def _removed(queue: LocalQueue, rev: int) -> None:
    queue.removal_stored()


def _nothing() -> None:
    """Nobody looks at deliveries."""


def _nobody(queue: NamedQueue) -> None:
    """Nobody wants to hear of it."""
