"""Who waits for which revision of the definitions, and who hears when they cannot be stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp_router.protocol.errors import InternalError
from persistence.log.queue.catalog import Catalog
from vhosts.ports import InSlices
from vhosts.queues.handle import QueueHandle
from vhosts.vhost import VirtualHost

#: Logs of deleted queues that go in one turn of the event loop, some 10 microseconds each. One commit may
#: delete a thousand queues.
LOGS_MAX = 100


class LogRemoval:
    """Waits for a queue's row to be gone before its log goes, by ``remove``."""

    def __init__(
        self, queue: QueueHandle, catalog: Catalog, remove: Callable[[Callable[[], None]], None]
    ) -> None:
        self._queue = queue
        self._catalog = catalog
        self._remove = remove

    def committed(self, rev: int) -> None:
        self._queue.removal_stored()
        self._remove(partial(self._catalog.forget, self._queue.incarnation))


class Commits:
    """Revisions only rise, so first in is first out.

    Logs of deleted queues may go some turns later, with ``in_slices``; without it they go at once.
    """

    def __init__(self, in_slices: InSlices | None = None) -> None:
        self.committed = 0
        self._in_slices = in_slices
        #: Logs whose queues are stored as deleted, and how many went in this call of ``advance``.
        self._logs: deque[Callable[[], None]] = deque()
        self._logs_gone = 0
        #: Why nothing further is stored for now, or None.
        self.failed: Exception | None = None
        #: They hear of what is stored.
        self.vhosts: list[VirtualHost] = []
        #: Durable queues whose definition is not stored yet.
        self._unstored: list[QueueHandle] = []
        self._waiting: deque[tuple[int, Any]] = deque()

    def wait(self, rev: int, waiter: Any) -> None:
        """Call ``waiter.committed(rev)`` once ``rev`` is stored.

        Raises:
            InternalError: nothing is stored for now (541).
        """
        if self.failed is not None:
            raise InternalError(str(self.failed))
        self._waiting.append((rev, waiter))

    def queue_declared(self, queue: QueueHandle) -> None:
        """``queue`` is durable, and its ``definition_rev`` is about to be set."""
        self._unstored.append(queue)

    def queue_deleted(self, queue: QueueHandle, rev: int, catalog: Catalog) -> None:
        """The log of ``queue`` goes once ``rev`` is stored."""
        self.after(rev, LogRemoval(queue, catalog, self._remove))

    def after(self, rev: int, waiter: Any) -> None:
        """As ``wait``, also while nothing is stored; at once if ``rev`` is stored already."""
        if rev <= self.committed:
            waiter.committed(rev)
        else:
            self._waiting.append((rev, waiter))

    def advance(self, rev: int) -> None:
        """Everything up to ``rev`` is stored."""
        self.committed = max(self.committed, rev)
        self._logs_gone = 0
        unstored, self._unstored = self._unstored, []
        for queue in unstored:
            if queue.definition_rev > rev:
                self._unstored.append(queue)
            elif not queue.deleted:
                queue.definition_stored()
        for vhost in self.vhosts:
            vhost.definitions_stored(rev)
        waiting = self._waiting
        late = []
        while waiting:
            wanted, waiter = waiting[0]
            if wanted > rev:
                # A reply may wait for an older revision than one queued before it.
                late.append(waiting.popleft())
                continue
            waiting.popleft()
            waiter.committed(rev)
        waiting.extend(late)

    def finish(self) -> None:
        """The node stops: logs go at once from now on."""
        self._in_slices = None
        while self._logs:
            self._logs.popleft()()

    def _remove(self, forget: Callable[[], None]) -> None:
        """Let a log go, now if there is time for it."""
        if self._in_slices is None or (not self._logs and self._logs_gone < LOGS_MAX):
            self._logs_gone += 1
            forget()
            return
        self._logs.append(forget)
        if len(self._logs) == 1:
            self._in_slices(self._remove_some)

    def _remove_some(self) -> bool:
        for _ in range(min(LOGS_MAX, len(self._logs))):
            self._logs.popleft()()
        return not self._logs

    def fail(self, error: Exception) -> None:
        """Nothing is stored for now: publishers must not believe that their messages are safe.

        What was submitted before is stored when the store recovers; memory has it already.
        """
        self.failed = error
        for queue in self._unstored:
            queue.definition_failed(error)
        for vhost in self.vhosts:
            vhost.definitions_failed()

    def recover(self) -> None:
        """Definitions are stored again, and all that was submitted before is."""
        self.failed = None
        for vhost in self.vhosts:
            vhost.definitions_recovered()
