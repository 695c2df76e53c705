"""Auto-delete and expired queues that could not be removed because the definition store refused."""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.errors import InternalError
from vhosts.ports import InSlices
from vhosts.queues.handle import QueueHandle
from vhosts.removal import SLICE


class OverdueQueues:
    """They are removed when the store works again, unless they have a consumer by then.

    ``remove(queue)`` removes one and returns the units of work that it took, or raises InternalError.
    """

    def __init__(self, remove: Callable[[QueueHandle], int], in_slices: InSlices) -> None:
        self._remove = remove
        self._in_slices = in_slices
        self._queues: dict[QueueHandle, None] = {}

    def attempt(self, queue: QueueHandle) -> bool:
        """Remove ``queue`` now if possible; False if it has become overdue."""
        return self._attempt(queue) >= 0

    def go_on(self) -> None:
        """The store works again."""
        if self._queues:
            self._in_slices(self._next_slice)

    def _attempt(self, queue: QueueHandle) -> int:
        """The units of work it took to remove ``queue``; -1 if the store refuses."""
        try:
            return self._remove(queue)
        except InternalError:
            self._queues[queue] = None
            return -1

    def _next_slice(self) -> bool:
        """Remove some of the queues; True if all are removed, or the store refuses again."""
        spent = 0
        while self._queues and spent < SLICE:
            queue = self._queues.popitem()[0]
            spent += 1
            if not queue.deleted and queue.is_unused():
                units = self._attempt(queue)
                if units < 0:
                    return True
                spent += units
        return not self._queues
