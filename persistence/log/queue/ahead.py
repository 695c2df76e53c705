"""Logs that were written while the system's clock was ahead of what it is at a start."""

from __future__ import annotations

import logging

from ...clock import JUMP_US
from .queue_log import QueueLog
from .times import SEGMENTS_LEAST, turn_back

logger = logging.getLogger(__name__)


class Ahead:
    """Those of one start; one line tells of all."""

    def __init__(self) -> None:
        #: How far each was ahead in microseconds, its directory, and its end.
        self._turned: list[tuple[int, str, int]] = []
        self._kept: list[tuple[int, str, int]] = []

    def go_on(self, log: QueueLog, now_us: int) -> None:
        """Let a log that was recovered go on with the clock's time, if its own lies far ahead of that."""
        ahead_us = log.batches.last_us - now_us
        if ahead_us > JUMP_US:
            turned = turn_back(log.batches, log.checkpoints, now_us)
            (self._turned if turned else self._kept).append((ahead_us, log.partition.directory, log.end))

    def tell(self) -> None:
        """Say what was done, once."""
        if self._turned:
            ahead_us, directory, end = max(self._turned)
            logger.warning(
                "the system's clock was up to %d s ahead of now when %d log(s) were written, %s furthest: "
                "a new segment from offset %d on has the clock's time again",
                ahead_us // 1_000_000,
                len(self._turned),
                directory,
                end,
            )
        if self._kept:
            ahead_us, directory, _ = max(self._kept)
            logger.warning(
                "%d log(s) are ahead of the system's clock, %s by %d s, and keep their last time: the last "
                "%d segments are too small for another one",
                len(self._kept),
                directory,
                ahead_us // 1_000_000,
                SEGMENTS_LEAST,
            )
        self._turned, self._kept = [], []
