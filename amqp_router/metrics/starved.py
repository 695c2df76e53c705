"""What part of the time the consumers of a queue take what it has: RabbitMQ's ``consumer_capacity``.

Each sample asks whether messages are ready that no consumer takes, because of their prefetch limits or slow
connections. ``QueueHandle.starved`` has the answers of the last ``SAMPLES``, one bit each, so a queue without
a backlog costs one look. RabbitMQ measures the same times and weighs the last seconds most.
"""

from __future__ import annotations

from typing import Any

#: A minute.
SAMPLES = 12
_MASK = (1 << SAMPLES) - 1


def note_starved(queue: Any, ready: int) -> None:
    """Take a sample of ``queue``, which has ``ready`` messages."""
    before = queue.starved
    is_starved = ready > 0 and bool(queue.consumers) and not queue.view().can_deliver()
    if before or is_starved:
        queue.starved = (before << 1 | is_starved) & _MASK


def capacity(queue: Any) -> float:
    """The part of the last minute in which its consumers took what was ready; 0 without consumers."""
    if not queue.consumers:
        return 0
    return round(1 - int(queue.starved).bit_count() / SAMPLES, 3)
