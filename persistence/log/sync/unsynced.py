"""What of the logs is not durable yet, for operators: its bytes, and how long the disk has been at it."""

from __future__ import annotations

from typing import NamedTuple


class Unsynced(NamedTuple):
    """Figures of one moment."""

    #: Seconds since the round under way began, 0 without one: the age of the oldest unfinished sync.
    round_s: float
    #: Bytes of the batches in that round.
    round_bytes: int
    #: Bytes of all logs that are not known to be durable: those of the round, those that wait for the next
    #: one, and those of logs that wait for disk space.
    bytes: int
