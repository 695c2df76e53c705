"""Counts the octets of the messages that a start found, a little with each tick.

A start reads no message. Queues whose length is limited in octets count theirs at once, because they need the
number; those of the others are only shown. To read them takes ``COUNT_S`` of the loop in each tick at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from vhosts.long_lists import unwatched

#: Seconds of one tick.
COUNT_S = 0.1


class RecoveredBytes:
    """The queues of one node that have not counted all of their octets."""

    def __init__(self) -> None:
        self._queues: list[Any] = unwatched([])

    def find(self, queues: Iterable[Any]) -> None:
        """``queues`` are those that a start found."""
        self._queues.extend(queue for queue in queues if queue.view().body_bytes() is None)

    def count(self) -> Iterator[None]:
        """Count for one tick."""
        spent_s = 0.0
        queues = self._queues
        while queues and spent_s < COUNT_S:
            begun_s = time.perf_counter()
            queue = queues[len(queues) - 1]
            if queue.deleted or queue.view().count_bytes():
                queues.pop()
            spent_s += time.perf_counter() - begun_s
            yield
