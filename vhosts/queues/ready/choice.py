"""Which order a queue has. A new one is a module beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.message import Message
from vhosts.queues.ready.due import DueOrder
from vhosts.queues.ready.fifo import FifoOrder
from vhosts.queues.ready.order import ReadyOrder
from vhosts.queues.ready.priority import PriorityOrder
from vhosts.queues.settings import QueueSettings


def new_order(
    settings: QueueSettings, discard: Callable[[list[Message | None]], None] | None = None
) -> ReadyOrder:
    """An empty order for a queue with these settings. ``discard`` frees a long list in later turns."""
    if settings.is_delayed:
        return DueOrder()
    if settings.max_priority:
        return PriorityOrder(settings.max_priority)
    return FifoOrder(discard)
