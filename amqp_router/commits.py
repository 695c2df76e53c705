"""Who waits for which revision of the definitions, and who hears when they cannot be stored."""

from __future__ import annotations

from collections import deque
from typing import Any

from amqp_router.protocol.errors import InternalError
from persistence.log.queue.catalog import Catalog
from vhosts.queues.handle import QueueHandle
from vhosts.vhost import VirtualHost


class LogRemoval:
    """Waits for a queue's row to be gone before its log goes."""

    def __init__(self, queue: QueueHandle, catalog: Catalog) -> None:
        self._queue = queue
        self._catalog = catalog

    def committed(self, rev: int) -> None:
        self._queue.removal_stored()
        self._catalog.forget(self._queue.incarnation)


class Commits:
    """Revisions only rise, so first in is first out."""

    def __init__(self) -> None:
        self.committed = 0
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
        self.after(rev, LogRemoval(queue, catalog))

    def after(self, rev: int, waiter: Any) -> None:
        """As ``wait``, also while nothing is stored; at once if ``rev`` is stored already."""
        if rev <= self.committed:
            waiter.committed(rev)
        else:
            self._waiting.append((rev, waiter))

    def advance(self, rev: int) -> None:
        """Everything up to ``rev`` is stored."""
        self.committed = max(self.committed, rev)
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
