"""Checkpoints of a mirrored log wait until the high watermark has passed what they fold in.

What lies above the watermark may be cut by a truncation, and a settle that is folded into a checkpoint cannot
be undone. So the settle state above the watermark is only in memory and in the records, and a start or a
truncation computes it again. Two checkpoints wait at most: the first, which the watermark will reach soonest,
and the last.
"""

from __future__ import annotations

from typing import NamedTuple

from ..format.segment import Segment


class Held(NamedTuple):
    """A checkpoint that is ready to be written: the state of everything below ``end``."""

    number: int
    end: int
    state: bytes
    #: Segments that it makes superfluous, and path and content of the active segment's index.
    removed: list[Segment]
    index_file: tuple[str, bytes] | None
    #: The log's start from then on.
    start: int = 0


def hold(waiting: list[Held], held: Held) -> None:
    """Add a checkpoint, which is newer than all others."""
    if len(waiting) > 1:
        dropped = waiting.pop()
        held = held._replace(removed=dropped.removed + held.removed)
    waiting.append(held)


def reached(waiting: list[Held], watermark: int) -> Held | None:
    """Take the newest checkpoint that may be written now; None if none may."""
    found: Held | None = None
    while waiting and waiting[0].end <= watermark:
        removed = found.removed if found is not None else []
        found = waiting.pop(0)
        found = found._replace(removed=removed + found.removed)
    return found
