"""One round of the sync, which goes from the event loop to the worker and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..format.record import Batch
from ..format.segment import Segment

if TYPE_CHECKING:
    from ..queue.queue_log import QueueLog
    from .writer import PartitionWriter


class Submission:
    """The work that one log hands to one round."""

    __slots__ = (
        "again",
        "batches",
        "checkpoint",
        "checkpoint_error",
        "checkpoint_number",
        "end",
        "error",
        "generation",
        "index",
        "log",
        "removed",
        "writer",
    )

    def __init__(self, log: QueueLog, writer: PartitionWriter) -> None:
        self.log = log
        self.writer = writer
        self.batches: list[Batch] = []
        #: The log was fenced by a passing error, and this is everything that it could not write since.
        self.again = False
        #: Everything below is durable once the round has succeeded.
        self.end = 0
        self.generation = 0
        #: A checkpoint to write after the sync, and the segments to remove after the checkpoint.
        self.checkpoint: bytes | None = None
        self.checkpoint_number = 0
        #: Path and content of the active segment's index, to write with the checkpoint.
        self.index: tuple[str, bytes] | None = None
        self.removed: list[Segment] = []
        self.error: Exception | None = None
        #: Only the checkpoint could not be written for now. The batches are durable without it.
        self.checkpoint_error: OSError | None = None


class Round:
    """The submissions of all logs that were dirty."""

    def __init__(self, submissions: list[Submission], started: float, now_us: int) -> None:
        self.submissions = submissions
        self.started = started
        self.now_us = now_us
        #: Sync everything the journal covers and remove it.
        self.drain_journal = False
        #: Sync log by log: an attempt through the journal has failed.
        self.without_journal = False
        #: (log, error) of logs that failed outside their own submission.
        self.failures: list[tuple[QueueLog, Exception]] = []
        self.journal_pending = False
