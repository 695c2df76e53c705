"""One round of the sync, which goes from the event loop to the worker and back, and the logs in it.

Compiled, as the sync is: see ``round.pxd``.
"""

from __future__ import annotations

from typing import Protocol

from ...plan import Plan, Write
from ..format.record import Batch
from ..format.segment import Segment
from .checkpoints import Checkpoints
from .marks import MarkedLog
from .writer import Fenced, PartitionWriter


class Told(Protocol):
    """What the sync asks of ``due.Due``, which imports this module."""

    @property
    def is_any(self) -> bool:
        """Whether the log has told the sync of messages or settles for the next round."""


class SyncedLog(MarkedLog, Protocol):
    """What the sync asks of a log, and tells it."""

    writer: PartitionWriter
    #: Why the log is fenced, and whether that is an error that passes.
    failed: Exception | None
    passing: bool
    deleted: bool

    @property
    def due(self) -> Told: ...

    @property
    def checkpoints(self) -> Checkpoints: ...

    @property
    def unsynced_bytes(self) -> int:
        """Bytes of its batches, closed or open, that are not known to be durable."""

    def seal(self, now_us: int = 0) -> None:
        """Close the open batches."""

    def take(self, *, again: bool = False) -> Submission:
        """The sealed batches; called right after ``seal``.

        ``again``: everything that is not known to be written, for another attempt after a passing error.
        """

    def written(self, end: int, generation: int) -> None:
        """A round has made everything below ``end`` durable."""

    def checkpoint_written(self, number: int, offset: int) -> None:
        """... and a checkpoint."""

    def request_checkpoint(self) -> int:
        """Let the next round write a checkpoint."""

    def fail(self, error: Exception) -> None:
        """Fence the log."""

    def resume(self) -> None:
        """Another attempt has succeeded."""


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
        "write",
        "writer",
    )

    def __init__(self, log: SyncedLog, writer: PartitionWriter) -> None:
        self.log = log
        self.writer = writer
        self.batches: list[Batch] = []
        #: While a plan is made: the write that the next batches join.
        self.write: Write | None = None
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
        #: The plan of the flusher. If it fails and goes through the journal, the worker does the round.
        self.plan: Plan | None = None
        #: (log, error) of logs that failed outside their own submission.
        self.failures: list[tuple[Fenced, Exception]] = []
        self.journal_pending = False
