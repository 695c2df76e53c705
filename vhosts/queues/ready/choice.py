"""Which order a queue has. A new one is a module beside this one, and a line here."""

from __future__ import annotations

from vhosts.queues.ready.due import DueOrder
from vhosts.queues.ready.fifo import FifoOrder
from vhosts.queues.ready.order import ReadyOrder
from vhosts.queues.ready.priority import PriorityOrder
from vhosts.queues.ready.quorum import QuorumOrder
from vhosts.queues.settings import QueueSettings


def new_order(settings: QueueSettings) -> ReadyOrder:
    """An empty order for a queue with these settings."""
    if settings.is_delayed:
        return DueOrder()
    if settings.max_priority:
        return PriorityOrder(settings.max_priority)
    if settings.is_quorum:
        return QuorumOrder()
    return FifoOrder()
