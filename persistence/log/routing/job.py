"""What the thread of the routing logs does in one go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ..format.record import Batch
from .partition import RoutingPartition
from .retention import Retention

logger = logging.getLogger(__name__)


class Job:
    """One job of the thread, made and evaluated on the event loop."""

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync
        #: Batches to write, and their size.
        self.items: list[tuple[RoutingPartition, list[tuple[Batch, list[bytes]]]]] = []
        self.size = 0
        #: Partitions whose segment is closed without new batches.
        self.idle: list[RoutingPartition] = []
        #: Partitions with written batches, to be synced if ``sync``.
        self.written: list[RoutingPartition] = []
        #: For each partition directory the base below which segments are closed; None: remove nothing.
        self.retention: dict[str, int] | None = None
        # The results.
        self.failed: list[tuple[RoutingPartition, Exception]] = []
        self.synced: list[RoutingPartition] = []
        self.removed: dict[str, int] = {}

    def run(self, retention: Retention) -> None:
        """Runs in the thread."""
        for owner, items in self.items:
            self._attempt(owner, partial(owner.writer.write, items))
        for owner in self.idle:
            self._attempt(owner, owner.writer.close_segment)
        if self.sync:
            self.synced = [owner for owner in self.written if self._attempt(owner, owner.writer.sync)]
        if self.retention is not None:
            try:
                retention.remove_old(self.retention, self.removed)
            except Exception as error:
                logger.warning("cannot remove old segments of the routing log: %s", error)

    def _attempt(self, owner: RoutingPartition, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception as error:
            if not any(failed is owner for failed, _ in self.failed):
                self.failed.append((owner, error))
            return False
        return True
