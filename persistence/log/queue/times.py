"""The time that a log's batches get. It does not fall within a segment, and may fall from one to the next.

Small steps of the clock are levelled out: a batch gets no earlier time than the one before it. If the last
time lies far ahead of the clock, because something was written while the clock was wrong, the log goes on in
a new segment with the clock's time.
"""

from __future__ import annotations

from ...clock import JUMP_US
from ..sync.checkpoints import Checkpoints
from .batches import Batches
from .partition import Partition

#: A clock that goes to and fro must not make very many segments: none is begun for it while the last
#: SEGMENTS_LEAST segments together have less than BYTES_LEAST octets, or less than a full segment.
SEGMENTS_LEAST = 8
BYTES_LEAST = 1 << 20


def go_on(batches: Batches, checkpoints: Checkpoints, now_us: int) -> bool:
    """Take the clock's time, ``now_us``; False if the log must keep its own, which lies far ahead of it."""
    if now_us >= batches.last_us:
        batches.last_us = now_us
    elif batches.last_us - now_us > JUMP_US:
        return turn_back(batches, checkpoints, now_us)
    return True


def turn_back(batches: Batches, checkpoints: Checkpoints, now_us: int) -> bool:
    """Go on at ``now_us``, before the last time, in a new segment; False if there are too many small ones."""
    partition = batches.closed.partition
    if partition.active.size:
        if is_crumbled(partition):
            return False
        batches.close(batches.end)  # what was taken before keeps the time before
        partition.roll(batches.closed.end)
        checkpoints.is_due = True
    batches.last_us = now_us
    batches.taken.pull_back(now_us)
    return True


def is_crumbled(partition: Partition) -> bool:
    """Whether the last segments are so small that the clock must not make another one."""
    last = partition.segments[-SEGMENTS_LEAST:]
    least = min(BYTES_LEAST, partition.options.segment_bytes_max)
    return len(last) == SEGMENTS_LEAST and sum(segment.size for segment in last) < least
