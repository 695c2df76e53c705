"""Makes the queues of a node, with their logs, and says in the broker's log what happens to them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from amqp_router.cluster import StandaloneQueues
from amqp_router.commits import Commits
from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.tick import Tick
from amqp_router.storage import Storage
from persistence.errors import PersistenceError
from persistence.memory import MemoryBudget
from vhosts.ports import InSlices
from vhosts.queues.contents import Contents
from vhosts.queues.delayed import PREFIX, DelayQueue
from vhosts.queues.destination import Host
from vhosts.queues.local import LocalQueue, NamedQueue
from vhosts.queues.queue import Queue
from vhosts.queues.services import QueueServices
from vhosts.queues.state import FAILED
from vhosts.queues.timers import QueueTimers

#: Messages freed per turn of the loop when a long queue is purged or deleted. Each may be the last object in
#: a part of the heap, which is then given back. That takes longer: 10,000 once gave back 64 MiB, for 18 ms.
FREE_SLICE = 1000
#: Seconds until a queue tries again to read messages after an error that passes.
STALL_S = 0.5


class QueueMaker:
    """A ``vhosts.ports.QueueFactory``.

    Args:
        leaders: Says in which epoch a queue's log is written.
        event: Writes a line to the broker's log.
        later: Calls something as a handler of the event loop after some seconds.
        wall_us: The time of day in µs.
        random_bytes: As many as it is asked for, to name the queues' incarnations.
        timeout_set: See ``vhosts.queues.services.QueueServices``.
    """

    def __init__(
        self,
        storage: Storage,
        leaders: StandaloneQueues,
        commits: Commits,
        *,
        tick: Tick,
        budget: MemoryBudget,
        in_slices: InSlices,
        event: Callable[..., None],
        later: Callable[[float, Callable[[], None]], Any],
        wall_us: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        timeout_set: Callable[[], None],
    ) -> None:
        self._random_bytes = random_bytes
        self._storage = storage
        self._leaders = leaders
        self._commits = commits
        self._in_slices = in_slices
        self._event = event
        self._later = later
        services = self._services = QueueServices(tick, Contents(budget, storage.catalog.new_spill()))
        services.in_slices = in_slices
        services.discard = self._discard
        services.open_pager = storage.catalog.new_page_log
        services.deleted = self._queue_deleted
        services.failed = self._queue_failed
        services.resumed = self._queue_resumed
        services.stalled = self._queue_stalled
        services.expired = self._queue_expired
        services.timeout_set = timeout_set
        services.timers = QueueTimers(later, wall_us, in_slices, budget)

    def __call__(
        self,
        *,
        vhost: Host,
        name: str,
        durable: bool,
        exclusive_owner: Any,
        auto_delete: bool,
        arguments: Arguments,
        incarnation: str,
    ) -> Queue:
        """See ``vhosts.ports.QueueFactory``."""
        is_delayed = name.startswith(PREFIX)
        queue = DelayQueue(self._services) if is_delayed else Queue(self._services)
        queue.internal = is_delayed
        queue.vhost = vhost
        queue.name = name
        queue.durable = durable
        queue.exclusive_owner = exclusive_owner
        queue.auto_delete = auto_delete
        queue.arguments = arguments
        if durable:
            self._open_log(queue, incarnation)
        else:
            queue.attach(self._new_incarnation())
        return queue

    def _open_log(self, queue: Queue, incarnation: str) -> None:
        catalog, vhost = self._storage.catalog, queue.vhost.name
        if not incarnation:
            made = self._new_incarnation()
            self._commits.queue_declared(queue)
            log = catalog.create(made, vhost, queue.name, queue.arguments, auto_delete=queue.auto_delete)
            queue.attach(made, log)
        else:
            try:
                log = catalog.open(
                    incarnation, vhost, queue.name, queue.arguments, auto_delete=queue.auto_delete
                )
            except (PersistenceError, OSError) as error:
                # That queue alone stands still; what is on disk is left as it is.
                queue.attach(incarnation)
                queue.set_failed(f"its log cannot be read: {error}")
                self._event(
                    logging.ERROR,
                    "queue not available",
                    queue=queue.name,
                    vhost=vhost,
                    reason=error,
                    way_out='docs/operations.md, "Damage"; `amqp-router log salvage` copies what is readable',
                )
                return
            queue.attach(incarnation, log, recovered=True)
        # The log asks for more than its last batch's: what comes after a checkpoint in an earlier epoch than
        # the checkpoint's is taken for the leftover of a truncation.
        log.epoch = self._leaders.lead(queue.incarnation, log.epoch).epoch

    def _new_incarnation(self) -> str:
        return UUID(bytes=self._random_bytes(16), version=4).hex

    def _discard(self, messages: list[Any]) -> None:
        self._in_slices(partial(_free_some, messages))

    def _queue_failed(self, queue: NamedQueue) -> None:
        """The operator must hear of it; clients do from their methods."""
        what = (
            "queue failed"
            if queue.state == FAILED
            else "queue takes no messages until its log can be written"
        )
        self._event(logging.ERROR, what, queue=queue.name, vhost=queue.vhost.name, reason=queue.reason)

    def _queue_resumed(self, queue: NamedQueue) -> None:
        self._event(logging.INFO, "queue takes messages again", queue=queue.name, vhost=queue.vhost.name)

    def _queue_stalled(self, queue: NamedQueue) -> None:
        """Its messages cannot be read while descriptors are used up."""
        self._later(STALL_S, queue.unstall)

    def _queue_expired(self, queue: LocalQueue) -> None:
        self._event(logging.INFO, "queue expired", queue=queue.name, vhost=queue.vhost.name)
        queue.expire()

    def _queue_deleted(self, queue: Queue, rev: int) -> None:
        if queue.log is None and not queue.durable:
            return
        if queue.log is not None:
            self._leaders.forget(queue.incarnation)
        self._commits.queue_deleted(queue, rev, self._storage.catalog)


def _free_some(messages: list[Any]) -> bool:
    del messages[-FREE_SLICE:]
    return not messages
