"""The node-wide budget for message objects."""

from __future__ import annotations


class MemoryBudget:
    """``used`` bytes of ``limit``; queues add and subtract directly as they take and drop content."""

    __slots__ = ("limit", "used")

    def __init__(self, limit_bytes: int = 0) -> None:
        self.limit = limit_bytes
        self.used = 0
