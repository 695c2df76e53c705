"""What operators may know of a queue of this node (``handle.QueueView``)."""

from __future__ import annotations

from vhosts.queues.handle import Consumer, QueueView
from vhosts.queues.mortal import MortalQueue
from vhosts.queues.settings import QueueSettings


class LocalView(QueueView):
    """Reads the parts of ``queue``; made anew by whoever looks."""

    __slots__ = ("_queue",)

    def __init__(self, queue: MortalQueue) -> None:
        self._queue = queue

    def settings(self) -> QueueSettings:
        return self._queue.settings

    def in_memory(self) -> int:
        return self._queue.ready.in_memory()

    def memory_bytes(self) -> int:
        return self._queue.ready.memory_bytes()

    def body_bytes(self) -> int | None:
        ready = self._queue.ready
        return ready.body_bytes if not ready.count or ready.has_counted_bytes() else None

    def count_bytes(self) -> bool:
        return self._queue.ready.count_bytes()

    def transient_bytes(self) -> int:
        return self._queue.ready.transient_bytes

    def memory_bodies(self) -> int:
        return self._queue.ready.memory_bodies()

    def put_aside(self) -> tuple[int, int]:
        return self._queue.ready.put_aside()

    def persistent_count(self) -> int:
        log = self._queue.log
        return log.batches.state.live if log is not None else 0

    def capacity(self, now_us: int) -> float:
        return self._queue.dispatch.capacity(now_us) if self._queue.consumers else 0.0

    def can_deliver(self) -> bool:
        return self._queue.dispatch.turn is not None

    def holder_count(self) -> int:
        return max(self._queue.held_count, 0)

    def has_single_active(self) -> bool:
        return self._queue.dispatch.is_single

    def active_consumer(self) -> Consumer | None:
        return self._queue.dispatch.active

    def exclusive_consumer(self) -> Consumer | None:
        queue = self._queue
        return next(iter(queue.consumers)) if queue.consumers and queue.dispatch.exclusive else None
